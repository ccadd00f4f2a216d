package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// modelSpec says what to serve and how. Two equal specs are the same model.
type modelSpec struct {
	config.Model
	File    string // absolute path of what the engine opens
	CUDA    config.CUDA
	Digest  string // of the weights, if the library has it
	Licence string
	// Unloaded keeps the model known and not loaded, by an override.
	Unloaded bool
}

// openFunc makes the backend of a model: in a worker process or in this one.
type openFunc func(ctx context.Context, s modelSpec) (infer.Backend, error)

// opening is where an openFunc says how far it is, in its context.
type opening struct {
	health atomic.Pointer[func() infer.Health]
}

type openingKey struct{}

// reportOpening names what tells the health of a backend that is being opened.
func reportOpening(ctx context.Context, health func() infer.Health) {
	if o, ok := ctx.Value(openingKey{}).(*opening); ok {
		o.health.Store(&health)
	}
}

// localModel is one model of this appliance. Its backend is set once, by its
// own opener goroutine.
type localModel struct {
	spec    modelSpec
	created time.Time
	ctx     context.Context // of opening
	abandon context.CancelFunc
	opening opening
	settled chan struct{} // closed when it has loaded or failed to
	gone    chan struct{} // closed when it is retired and closed

	mu      sync.Mutex // guards below
	backend infer.Backend
	info    infer.Model
	reason  string        // why it does not answer; empty: it has answered
	failed  bool          // and will not
	loaded  time.Time     // when it first answered
	took    time.Duration // from the start to then
	users   int           // requests that hold it
	retired bool          // replaced or removed: closed by the last user
}

// What a model's reason says while nothing is wrong.
const (
	reasonLoading  = "loading"
	reasonWarming  = "warming up"
	reasonUnloaded = "it is unloaded: an operator has to load it"
)

// models is the set of local models. It is safe for concurrent use.
type models struct {
	open openFunc
	log  *slog.Logger
	ctx  context.Context // ends the openers
	stop context.CancelFunc
	wg   sync.WaitGroup // openers

	overrides overrides

	mu     sync.RWMutex // guards below
	live   map[string]*localModel
	leaves []*localModel // retired, and not closed yet when last looked
}

func newModels(open openFunc, log *slog.Logger) *models {
	ctx, stop := context.WithCancel(context.Background())
	return &models{open: open, log: log, ctx: ctx, stop: stop, live: map[string]*localModel{}}
}

// apply makes specs the served set: what is new is opened in the background,
// what is gone or changed ends when its last request has ended.
func (m *models) apply(specs []modelSpec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := make(map[string]*localModel, len(specs))
	for _, s := range specs {
		if old := m.live[s.Name]; old != nil && old.spec == s && !old.gaveUp() {
			next[s.Name] = old
			continue
		}
		lm := &localModel{spec: s, created: time.Now(), reason: reasonLoading, settled: make(chan struct{}), gone: make(chan struct{})}
		lm.ctx, lm.abandon = context.WithCancel(context.WithValue(m.ctx, openingKey{}, &lm.opening))
		next[s.Name] = lm
		if s.Unloaded {
			lm.reason = reasonUnloaded
			lm.abandon()
			close(lm.settled)
			continue
		}
		m.wg.Add(1)
		go m.start(lm)
	}
	m.leaves = slices.DeleteFunc(m.leaves, (*localModel).isGone)
	for name, old := range m.live {
		if next[name] != old {
			m.leaves = append(m.leaves, old)
			old.retire()
		}
	}
	m.live = next
}

func (lm *localModel) isGone() bool {
	select {
	case <-lm.gone:
		return true
	default:
		return false
	}
}

// draining lists what of that name is retired and serves its last requests.
func (m *models) draining(name string) (leaves []*localModel, requests int) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, lm := range m.leaves {
		if lm.spec.Name == name && !lm.isGone() {
			leaves = append(leaves, lm)
			lm.mu.Lock()
			requests += lm.users
			lm.mu.Unlock()
		}
	}
	return leaves, requests
}

