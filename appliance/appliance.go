package appliance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hearth/appliance/accounts"
	"hearth/appliance/backup"
	"hearth/appliance/certs"
	"hearth/appliance/config"
	"hearth/appliance/identity"
	"hearth/appliance/upstream"
	"hearth/engine/artifact"
	"hearth/policy"
	"hearth/store"
	"hearth/web"
)

// Options of Open.
type Options struct {
	Env    *Env
	Dir    dataDir
	Config string // file; empty: DIR/appliance.toml, written if absent
	Listen string // replaces server.listen if set
	Device string // as config.CheckDevice takes it: for models that name none
	// CUDAGraphs is "on" or "off" in place of cuda.graphs; empty: as configured.
	CUDAGraphs string
	// Watch is how often the file is looked at; 0: each second.
	Watch time.Duration
	// Open makes the backend of a model; nil: the local engine.
	Open openFunc
}

// Appliance is one running Hearth. It is made by Open and ended by Close.
type Appliance struct {
	opt     Options
	env     *Env
	dir     dataDir
	log     *slog.Logger
	logs    *logs
	now     func() time.Time
	started time.Time

	store      *store.Store
	artifacts  *artifact.Store
	models     *models
	gpus       gpus
	jobs       *jobs
	upstreams  *upstreams
	policy     *policy.Policy
	identities *identity.Set
	telemetry  *telemetry
	traces     traces
	series     *series
	retained   *retention
	web        *web.Server
	console    *console // nil where admin.listen is "off"
	listeners  []listener
	certs      atomic.Pointer[certs.Manager]
	accounts   *accounts.Accounts
	redirect   atomic.Pointer[redirect] // nil: there is none

	conf       atomic.Pointer[config.Config]
	book       *book        // of the file that conf came from
	generation atomic.Int64 // configurations taken
	reloading  sync.Mutex   // one reload at a time

	draining  atomic.Bool
	open      atomic.Int64  // requests admitted and not released
	serial    atomic.Uint64 // of requests, for ids that are unique here
	grants    sync.Map      // *web.Grant → *admission
	leftovers sync.Map      // id of a request at its provider → *leftover
	detached  detachedRuns  // responses that are made in the background
	shadows   shadows       // copies of requests that run
	revoked   chan struct{} // holds a word that callers have changed
	hardStop  context.Context
	stop      context.CancelCauseFunc // ends every open request

	closers []func() error // in the order of opening
	closing sync.Once
	first   *firstRun // what this start made, nil if it was not the first

	backups  backups
	restored *backup.Result // what this start put in place, nil: nothing
	spending spending
	proofs   atomic.Pointer[[]evidenceRow]
}

