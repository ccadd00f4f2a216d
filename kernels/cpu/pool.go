package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// How often a waiting thread looks before it sleeps; a look takes some 15 to
// 65 ns. On an idle machine all threads arrive within microseconds and spinning
// wins. On a busy one the last may not be running at all, so a sleep that was
// long halves the next spins. One that was short, of the time that falling
// asleep and waking takes by themselves, doubles them: a little more patience
// would have been cheaper.
const (
	minSpins   = 64
	maxSpins   = 4096
	shortSleep = 300 * time.Microsecond
)

// barrier lets n threads wait for each other. Waiting spins first, then sleeps.
type barrier struct {
	n        uint32
	most     int32 // spins at most
	_        [56]byte
	arrived  atomic.Uint32
	_        [60]byte
	epoch    atomic.Uint32 // turns made
	_        [60]byte
	spins    atomic.Int32
	slept    atomic.Int64 // ns that threads have slept
	sleepers atomic.Int32
	bed      bed
}

func newBarrier(n int) *barrier {
	b := &barrier{n: uint32(n), most: maxSpins}
	if n > processors {
		b.most = 0 // whom it waits for may need this processor
	}
	b.spins.Store(b.most)
	return b
}

func (b *barrier) wait() {
	all := b.n // not read again: the next run may change it
	if all == 1 {
		return
	}
	e := b.epoch.Load()
	if b.arrived.Add(1) == all {
		b.arrived.Store(0)
		b.epoch.Store(e + 1)
		if b.sleepers.Load() > 0 {
			b.bed.rouse(&b.epoch)
		}
		return
	}
	n := b.spins.Load()
	for range n {
		if b.epoch.Load() != e {
			if n < b.most {
				b.spins.Store(min(b.most, n+n/8))
			}
			return
		}
		pause()
	}
	start := time.Now()
	b.sleepers.Add(1)
	b.bed.sleep(&b.epoch, e)
	b.sleepers.Add(-1)
	took := time.Since(start)
	b.slept.Add(int64(took))
	if took < shortSleep {
		n *= 2
	} else {
		n /= 2
	}
	b.spins.Store(min(b.most, max(minSpins, n)))
}

// processors is how many threads Go runs at a time if no pool says otherwise.
var processors = runtime.GOMAXPROCS(0)

// computing are the threads of all pools. While they compute they hold on to what
// lets a thread run Go, so that all else in the process would wait for them: for
// as long as there are pools, there is as much besides. Who runs is then up to
// the operating system, which is fair.
var computing struct {
	sync.Mutex
	n int
}

func compute(n int) {
	computing.Lock()
	defer computing.Unlock()
	computing.n += n
	runtime.GOMAXPROCS(processors + computing.n)
}

// pool runs one function on up to n threads at a time: the caller is thread 0,
// the others are goroutines that live until stop, each with a thread of the
// operating system for itself, since one that has to look for a thread after
// each sleep comes late to the next barrier. Each has a gate of its own, so that
// those which a run does not need sleep on.
type pool struct {
	gates []*barrier // by thread; 0 unused
	turn  *barrier   // among the threads of a run
	f     func(thread int)
	quit  bool // written before the gates open
	done  sync.WaitGroup
}

func newPool(n int) *pool {
	p := &pool{gates: make([]*barrier, n), turn: newBarrier(n)}
	compute(n)
	for th := 1; th < n; th++ {
		p.gates[th] = newBarrier(2)
		p.done.Go(func() { p.work(th) })
	}
	return p
}

func (p *pool) work(th int) {
	runtime.LockOSThread()
	for {
		p.gates[th].wait()
		if p.quit {
			return
		}
		p.f(th)
		p.turn.wait()
	}
}

// run calls f(0…n-1) and waits for all. One goroutine may call it. Within f,
// turn.wait is a barrier among the n.
func (p *pool) run(n int, f func(thread int)) {
	p.f, p.turn.n = f, uint32(n)
	for _, g := range p.gates[1:n] {
		g.wait()
	}
	f(0)
	p.turn.wait()
}

// stop ends the goroutines.
func (p *pool) stop() {
	p.quit = true
	for _, g := range p.gates[1:] {
		g.wait()
	}
	p.done.Wait()
	compute(-len(p.gates))
}

// share is the part of n items that thread th of all gets.
func share(n, th, all int) (from, to int) { return n * th / all, n * (th + 1) / all }

// crew decides how many threads run a step. Where other work keeps a thread off
// its processor, every barrier waits a time slice for it, and one thread alone
// is faster than many in step; results do not depend on the number. A step of
// few rows of which threads slept a third is bad. A few more bad steps than good
// ones halve the crew for a while; that while doubles each time and is short
// again after a long run of good steps.
type crew struct {
	all, now int
	bad      int // steps more than good ones, not below 0
	hold     int // steps until a larger crew is tried
	penalty  int // what hold will be next
	good     int // steps since the last bad one
}

const (
	crewRows       = 16 // larger steps have stages longer than a time slice
	crewShare      = 3  // 1/crewShare of the threads' time asleep makes a step bad
	crewBad        = 4  // bad steps until the crew is halved: one pause of the machine is none of its business
	crewMinPenalty = 32
	crewMaxPenalty = 1024
	crewForgive    = 1024 // good steps
)

func newCrew(n int) crew { return crew{all: n, now: n, penalty: crewMinPenalty} }

// size is the number of threads for a step.
func (c *crew) size(rows int) int {
	if rows > crewRows {
		return c.all
	}
	return c.now
}

// report tells how long a step of that many rows took and, of that, how long
// its threads slept, all together.
func (c *crew) report(rows int, took, slept time.Duration) {
	if rows > crewRows || c.all == 1 {
		return
	}
	if c.now > 1 && slept*crewShare > took*time.Duration(c.now) {
		if c.bad++; c.bad < crewBad {
			return
		}
		c.bad = 0
		c.now = (c.now + 1) / 2
		c.hold, c.good = c.penalty, 0
		c.penalty = min(crewMaxPenalty, 2*c.penalty)
		return
	}
	c.bad = max(0, c.bad-1)
	if c.good++; c.good >= crewForgive {
		c.good, c.penalty = 0, crewMinPenalty
	}
	if c.now < c.all {
		if c.hold--; c.hold <= 0 {
			c.now = min(c.all, 2*c.now)
			c.hold = 0
		}
	}
}
