package openai

import (
	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// appendUsage appends the usage object. prompt_tokens includes the cached ones,
// as this wire has it.
func appendUsage(dst []byte, u infer.Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.PromptTokens))
	dst = append(dst, `,"completion_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.CompletionTokens))
	dst = append(dst, `,"total_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.PromptTokens+u.CompletionTokens))
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.CachedTokens))
	if u.CacheWriteTokens > 0 {
		dst = append(dst, `,"cache_write_tokens":`...)
		dst = jsonwrite.Int(dst, int64(u.CacheWriteTokens))
	}
	dst = append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...)
	dst = jsonwrite.Int(dst, int64(u.ReasoningTokens))
	if u.Estimated { // ours: the provider gave no count
		return append(dst, `},"estimated":true}`...)
	}
	return append(dst, "}}"...)
}
