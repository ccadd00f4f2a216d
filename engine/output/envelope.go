package output

import (
	"bytes"
	"encoding/json"
)

type envelopeState uint8

const (
	wantEnvKey envelopeState = iota
	inEnvKey
	wantEnvColon
	wantEnvValue
	inEnvName
	inEnvArgs       // an object, passed on as it comes
	inEnvArgsString // an object encoded in a string: decoded once, at its end
	inEnvSkip       // a value of no interest
	wantEnvComma
)

// envelope is the object {"name": …, "arguments": {…}} around one call, with
// its keys in any order, "parameters" for "arguments", and perhaps one more
// object under "function". Other keys are skipped.
type envelope struct {
	state    envelopeState
	nested   int
	key      []byte
	value    []byte // a string being read
	early    []byte // arguments that came before the name
	nameKey  bool   // the key of the name was seen
	haveName bool
	haveArgs bool // arguments have begun
	argsDone bool
}

// bareKeys are those of an object that stands without a marker; another key
// makes it an answer in JSON, which is not held up.
var bareKeys = map[string]bool{`"name"`: true, `"arguments"`: true, `"parameters"`: true, `"type"`: true, `"function"`: true, `"id"`: true}

func (t *toolParser) startEnvelope() {
	e := &t.env
	*e = envelope{key: e.key[:0], value: e.value[:0], early: e.early[:0]}
	t.state, t.committed, t.name = inEnvelope, false, t.name[:0]
}

// malformed gives up on the call: as text, or once announced as it is.
func (t *toolParser) malformed(c byte) {
	if t.committed {
		t.breakOff(c)
	} else {
		t.notACall()
	}
}

func (t *toolParser) envelopeByte(c byte) {
	e := &t.env
	switch e.state {
	case inEnvKey, inEnvName, inEnvArgsString:
		t.envelopeString(c)
		return
	case inEnvArgs:
		t.envelopeArgs(c)
		return
	case inEnvSkip:
		switch t.scan.step(c) {
		case scanDone:
			e.state = wantEnvComma
		case scanEnded:
			e.state = wantEnvComma
			t.envelopeByte(c)
		case scanError:
			t.malformed(c)
		}
		return
	}
	if isWhite(c) {
		return
	}
	switch {
	case e.state == wantEnvKey && c == '"':
		t.openString(&e.key, inEnvKey)
	case e.state == wantEnvKey && c == '}', e.state == wantEnvComma && c == '}':
		t.closeEnvelope(c)
	case e.state == wantEnvColon && c == ':':
		e.state = wantEnvValue
	case e.state == wantEnvComma && c == ',':
		e.state = wantEnvKey
	case e.state == wantEnvValue:
		t.envelopeValue(c)
	case e.state == wantEnvComma && t.committed && e.argsDone:
		// The closing brace is missing, but the call is whole.
		t.callDone()
		t.byte(c)
	default:
		t.malformed(c)
	}
}

// openString begins to read a JSON string, quote included, into dst.
func (t *toolParser) openString(dst *[]byte, next envelopeState) {
	t.scan.reset()
	t.scan.step('"')
	*dst = append((*dst)[:0], '"')
	t.env.state = next
}

func (t *toolParser) envelopeString(c byte) {
	e := &t.env
	dst := &e.value
	if e.state == inEnvKey {
		dst = &e.key
	}
	*dst = t.argumentByte(*dst, c)
	switch t.scan.step(c) {
	case scanMore:
		return
	case scanError:
		t.malformed(c)
		return
	}
	switch e.state {
	case inEnvKey:
		e.state = wantEnvColon
		e.nameKey = e.nameKey || string(e.key) == `"name"`
		if t.bare && !bareKeys[string(e.key)] {
			t.malformed(c)
		}
	case inEnvName:
		t.envelopeName(c)
	default:
		t.envelopeArgsString(c)
	}
}

func (t *toolParser) envelopeName(c byte) {
	var name string
	if json.Unmarshal(t.env.value, &name) != nil || name == "" || len(name) > maxCallName ||
		t.bare && !t.knownTool(name) {
		t.malformed(c)
		return
	}
	t.name = append(t.name[:0], name...)
	t.env.haveName = true
	t.env.state = wantEnvComma
	if t.env.haveArgs {
		t.commit()
		t.arguments(t.env.early)
	}
}

// envelopeValue decides by key and first byte what to do with a value.
func (t *toolParser) envelopeValue(c byte) {
	e := &t.env
	key := string(e.key)
	isArgs := (key == `"arguments"` || key == `"parameters"`) && !e.haveArgs
	switch {
	case key == `"name"` && !e.haveName, key == `"function"` && c == '"' && !e.haveName:
		if c != '"' {
			t.malformed(c)
			return
		}
		t.openString(&e.value, inEnvName)
	case key == `"function"` && c == '{' && e.nested == 0:
		e.nested++
		e.state = wantEnvKey
	case isArgs && c == '{':
		e.haveArgs, e.state = true, inEnvArgs
		if e.haveName {
			t.commit()
		}
		t.scan.reset()
		t.envelopeArgs(c)
	case isArgs && c == '"':
		t.openString(&e.value, inEnvArgsString)
	case isArgs && c != 'n':
		t.malformed(c)
	default:
		t.scan.reset()
		e.state = inEnvSkip
		if t.scan.step(c) == scanError {
			t.malformed(c)
		}
	}
}

func (t *toolParser) envelopeArgs(c byte) {
	e := &t.env
	var one [8]byte
	b := t.argumentByte(one[:0], c)
	r := t.scan.step(c)
	if r == scanError {
		t.malformed(c)
		return
	}
	if t.committed {
		t.arguments(b)
	} else {
		e.early = append(e.early, b...)
	}
	if r == scanDone {
		e.argsDone, e.state = true, wantEnvComma
	}
}

// envelopeArgsString unpacks arguments that the model encoded twice.
func (t *toolParser) envelopeArgsString(c byte) {
	e := &t.env
	var s string
	if json.Unmarshal(e.value, &s) != nil {
		t.malformed(c)
		return
	}
	object := bytes.TrimSpace([]byte(s))
	if len(object) == 0 {
		object = []byte("{}")
	}
	if object[0] != '{' || !json.Valid(object) {
		t.malformed(c)
		return
	}
	e.haveArgs, e.argsDone, e.state = true, true, wantEnvComma
	if e.haveName {
		t.commit()
		t.arguments(object)
	} else {
		e.early = append(e.early, object...)
	}
}

func (t *toolParser) closeEnvelope(c byte) {
	e := &t.env
	if e.nested > 0 {
		e.nested--
		e.state = wantEnvComma
		return
	}
	if !e.haveName || t.bare && !e.haveArgs {
		t.malformed(c)
		return
	}
	if !t.committed {
		t.commit()
	}
	if !e.haveArgs {
		t.arguments([]byte("{}"))
	}
	t.callDone()
}
