package appliance

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/web"
)

// TestResponsesKept holds that a response is its tenant's, and gone when it has
// expired or was deleted.
func TestResponsesKept(t *testing.T) {
	b := newTestbed(t)
	ctx := context.Background()
	g := b.admit()
	defer g.Release()
	if !b.KeepsResponses() {
		t.Fatal("responses are not kept by default")
	}
	r := &web.StoredResponse{ID: "resp_1", Created: b.now(), Body: []byte(`{"id":"resp_1"}`), Input: []byte(`[]`)}
	if err := b.SaveResponse(ctx, g, r); err != nil {
		t.Fatal(err)
	}
	got, err := b.LoadResponse(ctx, g, "resp_1")
	if err != nil || string(got.Body) != `{"id":"resp_1"}` || got.Running || got.Expires.Sub(b.now()) < 23*time.Hour {
		t.Errorf("got %+v, %v", got, err)
	}
	other := *g
	other.Tenant = "other"
	b.grants.Store(&other, b.admission(g))
	defer b.grants.Delete(&other)
	if _, err := b.LoadResponse(ctx, &other, "resp_1"); infer.AsError(err).Code != infer.CodeNotFound {
		t.Errorf("another tenant's: %v", err)
	}
	if err := b.DeleteResponse(ctx, &other, "resp_1"); infer.AsError(err).Code != infer.CodeNotFound {
		t.Errorf("deleting another tenant's: %v", err)
	}
	if err := b.SaveResponse(ctx, &web.Grant{Tenant: "default"}, r); infer.AsError(err).Code != infer.CodeUnauthorized {
		t.Errorf("without an admission: %v", err)
	}
	if err := b.DeleteResponse(ctx, g, "resp_1"); err != nil {
		t.Error(err)
	}
	if _, err := b.LoadResponse(ctx, g, "resp_1"); infer.AsError(err).Code != infer.CodeNotFound {
		t.Errorf("after it was deleted: %v", err)
	}
}

// TestResponsesOff holds that nothing is written where responses are not kept.
func TestResponsesOff(t *testing.T) {
	b := newTestbedWith(t, testConfig+"[responses]\nenabled = false\n")
	g := b.admit()
	defer g.Release()
	if b.KeepsResponses() {
		t.Error("responses are kept")
	}
	err := b.SaveResponse(context.Background(), g, &web.StoredResponse{ID: "resp_1"})
	if infer.AsError(err).Code != infer.CodeUnsupported {
		t.Errorf("got %v", err)
	}
	if err := b.Detach(g, "resp_1", func(context.Context, *web.Grant) {}); infer.AsError(err).Code != infer.CodeUnsupported {
		t.Errorf("got %v", err)
	}
	if n, _, err := b.store.ResponsesStored(context.Background(), "default"); n != 0 || err != nil {
		t.Errorf("%d are stored, %v", n, err)
	}
}

// TestDetach holds that a run outlives its request with the request's admission,
// can be cancelled by its tenant, and ends with the server.
func TestDetach(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = wait(1)
	ctx := context.Background()
	ended := make(chan error, 2)
	run := func(id string) *web.Grant {
		g := b.admit()
		err := b.Detach(g, id, func(ctx context.Context, own *web.Grant) {
			var last error
			for _, err := range b.Call(ctx, own, chat("m")) {
				last = err
			}
			ended <- errors.Join(last, context.Cause(ctx))
		})
		if err != nil {
			t.Fatal(err)
		}
		g.Release() // the caller is gone
		return g
	}
	run("resp_1")
	if n := b.open.Load(); n != 1 {
		t.Errorf("%d requests are open while the run goes on", n)
	}
	g := b.admit()
	defer g.Release()
	if err := b.Detach(g, "resp_1", func(context.Context, *web.Grant) {}); infer.AsError(err).Code != infer.CodeConflict {
		t.Errorf("a second run: %v", err)
	}
	other := *g
	other.Tenant = "other"
	b.grants.Store(&other, b.admission(g))
	if found, err := b.CancelResponse(ctx, &other, "resp_1"); found || err != nil {
		t.Errorf("another tenant cancelled: %v", err)
	}
	b.grants.Delete(&other)
	if found, err := b.CancelResponse(ctx, g, "resp_1"); !found || err != nil {
		t.Errorf("cancel: %v %v", found, err)
	}
	if err := <-ended; !errors.Is(err, errCancelled) {
		t.Errorf("got %v", err)
	}
	for end := time.Now().Add(5 * time.Second); b.open.Load() != 1 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if found, _ := b.CancelResponse(ctx, g, "resp_1"); found {
		t.Error("it can be cancelled twice")
	}
	run("resp_2")
	b.stop(errStopping)
	if err := <-ended; !errors.Is(err, errStopping) {
		t.Errorf("got %v", err)
	}
	b.detached.wait.Wait()
}

// TestResponsesRoute goes through the server: a response, and one that goes on
// from it after the first has come to the ledger.
func TestResponsesRoute(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(3)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its own authority
	defer client.CloseIdleConnections()
	do := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, "https://"+b.listeners[0].Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+b.key)
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		out, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(out)
	}
	status, out := do("POST", "/v1/responses", `{"model":"m","input":"one","stream":true}`)
	if status != 200 || !strings.Contains(out, "event: response.completed") || !strings.Contains(out, `"input_tokens":10`) {
		t.Fatalf("%d %s", status, out)
	}
	at := strings.Index(out, `"id":"resp_h`)
	id := out[at+6:]
	id = id[:strings.IndexByte(id, '"')]
	status, out = do("GET", "/v1/responses/"+id, "")
	if status != 200 || !strings.Contains(out, `"text":"w w w "`) {
		t.Errorf("%d %s", status, out)
	}
	status, out = do("POST", "/v1/responses", `{"model":"m","input":"two","previous_response_id":"`+id+`","tools":[{"type":"web_search"}]}`)
	if status != 200 || !strings.Contains(out, `"status":"completed"`) {
		t.Errorf("%d %s", status, out)
	}
	if n, _, err := b.store.ResponsesStored(context.Background(), "default"); n != 2 || err != nil {
		t.Errorf("%d responses are stored, %v", n, err)
	}
	// What was said is in no log.
	if bytes.Contains([]byte(b.log.String()), []byte("w w w")) {
		t.Error("an answer is in the log")
	}
}
