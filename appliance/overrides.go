package appliance

import (
	"maps"
	"slices"
	"sync"
	"time"

	"hearth/appliance/config"
)

// override is what an operator did to a model beside the configuration: unloaded
// it, or loaded it with other parameters. It outlives reloads of the
// configuration and ends with the server, or when the model is loaded as
// configured.
type override struct {
	Unloaded bool      `json:"unloaded"`
	Context  int       `json:"context,omitempty"`
	KVMemory int64     `json:"kv_memory,omitempty"` // bytes
	MaxSeqs  int       `json:"max_sequences,omitempty"`
	Threads  int       `json:"threads,omitempty"`
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
	// Added says that the configuration does not serve the model at all.
	Added bool `json:"added,omitempty"`
}

// plain says whether o changes nothing of a model that the configuration serves.
func (o override) plain() bool {
	return !o.Unloaded && o.Context == 0 && o.KVMemory == 0 && o.MaxSeqs == 0 && o.Threads == 0
}

// overrides are those of all models by name. It is safe for concurrent use.
type overrides struct {
	mu sync.Mutex
	by map[string]override
}

func (o *overrides) get(name string) (override, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	v, ok := o.by[name]
	return v, ok
}

// set notes an override and returns what undoes it.
func (o *overrides) set(name string, v override) (undo func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, had := o.by[name]
	next := maps.Clone(o.by)
	if next == nil {
		next = map[string]override{}
	}
	next[name] = v
	o.by = next
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if had {
			o.by[name] = old
		} else {
			delete(o.by, name)
		}
	}
}

func (o *overrides) drop(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.by, name)
}

// on changes what a configuration serves. installed makes the spec of a model of
// the library, if there is one. What changes nothing, or is of a model that is
// gone, is dropped.
func (o *overrides) on(specs []modelSpec, installed func(name string) (modelSpec, bool)) []modelSpec {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.by)) {
		v := o.by[name]
		i := slices.IndexFunc(specs, func(s modelSpec) bool { return s.Name == name })
		v.Added = i < 0
		if i < 0 {
			s, ok := installed(name)
			if !ok || v.Unloaded {
				delete(o.by, name)
				continue
			}
			specs, i = append(specs, s), len(specs)
		} else if v.plain() {
			delete(o.by, name)
			continue
		}
		o.by[name] = v
		v.apply(&specs[i])
	}
	return specs
}

func (o override) apply(s *modelSpec) {
	s.Unloaded = o.Unloaded
	if o.Context != 0 {
		s.Context = o.Context
	}
	if o.KVMemory != 0 {
		s.KVMemory = config.Size(o.KVMemory)
	}
	if o.MaxSeqs != 0 {
		s.MaxSequences = o.MaxSeqs
	}
	if o.Threads != 0 {
		s.Threads = o.Threads
	}
}
