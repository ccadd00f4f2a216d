package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/progress"
	"hearth/engine"
	"hearth/engine/artifact"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

type modelName struct {
	Name string `json:"name"`
}

// modelSource says what to install.
type modelSource struct {
	Path   string `json:"path"`             // absolute, on the box
	Name   string `json:"name,omitempty"`   // empty: from the file
	Digest string `json:"digest,omitempty"` // expected sha256, hex
}

type modelRemoval struct {
	Name string `json:"name"`
	// Force removes it although the configuration names it.
	Force bool `json:"force,omitempty"`
}

// modelSettings say how to load a model. What is left out is as configured.
type modelSettings struct {
	Name         string `json:"name"`
	Context      int    `json:"context,omitempty"`
	KVMemory     string `json:"kv_memory,omitempty"` // for instance "512MiB"
	MaxSequences int    `json:"max_sequences,omitempty"`
	Threads      int    `json:"threads,omitempty"`
}

// override checks s and gives what it asks for.
func (s *modelSettings) override() (override, error) {
	o := override{Context: s.Context, MaxSeqs: s.MaxSequences, Threads: s.Threads}
	for _, b := range []struct {
		field     string
		got, most int
	}{{"context", s.Context, 1 << 24}, {"max_sequences", s.MaxSequences, 4096}, {"threads", s.Threads, 4096}} {
		if b.got < 0 || b.got > b.most {
			return o, infer.Invalid(b.field, "got %d, wanted 1 to %d, or nothing for the configured value", b.got, b.most)
		}
	}
	if s.KVMemory != "" {
		var z config.Size
		if err := z.UnmarshalText([]byte(s.KVMemory)); err != nil {
			return o, infer.Invalid("kv_memory", "%v", err)
		}
		if z < 1<<20 {
			return o, infer.Invalid("kv_memory", "got %s, wanted at least 1MiB", z)
		}
		o.KVMemory = int64(z)
	}
	return o, nil
}

var (
	opModelList = operation[none, []modelRow]{
		name: "model/list", place: "GET /models", access: admin.Read,
		summary: "every model that is installed, configured or served, with its state",
		run: func(ctx context.Context, c *control, _ none) ([]modelRow, error) {
			return c.models(ctx)
		},
	}
	opModelShow = operation[modelName, modelRow]{
		name: "model/show", place: "GET /models/{name}", access: admin.Read,
		summary: "one model with the terms of its contract and the texts of its licence",
		run:     showModel,
	}
	opModelAdd = operation[modelSource, job]{
		name: "model/add", place: "POST /models", access: admin.Operate,
		summary: "install a model from a file, a folder or an archive on the box, as a job",
		run: func(ctx context.Context, c *control, r modelSource) (job, error) {
			if c.server == nil {
				return job{}, errNoServer
			}
			return c.server.addModel(ctx, r)
		},
	}
	opModelRemove = operation[modelRemoval, modelName]{
		name: "model/remove", place: "POST /models/{name}/remove", access: admin.Operate,
		summary: "remove an installed model; open requests are served to their end",
		subject: func(r modelRemoval) string { return r.Name },
		run: func(ctx context.Context, c *control, r modelRemoval) (modelName, error) {
			if c.server == nil {
				return modelName{}, errNoServer
			}
			return modelName{r.Name}, c.server.removeModel(ctx, r)
		},
	}
	opModelLoad = operation[modelSettings, job]{
		name: "model/load", place: "POST /models/{name}/load", access: admin.Operate,
		summary: "load a model, maybe with other parameters than the configuration's, as a job",
		subject: func(r modelSettings) string { return r.Name },
		detail:  func(r modelSettings, _ job) string { return settingsText(r) },
		run: func(ctx context.Context, c *control, r modelSettings) (job, error) {
			if c.server == nil {
				return job{}, errNoServer
			}
			return c.server.loadModel(ctx, r)
		},
	}
	opModelUnload = operation[modelName, job]{
		name: "model/unload", place: "POST /models/{name}/unload", access: admin.Operate,
		summary: "take a model out of memory once its open requests have ended, as a job",
		subject: func(r modelName) string { return r.Name },
		run: func(ctx context.Context, c *control, r modelName) (job, error) {
			if c.server == nil {
				return job{}, errNoServer
			}
			return c.server.unloadModel(ctx, r.Name)
		},
	}
	opModelWarm = operation[modelName, job]{
		name: "model/warm", place: "POST /models/{name}/warm", access: admin.Operate,
		summary: "load a model if it is not, and have it answer once, as a job",
		run: func(ctx context.Context, c *control, r modelName) (job, error) {
			if c.server == nil {
				return job{}, errNoServer
			}
			return c.server.warmModel(ctx, r.Name)
		},
	}
	opModelPlan = operation[planQuery, modelPlan]{
		name: "model/plan", place: "GET /models/{name}/plan", access: admin.Read,
		summary: "what a model would take in memory, against what is free, before it is loaded",
		run:     planModel,
	}
)

