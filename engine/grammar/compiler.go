package grammar

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
)

// Options bound a Compiler. Zero fields take the defaults named.
type Options struct {
	Workers      int           // compilations at once; default 1
	Queue        int           // callers that may wait for a worker; default 64
	Deadline     time.Duration // clock behind the work bound of one compilation; default 5 s
	CacheEntries int           // compiled grammars kept; default 256
	CacheBytes   int           // memory of all that are kept; default 256 MiB
	StateBytes   int           // states and masks of one grammar; default 16 MiB
}

func (o Options) withDefaults() Options {
	set := func(p *int, d int) {
		if *p <= 0 {
			*p = d
		}
	}
	set(&o.Workers, 1)
	set(&o.Queue, 64)
	set(&o.CacheEntries, 256)
	set(&o.CacheBytes, 256<<20)
	set(&o.StateBytes, 16<<20)
	if o.Deadline <= 0 {
		o.Deadline = 5 * time.Second
	}
	return o
}

// Compiler turns Exprs into Compiled grammars over one Vocab, some at a time,
// and keeps the most recently used. It is safe for concurrent use and owns no
// goroutine: work is done by the callers, who wait their turn.
type Compiler struct {
	v    *Vocab
	o    Options
	slot chan struct{} // held while compiling

	mu      sync.Mutex // guards what follows
	waiting int
	entries map[[32]byte]*list.Element // of *entry
	order   *list.List                 // front: most recently used
	stats   Stats
}

type entry struct {
	key  [32]byte
	done chan struct{} // closed when c or err is set
	c    *Compiled
	err  error
}

// Stats are counters since the start, and sizes now.
type Stats struct {
	Compiled uint64
	Refused  uint64
	Hits     uint64
	Entries  int
}

// NewCompiler returns a Compiler over v.
func NewCompiler(v *Vocab, o Options) *Compiler {
	o = o.withDefaults()
	return &Compiler{v: v, o: o, slot: make(chan struct{}, o.Workers),
		entries: map[[32]byte]*list.Element{}, order: list.New()}
}

// Stats returns the counters.
func (c *Compiler) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Entries = len(c.entries)
	return s
}

// Compile returns the compiled form of e, from the cache if it is there. The
// error is an *infer.Error that names what cannot be honoured (CodeInvalid),
// CodeOverloaded if too many wait, or the context's error.
func (c *Compiler) Compile(ctx context.Context, e Expr) (*Compiled, error) {
	key := e.digest()
	for {
		en, mine, err := c.lookup(key)
		if err != nil {
			return nil, err
		}
		if mine {
			return c.fill(ctx, en, e)
		}
		select {
		case <-en.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if en.err == nil {
			return en.c, nil
		}
		var ie *infer.Error
		if errors.As(en.err, &ie) && ie.Code == infer.CodeInvalid {
			return nil, en.err
		}
		// The one who compiled gave up for reasons of its own: try ourselves.
	}
}

// lookup finds or makes the entry of key; mine means the caller must fill it.
func (c *Compiler) lookup(key [32]byte) (en *entry, mine bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.entries[key]; el != nil {
		c.order.MoveToFront(el)
		c.stats.Hits++
		return el.Value.(*entry), false, nil
	}
	if c.waiting >= c.o.Queue {
		return nil, false, infer.Errorf(infer.CodeOverloaded, "too many grammars wait to be compiled")
	}
	c.waiting++
	en = &entry{key: key, done: make(chan struct{})}
	c.entries[key] = c.order.PushFront(en)
	c.evictLocked()
	return en, true, nil
}

// evictLocked forgets what has not been used for longest until the rest is
// within bounds. Sequences that still use it keep it alive.
func (c *Compiler) evictLocked() {
	left := int64(c.o.CacheBytes)
	for el := c.order.Front(); el != nil; el = el.Next() {
		if en := el.Value.(*entry); en.ready() {
			left -= en.c.size.Load()
		}
	}
	for c.order.Len() > 1 && (c.order.Len() > c.o.CacheEntries || left < 0) {
		en := c.order.Remove(c.order.Back()).(*entry)
		delete(c.entries, en.key)
		if en.ready() {
			left += en.c.size.Load()
		}
	}
}

// ready reports whether the entry has been filled with a grammar.
func (en *entry) ready() bool {
	select {
	case <-en.done:
		return en.err == nil
	default:
		return false
	}
}

// fill compiles e into en. Refusals stay out of the cache: they are cheap to
// find again, and an entry is worth more to a grammar that works.
func (c *Compiler) fill(ctx context.Context, en *entry, e Expr) (*Compiled, error) {
	select {
	case c.slot <- struct{}{}:
		en.c, en.err = c.compile(ctx, e)
		<-c.slot
	case <-ctx.Done():
		en.err = ctx.Err()
	}
	c.mu.Lock()
	c.waiting--
	if en.err == nil {
		c.stats.Compiled++
	} else {
		c.stats.Refused++
		if el := c.entries[en.key]; el != nil && el.Value.(*entry) == en {
			delete(c.entries, en.key)
			c.order.Remove(el)
		}
	}
	c.mu.Unlock()
	close(en.done)
	return en.c, en.err
}

// Compiled is a grammar ready for use, shared by any number of Matchers.
type Compiled struct {
	v     *Vocab
	work  int64        // steps that compiling took
	fixed int64        // bytes of the program
	size  atomic.Int64 // bytes of all

	mu sync.Mutex // guards t and everything in it
	t  *table
}

// NewMatcher returns a Matcher at the beginning of the text.
func (c *Compiled) NewMatcher() *Matcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &Matcher{c: c, t: c.t, state: c.t.start}
}
