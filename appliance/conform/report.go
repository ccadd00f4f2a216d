package conform

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Report is what a run found. Its digest is over everything else in it that
// does not depend on the clock, so that two runs with the same outcomes against
// the same build and upstream have the same one.
type Report struct {
	Version  string    `json:"version"` // of this program
	Upstream Identity  `json:"upstream"`
	Cases    int       `json:"cases"`
	Passed   int       `json:"passed"`
	Refused  int       `json:"refused"`
	Failed   int       `json:"failed"`
	Outcomes []Outcome `json:"outcomes"`
	Digest   string    `json:"digest"` // sha256:… of the canonical JSON of the rest
}

// Identity names what was asked, without secrets.
type Identity struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	URL   string `json:"url"` // without user, query and fragment
	Model string `json:"model"`
}

// Live runs the cases that any model can pass.
func (g *Gateway) Live(ctx context.Context, in []string, each func(Outcome)) ([]Outcome, error) {
	fs, err := Load()
	if err != nil {
		return nil, err
	}
	var out []Outcome
	cases := Cases(fs)
	for i := range cases {
		c := &cases[i]
		if !c.Live {
			continue
		}
		for _, d := range in {
			if !c.askable(d) {
				continue
			}
			for _, mode := range c.Modes() {
				if ctx.Err() != nil {
					return out, ctx.Err()
				}
				o := g.Run(ctx, c, d, mode)
				if each != nil {
					each(o)
				}
				out = append(out, o)
			}
		}
	}
	return out, nil
}

// NewReport sums up and seals.
func NewReport(version string, id Identity, out []Outcome) (*Report, error) {
	r := &Report{Version: version, Upstream: id, Cases: len(out), Outcomes: out}
	for _, o := range out {
		switch o.Result {
		case Passed:
			r.Passed++
		case Refused:
			r.Refused++
		default:
			r.Failed++
		}
	}
	// What a model said, and how long it took, is in Why and differs each time.
	sealed := *r
	sealed.Outcomes = slices.Clone(out)
	for i := range sealed.Outcomes {
		sealed.Outcomes[i].Why = nil
	}
	b, err := json.Marshal(&sealed)
	if err != nil {
		return nil, fmt.Errorf("cannot seal the report: %w", err)
	}
	sum := sha256.Sum256(b)
	r.Digest = "sha256:" + hex.EncodeToString(sum[:])
	return r, nil
}

// Print writes a table of families by dialect, and why what failed did.
func (r *Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s) at %s, model %s\n", r.Upstream.Name, r.Upstream.Kind, r.Upstream.URL, r.Upstream.Model)
	for _, o := range r.Outcomes {
		for _, why := range o.Why {
			fmt.Fprintf(w, "failed: %s in %s, %s: %s\n", o.Case, o.In, o.Mode, oneLine(why))
		}
	}
	var dialects, families []string
	type cell struct{ passed, refused, all int }
	cells := map[[2]string]*cell{}
	for _, o := range r.Outcomes {
		if !slices.Contains(dialects, o.In) {
			dialects = append(dialects, o.In)
		}
		if !slices.Contains(families, o.family) {
			families = append(families, o.family)
		}
		k := [2]string{o.family, o.In}
		if cells[k] == nil {
			cells[k] = &cell{}
		}
		c := cells[k]
		c.all++
		switch o.Result {
		case Passed:
			c.passed++
		case Refused:
			c.refused++
		}
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprint(t, "FAMILY")
	for _, d := range dialects {
		fmt.Fprintf(t, "\t%s", d)
	}
	fmt.Fprintln(t)
	for _, f := range families {
		fmt.Fprint(t, f)
		for _, d := range dialects {
			c := cells[[2]string{f, d}]
			switch {
			case c == nil:
				fmt.Fprint(t, "\t-")
			case c.refused > 0:
				fmt.Fprintf(t, "\t%d/%d (%d refused)", c.passed+c.refused, c.all, c.refused)
			default:
				fmt.Fprintf(t, "\t%d/%d", c.passed, c.all)
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d cases, %d passed, %d refused as they may be, %d failed\n%s\n", r.Cases, r.Passed, r.Refused, r.Failed, r.Digest)
	return err
}
