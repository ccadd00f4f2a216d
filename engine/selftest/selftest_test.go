package selftest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shared finds the test material beside the repository, or skips.
func shared(t *testing.T) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
	dir = filepath.Join(dir, "..", "shared")
	if _, err := os.Stat(filepath.Join(dir, "vectors")); err != nil {
		t.Skip("SKIPPED: ../shared/vectors is not there; this build was NOT compared with results of others")
	}
	return dir
}

// Everything that needs no large model passes.
func TestSharedVectors(t *testing.T) {
	dir := shared(t)
	groups := []string{"quants", "tokenizer", "chat", "tiny", "tiny-gguf"}
	if testing.Short() {
		groups = groups[:3]
	}
	r, err := Run(context.Background(), Options{
		Vectors: filepath.Join(dir, "vectors"), Models: filepath.Join(dir, "models"), Groups: groups,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Groups {
		t.Logf("%s: %d of %d passed, %d files skipped", g.Name, g.Passed, g.Cases, len(g.Skipped))
		for _, f := range g.Failures {
			t.Errorf("%s/%.400s", g.Name, f)
		}
	}
}

// A wrong expectation fails, and only that one: the checks can tell.
func TestFindsFaults(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type m = map[string]any
	write("quants/F16.json", m{"type": "F16", "block_values": 1, "block_bytes": 2, "cases": []m{
		{"name": "right", "hex": "003c", "f32_hex": "0000803f"}, {"name": "wrong", "hex": "003c", "f32_hex": "00000040"}, {"name": "odd", "hex": "003", "f32_hex": ""},
	}})
	write("quants/XX.json", m{"type": "XX"})
	write("chat/x.json", m{"family": "x", "chat_template": "{{ messages[0].content }}", "cases": []m{
		{"name": "right", "messages": []m{{"role": "user", "content": "a"}}, "expected": "a"},
		{"name": "wrong", "messages": []m{{"role": "user", "content": "a"}}, "expected": "b"},
	}})
	write("tiny/absent.json", m{"model": "none/hf", "data": "absent.f32", "cases": []m{}})
	os.WriteFile(filepath.Join(dir, "tiny", "absent.f32"), nil, 0o600)
	r, err := Run(context.Background(), Options{Vectors: dir, Models: dir})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK() || len(r.Groups) != 3 {
		t.Fatalf("got %+v", r)
	}
	q, c, tiny := r.Groups[0], r.Groups[1], r.Groups[2]
	if q.Cases != 3 || q.Passed != 1 || len(q.Skipped) != 1 || !strings.HasPrefix(q.Failures[0], "F16/wrong: ") {
		t.Errorf("quants: %+v", q)
	}
	if c.Cases != 2 || c.Passed != 1 || !strings.HasPrefix(c.Failures[0], "x/wrong: ") {
		t.Errorf("chat: %+v", c)
	}
	if tiny.Cases != 0 || len(tiny.Skipped) != 1 {
		t.Errorf("tiny: %+v", tiny)
	}
	if _, err := Run(context.Background(), Options{Vectors: t.TempDir(), Models: dir}); err == nil {
		t.Error("a folder without vectors was accepted")
	}
}
