package appliance

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
)

const (
	revisionBucket = "config-revisions"
	keptRevisions  = 50
	maxNoteBytes   = 500
)

// Authors of revisions that nobody made by an operation.
const (
	authorStart = "file, found at start"
	authorHand  = "file, changed by hand"
	authorUndo  = "hearth, by itself"
)

// revision is one configuration that was applied.
type revision struct {
	Number int       `json:"revision"`
	At     time.Time `json:"at"`
	Author string    `json:"author"`
	// How it came: "start", "apply", "set", "rollback", "hand-edit", "undo".
	How     string   `json:"how"`
	Note    string   `json:"note,omitempty"`
	Digest  string   `json:"digest"`            // SHA-256 of the text, hexadecimal
	Bytes   int      `json:"bytes"`             // of the text
	Changed []string `json:"changed,omitempty"` // key paths, the first few
}

// revisions is the history of the configuration in the store: the last
// keptRevisions with their whole texts. It is safe for concurrent use.
type revisions struct {
	blobs *store.Blobs
	now   func() time.Time

	mu   sync.Mutex
	read bool       // list has been read from the store
	list []revision // oldest first
}

func newRevisions(s *store.Store, now func() time.Time) *revisions {
	return &revisions{blobs: s.Blobs(revisionBucket), now: now}
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func metaKey(n int) string { return fmt.Sprintf("meta/%010d", n) }
func textKey(n int) string { return fmt.Sprintf("text/%010d", n) }

// load reads the list once. mu is held.
func (r *revisions) load(ctx context.Context) error {
	if r.read {
		return nil
	}
	keys, err := r.blobs.List(ctx, "meta/", "", 1000)
	if err != nil {
		return fmt.Errorf("cannot read the revisions of the configuration: %w", err)
	}
	var list []revision
	for _, k := range keys {
		b, err := r.blobs.Get(ctx, k.Key)
		if err != nil {
			return fmt.Errorf("cannot read a revision of the configuration: %w", err)
		}
		var v revision
		if err := json.Unmarshal(b.Value, &v); err != nil {
			return fmt.Errorf("cannot read a revision of the configuration: %w", err)
		}
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b revision) int { return cmp.Compare(a.Number, b.Number) })
	r.list, r.read = list, true
	return nil
}

// all lists the revisions, the newest first.
func (r *revisions) all(ctx context.Context) ([]revision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	out := slices.Clone(r.list)
	slices.Reverse(out)
	return out, nil
}

// last is the newest revision; its number is 0 if there is none.
func (r *revisions) last(ctx context.Context) (revision, error) {
	all, err := r.all(ctx)
	if err != nil || len(all) == 0 {
		return revision{}, err
	}
	return all[0], nil
}

// text gives a revision with what it says. Number 0 is the newest.
func (r *revisions) text(ctx context.Context, number int) (revision, []byte, error) {
	all, err := r.all(ctx)
	if err != nil {
		return revision{}, nil, err
	}
	i := slices.IndexFunc(all, func(v revision) bool { return v.Number == number || number == 0 })
	if i < 0 {
		e := infer.Errorf(infer.CodeNotFound, "there is no revision %d of the configuration", number)
		if len(all) > 0 {
			e.Message += fmt.Sprintf(": kept are %d to %d", all[len(all)-1].Number, all[0].Number)
		}
		return revision{}, nil, e
	}
	b, err := r.blobs.Get(ctx, textKey(all[i].Number))
	if err != nil {
		return revision{}, nil, fmt.Errorf("cannot read revision %d of the configuration: %w", all[i].Number, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b.Value))
	if err != nil {
		return revision{}, nil, fmt.Errorf("cannot read revision %d of the configuration: %w", all[i].Number, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, config.MaxBytes+1))
	if err == nil && digestOf(text) != all[i].Digest {
		err = errors.New("its text is not the one that was kept")
	}
	if err != nil {
		return revision{}, nil, fmt.Errorf("cannot read revision %d of the configuration: %w", all[i].Number, err)
	}
	return all[i], text, nil
}

// withDigest finds the newest revision of that digest; its number is 0 if there is none.
func (r *revisions) withDigest(ctx context.Context, digest string) revision {
	all, err := r.all(ctx)
	if i := slices.IndexFunc(all, func(v revision) bool { return v.Digest == digest }); err == nil && i >= 0 {
		return all[i]
	}
	return revision{}
}

// add keeps text as the newest revision, and forgets the oldest. The text is
// written first: a revision that is listed is there whole.
func (r *revisions) add(ctx context.Context, v revision, text []byte) (revision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return v, err
	}
	v.Number, v.At, v.Digest, v.Bytes = 1, r.now().UTC(), digestOf(text), len(text)
	if n := len(r.list); n > 0 {
		v.Number = r.list[n-1].Number + 1
	}
	v.Note = clipText(v.Note, maxNoteBytes)
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	meta, err := json.Marshal(v)
	if err == nil {
		err = r.blobs.Put(ctx, textKey(v.Number), z.Bytes())
	}
	if err == nil {
		err = r.blobs.Put(ctx, metaKey(v.Number), meta)
	}
	if err != nil {
		return v, fmt.Errorf("cannot keep the revision of the configuration: %w", err)
	}
	r.list = append(r.list, v)
	for len(r.list) > keptRevisions {
		old := r.list[0].Number
		for _, key := range []string{metaKey(old), textKey(old)} {
			if err := r.blobs.Delete(ctx, key); err != nil && !errors.Is(absent(err), fs.ErrNotExist) {
				return v, fmt.Errorf("cannot forget revision %d of the configuration: %w", old, err)
			}
		}
		r.list = r.list[1:]
	}
	return v, nil
}

// clipText cuts s to at most n bytes of whole characters.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// pendingApply is an applied configuration that goes back unless it is confirmed.
type pendingApply struct {
	Revision int       `json:"revision"` // that waits
	Back     int       `json:"back_to"`  // where it goes
	Until    time.Time `json:"until"`
}

const pendingKey = "pending"

// pending is what waits for a confirmation; nil: nothing does.
func (r *revisions) pending(ctx context.Context) (*pendingApply, error) {
	b, err := r.blobs.Get(ctx, pendingKey)
	if errors.Is(absent(err), fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p pendingApply
	if err := json.Unmarshal(b.Value, &p); err != nil {
		return nil, fmt.Errorf("cannot read what waits for a confirmation: %w", err)
	}
	return &p, nil
}

func (r *revisions) setPending(ctx context.Context, p *pendingApply) error {
	if p == nil {
		err := r.blobs.Delete(ctx, pendingKey)
		if errors.Is(absent(err), fs.ErrNotExist) {
			return nil
		}
		return err
	}
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return r.blobs.Put(ctx, pendingKey, b)
}
