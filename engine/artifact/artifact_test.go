package artifact

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/engine/model"
	"hearth/engine/weights"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

var background = context.Background()

func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "models"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// file is a member of an archive that a test makes.
type file struct {
	name string
	data []byte
}

func sorted(files map[string][]byte, prefix string) []file {
	var out []file
	for name, b := range files {
		out = append(out, file{prefix + name, b})
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out
}

func zipped(t testing.TB, files []file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		m, err := w.Create(f.name)
		if err != nil {
			t.Fatal(err)
		}
		m.Write(f.data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t testing.TB, files []file, extra ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range extra {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.data)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		w.Write(f.data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func save(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// usable opens an installed model the way the engine does.
func usable(t *testing.T, s *Store, m *Manifest) {
	t.Helper()
	path, err := s.Path(m.Name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := weights.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := model.Build(f, model.Options{}); err != nil {
		t.Error(err)
	}
	if d, err := f.Digest(background, nil); err != nil || d != m.Digest {
		t.Errorf("digest %s, %v; the manifest has %s", d, err, m.Digest)
	}
	if m.Size != f.Size || m.Format != string(f.Format) {
		t.Errorf("manifest: %+v", m)
	}
}

// onlyModels checks that nothing but finished models is left.
func onlyModels(t *testing.T, s *Store, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the directory has %q, wanted %q", got, want)
	}
}

func TestAddKinds(t *testing.T) {
	opt := gguftest.Options{Type: kernels.Q8_0}
	gguf := gguftest.Llama(opt).Bytes()
	bare := gguftest.Llama(opt)
	bare.Delete("general.license")
	dir := gguftest.Directory(gguftest.Options{Type: kernels.BF16}, 2)
	wheel := []file{
		{"tiny/__init__.py", []byte("x = 1\n")},
		{"tiny/Tiny-Model.Q8_0.gguf", bare.Bytes()},
		{"tiny-1.0.dist-info/METADATA", []byte("Metadata-Version: 2.4\nName: tiny\nLicense-Expression: Apache-2.0\n\nLicense: not this\n")},
		{"tiny-1.0.dist-info/licenses/LICENSE", []byte("the terms\n")},
	}
	folder := gguftest.WriteFiles(t, dir)
	for _, c := range []struct {
		kind, path, name, licence, from string
		texts                           int
	}{
		{"gguf", save(t, "My Model.gguf", gguf), "my-model", "cc0-1.0", "general.license", 0},
		{"directory", folder, strings.ToLower(filepath.Base(folder)), "cc0-1.0", "README.md", 0},
		{"wheel", save(t, "tiny-1.0-py3-none-any.whl", zipped(t, wheel)), "tiny-model.q8_0", "Apache-2.0", "METADATA", 1},
		{"zip of a directory", save(t, "some.zip", zipped(t, sorted(dir, "tiny-hf/"))), "tiny-hf", "cc0-1.0", "README.md", 0},
		{"tar", save(t, "flat.tar", tarred(t, sorted(dir, ""))), "flat", "cc0-1.0", "README.md", 0},
		{"tar.gz", save(t, "x.tar.gz", gzipped(tarred(t, wheel))), "tiny-model.q8_0", "Apache-2.0", "METADATA", 1},
	} {
		t.Run(c.kind, func(t *testing.T) {
			s := newStore(t)
			var last, total int64
			at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
			m, err := s.Add(background, c.path, AddOptions{Now: func() time.Time { return at }, Progress: func(d, n int64) {
				if d < last {
					t.Errorf("progress goes from %d to %d", last, d)
				}
				last, total = d, n
			}})
			if err != nil {
				t.Fatal(err)
			}
			if m.Name != c.name || m.Licence.ID != c.licence || m.Licence.From != c.from || len(m.Licence.Files) != c.texts {
				t.Errorf("manifest: %+v", m)
			}
			if m.Architecture != "llama" || m.ContextLength != 256 || !m.ChatTemplate || m.Parameters == 0 || m.Source != filepath.Base(c.path) || !m.Added.Equal(at.Truncate(time.Second)) {
				t.Errorf("manifest: %+v", m)
			}
			if last == 0 || last > total {
				t.Errorf("progress ended at %d of %d", last, total)
			}
			usable(t, s, m)
			onlyModels(t, s, m.Name)
			if _, err := s.Add(background, c.path, AddOptions{}); !errors.Is(err, ErrExists) {
				t.Errorf("added twice: %v", err)
			}
			list, err := s.List()
			if err != nil || len(list) != 1 || list[0].Digest != m.Digest {
				t.Errorf("list: %+v, %v", list, err)
			}
			if err := s.Remove(m.Name); err != nil {
				t.Error(err)
			}
			if _, err := s.Show(m.Name); !errors.Is(err, ErrNotFound) {
				t.Errorf("shown after removal: %v", err)
			}
			if err := s.Remove(m.Name); !errors.Is(err, ErrNotFound) {
				t.Errorf("removed twice: %v", err)
			}
			onlyModels(t, s)
		})
	}
}

func TestExpectedDigest(t *testing.T) {
	gguf := gguftest.Llama(gguftest.Options{}).Bytes()
	archive := zipped(t, []file{{"m.gguf", gguf}})
	inner, outer := sha256.Sum256(gguf), sha256.Sum256(archive)
	path := save(t, "m.zip", archive)
	for _, d := range []string{hex.EncodeToString(inner[:]), "sha256:" + strings.ToUpper(hex.EncodeToString(outer[:]))} {
		s := newStore(t)
		m, err := s.Add(background, path, AddOptions{Digest: d})
		if err != nil {
			t.Fatal(err)
		}
		if m.Digest != hex.EncodeToString(inner[:]) || m.SourceDigest != hex.EncodeToString(outer[:]) {
			t.Errorf("digests %s and %s", m.Digest, m.SourceDigest)
		}
	}
	s := newStore(t)
	if _, err := s.Add(background, path, AddOptions{Digest: strings.Repeat("0", 64)}); !errors.Is(err, ErrDigest) {
		t.Errorf("wrong digest: %v", err)
	}
	if _, err := s.Add(background, path, AddOptions{Digest: "../../etc"}); err == nil {
		t.Error("a path was accepted as a digest")
	}
	onlyModels(t, s)
}

func TestRefused(t *testing.T) {
	g := gguftest.Llama(gguftest.Options{})
	gguf := g.Bytes()
	noTokenizer := gguftest.Directory(gguftest.Options{}, 1)
	delete(noTokenizer, "tokenizer.json")
	g.Set("general.architecture", "bert")
	bert := g.Bytes()
	model := func(name string) []file { return []file{{name, gguf}} }
	bomb := gzipped(tarred(t, []file{{"zeros", make([]byte, 8<<20)}, {"m.gguf", gguf}}))
	for _, c := range []struct {
		name, want string
		data       []byte
		o          AddOptions
	}{
		{"text", "not a GGUF file, a zip", []byte("hello"), AddOptions{}},
		{"empty", "not a GGUF file, a zip", nil, AddOptions{}},
		{"truncated", "needs", gguf[:len(gguf)/2], AddOptions{}},
		{"architecture", `architecture "bert" is not supported`, bert, AddOptions{}},
		{"no tokenizer", "no tokenizer", zipped(t, sorted(noTokenizer, "")), AddOptions{}},
		{"nothing inside", "no model in it", zipped(t, []file{{"a.txt", nil}}), AddOptions{}},
		{"two inside", "2 models in it", zipped(t, []file{{"a.gguf", gguf}, {"b.gguf", gguf}}), AddOptions{}},
		{"zip slip", "points outside", zipped(t, model("../../m.gguf")), AddOptions{}},
		{"absolute", "not a relative path", tarred(t, model("/tmp/m.gguf")), AddOptions{}},
		{"backslash", "not a relative path", zipped(t, model(`..\m.gguf`)), AddOptions{}},
		{"twice", "occurs twice", tarred(t, []file{{"m.gguf", gguf}, {"./m.gguf", gguf}}), AddOptions{}},
		{"zip too large", "more than the 1000 bytes allowed", zipped(t, model("m.gguf")), AddOptions{MaxBytes: 1000}},
		{"tar too large", "more than the 1000 bytes allowed", gzipped(tarred(t, model("m.gguf"))), AddOptions{MaxBytes: 1000}},
		{"bomb", "more than the", bomb, AddOptions{MaxBytes: 4 << 20}},
		{"name", "wanted letters", gguf, AddOptions{Name: "../x"}},
		{"hidden name", "wanted letters", gguf, AddOptions{Name: ".x"}},
		{"damaged zip", "damaged zip", []byte("PK\x03\x04 and no more"), AddOptions{}},
		{"damaged gzip", "damaged", append([]byte("\x1f\x8b"), make([]byte, 600)...), AddOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t)
			path := save(t, "m.bin", c.data)
			_, err := s.Add(background, path, c.o)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, wanted it to contain %q", err, c.want)
			}
			if strings.Contains(err.Error(), tempPrefix) {
				t.Errorf("the error shows a temporary name: %v", err)
			}
			onlyModels(t, s)
			if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
				t.Errorf("files appeared beside the source")
			}
		})
	}
}

// TestLinks: links in an archive are neither made nor followed.
func TestLinks(t *testing.T) {
	gguf := gguftest.Llama(gguftest.Options{}).Bytes()
	links := []tar.Header{
		{Name: "LICENSE", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "sub", Typeflag: tar.TypeSymlink, Linkname: ".."},
		{Name: "dev", Typeflag: tar.TypeChar},
	}
	s := newStore(t)
	m, err := s.Add(background, save(t, "m.tar", tarred(t, []file{{"sub/m.gguf", gguf}}, links...)), AddOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Licence.Files) != 0 {
		t.Errorf("a link was taken for a licence text: %v", m.Licence.Files)
	}
	usable(t, s, m)
}

func TestCancelled(t *testing.T) {
	path := gguftest.WriteLlama(t, gguftest.Options{})
	for _, after := range []int{0, 1, 2} {
		s := newStore(t)
		ctx, cancel := context.WithCancel(background)
		n := 0
		if after == 0 {
			cancel()
		}
		_, err := s.Add(ctx, path, AddOptions{Progress: func(int64, int64) {
			if n++; n == after {
				cancel()
			}
		}})
		cancel()
		if after < 2 && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled after %d reports: %v", after, err)
		}
		if err != nil {
			onlyModels(t, s)
		}
	}
}

