package openai

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// counted is a usage object as it stood on the wire; -1: not stated.
type counted struct {
	prompt, completion, total int
	cached, write, thinking   int
}

func noCount() counted { return counted{-1, -1, -1, -1, -1, -1} }

// readUsage reads a usage object. Some say where their tokens came from inside
// details, some beside the totals: DeepSeek's prompt_cache_hit_tokens, Moonshot's
// cached_tokens, the names of Anthropic that LiteLLM keeps.
func readUsage(c *jsonread.Cursor) counted {
	u := noCount()
	for ok := c.Object(); ok && c.More(); {
		switch key := c.Key(); string(key) {
		case "prompt_tokens", "input_tokens":
			count(c, &u.prompt)
		case "completion_tokens", "output_tokens":
			count(c, &u.completion)
		case "total_tokens":
			count(c, &u.total)
		case "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens":
			count(c, &u.cached)
		case "cache_creation_input_tokens":
			count(c, &u.write)
		case "reasoning_tokens":
			count(c, &u.thinking)
		case "prompt_tokens_details", "input_tokens_details":
			for ok := c.Object(); ok && c.More(); {
				switch key := c.Key(); string(key) {
				case "cached_tokens":
					count(c, &u.cached)
				case "cache_write_tokens", "cache_creation_tokens":
					count(c, &u.write)
				default:
					c.Skip()
				}
			}
		case "completion_tokens_details", "output_tokens_details":
			for ok := c.Object(); ok && c.More(); {
				if string(c.Key()) == "reasoning_tokens" {
					count(c, &u.thinking)
				} else {
					c.Skip()
				}
			}
		default:
			c.Skip()
		}
	}
	return u
}

func count(c *jsonread.Cursor, dst *int) {
	if n, ok := c.Int(); ok && n >= 0 && n <= wire.MaxCount {
		*dst = int(n)
	}
}

// stated tells whether the object says how many tokens there were. A zero that
// is stated is a fact; an empty object states nothing.
func (u *counted) stated() bool { return u.prompt >= 0 || u.completion >= 0 }

// usage brings the counts into disjoint buckets: on this wire prompt_tokens
// includes what came from a cache and what went into it.
func (u *counted) usage() infer.Usage {
	prompt, completion, thinking := max(0, u.prompt), max(0, u.completion), max(0, u.thinking)
	if thinking > 0 && u.total == prompt+completion+thinking {
		completion += thinking // xAI counts reasoning beside the completion
	}
	cached := min(max(0, u.cached), prompt)
	return infer.Usage{
		PromptTokens: prompt, CompletionTokens: completion,
		CachedTokens: cached, CacheWriteTokens: min(max(0, u.write), prompt-cached),
		ReasoningTokens: min(thinking, completion),
	}
}
