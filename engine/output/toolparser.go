package output

import (
	"bytes"

	"hearth/engine/infer"
)

// maxUndecided bounds the text of a call whose function is not known yet, and
// maxCallName a function's name; beyond them it is no call.
const (
	maxUndecided = 64 << 10
	maxCallName  = 256
)

type toolState uint8

const (
	inText       toolState = iota // looking for a begin marker
	inBlock                       // behind a begin marker or a call: the next call or the end
	inEnvelope                    // inside {"name": …, "arguments": …}
	inName                        // styleNamed: the name
	inSep                         // styleNamed: a separator that has begun
	inCallID                      // styleNamed: an id to be skipped
	inHead                        // styleNamed with items: up to the separator
	inHeadLine                    // the same: a name that ends with the line
	inArgsOpen                    // styleNamed: before the arguments
	inArgs                        // arguments that no envelope surrounds
	inBroken                      // arguments that turned out to be no JSON
	inFunction                    // styleXML: the name
	inParams                      // styleXML: between parameters
	inParamKey                    // styleXML
	inParamValue                  // styleXML
)

// toolParser finds tool calls in the content of an answer, byte by byte, so
// that the result cannot depend on how the text was cut. Until a call's function
// and the beginning of its arguments are known, its text is kept: if it proves
// to be no call it is delivered as text. From then on arguments stream out as
// they come. Arguments that break off or are no JSON after that are delivered as
// they are, and the call does not count as complete.
type toolParser struct {
	f    *ToolFormat
	o    *Options
	p    *Pipeline
	at   int64 // offset behind the byte at hand
	done bool  // the only call is complete

	state toolState
	fresh bool   // no text since the start or since the last call
	space []byte // white space withheld while fresh
	hold  []byte // what may be the beginning of a marker
	raw   []byte // all since the call began, until it is committed

	calls     int  // announced
	complete  int  // of these
	blockCall int  // complete ones in this block
	bare      bool // the block began without a marker
	committed bool // the current call is announced
	broken    bool // some call was not completed

	name []byte
	scan jsonScan
	env  envelope
	xml  xmlCall
}

func newToolParser(f *ToolFormat, o *Options, p *Pipeline) *toolParser {
	return &toolParser{f: f, o: o, p: p, fresh: true}
}

// write takes content; end is the offset of its last byte.
func (t *toolParser) write(b []byte, end int64) {
	for i, c := range b {
		if t.done {
			return
		}
		t.at = end - int64(len(b)-1-i)
		t.byte(c)
	}
}

func (t *toolParser) byte(c byte) {
	if t.state == inText {
		t.textByte(c)
		return
	}
	if !t.committed {
		if t.raw = append(t.raw, c); len(t.raw) > maxUndecided {
			t.notACall()
			return
		}
	}
	switch t.state {
	case inBlock:
		t.blockByte(c)
	case inEnvelope:
		t.envelopeByte(c)
	case inName, inSep, inCallID, inHead, inHeadLine, inArgsOpen, inArgs:
		t.namedByte(c)
	case inBroken:
		t.brokenByte(c)
	default:
		t.xmlByte(c)
	}
}

