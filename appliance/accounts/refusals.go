package accounts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hearth/store"
)

// Failures are audited, but strangers must not be able to fill the ledger: one
// record a minute for the same thing, and a bound over all of them.
const (
	refusalEvery  = time.Minute
	refusalsAtMax = 30 // a minute, over all
	maxRefusals   = 1024
)

// refusals decides which failures are written down.
type refusals struct {
	mu    sync.Mutex // guards what follows
	since time.Time
	said  int
	unsay int                  // not written in this minute
	by    map[string]time.Time // when something was last written
}

// due says whether to write a failure of this kind now, and how many were left
// out before it.
func (r *refusals) due(key string, now time.Time) (bool, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.since) >= time.Minute {
		r.since, r.said = now, 0
		for k, at := range r.by {
			if now.Sub(at) >= refusalEvery {
				delete(r.by, k)
			}
		}
	}
	if r.by == nil {
		r.by = map[string]time.Time{}
	}
	if _, ok := r.by[key]; ok || r.said >= refusalsAtMax || len(r.by) >= maxRefusals {
		r.unsay++
		return false, 0
	}
	r.by[key] = now
	r.said++
	n := r.unsay
	r.unsay = 0
	return true, n
}

// refused writes a failed sign-in into the audit trail. who is a name of ours,
// never what was typed: people type passwords into the wrong field.
func (a *Accounts) refused(ctx context.Context, method, who, peer, why string) {
	network := networkOf(peer)
	if who == "" {
		who = "no account"
	}
	ok, left := a.refusals.due(method+"\x00"+who+"\x00"+network, a.o.Now())
	if !ok {
		return
	}
	detail := method + " from " + network + ": " + why
	if left > 0 {
		detail += fmt.Sprintf(" (%d more refusals were not written down)", left)
	}
	a.record(ctx, store.Audit{Actor: "nobody from " + network, Action: "account/refused", Subject: who, Detail: detail})
}

// record appends to the audit trail. That it cannot is logged: the ledger being
// full must not keep the owner out.
func (a *Accounts) record(ctx context.Context, r store.Audit) {
	if a.o.Audit == nil {
		return
	}
	if err := a.o.Audit(context.WithoutCancel(ctx), r); err != nil {
		a.o.Log.Error("cannot write the audit trail", "action", r.Action, "error", err)
	}
}
