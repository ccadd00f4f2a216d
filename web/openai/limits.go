package openai

// Bounds of one request. They keep what a body can make us build in proportion
// to what a model could use; the body itself is bounded by the server.
const (
	maxMessages   = 4096 // turns of a conversation
	maxParts      = 1024 // content parts of one message
	maxTools      = 256  // OpenAI takes 128; agents with several tool servers send more
	maxToolName   = 128  // OpenAI takes 64; long names of bridged tools exist
	maxToolCalls  = 256  // calls in one assistant turn
	maxN          = 128  // OpenAI's bound
	maxChoices    = 256  // prompts times n: each is a sequence of its own
	maxPrompts    = 256  // prompts of one completion
	maxStops      = 64   // OpenAI takes 4; editors that fill in code send two dozen
	maxStopBytes  = 1024 // a stop string is looked for at every token
	maxStopIDs    = 1024 //
	maxBias       = 4096 // biased tokens
	maxChoice     = 4096 // members of a choice constraint
	maxPattern    = 64 << 10
	maxGrammar    = 256 << 10
	maxTokens     = 1 << 20 // max_tokens; the context is smaller on every model we load
	maxTopLogprob = 20      // OpenAI's bound on chat; vLLM's default on both
	maxInputs     = 2048    // embedding inputs, OpenAI's bound
	maxIDs        = 1 << 20 // token ids of one prompt
	maxSalt       = 256     // bytes of cache_salt
	maxLabel      = 4096    // bytes of a label or a hint
	maxForeignN   = 1024    // choices of an answer that a provider of the same dialect may give
)
