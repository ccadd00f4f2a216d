package main

import (
	"fmt"
	"strings"
)

const preamble = `# Floors of the CUDA kernels

**Every figure here is a floor that was computed, none is a measurement.** No GPU took part. A floor says: a token cannot take less
time than this with these kernels, on a GPU that does what its data sheet says. Real times are longer; how much longer only a
measurement tells. ` + "`go run ./internal/perfsheet`" + ` writes this page; a test fails where it no longer fits the kernels.

What is counted: one step that computes the last token of one sequence of %d tokens, the others being in its cache, from the embedding to the logits.
The device's own code compiles each model's program to launches for each GPU; the PTX of every launch runs in the interpreter, which
counts. Of a grid of more than %d blocks some run: their costs, where they lie within %g %%, are taken to be those of the blocks between,
and where stretches of alike blocks begin is searched for. Layers whose matrices have the same types are counted once.

The floor of a launch is the largest of
- **memory**: distinct 32-byte sectors of global memory that it touches, each moved once, by the bandwidth of device memory;
- **issue**: warp instructions of PTX by SMs × 4 schedulers × clock. The machine code has fewer or more of them than the PTX;
- **tensor**: operations of mma by the peak for their type, dense.

Launches follow each other, so a step's floor is the sum of theirs. Left out: the time to start a launch (for a small model on a fast
GPU that is more than all the rest: count the launches), latencies, clocks below the stated ones, uneven last waves. A launch whose data
the L2 cache still holds may beat its memory floor; where all weights fit into L2 that is marked with ¹.
`

// render makes PERFORMANCE.md.
func render(r *record) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, preamble, r.Context, few, tolerance*100)
	out.WriteString("\n## Floor per token\n\nMicroseconds, and what most of them rest on. In brackets: time to issue all instructions as a share of the time to move all bytes; the aim is at most 1.25.\n")
	for _, s := range r.shapes() {
		fmt.Fprintf(&out, "\n### %s\n\n| weights |", s.name)
		for _, g := range gpus {
			fmt.Fprintf(&out, " %s |", g.name)
		}
		out.WriteString("\n| --- |" + strings.Repeat(" --- |", len(gpus)) + "\n")
		for _, f := range formats {
			fmt.Fprintf(&out, "| %s |", f.name)
			for _, g := range gpus {
				st := r.step(s.name, f.name, g)
				if st == nil {
					return "", fmt.Errorf("cannot render: nothing is recorded of %s in %s on %s", s.name, f.name, g.name)
				}
				t, err := sum(st.Calls, g)
				if err != nil {
					return "", err
				}
				mark := ""
				if t.bytes < g.l2 {
					mark = "¹"
				}
				fmt.Fprintf(&out, " %s%s %s (%.2f) |", micros(t.seconds), mark, t.boundBy, t.issue/t.memory)
			}
			out.WriteString("\n")
		}
	}
	if err := renderCounts(&out, r); err != nil {
		return "", err
	}
	if err := renderMissed(&out, r); err != nil {
		return "", err
	}
	renderBasis(&out, r)
	return out.String(), nil
}

// renderCounts shows what the floors are made of, for each model and target.
func renderCounts(out *strings.Builder, r *record) error {
	out.WriteString(`
## What a token costs

Launches; distinct bytes, and as a share of the weights and the keys and values that a token needs (aim: at most 1.03); warp instructions
for 32 weights; sectors asked for by the fewest possible (aim: at most 1.1 in every hot kernel); passes over shared memory by the fewest
possible (aim: at most 1.05).

| model | weights | for | launches | of a layer | MB | share | instructions | sectors | passes |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
`)
	for _, s := range r.shapes() {
		for _, f := range formats {
			rows := map[string]bool{}
			for _, g := range gpus {
				st := r.step(s.name, f.name, g)
				t, err := sum(st.Calls, g)
				if err != nil {
					return err
				}
				row := fmt.Sprintf("%d | %d | %.1f | %.3f | %.1f | %.2f | %.2f |", t.launches, st.PerLayer, t.bytes/1e6, t.bytes/float64(st.Weights+st.KV),
					t.warp/(float64(s.weights())/32), ratio(t.sectors, t.ideal), ratio(t.waves, t.least))
				if !rows[row] {
					rows[row] = true
					fmt.Fprintf(out, "| %s | %s | %s | %s\n", s.name, f.name, g.name, row)
				}
			}
		}
	}
	out.WriteString("\nA GPU is named where its figures differ from those of the row above it.\n")
	return nil
}

