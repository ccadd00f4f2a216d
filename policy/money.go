package policy

import "hearth/store"

// NanoUSD is an amount of money, 1e-9 dollars. As TOML or JSON text it is a
// decimal number of dollars, "12.50", with at most nine decimals.
type NanoUSD int64

// Price is a model's price, in nano-USD per million tokens. Charges are rounded
// up to the next nano-USD once, on the sum.
type Price struct {
	Input      NanoUSD // fresh prompt tokens
	Cached     NanoUSD // prompt tokens read from the prefix cache
	CacheWrite NanoUSD // prompt tokens written to a paid cache
	Output     NanoUSD // generated tokens, reasoning included
}

// Charge is what u costs at p. It fails rather than overflow.
func Charge(p store.Price, u store.Usage) (int64, error) { return store.ChargeOf(p, u) }
