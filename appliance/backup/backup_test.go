package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"hearth/store"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// box is a data directory with a store in it.
type box struct {
	t   *testing.T
	dir string
	s   *store.Store
}

func newBox(t *testing.T) *box {
	b := &box{t: t, dir: t.TempDir()}
	b.write(Config, "price_version = \"p\"\n")
	b.open()
	return b
}

func (b *box) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) open() {
	b.t.Helper()
	s, err := store.Open(filepath.Join(b.dir, Database), store.Options{BallastBytes: -1})
	if err != nil {
		b.t.Fatal(err)
	}
	b.s = s
	b.t.Cleanup(func() { s.Close() })
}

func (b *box) close() {
	b.t.Helper()
	if err := b.s.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// request adds one settled request that costs a dollar.
func (b *box) request(id string) {
	b.t.Helper()
	price := store.Price{Version: "p", Output: 1_000_000_000_000}
	_, err := b.s.Hold(context.Background(), store.HoldRequest{AmountNano: 2_000_000_000, Opening: store.Opening{RequestID: id, Tenant: "a", Started: noon, Price: price},
		Charges: []store.Charge{{Budget: "tenant/a/total", Window: "total", CapNano: 1 << 50}}})
	if err == nil {
		_, err = b.s.Settle(id, store.Result{Outcome: store.OutcomeComplete, Usage: store.Usage{Output: 1000}})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) source() *Source {
	return &Source{Head: Head{Hearth: "test", Created: noon, Kind: "manual"}, Copy: b.s.Copy,
		Files: []File{{Config, filepath.Join(b.dir, Config)}, {"retention.key", filepath.Join(b.dir, "retention.key")}}}
}

func (b *box) backup(pass string) string {
	b.t.Helper()
	b.write("retention.key", "secret of the retention")
	path := filepath.Join(b.t.TempDir(), "x.tar.zst")
	if _, _, err := WriteFile(context.Background(), path, b.source(), pass); err != nil {
		b.t.Fatal(err)
	}
	return path
}

func (b *box) sum() store.Summary {
	b.t.Helper()
	s, r, err := store.Inspect(context.Background(), filepath.Join(b.dir, Database))
	if err != nil || !r.OK() {
		b.t.Fatalf("inspect: %v %+v", err, r.Faults)
	}
	return s
}

func options(file, dir string) StageOptions {
	return StageOptions{File: file, Dir: dir, Config: filepath.Join(dir, Config), By: "test", Now: noon}
}

// A backup comes back with its counts and sums, plain and encrypted, in the same
// folder and in a new one.
func TestThereAndBack(t *testing.T) {
	for _, pass := range []string{"", "a passphrase of some length"} {
		b := newBox(t)
		for i := range 20 {
			b.request(fmt.Sprint("r", i))
		}
		if err := b.s.Blobs("accounts").Put(context.Background(), "owner", []byte("x")); err != nil {
			t.Fatal(err)
		}
		file := b.backup(pass)
		v, err := Drill(context.Background(), file, pass, t.TempDir())
		if err != nil || !v.OK() {
			t.Fatalf("drill: %v %v", err, v.Faults)
		}
		m := v.Manifest.Ledger
		if m.Rows != 20 || m.ChargeNano != 20e9 || m.SpentNano != 20e9 || m.Blobs["accounts"] != 1 {
			t.Errorf("manifest has %+v", m)
		}
		// More happens, and is undone by the restore: its journals must not come back.
		for i := range 5 {
			b.request(fmt.Sprint("later", i))
		}
		b.write(Config, "price_version = \"later\"\n")
		b.close()
		o := options(file, b.dir)
		o.Passphrase = pass
		if _, err := Stage(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		r, err := Apply(context.Background(), b.dir)
		if err != nil || len(r.Differences) > 0 {
			t.Fatalf("apply: %v %+v", err, r)
		}
		if d := b.sum(); len(d.Differences(&m)) > 0 {
			t.Errorf("differences: %v", d.Differences(&m))
		}
		if c, _ := os.ReadFile(filepath.Join(b.dir, Config)); string(c) != "price_version = \"p\"\n" {
			t.Errorf("the configuration is %q", c)
		}
		b.open()
		b.request("anew")
		if p, err := b.s.List(context.Background(), store.Filter{Limit: 1000}); err != nil || len(p.Rows) != 21 {
			t.Errorf("%d rows after the restore, %v", len(p.Rows), err)
		}
		b.close()
		// And the way back from it.
		if _, err := StageSet(b.dir, r.Plan.Set, o.Config, "test", noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := Apply(context.Background(), b.dir); err != nil {
			t.Fatal(err)
		}
		b.open()
		if p, err := b.s.List(context.Background(), store.Filter{Limit: 1000}); err != nil || len(p.Rows) != 25 {
			t.Errorf("%d rows after the way back, %v", len(p.Rows), err)
		}
		// A folder that was empty.
		fresh := t.TempDir()
		o.Dir, o.Config = fresh, filepath.Join(fresh, Config)
		if _, err := Stage(context.Background(), o); err != nil {
			t.Fatal(err)
		}
		if r, err := Apply(context.Background(), fresh); err != nil || r.Found.Rows != 20 {
			t.Errorf("into an empty folder: %v", err)
		}
		if k, _ := os.ReadFile(filepath.Join(fresh, "retention.key")); string(k) != "secret of the retention" {
			t.Errorf("the key is %q", k)
		}
	}
}

// A restore that is cut off anywhere ends at the next call, and no moment shows
// one database with the journals of another.
func TestRestoreCutOff(t *testing.T) {
	b := newBox(t)
	b.request("r")
	file := b.backup("")
	b.close()
	want := b.sum()
	points := []string{}
	crash = func(p string) error { points = append(points, p); return nil }
	defer func() { crash = func(string) error { return nil } }()
	old := &box{t: t, dir: t.TempDir()}
	old.write(Config, "price_version = \"old\"\n")
	old.open()
	old.request("old1")
	old.request("old2")
	old.close()
	run := func() (*box, error) {
		c := &box{t: t, dir: t.TempDir()}
		if err := os.CopyFS(c.dir, os.DirFS(old.dir)); err != nil {
			t.Fatal(err)
		}
		if _, err := Stage(context.Background(), options(file, c.dir)); err != nil {
			t.Fatal(err)
		}
		_, err := Apply(context.Background(), c.dir)
		return c, err
	}
	if _, err := run(); err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(points)
	if len(all) < 8 {
		t.Fatalf("points: %v", all)
	}
	cut := errors.New("cut off")
	for i := range all {
		n := 0
		crash = func(p string) error {
			if n++; n == i+1 {
				return cut
			}
			return nil
		}
		c, err := run()
		if !errors.Is(err, cut) {
			t.Fatalf("%s: %v", all[i], err)
		}
		if _, err := os.Stat(filepath.Join(c.dir, Database)); err == nil && i > 0 && i < len(all)-2 {
			if d := c.sum(); len(store.Files(filepath.Join(c.dir, Database))) > 0 && d.Rows != 2 {
				t.Errorf("%s: a database beside journals of another", all[i])
			}
		}
		crash = func(string) error { return nil }
		if r, err := Apply(context.Background(), c.dir); err != nil || len(r.Differences) > 0 {
			t.Errorf("%s: going on: %v", all[i], err)
			continue
		}
		if d := c.sum(); len(d.Differences(&want)) > 0 {
			t.Errorf("%s: %v", all[i], d.Differences(&want))
		}
		if p, err := Pending(c.dir); p != nil || err != nil {
			t.Errorf("%s: a plan is left: %v %v", all[i], p, err)
		}
		old := filepath.Join(c.dir, SetPrefix+"20261129T120000")
		if s, _, err := store.Inspect(context.Background(), filepath.Join(old, Database)); err != nil {
			t.Errorf("%s: the old set: %v", all[i], err)
		} else if len(store.Files(filepath.Join(old, Database))) != 2 && s.Rows != 2 {
			t.Errorf("%s: the old set has %d rows and no journals", all[i], s.Rows)
		}
	}
}

// Nothing that was changed, cut or swapped passes, and nothing panics.
func TestDamageIsNoticed(t *testing.T) {
	b := newBox(t)
	b.request("r")
	for _, pass := range []string{"", "a passphrase of some length"} {
		whole, err := os.ReadFile(b.backup(pass))
		if err != nil {
			t.Fatal(err)
		}
		try := func(name string, data []byte) {
			t.Helper()
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if _, err := Stage(context.Background(), StageOptions{File: path, Passphrase: pass, Dir: dir, Now: noon}); err == nil {
				t.Errorf("%s passed", name)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s left %v behind", name, left)
			}
		}
		step := max(len(whole)/7, 1)
		for i := 40; i < len(whole); i += step {
			c := bytes.Clone(whole)
			c[i] ^= 0x10
			try(fmt.Sprintf("bit flip at %d of %d", i, len(whole)), c)
		}
		for _, n := range []int{5, sealHeader, len(whole) - 1} {
			try(fmt.Sprintf("%d of %d bytes", n, len(whole)), whole[:n])
		}
		try("a tail", append(bytes.Clone(whole), whole[:64]...))
		if pass != "" {
			path := filepath.Join(t.TempDir(), "x")
			os.WriteFile(path, whole, 0o600)
			if _, _, err := ReadHead(path, "another passphrase"); !errors.Is(err, ErrPassphrase) {
				t.Errorf("wrong passphrase: %v", err)
			}
			if _, enc, err := ReadHead(path, ""); !errors.Is(err, ErrNoPassphrase) || !enc {
				t.Errorf("no passphrase: %v", err)
			}
			if bytes.Contains(whole, []byte("secret of the retention")) {
				t.Error("the encrypted backup shows a secret")
			}
		}
	}
}

// A newer format is refused in words, before anything else is looked at.
func TestNewerFormat(t *testing.T) {
	var buf bytes.Buffer
	z, _ := zstd.NewWriter(&buf)
	a := &writer{tar: tar.NewWriter(z), m: Manifest{Head: Head{Format: 9, Hearth: "7.0", Created: noon}}}
	if err := a.document(headName, a.m.Head); err != nil {
		t.Fatal(err)
	}
	a.tar.Close()
	z.Close()
	_, err := NewReader(&buf, "")
	if err == nil || !strings.Contains(err.Error(), "hearth 7.0 in format 9") {
		t.Errorf("got %v", err)
	}
}

// While requests run, a backup is whole and nobody waits for it.
func TestUnderLoad(t *testing.T) {
	b := newBox(t)
	b.write("retention.key", "k")
	var n atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					b.request(fmt.Sprintf("w%d-%d", w, n.Add(1)))
				}
			}
		})
	}
	for i := range 3 {
		path := filepath.Join(t.TempDir(), "x")
		before := n.Load()
		if _, _, err := WriteFile(context.Background(), path, b.source(), ""); err != nil {
			t.Fatal(err)
		}
		v, err := Drill(context.Background(), path, "", t.TempDir())
		if err != nil || !v.OK() {
			t.Errorf("backup %d: %v %v", i, err, v.Faults)
		}
		if int64(v.Manifest.Ledger.Rows) < before-4 {
			t.Errorf("backup %d lacks rows: %d of %d", i, v.Manifest.Ledger.Rows, before)
		}
	}
	close(stop)
	wg.Wait()
}

