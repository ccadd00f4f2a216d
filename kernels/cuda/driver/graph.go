package driver

import "unsafe"

// Graph is captured work, ready to be queued as a whole.
type Graph struct {
	c           *Context
	graph, exec uintptr
}

// captureThreadLocal: only this thread's calls are held to the rules of capture;
// cuda.h, enum CUstreamCaptureMode.
const captureThreadLocal = 1

// Capture records what f queues in s, without running it.
func (s *Stream) Capture(f func() error) (*Graph, error) {
	if err := s.c.call(callStreamBeginCapture, s.handle, captureThreadLocal); err != nil {
		return nil, err
	}
	err := f()
	g := &Graph{c: s.c}
	end := s.c.call(callStreamEndCapture, s.handle, uintptr(unsafe.Pointer(&g.graph)))
	if err == nil {
		err = end
	}
	if err == nil {
		err = s.c.call(callGraphInstantiate, uintptr(unsafe.Pointer(&g.exec)), g.graph, 0)
	}
	if err != nil {
		_ = g.Destroy() // the first error counts
		return nil, err
	}
	return g, nil
}

// Replay queues the graph.
func (s *Stream) Replay(g *Graph) error {
	args := s.c.args[:2]
	args[0], args[1] = g.exec, s.handle
	return s.c.raw(callGraphLaunch, args)
}

// Destroy gives the graph back.
func (g *Graph) Destroy() error {
	var err error
	if g.exec != 0 {
		err = g.c.call(callGraphExecDestroy, g.exec)
	}
	if g.graph != 0 {
		if e := g.c.call(callGraphDestroy, g.graph); err == nil {
			err = e
		}
	}
	g.exec, g.graph = 0, 0
	return err
}
