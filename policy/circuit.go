package policy

import "time"

// circuit takes what keeps failing out of use for a while. Failures in a row
// open it; when its time is over one attempt at a time tries again (half-open),
// and what becomes of that one closes it or opens it for twice as long. The zero
// circuit is closed. Times are of the monotonic clock.
type circuit struct {
	failures int // in a row
	open     bool
	until    time.Duration // while open: no attempt before
	level    int           // times it opened in a row
	trying   bool          // the one attempt is on its way
	// epoch counts openings. What began before the last one tells nothing new.
	epoch uint64
}

// wait says until when nothing may pass; busy: one attempt tries it, and what it
// finds must be awaited.
func (c *circuit) wait(now time.Duration) (until time.Duration, busy bool) {
	switch {
	case !c.open:
		return 0, false
	case now < c.until:
		return c.until, false
	}
	return 0, c.trying
}

// enter notes that an attempt passes; trial: it is the one that tries.
func (c *circuit) enter() (epoch uint64, trial bool) {
	if c.open {
		c.trying = true
	}
	return c.epoch, c.open
}

// leave notes that an attempt has told nothing.
func (c *circuit) leave(epoch uint64, trial bool) {
	if trial && epoch == c.epoch {
		c.trying = false
	}
}

// succeed closes it.
func (c *circuit) succeed(epoch uint64) {
	if epoch == c.epoch {
		*c = circuit{epoch: c.epoch}
	}
}

// fail counts a failure and opens it after so many in a row, for first, then
// twice as long each time, at most most. after 0: never.
func (c *circuit) fail(now time.Duration, epoch uint64, after int, first, most time.Duration) {
	if epoch != c.epoch {
		return
	}
	c.failures++
	if after == 0 {
		c.open, c.trying = false, false
		return
	}
	if !c.open && c.failures < after {
		return
	}
	span := most
	if c.level < 32 && first <= most>>c.level {
		span = first << c.level
	}
	c.open, c.trying, c.until = true, false, now+span
	c.level++
	c.epoch++
}

// readmit lets one attempt try at once.
func (c *circuit) readmit(now time.Duration) {
	if c.open {
		c.until = min(c.until, now)
	}
}