// start opens a model and has it answer once: only then it is ready.
func (m *models) start(lm *localModel) {
	defer m.wg.Done()
	defer close(lm.settled)
	defer lm.abandon()
	began := time.Now()
	b, err := m.open(lm.ctx, lm.spec)
	if err != nil && lm.isRetired() {
		lm.fail("removed while it was loading")
		return
	}
	if err != nil {
		lm.fail(fmt.Sprintf("cannot load: %v", err))
		m.log.Error("model cannot be loaded", "model", lm.spec.Name, "error", err)
		return
	}
	if !lm.adopt(b) {
		b.Close() // removed while it was loading
		close(lm.gone)
		return
	}
	if err := lm.warmUp(lm.ctx, b); err != nil {
		lm.fail(fmt.Sprintf("does not answer: %v", err))
		m.log.Error("model does not answer", "model", lm.spec.Name, "error", err)
		return
	}
	lm.mu.Lock()
	lm.loaded, lm.took = time.Now(), time.Since(began)
	lm.mu.Unlock()
	m.log.Info("model ready", "model", lm.spec.Name, "device", lm.describe().Device, "took", time.Since(began).Round(time.Millisecond))
}

// warmUp has the model generate one token, and notes what it says of itself.
func (lm *localModel) warmUp(ctx context.Context, b infer.Backend) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	infos, err := b.Models(ctx)
	if err != nil {
		return err
	}
	if len(infos) == 0 {
		return errors.New("the engine lists no model")
	}
	r := infer.NewRequest()
	r.ID = "warm-up-" + lm.spec.Name
	r.Model, r.Kind = lm.spec.Name, infer.Completion
	r.Prompts = []infer.Prompt{{Text: "a"}}
	r.Sampling.MaxTokens, r.Sampling.Temperature, r.Sampling.IgnoreEOS = 1, 0, true
	tokens := 0
	for ev, err := range b.Generate(ctx, r) {
		if err != nil {
			return err
		}
		tokens += ev.Tokens
	}
	if tokens == 0 {
		return errors.New("it generated nothing")
	}
	lm.mu.Lock()
	defer lm.mu.Unlock()
	lm.reason = ""
	lm.note(infos[0])
	return nil
}

// note keeps what the engine says of itself. The caller holds mu.
func (lm *localModel) note(m infer.Model) {
	lm.info = m
	lm.info.Name, lm.info.Created = lm.spec.Name, lm.created.Unix()
	if lm.info.Licence == "" {
		lm.info.Licence = lm.spec.Licence
	}
}

func (lm *localModel) adopt(b infer.Backend) bool {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	if lm.retired {
		return false
	}
	lm.backend, lm.reason = b, reasonWarming
	return true
}

func (lm *localModel) isRetired() bool {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	return lm.retired
}

func (lm *localModel) fail(reason string) {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	lm.reason, lm.failed = reason, true
	if lm.retired && lm.backend == nil {
		close(lm.gone)
	}
}

// gaveUp says whether the model could not be opened at all, so that a reload
// should try again.
func (lm *localModel) gaveUp() bool {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	return lm.backend == nil && lm.failed
}

func (lm *localModel) describe() infer.Model {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	if lm.info.Name == "" {
		return infer.Model{Name: lm.spec.Name, Created: lm.created.Unix()}
	}
	return lm.info
}

// health asks the backend; without one the reason stands for it.
func (lm *localModel) health(ctx context.Context) infer.Health {
	lm.mu.Lock()
	b, reason := lm.backend, lm.reason
	lm.mu.Unlock()
	if b == nil {
		out := infer.Health{Reason: reason}
		if f := lm.opening.health.Load(); f != nil && reason == reasonLoading {
			out.Progress = (*f)().Progress
		}
		return out
	}
	h := b.Health(ctx)
	if reason != "" {
		h.Ready, h.Reason = false, reason
	}
	if h.Ready && h.Device != "" && h.Device != lm.describe().Device {
		lm.moved(ctx, b, h.Device)
	}
	return h
}

