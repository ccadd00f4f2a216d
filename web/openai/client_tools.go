package openai

import (
	"strconv"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// maxCalls bounds the tool calls of one choice of an answer.
const maxCalls = 1024

// callPiece is one member of a delta's tool_calls as it stood on the wire.
type callPiece struct {
	index    int // -1: not stated
	id, name string
	args     string

	inside                        int // where the object's inside begins
	empty, typed, legacy          bool
	indexAt, idAt, nameAt, argsAt span // argsAt: only if they are no string
}

// callState is one tool call under way.
type callState struct {
	index   int    // the provider's; -1: it states none
	id      string // the provider's; empty: it gave none
	name    string
	begun   bool   // its first delta has been passed on
	pending string // arguments that came before the name
	text    argScan
}

// argScan follows arguments as they come and tells whether what came so far is
// one whole JSON object: what follows then cannot belong to the same call.
type argScan struct {
	depth    int
	inString bool
	escaped  bool
	whole    bool
}

func (a *argScan) add(s string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case a.escaped:
			a.escaped = false
		case a.inString && c == '\\':
			a.escaped = true
		case c == '"':
			a.inString = !a.inString
		case a.inString:
		case c == '{' || c == '[':
			a.depth++
			a.whole = false
		case c == '}' || c == ']':
			a.depth--
			a.whole = a.depth == 0
		}
	}
}

// calls are the tool calls of one choice, in the order in which they began.
type calls struct {
	list []callState
}

// readCalls reads the tool_calls of a delta or of a message into dst.
func readCalls(c *jsonread.Cursor, dst []callPiece) []callPiece {
	for ok := c.Array(); ok && c.More(); {
		p := callPiece{index: -1, empty: true}
		object := c.Object()
		for p.inside = c.Offset(); object && c.More(); {
			p.empty = false
			switch key := c.Key(); string(key) {
			case "index":
				p.indexAt = spanOf(c, func() {
					if n, ok := c.Int(); ok && n >= 0 && n < 1<<20 {
						p.index = int(n)
					}
				})
			case "id":
				p.idAt = spanOf(c, func() { p.id = c.Str() })
			case "type":
				p.typed = c.Str() != ""
			case "function":
				readFunction(c, &p)
			case "custom": // free text in place of JSON
				for ok := c.Object(); ok && c.More(); {
					switch key := c.Key(); string(key) {
					case "name":
						p.name = c.Str()
					case "input":
						p.args = c.Str()
					default:
						c.Skip()
					}
				}
			default:
				c.Skip()
			}
		}
		if len(dst) == maxCalls {
			return dst
		}
		dst = append(dst, p)
	}
	return dst
}

// readFunction reads {"name", "arguments"}. Some write the arguments as an
// object and not as the string that holds one.
func readFunction(c *jsonread.Cursor, p *callPiece) {
	for ok := c.Object(); ok && c.More(); {
		switch key := c.Key(); string(key) {
		case "name":
			p.nameAt = spanOf(c, func() { p.name = c.Str() })
		case "arguments":
			if k, ok := c.Kind(); ok && k == jsonread.Object {
				p.argsAt = spanOf(c, func() { p.args = string(c.Raw()) })
			} else {
				p.args = c.Str()
			}
		default:
			c.Skip()
		}
	}
}

