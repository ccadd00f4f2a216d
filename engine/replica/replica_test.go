package replica

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"
	"testing"

	"hearth/engine/infer"
)

// fake is a replica that notes what it is asked.
type fake struct {
	infer.Backend
	mu      sync.Mutex
	down    bool  // not ready
	fail    error // of the next generate, before an event
	late    error // after one
	ids     []string
	counted []string
	closed  bool
}

func (f *fake) Health(context.Context) infer.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := infer.Health{Ready: !f.down, Device: "cuda:x", Stats: infer.Stats{Steps: 3, WeightBytes: 10, StepTokens: []uint64{1, 2}, Devices: []infer.Device{{ID: "cuda:x"}}}}
	if f.down {
		h.Reason = "it is gone"
	}
	return h
}

func (f *fake) Count(_ context.Context, r *infer.Request) (infer.Count, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counted = append(f.counted, r.ID)
	return infer.Count{PromptTokens: 1}, nil
}

func (f *fake) Generate(_ context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		f.mu.Lock()
		fail, late := f.fail, f.late
		f.ids = append(f.ids, r.ID)
		f.mu.Unlock()
		if fail != nil {
			yield(infer.Event{}, fail)
			return
		}
		if !yield(infer.Event{Kind: infer.EventText, Tokens: 1}, nil) {
			return
		}
		if late != nil {
			yield(infer.Event{}, late)
		}
	}
}

func (f *fake) Close() error { f.closed = true; return nil }

func (f *fake) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ids)
}

func set(n int) (*Set, []*fake) {
	var fakes []*fake
	var members []infer.Backend
	for range n {
		f := &fake{}
		fakes, members = append(fakes, f), append(members, f)
	}
	return New(members), fakes
}

var serial int

func chat(tenant string, texts ...string) *infer.Request {
	serial++
	r := infer.NewRequest()
	r.ID, r.Tenant = fmt.Sprint("r", serial), tenant
	for _, t := range texts {
		r.Messages = append(r.Messages, infer.Message{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: t}}})
	}
	return r
}

// run generates and says which replica did.
func run(t *testing.T, s *Set, fakes []*fake, r *infer.Request) int {
	t.Helper()
	before := make([]int, len(fakes))
	for i, f := range fakes {
		before[i] = f.asked()
	}
	for _, err := range s.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range fakes {
		if f.asked() > before[i] {
			return i
		}
	}
	t.Fatal("nobody was asked")
	return -1
}

// occupy keeps n requests open on a replica.
func occupy(s *Set, i, n int) (release func()) {
	for range n {
		s.enter(i)
	}
	return func() {
		for range n {
			s.leave(i)
		}
	}
}

var long = strings.Repeat("You are a helpful assistant of a library. ", 40)

// What has a beginning in common goes to one replica, other things to the least
// busy one; other tenants share nothing.
func TestAffinity(t *testing.T) {
	s, fakes := set(3)
	release := occupy(s, 0, 1)
	at := run(t, s, fakes, chat("a", long, "first question"))
	if at == 0 {
		t.Fatalf("the first request went to the busy replica")
	}
	hold := occupy(s, at, 2)
	for i := range 5 {
		if got := run(t, s, fakes, chat("a", long, fmt.Sprint("question ", i))); got != at {
			t.Errorf("question %d went to replica %d, the beginning is at %d", i, got, at)
		}
	}
	if got := run(t, s, fakes, chat("b", long, "another tenant")); got == at {
		t.Error("another tenant's request followed the beginning")
	}
	if got := run(t, s, fakes, chat("a", "something short")); got == at {
		t.Error("a request without the beginning went to a busier replica")
	}
	more := occupy(s, at, slack)
	if got := run(t, s, fakes, chat("a", long, "when it is busy")); got == at {
		t.Error("a replica that is far busier was chosen for its cache")
	}
	more()
	hold()
	release()
	if !reflect.DeepEqual(s.open, []int{0, 0, 0}) {
		t.Errorf("requests are left: %v", s.open)
	}
}

// The longest common beginning counts.
func TestLongestBeginning(t *testing.T) {
	s, fakes := set(2)
	one := run(t, s, fakes, chat("a", long))
	other := long + strings.Repeat("More of it. ", 100)
	s.note(1-one, chat("a"), beginning(chat("a", other)))
	s.note(one, chat("a"), beginning(chat("a", long)))
	if got := run(t, s, fakes, chat("a", other, "go on")); got != 1-one {
		t.Errorf("went to %d", got)
	}
}

