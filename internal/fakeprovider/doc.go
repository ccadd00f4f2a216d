// Package fakeprovider plays a model provider for tests: one server on loopback
// that speaks the wire of every provider (OpenAI chat, completions, responses
// and embeddings, also under Azure's paths; Anthropic messages, also under
// Vertex's and Bedrock's; Gemini; Ollama; Bedrock Converse), answers by script,
// and fails in every way a provider or the network can.
//
// A Script says what comes back: an Answer in no dialect, written in the one
// that was asked in; or exact bytes; or a failure. It also says how it travels:
// framing, packets, compression, silence, and where it breaks off. The server
// keeps every request it saw, when its peer hung up, and a bill to the
// nano-dollar of what it would charge.
//
// It reads and writes connections itself, so that it can do what a well-behaved
// HTTP server cannot.
package fakeprovider
