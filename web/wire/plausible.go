package wire

// MaxCount is the most tokens that a provider is believed to have counted in one
// request: more than any model can take or make. A count beyond it is a fault of
// the provider's, and what was delivered is counted instead.
const MaxCount = 1 << 28
