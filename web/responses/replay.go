package responses

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// Replay is the stream of a stored response that has come to its end, made from
// the object: each text comes in one piece.
func Replay(body []byte) ([]byte, error) {
	v, err := jsonread.Parse(body, jsonread.Limits{})
	if err != nil {
		return nil, err
	}
	status := Status(body)
	switch status {
	case statusCompleted, statusIncomplete, statusFailed, statusCancelled:
	default:
		return nil, infer.Errorf(infer.CodeConflict, "cannot replay the response: it is %s", jsonread.Shorten(status, 20))
	}
	s := &Stream{r: infer.NewRequest(), t: &Turn{}}
	opening, ok := wire.Splice(body, []wire.Member{
		{Name: "status", Value: []byte(`"in_progress"`)}, {Name: "output", Value: []byte("[]")}, {Name: "usage", Value: []byte("null")},
		{Name: "error", Value: []byte("null")}, {Name: "incomplete_details", Value: []byte("null")},
	}, nil)
	if !ok {
		return nil, infer.Errorf(infer.CodeInternal, "cannot replay the response: it is no object")
	}
	var dst []byte
	for _, name := range []string{"response.created", "response.in_progress"} {
		dst = append(append(append(s.open(dst, name), `,"response":`...), opening...), end...)
	}
	if out, ok := v.Get("output"); ok && out.Kind() == jsonread.Array {
		err = out.Items(1<<20, func(i int, it jsonread.Value) error {
			dst = s.replayItem(dst, i, it)
			return nil
		})
	}
	dst = append(append(append(s.open(dst, "response."+status), `,"response":`...), v.Raw()...), end...)
	return dst, err
}

// replayed says how the text of a part, or of a call, is streamed.
type replayed struct{ list, index, field, delta, done, added, closed string }

var replayedParts = map[string]replayed{
	"output_text":    {"content", "content_index", "text", "response.output_text.delta", "response.output_text.done", "response.content_part.added", "response.content_part.done"},
	"refusal":        {"content", "content_index", "refusal", "response.refusal.delta", "response.refusal.done", "response.content_part.added", "response.content_part.done"},
	"reasoning_text": {"content", "content_index", "text", "response.reasoning_text.delta", "response.reasoning_text.done", "response.content_part.added", "response.content_part.done"},
	"summary_text": {"summary", "summary_index", "text", "response.reasoning_summary_text.delta", "response.reasoning_summary_text.done",
		"response.reasoning_summary_part.added", "response.reasoning_summary_part.done"},
	"function_call":    {field: "arguments", delta: "response.function_call_arguments.delta", done: "response.function_call_arguments.done"},
	"custom_tool_call": {field: "input", delta: "response.custom_tool_call_input.delta", done: "response.custom_tool_call_input.done"},
}

func member(v jsonread.Value, name string) string {
	if m, ok := v.Get(name); ok && m.Kind() == jsonread.String {
		s, _ := m.Str()
		return s
	}
	return ""
}

// replayItem appends the events of one item.
func (s *Stream) replayItem(dst []byte, i int, v jsonread.Value) []byte {
	it := &output{id: member(v, "id"), index: i}
	kind := member(v, "type")
	bare := []wire.Member{{Name: "status", Value: []byte(`"in_progress"`)}}
	f, call := replayedParts[kind]
	switch {
	case call:
		bare = append(bare, wire.Member{Name: f.field, Value: []byte(`""`)})
	case kind == "message":
		bare = append(bare, wire.Member{Name: "content", Value: []byte("[]")})
	case kind == "reasoning":
		bare = []wire.Member{{Name: "summary", Value: []byte("[]")}}
		if _, ok := v.Get("content"); ok {
			bare = append(bare, wire.Member{Name: "content", Value: []byte("[]")})
		}
	default: // an item of which nothing is known comes whole
		bare = nil
	}
	begun, ok := wire.Splice(v.Raw(), bare, nil)
	if !ok {
		begun = v.Raw()
	}
	item := func(name string, raw []byte) {
		dst = jsonwrite.Int(append(s.open(dst, name), `,"output_index":`...), int64(i))
		dst = append(append(append(dst, `,"item":`...), raw...), end...)
	}
	item("response.output_item.added", begun)
	if call {
		dst = s.replayText(dst, it, f, 0, v)
	}
	for _, list := range []string{"summary", "content"} {
		parts, ok := v.Get(list)
		if !ok || parts.Kind() != jsonread.Array {
			continue
		}
		_ = parts.Items(1<<20, func(n int, p jsonread.Value) error {
			if f, ok := replayedParts[member(p, "type")]; ok && f.list == list {
				dst = s.replayPart(dst, it, f, n, p)
			}
			return nil
		})
	}
	item("response.output_item.done", v.Raw())
	return dst
}

func (s *Stream) replayPart(dst []byte, it *output, f replayed, n int, p jsonread.Value) []byte {
	begun, ok := wire.Splice(p.Raw(), []wire.Member{{Name: f.field, Value: []byte(`""`)}}, nil)
	if !ok {
		return dst
	}
	dst = s.place(dst, f.added, it, f.index, n)
	dst = append(append(append(dst, `,"part":`...), begun...), end...)
	dst = s.replayText(dst, it, f, n, p)
	dst = s.place(dst, f.closed, it, f.index, n)
	return append(append(append(dst, `,"part":`...), p.Raw()...), end...)
}

func (s *Stream) replayText(dst []byte, it *output, f replayed, n int, v jsonread.Value) []byte {
	text := member(v, f.field)
	tail := end
	if f.delta == "response.output_text.delta" {
		tail = `,"logprobs":[]` + end
	}
	if text != "" {
		dst = append(s.place(dst, f.delta, it, f.index, n), `,"delta":`...)
		dst = append(jsonwrite.String(dst, text), tail...)
	}
	dst = s.place(dst, f.done, it, f.index, n)
	dst = jsonwrite.String(append(append(append(dst, `,"`...), f.field...), `":`...), text)
	return append(dst, tail...)
}