// of finds the call that a piece belongs to, or opens one; at is the piece's
// place in its delta, n how many pieces the delta has. A call is known by the
// index that the provider states, and by its id: a new id under an old index is
// a new call if it comes with a name, for there are providers that state index 0
// for all. One that comes without either belongs to the call at its place, or to
// the last one, unless it has a name and the arguments there are complete.
func (s *calls) of(p callPiece, at, n int) *callState {
	switch {
	case p.index >= 0:
		for i := len(s.list) - 1; i >= 0; i-- {
			if c := &s.list[i]; c.index == p.index {
				if c.same(p) {
					return c
				}
				break
			}
		}
	case p.id != "":
		for i := range s.list {
			// An id that is given twice does not make one call of two.
			if c := &s.list[i]; c.id == p.id && (p.name == "" || p.name == c.name && !c.text.whole) {
				return c
			}
		}
		// One that has a name opens a call; without one it goes on with the last.
		if p.name == "" && len(s.list) > 0 {
			return &s.list[len(s.list)-1]
		}
	case len(s.list) > 0:
		c := &s.list[len(s.list)-1]
		if n > 1 && at < len(s.list) {
			c = &s.list[at]
		}
		if c.same(p) {
			return c
		}
	}
	if len(s.list) == maxCalls {
		return nil
	}
	s.list = append(s.list, callState{index: p.index, id: p.id, name: p.name})
	return &s.list[len(s.list)-1]
}

// same tells whether a piece that points at a call belongs to it.
func (c *callState) same(p callPiece) bool {
	switch {
	case p.name == "":
		return true
	case p.id != "" && c.id != "":
		return p.id == c.id
	case c.name == "":
		return true
	case p.name != c.name:
		return false
	}
	return !c.text.whole // the name is repeated with each piece
}

// add takes a piece and appends what it says as events of a choice. It returns
// the number of the call, -1 where there are too many, and whether the piece is
// the call's first.
func (s *calls) add(dst []infer.Event, r *infer.Request, choice int, p callPiece, at, n int) (_ []infer.Event, call int, first bool) {
	before := len(s.list)
	c := s.of(p, at, n)
	if c == nil {
		return dst, -1, false
	}
	first = len(s.list) > before
	if c.id == "" {
		c.id = p.id
	}
	if c.name == "" {
		c.name = p.name
	}
	c.text.add(p.args)
	i := 0
	for &s.list[i] != c {
		i++
	}
	if !c.begun {
		if c.name == "" || !s.ready(i) {
			if c.pending += p.args; len(c.pending) > 16<<20 {
				return dst, -1, first
			}
			return dst, i, first
		}
		return s.begin(dst, r, choice, i, p.args), i, first
	}
	if p.args == "" {
		return dst, i, first
	}
	return append(dst, infer.Event{
		Kind: infer.EventTool, Choice: choice, Tokens: estimate(len(p.args)),
		Tool: &infer.ToolDelta{Index: i, Arguments: p.args},
	}), i, first
}

// ready tells whether every call before i has begun: consumers number calls in
// the order in which they begin.
func (s *calls) ready(i int) bool { return i == 0 || s.list[i-1].begun }

// begin passes on the first delta of call i, and of those behind it that only
// waited for it.
func (s *calls) begin(dst []infer.Event, r *infer.Request, choice, i int, args string) []infer.Event {
	for ; i < len(s.list) && !s.list[i].begun && s.list[i].name != ""; i++ {
		c := &s.list[i]
		id := c.id
		if id == "" {
			id = inventedID(r, choice, i)
		}
		c.begun = true
		dst = append(dst, infer.Event{
			Kind: infer.EventTool, Choice: choice, Tokens: estimate(len(c.name) + len(c.pending) + len(args)),
			Tool: &infer.ToolDelta{Index: i, ID: id, Name: c.name, Arguments: c.pending + args},
		})
		c.pending, args = "", ""
	}
	return dst
}

// named tells whether every call that began on the wire has got its name.
func (s *calls) named() bool {
	for i := range s.list {
		if !s.list[i].begun {
			return false
		}
	}
	return true
}

// inventedID names a call whose provider did not: the same for every reader of
// one answer, and no other in the conversation.
func inventedID(r *infer.Request, choice, i int) string {
	id := "call_" + strings.TrimPrefix(r.ID, "req_") + "_"
	if choice > 0 {
		id += strconv.Itoa(choice) + "_"
	}
	return id + strconv.Itoa(i)
}
