package remote

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/engine/infer"
)

func TestGenerate(t *testing.T) {
	c := pair(t, new(fake))
	o := drain(c.Generate(t.Context(), request("n=100 size=10")))
	if o.err != nil || o.tokens != 100 || o.usage == nil || o.usage.CompletionTokens != 100 || len(o.text) != 1000 {
		t.Fatalf("got %+v", o)
	}
	for i := range 100 {
		if !strings.HasPrefix(o.text[10*i:], fmt.Sprintf("%d;", i)) {
			t.Fatalf("text is out of order at %d", i)
		}
	}
}

func TestErrorsKeepTheirType(t *testing.T) {
	c := pair(t, new(fake))
	o := drain(c.Generate(t.Context(), request("n=2 fail")))
	var e *infer.Error
	if !errors.As(o.err, &e) || e.Code != infer.CodeInvalid || e.Param != "prompt" || e.Message != "it says fail" ||
		e.RetryAfter != time.Minute || !e.NoRetry || e.Cause == nil || e.Cause.Error() != "because" || o.tokens != 2 {
		t.Fatalf("got %+v after %d tokens", e, o.tokens)
	}
	if _, err := c.Tokenize(t.Context(), &infer.TokenizeRequest{}); !errors.As(err, &e) || e.Code != infer.CodeUnsupported {
		t.Fatalf("got %v", err)
	}
}

func TestCalls(t *testing.T) {
	c := pair(t, new(fake))
	ctx := t.Context()
	r := request("abc")
	r.Sampling.MaxTokens = 5
	if n, err := c.Count(ctx, r); err != nil || n != (infer.Count{PromptTokens: 3, MaxOutputTokens: 5}) {
		t.Errorf("count: %v %v", n, err)
	}
	e, err := c.Embed(ctx, &infer.EmbedRequest{Model: "fake", Dimensions: 3})
	if err != nil || !reflect.DeepEqual(e.Vectors, [][]float32{{0, 1, 2}, {}}) || e.Usage.PromptTokens != 2 {
		t.Errorf("embed: %+v %v", e, err)
	}
	if ids, err := c.Tokenize(ctx, &infer.TokenizeRequest{Text: "x"}); err != nil || !reflect.DeepEqual(ids, []int32{1, -2, 1 << 30}) {
		t.Errorf("tokenize: %v %v", ids, err)
	}
	if b, err := c.Detokenize(ctx, "fake", []int32{4, 5}); err != nil || string(b) != "[4 5]" {
		t.Errorf("detokenize: %q %v", b, err)
	}
	if m, err := c.Models(ctx); err != nil || len(m) != 1 || m[0].Vocabulary != 9 {
		t.Errorf("models: %v %v", m, err)
	}
	wait(t, "a beat", func() bool { return c.Health(ctx).Ready })
}

// TestLargeCalls: sizes far above the window.
func TestLargeCalls(t *testing.T) {
	c := pair(t, new(fake))
	e, err := c.Embed(t.Context(), &infer.EmbedRequest{Dimensions: 3 << 20})
	if err != nil || len(e.Vectors[0]) != 3<<20 {
		t.Fatalf("embed: %v", err)
	}
	if _, err := c.Embed(t.Context(), &infer.EmbedRequest{Dimensions: 20 << 20}); infer.AsError(err).Code != infer.CodeTooLarge {
		t.Fatalf("80 MB of vectors: %v", err)
	}
	if o := drain(c.Generate(t.Context(), request("n=3 size=3000000"))); o.err != nil || len(o.text) != 9000000 {
		t.Fatalf("large events: %d bytes, %v", len(o.text), o.err)
	}
	if o := drain(c.Generate(t.Context(), request("n=1 size=40000000"))); infer.AsError(o.err).Code != infer.CodeTooLarge {
		t.Fatalf("event of 40 MB: %v", o.err)
	}
	if _, err := c.Count(t.Context(), request(strings.Repeat("x", maxPayload))); infer.AsError(err).Code != infer.CodeTooLarge {
		t.Fatalf("request of 64 MiB: %v", err)
	}
}