func settingsText(r modelSettings) string {
	var out string
	for _, f := range []struct {
		name  string
		value any
		set   bool
	}{{"context", r.Context, r.Context != 0}, {"kv_memory", r.KVMemory, r.KVMemory != ""}, {"max_sequences", r.MaxSequences, r.MaxSequences != 0}, {"threads", r.Threads, r.Threads != 0}} {
		if f.set {
			out += fmt.Sprintf("%s=%v ", f.name, f.value)
		}
	}
	if out == "" {
		return "as configured"
	}
	return out[:len(out)-1]
}

// models lists the models, beside a running server or without one.
func (c *control) models(ctx context.Context) ([]modelRow, error) {
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	if c.server != nil {
		return modelRows(ctx, c.server.artifacts, conf, c.server.models), nil
	}
	lib, err := artifact.Open(c.dir.models())
	if err != nil {
		return nil, err
	}
	defer lib.Close()
	return modelRows(ctx, lib, conf, nil), nil
}

func showModel(ctx context.Context, c *control, r modelName) (modelRow, error) {
	rows, err := c.models(ctx)
	if err != nil {
		return modelRow{}, err
	}
	i := slices.IndexFunc(rows, func(m modelRow) bool { return m.Name == r.Name })
	if i < 0 {
		return modelRow{}, noSuchModel(r.Name)
	}
	row := rows[i]
	for _, name := range []string{row.Name, row.Path} {
		if row.Origin != "library" {
			break
		}
		lib, err := artifact.Open(c.dir.models())
		if err != nil {
			return row, err
		}
		m, err := lib.Show(name)
		lib.Close()
		if err == nil {
			row.Licences, err = readLicences(c.dir, m)
			return row, err
		}
	}
	return row, nil
}

func noSuchModel(name string) error {
	return infer.Errorf(infer.CodeNotFound, "there is no model %.64q", name)
}

// libraryFault gives the library's errors their code.
func libraryFault(err error) error {
	code := infer.CodeInvalid
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, artifact.ErrExists):
		code = infer.CodeConflict
	case errors.Is(err, artifact.ErrNotFound), errors.Is(err, os.ErrNotExist):
		code = infer.CodeNotFound
	case errors.Is(err, os.ErrPermission):
		code = infer.CodeForbidden
	}
	return &infer.Error{Code: code, Message: err.Error()}
}

// takeModels serves what the library and the overrides say now, under the
// configuration in force.
func (a *Appliance) takeModels() error {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	c := a.config()
	specs := a.specs(c)
	if err := a.policy.Reload(policyConfig(c, specs)); err != nil {
		return err
	}
	a.policy.SetLocal(specNames(specs))
	a.models.apply(specs)
	return nil
}

// addModel installs a model in a job.
func (a *Appliance) addModel(ctx context.Context, r modelSource) (job, error) {
	if !filepath.IsAbs(r.Path) {
		return job{}, infer.Invalid("path", "got %.200q, wanted an absolute path on the box", r.Path)
	}
	st, err := os.Stat(r.Path)
	if err == nil && !st.Mode().IsRegular() && !st.IsDir() {
		return job{}, infer.Invalid("path", "is neither a regular file nor a folder") // to open a pipe would wait for its writer
	}
	f, err := os.Open(r.Path) // so that a slip is told at once
	if err != nil {
		e := libraryFault(err).(*infer.Error)
		e.Param = "path"
		return job{}, e
	}
	f.Close()
	subject := r.Name
	if subject == "" {
		subject = filepath.Base(r.Path)
	}
	return a.jobs.start(ctx, "model/add", subject, func(ctx context.Context, report reporter) (any, error) {
		return a.install(ctx, report, r, subject)
	})
}

// install is the work of the jobs that add a model.
func (a *Appliance) install(ctx context.Context, report reporter, r modelSource, subject string) (any, error) {
	o := artifact.AddOptions{Name: r.Name, Digest: r.Digest, Now: a.now}
	o.Progress = func(done, total int64) { report("install "+subject, progress.Bytes, done, total) }
	m, err := a.artifacts.Add(ctx, r.Path, o)
	if err != nil {
		return nil, libraryFault(err)
	}
	if err := a.store.Audit(ctx, store.Audit{Action: "model/add", Subject: m.Name, Detail: "sha256 " + m.Digest}); err != nil {
		return m, err
	}
	return m, a.takeModels()
}

