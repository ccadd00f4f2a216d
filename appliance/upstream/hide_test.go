package upstream

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/policy"
)

// A provider that repeats its credential in an answer does not tell it to the
// caller, neither in what is passed on as it came nor in what is read from it.
func TestEchoedCredential(t *testing.T) {
	u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		stream(w, "data: {\"t\":\"your key is "+key+"\"}\n\ndata: {\"end\":true,\"out\":2}\n\n")
	}, func(c *policy.UpstreamConfig, o *Options) {
		c.Credential, o.Getenv = "env:KEY", func(string) string { return canary }
	})
	text, err := ask(t.Context(), u, true)
	if err != nil || strings.Contains(text, canary) || !strings.Contains(text, "your key is …") {
		t.Errorf("got %q, %v", text, err)
	}
	x := &exchange{hidden: [][]byte{[]byte(canary)}}
	sent := &infer.Frame{Data: []byte(`{"id":"` + canary + `"}`)}
	ev := infer.Event{Kind: infer.EventFrame, Frame: sent}
	if x.hide(&ev); string(ev.Frame.Data) != `{"id":"…"}` || !strings.Contains(string(sent.Data), canary) {
		t.Errorf("got %s", ev.Frame.Data)
	}
}

// What a provider may make to choose from is paid for as well.
func TestCountBestOf(t *testing.T) {
	u, _ := serve(t, func(http.ResponseWriter, *http.Request) {})
	r := infer.NewRequest()
	r.Kind, r.Prompts = infer.Completion, []infer.Prompt{{Text: "a"}, {Text: "b"}}
	r.Sampling.MaxTokens, r.Sampling.BestOf = 10, 20
	if n, err := u.Backend("m", 16).Count(context.Background(), r); err != nil || n.MaxOutputTokens != 400 {
		t.Errorf("got %+v, %v", n, err)
	}
}