// moved notes that the model computes on another device now, where its terms, and
// with them its fingerprint, are others.
func (lm *localModel) moved(ctx context.Context, b infer.Backend, device string) {
	infos, err := b.Models(ctx)
	if err != nil || len(infos) == 0 {
		return // the next look asks again
	}
	lm.mu.Lock()
	defer lm.mu.Unlock()
	lm.note(infos[0])
	lm.info.Device = device
}

// retire closes the backend when its last user has gone.
func (lm *localModel) retire() {
	lm.mu.Lock()
	lm.retired = true
	b, idle := lm.backend, lm.users == 0
	opens := b == nil && !lm.failed && lm.reason == reasonLoading // adopt or fail will see
	lm.abandon()
	lm.mu.Unlock()
	switch {
	case b != nil && idle:
		b.Close()
		close(lm.gone)
	case b == nil && !opens:
		close(lm.gone)
	}
}

// acquire gives the backend of a model to one request. release must be called
// once.
func (m *models) acquire(name string) (b infer.Backend, release func(), err error) {
	m.mu.RLock()
	lm := m.live[name]
	m.mu.RUnlock()
	if lm == nil {
		return nil, nil, infer.Errorf(infer.CodeModelNotFound, "the model %q does not exist or you may not use it", name)
	}
	lm.mu.Lock()
	defer lm.mu.Unlock()
	if lm.spec.Unloaded {
		return nil, nil, infer.Errorf(infer.CodeUnavailable, "the model %q is unloaded", name)
	}
	if lm.backend == nil || lm.retired || lm.reason != "" {
		e := infer.Errorf(infer.CodeUnavailable, "the model %q is not ready", name)
		e.RetryAfter = 2 * time.Second
		e.Cause = errors.New(lm.reason)
		return nil, nil, e
	}
	lm.users++
	var once sync.Once
	return lm.backend, func() { once.Do(lm.leave) }, nil
}

func (lm *localModel) leave() {
	lm.mu.Lock()
	lm.users--
	last := lm.retired && lm.users == 0
	b := lm.backend
	lm.mu.Unlock()
	if last {
		b.Close()
		close(lm.gone)
	}
}

// names lists the models, sorted.
func (m *models) names() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	names := make([]string, 0, len(m.live))
	for n := range m.live {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// modelState is a snapshot of one model.
type modelState struct {
	info   infer.Model
	health infer.Health
}

// states lists all models with their health, sorted by name.
func (m *models) states(ctx context.Context) []modelState {
	var all []modelState
	for _, name := range m.names() {
		if lm := m.get(name); lm != nil {
			h := lm.health(ctx) // notes what it runs on
			all = append(all, modelState{lm.describe(), h})
		}
	}
	return all
}

func (m *models) get(name string) *localModel {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.live[name]
}

// ready says whether every model answers, and if not which does not.
func (m *models) ready(ctx context.Context) (bool, string) {
	states := m.states(ctx)
	states = slices.DeleteFunc(states, func(s modelState) bool { return s.health.Reason == reasonUnloaded })
	if len(states) == 0 {
		return false, "no model is served"
	}
	for _, s := range states {
		if !s.health.Ready {
			return false, fmt.Sprintf("model %s: %s", s.info.Name, s.health.Reason)
		}
	}
	return true, ""
}

// close ends all models, whoever uses them.
func (m *models) close() error {
	m.stop()
	m.mu.Lock()
	live := m.live
	m.live = map[string]*localModel{}
	m.mu.Unlock()
	m.wg.Wait()
	var errs []error
	for _, lm := range live {
		lm.mu.Lock()
		b, closed := lm.backend, lm.retired
		lm.retired = true
		lm.mu.Unlock()
		if b != nil && !closed {
			errs = append(errs, b.Close())
		}
	}
	return errors.Join(errs...)
}

// fileExists says whether path can be looked at.
func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
