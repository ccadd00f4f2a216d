package wire

import "strings"

// A seal on reasoning belongs to the provider that made it. The clients of
// providers whose dialect is not the caller's mark it, so that the same client
// knows it again when the caller sends it back, and others leave it out.
// Anthropic's seals carry no mark: most of their callers speak to them directly.
const (
	SealGemini    = "gemini:"
	SealResponses = "responses.1."
)

// Marked tells a seal that a client has marked as its provider's own.
func Marked(signature string) bool {
	return strings.HasPrefix(signature, SealGemini) || strings.HasPrefix(signature, SealResponses)
}
