package kernels

// Chooser is a Device that can choose tokens itself, so that logits need not
// leave it. With Batch.Choices set, Step fills Picks instead of Logits for the
// rows whose Choice does not ask for Logits.
type Chooser interface {
	Device
	// MaxTop is the most alternatives that Choice.Top may ask for.
	MaxTop() int
}

// Choice is how the token after a row is chosen from its logits: first Adjust,
// then Allowed, then as the distribution says. It equals engine/sampler's rules.
type Choice struct {
	Logits bool // the row's logits are wanted; nothing is chosen

	Adjust  []Adjust // ascending by token, each once
	Allowed []uint32 // bit mask over the vocabulary of the tokens that may be chosen; nil: all

	Temperature float32 // 0: the likeliest token, the lowest of equals
	TopK        int32   // of the likeliest tokens only; ≤ 0: all
	TopP        float32 // of the smallest set of likeliest tokens with this share; ≥ 1: all
	MinP        float32 // of tokens at least this likely against the likeliest; 0: all
	Uniform     float64 // in [0, 1): the point of the distribution, in token order, that is chosen

	Logprob bool // the log-probability of the choice before Adjust, Allowed and Temperature
	Top     int  // as many of the likeliest alternatives, likewise
}

// Adjust changes the logit l of one token: to l/Divide if l > 0, else l·Divide;
// then Add is added, which may be -Inf.
type Adjust struct {
	Token  int32
	Divide float32 // 1: no change
	Add    float32
}

// Pick is a chosen token.
type Pick struct {
	Token   int32
	Logprob float32
	Top     []Ranked // falling, equal ones by rising token; its memory is reused by the next step
}

// Ranked is a token with its log-probability.
type Ranked struct {
	Token   int32
	Logprob float32
}
