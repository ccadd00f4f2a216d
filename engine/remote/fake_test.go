package remote

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"hearth/engine/infer"
)

// fake is a backend whose prompt says what it does, word by word: "n=5" events,
// "every=1ms" apart, each of "size=10" bytes; "hang" after the first event,
// "fail" at the end.
type fake struct {
	steps  atomic.Uint64
	open   atomic.Int64 // streams that run
	begun  atomic.Int64
	wedged atomic.Bool // steps do not count, streams hang
	closed atomic.Int64
}

func (f *fake) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) {
		f.open.Add(1)
		f.begun.Add(1)
		defer f.open.Add(-1)
		n, size, every, hang, fail := 3, 4, time.Duration(0), false, false
		for _, w := range strings.Fields(r.Prompts[0].Text) {
			key, val, _ := strings.Cut(w, "=")
			switch key {
			case "n":
				n, _ = strconv.Atoi(val)
			case "size":
				size, _ = strconv.Atoi(val)
			case "every":
				every, _ = time.ParseDuration(val)
			case "hang":
				hang = true
			case "fail":
				fail = true
			}
		}
		if !yield(infer.Event{Kind: infer.EventStart, Usage: &infer.Usage{PromptTokens: 7}, Model: &infer.Served{Name: r.Model}}, nil) {
			return
		}
		for i := range n {
			if every > 0 {
				select {
				case <-time.After(every):
				case <-ctx.Done():
				}
			}
			if err := ctx.Err(); err != nil {
				yield(infer.Event{}, err)
				return
			}
			f.steps.Add(1)
			text := fmt.Sprintf("%d;", i)
			text += strings.Repeat("x", max(0, size-len(text)))
			if !yield(infer.Event{Kind: infer.EventText, Text: text, Tokens: 1, TokenIDs: []int32{int32(i)}}, nil) {
				return
			}
			if hang || f.wedged.Load() {
				<-ctx.Done()
				yield(infer.Event{}, ctx.Err())
				return
			}
		}
		if fail {
			e := infer.Invalid("prompt", "it says fail")
			e.RetryAfter, e.NoRetry, e.Cause = time.Minute, true, errors.New("because")
			yield(infer.Event{}, e)
			return
		}
		if yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) {
			yield(infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 7, CompletionTokens: n}}, nil)
		}
	}
}

func (f *fake) Count(_ context.Context, r *infer.Request) (infer.Count, error) {
	return infer.Count{PromptTokens: len(r.Prompts[0].Text), MaxOutputTokens: r.Sampling.MaxTokens}, nil
}

func (f *fake) Embed(ctx context.Context, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	if r.Dimensions < 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	v := make([]float32, r.Dimensions)
	for i := range v {
		v[i] = float32(i)
	}
	return &infer.EmbedResult{Model: r.Model, Vectors: [][]float32{v, {}}, Usage: infer.Usage{PromptTokens: 2}}, nil
}

func (f *fake) Tokenize(_ context.Context, r *infer.TokenizeRequest) ([]int32, error) {
	if r.Text == "" {
		return nil, infer.Errorf(infer.CodeUnsupported, "nothing to do")
	}
	return []int32{1, -2, 1 << 30}, nil
}

func (f *fake) Detokenize(_ context.Context, _ string, ids []int32) ([]byte, error) {
	return fmt.Append(nil, ids), nil
}

func (f *fake) Models(context.Context) ([]infer.Model, error) {
	return []infer.Model{{Name: "fake", Vocabulary: 9}}, nil
}

func (f *fake) Health(context.Context) infer.Health {
	return infer.Health{Ready: true, Stats: infer.Stats{Steps: f.steps.Load(), Running: int(f.open.Load()), OutputTokens: f.steps.Load()}}
}

func (f *fake) Close() error {
	f.closed.Add(1)
	return nil
}

// request asks the fake to do what prompt says.
func request(prompt string) *infer.Request {
	r := infer.NewRequest()
	r.Kind, r.Model, r.Prompts = infer.Completion, "fake", []infer.Prompt{{Text: prompt}}
	return r
}

// outcome is all that a stream gave.
type outcome struct {
	text   string
	tokens int
	events int
	usage  *infer.Usage
	err    error
}

func drain(seq iter.Seq2[infer.Event, error]) (o outcome) {
	for ev, err := range seq {
		if err != nil {
			o.err = err
			return o
		}
		o.events++
		o.text += ev.Text
		o.tokens += ev.Tokens
		if ev.Kind == infer.EventUsage {
			o.usage = ev.Usage
		}
	}
	return o
}

// wait fails the test when f does not become true.
func wait(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// pair is a client and the fake at the other end of a net.Pipe.
func pair(t testing.TB, f *fake) *Client {
	ours, theirs := net.Pipe()
	var wg sync.WaitGroup
	var closing atomic.Bool // our own hang-up may cut a heartbeat in two; nothing else may
	wg.Go(func() {
		err := Serve(t.Context(), theirs, f, ServeOptions{Build: "b"})
		if cut := err != nil && strings.Contains(err.Error(), "ended inside a frame"); err != nil && !(cut && closing.Load()) {
			t.Errorf("serve: %v", err)
		}
	})
	c, err := Dial(t.Context(), ours, ClientOptions{Build: "b", Beat: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closing.Store(true)
		c.Close()
		wg.Wait()
		if n := f.open.Load(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
	return c
}

func TestMain(m *testing.M) {
	if mode := os.Getenv("HEARTH_TEST_WORKER"); mode != "" {
		os.Exit(workerMain(mode))
	}
	goleak.VerifyTestMain(m)
}
