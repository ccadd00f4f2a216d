package policy

import (
	"time"

	"hearth/store"
)

// Constraint is what a check asks of one key: one of certain words, or a number or a
// time span within limits.
type Constraint struct {
	Path      string // as in Fault
	Choices   []string
	Low, High any  // int, time.Duration, or text such as a size; nil: not bounded
	Zero      bool // 0 is allowed beside them
}

// Constraints lists what Validate asks of the keys that c has. It is how documents of
// the configuration learn of it: what is checked is said nowhere else.
func (c *Config) Constraints() []Constraint {
	var out []Constraint
	v := &validator{seen: func(b Constraint) { out = append(out, b) }}
	c.check(v)
	return out
}

func (v *validator) note(b Constraint) {
	if v.seen != nil {
		v.seen(b)
	}
}

func (v *validator) noteSpan(path string, low, high time.Duration, zero bool) {
	v.note(Constraint{Path: path, Low: low, High: high, Zero: zero})
}

func (v *validator) noteRange(path string, low, high int) {
	v.note(Constraint{Path: path, Low: low, High: high})
}

// periods are the calendar windows of budgets.
var periods = []string{string(store.Day), string(store.Month), string(store.Total)}
