package chattmpl

import "hearth/engine/infer"

// Template is a compiled chat template, safe for concurrent use.
type Template struct{ caps Caps }

// Compile parses a Jinja chat template and probes what it can express.
func Compile(src string) (*Template, error) {
	return nil, infer.Errorf(infer.CodeUnavailable, "template evaluator is not built yet")
}

// Caps tells what the template can express.
func (t *Template) Caps() Caps { return t.caps }

// Source is the template text as given.
func (t *Template) Source() string { return "" }

// Render evaluates the template on exactly this input, as transformers'
// apply_chat_template does. A template that refuses gives an *infer.Error of
// CodeInvalid with the template's own words.
func (t *Template) Render(in Input) ([]Segment, error) {
	return nil, infer.Errorf(infer.CodeUnavailable, "template evaluator is not built yet")
}

// Prompt renders in, after adapting what the template cannot express (tools,
// tool results, system messages) to what it can. The engine calls this one.
func (t *Template) Prompt(in Input) (*Prompt, error) {
	return nil, infer.Errorf(infer.CodeUnavailable, "template evaluator is not built yet")
}

// Fallback chooses a built-in template for a model that ships none, by the
// control tokens its vocabulary has. Name is "plain" for base models.
func Fallback(hasToken func(string) bool) (name, src string) { return "plain", "" }

// Text joins segments.
func Text(segs []Segment) string {
	var b []byte
	for _, s := range segs {
		b = append(b, s.Text...)
	}
	return string(b)
}
