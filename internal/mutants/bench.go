package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// testTime bounds the tests of one mutant: one that loops is caught by it.
const testTime = 4 * time.Minute

// bench has the test program, built once, and a seat for each mutant that runs at
// a time.
type bench struct {
	root, dir string
	seats     chan *seat
	passed    sync.Map // by the regular expression of tests: whether the kernels as they are pass
}

// seat is a copy of the folders that the tests read: they find PTX beside their
// working folder, where a mutant's takes the place of the one that ships.
type seat struct {
	*bench
	dir string
}

func newBench(root string, seats int) (*bench, error) {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	b := &bench{root: root, dir: dir, seats: make(chan *seat, seats)}
	err = b.build()
	for i := 0; i < seats && err == nil; i++ {
		s := &seat{bench: b, dir: filepath.Join(dir, strconv.Itoa(i))}
		err = s.fill()
		b.seats <- s
	}
	if err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.dir) }

func (b *bench) build() error {
	cmd := exec.Command("go", "test", "-c", "-o", filepath.Join(b.dir, "kernel.test"), "./kernels/cuda/kernel")
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the tests: %w\n%s", err, out)
	}
	return b.tool("HEARTH_NVCC_ONLY=1")
}

// fill copies what the tests and the compiler read.
func (s *seat) fill() error {
	for _, name := range []string{"go.mod", "kernels/cuda/ptx", "kernels/cuda/kernel"} {
		if err := copyTree(filepath.Join(s.dir, name), filepath.Join(s.root, name)); err != nil {
			return err
		}
	}
	src := filepath.Join(s.root, "kernels", "cuda")
	list, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, e := range list {
		if ext := filepath.Ext(e.Name()); ext != ".cu" && ext != ".cuh" {
			continue
		}
		if err := copyTree(filepath.Join(s.dir, "src", e.Name()), filepath.Join(src, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// tool runs kernels/cuda/compile.
func (b *bench) tool(env string, args ...string) error {
	cmd := exec.Command(filepath.Join(b.root, "kernels", "cuda", "compile"), args...)
	if env != "" {
		cmd.Env = append(os.Environ(), env)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot compile: %w\n%s", err, out)
	}
	return nil
}

// sound says whether the kernels as they are pass tests; it finds out once.
func (s *seat) sound(tests string) error {
	once, _ := s.passed.LoadOrStore(tests, sync.OnceValue(func() error {
		out, err := s.test(tests)
		if err != nil {
			return fmt.Errorf("the kernels as they are fail %s: %w\n%s", tests, err, out)
		}
		if strings.Contains(out, "no tests to run") {
			return fmt.Errorf("%s names no test", tests)
		}
		return nil
	}))
	return once.(func() error)()
}

// try tells how m was caught; "" says that it was not.
func (s *seat) try(m *mutant) (string, error) {
	if err := s.sound(m.Tests); err != nil {
		return "", err
	}
	at := filepath.Join(s.dir, "src", m.File)
	was, err := os.ReadFile(at)
	if err != nil {
		return "", err
	}
	edited, err := m.apply(string(was))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(at, []byte(edited), 0o644); err != nil {
		return "", err
	}
	defer os.WriteFile(at, was, 0o644)
	ptx := filepath.Join(s.dir, "kernels", "cuda", "ptx", m.Module+".compute_80.ptx")
	ships, err := os.ReadFile(ptx)
	if err != nil {
		return "", err
	}
	defer os.WriteFile(ptx, ships, 0o644)
	if err := s.compile(m.Module, ptx); err != nil {
		return "", err
	}
	if now, err := os.ReadFile(ptx); err != nil || string(now) == string(ships) {
		return "", errors.Join(err, errors.New("the edit changes nothing in the PTX"))
	}
	out, err := s.test(m.Tests)
	if err == nil {
		return "", nil
	}
	return reason(out), nil
}

// compile makes the PTX of an edited source, for one target.
func (s *seat) compile(module, to string) error {
	out := filepath.Join(s.dir, "out")
	if err := s.tool("", "--only", "80", "--src", filepath.Join(s.dir, "src"), "--out", out, module); err != nil {
		return err
	}
	made, err := os.ReadFile(filepath.Join(out, module+".compute_80.ptx"))
	if err != nil {
		return err
	}
	return os.WriteFile(to, made, 0o644)
}

// test runs tests for one target and stops at the first that fails.
func (s *seat) test(tests string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bench.dir, "kernel.test"), "-test.run", tests, "-test.failfast", "-test.timeout", testTime.String())
	cmd.Dir = filepath.Join(s.dir, "kernels", "cuda", "kernel")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// copyTree copies a file, or a folder with all in it.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		if e.IsDir() {
			return os.MkdirAll(dst, 0o755)
		}
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(dst, b, info.Mode().Perm())
	})
}
