package model

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"hearth/engine/weights"
	"hearth/kernels"
	"hearth/kernels/ref"
)

// array is a reference into the float file beside a vector file.
type array struct {
	Offset int   `json:"offset"`
	Shape  []int `json:"shape"`
}

type vectorFile struct {
	Model string `json:"model"`
	Vocab int    `json:"vocab"`
	Data  string `json:"data"`
	Debug *struct {
		PromptIDs []int32 `json:"prompt_ids"`
		Hidden    []array `json:"hidden"`
	} `json:"debug"`
	Cases []struct {
		Name       string    `json:"name"`
		GGUF       string    `json:"gguf"`
		PromptIDs  []int32   `json:"prompt_ids"`
		Logits     array     `json:"logits"`
		LastLogits array     `json:"last_logits"`
		GreedyIDs  []int32   `json:"greedy_ids"`
		Margins    []float64 `json:"greedy_margins"`
	} `json:"cases"`

	floats []float32
}

func readVectors(t testing.TB, path string) *vectorFile {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var v vectorFile
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(path), v.Data))
	if err != nil {
		t.Fatal(err)
	}
	v.floats = make([]float32, len(raw)/4)
	for i := range v.floats {
		v.floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return &v
}

func (v *vectorFile) at(a array) []float32 {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return v.floats[a.Offset : a.Offset+n]
}

// runner feeds one sequence to a reference device.
type runner struct {
	t   testing.TB
	p   *kernels.Program
	dev kernels.Device
	n   int32
}

func newRunner(t testing.TB, p *kernels.Program) *runner {
	r := &runner{t: t, p: p, dev: ref.New()}
	if err := r.dev.Load(p, kernels.KVConfig{Blocks: 16, BlockSize: 16, Type: kernels.F32}); err != nil {
		t.Fatal(err)
	}
	return r
}

// feed runs tokens after those before and gives the logits, or, for a program
// without a head, the final states, of the last want of them.
func (r *runner) feed(ids []int32, want int) []float32 {
	blocks := make([]int32, 16)
	for i := range blocks {
		blocks[i] = int32(15 - i)
	}
	b := &kernels.Batch{Tokens: ids, Spans: []kernels.Span{{Len: int32(len(ids)), Context: r.n, Blocks: blocks}}}
	rows := make([]int32, want)
	for i := range rows {
		rows[i] = int32(len(ids) - want + i)
	}
	var out []float32
	if len(r.p.Head) > 0 {
		out = make([]float32, want*r.p.Vocab)
		b.LogitRows, b.Logits = rows, out
	} else {
		out = make([]float32, want*r.p.Width)
		b.HiddenRows, b.Hidden = rows, out
	}
	if err := r.dev.Step(b); err != nil {
		r.t.Fatal(err)
	}
	r.n += int32(len(ids))
	return out
}

// worst is the largest absolute difference.
func worst(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var w float64
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if !(d <= w) {
			w = d
		}
	}
	return w
}

func argmax(x []float32) int32 {
	best := 0
	for i := range x {
		if x[i] > x[best] {
			best = i
		}
	}
	return int32(best)
}

func open(t testing.TB, path string) (*kernels.Program, *Config) {
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	p, c, err := Build(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// newConfig copies a model directory with config.v5.json as its config.json.
func newConfig(t testing.TB, dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "config.v5.json")); err != nil {
		return ""
	}
	out := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		switch name {
		case "config.json":
			continue
		case "config.v5.json":
			name = "config.json"
		}
		if err := os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(out, name)); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestTinyVectors compares the logits of every position, greedy continuations
