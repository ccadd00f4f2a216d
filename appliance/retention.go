package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hearth/appliance/config"
	"hearth/policy"
)

// retention keeps content of requests where a [[retention]] table authorises it,
// and nowhere else. A request is matched before it is served; what it says and
// what it is answered is gathered on the way, and redacted, encrypted and
// written by one goroutine behind its back. It is safe for concurrent use.
type retention struct {
	log   *slog.Logger
	now   func() time.Time
	vault *vault
	rules atomic.Pointer[[]retentionRule]
	slots chan struct{} // one for each that is gathered to its end and not written
	in    chan *gathered
	kept  atomic.Uint64 // written
	lost  atomic.Uint64 // there was no slot
	fails atomic.Uint64 // not written
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
}

// retentionRule is one table, compiled.
type retentionRule struct {
	config.Retention
	redact                  *policy.Redactor
	prompts, answers, tools bool
}

const (
	retentionSlots = 64
	retentionSweep = time.Minute
)

// openRetention makes what keeps content. Without a table, and without anything
// kept before, no file is made.
func (a *Appliance) openRetention(context.Context) error {
	v, err := openVault(a.dir.join("retained"), a.dir.join("retained.key"), a.now)
	if err != nil {
		return fmt.Errorf("cannot open the kept content: %w", err)
	}
	r := &retention{
		log: a.log, now: a.now, vault: v, slots: make(chan struct{}, retentionSlots), in: make(chan *gathered, retentionSlots),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	if err := r.apply(a.config()); err != nil {
		return err
	}
	a.retained = r
	go r.run()
	a.onClose(r.close)
	return nil
}

// apply follows the configuration.
func (r *retention) apply(c *config.Config) error {
	rules := make([]retentionRule, len(c.Retention))
	for i, t := range c.Retention {
		redact, err := c.Config.Redactor(t.Rules, t.PII)
		if err != nil {
			return fmt.Errorf("cannot compile retention %q: %w", t.Name, err)
		}
		rules[i] = retentionRule{t, redact, slices.Contains(t.What, config.KeepPrompts), slices.Contains(t.What, config.KeepAnswers), slices.Contains(t.What, config.KeepTools)}
	}
	r.rules.Store(&rules)
	return nil
}

// find gives the first table that a request falls under; nil: none, or it is
// not in the sample.
func (r *retention) find(tenant, route string) *retentionRule {
	rules := *r.rules.Load()
	for i := range rules {
		t := &rules[i]
		if (slices.Contains(t.Tenants, "*") || slices.Contains(t.Tenants, tenant)) && (len(t.Routes) == 0 || slices.Contains(t.Routes, route)) {
			if t.Sample < 1 && rand.Float64() >= t.Sample {
				return nil
			}
			return t
		}
	}
	return nil
}

// retain begins to gather the request, if its content is to be kept.
func (c *call) retain() {
	if t := c.a.retained.find(c.grant.Tenant, c.path.Name); t != nil {
		c.gather = newGathered(t, c)
	}
}

// retains says, for the ledger, what becomes of the content: once the row is
// written there is room for it, or there is none. Empty: none is kept.
func (c *call) retains() string {
	if c.gather == nil || c.held == nil {
		return ""
	}
	name := "retention " + c.gather.rule.Name
	if c.gather.slot || c.a.retained.take() {
		c.gather.slot = true
		return name + "=keep"
	}
	c.a.retained.lost.Add(1)
	c.gather = nil
	return name + "=dropped"
}

func (r *retention) take() bool {
	select {
	case r.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// retainEnds hands over what was gathered.
func (c *call) retainEnds() {
	if g := c.gather; g != nil && g.slot {
		g.ended(c)
		c.a.retained.in <- g // there is room: it has a slot
	}
	c.gather = nil
}

// run writes what comes, and deletes what has expired.
func (r *retention) run() {
	defer close(r.done)
	tick := time.NewTicker(retentionSweep)
	defer tick.Stop()
	r.sweep()
	for {
		select {
		case g := <-r.in:
			r.write(g)
		case <-tick.C:
			r.sweep()
		case <-r.quit:
			for {
				select {
				case g := <-r.in:
					r.write(g)
				default:
					return
				}
			}
		}
	}
}

func (r *retention) write(g *gathered) {
	defer func() { <-r.slots }()
	head, body, err := g.sealable()
	if err == nil {
		err = r.vault.put(head, body, int64(g.rule.MaxBytes))
	}
	if err != nil {
		r.fails.Add(1)
		r.log.Error("content that was to be kept is lost", "request", g.head.Request, "retention", g.rule.Name, "error", err)
		return
	}
	r.kept.Add(1)
}

// sweep deletes what is older than its table allows now, or allowed when it was
// kept: whichever is sooner.
func (r *retention) sweep() {
	ttl := map[string]time.Duration{}
	for _, t := range *r.rules.Load() {
		ttl[t.Name] = t.TTL.Std()
	}
	now := r.now()
	n, err := r.vault.remove(func(h *keptHead) bool {
		most, ok := ttl[h.Retention]
		return !now.Before(h.Expires) || ok && now.Sub(h.At) >= most
	})
	if err != nil {
		r.log.Warn("expired content cannot be deleted", "error", err)
	}
	if n > 0 {
		r.log.Info("expired content was deleted", "requests", n)
	}
}

func (r *retention) close() error {
	r.once.Do(func() { close(r.quit) })
	<-r.done
	return nil
}

// retainedStats are the figures of what is kept.
type retainedStats struct {
	by                    []retainedBy
	kept, dropped, failed uint64
}

type retainedBy struct {
	name  string
	items int
	bytes int64
}

func (r *retention) stats() retainedStats {
	s := retainedStats{kept: r.kept.Load(), dropped: r.lost.Load(), failed: r.fails.Load()}
	s.by = r.vault.sums()
	for _, t := range *r.rules.Load() {
		if !slices.ContainsFunc(s.by, func(b retainedBy) bool { return b.name == t.Name }) {
			s.by = append(s.by, retainedBy{name: t.Name})
		}
	}
	return s
}

// readers are the roles that may read what a table kept; of a table that is no
// more, the owner.
func (r *retention) readers(name string) []string {
	for _, t := range *r.rules.Load() {
		if t.Name == name {
			return t.Readers
		}
	}
	return []string{"owner"}
}

// absentFile says that err is the absence of a file.
func absentFile(err error) bool { return errors.Is(err, os.ErrNotExist) }
