package accounts

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// memory is a Storage that outlives the Accounts on it.
type memory struct {
	mu   sync.Mutex
	m    map[string][]byte
	fail error // of the next writes
}

func (m *memory) Get(_ context.Context, key string) (store.Blob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.m[key]
	if !ok {
		return store.Blob{}, &infer.Error{Code: infer.CodeNotFound, Cause: fs.ErrNotExist}
	}
	return store.Blob{Key: key, Value: v}, nil
}

func (m *memory) Put(_ context.Context, key string, v []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail == nil {
		m.m[key] = slices.Clone(v)
	}
	return m.fail
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.m[key]; !ok {
		return &infer.Error{Code: infer.CodeNotFound, Cause: fs.ErrNotExist}
	}
	delete(m.m, key)
	return nil
}

func (m *memory) List(_ context.Context, prefix, after string, limit int) ([]store.Blob, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []store.Blob
	for k := range m.m {
		if strings.HasPrefix(k, prefix) && k > after {
			out = append(out, store.Blob{Key: k})
		}
	}
	slices.SortFunc(out, func(a, b store.Blob) int { return strings.Compare(a.Key, b.Key) })
	return out[:min(limit, len(out))], nil
}

// everything is all that is stored, as text.
func (m *memory) everything() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	for k, v := range m.m {
		b.WriteString(k + " " + string(v) + "\n")
	}
	return b.String()
}

type world struct {
	*Accounts
	t   *testing.T
	ctx context.Context
	mem *memory

	mu     sync.Mutex
	clock  time.Time
	audits []store.Audit
	log    strings.Builder
	owned  int
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	w.clock = w.clock.Add(d)
	w.mu.Unlock()
}

func (w *world) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(b)
}

// cheap keeps tests quick: what argon2id costs is not what they are about.
var cheap = parameters{memory: 64, time: 1, threads: 1}

const (
	peer     = "192.0.2.7:5000"
	stranger = "198.51.100.9:5000"
	good     = "four quiet herons wading"
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ctx: context.Background(), mem: &memory{m: map[string][]byte{}}, clock: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	w.reopen()
	return w
}

// reopen is a restart.
func (w *world) reopen() {
	w.t.Helper()
	a, err := Open(w.ctx, Options{
		Storage: w.mem, Now: w.now, Log: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})), hashing: &cheap,
		Audit: func(_ context.Context, a store.Audit) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.audits = append(w.audits, a)
			return nil
		},
		Owned: func() { w.owned++ },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	a.Configure(Settings{Idle: time.Hour, Lifetime: 12 * time.Hour, Tenants: []string{"default", "lab"}})
	w.Accounts = a
}

func (w *world) make(name string, role admin.Role, tenant string) Account {
	w.t.Helper()
	a, err := w.CreateWith(w.ctx, name, role, tenant, good)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) signIn(name string) *admin.Session {
	w.t.Helper()
	s, err := w.SignIn(w.ctx, name, good, peer, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// in says whether a session is good.
func (w *world) in(s *admin.Session) bool {
	_, err := w.Session(w.ctx, s.Secret, peer)
	return err == nil
}

func (w *world) audited(action string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.audits {
		if a.Action == action {
			n++
		}
	}
	return n
}

func (w *world) trail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%+v", w.audits)
}

func code(err error) infer.Code {
	if err == nil {
		return ""
	}
	return infer.AsError(err).Code
}

func wantCode(t *testing.T, err error, want infer.Code) {
	t.Helper()
	if code(err) != want {
		t.Errorf("got %v, wanted code %s", err, want)
	}
}
