package store

import (
	"context"
	"strings"
	"time"
	"unicode"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// audited appends a record of a change that is made in the same transaction.
func (w *writer) audited(a Audit) {
	for _, p := range []*string{&a.Actor, &a.Action, &a.Subject, &a.Detail} {
		*p = clip(readable(*p), maxString)
	}
	w.append(&Record{Kind: KindAudit, Audit: &a})
}

// actorKey is where a context says who acts.
type actorKey struct{}

// As names who makes changes under the context that it returns, for the audit
// trail: "admin socket, uid 0", for instance.
func As(ctx context.Context, actor string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// Actor is who acts under ctx; empty if nobody said.
func Actor(ctx context.Context) string {
	a, _ := ctx.Value(actorKey{}).(string)
	return a
}

// audit checks a record of a change that moved no money.
func (c *checker) audit(r *Record) {
	c.rep.Audits++
	if len(r.Postings) > 0 {
		c.fault(r.Seq, r.RequestID, "it is an audit that moves money")
	}
}

// AuditEntry is one entry of the audit trail.
type AuditEntry struct {
	Seq  uint64    `json:"seq"`
	At   time.Time `json:"at"`
	Kind Kind      `json:"kind"`
	Audit
}

// AuditPage is a piece of the audit trail, newest first. Next is as of Page.
type AuditPage struct {
	Entries []AuditEntry `json:"entries"`
	Next    uint64       `json:"next,omitempty"`
}

// Audits gives one page of the audit trail: corrections and changes of keys, at
// most limit (0: 100), before the record `cursor` (0: the newest).
func (s *Store) Audits(ctx context.Context, limit int, cursor uint64) (AuditPage, error) {
	if limit < 0 || limit > 1000 {
		return AuditPage{}, infer.Invalid("limit", "cannot list %d entries at once: want 1 to 1000", limit)
	}
	if limit == 0 {
		limit = 100
	}
	p := AuditPage{Entries: []AuditEntry{}}
	err := s.viewLedger(ctx, func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketLedger).Cursor()
		k, v := c.Last()
		if cursor != 0 {
			c.Seek(be64(cursor))
			k, v = c.Prev()
		}
		for n := 1; k != nil; k, v = c.Prev() {
			seq := beUint64(pad8(k))
			if kindAt(v).hasAudit() {
				r, err := parseRecord(seq, v)
				if err != nil {
					return err
				}
				p.Entries = append(p.Entries, AuditEntry{r.Seq, r.At, r.Kind, *r.Audit})
			}
			if n++; len(p.Entries) == limit || n > maxScan {
				if p.Next = seq; seq <= 1 {
					p.Next = 0
				}
				return nil
			}
		}
		return nil
	})
	return p, readError(err)
}

// kindAt is the kind of an encoded record, not checked.
func kindAt(b []byte) Kind {
	if len(b) < 2 {
		return 0
	}
	return Kind(b[1])
}

// Audit appends a change made elsewhere to the audit trail, by whom ctx says: of
// the configuration, a model, an account.
func (s *Store) Audit(ctx context.Context, a Audit) error {
	if a.Actor == "" {
		a.Actor = Actor(ctx)
	}
	return s.do(ctx, newOp(opOther, func(w *writer) error {
		w.audited(a)
		return nil
	}))
}

// legible says whether a text is one line that does nothing to a terminal: no
// control character, none that turns the direction of what stands around it.
func legible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// readable makes a text legible, for records of what others have named: a line
// feed must not make a second record of one, as it is shown.
func readable(s string) string {
	if legible(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
