//go:build linux

package main

import (
	"testing"
	"time"
)

// Work waits for events of other streams, queries tell the truth.
func TestEvents(t *testing.T) {
	b := open(t, nil)
	x, other := b.alloc(4), b.stream(1)
	from, to := b.event(), b.event()
	b.want(success, "query of nothing", b.l.query(from))
	b.want(success, "record", b.l.record(b.s, from))
	b.want(success, "launch", b.launch(b.s, x, 1, 1))
	b.want(success, "record", b.l.record(b.s, to))
	b.want(success, "wait", b.l.waitEvent(other, to))
	b.want(success, "launch", b.launch(other, x, 2, 1))
	_, r := b.l.elapsed(from, to)
	b.want(notReady, "elapsed", r)
	b.want(notReady, "query", b.l.query(to))
	b.want(success, "sync of the other", b.l.synchronize(other))
	b.want(success, "query", b.l.query(to))
	if ms, r := b.l.elapsed(from, to); r != success || ms < 0 || ms > 1e5 {
		t.Errorf("got %v ms (%d)", ms, r)
	}
	if got := b.read(x); got != 2 {
		t.Errorf("got %d, wanted what the later launch wrote", got)
	}
}

// The legacy default stream waits for blocking streams, and they for it.
func TestLegacyStream(t *testing.T) {
	b := open(t, nil)
	x, blocking := b.alloc(4), b.stream(0)
	b.want(success, "launch", b.launch(blocking, x, 1, 1))
	b.want(success, "launch", b.launch(b.c.streams[0], x, 2, 1))
	if len(blocking.queue) != 0 {
		t.Error("the default stream passed a blocking one")
	}
	b.want(success, "launch", b.launch(blocking, x, 3, 1))
	if got := b.read(x); got != 2 {
		t.Errorf("got %d, wanted 2", got)
	}
	b.want(success, "sync", b.l.synchronize(blocking))
	if got := b.read(x); got != 3 {
		t.Errorf("got %d, wanted 3", got)
	}
}

func TestGraph(t *testing.T) {
	for _, mode := range []string{"lazy", "eager"} {
		b := open(t, map[string]string{"FAKECUDA_STREAMS": mode})
		x, y, second := b.alloc(4), b.alloc(4), b.stream(1)
		b.want(success, "fill", b.l.fill(b.s, x, 7, 4))
		b.want(success, "begin", b.l.beginCapture(b.s, captureThreadLocal))
		fork, join := b.event(), b.event()
		b.want(success, "launch", b.launch(b.s, x, 5, 1))
		b.want(success, "record", b.l.record(b.s, fork))
		b.want(success, "fork", b.l.waitEvent(second, fork))
		b.want(success, "copy", b.l.copy(second, y, x, 4))
		b.want(success, "record", b.l.record(second, join))
		b.want(success, "join", b.l.waitEvent(b.s, join))
		h, r := b.l.endCapture(b.s)
		b.want(success, "end", r)
		if got := b.read(x); got != 0x07070707 {
			t.Fatalf("%s: a captured launch ran: %#x", mode, got)
		}
		exec, r := b.l.instantiate(b.c, h, 0)
		b.want(success, "instantiate", r)
		b.want(success, "destroy", destroyGraph[*graph](b.l, h))
		for range 2 {
			b.want(success, "fill", b.l.fill(b.s, y, 0, 4))
			b.want(success, "replay", b.l.launchGraph(exec, b.s))
			if got := b.read(y); got != 5 {
				t.Fatalf("%s: got %d, wanted 5", mode, got)
			}
		}
		b.want(success, "destroy", destroyGraph[*graphExec](b.l, exec))
		b.want(invalidValue, "replay of nothing", b.l.launchGraph(exec, b.s))
	}
}