// removeModel takes a model out of the library and out of service.
func (a *Appliance) removeModel(_ context.Context, r modelRemoval) error {
	c := a.config()
	i := slices.IndexFunc(c.Models, func(m config.Model) bool { return m.Path == r.Name })
	if i >= 0 && c.Models[i].Path == config.EmbeddedPath {
		i = -1
	}
	if i >= 0 && !r.Force {
		return infer.Errorf(infer.CodeConflict, "cannot remove %s: model[%d] of the configuration serves it as %s; take that table out first, or use force", r.Name, i, c.Models[i].Name)
	}
	if r.Name == config.EmbeddedModel {
		if _, err := a.artifacts.Show(r.Name); err != nil {
			return infer.Errorf(infer.CodeConflict, "cannot remove %s: it is inside the binary; unload it to take it out of memory", r.Name)
		}
	}
	if err := a.artifacts.Remove(r.Name); err != nil {
		return libraryFault(err)
	}
	a.models.overrides.drop(r.Name)
	return a.takeModels()
}

// loadModel loads a model as asked, or as configured, and waits for it in a job.
func (a *Appliance) loadModel(ctx context.Context, r modelSettings) (job, error) {
	o, err := r.override()
	if err != nil {
		return job{}, err
	}
	if err := a.knowsModel(r.Name); err != nil {
		return job{}, err
	}
	o.By, o.At = store.Actor(ctx), a.now()
	return a.jobs.start(ctx, "model/load", r.Name, func(ctx context.Context, report reporter) (any, error) {
		a.models.overrides.set(r.Name, o)
		if err := a.takeModels(); err != nil {
			return nil, err
		}
		return a.awaitModel(ctx, r.Name, report)
	})
}

// knowsModel says whether a model could be served.
func (a *Appliance) knowsModel(name string) error {
	if a.models.get(name) != nil {
		return nil
	}
	if _, err := a.artifacts.Show(name); err != nil {
		return noSuchModel(name)
	}
	return nil
}

