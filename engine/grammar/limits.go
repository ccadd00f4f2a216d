package grammar

import (
	"context"
	"fmt"
	"time"

	"hearth/engine/infer"
)

// Bounds on what a grammar may ask for. They hold for every front end.
const (
	maxInputBytes = 4 << 20   // schema, pattern, grammar or choices together
	maxDepth      = 64        // nesting of JSON, of groups, of brackets
	maxRules      = 10_000    // rules of one grammar
	maxExpanded   = 2_000     // copies that a counted repetition may be written out to
	maxInsts      = 1 << 20   // instructions of a program
	maxDFAStates  = 20_000    // of one automaton over code points
	maxDisjuncts  = 256       // alternatives of one type in a schema's normal form
	maxConfigs    = 8_192     // of one state; more are cut off, which only narrows the language
	maxEnum       = 100_000   // members of enum and choices
	maxCount      = 1 << 30   // minLength, maxItems and the like
	maxWork       = 2_500_000 // steps of one compilation, some 0.1 µs each
	maxMaskWork   = 8_000_000 // configs looked at for one mask
)

// budget bounds one compilation: work counted in steps, so that the same input
// meets the same answer on a busy machine, with the clock and the caller's
// context behind it.
type budget struct {
	ctx      context.Context
	deadline time.Time
	left     int64
	next     int64 // look at the clock when left falls below
	err      error
}

func newBudget(ctx context.Context, work int64, limit time.Duration) *budget {
	return &budget{ctx: ctx, deadline: time.Now().Add(limit), left: work, next: work - 10_000}
}

// spend takes n steps and reports whether compilation may go on. Once it has
// said no it stays so.
func (b *budget) spend(n int) bool {
	if b.err != nil {
		return false
	}
	b.left -= int64(n)
	if b.left < 0 {
		b.err = infer.Errorf(infer.CodeInvalid, "the grammar takes too much work to compile")
		return false
	}
	if b.left < b.next {
		b.next = b.left - 10_000
		if err := b.ctx.Err(); err != nil {
			b.err = err
			return false
		}
		if time.Now().After(b.deadline) {
			b.err = infer.Errorf(infer.CodeInvalid, "the grammar takes too long to compile")
			return false
		}
	}
	return true
}

// fail ends the compilation with err, unless it has ended already.
func (b *budget) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// fault is how front ends report: what is wrong and where in their text.
type fault struct {
	keyword string // JSON Schema keyword, else empty
	about   string // stands in for keyword where nobody has set it
	pointer string // JSON pointer, else empty
	msg     string
	loop    bool // a schema met itself while being worked out
	beyond  bool // right in form, but not offered here
	against bool // contradictory
}

func (f *fault) Error() string {
	keyword := f.keyword
	if keyword == "" {
		keyword = f.about
	}
	switch {
	case keyword != "":
		return fmt.Sprintf("%s at %s: %s", keyword, pointerText(f.pointer), f.msg)
	case f.pointer != "":
		return fmt.Sprintf("at %s: %s", pointerText(f.pointer), f.msg)
	}
	return f.msg
}

func pointerText(p string) string {
	if p == "" {
		return "#"
	}
	if len(p) > 200 {
		p = p[:200] + "…"
	}
	return "#" + p
}

// noOpposite is the fault of a keyword that a not, oneOf, if or maxContains
// would have to turn round.
func noOpposite(keyword string) *fault {
	return &fault{about: keyword, msg: "the opposite of " + keyword + " is not supported"}
}

func faultf(format string, args ...any) *fault { return &fault{msg: fmt.Sprintf(format, args...)} }