// What is not allowed while a stream is captured says so, and spoils the capture.
func TestCaptureRules(t *testing.T) {
	call := func(b *bench, name string) result {
		return result(b.l.call(name, needContext, func(*context) result { return success }))
	}
	for _, c := range []struct {
		name  string
		mode  uint32
		do    func(b *bench) result
		want  result
		after result // of cuStreamEndCapture
	}{
		{"sync of the stream", captureRelaxed, func(b *bench) result { return b.l.synchronize(b.s) }, captureUnsupported, captureInvalidated},
		{"alloc", captureThreadLocal, func(b *bench) result { return call(b, "cuMemAlloc_v2") }, captureUnsupported, captureInvalidated},
		{"free", captureGlobal, func(b *bench) result { return call(b, "cuMemFree_v2") }, captureUnsupported, captureInvalidated},
		{"relaxed alloc", captureRelaxed, func(b *bench) result { return call(b, "cuMemAlloc_v2") }, success, success},
		{"load", captureThreadLocal, func(b *bench) result { return call(b, "cuModuleLoadDataEx") }, captureUnsupported, captureInvalidated},
		{"begin again", captureRelaxed, func(b *bench) result { return b.l.beginCapture(b.s, 0) }, illegalState, success},
		{"captured event", captureRelaxed, func(b *bench) result {
			e := b.event()
			b.want(success, "record", b.l.record(b.s, e))
			return b.l.query(e)
		}, capturedEvent, captureInvalidated},
		{"wait of a captured event", captureRelaxed, func(b *bench) result {
			e := b.event()
			b.want(success, "record", b.l.record(b.s, e))
			return b.l.await(e)
		}, capturedEvent, captureInvalidated},
		{"outside work", captureRelaxed, func(b *bench) result {
			e, o := b.event(), b.stream(1)
			b.want(success, "launch", b.launch(o, b.alloc(4), 1, 1))
			b.want(success, "record", b.l.record(o, e))
			return b.l.waitEvent(b.s, e)
		}, captureIsolation, captureInvalidated},
		{"unjoined", captureRelaxed, func(b *bench) result {
			e, o := b.event(), b.stream(1)
			b.want(success, "record", b.l.record(b.s, e))
			b.want(success, "fork", b.l.waitEvent(o, e))
			return b.launch(o, b.alloc(4), 1, 1)
		}, success, captureUnjoined},
		{"another's stream", captureRelaxed, func(b *bench) result {
			e, o := b.event(), b.stream(1)
			b.want(success, "record", b.l.record(b.s, e))
			b.want(success, "fork", b.l.waitEvent(o, e))
			_, r := b.l.endCapture(o)
			return r
		}, captureUnmatched, captureInvalidated},
		{"two captures", captureRelaxed, func(b *bench) result {
			e, o := b.event(), b.stream(1)
			b.want(success, "begin", b.l.beginCapture(o, captureRelaxed))
			b.want(success, "record", b.l.record(b.s, e))
			return b.l.waitEvent(o, e)
		}, captureMerge, captureInvalidated},
		{"legacy stream beside", captureRelaxed, func(b *bench) result {
			o := b.stream(0)
			b.want(success, "begin", b.l.beginCapture(o, captureRelaxed))
			return b.launch(b.c.streams[0], b.alloc(4), 1, 1)
		}, captureImplicit, success},
		{"legacy stream itself", captureRelaxed, func(b *bench) result { return b.l.beginCapture(b.c.streams[0], captureRelaxed) }, captureUnsupported, success},
		{"end twice", captureRelaxed, func(b *bench) result {
			_, r := b.l.endCapture(b.stream(1))
			return r
		}, illegalState, success},
	} {
		b := open(t, nil)
		b.want(success, "begin", b.l.beginCapture(b.s, c.mode))
		b.want(c.want, c.name, c.do(b))
		if c.after == captureInvalidated {
			b.want(captureInvalidated, c.name+", then a launch", b.launch(b.s, 0, 1, 1))
		}
		_, r := b.l.endCapture(b.s)
		b.want(c.after, c.name+", end", r)
		b.want(success, c.name+", a launch after", b.launch(b.s, b.alloc(4), 1, 1))
		b.want(success, c.name+", sync after", b.l.synchronize(b.s))
	}
}

func TestInjection(t *testing.T) {
	b := open(t, map[string]string{"FAKECUDA_ERRORS": "cuMemAlloc_v2:2=2,launch:2=700"})
	for i, want := range []result{success, outOfMemory, success} {
		b.want(want, "alloc", result(b.l.call("cuMemAlloc_v2", needContext, func(*context) result { return success })))
		_ = i
	}
	x := b.alloc(4)
	b.want(success, "launch", b.launch(b.s, x, 1, 1))
	b.want(success, "launch", b.launch(b.s, x, 2, 1))
	b.want(illegalAddress, "sync", b.l.synchronize(b.s))
}

// A kernel that never ends holds who waits for it, and nobody else.
func TestHang(t *testing.T) {
	b := open(t, map[string]string{"FAKECUDA_HANG": "launch:2", "FAKECUDA_STREAMS": "eager"})
	x, other := b.alloc(4), b.stream(1)
	b.want(success, "launch", b.launch(b.s, x, 1, 1))
	e := b.event()
	b.want(success, "launch", b.launch(b.s, x, 2, 1))
	b.want(success, "record", b.l.record(b.s, e))
	b.want(success, "launch", b.launch(other, x, 3, 1))
	b.want(success, "sync of another", b.l.synchronize(other))
	b.want(notReady, "query", b.l.query(e))
	b.want(notReady, "query", b.l.query(e))
	back := make(chan result, 1)
	go func() {
		b.l.mu.Lock()
		back <- b.l.await(e)
	}()
	select {
	case r := <-back:
		t.Fatalf("the wait for a kernel that never ends returned %d", r)
	case <-time.After(50 * time.Millisecond):
	}
}
