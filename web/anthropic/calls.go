package anthropic

import (
	"fmt"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonwrite"
)

// tool takes a piece of a call: it is sent if its call is the one that is told
// at the moment, and waits otherwise.
func (s *stream) tool(dst []byte, d *infer.ToolDelta) ([]byte, error) {
	switch {
	case d == nil:
		return dst, fmt.Errorf("BUG: a tool event without a tool")
	case d.Index == len(s.calls) && d.ID != "":
		if len(s.calls) == maxCalls {
			return dst, infer.Errorf(infer.CodeUpstream, "cannot show more than %d tool calls in one answer", maxCalls)
		}
		s.calls = append(s.calls, call{id: d.ID, name: d.Name})
	case d.Index < 0 || d.Index >= len(s.calls):
		return dst, fmt.Errorf("BUG: a piece of tool call %d where %d have begun", d.Index, len(s.calls))
	}
	c := &s.calls[d.Index]
	if d.Index < s.at {
		if strings.TrimSpace(d.Arguments) == "" {
			return dst, nil
		}
		return dst, infer.Errorf(infer.CodeUpstream, "the provider went on with a tool call that was complete")
	}
	c.shape.add(d.Arguments)
	c.args = append(c.args, d.Arguments...)
	// The calls before may be complete without having been closed.
	for s.at < d.Index && s.calls[s.at].shape.complete() {
		dst = s.next(dst)
	}
	if d.Index == s.at && s.open != blockTool {
		dst = s.drain(dst)
	}
	if d.Index == s.at {
		dst = s.tell(dst)
	}
	return dst, nil
}

// tell appends what has come of the call that is told at the moment.
func (s *stream) tell(dst []byte) []byte {
	c := &s.calls[s.at]
	if !c.begun {
		c.begun = true
		dst = s.begin(dst, blockTool, "")
		dst = append(dst, `{"type":"tool_use","id":`...)
		dst = jsonwrite.String(dst, c.id)
		dst = append(dst, `,"name":`...)
		dst = jsonwrite.String(dst, c.name)
		dst = append(dst, ",\"input\":{}}}\n\n"...)
	}
	if len(c.args) == 0 {
		return dst
	}
	dst = s.piece(dst, `{"type":"input_json_delta","partial_json":`)
	dst = append(jsonwrite.String(dst, string(c.args)), "}}\n\n"...)
	c.args = c.args[:0]
	return dst
}

// next ends the call that is told and goes on to the one behind it.
func (s *stream) next(dst []byte) []byte {
	dst = s.end(s.tell(dst))
	s.at++
	return dst
}

// promote ends every call that is complete, as long as those before it are.
func (s *stream) promote(dst []byte) []byte {
	for s.at < len(s.calls) && s.calls[s.at].shape.complete() {
		dst = s.next(dst)
	}
	return dst
}

// drain appends the text that waited for calls to be complete.
func (s *stream) drain(dst []byte) []byte {
	for _, ev := range s.later {
		dst = s.say(dst, ev)
	}
	s.later = s.later[:0]
	return dst
}

// flush ends everything: the calls, complete or not, and the text that waited.
func (s *stream) flush(dst []byte) []byte {
	for s.at < len(s.calls) {
		dst = s.next(dst)
	}
	return s.end(s.drain(dst))
}

// shape follows the outline of a JSON object that comes in pieces, to know when
// it is complete. The object itself is not checked.
type shape struct {
	depth   int
	begun   bool
	str     bool
	escaped bool
}

func (p *shape) add(s string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case p.escaped:
			p.escaped = false
		case p.str && c == '\\':
			p.escaped = true
		case c == '"':
			p.str = !p.str
		case p.str:
		case c == '{' || c == '[':
			p.depth++
			p.begun = true
		case c == '}' || c == ']':
			p.depth--
		}
	}
}

func (p *shape) complete() bool { return p.begun && p.depth <= 0 && !p.str }