func TestCancel(t *testing.T) {
	f := new(fake)
	c := pair(t, f)
	for _, how := range []string{"break", "context", "context while full", "embed"} {
		ctx, cancel := context.WithCancel(t.Context())
		switch how {
		case "break":
			for range c.Generate(ctx, request("hang")) {
				break
			}
		case "context":
			time.AfterFunc(10*time.Millisecond, cancel)
			if o := drain(c.Generate(ctx, request("hang"))); !errors.Is(o.err, context.Canceled) {
				t.Errorf("%s: %v", how, o.err)
			}
		case "context while full":
			for range c.Generate(ctx, request("n=100000 size=1000")) {
				wait(t, "the worker to fill the window", func() bool { return f.steps.Load() > 100 })
				time.Sleep(10 * time.Millisecond)
				cancel()
			}
		case "embed":
			time.AfterFunc(10*time.Millisecond, cancel)
			if _, err := c.Embed(ctx, &infer.EmbedRequest{Dimensions: -1}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", how, err)
			}
		}
		cancel()
		wait(t, how+": the stream to end", func() bool { return f.open.Load() == 0 })
	}
	wait(t, "the worker to forget", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.last.Open == 0 && len(c.streams) == 0 && len(c.calls) == 0
	})
}

// TestSlowReader: a consumer that does not read stops its own stream, and no
// other; nothing is lost, and what is kept for it is bounded.
func TestSlowReader(t *testing.T) {
	f := new(fake)
	c := pair(t, f)
	const n = 5000
	var slow outcome
	reading := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for ev, err := range c.Generate(t.Context(), request(fmt.Sprintf("n=%d size=100", n))) {
			if slow.err = err; err != nil {
				return
			}
			<-reading
			slow.events++
			slow.text += ev.Text
			slow.tokens += ev.Tokens
		}
	})
	wait(t, "the slow stream to stall", func() bool {
		before := f.steps.Load()
		time.Sleep(20 * time.Millisecond)
		return before > 100 && f.steps.Load() == before
	})
	if made := f.steps.Load(); made > 3*windowBytes/100 {
		t.Errorf("%d events were made for a reader that stands still", made)
	}
	if c.vitals().waiting {
		t.Error("a stream whose reader stands still counts as waiting work")
	}
	for range 20 {
		if o := drain(c.Generate(t.Context(), request("n=50"))); o.err != nil || o.tokens != 50 {
			t.Fatalf("another stream: %+v", o)
		}
	}
	close(reading)
	wg.Wait()
	if slow.err != nil || slow.tokens != n || len(slow.text) != n*100 {
		t.Errorf("the slow stream got %d tokens, %d bytes, %v", slow.tokens, len(slow.text), slow.err)
	}
	if slow.events >= n {
		t.Errorf("no events were joined: %d", slow.events)
	}
}

func TestManyStreams(t *testing.T) {
	f := new(fake)
	c := pair(t, f)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				time.AfterFunc(time.Duration(i%7)*time.Millisecond, cancel)
			}
			o := drain(c.Generate(ctx, request(fmt.Sprintf("n=%d size=%d every=%dus", 20+i, 5+i*3, i%3*50))))
			if i%5 != 0 && (o.err != nil || o.tokens != 20+i) {
				t.Errorf("stream %d: %d tokens, %v", i, o.tokens, o.err)
			}
		})
	}
	wg.Wait()
	wait(t, "all streams to end", func() bool { return f.open.Load() == 0 })
}

// TestLost: when the connection goes, every stream ends with an error that
// says whether the request may be repeated.
func TestLost(t *testing.T) {
	f := new(fake)
	c := pair(t, f)
	errs := make(chan error, 3)
	go func() { errs <- drain(c.Generate(context.Background(), request("hang"))).err }()
	go func() {
		_, err := c.Embed(context.Background(), &infer.EmbedRequest{Dimensions: -1})
		errs <- err
	}()
	wait(t, "the stream to run", func() bool { return f.steps.Load() == 1 })
	time.Sleep(20 * time.Millisecond)
	c.fail(errors.New("test"))
	noRetry := 0
	for range 2 {
		e := infer.AsError(<-errs)
		if e.Code != infer.CodeUnavailable || e.RetryAfter == 0 || e.Cause == nil {
			t.Errorf("got %+v", e)
		}
		if e.NoRetry {
			noRetry++
		}
	}
	if noRetry != 1 {
		t.Errorf("%d of the two must not be repeated, want 1", noRetry)
	}
	if e := infer.AsError(drain(c.Generate(context.Background(), request(""))).err); e.Code != infer.CodeUnavailable || e.NoRetry {
		t.Errorf("afterwards: %+v", e)
	}
	if h := c.Health(t.Context()); h.Ready || h.Reason != "test" {
		t.Errorf("health: %+v", h)
	}
}
