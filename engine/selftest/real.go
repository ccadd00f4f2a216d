package selftest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"hearth/engine/tokenizer"
	"hearth/engine/weights"
)

const (
	// realBound is on the log-probabilities of float32 activations.
	realBound = 0.01
	// perplexityBound is relative, for both ways to compute.
	perplexityBound = 0.003
)

type realFile struct {
	Model string     `json:"model"`
	Cases []realCase `json:"cases"`

	// Files NAME.TEXT.nll.json have these instead of cases.
	IDs        []int32   `json:"ids"`
	NLL        []float64 `json:"nll"`
	Perplexity float64   `json:"perplexity"`
}

type realCase struct {
	Name       string  `json:"name"`
	Prompt     string  `json:"prompt"`
	PromptIDs  []int32 `json:"prompt_ids"`
	PromptTop5 topList `json:"prompt_top5"` // of the last so many positions
	GreedyIDs  []int32 `json:"greedy_ids"`
	GreedyTop5 topList `json:"greedy_top5"`
	LlamaCpp   struct {
		Off float64 `json:"max_abs_logprob_diff_of_greedy"`
	} `json:"llama_cpp"`
}

// topList has the likeliest tokens of positions in a row, each as (id,
// log-probability). In a file it is that list, or an object with it and the
// number of positions.
type topList [][][2]float64

// UnmarshalJSON implements json.Unmarshaler.
func (l *topList) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var o struct {
			Top5 [][][2]float64 `json:"top5"`
		}
		err := json.Unmarshal(b, &o)
		*l = o.Top5
		return err
	}
	return json.Unmarshal(b, (*[][][2]float64)(l))
}