// aims of what a token costs.
const (
	mostIssue    = 1.25 // time to issue by time to move bytes
	mostLaunches = 6    // of a layer
	mostBytes    = 1.03 // distinct bytes by those of weights, keys and values
	mostSectors  = 1.1  // asked for by the fewest possible, in a hot kernel
	mostWaves    = 1.05 // over shared memory by the fewest possible, in a hot kernel
	hotShare     = 0.02 // of a step's floor, from which on a kernel is hot
)

// renderMissed lists what is beyond its aim: a line for a model in a format, with
// the GPUs of which the same is told named together.
func renderMissed(out *strings.Builder, r *record) error {
	out.WriteString("\n## Beyond the aim\n\n")
	missing := false
	for _, s := range r.shapes() {
		for _, f := range formats {
			var parts []string
			var on []string
			told := ""
			end := func() {
				if told != "" {
					parts = append(parts, strings.Join(on, ", ")+": "+told)
				}
				on = nil
			}
			for _, g := range gpus {
				missed, err := misses(r.step(s.name, f.name, g), g)
				if err != nil {
					return err
				}
				if now := strings.Join(missed, ", "); now != told {
					end()
					told = now
				}
				on = append(on, g.name)
			}
			end()
			if len(parts) > 0 {
				missing = true
				fmt.Fprintf(out, "- %s %s. %s.\n", s.name, f.name, strings.Join(parts, "; "))
			}
		}
	}
	if !missing {
		out.WriteString("Nothing.\n")
	}
	return nil
}

// misses tells where a step is beyond its aims.
func misses(st *step, g gpu) (missed []string, err error) {
	t, err := sum(st.Calls, g)
	if err != nil {
		return nil, err
	}
	if x := t.issue / t.memory; x > mostIssue {
		missed = append(missed, fmt.Sprintf("issue %.2f × memory", x))
	}
	if st.PerLayer > mostLaunches {
		missed = append(missed, fmt.Sprintf("%d launches of a layer", st.PerLayer))
	}
	if x := t.bytes / float64(st.Weights+st.KV); x > mostBytes {
		missed = append(missed, fmt.Sprintf("%.3f × the bytes", x))
	}
	for _, c := range st.Calls {
		m, i, x := floor(c.cost, g)
		if float64(c.Times)*max(m, i, x) < hotShare*t.seconds {
			continue
		}
		name := strings.SplitN(c.Key, " ", 4)[2]
		if x := ratio(c.cost.Sectors, c.cost.Ideal); x > mostSectors {
			missed = append(missed, fmt.Sprintf("%s: %.2f × the sectors", name, x))
		}
		if x := ratio(c.cost.Waves, c.cost.Least); x > mostWaves {
			missed = append(missed, fmt.Sprintf("%s: %.2f × the passes", name, x))
		}
	}
	return missed, nil
}

func renderBasis(out *strings.Builder, r *record) {
	out.WriteString("\n## What the floors rest on\n\n| GPU | SMs | clock MHz | memory GB/s | bf16 TFLOPS | int8 TOPS | L2 MB | where it is stated |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, g := range gpus {
		fmt.Fprintf(out, "| %s | %d | %.0f | %.0f | %.1f | %.1f | %.0f | %s |\n", g.name, g.sms, g.clock/1e6, g.bandwidth/1e9, g.half/1e12, g.int8/1e12, g.l2/(1<<20), g.source)
	}
	out.WriteString("\nWeights:")
	for _, f := range formats {
		fmt.Fprintf(out, "\n- %s: %s.", f.name, f.about)
	}
	for i := range shapes {
		if !r.counted(&shapes[i]) {
			fmt.Fprintf(out, "\n\n%s is not counted yet.", shapes[i].name)
		}
	}
	whole := 0
	for _, c := range r.Costs {
		if c.Whole {
			whole++
		}
	}
	fmt.Fprintf(out, "\n\n%d different launches were counted, %d of them with every block.\n", len(r.Costs), whole)
}

func micros(seconds float64) string {
	us := seconds * 1e6
	if us < 100 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 1
	}
	return a / b
}
