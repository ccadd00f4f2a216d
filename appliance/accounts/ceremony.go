package accounts

import (
	"crypto/subtle"
	"sync"
	"time"

	"hearth/engine/infer"
)

// A ceremony is a sign-in or a registration that takes two requests. Between
// them it is kept in memory, under a ticket that is good once.
const (
	ceremonyLife  = 5 * time.Minute
	maxCeremonies = 2048 // strangers can begin them; the oldest goes
)

type ceremony struct {
	ends  time.Time
	bound string // what the second request must show besides the ticket; hash of a secret
	state any
}

// ceremonies are those under way.
type ceremonies struct {
	now func() time.Time

	mu    sync.Mutex // guards what follows
	open  map[string]ceremony
	order []string // tickets by age, some of which may be gone
}

func newCeremonies(now func() time.Time) *ceremonies {
	return &ceremonies{now: now, open: map[string]ceremony{}}
}

// begin keeps state for the second request.
func (c *ceremonies) begin(ticket, bound string, state any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for len(c.order) > 0 {
		k := c.order[0]
		if o, ok := c.open[k]; ok && now.Before(o.ends) && len(c.open) < maxCeremonies {
			break
		}
		delete(c.open, k)
		c.order = c.order[1:]
	}
	c.open[ticket] = ceremony{ends: now.Add(ceremonyLife), bound: hashOf(bound), state: state}
	c.order = append(c.order, ticket)
}

// end takes the state of a ticket, once.
func end[T any](c *ceremonies, ticket, bound string) (state T, err error) {
	c.mu.Lock()
	o, ok := c.open[ticket]
	delete(c.open, ticket)
	c.mu.Unlock()
	state, is := o.state.(T)
	if !ok || !is || !c.now().Before(o.ends) || subtle.ConstantTimeCompare([]byte(o.bound), []byte(hashOf(bound))) != 1 {
		return state, infer.Errorf(infer.CodeUnauthorized, "this took too long, or was begun elsewhere: please try again")
	}
	return state, nil
}
