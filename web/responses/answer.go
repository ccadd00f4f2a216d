package responses

import (
	"io"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// EncodeResponse writes a whole answer: the object that would have ended its
// stream.
func (Dialect) EncodeResponse(w io.Writer, r *infer.Request, o wire.Options, a *wire.Answer) error {
	body, err := Whole(r, o, a, nil)
	if err == nil {
		_, err = w.Write(append(body, '\n'))
	}
	return err
}

// Whole is the response object of a whole answer; save, if not nil, is called
// with it, see Stream.Save.
func Whole(r *infer.Request, o wire.Options, a *wire.Answer, save func([]byte) error) ([]byte, error) {
	s := NewStream(r, o)
	s.Save = save
	var err error
	var scratch []byte
	add := func(ev infer.Event) {
		if err == nil {
			scratch, err = s.Event(scratch[:0], ev)
		}
	}
	s.begun = true // nobody reads the events
	add(infer.Event{Kind: infer.EventStart, Model: &a.Model})
	for _, c := range a.Choices[:min(1, len(a.Choices))] {
		for _, t := range c.Thoughts {
			add(infer.Event{Kind: infer.EventReasoning, Text: t.Text, Signature: t.Signature, Redacted: t.Redacted})
		}
		add(infer.Event{Kind: infer.EventText, Text: c.Text, Logprobs: c.Logprobs})
		add(infer.Event{Kind: infer.EventText, Text: c.Refusal, Refusal: true})
		for i, call := range c.ToolCalls {
			add(infer.Event{Kind: infer.EventTool, Tool: &infer.ToolDelta{Index: i, ID: call.ID, Name: call.Name, Arguments: call.Arguments}})
		}
		add(infer.Event{Kind: infer.EventFinish, Finish: c.Finish})
	}
	add(infer.Event{Kind: infer.EventUsage, Usage: &a.Usage})
	return s.Body(), err
}
