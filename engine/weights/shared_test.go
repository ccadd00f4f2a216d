package weights

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sharedModels finds ../shared/models beside the repository, or skips.
func sharedModels(t testing.TB) string {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			models := filepath.Join(filepath.Dir(dir), "shared", "models")
			if _, err := os.Stat(models); err != nil {
				t.Skipf("SKIPPED: no test models at %s", models)
			}
			return models
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the working directory")
	return ""
}

// TestOpenShared opens every model file of the shared test material.
func TestOpenShared(t *testing.T) {
	root := sharedModels(t)
	var files, dirs int
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		isDir := d.IsDir() && d.Name() == "hf"
		if !isDir && !strings.HasSuffix(path, ".gguf") {
			return nil
		}
		f, err := Open(path)
		if err != nil {
			t.Error(err)
			return nil
		}
		defer f.Close()
		if isDir {
			dirs++
			if f.Tokenizer.JSON == nil || f.HF.GenerationConfig == nil {
				t.Errorf("%s: tokenizer.json or generation_config.json was not read", path)
			}
		} else {
			files++
			if f.Tokenizer.Vocabulary == nil || len(f.Tokenizer.Vocabulary.Tokens) == 0 {
				t.Errorf("%s: no vocabulary", path)
			}
		}
		if len(f.Tensors) == 0 && !strings.Contains(path, "vocab") {
			t.Errorf("%s: no tensors", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d GGUF files, %d directories", files, dirs)
	if files < 50 || dirs < 10 {
		t.Errorf("only %d GGUF files and %d directories found", files, dirs)
	}
}
