package model

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/engine/weights"
	"hearth/kernels"
)

// shared finds ../shared beside the repository, or skips.
func shared(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			s := filepath.Join(filepath.Dir(dir), "shared")
			if _, err := os.Stat(s); err != nil {
				t.Skipf("SKIPPED: no test material at %s", s)
			}
			return s
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the working directory")
	return ""
}

// modelFiles lists every model of the tiny folders and stories260k.
func modelFiles(t testing.TB) []string {
	root := filepath.Join(shared(t), "models")
	var paths []string
	for _, sub := range []string{"tiny", "stories260k"} {
		err := filepath.WalkDir(filepath.Join(root, sub), func(path string, d fs.DirEntry, err error) error {
			if err == nil && (d.IsDir() && d.Name() == "hf" || strings.HasSuffix(path, ".gguf")) {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

// TestBuildShared builds every tiny model and checks that the program is sound
// and that every tensor of the file is used as often as it should be.
func TestBuildShared(t *testing.T) {
	paths := modelFiles(t)
	for _, path := range paths {
		f, err := weights.Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		p, c, err := Build(f, Options{})
		if err != nil {
			t.Error(err)
		} else if err := checkUse(f, p, c); err != "" {
			t.Errorf("%s: %s", path, err)
		}
		f.Close()
	}
	if len(paths) < 60 {
		t.Errorf("only %d models found", len(paths))
	}
	t.Logf("%d models", len(paths))
}

// checkUse counts how often ops use each tensor: once, but twice for a tied
// embedding and not at all for a fused matrix whose parts are used.
func checkUse(f *weights.File, p *kernels.Program, c *Config) string {
	uses := make([]int, len(p.Tensors))
	for _, ops := range [][]kernels.Op{p.Ops, p.Norm, p.Head} {
		for _, o := range ops {
			if o.W != kernels.NoTensor {
				uses[o.W]++
			}
			if o.Bias != kernels.NoTensor {
				uses[o.Bias]++
			}
		}
	}
	parts := map[string]int{}
	for i := range p.Tensors {
		if base, _, ok := strings.Cut(p.Tensors[i].Name, "["); ok {
			parts[base] += p.Tensors[i].Rows
		}
	}
	_, untiedGGUF := f.Tensor("output.weight")
	_, untiedHF := f.Tensor("lm_head.weight")
	for i, n := range uses {
		want := 1
		switch name := p.Tensors[i].Name; {
		case parts[name] != 0:
			want = 0
			if parts[name] != p.Tensors[i].Rows {
				return name + " is not covered by its parts"
			}
		case !untiedGGUF && !untiedHF && (name == "token_embd.weight" || name == "model.embed_tokens.weight"):
			want = 2
		}
		if n != want {
			return p.Tensors[i].Name + " is not used as often as it should be"
		}
	}
	if len(p.KV) != c.Layers || len(c.Windows) != c.Layers || len(c.EOS) == 0 || c.Parameters == 0 {
		return "incomplete configuration"
	}
	return ""
}
