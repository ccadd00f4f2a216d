package chattmpl

import (
	"errors"
	"strings"
	"time"

	"hearth/engine/infer"
)

// Template is a compiled chat template, safe for concurrent use.
type Template struct {
	src    string
	body   []stmt
	caps   Caps
	form   forms
	greedy bool    // a probe met a limit
	lim    *limits // of a rendering, if not by its input: probes and tests
}

// Compile parses a Jinja chat template and finds out, by rendering probes, what
// it can express.
func Compile(src string) (*Template, error) {
	t, err := parse(src)
	if err != nil {
		return nil, err
	}
	t.lim = &probeLimits
	t.probe()
	t.lim = nil
	return t, nil
}

func parse(src string) (t *Template, err error) {
	if len(src) > maxSource {
		return nil, &infer.Error{Code: infer.CodeInvalid, Message: "chat template is longer than 1 MiB"}
	}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*syntaxError)
			if !ok {
				panic(r)
			}
			t, err = nil, &infer.Error{Code: infer.CodeInvalid, Message: "cannot parse the " + e.Error()}
		}
	}()
	p := &parser{toks: lex(src), names: map[string]bool{}}
	return &Template{src: src, body: p.body()}, nil
}

// Caps tells what the template can express.
func (t *Template) Caps() Caps { return t.caps }

// Source is the template text as given.
func (t *Template) Source() string { return t.src }

// Render evaluates the template on exactly this input, as transformers'
// apply_chat_template does. A template that refuses gives an *infer.Error of
// CodeInvalid with the template's own words.
func (t *Template) Render(in Input) ([]Segment, error) {
	r, err := t.render(in)
	if err != nil {
		return nil, err
	}
	return r.segments(), nil
}

func (t *Template) render(in Input) (text, error) {
	if in.ContinueFinalMessage && in.AddGenerationPrompt {
		return text{}, infer.Invalid("continue_final_message", "cannot be used together with add_generation_prompt")
	}
	in, reopened, err := finalMessage(in)
	if err != nil {
		return text{}, err
	}
	vars, err := t.form.variables(in)
	if err != nil {
		return text{}, err
	}
	lim := limitsFor(&in)
	if t.lim != nil {
		lim = *t.lim
	}
	out, err := t.evaluate(vars, in.Now, lim)
	if err != nil || !in.ContinueFinalMessage || reopened {
		return out, err
	}
	return cutAfter(out, in.Messages[len(in.Messages)-1].Text())
}

// evaluate runs the template's code over variables.
func (t *Template) evaluate(vars []binding, now time.Time, lim limits) (out text, err error) {
	if now.IsZero() {
		now = time.Unix(0, 0).UTC()
	}
	root := &scope{}
	for _, v := range vars {
		root.set(v.name, v.v)
	}
	ev := &eval{scope: &scope{parent: root}, out: &textBuilder{}, now: now, left: lim, full: lim}
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*fault)
			if !ok {
				panic(r)
			}
			out, err = text{}, f.error()
		}
	}()
	ev.run(t.body)
	return ev.out.text(), nil
}

func (f *fault) error() error {
	if f.raised {
		return &infer.Error{Code: infer.CodeInvalid, Param: "messages", Message: f.msg, Cause: errRaised}
	}
	e := &infer.Error{Code: infer.CodeInvalid, Param: "messages", Message: "the model's chat template cannot render this request: " + f.msg}
	if f.limit {
		e.Cause = errLimit
	}
	return e
}

var (
	// errRaised marks a refusal by the template itself, errLimit a limit that it met.
	errRaised = errors.New("raised by the chat template")
	errLimit  = errors.New("limit of the chat template")
)

// Text joins segments.
func Text(segs []Segment) string {
	if len(segs) == 1 {
		return segs[0].Text
	}
	var b strings.Builder
	for _, s := range segs {
		b.WriteString(s.Text)
	}
	return b.String()
}
