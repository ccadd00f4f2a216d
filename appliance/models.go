package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sort"
	"sync"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// modelSpec says what to serve and how. Two equal specs are the same model.
type modelSpec struct {
	config.Model
	File    string // absolute path of what the engine opens
	Digest  string // of the weights, if the library has it
	Licence string
}

// openFunc makes the backend of a model: in a worker process or in this one.
type openFunc func(ctx context.Context, s modelSpec) (infer.Backend, error)

// localModel is one model of this appliance. Its backend is set once, by its
// own opener goroutine.
type localModel struct {
	spec    modelSpec
	created time.Time

	mu      sync.Mutex // guards below
	backend infer.Backend
	info    infer.Model
	reason  string // why it does not answer; empty: it has answered
	users   int    // requests that hold it
	retired bool   // replaced or removed: closed by the last user
}

// models is the set of local models. It is safe for concurrent use.
type models struct {
	open openFunc
	log  *slog.Logger
	ctx  context.Context // ends the openers
	stop context.CancelFunc
	wg   sync.WaitGroup // openers

	mu   sync.RWMutex // guards below
	live map[string]*localModel
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
		lm := &localModel{spec: s, created: time.Now(), reason: "loading"}
		next[s.Name] = lm
		m.wg.Add(1)
		go m.start(lm)
	}
	for name, old := range m.live {
		if next[name] != old {
			old.retire()
		}
	}
	m.live = next
}

// start opens a model and has it answer once: only then it is ready.
func (m *models) start(lm *localModel) {
	defer m.wg.Done()
	began := time.Now()
	b, err := m.open(m.ctx, lm.spec)
	if err != nil {
		lm.fail(fmt.Sprintf("cannot load: %v", err))
		m.log.Error("model cannot be loaded", "model", lm.spec.Name, "error", err)
		return
	}
	if !lm.adopt(b) {
		b.Close() // removed while it was loading
		return
	}
	if err := m.warmUp(lm, b); err != nil {
		lm.fail(fmt.Sprintf("does not answer: %v", err))
		m.log.Error("model does not answer", "model", lm.spec.Name, "error", err)
		return
	}
	m.log.Info("model ready", "model", lm.spec.Name, "device", lm.describe().Device, "took", time.Since(began).Round(time.Millisecond))
}

// warmUp has the model generate one token, and notes what it says of itself.
func (m *models) warmUp(lm *localModel, b infer.Backend) error {
	ctx, cancel := context.WithTimeout(m.ctx, 2*time.Minute)
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
	lm.info, lm.reason = infos[0], ""
	lm.info.Name, lm.info.Created = lm.spec.Name, lm.created.Unix()
	if lm.info.Licence == "" {
		lm.info.Licence = lm.spec.Licence
	}
	return nil
}

func (lm *localModel) adopt(b infer.Backend) bool {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	if lm.retired {
		return false
	}
	lm.backend, lm.reason = b, "warming up"
	return true
}

func (lm *localModel) fail(reason string) {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	lm.reason = reason
}

// gaveUp says whether the model could not be opened at all, so that a reload
// should try again.
func (lm *localModel) gaveUp() bool {
	lm.mu.Lock()
	defer lm.mu.Unlock()
	return lm.backend == nil && lm.reason != "loading"
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
		return infer.Health{Reason: reason}
	}
	h := b.Health(ctx)
	if reason != "" {
		h.Ready, h.Reason = false, reason
	}
	return h
}

// retire closes the backend when its last user has gone.
func (lm *localModel) retire() {
	lm.mu.Lock()
	lm.retired = true
	b, idle := lm.backend, lm.users == 0
	lm.mu.Unlock()
	if b != nil && idle {
		b.Close()
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
			all = append(all, modelState{lm.describe(), lm.health(ctx)})
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
