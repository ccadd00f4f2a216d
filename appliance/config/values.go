package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time span written as text: "10s", "5m", "24h".
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	s := string(b)
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("cannot read %q as a duration, wanted for instance \"30s\", \"5m\" or \"24h\"", s)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// Std is d as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Size is a number of bytes written as text: "20MiB", "512KiB", "1GB", "4096".
type Size int64

// sizeUnits has the longer names first, so that MiB is not read as B.
var sizeUnits = []struct {
	name string
	n    int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// UnmarshalText reads a size.
func (z *Size) UnmarshalText(b []byte) error {
	s := string(b)
	for _, u := range sizeUnits {
		num, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
		if err != nil || n < 0 {
			break
		}
		if n > math.MaxInt64/u.n {
			return fmt.Errorf("%q is too large", s)
		}
		*z = Size(n * u.n)
		return nil
	}
	return fmt.Errorf("cannot read %q as a size, wanted a whole number with a unit, for instance \"20MiB\" or \"1GB\"", s)
}

func (z Size) String() string {
	n := int64(z)
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; n >= u.n && n%u.n == 0 {
			return fmt.Sprintf("%d%s", n/u.n, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// ParseUSD reads a decimal amount of US dollars as nano-dollars.
func ParseUSD(s string) (int64, error) {
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || point && frac == "" || strings.Trim(whole+frac, "0123456789") != "" {
		return 0, fmt.Errorf("cannot read %q as US dollars, wanted plain digits with a point, for instance 2.50", s)
	}
	if len(frac) > 9 {
		return 0, fmt.Errorf("cannot read %q as US dollars: at most 9 digits may stand after the point", s)
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", 9-len(frac)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read %q as US dollars: too large", s)
	}
	return n, nil
}