// Open brings up every part in order; the models load in the background, from the
// moment on that the ledger is ours. If one part fails, those before it are closed
// again.
func Open(ctx context.Context, opt Options) (*Appliance, error) {
	a := &Appliance{opt: opt, env: opt.Env, dir: opt.Dir, now: opt.Env.Now, started: opt.Env.Now(),
		revoked: make(chan struct{}, 1)}
	a.hardStop, a.stop = context.WithCancelCause(context.Background())
	for _, part := range []func(context.Context) error{
		a.openRestore,
		a.openConfig,
		a.openLibrary,
		a.openStore,
		a.openRevisions,
		a.openTelemetry,
		a.openCertificates,
		a.openPolicy,
		a.openIdentities,
		a.openRevocation,
		a.openResponses,
		a.openUpstreams,
		a.openShadows,
		a.openUpkeep,
		a.openRetention,
		a.openSeries,
		a.openAccounts,
		a.openBackups,
		a.openFirstRun,
		a.openWeb,
		a.openConsole,
		a.openAdmin,
	} {
		if err := part(ctx); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	a.sayDoubts(a.config(), a.specs(a.config()))
	if err := a.openConfigWatch(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Close ends every part, the last opened first.
func (a *Appliance) Close() error {
	var errs []error
	a.closing.Do(func() {
		a.draining.Store(true)
		a.stop(errStopping)
		for _, end := range slices.Backward(a.closers) {
			errs = append(errs, end())
		}
	})
	return errors.Join(errs...)
}

func (a *Appliance) onClose(end func() error) { a.closers = append(a.closers, end) }

// config is the configuration in force.
func (a *Appliance) config() *config.Config { return a.conf.Load() }

func (a *Appliance) openConfig(context.Context) error {
	if err := a.dir.create(); err != nil {
		return err
	}
	path := a.configPath()
	if a.opt.Config == "" && !fileExists(path) {
		if err := writeFile(path, a.env.Sample, 0o600); err != nil {
			return err
		}
	}
	text, err := config.Read(path)
	if err != nil {
		return err
	}
	c, err := config.Parse(path, text)
	if err != nil {
		return err
	}
	if a.opt.Listen != "" {
		if err := config.CheckListen(a.opt.Listen); err != nil {
			return usagef("cannot use --listen %q: %v", a.opt.Listen, err)
		}
	}
	if err := a.override(c); err != nil {
		return err
	}
	a.book = newBook(text, c)
	a.conf.Store(c)
	a.generation.Add(1)
	a.openLog(c)
	return nil
}

func (a *Appliance) configPath() string {
	if a.opt.Config != "" {
		return a.opt.Config
	}
	return a.dir.config()
}

func (a *Appliance) openLog(c *config.Config) {
	a.logs, a.log = newLogs(a.env.Stderr, c)
	a.onClose(a.logs.close)
}

func (a *Appliance) openStore(context.Context) error {
	load := func() { a.models.apply(a.specs(a.config())) }
	s, err := store.Open(a.dir.database(), store.Options{Now: a.now, Log: a.log, Locked: load})
	if err != nil {
		return errors.Join(fmt.Errorf("cannot open the ledger: %w", err), a.models.close())
	}
	a.store = s
	a.onClose(s.Close)
	a.onClose(a.models.close) // before the ledger, which gets their last rows
	a.onClose(a.jobs.close)
	if r := s.Recovery(); r.Orphans > 0 {
		a.log.Warn("requests of an earlier life were settled at their hold", "requests", r.Orphans, "charge_usd", float64(r.Nano)/1e9)
	}
	return nil
}

func (a *Appliance) openTelemetry(context.Context) error {
	a.telemetry = newTelemetry(a.config().Telemetry.Tenants)
	return a.openTraces()
}

func (a *Appliance) openLibrary(context.Context) error {
	var err error
	if a.artifacts, err = artifact.Open(a.dir.models()); err != nil {
		return fmt.Errorf("cannot open the model library: %w", err)
	}
	open := a.opt.Open
	if open == nil {
		open = a.openEngine
	}
	a.models = newModels(open, a.log)
	a.jobs = newJobs(a.now)
	return nil
}

func (a *Appliance) openUpstreams(context.Context) error {
	a.upstreams = &upstreams{opt: upstream.Options{Log: a.log, Version: Version, OnProbe: a.policy.ReportProbe, OnDrained: a.drained, Now: a.now}}
	a.onClose(a.upstreams.close)
	return a.upstreams.apply(beside(a.configPath(), a.config().Upstreams))
}

func (a *Appliance) openPolicy(context.Context) error {
	specs := a.specs(a.config())
	p, err := policy.New(policyConfig(a.config(), specs), policy.Options{Store: a.store, Now: a.now, Local: specNames(specs)})
	if err != nil {
		return fmt.Errorf("cannot set up the policy: %w", err)
	}
	a.policy = p
	a.telemetry.registry.MustRegister(newPuller(a))
	return nil
}

// swap puts c in the place of old. On an error some parts may have been swapped;
// swapping back mends them. The caller holds reloading.
func (a *Appliance) swap(ctx context.Context, old, c *config.Config) error {
	for _, k := range restartKeys(old, c) {
		a.log.Warn("a changed key takes effect at the next start only", "key", k)
	}
	if err := a.web.SetLimits(webLimits(c)); err != nil {
		return err
	}
	specs := a.specs(c)
	newTLS, err := a.prepareTLS(ctx, c)
	if err != nil {
		return err
	}
	defer newTLS.drop()
	if err := a.upstreams.apply(beside(a.configPath(), c.Upstreams)); err != nil {
		return err
	}
	if err := a.policy.Reload(policyConfig(c, specs)); err != nil {
		return err
	}
	if err := a.identities.Reload(c.Identities); err != nil {
		return err
	}
	a.policy.SetLocal(specNames(specs))
	a.models.apply(specs)
	a.accounts.Configure(signInSettings(c, a.configPath(), a.env.Getenv))
	if err := a.traces.apply(a, c); err != nil {
		return err
	}
	if err := a.retained.apply(c); err != nil {
		return err
	}
	if err := a.bindConsole(c); err != nil {
		return err
	}
	a.telemetry.tenants.allow(c.Telemetry.Tenants)
	a.logs.take(c)
	newTLS.take()
	a.conf.Store(c)
	a.callersChanged()
	n := a.generation.Add(1)
	a.log.Info("configuration taken", "generation", n)
	a.sayDoubts(c, specs)
	return nil
}

// restartKeys names what has changed and cannot be swapped while serving.
func restartKeys(old, c *config.Config) []string {
	var keys []string
	o, n := old.Server, c.Server
	for key, changed := range map[string]bool{
		"server.listen":         o.Listen != n.Listen,
		"admin.listen":          (old.Admin.Listen == config.AdminOff) != (c.Admin.Listen == config.AdminOff),
		"server.header_timeout": o.HeaderTimeout != n.HeaderTimeout,
		"server.idle_timeout":   o.IdleTimeout != n.IdleTimeout,
	} {
		if changed {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Drain ends serving with care: nothing new is admitted, open requests may
// finish within the bound, what is left is ended with an error and settled. A
// second call of force ends the wait.
func (a *Appliance) Drain(force <-chan os.Signal) {
	d := a.config().Drain
	a.draining.Store(true)
	a.shadows.drain()
	a.log.Info("draining", "open_requests", a.open.Load(), "timeout", d.Timeout)
	if !a.waitIdle(d.Timeout.Std(), force) {
		a.log.Warn("ending open requests", "open_requests", a.open.Load())
		a.stop(errStopping)
		a.waitIdle(5*time.Second, force)
	}
	if d.Grace > 0 {
		select {
		case <-time.After(d.Grace.Std()):
		case <-force:
		}
	}
}

// waitIdle waits until no request is open; false if the time is up or a signal
// came first.
func (a *Appliance) waitIdle(most time.Duration, force <-chan os.Signal) bool {
	end := time.After(most)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for a.open.Load() > 0 {
		select {
		case <-tick.C:
		case <-end:
			return false
		case <-force:
			return false
		}
	}
	return true
}
