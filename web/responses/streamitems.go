package responses

import (
	"fmt"
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// say adds text, or the words of a refusal, to the open message.
func (s *Stream) say(dst []byte, ev *infer.Event) []byte {
	if ev.Text == "" && len(ev.Logprobs) == 0 {
		return dst
	}
	if ev.Text == "" && (s.talk == nil || s.talk.kind != itemMessage) {
		return dst // tokens before the first text: nothing to hang them on
	}
	if s.talk == nil || s.talk.kind != itemMessage {
		dst = s.closeTalk(dst, statusCompleted)
		dst, s.talk = s.add(dst, itemMessage)
		dst = s.added(dst, s.talk)
	}
	it := s.talk
	if n := len(it.parts); n == 0 || it.parts[n-1].refusal != ev.Refusal && ev.Text != "" {
		if n > 0 {
			dst = s.closePart(dst, it)
		}
		it.parts = append(it.parts, part{refusal: ev.Refusal})
		dst = s.openPart(dst, it)
	}
	p := &it.parts[len(it.parts)-1]
	p.text = append(p.text, ev.Text...)
	if s.r.Sampling.Logprobs {
		p.lps = append(p.lps, ev.Logprobs...)
	}
	if ev.Text == "" {
		return dst
	}
	from := len(dst)
	dst = s.delta(dst, ev.Text)
	if !p.refusal {
		dst = append(dst, `,"logprobs":[`...)
		if s.r.Sampling.Logprobs {
			dst = appendLogprobs(dst, ev.Logprobs)
		}
		dst = append(dst, ']')
	}
	return s.closeDelta(dst, from)
}

// openPart appends the event that a content part has begun.
func (s *Stream) openPart(dst []byte, it *output) []byte {
	n := len(it.parts) - 1
	dst = s.place(dst, "response.content_part.added", it, "content_index", n)
	dst = it.parts[n].append(append(dst, `,"part":`...), false)
	if it.parts[n].refusal {
		s.deltas("response.refusal.delta", it, "content_index", n)
	} else {
		s.deltas("response.output_text.delta", it, "content_index", n)
	}
	return append(dst, end...)
}

// closePart appends the events that the last content part is complete.
func (s *Stream) closePart(dst []byte, it *output) []byte {
	n := len(it.parts) - 1
	p := &it.parts[n]
	if p.refusal {
		dst = s.place(dst, "response.refusal.done", it, "content_index", n)
		dst = jsonwrite.String(append(dst, `,"refusal":`...), string(p.text))
	} else {
		dst = s.place(dst, "response.output_text.done", it, "content_index", n)
		dst = jsonwrite.String(append(dst, `,"text":`...), string(p.text))
		dst = append(dst, `,"logprobs":[`...)
		if s.r.Sampling.Logprobs {
			dst = appendLogprobs(dst, p.lps)
		}
		dst = append(dst, ']')
	}
	dst = append(dst, end...)
	dst = s.place(dst, "response.content_part.done", it, "content_index", n)
	dst = p.append(append(dst, `,"part":`...), s.r.Sampling.Logprobs)
	return append(dst, end...)
}

// think adds to the open reasoning. What seals a piece also ends it.
func (s *Stream) think(dst []byte, ev *infer.Event) []byte {
	seal := sealThought(ev.Signature, ev.Redacted)
	if s.o.HideReasoning || ev.Text == "" && seal == "" {
		return dst
	}
	if s.talk == nil || s.talk.kind != itemReasoning || ev.Redacted != "" {
		dst = s.closeTalk(dst, statusCompleted)
		dst, s.talk = s.add(dst, itemReasoning)
		dst = s.added(dst, s.talk)
	}
	it := s.talk
	if ev.Text != "" {
		if len(it.parts) == 0 {
			it.parts = []part{{}}
			dst = s.openThought(dst, it)
		}
		it.parts[0].text = append(it.parts[0].text, ev.Text...)
		from := len(dst)
		dst = s.closeDelta(s.delta(dst, ev.Text), from)
	}
	if seal != "" {
		it.seal = seal
		dst = s.closeTalk(dst, statusCompleted)
	}
	return dst
}

// openThought appends the event that the text of reasoning has begun.
func (s *Stream) openThought(dst []byte, it *output) []byte {
	if s.t.summary {
		s.deltas("response.reasoning_summary_text.delta", it, "summary_index", 0)
		dst = s.place(dst, "response.reasoning_summary_part.added", it, "summary_index", 0)
		return append(append(dst, `,"part":{"type":"summary_text","text":""}`...), end...)
	}
	s.deltas("response.reasoning_text.delta", it, "content_index", 0)
	dst = s.place(dst, "response.content_part.added", it, "content_index", 0)
	return append(append(dst, `,"part":{"type":"reasoning_text","text":""}`...), end...)
}

// closeThought appends the events that the text of reasoning is complete.
func (s *Stream) closeThought(dst []byte, it *output) []byte {
	if len(it.parts) == 0 {
		return dst
	}
	names := [...]string{"response.reasoning_text.done", "response.content_part.done", "content_index", "reasoning_text"}
	if s.t.summary {
		names = [...]string{"response.reasoning_summary_text.done", "response.reasoning_summary_part.done", "summary_index", "summary_text"}
	}
	dst = s.place(dst, names[0], it, names[2], 0)
	dst = jsonwrite.String(append(dst, `,"text":`...), string(it.parts[0].text))
	dst = s.place(append(dst, end...), names[1], it, names[2], 0)
	dst = append(append(append(dst, `,"part":{"type":"`...), names[3]...), `","text":`...)
	dst = jsonwrite.String(dst, string(it.parts[0].text))
	return append(append(dst, '}'), end...)
}

// closeTalk ends the open message or reasoning.
func (s *Stream) closeTalk(dst []byte, status string) []byte {
	it := s.talk
	if it == nil {
		return dst
	}
	s.talk = nil
	if it.kind == itemReasoning {
		dst = s.closeThought(dst, it)
	} else {
		dst = s.closePart(dst, it)
	}
	it.status = status
	return s.itemEvent(dst, "response.output_item.done", it)
}

// call begins or continues a call.
func (s *Stream) call(dst []byte, d *infer.ToolDelta) ([]byte, error) {
	switch {
	case d == nil:
		return dst, fmt.Errorf("BUG: a tool event without a tool")
	case d.Index < 0 || d.Index > len(s.calls):
		return dst, fmt.Errorf("BUG: a piece of tool call %d where %d have begun", d.Index, len(s.calls))
	case d.Index == len(s.calls):
		if d.Name == "" {
			return dst, fmt.Errorf("BUG: tool call %d begins without a name", d.Index)
		}
		kind := itemCall
		if s.t.custom[d.Name] {
			kind = itemCustom
		}
		dst = s.closeTalk(dst, statusCompleted)
		var it *output
		dst, it = s.add(dst, kind)
		it.callID, it.name = d.ID, d.Name
		if it.callID == "" || s.taken(it.callID) {
			// Providers leave ids out, or give two calls one; results are told apart by it.
			it.callID = "call_" + strings.TrimPrefix(s.id, "resp_") + "_" + strconv.Itoa(d.Index)
		}
		s.calls = append(s.calls, it)
		dst = s.added(dst, it)
	}
	it := s.calls[d.Index]
	it.args = append(it.args, d.Arguments...)
	if d.Arguments == "" || it.kind == itemCustom {
		return dst, nil
	}
	return s.callDelta(dst, "response.function_call_arguments.delta", it, d.Arguments), nil
}

// taken tells whether an earlier call of the answer has that id.
func (s *Stream) taken(id string) bool {
	for _, it := range s.calls {
		if it.callID == id {
			return true
		}
	}
	return false
}

func (s *Stream) callDelta(dst []byte, name string, it *output, text string) []byte {
	from := len(dst)
	dst = append(s.place(dst, name, it, "", 0), `,"delta":`...)
	return s.closeDelta(jsonwrite.String(dst, text), from)
}

// closeCall ends a call. The text of a free call is known only now, since it
// came wrapped in JSON.
func (s *Stream) closeCall(dst []byte, it *output, status string) []byte {
	if it.kind == itemCall {
		if len(it.args) == 0 && status == statusCompleted {
			it.args = []byte("{}") // some models write nothing for no arguments
			dst = s.callDelta(dst, "response.function_call_arguments.delta", it, "{}")
		}
		dst = s.place(dst, "response.function_call_arguments.done", it, "", 0)
		dst = jsonwrite.String(append(dst, `,"arguments":`...), string(it.args))
	} else {
		text := freeText(it.args)
		if text != "" {
			dst = s.callDelta(dst, "response.custom_tool_call_input.delta", it, text)
		}
		dst = s.place(dst, "response.custom_tool_call_input.done", it, "", 0)
		dst = jsonwrite.String(append(dst, `,"input":`...), text)
	}
	dst = append(dst, end...)
	it.status = status
	return s.itemEvent(dst, "response.output_item.done", it)
}

// closeAll ends every open item; of an answer that was cut, the last is
// incomplete.
func (s *Stream) closeAll(dst []byte, whole bool) []byte {
	last := len(s.items) - 1
	status := func(it *output) string {
		if whole || it.index != last {
			return statusCompleted
		}
		return statusIncomplete
	}
	if s.talk != nil {
		dst = s.closeTalk(dst, status(s.talk))
	}
	for _, it := range s.calls {
		if it.status == "" {
			dst = s.closeCall(dst, it, status(it))
		}
	}
	return dst
}