func TestLeastBusy(t *testing.T) {
	s, fakes := set(4)
	var ends []func()
	for i, n := range []int{3, 1, 2, 1} {
		ends = append(ends, occupy(s, i, n))
	}
	if got := run(t, s, fakes, chat("a", "x")); got != 1 {
		t.Errorf("went to %d", got)
	}
	for _, end := range ends {
		end()
	}
}

// Count and the Generate that follows go to one replica.
func TestCountedTogether(t *testing.T) {
	s, fakes := set(2)
	for range 10 {
		r := chat("a", "x")
		if _, err := s.Count(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		at := run(t, s, fakes, r)
		if c := fakes[at].counted; len(c) == 0 || c[len(c)-1] != r.ID {
			t.Fatalf("%s was counted elsewhere", r.ID)
		}
		defer occupy(s, at, 1)()
	}
}

// A replica that is not ready is not asked; one that fails before its first
// event is followed by another, one that fails later is not, nor a refusal.
func TestLostReplica(t *testing.T) {
	s, fakes := set(2)
	fakes[0].down = true
	if got := run(t, s, fakes, chat("a", "x")); got != 1 {
		t.Fatalf("went to %d", got)
	}
	if h := s.Health(t.Context()); !h.Ready || h.Degraded != "replica 0: it is gone" || h.Reason != "" {
		t.Errorf("got %+v", h)
	}
	fakes[0].down = false
	fakes[0].fail = infer.Errorf(infer.CodeUnavailable, "lost")
	if got := run(t, s, fakes, chat("a", "y")); got != 0 {
		t.Fatalf("went to %d first", got)
	}
	if fakes[1].asked() != 2 {
		t.Error("nobody else was asked")
	}
	for name, f := range map[string]func(*fake){
		"late":    func(f *fake) { f.fail, f.late = nil, infer.Errorf(infer.CodeUnavailable, "lost") },
		"refused": func(f *fake) { f.fail, f.late = infer.Invalid("x", "bad"), nil },
		"final":   func(f *fake) { f.fail = infer.Errorf(infer.CodeUnavailable, "lost").Final() },
	} {
		f(fakes[0])
		before, errs := fakes[1].asked(), 0
		for _, err := range s.Generate(t.Context(), chat("a", name)) {
			if err != nil {
				errs++
			}
		}
		if errs != 1 || fakes[1].asked() != before {
			t.Errorf("%s: %d errors, the other replica was asked %d times", name, errs, fakes[1].asked()-before)
		}
	}
	fakes[0].down, fakes[1].down = true, true
	for _, err := range s.Generate(t.Context(), chat("a", "z")) {
		if e := infer.AsError(err); e.Code != infer.CodeUnavailable || e.RetryAfter == 0 {
			t.Errorf("got %v", err)
		}
	}
	if h := s.Health(t.Context()); h.Ready || !strings.Contains(h.Reason, "replica 1: it is gone") {
		t.Errorf("got %+v", h)
	}
}

func TestStatsAndClose(t *testing.T) {
	s, fakes := set(3)
	h := s.Health(t.Context())
	if st := h.Stats; st.Steps != 9 || st.WeightBytes != 30 || !reflect.DeepEqual(st.StepTokens, []uint64{3, 6}) || len(st.Devices) != 1 {
		t.Errorf("got %+v", st)
	}
	if h.Device != "cuda:x,cuda:x,cuda:x" || h.Degraded != "" {
		t.Errorf("got %+v", h)
	}
	s.Close()
	for i, f := range fakes {
		if !f.closed {
			t.Errorf("replica %d is open", i)
		}
	}
}

// What is remembered is bounded.
func TestRecent(t *testing.T) {
	r := newRecent[int, int](3)
	for i := range 3 {
		r.put(i, i)
	}
	r.get(0)
	r.put(3, 3)
	if _, ok := r.get(1); ok {
		t.Error("the oldest is kept")
	}
	if _, ok := r.get(0); !ok || len(r.byKey) != 3 {
		t.Error("what was used is gone")
	}
	if n := len(beginning(chat("a", strings.Repeat("x", 10<<20)))); n != maxPieces {
		t.Errorf("%d pieces", n)
	}
}