// runReal compares a published model: its tokenizer on the prompts, the
// likeliest tokens along prompt and continuation, the perplexity of a text.
func runReal(ctx context.Context, t *run, path string) error {
	var f realFile
	if err := readJSON(path, &f); err != nil {
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
	if strings.HasSuffix(path, ".nll.json") {
		return f.perplexity(ctx, t, l)
	}
	if err := f.tokens(t, l); err != nil {
		return err
	}
	for _, mode := range []string{exact, byDefault} {
		if err := f.continuations(ctx, t, l, mode); err != nil {
			return err
		}
	}
	return nil
}

// tokens checks the ids of every prompt.
func (f *realFile) tokens(t *run, l *loaded) error {
	tok, err := fileTokenizer(l.file)
	if err != nil {
		return err
	}
	for i := range f.Cases {
		c := &f.Cases[i]
		got, fault := tok.Encode(nil, c.Prompt, true), ""
		// A model may want a token in front that the text does not spell.
		if !slices.Equal(got, c.PromptIDs) && !slices.Equal(append(slices.Clone(tok.Prefix()), got...), c.PromptIDs) {
			fault = fmt.Sprintf("encoded as %v, wanted %v", got, c.PromptIDs)
		}
		t.check(c.Name+" (tokens)", fault)
	}
	return nil
}

func fileTokenizer(f *weights.File) (*tokenizer.Tokenizer, error) {
	v := f.Tokenizer.Vocabulary
	if v == nil {
		return tokenizer.FromJSON(f.Tokenizer.JSON, f.Tokenizer.Config)
	}
	arch, err := f.Meta.String("general.architecture", "")
	if err != nil {
		return nil, err
	}
	out := tokenizer.NewVocab()
	out.Model, out.Pre, out.Architecture = v.Model, v.Pre, arch
	out.Tokens, out.Scores, out.Types, out.Merges = v.Tokens, v.Scores, v.Types, v.Merges
	out.BOS, out.EOS, out.EOT, out.EOM, out.UNK, out.PAD = v.BOS, v.EOS, v.EOT, v.EOM, v.Unknown, v.Padding
	out.AddBOS, out.AddEOS, out.AddSpacePrefix = v.AddBOS, v.AddEOS, v.AddSpacePrefix
	out.RemoveExtraWhitespaces, out.PrecompiledCharsmap = v.RemoveExtraWhitespace, v.PrecompiledCharsMap
	return tokenizer.FromGGUF(out)
}

// continuations feeds prompt and continuation as one sequence, which gives the
// same numbers as going step by step.
func (f *realFile) continuations(ctx context.Context, t *run, l *loaded, mode string) error {
	longest := 1
	for i := range f.Cases {
		longest = max(longest, len(f.Cases[i].PromptIDs)+len(f.Cases[i].GreedyIDs))
	}
	s, err := l.newSession(t, mode, longest)
	if err != nil {
		return err
	}
	defer s.dev.Close()
	for i := range f.Cases {
		if err := ctx.Err(); err != nil {
			return err
		}
		c := &f.Cases[i]
		bound := realBound
		if mode == byDefault {
			bound = max(bound, 1.5*c.LlamaCpp.Off)
		}
		off, err := c.distance(s, mode)
		if err != nil {
			t.check(c.Name+modeSuffix(mode), err.Error())
			continue
		}
		t.check(c.Name+modeSuffix(mode), within("log-probabilities", off, bound))
	}
	return nil
}

// distance is the largest difference of a log-probability along the case: of
// all five likeliest tokens everywhere, or by default activations, for which
// there is a measure of that only, of the tokens that the continuation has.
func (c *realCase) distance(s *session, mode string) (float64, error) {
	n := len(c.PromptIDs)
	if len(c.PromptTop5) > n || len(c.GreedyTop5) > len(c.GreedyIDs) {
		return 0, fmt.Errorf("more positions than tokens")
	}
	// Position i of the sequence is followed by what wanted[i] says.
	wanted := map[int][][2]float64{}
	if mode == exact {
		for i, top := range c.PromptTop5 {
			wanted[n-len(c.PromptTop5)+i] = top
		}
	}
	for i, top := range c.GreedyTop5 {
		if mode == byDefault {
			top = slices.DeleteFunc(slices.Clone(top), func(w [2]float64) bool { return int32(w[0]) != c.GreedyIDs[i] })
		}
		wanted[n-1+i] = top
	}
	s.restart()
	off := 0.0
	err := s.feed(append(slices.Clone(c.PromptIDs), c.GreedyIDs...), func(i int, logits []float32) {
		if len(wanted[i]) == 0 {
			return
		}
		norm := logSum(logits)
		for _, w := range wanted[i] {
			if id := int(w[0]); id < 0 || id >= len(logits) {
				off = math.Inf(1)
			} else {
				off = max(off, math.Abs(float64(logits[id])-norm-w[1]))
			}
		}
	})
	return off, err
}

// perplexity runs a text in one window.
func (f *realFile) perplexity(ctx context.Context, t *run, l *loaded) error {
	if len(f.IDs) < 2 || len(f.NLL) != len(f.IDs)-1 {
		return fmt.Errorf("%d losses for %d tokens", len(f.NLL), len(f.IDs))
	}
	for _, mode := range []string{exact, byDefault} {
		s, err := l.newSession(t, mode, len(f.IDs))
		if err != nil {
			return err
		}
		sum := 0.0
		err = s.feed(f.IDs, func(i int, logits []float32) {
			if i+1 < len(f.IDs) && ctx.Err() == nil {
				sum += logSum(logits) - float64(logits[f.IDs[i+1]])
			}
		})
		s.dev.Close()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		got, fault := math.Exp(sum/float64(len(f.NLL))), ""
		if off := math.Abs(got/f.Perplexity - 1); !(off <= perplexityBound) {
			fault = fmt.Sprintf("got %.4f, wanted %.4f within %.1f %%", got, f.Perplexity, 100*perplexityBound)
		}
		t.check("perplexity of "+filepath.Base(t.file)+modeSuffix(mode), fault)
	}
	return nil
}
