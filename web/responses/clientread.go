package responses

import (
	"math"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// stringMember is a top-level string member of an object.
func stringMember(object []byte, name string) string {
	var c jsonread.Cursor
	c.Reset(object)
	for ok := c.Object(); ok && c.More(); {
		if string(c.Key()) == name {
			return c.Str()
		}
		c.Skip()
	}
	return ""
}

// readOut is an output item of a provider.
type readOut struct {
	kind, id, callID, name, arguments, input string
	text, refusal, mind, sealed              string
	lps                                      []infer.TokenLogprob
}

func readOutput(raw []byte) (it readOut) {
	var c jsonread.Cursor
	c.Reset(raw)
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "type":
			it.kind = c.Str()
		case "id":
			it.id = c.Str()
		case "call_id":
			it.callID = c.Str()
		case "name":
			it.name = c.Str()
		case "arguments":
			it.arguments = c.Str()
		case "input":
			it.input = c.Str()
		case "encrypted_content":
			it.sealed = c.Str()
		case "content", "summary":
			readParts(&c, &it)
		default:
			c.Skip()
		}
	}
	return it
}

// readParts reads the parts of a message, or of reasoning.
func readParts(c *jsonread.Cursor, it *readOut) {
	for ok := c.Array(); ok && c.More(); {
		kind, text, refusal := "", "", ""
		var lps []infer.TokenLogprob
		for ok := c.Object(); ok && c.More(); {
			switch string(c.Key()) {
			case "type":
				kind = c.Str()
			case "text":
				text = c.Str()
			case "refusal":
				refusal = c.Str()
			case "logprobs":
				lps = readLogprobs(c)
			default:
				c.Skip()
			}
		}
		switch {
		case kind == "summary_text" || kind == "reasoning_text":
			if it.mind != "" && text != "" {
				it.mind += "\n\n"
			}
			it.mind += text
		case refusal != "":
			it.refusal += refusal
		default:
			it.text += text
			it.lps = append(it.lps, lps...)
		}
	}
}

// readLogprobs reads the tokens of a text.
func readLogprobs(c *jsonread.Cursor) (out []infer.TokenLogprob) {
	for ok := c.Array(); ok && c.More(); {
		out = append(out, readToken(c))
	}
	return out
}

func readToken(c *jsonread.Cursor) (lp infer.TokenLogprob) {
	text := ""
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "token":
			text = c.Str()
		case "logprob":
			var ok bool
			if lp.Logprob, ok = c.Float(); !ok {
				lp.Logprob = math.NaN()
			}
		case "bytes":
			for ok := c.Array(); ok && c.More(); {
				if n, ok := c.Int(); ok && n >= 0 && n < 256 {
					lp.Bytes = append(lp.Bytes, byte(n))
				}
			}
		case "top_logprobs":
			for ok := c.Array(); ok && c.More(); {
				t := readToken(c)
				lp.Top = append(lp.Top, infer.TopLogprob{Bytes: t.Bytes, Logprob: t.Logprob})
			}
		default:
			c.Skip()
		}
	}
	if lp.Bytes == nil {
		lp.Bytes = []byte(text)
	}
	return lp
}

// readObject is a provider's response object as far as it matters.
type readObject struct {
	status, reason string
	told           told
	items          [][]byte
	usage          infer.Usage
	input, output  int  // -1: not stated
	listed         bool // it has a list of output items
}

func readResponse(raw []byte) (o readObject, ok bool) {
	o.input, o.output = -1, -1
	var c jsonread.Cursor
	c.Reset(raw)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return o, false
	}
	for c.Object(); c.More(); {
		switch string(c.Key()) {
		case "status":
			o.status = c.Str()
		case "incomplete_details":
			o.reason = stringMember(c.Raw(), "reason")
		case "error":
			o.told = readTold(&c)
		case "output":
			k, _ := c.Kind()
			o.listed = k == jsonread.Array
			for ok := c.Array(); ok && c.More(); {
				if it := c.Raw(); len(o.items) < maxOutput {
					o.items = append(o.items, it)
				}
			}
		case "usage":
			o.count(&c)
		default:
			c.Skip()
		}
	}
	return o, c.End()
}

// responseError is the error that a failed response tells.
func responseError(object []byte) told {
	o, _ := readResponse(object)
	return o.told
}

// count reads the usage: input_tokens includes what came from a cache.
func (o *readObject) count(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		key := string(c.Key())
		switch {
		case key == "input_tokens":
			o.input = tokens(c)
			o.usage.PromptTokens = max(0, o.input)
		case key == "output_tokens":
			o.output = tokens(c)
			o.usage.CompletionTokens = max(0, o.output)
		case strings.HasSuffix(key, "put_tokens_details"):
			for ok := c.Object(); ok && c.More(); {
				switch string(c.Key()) {
				case "cached_tokens":
					o.usage.CachedTokens = max(0, tokens(c))
				case "cache_write_tokens":
					o.usage.CacheWriteTokens = max(0, tokens(c))
				case "reasoning_tokens":
					o.usage.ReasoningTokens = max(0, tokens(c))
				default:
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
	u := &o.usage
	u.CachedTokens = min(u.CachedTokens, u.PromptTokens)
	u.CacheWriteTokens = min(u.CacheWriteTokens, u.PromptTokens-u.CachedTokens)
	u.ReasoningTokens = min(u.ReasoningTokens, u.CompletionTokens)
}

func tokens(c *jsonread.Cursor) int {
	n, ok := c.Int()
	if !ok || n < 0 || n > wire.MaxCount {
		return -1
	}
	return int(n)
}
