package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"hearth/store"
)

// NanoUSD is an amount of money, 1e-9 dollars. As text it is a decimal number
// of dollars, "12.50", not negative, with at most nine decimals.
type NanoUSD int64

const nanoPerUSD = 1_000_000_000

// UnmarshalText reads a decimal number of dollars exactly.
func (n *NanoUSD) UnmarshalText(b []byte) error {
	s := string(b)
	whole, frac, dot := strings.Cut(s, ".")
	if !digits(whole) || dot && !digits(frac) || len(frac) > 9 {
		return fmt.Errorf("cannot read %.32q as dollars: want a number such as \"12.50\", with at most nine decimals", s)
	}
	w, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || w > (math.MaxInt64-nanoPerUSD)/nanoPerUSD {
		return fmt.Errorf("cannot read %.32q as dollars: it is too large", s)
	}
	f, _ := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
	*n = NanoUSD(w*nanoPerUSD + f)
	return nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// String gives the shortest exact decimal with at least two places.
func (n NanoUSD) String() string {
	sign, u := "", uint64(n)
	if n < 0 {
		sign, u = "-", -u
	}
	frac := strings.TrimRight(fmt.Sprintf("%09d", u%nanoPerUSD), "0")
	for len(frac) < 2 {
		frac += "0"
	}
	return fmt.Sprintf("%s%d.%s", sign, u/nanoPerUSD, frac)
}

// MarshalText is the inverse of UnmarshalText.
func (n NanoUSD) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// worstCase is the most that a request can cost at p: each prompt token at the
// dearest of the ways to read it, and all output that may be made.
func worstCase(p store.Price, prompt, output int) (int64, error) {
	p.Input = max(p.Input, p.Cached, p.CacheWrite, p.CacheWriteHour)
	return store.ChargeOf(p, store.Usage{FreshInput: int64(prompt), Output: int64(output)})
}