// awaitModel reports how a model loads, until it answers or has failed to.
func (a *Appliance) awaitModel(ctx context.Context, name string, report reporter) (any, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		lm := a.models.get(name)
		if lm == nil {
			return nil, noSuchModel(name)
		}
		h := lm.health(ctx)
		report("load "+name, progress.Fraction, int64(1000*min(h.Progress, 0.99)), 1000)
		select {
		case <-lm.settled:
			rows := modelRows(ctx, a.artifacts, a.config(), a.models)
			i := slices.IndexFunc(rows, func(m modelRow) bool { return m.Name == name })
			if i < 0 || a.models.get(name) != lm {
				continue // replaced meanwhile
			}
			if rows[i].State == modelFailed || rows[i].State == modelUnloaded {
				return nil, infer.Errorf(infer.CodeUnavailable, "cannot load %s: %s", name, rows[i].Reason)
			}
			return rows[i], nil
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unloadModel takes a model out of service at once, and waits in a job until its
// open requests have ended and its memory is free.
func (a *Appliance) unloadModel(ctx context.Context, name string) (job, error) {
	if a.models.get(name) == nil {
		return job{}, noSuchModel(name)
	}
	o := override{Unloaded: true, By: store.Actor(ctx), At: a.now()}
	return a.jobs.start(ctx, "model/unload", name, func(ctx context.Context, report reporter) (any, error) {
		// An installed model that only an override serves goes with that.
		if old, ok := a.models.overrides.get(name); ok && old.Added {
			a.models.overrides.drop(name)
		} else {
			a.models.overrides.set(name, o)
		}
		if err := a.takeModels(); err != nil {
			return nil, err
		}
		leaves, most := a.models.draining(name)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for _, lm := range leaves {
			for waits := true; waits; {
				_, open := a.models.draining(name)
				report("drain "+name, progress.Items, int64(max(0, most-open)), int64(most))
				select {
				case <-lm.gone:
					waits = false
				case <-tick.C:
				case <-ctx.Done():
					return nil, ctx.Err() // it stays unloaded, and drains
				}
			}
		}
		return modelName{name}, nil
	})
}

// warmModel has a model answer once, so that what a first request would pay is
// paid.
func (a *Appliance) warmModel(ctx context.Context, name string) (job, error) {
	if err := a.knowsModel(name); err != nil {
		return job{}, err
	}
	by, at := store.Actor(ctx), a.now()
	return a.jobs.start(ctx, "model/warm", name, func(ctx context.Context, report reporter) (any, error) {
		if lm := a.models.get(name); lm == nil || lm.spec.Unloaded {
			a.models.overrides.set(name, override{By: by, At: at})
			if err := a.takeModels(); err != nil {
				return nil, err
			}
		}
		if _, err := a.awaitModel(ctx, name, report); err != nil {
			return nil, err
		}
		b, release, err := a.models.acquire(name)
		if err != nil {
			return nil, err
		}
		defer release()
		report("warm "+name, progress.Fraction, 990, 1000)
		began := time.Now()
		err = a.models.get(name).warmUp(ctx, b)
		return map[string]any{"name": name, "took_ms": time.Since(began).Milliseconds()}, err
	})
}

// planQuery asks what a model would take. Name is one of model/list.
type planQuery struct {
	Name         string `json:"name"`
	Context      int    `json:"context,omitempty"`
	KVMemory     string `json:"kv_memory,omitempty"`
	MaxSequences int    `json:"max_sequences,omitempty"`
}

// modelPlan is engine.MemoryPlan as JSON, with the parameters that were planned.
type modelPlan struct {
	Name           string `json:"name"`
	Device         string `json:"device"`
	Architecture   string `json:"architecture"`
	Quantization   string `json:"quantization"`
	Parameters     int64  `json:"parameters"`
	Context        int    `json:"context"`
	ModelContext   int    `json:"model_context"`
	MaxSequences   int    `json:"max_sequences"`
	FileBytes      int64  `json:"file_bytes"`
	WeightBytes    int64  `json:"weight_bytes"`
	MappedBytes    int64  `json:"mapped_bytes"`
	KVBlocks       int    `json:"kv_blocks"`
	BlockTokens    int    `json:"block_tokens"`
	KVTokenBytes   int64  `json:"kv_token_bytes"`
	KVBytes        int64  `json:"kv_bytes"`
	ScratchBytes   int64  `json:"scratch_bytes"`
	ProcessBytes   int64  `json:"process_bytes"`
	TotalBytes     int64  `json:"total_bytes"`
	AvailableBytes int64  `json:"available_bytes"`
	Fits           bool   `json:"fits"`
	Reason         string `json:"reason,omitempty"`
	FullSequences  int    `json:"full_sequences"`
	LargestContext int    `json:"largest_context"`
	// Loaded says that the model is in memory now, so that what is free is so
	// beside it.
	Loaded bool `json:"loaded"`
	// Note says why the model would be on the CPU though it may be on a GPU.
	Note string `json:"note,omitempty"`
}

func newModelPlan(name string, p *engine.MemoryPlan) modelPlan {
	return modelPlan{
		Name: name, Device: p.Device, Architecture: p.Architecture, Quantization: p.Quantization, Parameters: p.Parameters, Context: p.Context,
		ModelContext: p.ModelContext, MaxSequences: p.MaxSequences, FileBytes: p.FileBytes, WeightBytes: p.WeightBytes,
		MappedBytes: p.MappedBytes, KVBlocks: p.KVBlocks, BlockTokens: p.BlockTokens, KVTokenBytes: p.KVTokenBytes, KVBytes: p.KVBytes,
		ScratchBytes: p.ScratchBytes, ProcessBytes: p.ProcessBytes, TotalBytes: p.TotalBytes, AvailableBytes: p.Available,
		Fits: p.Fits, Reason: p.Reason, FullSequences: p.FullSequences, LargestContext: p.LargestContext,
	}
}

func planModel(ctx context.Context, c *control, q planQuery) (modelPlan, error) {
	s := modelSettings{Name: q.Name, Context: q.Context, KVMemory: q.KVMemory, MaxSequences: q.MaxSequences}
	o, err := s.override()
	if err != nil {
		return modelPlan{}, err
	}
	if c.server == nil {
		return modelPlan{}, errNoServer
	}
	spec, err := c.server.specOf(q.Name)
	if err != nil {
		return modelPlan{}, err
	}
	o.apply(&spec)
	if err := c.server.unpack(&spec); err != nil {
		return modelPlan{}, err
	}
	var now infer.Health
	if lm := c.server.models.get(q.Name); lm != nil {
		now = lm.health(ctx)
	}
	return planSpec(ctx, c.dir, &c.server.gpus, spec, now)
}

// specOf is how a model is or would be served.
func (a *Appliance) specOf(name string) (modelSpec, error) {
	for _, s := range a.specs(a.config()) {
		if s.Name == name {
			return s, nil
		}
	}
	installed, _ := a.artifacts.List()
	s := modelSpec{Model: config.NewModel(name, name)}
	a.locate(&s, installed)
	if s.Digest == "" {
		return s, noSuchModel(name)
	}
	return s, nil
}
