// Package conform asks whether an adapter keeps its promises: a corpus of cases,
// each a request in no dialect, is put to the gateway in every inbound dialect,
// and what comes back is read by readers of this package's own, which share no
// code with the dialects, and compared.
//
// Offline a scripted provider stands behind the adapter and says what the case
// needs: every failure included. Live it is a real one; then only those cases
// run that any model can pass.
package conform

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed corpus/*.json
var corpus embed.FS

// The inbound dialects.
const (
	Chat      = "chat"      // OpenAI chat completions
	Responses = "responses" // OpenAI responses
	Messages  = "messages"  // Anthropic messages
	Gemini    = "gemini"
	Ollama    = "ollama"
)

// Inbound lists the dialects that a case is put in, in the order of reports.
var Inbound = []string{Chat, Responses, Messages, Gemini, Ollama}

// Family is one file of the corpus.
type Family struct {
	Name  string `json:"family"`
	About string `json:"about"`
	Cases []Case `json:"cases"`
}

// Case is one thing that an adapter must do.
type Case struct {
	ID   string `json:"id"` // family.name
	Why  string `json:"why"`
	Ask  Ask    `json:"ask"`
	Mode string `json:"mode,omitempty"` // "stream", "whole"; empty: both
	// Live says that any real provider can be asked; the expectation is then
	// that of Real.
	Live bool `json:"live,omitempty"`
	// Scripts are what the scripted provider plays, one for each attempt.
	Scripts []json.RawMessage `json:"scripts,omitempty"`
	// Only and Not name inbound dialects and provider dialects, as
	// "in:chat" or "out:anthropic"; Not also pairs, as "messages>anthropic".
	Only []string `json:"only,omitempty"`
	Not  []string `json:"not,omitempty"`
	// Leave is when the caller goes: "first" after the first piece of text,
	// "head" before anything came. WaitMS later.
	Leave string `json:"leave,omitempty"`
	// MayRefuse says that the target may not have what is asked for: then a
	// refusal that names a field, or a reported loss, passes too.
	MayRefuse bool   `json:"may_refuse,omitempty"`
	Expect    Expect `json:"expect"`
	Real      Expect `json:"real,omitzero"`

	family string
}

// Load reads the corpus.
func Load() ([]Family, error) {
	names, err := fs.Glob(corpus, "corpus/*.json")
	if err != nil {
		return nil, err
	}
	var out []Family
	seen := map[string]bool{}
	for _, name := range names {
		b, err := corpus.ReadFile(name)
		if err != nil {
			return nil, err
		}
		d := json.NewDecoder(strings.NewReader(string(b)))
		d.DisallowUnknownFields()
		var f Family
		if err := d.Decode(&f); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", name, err)
		}
		for i := range f.Cases {
			c := &f.Cases[i]
			c.family = f.Name
			if !strings.HasPrefix(c.ID, f.Name+".") || seen[c.ID] {
				return nil, fmt.Errorf("cannot use case %q of %s: its name has no family, or is there twice", c.ID, name)
			}
			seen[c.ID] = true
		}
		out = append(out, f)
	}
	return out, nil
}

// Cases are all cases of the corpus in order.
func Cases(fs []Family) []Case {
	var out []Case
	for i := range fs {
		out = append(out, fs[i].Cases...)
	}
	return out
}

// Applies says whether a case is meant for a pair of dialects.
func (c *Case) Applies(in, out string) bool {
	for _, s := range c.Not {
		if s == "in:"+in || s == "out:"+out || s == in+">"+out {
			return false
		}
	}
	ins, outs := false, false
	okIn, okOut := false, false
	for _, s := range c.Only {
		if strings.HasPrefix(s, "in:") {
			ins, okIn = true, okIn || s == "in:"+in
		} else {
			outs, okOut = true, okOut || s == "out:"+out
		}
	}
	return (!ins || okIn) && (!outs || okOut)
}

// Modes are those a case is asked in.
func (c *Case) Modes() []string {
	if c.Mode != "" {
		return []string{c.Mode}
	}
	return []string{"whole", "stream"}
}

// Features of Ask that only some dialects can write.
func (c *Case) askable(in string) bool {
	a := &c.Ask
	switch {
	case a.Thinking > 0 && !slices.Contains([]string{Messages, Gemini}, in):
		return false
	case len(a.Stop) > 0 && in == Responses:
		return false
	case a.Strict && !slices.Contains([]string{Chat, Responses, Messages}, in):
		return false
	case a.Choice != "" && in == Ollama:
		return false
	case a.Serial && !slices.Contains([]string{Chat, Responses, Messages}, in):
		return false
	case a.JSON && in == Messages:
		return false
	}
	return true
}
