package grammar

// Matcher follows one sequence through a Compiled grammar. It is for use by
// one goroutine at a time; different Matchers of one Compiled may run at once.
type Matcher struct {
	c     *Compiled
	t     *table
	state int32
	ended bool
}

// Clone returns an independent copy at the same place.
func (m *Matcher) Clone() *Matcher {
	n := *m
	return &n
}

// CopyFrom moves m to where o is, both of one Compiled; it allocates nothing.
func (m *Matcher) CopyFrom(o *Matcher) { *m = *o }

// Ended reports that an end token has been accepted.
func (m *Matcher) Ended() bool { return m.ended }
