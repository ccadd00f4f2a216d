package conform

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/appliance/upstream"
	"hearth/internal/fakeprovider"
	"hearth/policy"
)

var (
	update  = flag.Bool("update", false, "write CONFORMANCE.md and LOSSES.md")
	only    = flag.String("case", "", "run only cases whose name has this prefix")
	adapter = flag.String("adapter", "", "run only this adapter")
)

const providerKey = "key-of-the-provider"

// stage is a fake provider as the corpus wants it.
type stage struct{ s *fakeprovider.Server }

func (st stage) Play(raw []json.RawMessage) error {
	var out []fakeprovider.Script
	for _, b := range raw {
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		var sc fakeprovider.Script
		if err := d.Decode(&sc); err != nil {
			return fmt.Errorf("cannot read a script: %w", err)
		}
		out = append(out, sc)
	}
	st.s.Play(out...)
	return nil
}

func (st stage) Saw() []Observed {
	var out []Observed
	for _, r := range st.s.Requests() {
		out = append(out, Observed{r.Dialect, r.Body, r.Closed})
	}
	return out
}

// tested is one adapter of the matrix.
type tested struct {
	name    string
	c       policy.UpstreamConfig
	model   string
	speaks  string   // the dialect that foreign requests are translated to
	natives []string // inbound dialects that go out as they come
}

const openAIChat, openAIResponses = "openai-chat", "openai-responses"

// adapters are all kinds of upstream, with the dialects that each may prefer.
var adapters = []tested{
	{"openai", policy.UpstreamConfig{Kind: "openai"}, "gpt-x", openAIChat, []string{Chat, Responses}},
	{"openai, responses", policy.UpstreamConfig{Kind: "openai", Dialect: "responses"}, "gpt-x", openAIResponses, []string{Chat, Responses}},
	{"anthropic", policy.UpstreamConfig{Kind: "anthropic"}, "claude-x", "anthropic", []string{Messages}},
	{"gemini", policy.UpstreamConfig{Kind: "gemini"}, "gemini-x", "gemini", []string{Gemini}},
	{"vertex", policy.UpstreamConfig{Kind: "vertex", Project: "p1", Region: "europe-west4"}, "gemini-x", "gemini", []string{Gemini}},
	{"vertex, claude", policy.UpstreamConfig{Kind: "vertex", Project: "p1", Region: "europe-west4"}, "claude-x", "anthropic", []string{Messages}},
	{"bedrock", policy.UpstreamConfig{Kind: "bedrock", Region: "eu-central-1"}, "anthropic.claude-x-v1:0", "bedrock-converse", nil},
	{"azure", policy.UpstreamConfig{Kind: "azure", APIVersion: "2025-04-01-preview"}, "deployment-x", openAIChat, []string{Chat}},
	{"azure, v1", policy.UpstreamConfig{Kind: "azure"}, "deployment-x", openAIChat, []string{Chat, Responses}},
	{"ollama", policy.UpstreamConfig{Kind: "ollama"}, "llama-x", "ollama-chat", []string{Ollama, Chat}},
	{"openai-compatible", policy.UpstreamConfig{Kind: "openai-compatible"}, "m", openAIChat, []string{Chat}},
	{"vllm", policy.UpstreamConfig{Kind: "vllm"}, "m", openAIChat, []string{Chat}},
	{"sglang", policy.UpstreamConfig{Kind: "sglang"}, "m", openAIChat, []string{Chat}},
	{"tgi", policy.UpstreamConfig{Kind: "tgi"}, "m", openAIChat, []string{Chat}},
	{"tensorrt-llm", policy.UpstreamConfig{Kind: "tensorrt-llm"}, "m", openAIChat, []string{Chat}},
	{"llamacpp", policy.UpstreamConfig{Kind: "llamacpp"}, "m", openAIChat, []string{Chat}},
	{"openrouter", policy.UpstreamConfig{Kind: "openrouter"}, "vendor/m", openAIChat, []string{Chat}},
	{"litellm", policy.UpstreamConfig{Kind: "litellm"}, "m", openAIChat, []string{Chat}},
	{"hearth", policy.UpstreamConfig{Kind: "hearth"}, "m", openAIChat, Inbound},
}

var dialectOf = map[string]string{Chat: openAIChat, Responses: openAIResponses, Messages: "anthropic", Gemini: "gemini", Ollama: "ollama-chat"}

func (a *tested) out(in string) string {
	if slices.Contains(a.natives, in) {
		return dialectOf[in]
	}
	return a.speaks
}

// open starts a fake provider and a bridge before it.
func (a *tested) open(t *testing.T) *Gateway {
	t.Helper()
	s, err := fakeprovider.New(fakeprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	c := a.c
	c.Name, c.BaseURL, c.Credential, c.IdleTimeout = "x", s.URL(), "env:KEY", policy.Duration(1500*time.Millisecond)
	b, err := NewBridge([]Deployment{{c, a.model}}, "hk-conform", upstream.Options{Getenv: func(string) string { return providerKey }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &Gateway{URL: b.URL(), Key: "hk-conform", Model: "x", Stage: stage{s}}
}

// run puts the corpus to one adapter.
func (a *tested) run(t *testing.T, fs []Family) Row {
	g := a.open(t)
	row := Row{Adapter: a.name, Cells: map[string]*Cell{}}
	var speaks []string
	for _, c := range Cases(fs) {
		if !strings.HasPrefix(c.ID, *only) {
			continue
		}
		for _, in := range Inbound {
			if !c.askable(in) || !c.Applies(in, a.out(in)) {
				continue
			}
			for _, mode := range c.Modes() {
				o := g.Run(t.Context(), &c, in, mode)
				if row.Cells[in] == nil {
					row.Cells[in] = &Cell{}
				}
				row.Cells[in].Add(o)
				if o.Out != "" && !slices.Contains(speaks, o.Out) {
					speaks = append(speaks, o.Out)
				}
				for _, why := range o.Why {
					t.Errorf("%s, %s to %s, %s: %s", c.ID, in, a.name, mode, why)
				}
				if d := time.Duration(o.MS) * time.Millisecond; d > time.Second && testing.Verbose() {
					t.Logf("slow: %s %s %s: %v", c.ID, in, mode, d)
				}
			}
		}
	}
	slices.Sort(speaks)
	row.Speaks = strings.Join(speaks, ", ")
	return row
}

// The corpus passes with every adapter, and the page says so.
func TestMatrix(t *testing.T) {
	fs, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]Row, len(adapters))
	var mu sync.Mutex
	t.Run("adapters", func(t *testing.T) {
		for i := range adapters {
			if *adapter != "" && *adapter != adapters[i].name {
				continue
			}
			t.Run(adapters[i].name, func(t *testing.T) {
				t.Parallel()
				r := adapters[i].run(t, fs)
				mu.Lock()
				rows[i] = r
				mu.Unlock()
			})
		}
	})
	if *only == "" && *adapter == "" {
		page(t, "../../CONFORMANCE.md", Matrix(fs, rows))
	} else {
		t.Log("\n" + Matrix(nil, rows))
	}
}

// page holds a file to what it should say, or writes it.
func page(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): run go test ./appliance/conform -update", name, err)
	}
}

// Every script of the corpus is one that the fake provider understands.
func TestCorpus(t *testing.T) {
	fs, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	s, err := fakeprovider.New(fakeprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, c := range Cases(fs) {
		if err := (stage{s}).Play(c.Scripts); err != nil || len(c.Scripts) == 0 || c.Why == "" {
			t.Errorf("%s: %v", c.ID, err)
		}
	}
}
