package upstream

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"hearth/engine/infer"
	"hearth/policy"
)

// TestProfilesFitPolicy holds the table here to the one that configurations are
// checked by.
func TestProfilesFitPolicy(t *testing.T) {
	if len(profiles) != len(policy.Providers) {
		t.Errorf("%d kinds here, %d there", len(profiles), len(policy.Providers))
	}
	for _, p := range policy.Providers {
		own, err := profileOf(p.Kind)
		if err != nil {
			t.Error(err)
			continue
		}
		if own.dialects[0] != p.Dialects[0] {
			t.Errorf("%s: prefers %s, not %s", p.Kind, own.dialects[0], p.Dialects[0])
		}
		all := slices.Concat(own.dialects, own.optional)
		for _, d := range p.Dialects {
			if !slices.Contains(all, d) {
				t.Errorf("%s: %s is not offered", p.Kind, d)
			}
		}
		if (own.base == "") != p.BaseURL && p.Kind != "ollama" {
			t.Errorf("%s: base_url", p.Kind)
		}
		for _, d := range p.Dialects {
			if newClient(d, p.Kind) == nil {
				t.Logf("%s: there is no client yet", d)
				continue
			}
			c := policy.UpstreamConfig{Name: "u", Kind: p.Kind, BaseURL: "http://127.0.0.1:1", Region: "r", Project: "p", Dialect: d}
			u, err := New(&c, Options{})
			if err != nil {
				t.Errorf("%s speaking %s: %v", p.Kind, d, err)
				continue
			}
			if u.clients[0].Dialect() != d {
				t.Errorf("%s: prefers %s, not %s", p.Kind, u.clients[0].Dialect(), d)
			}
			u.Close()
		}
	}
}

// TestPlaces holds where requests go, by kind, base URL and dialect: either habit
// of writing a base URL leads to the same place.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		kind, base, version, dialect, model string
		stream                              bool
		want                                string
	}{
		{"openai-compatible", "", "", "", "m", false, "/v1/chat/completions"},
		{"openai-compatible", "/", "", "", "m", true, "/v1/chat/completions"},
		{"openai-compatible", "/v1", "", "", "m", false, "/v1/chat/completions"},
		{"openai-compatible", "/v1/", "", "", "m", false, "/v1/chat/completions"},
		{"openai-compatible", "/some/proxy/v1", "", "", "m", false, "/some/proxy/v1/chat/completions"},
		{"openai-compatible", "/proxy", "", "", "m", false, "/proxy/chat/completions"},
		{"openai", "", "", dialectResponses, "m", false, "/v1/responses"},
		{"openrouter", "", "", "", "m", false, "/api/v1/chat/completions"},
		{"anthropic", "", "", "", "claude-x", false, "/v1/messages"},
		{"anthropic", "/v1", "", "", "claude-x", true, "/v1/messages"},
		{"anthropic", "/proxy/v1", "", "", "claude-x", true, "/proxy/v1/messages"},
		{"gemini", "", "", "", "gemini-x", false, "/v1beta/models/gemini-x:generateContent"},
		{"gemini", "/v1beta", "", "", "gemini-x", true, "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"},
		{"gemini", "", "", dialectChat, "gemini-x", false, "/v1beta/openai/chat/completions"},
		{"azure", "", "2024-10-21", "", "my-gpt", false, "/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"},
		{"azure", "/openai", "2024-10-21", "", "my gpt", false, "/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21"},
		{"azure", "/openai/deployments/other", "2024-10-21", "", "d", false, "/openai/deployments/d/chat/completions?api-version=2024-10-21"},
		{"azure", "", "2025-04-01-preview", dialectResponses, "d", false, "/openai/responses?api-version=2025-04-01-preview"},
		{"azure", "", "", "", "d", false, "/openai/v1/chat/completions"},
		{"azure", "/openai/v1", "preview", "", "d", false, "/openai/v1/chat/completions?api-version=preview"},
		{"vertex", "", "", "", "gemini-x", false, "/v1/projects/p/locations/eu1/publishers/google/models/gemini-x:generateContent"},
		{"vertex", "/v1", "", "", "gemini-x", true, "/v1/projects/p/locations/eu1/publishers/google/models/gemini-x:streamGenerateContent?alt=sse"},
		{"vertex", "", "", "", "claude-opus-4@20250514", false, "/v1/projects/p/locations/eu1/publishers/anthropic/models/claude-opus-4@20250514:rawPredict"},
		{"vertex", "", "", "", "claude-x", true, "/v1/projects/p/locations/eu1/publishers/anthropic/models/claude-x:streamRawPredict"},
		{"vertex", "", "", "", "meta/llama-x", false, "/v1/projects/p/locations/eu1/endpoints/openapi/chat/completions"},
		{"bedrock", "", "", "", "eu.anthropic.claude-x-v1:0", false, "/model/eu.anthropic.claude-x-v1%3A0/converse"},
		{"bedrock", "", "", "", "eu.anthropic.claude-x-v1:0", true, "/model/eu.anthropic.claude-x-v1%3A0/converse-stream"},
		{"bedrock", "", "", dialectAnthropic, "eu.anthropic.claude-x-v1:0", false, "/model/eu.anthropic.claude-x-v1%3A0/invoke"},
		{"bedrock", "", "", dialectAnthropic, "arn:aws:bedrock:eu:1:x/y", true, "/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ax%2Fy/invoke-with-response-stream"},
		{"hearth", "", "", "", "m", false, "/v1/chat/completions"},
		{"hearth", "/v1", "", dialectAnthropic, "m", false, "/v1/messages"},
		{"hearth", "/v1", "", dialectResponses, "m", false, "/v1/responses"},
	} {
		var uri, body atomic.Value
		u, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			uri.Store(r.RequestURI)
			body.Store(string(b))
			w.WriteHeader(418)
		})
		own, err := New(&policy.UpstreamConfig{Name: "u", Kind: c.kind, BaseURL: "http://" + u.target.host + c.base, APIVersion: c.version, Dialect: c.dialect, Project: "p", Region: "eu1"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range own.Backend(c.model, 10).Generate(t.Context(), chat(c.stream)) {
			if e := infer.AsError(err); e.Upstream == nil || e.Upstream.Status != 418 {
				t.Errorf("%+v: got %v", c, err)
			}
		}
		if got := uri.Load(); got != c.want {
			t.Errorf("%s at %q in %q: got %v, want %s", c.kind, c.base, c.dialect, got, c.want)
		}
		if got := body.Load(); c.kind == "vertex" && strings.HasPrefix(c.model, "claude") && (strings.Contains(got.(string), `"model"`) || !strings.Contains(got.(string), `"anthropic_version":"vertex-2023-10-16"`)) {
			t.Errorf("%s: body %s", c.kind, got)
		}
		own.Close()
	}
}

