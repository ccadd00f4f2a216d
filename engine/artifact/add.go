package artifact

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"hearth/engine/model"
	"hearth/engine/weights"
)

// AddOptions adjust Add.
type AddOptions struct {
	Name string // "" derives one from the file name, in lower case
	// Digest is the expected sha256 in hex, of the archive or of the model (see
	// weights.File.Digest; for a .gguf file its own); "" for none.
	Digest string
	// Progress, if set, is called with bytes done and the total, which grows
	// once the contents are known.
	Progress func(done, total int64)
	// MaxBytes bounds what an archive may unpack to; 0 means 64 times its size
	// and 1 GiB more, up to 256 GiB.
	MaxBytes int64
	// Now gives the time for Manifest.Added; nil means time.Now.
	Now func() time.Time
}

// Add installs path: a .gguf file, a safetensors directory, or an archive (zip,
// wheel, tar, tar.gz) that holds one. It copies, reads the copy back to check
// that this build can run it, and only then gives it its name. On error nothing
// is left behind.
func (s *Store) Add(ctx context.Context, path string, o AddOptions) (*Manifest, error) {
	m, err := s.add(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("cannot add model %s: %w", filepath.Base(path), err)
	}
	return m, nil
}

func (s *Store) add(ctx context.Context, path string, o AddOptions) (*Manifest, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Name != "" {
		if err := s.free(o.Name); err != nil {
			return nil, err
		}
	}
	src, archive, err := openSource(path, o.MaxBytes)
	if err != nil {
		return nil, err
	}
	defer src.close()
	a := &addition{s: s, o: o, src: src, archive: archive, path: path, progress: progress{report: o.Progress}}
	return a.run(ctx)
}

