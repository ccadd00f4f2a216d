package invoice

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// scaled reads a decimal number, with exponent or without, times scale, rounded
// to the nearest whole.
func scaled(s string, scale int64) (int64, error) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "$")
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && (n == 0 || scale <= math.MaxInt64/max(n, -n) && n != math.MinInt64) {
		return n * scale, nil
	}
	if len(s) > 64 || s == "" {
		return 0, fmt.Errorf("cannot read %.32q as a number", s)
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		if e, err := strconv.Atoi(s[i+1:]); err != nil || e < -40 || e > 18 {
			return 0, fmt.Errorf("cannot read %.32q as a number", s)
		}
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune("0123456789.+-eE", r) }) {
		return 0, fmt.Errorf("cannot read %.32q as a number", s)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, fmt.Errorf("cannot read %.32q as a number", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	num, den := r.Num(), r.Denom()
	twice := new(big.Int).Lsh(new(big.Int).Abs(num), 1)
	twice.Add(twice, den)
	q := twice.Quo(twice, new(big.Int).Lsh(den, 1)) // half away from zero
	if !q.IsInt64() {
		return 0, fmt.Errorf("%.32q is too large", s)
	}
	if num.Sign() < 0 {
		return -q.Int64(), nil
	}
	return q.Int64(), nil
}

// instant reads a day, a time, or Unix seconds. Without a zone it is UTC.
func instant(s string) (time.Time, error) {
	s = strings.TrimSpace(s)
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 1_000_000_000 && n < 100_000_000_000 {
		return time.Unix(n, 0).UTC(), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano, "2006-01-02 15:04:05Z07:00", time.DateTime, "2006-01-02 15:04:05.999999999 MST",
		"2006-01-02T15:04:05", "01/02/2006", "20060102"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("cannot read %.40q as a day or time", s)
}
