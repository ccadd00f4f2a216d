package conform

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
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
	whole   = flag.Bool("whole", false, "put every case to every adapter in every dialect, not in one of them")
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
	name  string
	c     policy.UpstreamConfig
	model string
}

// adapters are all kinds of upstream, with the dialects that each may prefer.
var adapters = []tested{
	{"openai", policy.UpstreamConfig{Kind: "openai"}, "gpt-x"},
	{"openai, responses", policy.UpstreamConfig{Kind: "openai", Dialect: "openai-responses"}, "gpt-x"},
	{"anthropic", policy.UpstreamConfig{Kind: "anthropic"}, "claude-x"},
	{"gemini", policy.UpstreamConfig{Kind: "gemini"}, "gemini-x"},
	{"vertex", policy.UpstreamConfig{Kind: "vertex", Project: "p1", Region: "europe-west4"}, "gemini-x"},
	{"vertex, claude", policy.UpstreamConfig{Kind: "vertex", Project: "p1", Region: "europe-west4"}, "claude-x"},
	{"bedrock", policy.UpstreamConfig{Kind: "bedrock", Region: "eu-central-1"}, "anthropic.claude-x-v1:0"},
	{"azure", policy.UpstreamConfig{Kind: "azure", APIVersion: "2025-04-01-preview"}, "deployment-x"},
	{"azure, v1", policy.UpstreamConfig{Kind: "azure"}, "deployment-x"},
	{"ollama", policy.UpstreamConfig{Kind: "ollama"}, "llama-x"},
	{"openai-compatible", policy.UpstreamConfig{Kind: "openai-compatible"}, "m"},
	{"vllm", policy.UpstreamConfig{Kind: "vllm"}, "m"},
	{"sglang", policy.UpstreamConfig{Kind: "sglang"}, "m"},
	{"tgi", policy.UpstreamConfig{Kind: "tgi"}, "m"},
	{"tensorrt-llm", policy.UpstreamConfig{Kind: "tensorrt-llm"}, "m"},
	{"llamacpp", policy.UpstreamConfig{Kind: "llamacpp"}, "m"},
	{"openrouter", policy.UpstreamConfig{Kind: "openrouter"}, "vendor/m"},
	{"litellm", policy.UpstreamConfig{Kind: "litellm"}, "m"},
	{"hearth", policy.UpstreamConfig{Kind: "hearth"}, "m"},
}

// Every kind of upstream is in the matrix.
func TestEveryKindIsTested(t *testing.T) {
	for _, kind := range upstream.Kinds() {
		if !slices.ContainsFunc(adapters, func(a tested) bool { return a.c.Kind == kind }) {
			t.Errorf("kind %s is not among the adapters that are tested", kind)
		}
	}
}

// speaks finds out in which dialect the provider is asked for each inbound one.
func speaks(t *testing.T, g *Gateway) map[string]string {
	out := map[string]string{}
	plain := Case{ID: "plain", Ask: Ask{Turns: []Turn{{Role: "user", Text: "a"}}}, Scripts: []json.RawMessage{json.RawMessage(`{"answer":{"parts":[{"text":"b"}]}}`)}, Expect: Expect{Answer: true}}
	for _, in := range Inbound {
		out[in] = g.Run(t.Context(), &plain, in, "whole").Out
	}
	return out
}

// open starts a fake provider and a bridge before it.
func (a *tested) open(t *testing.T) (*Gateway, error) {
	s, err := fakeprovider.New(fakeprovider.Options{})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { s.Close() })
	c := a.c
	c.Name, c.BaseURL, c.Credential, c.IdleTimeout = "x", s.URL(), "env:KEY", policy.Duration(700*time.Millisecond)
	b, err := NewBridge([]Deployment{{c, a.model}}, "hk-conform", upstream.Options{Getenv: func(string) string { return providerKey }})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { b.Close() })
	return &Gateway{URL: b.URL(), Key: "hk-conform", Model: "x", Stage: stage{s}}, nil
}

// turn says whether a case is put to the n-th adapter in the k-th of the dialects
// that can write it. All are with -whole; otherwise each adapter has every case in
// one dialect, and each dialect has every case at some adapters.
func turn(c, n, k, dialects int) bool {
	return *whole || *update || *only != "" || *adapter != "" || (c+n)%dialects == k
}

// run puts the corpus to the n-th adapter.
func (a *tested) run(t *testing.T, fs []Family, n int) Row {
	g, err := a.open(t)
	if err != nil {
		t.Error(err)
		return Row{Adapter: a.name}
	}
	row := Row{Adapter: a.name, Cells: map[string]*Cell{}}
	spoken := speaks(t, g)
	for i, c := range Cases(fs) {
		if !strings.HasPrefix(c.ID, *only) {
			continue
		}
		dialects := slices.DeleteFunc(slices.Clone(Inbound), func(in string) bool { return !c.askable(in) || !c.Applies(in, spoken[in]) })
		for k, in := range dialects {
			for _, mode := range c.Modes() {
				if !turn(i, n, k, len(dialects)) {
					row.pass(in)
					continue
				}
				o := g.Run(t.Context(), &c, in, mode)
				row.add(in, o)
				for _, why := range o.Why {
					t.Errorf("%s, %s to %s, %s: %s", c.ID, in, a.name, mode, why)
				}
				if d := time.Duration(o.MS) * time.Millisecond; d > time.Second && testing.Verbose() {
					t.Logf("slow: %s %s %s: %v", c.ID, in, mode, d)
				}
			}
		}
	}
	row.Speaks = strings.Join(slices.Sorted(maps.Keys(invert(spoken))), ", ")
	return row
}

func (r *Row) add(in string, o Outcome) {
	if r.Cells[in] == nil {
		r.Cells[in] = &Cell{}
	}
	r.Cells[in].Add(o)
}

// pass counts a case whose turn it is not.
func (r *Row) pass(in string) { r.add(in, Outcome{Result: Passed}) }

func invert(m map[string]string) map[string]bool {
	out := map[string]bool{}
	for _, v := range m {
		out[v] = true
	}
	return out
}

// The corpus passes with every adapter, and the page says so.
func TestMatrix(t *testing.T) {
	fs, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]Row, len(adapters))
	var work sync.WaitGroup // not parallel subtests: most of the time is spent waiting on purpose
	for i := range adapters {
		if *adapter == "" || *adapter == adapters[i].name {
			work.Go(func() { rows[i] = adapters[i].run(t, fs, i) })
		}
	}
	work.Wait()
	rows = slices.DeleteFunc(rows, func(r Row) bool { return r.Adapter == "" })
	if *only == "" && *adapter == "" {
		said := Matrix(fs, rows)
		if !*whole && !*update { // what was refused is known only of what was asked
			had, _ := os.ReadFile("../../CONFORMANCE.md")
			if counts.ReplaceAllString(said, "$1") == counts.ReplaceAllString(string(had), "$1") {
				return
			}
		}
		page(t, "../../CONFORMANCE.md", said)
	} else {
		t.Log("\n" + Matrix(nil, rows))
	}
}

// counts is a cell of the matrix, with how many were asked.
var counts = regexp.MustCompile(`\d+/(\d+)( \(\d+\))?`)

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
