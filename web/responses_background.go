package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"hearth/engine/infer"
	"hearth/web/responses"
	"hearth/web/sse"
	"hearth/web/wire"
)

// Bounds of what is kept of runs in the background for those who follow them.
const (
	maxLiveBytes = 4 << 20 // frames of one run; beyond it nobody can follow
	maxLiveRuns  = 16      // runs that have ended and can still be followed
)

// detach implements detacher: a run in the background is answered at once.
func (d *responsesDialect) detach(r *infer.Request, o wire.Options) bool {
	if !d.turn.Background {
		return false
	}
	x := d.x
	id := responses.ResponseID(r.ID)
	s := responses.NewStream(r, o)
	queued := s.Opening(responses.Queued)
	if err := d.save(x.r.Context(), x.grant, id, s.Opening(responses.Running)); err != nil {
		x.fail(err)
		return true
	}
	// The body belongs to the exchange, and its memory is counted there.
	run := &liveResponse{wake: make(chan struct{}), body: queued}
	x.s.live.add(x.grant.Tenant, id, run)
	err := x.s.opt.Service.Detach(x.grant, id, func(ctx context.Context, g *Grant) {
		x.s.runDetached(ctx, g, d, r, s, run)
	})
	if err != nil {
		run.end()
		_ = x.s.opt.Service.DeleteResponse(context.WithoutCancel(x.r.Context()), x.grant, id)
		x.fail(err)
		return true
	}
	if o.Stream {
		x.follow(run, 0)
		return true
	}
	x.json(http.StatusOK, append(queued, '\n'))
	return true
}

// runDetached makes the answer of a run in the background and keeps it.
func (s *Server) runDetached(ctx context.Context, g *Grant, d *responsesDialect, r *infer.Request, enc *responses.Stream, run *liveResponse) {
	defer run.end()
	enc.Cancelled = func() bool { return ctx.Err() != nil }
	enc.Save = func(body []byte) error {
		if run.deleted() {
			return nil
		}
		return d.save(ctx, g, enc.ID(), body)
	}
	fail := func(err error) { run.add(enc.Error(nil, infer.AsError(err))) }
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("BUG: a run in the background panicked", "request", r.ID, "panic", fmt.Sprintf("%T", v))
			fail(fmt.Errorf("BUG: a run in the background panicked"))
		}
	}()
	complete, native := false, false
	for ev, err := range s.opt.Service.Call(ctx, g, r) {
		if err != nil {
			fail(err)
			return
		}
		if ev.Kind == infer.EventStart && ev.Model != nil {
			native = ev.Model.Native
		}
		complete = complete || ev.Kind == infer.EventUsage
		if native && complete && ev.Frame != nil {
			enc.Final = responses.Renamed(responses.OfFrame(ev.Frame), enc.ID())
		}
		frames, err := enc.Event(nil, ev)
		if err != nil {
			fail(err)
			return
		}
		run.add(frames)
	}
	if !complete {
		err := error(infer.Errorf(infer.CodeUnavailable, "the run was ended"))
		if ctx.Err() == nil {
			err = fmt.Errorf("BUG: a stream without usage")
		}
		fail(err)
	}
}

// liveResponse is a run in the background with the frames of its stream.
type liveResponse struct {
	mu     sync.Mutex
	frames []byte
	over   bool // there are more frames than are kept
	gone   bool // the caller has deleted the response
	ended  bool
	wake   chan struct{} // closed when something is new
	body   []byte        // as it was answered first
}

func (l *liveResponse) add(frames []byte) {
	if len(frames) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over = l.over || len(l.frames)+len(frames) > maxLiveBytes; l.over {
		l.frames = nil
	} else {
		l.frames = append(l.frames, frames...)
	}
	close(l.wake)
	l.wake = make(chan struct{})
}

func (l *liveResponse) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended = true
		close(l.wake)
		l.wake = make(chan struct{})
	}
}

func (l *liveResponse) drop() {
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
}

func (l *liveResponse) deleted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// since gives the frames behind the first n bytes. What is given is not changed
// any more.
func (l *liveResponse) since(n int) (frames []byte, ended, over bool, wake <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < len(l.frames) {
		frames = l.frames[n:len(l.frames):len(l.frames)]
	}
	return frames, l.ended, l.over, l.wake
}

// follow streams a run from the event numbered from on, live. Its leaving does
// not end the run.
func (x *exchange) follow(run *liveResponse, from int) {
	x.stream = true
	out := sse.NewWriter(x.w, x.s.limits().WriteTime)
	beat := time.NewTimer(x.s.limits().Heartbeat)
	defer beat.Stop()
	at, events := 0, 0
	for {
		frames, ended, over, wake := run.since(at)
		if over {
			e := infer.Errorf(infer.CodeUnavailable, "the stream is larger than what is kept of it: fetch the response when it has ended")
			if !out.Started() {
				x.fail(e)
			} else {
				x.note(e)
				panic(http.ErrAbortHandler)
			}
			return
		}
		at += len(frames)
		events += bytes.Count(frames, []byte("\n\n"))
		if frames = responses.SkipFrames(frames, &from); len(frames) > 0 {
			if ended {
				x.w.ending()
				x.w.ended()
			}
			if out.Send(frames) != nil {
				return
			}
			continue
		}
		if ended {
			if !out.Started() {
				_ = out.Start()
			}
			return
		}
		select {
		case <-wake:
		case <-beat.C:
			if out.Ping() != nil {
				return
			}
		case <-x.s.stopping:
			panic(http.ErrAbortHandler)
		case <-x.grant.Ended:
			e := infer.Errorf(infer.CodeUnauthorized, "the credential of this request was revoked or has expired")
			x.note(e)
			_ = out.Send(responses.AppendError(nil, events, e)) // the caller may have left
			return
		case <-x.r.Context().Done():
			return
		}
		beat.Reset(x.s.limits().Heartbeat)
	}
}

// liveResponses finds runs by tenant and id. Those that have ended are forgotten
// when there are too many.
type liveResponses struct {
	mu    sync.Mutex
	by    map[[2]string]*liveResponse
	order [][2]string
}

func (l *liveResponses) add(tenant, id string, run *liveResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[[2]string]*liveResponse{}
	}
	key := [2]string{tenant, id}
	l.by[key] = run
	l.order = append(l.order, key)
	for i := 0; i < len(l.order) && len(l.order) > maxLiveRuns; {
		run := l.by[l.order[i]]
		run.mu.Lock()
		ended := run.ended
		run.mu.Unlock()
		if !ended {
			i++
			continue
		}
		delete(l.by, l.order[i])
		l.order = append(l.order[:i], l.order[i+1:]...)
	}
}

func (l *liveResponses) find(tenant, id string) *liveResponse {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.by[[2]string{tenant, id}]
}