func TestRegions(t *testing.T) {
	for host, want := range map[string]string{
		"europe-west4-aiplatform.googleapis.com": "europe-west4", "aiplatform.googleapis.com": "", "bedrock-runtime.eu-west-1.amazonaws.com": "eu-west-1",
		"vpce-1-2.bedrock-runtime.us-east-1.vpce.amazonaws.com": "us-east-1", "bedrock-runtime-fips.us-east-1.amazonaws.com": "us-east-1", "127.0.0.1": "",
	} {
		if got := regionOf(host); got != want {
			t.Errorf("%s: got %q", host, got)
		}
	}
	u, err := New(&policy.UpstreamConfig{Name: "u", Kind: "bedrock", BaseURL: "http://127.0.0.1:1", Credential: "env:K"}, Options{Getenv: func(string) string { return "A:B" }})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := askFor(t.Context(), u, chat(false)); err == nil || err.Upstream.Class != infer.FailAuth {
		t.Errorf("without a region: got %v", err)
	}
}

func TestRestated(t *testing.T) {
	got, err := restated([]byte(` { "model" : "m", "a": [1, 2] ,"stream":true,"b\u0063":{"model":1}, "anthropic_version":"x"}`), `"v":1`, []string{"model", "stream"})
	if err != nil || string(got) != `{"v":1,"a":[1, 2],"bc":{"model":1}}` {
		t.Errorf("got %s, %v", got, err)
	}
	for _, bad := range []string{"", "[]", `{"a":}`, `{"a":1} x`} {
		if _, err := restated([]byte(bad), `"v":1`, nil); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestRefusedConfigurations(t *testing.T) {
	for _, c := range []policy.UpstreamConfig{
		{Kind: "nobody"}, {Kind: "vllm"}, {Kind: "vertex", Region: "r"}, {Kind: "bedrock"}, {Kind: "openai", BaseURL: "ftp://x"}, {Kind: "openai", BaseURL: "https://x/?key=1"},
		{Kind: "openai", Dialect: "gemini"}, {Kind: "bedrock", Region: "a/../b"}, {Kind: "openai", CAFile: "/nowhere"}, {Kind: "openai", Headers: map[string]string{"a b": "c"}},
		{Kind: "openai", Credential: "oidc-file:/x"}, {Kind: "azure", BaseURL: "https://x", Credential: "oidc-file:/x", TokenURL: "https://t"},
		{Kind: "openai", Credential: "oidc-file:/x", TokenURL: "ftp://t"}, {Kind: "bedrock", Region: "r", Credential: "oidc-file:/x"}, {Kind: "vertex", Region: "r", Project: "p", Credential: "oidc-file:/x"},
	} {
		if u, err := New(&c, Options{}); err == nil {
			u.Close()
			t.Errorf("%+v was taken", c)
		}
	}
}

func TestLosses(t *testing.T) {
	u := dialled(t, "http://127.0.0.1:1")
	defer u.Close()
	r := chat(false)
	r.Uses = []infer.Use{{Feature: infer.FeatureTopK, Path: "top_k"}, {Feature: infer.FeatureTools, Path: "tools"}, {Feature: infer.FeatureUnknown, Path: "x"}}
	if l := u.Losses(r, 0); len(l) != 2 || l[0].Path != "top_k" || l[1].Path != "x" {
		t.Errorf("got %v", l)
	}
	r.Wire = &infer.Wire{Dialect: dialectChat, Body: []byte("{}")}
	if l := u.Losses(r, 0); l != nil {
		t.Errorf("in the same dialect: got %v", l)
	}
}

func TestCount(t *testing.T) {
	u := dialled(t, "http://127.0.0.1:1", func(c *policy.UpstreamConfig, _ *Options) { c.BytesPerToken = 2 })
	defer u.Close()
	count := func(model string, max int, set func(*infer.Request)) infer.Count {
		r := infer.NewRequest()
		set(r)
		n, err := u.Backend(model, max).Count(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	msg := func(parts ...infer.Part) func(*infer.Request) {
		return func(r *infer.Request) { r.Messages = []infer.Message{{Role: infer.RoleUser, Content: parts}} }
	}
	for i, c := range []struct {
		got            infer.Count
		prompt, output int
	}{
		{count("m", 100, msg(infer.Part{Type: "text", Text: "12345"})), tokensPerMessage + 3, 100},
		{count("m", 0, msg(infer.Part{Type: "text", Text: "1"})), tokensPerMessage + 1, defaultMaxOutput},
		{count("m", 100, func(r *infer.Request) { r.Sampling.N, r.Sampling.MaxTokens = 3, 7 }), 0, 21},
		{count("m", 100, func(r *infer.Request) {
			r.Kind, r.Prompts, r.Sampling.N = infer.Completion, []infer.Prompt{{Text: "1234"}, {Tokens: make([]int32, 5)}}, 2
		}), 7, 400},
		{count("m", 1, msg(infer.Part{Type: "image", Data: make([]byte, 9)})), tokensPerMessage + tokensPerImage, 1},
		{count("gpt-4o-mini", 1, msg(infer.Part{Type: "image", URL: "https://x"})), tokensPerMessage + tokensPerMiniImage + 0, 1},
		{count("m", 1, msg(infer.Part{Type: "audio", Data: make([]byte, 300)})), tokensPerMessage + 11, 1},
		{count("m", 1, msg(infer.Part{Type: "file", URL: "https://x"})), tokensPerMessage + tokensPerReference, 1},
		{count("m", 1, msg(infer.Part{Type: "file", Data: make([]byte, 100)})), tokensPerMessage + 50, 1},
		{count("m", 1, func(r *infer.Request) { r.Tools = []infer.Tool{{Name: "ab", Parameters: []byte("{}")}} }), tokensForTools + tokensPerTool + 2, 1},
		{count("m", 1, func(r *infer.Request) {
			r.Wire = &infer.Wire{Body: make([]byte, 1000)}
			r.Uses = []infer.Use{{Feature: infer.FeatureUnknown}}
		}), 500, 1},
		{count("m", 1<<40, func(r *infer.Request) { r.Sampling.N = 100 }), 0, 1<<31 - 1},
	} {
		if c.got.PromptTokens != c.prompt || c.got.MaxOutputTokens != c.output {
			t.Errorf("%d: got %+v, want %d and %d", i, c.got, c.prompt, c.output)
		}
	}
}

// TestSplitDialects holds that a request goes in its own dialect where that is
// offered, and in the preferred one else.
func TestSplitDialects(t *testing.T) {
	u, err := New(&policy.UpstreamConfig{Name: "u", Kind: "openai", BaseURL: "http://127.0.0.1:1"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for dialect, want := range map[string]string{dialectChat: dialectChat, dialectResponses: dialectResponses, dialectAnthropic: dialectChat, "": dialectChat} {
		r := chat(false)
		r.Wire = &infer.Wire{Dialect: dialect}
		if c, err := u.client(r, "m"); err != nil || c.Dialect() != want {
			t.Errorf("%s: got %v, %v", dialect, c, err)
		}
	}
	r := infer.NewRequest()
	r.Kind = infer.Completion
	if c, err := u.client(r, "m"); err != nil || c.Dialect() != dialectCompletions {
		t.Errorf("completions: got %v, %v", c, err)
	}
	a, err := New(&policy.UpstreamConfig{Name: "u", Kind: "anthropic"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.client(r, "m"); err == nil || infer.AsError(err).Code != infer.CodeUnsupported {
		t.Errorf("got %v", err)
	}
	if c, e := u.embedClient(&infer.EmbedRequest{}); e == nil || c.Dialect() != dialectEmbeddings {
		t.Errorf("embeddings: got %v", c)
	}
	if _, e := a.embedClient(&infer.EmbedRequest{}); e != nil {
		t.Error("embeddings where there are none")
	}
}

func TestConfiguredHeaders(t *testing.T) {
	// A header of the configuration wins over ours, but not over the connection's.
	h, err := fixedHeaders(&policy.UpstreamConfig{Headers: map[string]string{"user-agent": "x", "http-referer": "https://y"}}, "1")
	if err != nil || h.Get("User-Agent") != "x" || h.Get("Http-Referer") != "https://y" || h.Get("Content-Type") != "application/json" {
		t.Errorf("got %v, %v", h, err)
	}
}
