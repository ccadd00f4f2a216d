// Package core is the step loop of the engine. One goroutine owns sequences,
// blocks and the device; it takes jobs and cancellations from a bounded
// channel, plans a step, runs it, samples, and pushes events to the streams of
// the jobs. Everything else (templates, tokenizing, grammar compilation, JSON)
// happens outside.
package core

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hearth/engine/infer"
	"hearth/engine/sampler"
	"hearth/engine/sched"
	"hearth/kernels"
)

// promptLogprobRows bounds the prompt rows whose logits are wanted in a step:
// a row of logits is as wide as the vocabulary.
const promptLogprobRows = 16

// Config of a Core. All fields are required unless they say otherwise.
type Config struct {
	Device      kernels.Device // loaded
	Program     *kernels.Program
	KV          kernels.KVConfig
	Sched       sched.Config
	PrefixCache bool
	EndIDs      []int32                  // tokens that end an answer
	Piece       func(token int32) []byte // bytes of a token
	QueueLimit  int                      // jobs that may be queued or running
	Draft       int                      // most tokens guessed ahead of a sequence; 0: none
	DraftBatch  int                      // most sequences running for which tokens are guessed

	// BeforeStep, if set, is called in the loop before each plan (tests force
	// preemption with it).
	BeforeStep func(step uint64, running []*sched.Sequence, preempt func(*sched.Sequence))
}

// ErrClosed ends the streams of a core that was closed.
var ErrClosed = &infer.Error{Code: infer.CodeUnavailable, Message: "the engine is shutting down"}

// Core runs jobs. Its methods are safe for concurrent use.
type Core struct {
	cfg    Config
	sched  *sched.Scheduler
	pool   *sched.BlockPool
	in     chan command
	quit   chan struct{}
	gone   chan struct{} // closed when the loop has ended
	once   sync.Once
	queued atomic.Int64
	stats  atomic.Pointer[infer.Stats]
	failed atomic.Pointer[error]

	// Below: owned by the loop.
	jobs    map[*Job]struct{}
	nextID  uint64
	steps   uint64
	prompts uint64
	outputs uint64
	drafted uint64    // guesses computed
	guessed uint64    // of these, right
	stepped time.Time // the latest step began
	batch   kernels.Batch

	stepTokens [len(infer.StepTokenEdges) + 1]uint64
	stepSum    uint64
	logits     []float32
	hidden     []float32
	texts      *texts
	chooser    kernels.Chooser // the device, if it can
	choices    []kernels.Choice
	picks      []kernels.Pick
	prepare    func()   // choose, made once
	chosen     []chosen // in this step, for the texts
	scratch    sampler.Scratch
	rows       []row
}

// row says what a row of logits or hidden states of the step is for.
type row struct {
	run    *run
	pos    int  // position of the row's token in the sequence
	sample bool // the last pending token, or a guess: its logits give the next token
	ahead  int  // guesses before it, its own among them
}

type command struct {
	job    *Job
	cancel bool
}

// New starts the loop.
func New(cfg Config) *Core {
	pool := sched.NewBlockPool(cfg.KV.Blocks, cfg.KV.BlockSize, cfg.PrefixCache)
	c := &Core{
		cfg:   cfg,
		pool:  pool,
		sched: sched.New(cfg.Sched, pool),
		in:    make(chan command, 64),
		quit:  make(chan struct{}),
		gone:  make(chan struct{}),
		jobs:  map[*Job]struct{}{},
		texts: newTexts(cfg.Piece),
	}
	c.chooser, _ = cfg.Device.(kernels.Chooser)
	c.prepare = c.choose
	c.publish()
	go c.loop()
	return c
}

// Submit queues a job and returns its stream, or refuses it when the queue is
// full or the core has ended.
func (c *Core) Submit(j *Job) (*Stream, error) {
	if err := c.failed.Load(); err != nil {
		return nil, *err
	}
	if n := c.queued.Add(1); n > int64(c.cfg.QueueLimit) {
		c.queued.Add(-1)
		return nil, &infer.Error{Code: infer.CodeOverloaded, RetryAfter: 1e9,
			Message: fmt.Sprintf("the engine's queue is full (%d requests)", c.cfg.QueueLimit)}
	}
	j.stream = newStream()
	select {
	case c.in <- command{job: j}:
		return j.stream, nil
	case <-c.gone:
		c.queued.Add(-1)
		return nil, ErrClosed
	}
}