func (o *AddOptions) check() error {
	o.Digest = strings.ToLower(strings.TrimPrefix(o.Digest, "sha256:"))
	if b, err := hex.DecodeString(o.Digest); o.Digest != "" && (err != nil || len(b) != sha256.Size) {
		return errors.New("the expected digest is not a sha256 in hex (64 digits)")
	}
	if o.MaxBytes < 0 {
		return fmt.Errorf("a bound of %d bytes on what is unpacked, wanted 0 or more", o.MaxBytes)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

// free checks that a name can be given.
func (s *Store) free(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, err := s.root.Lstat(name)
	if err == nil {
		return fmt.Errorf("model %q: %w", name, ErrExists)
	}
	return ignoreAbsent(err)
}

// addition is one Add under way.
type addition struct {
	s        *Store
	o        AddOptions
	src      source
	archive  bool
	path     string
	temp     string // folder in the store
	choice   *choice
	progress progress

	sourceDigest string
	card, wheel  []byte
}

func (a *addition) run(ctx context.Context) (*Manifest, error) {
	if a.archive {
		if err := a.hashArchive(ctx); err != nil {
			return nil, err
		}
	}
	all, err := a.src.list(ctx)
	if err != nil {
		return nil, err
	}
	single := ""
	if f, ok := a.src.(*folder); ok {
		single = f.only
	}
	if a.choice, err = choose(all, single); err != nil {
		return nil, err
	}
	name := a.name()
	if err := a.s.free(name); err != nil {
		return nil, err
	}
	a.progress.total += 2 * a.choice.bytes // copied, then digested

	a.temp = tempPrefix + randomHex()
	lock, err := a.s.lock(a.temp + lockSuffix)
	if err != nil {
		return nil, err
	}
	defer func() {
		a.s.root.RemoveAll(a.temp) // gone already if all went well
		a.s.root.Remove(a.temp + lockSuffix)
		lock.Close()
	}()
	if err := a.s.root.Mkdir(a.temp, 0o755); err != nil {
		return nil, err
	}
	if err := a.copy(ctx); err != nil {
		return nil, err
	}
	m, err := a.inspect(ctx, name)
	if err != nil {
		return nil, err
	}
	return m, a.publish(m)
}

// name is the one asked for, or what the model's own file is called.
func (a *addition) name() string {
	if a.o.Name != "" {
		return a.o.Name
	}
	name := a.choice.name
	if name == "" || name == "." {
		abs, err := filepath.Abs(a.path)
		if err != nil {
			abs = a.path
		}
		name = filepath.Base(abs)
		for _, ext := range []string{".gz", ".tgz", ".tar", ".zip", ".whl"} {
			name = strings.TrimSuffix(name, ext)
		}
	}
	name = strings.Map(func(r rune) rune {
		if r < 0x80 && (checkName("a"+string(r)) == nil) {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	name = strings.TrimLeft(name, "._-+")
	return name[:min(len(name), maxName)]
}

// hashArchive takes the digest of the archive and, if it is not the expected
// one, leaves the question to the model's own.
func (a *addition) hashArchive(ctx context.Context) error {
	f, err := os.Open(a.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		a.progress.total = st.Size()
	}
	h := sha256.New()
	if _, err := copyBuffered(ctx, h, f, &a.progress); err != nil {
		return err
	}
	a.sourceDigest = hex.EncodeToString(h.Sum(nil))
	return nil
}

// copy writes the chosen files into the temporary folder.
func (a *addition) copy(ctx context.Context) error {
	wanted := map[string]bool{a.choice.card: true, a.choice.wheel: true}
	for name := range a.choice.files {
		wanted[name] = true
	}
	delete(wanted, "")
	written := 0
	err := a.src.extract(ctx, wanted, func(e entry, r io.Reader) error {
		side := e.name == a.choice.card || e.name == a.choice.wheel
		if side {
			b, err := readBounded(r, maxSideFile)
			if err != nil {
				return err
			}
			if e.name == a.choice.card {
				a.card = b
			} else {
				a.wheel = b
			}
			if a.choice.files[e.name] == "" {
				return nil
			}
			r = strings.NewReader(string(b))
			e.size = int64(len(b))
		}
		written++
		return a.write(ctx, a.choice.files[e.name], e, r)
	})
	if err == nil && written != len(a.choice.files) {
		err = fmt.Errorf("%d of %d files could be read", written, len(a.choice.files))
	}
	return err
}

// write makes one file durable. It must have exactly the size that was claimed.
func (a *addition) write(ctx context.Context, name string, e entry, r io.Reader) error {
	full := a.temp + "/" + name
	if dir := path.Dir(name); dir != "." {
		if err := a.s.root.Mkdir(a.temp+"/"+dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := a.s.root.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := copyBuffered(ctx, f, io.LimitReader(r, e.size+1), &a.progress)
	if err == nil && n != e.size {
		err = fmt.Errorf("got %d bytes or more, wanted %d", n, e.size)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// inspect opens the copy as the engine will and writes down what it is.
func (a *addition) inspect(ctx context.Context, name string) (*Manifest, error) {
	f, err := weights.Open(filepath.Join(a.s.dir, a.temp, a.choice.path))
	if err != nil {
		return nil, a.hide(err)
	}
	defer f.Close()
	_, c, err := model.Build(f, model.Options{})
	if err != nil {
		return nil, a.hide(err)
	}
	if f.Tokenizer.Vocabulary == nil && f.Tokenizer.JSON == nil {
		return nil, errors.New("the model has no tokenizer; wanted a vocabulary in the GGUF file, or tokenizer.json")
	}
	base := a.progress.done
	digest, err := f.Digest(ctx, func(done, _ int64) { a.progress.set(base + done) })
	if err != nil {
		return nil, a.hide(err)
	}
	if a.o.Digest != "" && a.o.Digest != digest && a.o.Digest != a.sourceDigest {
		got := digest
		if a.archive {
			got = a.sourceDigest
		}
		return nil, fmt.Errorf("%w: got %s, wanted %s", ErrDigest, got, a.o.Digest)
	}
	m := &Manifest{
		Version: 1, Name: name, Path: a.choice.path, Format: string(f.Format),
		Architecture: c.Architecture, Quantization: c.Quantization, Parameters: c.Parameters, ContextLength: c.ModelContext,
		ChatTemplate: len(f.Templates) > 0, Size: f.Size, Digest: digest,
		Licence: licence(f.About, a.card, a.wheel, f.Format),
		Source:  filepath.Base(a.path), SourceDigest: a.sourceDigest, Added: a.o.Now().UTC().Truncate(time.Second),
	}
	for _, text := range a.choice.texts {
		m.Licence.Files = append(m.Licence.Files, a.choice.files[text])
	}
	return m, nil
}

// hide puts the path that the user gave in the place of the temporary one.
func (a *addition) hide(err error) error {
	temp := filepath.Join(a.s.dir, a.temp)
	return &hidden{err, strings.ReplaceAll(err.Error(), temp, filepath.Base(a.path))}
}

type hidden struct {
	err  error
	text string
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

// publish writes the manifest and gives the folder its name.
func (a *addition) publish(m *Manifest) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	e := entry{manifestName, int64(len(b) + 1)}
	quiet := *a
	quiet.progress = progress{}
	if err := quiet.write(context.Background(), manifestName, e, strings.NewReader(string(b)+"\n")); err != nil {
		return err
	}
	for name := range dirsOf(a.choice.files) {
		if err := a.s.sync(path.Join(a.temp, name)); err != nil {
			return err
		}
	}
	if err := a.s.free(m.Name); err != nil {
		return err
	}
	// Renaming onto a folder that another Add has just made fails, since that
	// one is not empty.
	if err := a.s.root.Rename(a.temp, m.Name); err != nil {
		if a.s.free(m.Name) != nil {
			return fmt.Errorf("model %q: %w", m.Name, ErrExists)
		}
		return err
	}
	return a.s.sync(".")
}

func dirsOf(files map[string]string) map[string]bool {
	dirs := map[string]bool{".": true}
	for _, name := range files {
		dirs[path.Dir(name)] = true
	}
	return dirs
}

// progress counts bytes and reports them.
type progress struct {
	report      func(done, total int64)
	done, total int64
}

func (p *progress) set(done int64) {
	p.done = done
	if p.report != nil {
		p.report(p.done, max(p.total, p.done))
	}
}

// copyBuffered is io.Copy that can be cancelled and tells its progress.
func copyBuffered(ctx context.Context, w io.Writer, r io.Reader, p *progress) (int64, error) {
	buf := make([]byte, 1<<20)
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return total, err
			}
			total += int64(n)
			p.set(p.done + int64(n))
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func randomHex() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