// and the state after each layer with those of the reference implementation.
func TestTinyVectors(t *testing.T) {
	root := shared(t)
	paths, _ := filepath.Glob(filepath.Join(root, "vectors", "tiny", "*.json"))
	if len(paths) < 9 {
		t.Fatalf("only %d vector files found", len(paths))
	}
	for _, path := range paths {
		v := readVectors(t, path)
		dir := filepath.Join(root, "models", filepath.FromSlash(v.Model))
		dirs := []string{dir}
		if v5 := newConfig(t, dir); v5 != "" {
			dirs = append(dirs, v5)
		}
		if strings.HasSuffix(v.Model, "tiny/llama/hf") {
			dirs = append(dirs, filepath.Join(root, "models/tiny/llama-sharded/hf"))
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			t.Parallel()
			p, c := open(t, dir)
			testLogits(t, v, p, c)
			testHidden(t, v, p)
			for _, other := range dirs[1:] {
				q, d := open(t, other)
				if !reflect.DeepEqual(p, q) || !reflect.DeepEqual(c, d) {
					t.Errorf("%s gives another program than %s", other, dir)
				}
			}
		})
	}
}

func testLogits(t *testing.T, v *vectorFile, p *kernels.Program, c *Config) {
	if c.Vocab != v.Vocab {
		t.Fatalf("vocabulary of %d, wanted %d", c.Vocab, v.Vocab)
	}
	var far float64
	for _, k := range v.Cases {
		r := newRunner(t, p)
		got := r.feed(k.PromptIDs, len(k.PromptIDs))
		d := worst(got, v.at(k.Logits))
		far = max(far, d)
		if d > 1e-3 {
			t.Errorf("%s: logits differ by %g", k.Name, d)
		}
		if len(k.PromptIDs) > 10 {
			continue
		}
		last := got[len(got)-p.Vocab:]
		for i, want := range k.GreedyIDs {
			if id := argmax(last); id != want {
				if k.Margins[i] > 2e-3 {
					t.Errorf("%s: step %d gives token %d, wanted %d", k.Name, i, id, want)
				}
				break
			}
			last = r.feed([]int32{want}, 1)
		}
	}
	t.Logf("logits differ by %.2g at most", far)
}

// testHidden cuts the program after each layer.
func testHidden(t *testing.T, v *vectorFile, p *kernels.Program) {
	if v.Debug == nil {
		return
	}
	x := p.Ops[0].Dst
	cuts := []int{1} // the embedding
	adds := 0
	for i, o := range p.Ops {
		if o.Kind == kernels.OpAdd {
			if adds++; adds%2 == 0 {
				cuts = append(cuts, i+1)
			}
		}
	}
	if len(cuts) != len(v.Debug.Hidden) {
		t.Fatalf("%d states, wanted %d", len(cuts), len(v.Debug.Hidden))
	}
	for i, a := range v.Debug.Hidden {
		q := *p
		q.Ops, q.Norm, q.Head, q.Final = p.Ops[:cuts[i]], nil, nil, x
		if i == len(cuts)-1 {
			q.Norm, q.Final = p.Norm, p.Final
		}
		got := newRunner(t, &q).feed(v.Debug.PromptIDs, len(v.Debug.PromptIDs))
		if d := worst(got, v.at(a)); d > 1e-3 {
			t.Fatalf("state %d differs by %g", i, d)
		}
	}
}

// TestTinyGGUFVectors compares the last logits of every GGUF file.
func TestTinyGGUFVectors(t *testing.T) {
	root := shared(t)
	paths, _ := filepath.Glob(filepath.Join(root, "vectors", "tiny-gguf", "*.json"))
	if len(paths) < 14 {
		t.Fatalf("only %d vector files found", len(paths))
	}
	for _, path := range paths {
		v := readVectors(t, path)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			t.Parallel()
			var far float64
			programs := map[string]*kernels.Program{}
			for _, k := range v.Cases {
				p := programs[k.GGUF]
				if p == nil {
					p, _ = open(t, filepath.Join(root, "models", filepath.FromSlash(k.GGUF)))
					programs[k.GGUF] = p
				}
				d := worst(newRunner(t, p).feed(k.PromptIDs, 1), v.at(k.LastLogits))
				far = max(far, d)
				if d > 2e-3 {
					t.Errorf("%s %s: last logits differ by %g", k.GGUF, k.Name, d)
				}
			}
			t.Logf("%d cases of %d files, last logits differ by %.2g at most", len(v.Cases), len(programs), far)
		})
	}
}
