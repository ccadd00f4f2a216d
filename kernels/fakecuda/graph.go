//go:build linux

package main

import (
	"slices"
	"syscall"
)

// capture is a stream, and those that joined it, being recorded (CUDA Programming
// Guide, creating a graph using stream capture).
type capture struct {
	origin  *stream
	mode    uint32
	thread  int
	nodes   []op
	streams map[*stream]*captured
	broken  bool // a call that is not allowed was made: 901 from then on
	ended   bool
}

// captured is what a capture knows of one of its streams.
type captured struct {
	nodes  int  // recorded in it
	joined bool // all of them are before something in another stream
}

// Modes; cuda.h, CUstreamCaptureMode.
const (
	captureGlobal = iota
	captureThreadLocal
	captureRelaxed
)

// graph is recorded work, graphExec what is ready to run.
type graph struct {
	ctx   *context
	nodes []op
}

type graphExec struct {
	ctx   *context
	nodes []op
}

func (g *graph) owner() *context     { return g.ctx }
func (g *graphExec) owner() *context { return g.ctx }

// refuseInCapture breaks the captures that a call which may wait would disturb.
func (l *library) refuseInCapture() result {
	r := success
	for _, c := range l.capture {
		if c.mode == captureGlobal || c.mode == captureThreadLocal && c.thread == syscall.Gettid() {
			c.broken = true
			r = captureUnsupported
		}
	}
	return r
}

func (l *library) beginCapture(s *stream, mode uint32) result {
	switch {
	case mode > captureRelaxed:
		return invalidValue
	case s.handle == 0:
		return captureUnsupported
	case s.capture != nil:
		return illegalState
	}
	c := &capture{origin: s, mode: mode, thread: syscall.Gettid(), streams: map[*stream]*captured{s: {}}}
	s.capture = c
	l.capture = append(l.capture, c)
	return success
}

// endCapture makes the graph. Whatever it returns, nothing is captured any more,
// unless stream or thread were the wrong ones.
func (l *library) endCapture(s *stream) (uintptr, result) {
	c := s.capture
	switch {
	case c == nil:
		return 0, illegalState
	case c.mode != captureRelaxed && c.thread != syscall.Gettid():
		return 0, captureWrongThread
	case c.origin != s:
		c.broken = true
		return 0, captureUnmatched
	}
	unjoined := false
	for o, k := range c.streams {
		o.capture = nil
		unjoined = unjoined || o != s && !k.joined
	}
	c.ended = true
	l.capture = slices.DeleteFunc(l.capture, func(o *capture) bool { return o == c })
	switch {
	case c.broken:
		return 0, captureInvalidated
	case unjoined:
		return 0, captureUnjoined
	}
	return l.add(&graph{s.ctx, c.nodes}), success
}

// add records work of a stream.
func (c *capture) add(s *stream, o op) result {
	if c.broken {
		return captureInvalidated
	}
	k := c.streams[s]
	k.nodes++
	k.joined = false
	c.nodes = append(c.nodes, o)
	return success
}

// join makes what s does later wait for an event of the capture.
func (c *capture) join(s *stream, e *event) result {
	switch {
	case c.broken:
		return captureInvalidated
	case s.handle == 0:
		c.broken = true
		return captureImplicit
	case s.capture != nil && s.capture != c:
		c.broken, s.capture.broken = true, true
		return captureMerge
	}
	if s.capture == nil {
		s.capture = c
		c.streams[s] = &captured{}
	} else if s != c.origin && s != e.from {
		c.streams[s].joined = false
	}
	if from := c.streams[e.from]; e.from != s && from.nodes == e.nodes {
		from.joined = true
	}
	return success
}

// instantiate is cuGraphInstantiateWithFlags.
func (l *library) instantiate(c *context, h uintptr, flags uint64) (uintptr, result) {
	g, ok := of[*graph](l, h)
	if !ok || g.ctx != c || flags&^0xf != 0 {
		return 0, invalidValue
	}
	return l.add(&graphExec{c, slices.Clone(g.nodes)}), success
}

// launchGraph is cuGraphLaunch; in a stream that is captured it records the
// graph's work.
func (l *library) launchGraph(h uintptr, s *stream) result {
	g, ok := of[*graphExec](l, h)
	if !ok || g.ctx != s.ctx {
		return invalidValue
	}
	return l.enqueue(s, op{name: "graph", run: func() result {
		l.tracef("graph of %d runs", len(g.nodes))
		for _, o := range g.nodes {
			if r := o.run(); r != success {
				return r
			}
			if s.stuck {
				break
			}
		}
		return success
	}})
}

// destroyGraph is cuGraphDestroy and cuGraphExecDestroy. What is queued has its
// own hold on the work.
func destroyGraph[T any](l *library, h uintptr) result {
	if _, ok := of[T](l, h); !ok {
		return invalidValue
	}
	delete(l.handles, h)
	return success
}
