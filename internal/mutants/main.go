// Command mutants proves that the tests of the CUDA kernels see faults: each
// mutant is one edit of a source (a barrier dropped, a lane or a tail off by one,
// a nibble swapped, a wait missing), compiled and given to the tests. A mutant
// that they pass is a failure, and so is an edit whose text is not in the source
// any more.
//
//	go run ./internal/mutants [-run REGEXP] [-v]
//
// The mutants are kernels/cuda/mutants.json. It needs the pinned nvcc, which
// kernels/cuda/compile installs, and runs on the PTX interpreter.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	only := flag.String("run", "", "mutants whose name matches this")
	verbose := flag.Bool("v", false, "show how each was caught")
	flag.Parse()
	if err := run(*only, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, verbose bool) error {
	re, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	all, err := readMutants(filepath.Join(root, "kernels", "cuda", "mutants.json"))
	if err != nil {
		return err
	}
	b, err := newBench(root)
	if err != nil {
		return err
	}
	defer b.close()
	began, survived, ran := time.Now(), 0, 0
	for i := range all {
		m := &all[i]
		if !re.MatchString(m.Name) {
			continue
		}
		ran++
		start := time.Now()
		how, err := b.try(m)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", m.Name, err)
		case how == "":
			survived++
			fmt.Printf("SURVIVED %-44s %s\n", m.Name, m.What)
		case verbose:
			fmt.Printf("caught   %-44s %5.1f s  %s\n", m.Name, time.Since(start).Seconds(), how)
		}
	}
	fmt.Printf("%d mutants, %d caught, %.0f s\n", ran, ran-survived, time.Since(began).Seconds())
	if survived > 0 || ran == 0 {
		return fmt.Errorf("%d of %d mutants were not caught", survived, ran)
	}
	return nil
}

// moduleRoot is the folder of go.mod at or above the present one.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.mod at or above %s", dir)
		}
	}
}

// first is the first line of out that tells of a fault.
func first(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "FAIL") {
			continue
		}
		if len(line) > 160 {
			line = line[:160]
		}
		return line
	}
	return "the test failed"
}
