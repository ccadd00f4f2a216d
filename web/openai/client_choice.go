package openai

import (
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// estimate is how many tokens stand behind the n bytes of an event. Most servers
// send one token an event, and a token is some four bytes: less than two tokens'
// worth is taken for one.
func estimate(n int) int {
	if n == 0 {
		return 0
	}
	return max(1, n/4)
}

// choicePiece is one member of choices, of a chunk or of a whole answer. JSON
// members come in any order, so it is read whole before anything is made of it.
type choicePiece struct {
	index   int // -1: not stated
	text    string
	mind    string // reasoning
	refusal string
	calls   []callPiece
	finish  string
	stop    string // the stop string that matched, as vLLM tells it
	usage   counted
	fault   *told // OpenRouter tells a failed choice inside it
	lps     []infer.TokenLogprob
	tokens  int // members of logprobs: tokens behind the text

	inside    int // where the choice's inside begins
	empty     bool
	body      int // where the inside of its delta or message begins
	bodyEmpty bool
	role      bool
	finishAt  span
	indexAt   span
}

// readChoice reads one member of choices into p, whose slices are used again.
// Log-probabilities are kept only if wanted, and counted always.
func readChoice(c *jsonread.Cursor, p *choicePiece, lps bool) {
	*p = choicePiece{index: -1, usage: noCount(), calls: p.calls[:0]}
	object := c.Object()
	p.empty = true
	for p.inside = c.Offset(); object && c.More(); {
		p.empty = false
		switch key := c.Key(); string(key) {
		case "index":
			p.indexAt = spanOf(c, func() {
				if n, ok := c.Int(); ok && n >= 0 && n < 1<<20 {
					p.index = int(n)
				}
			})
		case "delta", "message":
			readDelta(c, p)
		case "text": // of completions
			p.text = c.Str()
		case "finish_reason":
			c.Kind()
			p.finishAt.from = c.Offset()
			p.finish = c.Str()
			p.finishAt.to = c.Offset()
		case "stop_reason", "matched_stop": // vLLM's name and SGLang's; a token id is no string
			p.stop = c.Str()
		case "logprobs":
			readLogprobs(c, p, lps)
		case "usage": // Moonshot's place for it
			p.usage = readUsage(c)
		case "error":
			if truthy(c) {
				t := readTold(c)
				p.fault = &t
			} else {
				c.Skip()
			}
		default:
			c.Skip()
		}
	}
}

// readDelta reads a delta or a message. Reasoning goes by several names, and
// some send it under two of them at once: the first that says something counts.
func readDelta(c *jsonread.Cursor, p *choicePiece) {
	details := ""
	object := c.Object()
	p.bodyEmpty = true
	if object {
		p.body = c.Offset()
	}
	for object && c.More() {
		p.bodyEmpty = false
		switch key := c.Key(); string(key) {
		case "role":
			p.role = c.Str() != ""
		case "content":
			readContent(c, p)
		case "reasoning_content", "reasoning", "thinking", "reasoning_text":
			if k, ok := c.Kind(); ok && k == jsonread.String && p.mind == "" {
				p.mind = c.Str()
			} else {
				c.Skip()
			}
		case "reasoning_details": // OpenRouter's blocks
			details = readDetails(c)
		case "refusal":
			p.refusal = c.Str()
		case "tool_calls":
			p.calls = readCalls(c, p.calls)
		case "function_call":
			if k, ok := c.Kind(); ok && k == jsonread.Object {
				f := callPiece{index: 0, legacy: true}
				readFunction(c, &f)
				p.calls = append(p.calls, f)
			} else {
				c.Skip()
			}
		default:
			c.Skip()
		}
	}
	if p.mind == "" {
		p.mind = details
	}
}

// readContent reads a string, or the parts that Mistral sends in its place.
func readContent(c *jsonread.Cursor, p *choicePiece) {
	k, _ := c.Kind()
	if k != jsonread.Array {
		p.text = c.Str()
		return
	}
	for ok := c.Array(); ok && c.More(); {
		var text, mind string
		for ok := c.Object(); ok && c.More(); {
			switch key := c.Key(); string(key) {
			case "text":
				text = c.Str()
			case "thinking":
				mind = readThinking(c)
			case "refusal":
				p.refusal += c.Str()
			default:
				c.Skip()
			}
		}
		p.text += text
		p.mind += mind
	}
}

// readThinking reads a string or an array of {"text"}.
func readThinking(c *jsonread.Cursor) string {
	k, _ := c.Kind()
	if k != jsonread.Array {
		return c.Str()
	}
	var b strings.Builder
	for ok := c.Array(); ok && c.More(); {
		for ok := c.Object(); ok && c.More(); {
			if string(c.Key()) == "text" {
				b.WriteString(c.Str())
			} else {
				c.Skip()
			}
		}
	}
	return b.String()
}

// readDetails reads the readable text of reasoning_details.
func readDetails(c *jsonread.Cursor) string {
	var b strings.Builder
	for ok := c.Array(); ok && c.More(); {
		for ok := c.Object(); ok && c.More(); {
			switch key := c.Key(); string(key) {
			case "text", "summary":
				b.WriteString(c.Str())
			default:
				c.Skip()
			}
		}
	}
	return b.String()
}

// readLogprobs reads chat's {"content": […]} and the parallel arrays of
// completions.
func readLogprobs(c *jsonread.Cursor, p *choicePiece, keep bool) {
	var tokens []string
	var probs []float64
	for ok := c.Object(); ok && c.More(); {
		switch key := c.Key(); string(key) {
		case "content", "refusal":
			for ok := c.Array(); ok && c.More(); {
				p.tokens++
				if !keep {
					c.Skip()
					continue
				}
				p.lps = append(p.lps, readToken(c))
			}
		case "tokens":
			for ok := c.Array(); ok && c.More(); {
				p.tokens++
				if keep {
					tokens = append(tokens, c.Str())
				} else {
					c.Skip()
				}
			}
		case "token_logprobs":
			for ok := c.Array(); ok && c.More(); {
				f, ok := c.Float()
				if !ok {
					f = nan
				}
				probs = append(probs, f)
			}
		default:
			c.Skip()
		}
	}
	if len(tokens) == 0 || len(tokens) != len(probs) {
		return
	}
	for i, s := range tokens {
		lp := infer.TokenLogprob{Bytes: []byte(s), Logprob: probs[i]}
		lp.ID, _ = tokenID(s)
		p.lps = append(p.lps, lp)
	}
}

// tokenID reads vLLM's token_id:N; 0 stands for a provider that gives no ids.
func tokenID(s string) (int32, bool) {
	n, ok := strings.CutPrefix(s, "token_id:")
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseInt(n, 10, 32)
	return int32(id), err == nil && id >= 0
}

func readToken(c *jsonread.Cursor) infer.TokenLogprob {
	var lp infer.TokenLogprob
	var text string
	for ok := c.Object(); ok && c.More(); {
		switch key := c.Key(); string(key) {
		case "token":
			text = c.Str()
		case "logprob":
			lp.Logprob = readProb(c)
		case "bytes":
			lp.Bytes = readBytes(c)
		case "top_logprobs":
			for ok := c.Array(); ok && c.More(); {
				t := readToken(c)
				lp.Top = append(lp.Top, infer.TopLogprob{ID: t.ID, Bytes: t.Bytes, Logprob: t.Logprob})
			}
		default:
			c.Skip()
		}
	}
	lp.ID, _ = tokenID(text)
	if lp.Bytes == nil {
		lp.Bytes = []byte(text)
	}
	return lp
}

func readProb(c *jsonread.Cursor) float64 {
	f, ok := c.Float()
	if !ok {
		return nan
	}
	return f
}

func readBytes(c *jsonread.Cursor) []byte {
	k, _ := c.Kind()
	if k != jsonread.Array {
		c.Skip()
		return nil
	}
	out := []byte{}
	for ok := c.Array(); ok && c.More(); {
		n, ok := c.Int()
		if !ok || n < 0 || n > 255 {
			continue
		}
		out = append(out, byte(n))
	}
	return out
}

// finishWord is what a provider's finish_reason means. bad marks the words for an
// answer that failed.
func finishWord(word string) (f infer.FinishReason, bad bool) {
	switch word {
	case "stop", "eos_token", "stop_sequence", "end_turn", "eos", "completed":
		return infer.FinishStop, false
	case "length", "max_tokens", "max_output_tokens":
		return infer.FinishLength, false
	case "model_length", "model_context_window_exceeded", "context_length":
		return infer.FinishContext, false
	case "tool_calls", "function_call", "tool_use":
		return infer.FinishToolCalls, false
	case "content_filter", "safety", "sensitive", "recitation", "SAFETY", "RECITATION":
		return infer.FinishContentFilter, false
	case "refusal":
		return infer.FinishRefusal, false
	case "pause_turn", "pause":
		return infer.FinishPause, false
	case "error", "abort", "cancelled", "insufficient_system_resource", "network_error":
		return "", true
	}
	return infer.FinishStop, false // a word not yet invented: the provider says that it ended
}
