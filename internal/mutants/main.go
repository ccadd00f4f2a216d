// Command mutants proves that the tests of the CUDA kernels see faults: each
// mutant is one edit of a source (a barrier dropped, a lane or a tail off by one,
// a nibble swapped, a wait missing), compiled and given to the tests. A mutant
// that they pass is a failure, and so is an edit whose text is not in the source
// any more.
//
//	go run ./internal/mutants [-run REGEXP] [-j N] [-v]
//
// The mutants are kernels/cuda/mutants.json. It needs the pinned nvcc, which
// kernels/cuda/compile installs, and runs on the PTX interpreter.
package main

import (
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	only := flag.String("run", "", "mutants whose name matches this")
	seats := flag.Int("j", runtime.NumCPU(), "mutants at a time")
	verbose := flag.Bool("v", false, "show how each was caught")
	flag.Parse()
	if err := run(*only, *seats, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only string, seats int, verbose bool) error {
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
	all = slices.DeleteFunc(all, func(m mutant) bool { return !re.MatchString(m.Name) })
	began := time.Now()
	b, err := newBench(root, max(1, seats))
	if err != nil {
		return err
	}
	defer b.close()
	survived, broken := 0, 0
	for o := range b.all(all) {
		switch {
		case o.err != nil:
			broken++
			fmt.Printf("BROKEN   %-40s %v\n", o.m.Name, o.err)
		case o.how == "":
			survived++
			fmt.Printf("SURVIVED %-40s %5.1f s  %s\n", o.m.Name, o.took.Seconds(), o.m.What)
		case verbose:
			fmt.Printf("caught   %-40s %5.1f s  %s\n", o.m.Name, o.took.Seconds(), o.how)
		}
	}
	ran := len(all)
	fmt.Printf("%d mutants, %d caught, %.0f s\n", ran, ran-survived-broken, time.Since(began).Seconds())
	if survived+broken > 0 || ran == 0 {
		return fmt.Errorf("%d of %d mutants were not caught", survived+broken, ran)
	}
	return nil
}

// outcome is what became of a mutant.
type outcome struct {
	m    *mutant
	how  string
	took time.Duration
	err  error
}

// all tries mutants, as many at a time as there are seats, and gives the outcomes
// in order.
func (b *bench) all(ms []mutant) iter.Seq[outcome] {
	return func(yield func(outcome) bool) {
		done := make([]chan outcome, len(ms))
		for i := range ms {
			done[i] = make(chan outcome, 1)
		}
		go func() {
			for i := range ms {
				s := <-b.seats
				go func() {
					start := time.Now()
					how, err := s.try(&ms[i])
					b.seats <- s
					done[i] <- outcome{&ms[i], how, time.Since(start), err}
				}()
			}
		}()
		for i := range ms {
			if !yield(<-done[i]) {
				return
			}
		}
	}
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

// reason is the line of out that tells of the fault: the first finding, or else
// the last that a test has said.
func reason(out string) string {
	how := "the test failed"
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		if said.MatchString(line) || strings.HasPrefix(line, "panic:") {
			how = strings.TrimSpace(line)
		}
		if strings.HasSuffix(line, "findings:") && i+1 < len(lines) {
			how = strings.TrimSpace(lines[i+1])
			break
		}
	}
	return how[:min(len(how), 200)]
}

var said = regexp.MustCompile(`^ +\w+\.go:\d+: `)
