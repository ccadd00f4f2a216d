package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// How often a waiting thread looks before it sleeps; a look takes some 15 to
// 65 ns. On an idle machine all threads arrive within microseconds and spinning
// wins. On a busy one the last may not be running at all, so a wait that ended
// in sleep halves the next ones, and one that did not lets them grow again.
const (
	minSpins = 64
	maxSpins = 4096
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
	sleepers atomic.Int32
	mu       sync.Mutex // with turned: sleeping until epoch moves
	turned   *sync.Cond
}

func newBarrier(n int) *barrier {
	b := &barrier{n: uint32(n), most: maxSpins}
	b.turned = sync.NewCond(&b.mu)
	if n > runtime.GOMAXPROCS(0) {
		b.most = 0 // whom it waits for may need this processor
	}
	b.spins.Store(b.most)
	return b
}

func (b *barrier) wait() {
	if b.n == 1 {
		return
	}
	e := b.epoch.Load()
	if b.arrived.Add(1) == b.n {
		b.arrived.Store(0)
		b.epoch.Store(e + 1)
		if b.sleepers.Load() > 0 {
			b.mu.Lock() // a sleeper is now either before its check or in Wait
			b.turned.Broadcast()
			b.mu.Unlock()
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
	b.spins.Store(min(b.most, max(minSpins, n/2)))
	b.mu.Lock()
	b.sleepers.Add(1)
	for b.epoch.Load() == e {
		b.turned.Wait()
	}
	b.sleepers.Add(-1)
	b.mu.Unlock()
}

// pool runs one function on n threads at a time: the caller is thread 0, the
// others are goroutines that live until stop.
type pool struct {
	n    int
	gate *barrier // opens and closes a run
	f    func(thread int)
	quit bool // written before the gate opens
	done sync.WaitGroup
}

func newPool(n int) *pool {
	p := &pool{n: n, gate: newBarrier(n)}
	for th := 1; th < n; th++ {
		p.done.Go(func() { p.work(th) })
	}
	return p
}

func (p *pool) work(th int) {
	for {
		p.gate.wait()
		if p.quit {
			return
		}
		p.f(th)
		p.gate.wait()
	}
}

// run calls f(0…n-1) and waits for all. One goroutine may call it.
func (p *pool) run(f func(thread int)) {
	p.f = f
	p.gate.wait()
	f(0)
	p.gate.wait()
	p.f = nil
}

// stop ends the goroutines.
func (p *pool) stop() {
	p.quit = true
	p.gate.wait()
	p.done.Wait()
}

// share is the part of n items that thread th of all gets.
func share(n, th, all int) (from, to int) { return n * th / all, n * (th + 1) / all }