// A full disk is told as such, and nothing is left.
func TestDiskFull(t *testing.T) {
	b := newBox(t)
	b.request("r")
	b.write("retention.key", "k")
	src := b.source()
	inner := src.Copy
	src.Copy = func(ctx context.Context, begin func(store.Summary, int64) (io.Writer, error)) error {
		return inner(ctx, func(s store.Summary, n int64) (io.Writer, error) {
			w, err := begin(s, n)
			return &fullDisk{w, 10_000}, err
		})
	}
	dir := t.TempDir()
	_, _, err := WriteFile(context.Background(), filepath.Join(dir, "x"), src, "")
	if err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

type fullDisk struct {
	w    io.Writer
	room int
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}
	return f.w.Write(p)
}

// FuzzReader holds reading to its bounds on any bytes.
func FuzzReader(f *testing.F) {
	var buf bytes.Buffer
	src := &Source{Head: Head{Hearth: "f", Created: noon}, Copy: func(_ context.Context, begin func(store.Summary, int64) (io.Writer, error)) error {
		w, err := begin(store.Summary{}, 4)
		if err == nil {
			_, err = w.Write([]byte("data"))
		}
		return err
	}}
	if _, err := Write(context.Background(), &buf, src, ""); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add([]byte(sealMagic + strings.Repeat("\x01", 60)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), "")
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = r.Extract(context.Background(), func(string, int64) (io.WriteCloser, error) { return nil, nil })
	})
}
