package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"hearth/web/sse"
)

// Gateway is where cases are put: a server that speaks the inbound dialects.
type Gateway struct {
	URL    string
	Key    string
	Model  string
	Client *http.Client // nil: http.DefaultClient
	// Stage is the scripted provider behind it; nil where it is a real one.
	Stage Stage
}

// Stage is a scripted provider.
type Stage interface {
	// Play prepares what the next requests are answered with, and forgets what
	// was seen before.
	Play(scripts []json.RawMessage) error
	// Saw lists the requests since.
	Saw() []Observed
}

// Observed is one request as the scripted provider saw it.
type Observed struct {
	Dialect string
	Body    []byte
	Closed  time.Time // when the gateway was seen to leave; zero: it did not
}

// Outcome is what became of one case in one dialect and mode.
type Outcome struct {
	Case   string   `json:"case"`
	In     string   `json:"in"`
	Mode   string   `json:"mode"`
	Out    string   `json:"out,omitempty"` // the provider's dialect, where it was seen
	Result string   `json:"result"`        // "passed", "refused" (as it may be), "failed"
	Why    []string `json:"why,omitempty"`
	MS     int64    `json:"-"`

	family string
}

const (
	Passed  = "passed"
	Refused = "refused"
	Failed  = "failed"
)

// caseTime bounds one case.
const caseTime = 90 * time.Second

// maxAnswer bounds what is read of one answer.
const maxAnswer = 64 << 20

// Run puts one case in one dialect and mode.
func (g *Gateway) Run(ctx context.Context, c *Case, in, mode string) (o Outcome) {
	o = Outcome{Case: c.ID, In: in, Mode: mode, family: c.family}
	began := time.Now()
	defer func() { o.MS = time.Since(began).Milliseconds() }()
	ctx, cancel := context.WithTimeout(ctx, caseTime)
	defer cancel()
	want := c.Expect
	if g.Stage == nil {
		want = c.Real
	} else if err := g.Stage.Play(c.Scripts); err != nil {
		o.Result, o.Why = Failed, []string{err.Error()}
		return o
	}
	seen, left, err := g.ask(ctx, c, in, mode == "stream")
	if err != nil && left.IsZero() {
		o.Result, o.Why = Failed, []string{err.Error()}
		return o
	}
	var saw []Observed
	if g.Stage != nil {
		saw = g.waitClosed(&want, left)
		if len(saw) > 0 {
			o.Out = saw[len(saw)-1].Dialect
		}
	}
	if g.Stage == nil && !left.IsZero() {
		o.Result = Passed // what a real provider saw of it cannot be known here
		return o
	}
	o.Result, o.Why = want.judge(c, in, mode, seen, saw, left)
	return o
}

// waitClosed waits until the provider has seen the caller leave, where that is
// to be judged.
func (g *Gateway) waitClosed(want *Expect, left time.Time) []Observed {
	saw := g.Stage.Saw()
	if want.ClosedMS == 0 {
		return saw
	}
	if left.IsZero() {
		left = time.Now()
	}
	for time.Since(left) < time.Duration(want.ClosedMS)*time.Millisecond+2*time.Second {
		if saw = g.Stage.Saw(); len(saw) > 0 && !saw[len(saw)-1].Closed.IsZero() {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	return saw
}

// ask sends the request and reads the answer. left is when the caller hung up,
// if the case says that it does.
func (g *Gateway) ask(ctx context.Context, c *Case, in string, stream bool) (*Seen, time.Time, error) {
	path, body := c.Ask.Write(in, g.Model, stream)
	if c.Ask.Repeat > 1 && g.Stage == nil { // a scripted provider knows without
		body = repeat(body, c.Ask.Turns[0].Text, c.Ask.Repeat)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(g.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, time.Time{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+g.Key)
	var left time.Time
	leave := func() { left = time.Now(); cancel() }
	gone := make(chan time.Time, 1)
	if c.Leave == "head" {
		go func() {
			g.waitAsked(ctx)
			gone <- time.Now()
			cancel()
		}()
	}
	began := time.Now()
	client := g.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		if c.Leave == "head" && ctx.Err() != nil {
			return &Seen{}, <-gone, err
		}
		return nil, left, fmt.Errorf("cannot ask: %w", err)
	}
	defer resp.Body.Close()
	s := &Seen{Status: resp.StatusCode, Header: resp.Header}
	from := io.LimitReader(resp.Body, maxAnswer)
	if kind := resp.Header.Get("Content-Type"); stream && resp.StatusCode < 300 && (strings.HasPrefix(kind, "text/event-stream") || strings.HasPrefix(kind, "application/x-ndjson")) {
		s.Streamed = true
		err = s.readStream(in, from, began, func() bool {
			if c.Leave == "first" && s.Text != "" {
				leave()
				return false
			}
			return true
		})
	} else {
		if s.Raw, err = io.ReadAll(from); err == nil {
			readWhole(s, in, s.Raw)
			if stream && s.Status < 300 {
				s.fault("a whole answer where a stream was asked for")
			}
		}
	}
	s.Total = time.Since(began)
	return s, left, err
}

// waitAsked waits until the request is at the provider and the caller may leave:
// where that cannot be seen, for a while.
func (g *Gateway) waitAsked(ctx context.Context) {
	const longest, step = 10 * time.Second, 5 * time.Millisecond
	until := time.Now().Add(longest)
	for g.Stage != nil && len(g.Stage.Saw()) == 0 && time.Now().Before(until) && ctx.Err() == nil {
		time.Sleep(step)
	}
	select {
	case <-time.After(150 * time.Millisecond):
	case <-ctx.Done():
	}
}

// repeat makes the first turn's text long.
func repeat(body []byte, text string, n int) []byte {
	return bytes.Replace(body, []byte(text), []byte(strings.Repeat(text+" ", n)), 1)
}

// readStream reads events until the end. A transport that breaks off is no
// error: it shows in End.
func (s *Seen) readStream(in string, from io.Reader, began time.Time, step func() bool) error {
	r := newReader(s, in)
	var raw bytes.Buffer
	from = io.TeeReader(from, &raw)
	defer func() { s.Raw = raw.Bytes() }()
	on := func(name string, data []byte) bool {
		if s.Events++; s.Events == 1 {
			s.First = time.Since(began)
		}
		r.event(name, data)
		return step()
	}
	var err error
	if in == Ollama {
		err = lines(from, on)
	} else {
		events := sse.NewReader(from, 32<<20)
		for {
			var e sse.Event
			if e, err = events.Next(); err != nil || !on(e.Name, e.Data) {
				break
			}
		}
	}
	if err == io.EOF {
		r.end()
	}
	if s.End == "" {
		s.End = "cut"
	}
	if err == nil || err == io.EOF || s.End == "cut" || s.End == "error" {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("cannot read the stream: %w", err)
}

// lines reads one JSON value a line.
func lines(from io.Reader, on func(string, []byte) bool) error {
	b := bufio.NewReaderSize(from, 64<<10)
	for {
		l, err := b.ReadBytes('\n')
		if l = bytes.TrimSpace(l); len(l) > 0 && !on("", l) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
