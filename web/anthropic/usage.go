package anthropic

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// counts are the numbers of usage objects as they come; -1: not told. A later
// object replaces what it tells: the numbers are totals, not additions.
type counts struct {
	input, read, write, hour, output, thinking int64
}

func noCounts() counts { return counts{-1, -1, -1, -1, -1, -1} }

func take(c *jsonread.Cursor, dst *int64) {
	if n, ok := c.Int(); ok && n >= 0 && n <= wire.MaxCount {
		*dst = n
	}
}

// read takes the usage object that comes next.
func (u *counts) merge(c *jsonread.Cursor) {
	for ok := c.Object(); ok && c.More(); {
		switch string(c.Key()) {
		case "input_tokens":
			take(c, &u.input)
		case "output_tokens":
			take(c, &u.output)
		case "cache_read_input_tokens":
			take(c, &u.read)
		case "cache_creation_input_tokens":
			take(c, &u.write)
		case "cache_creation":
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "ephemeral_1h_input_tokens" {
					take(c, &u.hour)
				} else {
					c.Skip()
				}
			}
		case "output_tokens_details":
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "thinking_tokens" {
					take(c, &u.thinking)
				} else {
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
}

// usage is the counts in our buckets, which are disjoint on the prompt side like
// the API's, but told as a sum and its parts. What was not told is estimated.
func (u *counts) usage(prompt, output int) *infer.Usage {
	out := &infer.Usage{
		CachedTokens: int(max(0, u.read)), CacheWriteTokens: int(max(0, u.write)),
		CompletionTokens: int(u.output), PromptTokens: int(max(0, u.input) + max(0, u.read) + max(0, u.write)),
	}
	out.CacheWriteHourTokens = min(int(max(0, u.hour)), out.CacheWriteTokens)
	if u.input < 0 && u.read < 0 && u.write < 0 {
		out.PromptTokens, out.Estimated = prompt, true
	}
	if u.output < 0 {
		out.CompletionTokens, out.Estimated = output, true
	}
	out.ReasoningTokens = min(int(max(0, u.thinking)), out.CompletionTokens)
	return out
}
