package ptx

import (
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
)

var mutations = flag.Int("mutations", 400, "texts that TestMutatedText runs")

var word = regexp.MustCompile(`%?[A-Za-z_$][\w.$]*|\d\w*`)

// Real kernels with lines lost, doubled and moved and with words changed for
// others give errors, findings or results; nothing panics or hangs.
func TestMutatedText(t *testing.T) {
	src, err := os.ReadFile("testdata/good.compute_80.ptx")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(src), ".visible .entry")
	kernels := strings.Split(rest, ".visible .entry")
	rng := noise(7)
	pick := func(n int) int { return int(rng.next()) % n }
	ran := 0
	for n := range *mutations {
		k := kernels[n%len(kernels)]
		if len(k) > 12000 {
			continue
		}
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
		text := head + ".visible .entry" + strings.Join(lines, "\n")
		mod, err := Parse([]byte(text))
		if err != nil {
			if e := (*Error)(nil); !errors.As(err, &e) {
				t.Fatal(err)
			}
			continue
		}
		ran++
		m := NewMachine(Options{Checks: n%3 > 0, Count: n%2 > 0, Memory: 1 << 18, MaxSteps: 3000})
		l, err := m.Load(mod)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range mod.Kernels() {
			params := make([]byte, k.ParamBytes)
			for _, p := range k.Params {
				if a, err := m.Alloc(4096); err == nil && p.Size == 8 {
					if n%5 > 0 {
						m.Fill(a, byte(rng.next()), 4096)
					}
					le.PutUint64(params[p.Offset:], a)
				} else if p.Size >= 4 {
					le.PutUint32(params[p.Offset:], rng.next()%70)
				}
			}
			if _, err := m.Launch(l, k.Name, Dim{X: 2}, Dim{X: 64}, 24576, params); err != nil && strings.Contains(err.Error(), "BUG") {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	}
	if ran < *mutations/10 {
		t.Errorf("only %d of %d texts ran", ran, *mutations)
	}
}
