package ptx

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	mutations = flag.Int("mutations", 400, "texts that TestMutatedText runs")
	seed      = flag.Int64("seed", 7, "of its generator")
)

var word = regexp.MustCompile(`%?[A-Za-z_$][\w.$]*|\d\w*`)

// mutate loses, doubles and moves lines of a kernel, and puts words for others.
func mutate(k string, pick func(n int) int) string {
	lines := strings.Split(k, "\n")
	for range 1 + pick(3) {
		i, j := 2+pick(len(lines)-2), 2+pick(len(lines)-2)
		switch pick(5) {
		case 0:
			lines[i] = ""
		case 1:
			lines[i] = lines[j]
		case 2:
			lines[i], lines[j] = lines[j], lines[i]
		default:
			from, to := word.FindAllStringIndex(lines[i], -1), word.FindAllString(lines[j], -1)
			if len(from) > 0 && len(to) > 0 {
				at := from[pick(len(from))]
				lines[i] = lines[i][:at[0]] + to[pick(len(to))] + lines[i][at[1]:]
			}
		}
	}
	return strings.Join(lines, "\n")
}

// runText parses and runs a text's kernels with made-up arguments. It gives the
// memory they leave, or nil where nothing is promised of it.
func runText(t *testing.T, text string, opt Options, seed uint32) (memory []byte, ran bool) {
	mod, err := Parse([]byte(text))
	if err != nil {
		if e := (*Error)(nil); !errors.As(err, &e) {
			t.Fatal(err)
		}
		return nil, false
	}
	rng := noise(seed)
	m := NewMachine(opt)
	l, err := m.Load(mod)
	if err != nil {
		t.Fatal(err)
	}
	promised := true
	for _, k := range mod.Kernels() {
		params := make([]byte, k.ParamBytes)
		for _, p := range k.Params {
			if a, err := m.Alloc(4096); err == nil && p.Size == 8 {
				if seed%5 > 0 {
					m.Fill(a, byte(rng.next()), 4096)
				}
				le.PutUint64(params[p.Offset:], a)
			} else if p.Size >= 4 {
				le.PutUint32(params[p.Offset:], rng.next()%70)
			}
		}
		rep, err := m.Launch(l, k.Name, Dim{X: 2}, Dim{X: 64}, 24576, params)
		if err != nil && strings.Contains(err.Error(), "BUG") {
			t.Fatalf("%v\n%s", err, text)
		}
		promised = promised && err == nil
		if rep != nil {
			for _, f := range rep.Findings { // which depend on what a register held by chance
				promised = promised && f.Kind != UndefinedReg && f.Kind != ShflUndefined && f.Kind != ShflDivergence && f.Kind != MmaPartial
			}
		}
	}
	if !promised {
		return nil, true
	}
	return m.mem, true
}

// Real kernels with a few lines and words changed give errors, findings or
// results; nothing panics or hangs, and registers that share places hold the same
// as those that do not.
func TestMutatedText(t *testing.T) {
	src, err := os.ReadFile("testdata/good.compute_80.ptx")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(src), ".visible .entry")
	kernels := strings.Split(rest, ".visible .entry")
	rng := noise(*seed)
	ran, compared := 0, 0
	for n := range *mutations {
		k := kernels[n%len(kernels)]
		if len(k) > 12000 {
			continue
		}
		text := head + ".visible .entry" + mutate(k, func(n int) int { return int(rng.next()) % n })
		opt := Options{Checks: n%3 > 0, Count: n%2 > 0, Memory: 1 << 18, MaxSteps: 3000}
		got, ok := runText(t, text, opt, uint32(n))
		if !ok {
			continue
		}
		ran++
		if got == nil || !opt.Checks {
			continue
		}
		separate = true
		want, _ := runText(t, text, opt, uint32(n))
		separate = false
		compared++
		if want != nil && !bytes.Equal(got, want) {
			t.Fatalf("registers that share places give other results\n%s", text)
		}
	}
	if ran < *mutations/10 || compared < *mutations/50 {
		t.Errorf("only %d of %d texts ran, %d were compared", ran, *mutations, compared)
	}
}