// TestSameNameAtOnce: of several Adds at once under one name one wins.
func TestSameNameAtOnce(t *testing.T) {
	path := gguftest.WriteLlama(t, gguftest.Options{})
	s := newStore(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.Add(background, path, AddOptions{Name: "m"}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, ErrExists) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d won", won, len(errs))
	}
	onlyModels(t, s, "m")
}

// TestLeftovers: Open clears what a killed process left, but not what another
// one is still writing.
func TestLeftovers(t *testing.T) {
	s := newStore(t)
	for _, name := range []string{tempPrefix + "dead", tempPrefix + "live", trashPrefix + "x"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := s.lock(tempPrefix + "live" + lockSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	again, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	onlyModels(t, s, tempPrefix+"live", tempPrefix+"live"+lockSuffix)
}

func TestDamagedManifest(t *testing.T) {
	s := newStore(t)
	if _, err := s.Add(background, gguftest.WriteLlama(t, gguftest.Options{}), AddOptions{Name: "good"}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bad": "{", "liar": `{"version":1,"name":"liar","path":"../good/tiny.gguf"}`, "new": `{"version":2,"name":"new","path":"."}`} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, name, manifestName), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List()
	if len(list) != 1 || list[0].Name != "good" {
		t.Errorf("list: %+v", list)
	}
	for _, name := range []string{"bad", "liar", "new"} {
		if err == nil || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestWheelLicence(t *testing.T) {
	for metadata, want := range map[string]string{
		"Name: x\nLicense: MIT\n": "MIT",
		"License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n": "MIT License",
		"License: MIT\nLicense-Expression: Apache-2.0\n":                         "Apache-2.0",
		"Name: x\n\nLicense: MIT\n":                                              "",
	} {
		if got := wheelLicence([]byte(metadata)); got != want {
			t.Errorf("%q: got %q, wanted %q", metadata, got, want)
		}
	}
}

// FuzzArchive: whatever is given, Add never panics, writes nothing outside the
// store and leaves nothing half done.
func FuzzArchive(f *testing.F) {
	gguf := (&gguftest.File{KV: []gguftest.KV{{Key: "general.architecture", Value: "llama"}}}).Bytes()
	files := []file{{"m.gguf", gguf}, {"LICENSE", []byte("x")}, {"../x", nil}}
	f.Add(gguf)
	f.Add(zipped(f, files[:2]))
	f.Add(zipped(f, files))
	f.Add(tarred(f, files[:2]))
	f.Add(gzipped(tarred(f, files)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newStore(t)
		m, err := s.Add(background, save(t, "x", data), AddOptions{MaxBytes: 1 << 20})
		if err == nil {
			usable(t, s, m)
			onlyModels(t, s, m.Name)
		} else {
			onlyModels(t, s)
		}
		if entries, _ := os.ReadDir(filepath.Dir(s.dir)); len(entries) != 1 {
			t.Error("files appeared outside the store")
		}
	})
}