func isWhite(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// textByte looks for a begin marker.
func (t *toolParser) textByte(c byte) {
	if t.f.bare && t.fresh && c == '{' && len(t.hold) == 0 {
		t.begin([]byte("{"))
		t.bare = true
		t.startEnvelope()
		return
	}
	t.hold = append(t.hold, c)
	for len(t.hold) > 0 {
		marker, part := longestMatch(t.hold, t.f.begins...)
		if marker != "" {
			t.begin(t.hold)
			t.hold = t.hold[:0]
			t.afterBegin(marker)
			return
		}
		if part {
			return
		}
		t.textOut(t.hold[0], t.at-int64(len(t.hold)-1))
		t.hold = t.hold[:copy(t.hold, t.hold[1:])]
	}
}

// longestMatch says whether b is one of the markers, or the beginning of one.
func longestMatch(b []byte, markers ...string) (marker string, part bool) {
	for _, m := range markers {
		if m == "" {
			continue
		}
		if n := prefixMatch(b, m); n == len(m) && n == len(b) {
			return m, false
		} else if n == len(b) {
			part = true
		}
	}
	return "", part
}

// textOut delivers one byte of text. White space at the start or behind a call
// waits for text: it is dropped if a call comes instead.
func (t *toolParser) textOut(c byte, end int64) {
	if t.fresh {
		if isWhite(c) {
			t.space = append(t.space, c)
			return
		}
		t.fresh = false
		t.p.emit(infer.EventText, t.space, end-1)
		t.space = t.space[:0]
	}
	t.p.emit(infer.EventText, []byte{c}, end)
}

// begin starts keeping the text of a call; marker is its first part.
func (t *toolParser) begin(marker []byte) {
	t.raw = append(append(t.raw[:0], t.space...), marker...)
	t.committed, t.blockCall, t.bare = false, 0, false
}

func (t *toolParser) afterBegin(marker string) {
	t.state = inBlock
	switch {
	case t.f.style == styleNamed && t.f.item == "":
		t.state, t.name = inName, t.name[:0]
	case marker == "<function=":
		t.state, t.name = inFunction, t.name[:0]
	}
}

// notACall delivers what was kept as text, at least its first byte; the rest may
// hold another call.
func (t *toolParser) notACall() {
	raw := append([]byte(nil), t.raw...)
	end := t.at
	n := len(raw) - len(bytes.TrimLeft(raw, " \t\r\n")) + 1
	t.toText()
	t.fresh = false
	t.space = t.space[:0]
	t.p.emit(infer.EventText, raw[:min(n, len(raw))], end-int64(max(len(raw)-n, 0)))
	t.refeed(raw[min(n, len(raw)):], end)
}

func (t *toolParser) refeed(raw []byte, end int64) {
	for i, c := range raw {
		if t.done {
			return
		}
		t.at = end - int64(len(raw)-1-i)
		t.byte(c)
	}
}

func (t *toolParser) toText() {
	t.state, t.committed = inText, false
	t.raw, t.hold = t.raw[:0], t.hold[:0]
}

// endBlock leaves a block that has a complete call: what was kept since is text
// again.
func (t *toolParser) endBlock() {
	raw, end := append([]byte(nil), t.raw...), t.at
	t.toText()
	t.fresh, t.space = true, t.space[:0]
	t.refeed(raw, end)
}

// blockByte is between begin marker and call, or between calls.
func (t *toolParser) blockByte(c byte) {
	t.hold = append(t.hold, c)
	marker, part := longestMatch(t.hold, t.blockMarkers()...)
	switch {
	case marker != "":
		t.hold = t.hold[:0]
		t.blockMarker(marker)
		return
	case part:
		return
	case len(t.hold) > 1:
		t.leaveBlock()
		return
	}
	t.hold = t.hold[:0]
	switch {
	case isWhite(c):
	case c == '{' && t.f.item == "":
		t.startEnvelope()
	case c == '[' && t.blockCall == 0 && t.f.item == "" && t.f.style != styleXML:
	case t.blockCall > 0 && (c == ']' || c == '}'):
		t.raw = t.raw[:0] // the end of a list, or one brace too many
	case t.blockCall > 0 && (c == ',' || c == ';'):
	default:
		t.leaveBlock()
	}
}

func (t *toolParser) leaveBlock() {
	t.hold = t.hold[:0]
	if t.blockCall > 0 {
		t.endBlock()
	} else {
		t.notACall()
	}
}

// blockMarkers are those that may come between calls.
func (t *toolParser) blockMarkers() []string {
	switch {
	case t.f.item != "" && t.blockCall == 0:
		return []string{t.f.item}
	case t.f.item != "":
		return []string{t.f.item, t.f.itemTo, t.f.end, "```"}
	case t.f.style == styleXML:
		return []string{"<function=", t.f.end}
	case t.f.end != "":
		return []string{t.f.end}
	}
	return nil
}

func (t *toolParser) blockMarker(marker string) {
	switch marker {
	case t.f.item:
		t.state, t.name = inHead, t.name[:0]
	case "<function=":
		t.state, t.name = inFunction, t.name[:0]
	case t.f.end:
		if t.blockCall == 0 {
			t.notACall()
			return
		}
		t.toText()
		t.fresh, t.space = true, t.space[:0]
	}
}

// commit announces the call. Before it anything may still turn into text.
func (t *toolParser) commit() {
	t.p.startCall(t.calls, string(t.name), t.at)
	t.calls++
	t.committed, t.broken = true, true // until it is complete
	t.raw = t.raw[:0]
}

func (t *toolParser) arguments(b []byte) { t.p.addArguments(t.calls-1, b, t.at) }

// argumentByte passes one byte of JSON on; control characters in strings are
// escaped, since models forget to.
func (t *toolParser) argumentByte(dst []byte, c byte) []byte {
	if t.scan.control(c) {
		return appendEscaped(dst, c)
	}
	return append(dst, c)
}

// callDone counts the current call as complete.
func (t *toolParser) callDone() {
	t.complete++
	t.blockCall++
	t.broken = t.complete < t.calls
	t.committed = false
	t.raw, t.hold = t.raw[:0], t.hold[:0]
	t.state = inBlock
	if t.o.SingleCall {
		t.done = true
		t.p.ended = true
	}
}

// breakOff goes on with arguments that are no JSON.
func (t *toolParser) breakOff(c byte) {
	t.state, t.hold = inBroken, t.hold[:0]
	t.brokenByte(c)
}

// brokenByte delivers all up to the end marker as it is.
func (t *toolParser) brokenByte(c byte) {
	t.hold = append(t.hold, c)
	for len(t.hold) > 0 {
		marker, part := longestMatch(t.hold, t.f.end, t.f.itemTo)
		if marker != "" {
			t.toText()
			t.fresh, t.space = true, t.space[:0]
			return
		}
		if part {
			return
		}
		t.p.addArguments(t.calls-1, t.hold[:1], t.at-int64(len(t.hold)-1))
		t.hold = t.hold[:copy(t.hold, t.hold[1:])]
	}
}

// knownTool says whether name is one of the request's tools; true if the
// request named none.
func (t *toolParser) knownTool(name string) bool {
	for i := range t.o.Tools {
		if t.o.Tools[i].Name == name {
			return true
		}
	}
	return len(t.o.Tools) == 0
}

// flush ends the text. cut says that the model did not end it itself: a call
// that has begun is then dropped if nothing of it was delivered. The result
// says whether the answer consists of complete calls, perhaps after some text.
func (t *toolParser) flush(end int64, cut bool) bool {
	t.at = end
	if t.done {
		return true
	}
	switch {
	case t.state == inText:
		t.flushText()
	case t.committed:
		t.flushCall(cut)
	case t.blockCall > 0 && t.state == inBlock:
	case t.o.Forced || cut && (t.blockCall > 0 || t.looksLikeCall()):
	default:
		t.p.emit(infer.EventText, t.raw, end)
	}
	t.toText()
	return t.complete > 0 && !t.broken
}

func (t *toolParser) flushText() {
	switch {
	case t.o.Forced:
	case len(t.hold) > 0:
		t.p.emit(infer.EventText, t.space, t.at-int64(len(t.hold)))
		t.p.emit(infer.EventText, t.hold, t.at)
	case t.calls == 0:
		t.p.emit(infer.EventText, t.space, t.at)
	}
}

// looksLikeCall tells markup from an answer that happens to be a JSON object.
func (t *toolParser) looksLikeCall() bool {
	return !t.bare || t.env.nameKey
}

func (t *toolParser) flushCall(cut bool) {
	switch t.state {
	case inEnvelope:
		if t.env.argsDone && !cut {
			t.callDone()
		}
	case inParams, inParamValue:
		if !cut {
			t.xmlEnd()
		}
	case inBroken:
		t.arguments(t.hold)
	}
}
