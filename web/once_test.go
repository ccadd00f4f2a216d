package web_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/web"
	"hearth/web/webtest"
)

// keyed posts a chat under an Idempotency-Key.
func (b *bench) keyed(ctx context.Context, key, body string) (*http.Response, error) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", b.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+webtest.Key)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return http.DefaultClient.Do(r)
}

func (b *bench) mustKeyed(key, body string) answer {
	b.t.Helper()
	res, err := b.keyed(context.Background(), key, body)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, all}
}

func said(text string, stream bool) string {
	return fmt.Sprintf(`{"model":"parrot","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, text)
}

// TestRepeatIsAnsweredOnce gives the bytes of the first answer to each repeat,
// without another call, whole and streamed.
func TestRepeatIsAnsweredOnce(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for i, stream := range []bool{false, true} {
		key := fmt.Sprint("key ", i)
		first := b.mustKeyed(key, said("hello there", stream))
		if first.status != 200 || first.header.Get("X-Hearth-Replayed") != "" || len(first.body) == 0 {
			t.Fatalf("first: %d %v %s", first.status, first.header, first.body)
		}
		if stream && !bytes.HasSuffix(first.body, []byte("data: [DONE]\n\n")) {
			t.Errorf("the stream ends with %q", first.body)
		}
		calls := b.svc.Calls.Load()
		for range 2 {
			again := b.mustKeyed(key, said("hello there", stream))
			if again.status != 200 || !bytes.Equal(again.body, first.body) || again.header.Get("Content-Type") != first.header.Get("Content-Type") ||
				again.header.Get("X-Hearth-Contract") != first.header.Get("X-Hearth-Contract") {
				t.Errorf("again: %d %v\n%s\nwant %s", again.status, again.header, again.body, first.body)
			}
			if again.header.Get("X-Hearth-Replayed") != first.header.Get("X-Request-Id") || again.header.Get("X-Request-Id") == first.header.Get("X-Request-Id") {
				t.Errorf("headers of the repeat: %v", again.header)
			}
		}
		if n := b.svc.Calls.Load(); n != calls {
			t.Errorf("%d calls for repeats", n-calls)
		}
		other := b.mustKeyed(key, said("hello you", stream))
		if e := other.errorOf(t); other.status != 409 || other.header.Get("X-Should-Retry") != "false" {
			t.Errorf("another body: %d %v", other.status, e)
		}
	}
}

// TestRepeatOfAFailure runs again what failed by status, and shows a stream that
// broke off as it was.
func TestRepeatOfAFailure(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for range 2 {
		if a := b.mustKeyed("fails", said("error overloaded", false)); a.status != 503 || a.header.Get("X-Hearth-Replayed") != "" {
			t.Errorf("%d %v", a.status, a.header)
		}
	}
	first := b.mustKeyed("dies", said("die", true))
	again := b.mustKeyed("dies", said("die", true))
	if !bytes.Equal(first.body, again.body) || again.header.Get("X-Hearth-Replayed") == "" || !bytes.Contains(again.body, []byte("error")) {
		t.Errorf("first %q\nagain %q", first.body, again.body)
	}
	ctx, cancel := context.WithCancel(context.Background())
	res, err := b.keyed(ctx, "left", said("endless", true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cancel()
	res.Body.Close()
	for limit := time.Now().Add(5 * time.Second); b.srv.Open() > 0 && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	res, err = b.keyed(context.Background(), "left", said("endless", true))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	switch {
	case res.StatusCode == 409: // more was sent than is kept
	case err == nil || bytes.Contains(body, []byte("[DONE]")):
		t.Errorf("a stream that was left looks whole: %d, %v", res.StatusCode, err)
	}
}

func TestRepeatMeanwhile(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := b.mustKeyed("k", said("wait 300ms", false)); a.status != 200 {
			t.Errorf("first: %d", a.status)
		}
	})
	for limit := time.Now().Add(5 * time.Second); b.svc.Calls.Load() == 0 && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	a := b.mustKeyed("k", said("wait 300ms", false))
	if a.status != 409 || a.header.Get("Retry-After") != "1" || a.header.Get("X-Should-Retry") != "true" {
		t.Errorf("meanwhile: %d %v", a.status, a.header)
	}
	wg.Wait()
	if a := b.mustKeyed("k", said("wait 300ms", false)); a.status != 200 || a.header.Get("X-Hearth-Replayed") == "" {
		t.Errorf("afterwards: %d %v", a.status, a.header)
	}
}

// TestTooLargeToRepeat serves what is too large to keep, and says so later.
func TestTooLargeToRepeat(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for i, stream := range []bool{false, true} {
		body := said(strings.Repeat("long ", webtest.OnceLimit/4), stream)
		first := b.mustKeyed(fmt.Sprint(i), body)
		if first.status != 200 || len(first.body) < webtest.OnceLimit || stream && !bytes.HasSuffix(first.body, []byte("data: [DONE]\n\n")) {
			t.Errorf("first: %d, %d bytes", first.status, len(first.body))
		}
		if again := b.mustKeyed(fmt.Sprint(i), body); again.status != 409 || again.header.Get("X-Should-Retry") != "false" {
			t.Errorf("again: %d %v", again.status, again.header)
		}
	}
}

func TestBadIdempotencyKeys(t *testing.T) {
	b := start(t, web.Limits{}, nil)
	for _, key := range []string{strings.Repeat("x", 256), "schlüssel"} {
		if a := b.mustKeyed(key, said("hello", false)); a.status != 400 {
			t.Errorf("%.20q: %d %s", key, a.status, a.body)
		}
	}
	if a := b.mustKeyed(strings.Repeat("x", 255), said("hello", false)); a.status != 200 {
		t.Errorf("255 characters: %d %s", a.status, a.body)
	}
}
