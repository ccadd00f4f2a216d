package store

import (
	"errors"
	"math"
	"math/bits"
)

// ErrOverflow: an amount does not fit into int64 nano-USD.
var ErrOverflow = errors.New("the amount does not fit into 64 bits of nano-USD")

// tokensPerPrice is the unit of Price: nano-USD for that many tokens.
const tokensPerPrice = 1_000_000

// ChargeOf is what u costs at p in nano-USD, rounded up once on the sum. It
// fails rather than overflow, and on negative counts or prices.
func ChargeOf(p Price, u Usage) (int64, error) {
	var hi, lo uint64
	for _, t := range [...]struct{ price, n int64 }{
		{p.Input, u.FreshInput}, {p.Cached, u.CachedInput}, {p.CacheWrite, u.CacheWrite},
		{p.CacheWriteHour, u.CacheWriteHour}, {p.Output, u.Output},
	} {
		if t.price < 0 || t.n < 0 {
			return 0, errors.New("cannot price negative tokens or prices")
		}
		h, l := bits.Mul64(uint64(t.price), uint64(t.n))
		var c uint64
		lo, c = bits.Add64(lo, l, 0)
		hi, c = bits.Add64(hi, h, c)
		if c != 0 {
			return 0, ErrOverflow
		}
	}
	lo, c := bits.Add64(lo, tokensPerPrice-1, 0)
	hi += c
	if hi >= tokensPerPrice {
		return 0, ErrOverflow
	}
	q, _ := bits.Div64(hi, lo, tokensPerPrice)
	if q > math.MaxInt64 {
		return 0, ErrOverflow
	}
	return int64(q), nil
}