// Release must be called once for each submitted job when its consumer is done
// with it, finished or not: what still runs is cancelled, before the next step.
func (c *Core) Release(j *Job) {
	c.queued.Add(-1)
	select {
	case c.in <- command{job: j, cancel: true}:
	case <-c.gone:
	}
}

// Fits says whether a sequence of tokens can ever be held by the cache.
func (c *Core) Fits(tokens int) (capacity int, ok bool) {
	capacity = c.cfg.KV.Blocks * c.cfg.KV.BlockSize
	return capacity, tokens <= capacity
}

// Stats is the snapshot after the last step.
func (c *Core) Stats() infer.Stats { return *c.stats.Load() }

// Failed is the error that ended the loop, or nil.
func (c *Core) Failed() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Close ends every stream with ErrClosed and waits for the loop. The device is
// the caller's to close afterwards.
func (c *Core) Close() {
	c.once.Do(func() { close(c.quit) })
	<-c.gone
}

func (c *Core) loop() {
	runtime.LockOSThread() // it computes: see kernels/cpu's pool
	err := c.steploop()
	c.texts.close()
	c.heed()
	if err == nil {
		err = ErrClosed
	}
	c.failed.Store(&err)
	for j := range c.jobs {
		c.end(j, err)
	}
	c.publish()
	close(c.gone)
	for { // jobs that were queued while we ended
		select {
		case cmd := <-c.in:
			if !cmd.cancel {
				cmd.job.stream.end(err)
			}
		default:
			return
		}
	}
}

func (c *Core) steploop() error {
	for {
		if !c.intake() {
			return nil
		}
		if c.texts.settled() {
			c.heed()
		}
		if c.cfg.BeforeStep != nil {
			c.cfg.BeforeStep(c.steps, c.sched.List(), c.sched.Preempt)
		}
		c.guess()
		plan := c.sched.Plan()
		if len(plan) == 0 {
			if c.sched.Running()+c.sched.Waiting() > 0 {
				return errors.New("BUG: sequences wait and none can run")
			}
			continue
		}
		c.fill(plan)
		c.stepped = time.Now()
		c.stepTokens[infer.StepBucket(len(c.batch.Tokens))]++
		c.stepSum += uint64(len(c.batch.Tokens))
		if err := c.cfg.Device.Step(&c.batch); err != nil {
			return &infer.Error{Code: infer.CodeUnavailable, Message: "the device failed during a step", Cause: err}
		}
		c.sched.Done()
		c.texts.settle()
		c.heed()
		c.harvest(plan)
		c.texts.hand(c.chosen)
		c.steps++
		c.publish()
	}
}

// intake handles what arrived; it waits when there is nothing to run. False
// means the core is to end.
func (c *Core) intake() bool {
	for {
		idle := c.sched.Running()+c.sched.Waiting() == 0
		if idle {
			c.publish()
			select {
			case cmd := <-c.in:
				c.handle(cmd)
			case <-c.quit:
				return false
			}
			continue
		}
		select {
		case cmd := <-c.in:
			c.handle(cmd)
		case <-c.quit:
			return false
		default:
			return true
		}
	}
}

func (c *Core) handle(cmd command) {
	if cmd.cancel {
		c.end(cmd.job, errors.New("cancelled"))
		return
	}
	c.start(cmd.job)
}

func (c *Core) publish() {
	st := c.sched.Stats()
	free, cached := c.pool.Free(), c.pool.Cached()
	dev := c.cfg.Device.Stats()
	c.stats.Store(&infer.Stats{
		Steps: c.steps, Running: c.sched.Running(), Waiting: c.sched.Waiting(),
		BlocksTotal: c.pool.Total(), BlocksUsed: c.pool.Total() - free, BlocksCached: cached,
		Preemptions: st.Preemptions, PrefixQueries: st.PrefixQueries, PrefixHits: st.PrefixHits,
		PromptTokens: c.prompts, OutputTokens: c.outputs, DraftTokens: c.drafted, AcceptedTokens: c.guessed,
		WeightBytes: dev.WeightBytes, KVBytes: dev.KVBytes,
		BlockTokens: c.cfg.KV.BlockSize, StepTokens: slices.Clone(c.stepTokens[:]), StepTokenSum: c.stepSum,
	})
}
