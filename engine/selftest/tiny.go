package selftest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
)

// Bounds on the difference of a logit, for float32 activations: rounding of
// float32 sums in another order, and of weights that were quantized on the way.
const (
	tinyBound     = 1e-3
	tinyGGUFBound = 2e-3
	// marginBound is the lead below which another best token is no fault.
	marginBound = 2e-3
)

type tinyCase struct {
	Name        string    `json:"name"`
	GGUF        string    `json:"gguf"`
	PromptIDs   []int32   `json:"prompt_ids"`
	Logits      array     `json:"logits"`      // (len(PromptIDs), vocab)
	LastLogits  array     `json:"last_logits"` // (vocab)
	GreedyIDs   []int32   `json:"greedy_ids"`
	Margins     []float64 `json:"greedy_margins"`
	LlamaCppOff float64   `json:"llama_cpp_max_abs_diff"`
}

type tinyFile struct {
	Model string     `json:"model"`
	Data  string     `json:"data"`
	Cases []tinyCase `json:"cases"`
	raw   floats
}

func readTiny(path string) (*tinyFile, error) {
	f := &tinyFile{}
	if err := readJSON(path, f); err != nil {
		return nil, err
	}
	var err error
	f.raw, err = readFloats(filepath.Join(filepath.Dir(path), filepath.Base(f.Data)))
	return f, err
}

// longest is the longest sequence of any case, continuation included.
func (f *tinyFile) longest() int {
	n := 1
	for i := range f.Cases {
		n = max(n, len(f.Cases[i].PromptIDs)+len(f.Cases[i].GreedyIDs))
	}
	return n
}

// runTiny compares the logits of every position and greedy continuations.
func runTiny(ctx context.Context, t *run, path string) error {
	f, err := readTiny(path)
	if err != nil {
		return err
	}
	file, err := t.findModel(f.Model)
	if err != nil {
		return err
	}
	l, err := load(file)
	if err != nil {
		return err
	}
	defer l.file.Close()
	s, err := l.newSession(t, exact, f.longest())
	if err != nil {
		return err
	}
	defer s.dev.Close()
	for i := range f.Cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := &f.Cases[i]
		t.check(c.Name, f.logits(s, c))
	}
	return nil
}

func (f *tinyFile) logits(s *session, c *tinyCase) string {
	want, err := f.raw.at(c.Logits)
	if err != nil {
		return err.Error()
	}
	if len(want) != len(c.PromptIDs)*s.vocab {
		return fmt.Sprintf("a vocabulary of %d, wanted %d logits for %d tokens", s.vocab, len(want), len(c.PromptIDs))
	}
	s.restart()
	off, next := 0.0, int32(0)
	err = s.feed(c.PromptIDs, func(i int, got []float32) {
		off = max(off, worst(got, want[i*s.vocab:(i+1)*s.vocab]))
		next = argmax(got)
	})
	if err != nil {
		return err.Error()
	}
	if fault := within("logits", off, tinyBound); fault != "" {
		return fault
	}
	return greedy(s, next, c.GreedyIDs, c.Margins)
}

// greedy follows a continuation token by token, up to the first step that is
// too close to call.
func greedy(s *session, next int32, ids []int32, margins []float64) string {
	for i, want := range ids {
		if next != want {
			if i < len(margins) && margins[i] > marginBound {
				return fmt.Sprintf("step %d gives token %d, wanted %d", i, next, want)
			}
			return ""
		}
		if err := s.feed([]int32{want}, func(_ int, got []float32) { next = argmax(got) }); err != nil {
			return err.Error()
		}
	}
	return ""
}

// runTinyGGUF compares the last logits of every GGUF file, computed exactly and
// as the device does by default; the latter may be off by half as much again as
// llama.cpp is, which rounds activations too.
func runTinyGGUF(ctx context.Context, t *run, path string) error {
	f, err := readTiny(path)
	if err != nil {
		return err
	}
	var names []string
	for i := range f.Cases {
		if !slices.Contains(names, f.Cases[i].GGUF) {
			names = append(names, f.Cases[i].GGUF)
		}
	}
	for _, name := range names {
		file, err := t.findModel(name)
		if err != nil {
			return err
		}
		l, err := load(file)
		if err != nil {
			return err
		}
		err = f.gguf(ctx, t, l, name)
		l.file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *tinyFile) gguf(ctx context.Context, t *run, l *loaded, name string) error {
	for _, mode := range []string{exact, byDefault} {
		s, err := l.newSession(t, mode, f.longest())
		if err != nil {
			return err
		}
		for i := range f.Cases {
			c := &f.Cases[i]
			if c.GGUF != name {
				continue
			}
			if err := ctx.Err(); err != nil {
				s.dev.Close()
				return err
			}
			t.check(filepath.Base(name)+"/"+c.Name+modeSuffix(mode), f.lastLogits(s, c, mode))
		}
		s.dev.Close()
	}
	return nil
}

func modeSuffix(mode string) string {
	if mode == byDefault {
		return " (default activations)"
	}
	return ""
}

func (f *tinyFile) lastLogits(s *session, c *tinyCase, mode string) string {
	want, err := f.raw.at(c.LastLogits)
	if err != nil {
		return err.Error()
	}
	bound := tinyGGUFBound
	if mode == byDefault {
		bound = max(bound, 1.5*c.LlamaCppOff)
	}
	s.restart()
	off := 0.0
	err = s.feed(c.PromptIDs, func(i int, got []float32) {
		if i == len(c.PromptIDs)-1 {
			off = worst(got, want)
		}
	})
	if err != nil {
		return err.Error()
	}
	return within("last logits", off, bound)
}
