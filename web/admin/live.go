package admin

import (
	"net/http"
	"time"

	"hearth/engine/infer"
)

const (
	liveEvery     = 2 * time.Second
	liveHeartbeat = 15 * time.Second
	maxWatchers   = 64
)

// live streams the "live" part of a page whenever it has changed, as
// server-sent events (WHATWG HTML, section 9.2), each with the part rendered
// anew, the first as it is now. It ends with the session, the token or the
// certificate, and where the part cannot be rendered.
func (x *exchange) live() error {
	p, r := x.s.pageAt(x.r.Context(), x.r.URL.Query().Get("page"))
	if p == nil || !x.s.pages.hasLive(p.File) {
		return infer.Errorf(infer.CodeNotFound, "there is no page that is live at this path")
	}
	if !p.Access.Allows(x.caller.Role) {
		return infer.Errorf(infer.CodeForbidden, "your role (%s) may not see this page", x.caller.Role)
	}
	if x.s.watching.Add(1) > maxWatchers {
		x.s.watching.Add(-1)
		return infer.Errorf(infer.CodeOverloaded, "as many pages are watched as may be")
	}
	defer x.s.watching.Add(-1)
	gone := x.r.Context().Done()
	look := *x // as the page itself would be asked for
	look.r = r
	scene := x.s.scenes.enter(sceneKey{r.URL.RequestURI(), *x.caller})
	defer x.s.scenes.leave(scene)
	render := func() ([]byte, error) { return look.livePart(p) }
	event, n, err := scene.event(time.Now, render)
	if err != nil {
		return err
	}
	x.rec.patient = true
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(x.w)
	x.w.WriteHeader(http.StatusOK)
	tick := time.NewTimer(untilTick(time.Now()))
	defer tick.Stop()
	var last uint64
	said := x.s.opt.Now()
	for {
		now := x.s.opt.Now()
		switch {
		case n != last:
			last, said = n, now
			err = x.push(rc, event)
		case now.Sub(said) >= liveHeartbeat:
			said = now
			err = x.comment(rc)
		}
		if err != nil {
			return nil // the reader has gone
		}
		select {
		case <-gone:
			return nil
		case <-x.s.stopping:
			return nil
		case at := <-tick.C:
			tick.Reset(untilTick(at))
		}
		if !x.still(r.Context()) {
			return nil
		}
		if event, n, err = scene.event(time.Now, render); err != nil {
			return nil // the page asks again, and is told then
		}
	}
}

// livePart renders what a page shows live. What was read for somebody who has
// gone meanwhile is no part: parts that the page can do without may be missing
// for that reason alone, and others look at the same scene.
func (x *exchange) livePart(p *Page) ([]byte, error) {
	data, err := x.read(p)
	if err == nil {
		err = x.r.Context().Err()
	}
	if err != nil {
		return nil, err
	}
	return x.s.pages.execute(p.File, "live", x, data)
}

// untilTick is the time to the next moment at which pages are rendered: the same
// for all that are watched.
func untilTick(now time.Time) time.Duration {
	return now.Truncate(liveEvery).Add(liveEvery).Sub(now)
}

// push writes and takes the deadline away again: over HTTP/2 one that passes ends
// the stream, also while nothing is written.
func (x *exchange) push(rc *http.ResponseController, b []byte) error {
	_ = rc.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if _, err := x.w.Write(b); err != nil {
		return err
	}
	if err := rc.Flush(); err != nil {
		return err
	}
	return rc.SetWriteDeadline(time.Time{})
}

func (x *exchange) comment(rc *http.ResponseController) error {
	return x.push(rc, []byte(": still here\n\n"))
}
