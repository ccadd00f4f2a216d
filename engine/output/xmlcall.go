package output

import (
	"bytes"
	"encoding/json"

	"hearth/engine/infer"
)

// xmlCall is the state of a call in the XML form of Qwen3-Coder:
//
//	<function=NAME>
//	<parameter=KEY>
//	VALUE
//	</parameter>
//	</function>
//
// Values are plain text without any escaping; the function's schema says which
// are strings. Strings stream as they come; others are kept to their end, and
// become JSON if they are JSON, else strings. One line break on either side of a
// value belongs to the markup. Since a value may contain </parameter>, that ends
// it only where a tag that can come next follows.
type xmlCall struct {
	key      []byte
	value    []byte // of a parameter that is no string
	params   int
	isString bool
	started  bool // the value has a byte, or its first line break was skipped
}

const (
	xmlParameter    = "<parameter="
	xmlParameterEnd = "</parameter>"
	xmlFunctionEnd  = "</function>"
	xmlCallEnd      = "</tool_call>"
)

func (t *toolParser) xmlByte(c byte) {
	x := &t.xml
	switch t.state {
	case inFunction:
		t.functionByte(c)
	case inParams:
		t.paramsByte(c)
	case inParamKey:
		if c != '>' {
			x.key = append(x.key, c)
			return
		}
		t.openParam()
	case inParamValue:
		t.valueByte(c)
	}
}

func (t *toolParser) functionByte(c byte) {
	switch {
	case c == '>':
		t.name = append(t.name[:0], bytes.TrimSpace(t.name)...)
		if len(t.name) == 0 {
			t.notACall()
			return
		}
		t.commit()
		t.xml = xmlCall{key: t.xml.key[:0], value: t.xml.value[:0]}
		t.state, t.hold = inParams, t.hold[:0]
	case c == '<' || c == '\n' || c == '"' || c == '{':
		t.notACall()
	default:
		t.growName(c)
	}
}

// paramsByte is between parameters; text there belongs to no value and is
// delivered as text.
func (t *toolParser) paramsByte(c byte) {
	if isWhite(c) && len(t.hold) == 0 {
		return
	}
	t.hold = append(t.hold, c)
	for len(t.hold) > 0 {
		marker, part := longestMatch(t.hold, xmlParameter, xmlFunctionEnd, xmlCallEnd)
		if marker != "" {
			t.hold = t.hold[:0]
			t.paramsMarker(marker)
			return
		}
		if part {
			return
		}
		t.p.emit(infer.EventText, t.hold[:1], t.at-int64(len(t.hold)-1))
		t.hold = t.hold[:copy(t.hold, t.hold[1:])]
	}
}

func (t *toolParser) paramsMarker(marker string) {
	if marker == xmlParameter {
		t.state, t.xml.key = inParamKey, t.xml.key[:0]
		return
	}
	t.closeObject()
	t.callDone()
	if marker == xmlCallEnd && !t.done {
		t.toText()
		t.fresh, t.space = true, t.space[:0]
	}
}

func (t *toolParser) closeObject() {
	if t.xml.params == 0 {
		t.arguments([]byte("{"))
	}
	t.arguments([]byte("}"))
}

func (t *toolParser) openParam() {
	x := &t.xml
	key := string(bytes.TrimSpace(x.key))
	b := []byte(", ")
	if x.params == 0 {
		b = []byte("{")
	}
	x.params++
	b = appendString(b, key)
	b = append(b, ": "...)
	x.isString, x.started = t.isString(key), false
	if x.isString {
		b = append(b, '"')
	}
	t.arguments(b)
	x.value = x.value[:0]
	t.state, t.hold = inParamValue, t.hold[:0]
}

// isString says whether a parameter takes text; so does one that no schema
// describes.
func (t *toolParser) isString(key string) bool {
	for i := range t.o.Tools {
		if t.o.Tools[i].Name == string(t.name) {
			return schemaIsString(t.o.Tools[i].Parameters, key)
		}
	}
	return true
}

func schemaIsString(schema json.RawMessage, key string) bool {
	var s struct {
		Properties map[string]struct {
			Type json.RawMessage   `json:"type"`
			Enum []json.RawMessage `json:"enum"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return true
	}
	p, ok := s.Properties[key]
	if !ok {
		return true
	}
	var one string
	if json.Unmarshal(p.Type, &one) == nil {
		return one == "string"
	}
	var several []string
	if json.Unmarshal(p.Type, &several) == nil {
		for _, s := range several {
			if s == "string" {
				return true
			}
		}
		return false
	}
	for _, e := range p.Enum {
		if len(e) > 0 && e[0] != '"' {
			return false
		}
	}
	return len(p.Enum) > 0
}

func (t *toolParser) valueByte(c byte) {
	x := &t.xml
	if !x.started && c == '\n' {
		x.started = true
		return
	}
	x.started = true
	t.hold = append(t.hold, c)
	for len(t.hold) > 0 {
		next, part := valueEnd(t.hold)
		if next != "" {
			t.hold = t.hold[:0]
			t.closeParam()
			t.state = inParams
			t.paramsMarker(next)
			return
		}
		if part {
			return
		}
		t.valueOut(t.hold[:1], t.at-int64(len(t.hold)-1))
		t.hold = t.hold[:copy(t.hold, t.hold[1:])]
	}
}

// valueEnd says whether b is the end of a value: perhaps a line break, the end
// tag, white space and the tag that comes next; or a beginning of that.
func valueEnd(b []byte) (next string, part bool) {
	b = bytes.TrimPrefix(b, []byte("\n"))
	n := prefixMatch(b, xmlParameterEnd)
	if n == len(b) && n < len(xmlParameterEnd) {
		return "", true
	}
	if n < len(xmlParameterEnd) {
		return "", false
	}
	rest := bytes.TrimLeft(b[n:], " \t\r\n")
	if len(rest) == 0 {
		return "", true
	}
	return longestMatch(rest, xmlParameter, xmlFunctionEnd, xmlCallEnd)
}

func (t *toolParser) valueOut(b []byte, end int64) {
	if !t.xml.isString {
		t.xml.value = append(t.xml.value, b...)
		return
	}
	var out []byte
	for _, c := range b {
		out = appendEscaped(out, c)
	}
	t.p.addArguments(t.calls-1, out, end)
}

func (t *toolParser) closeParam() {
	if t.xml.isString {
		t.arguments([]byte(`"`))
		return
	}
	v := bytes.TrimSpace(t.xml.value)
	switch string(v) {
	case "True":
		v = []byte("true")
	case "False":
		v = []byte("false")
	case "None":
		v = []byte("null")
	}
	if !json.Valid(v) {
		v = appendString(nil, string(t.xml.value))
	}
	t.arguments(v)
}

// xmlEnd completes a call that the model ended without its last tags.
func (t *toolParser) xmlEnd() {
	if t.state == inParamValue {
		b := bytes.TrimPrefix(t.hold, []byte("\n"))
		if !bytes.HasPrefix(b, []byte(xmlParameterEnd)) {
			t.valueOut(t.hold, t.at)
			return // cut in the middle of a value: not complete
		}
		t.closeParam()
	}
	t.closeObject()
	t.callDone()
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		b = appendEscaped(b, s[i])
	}
	return append(b, '"')
}

// appendEscaped appends one byte of valid UTF-8 as it stands in a JSON string.
func appendEscaped(b []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	switch {
	case c == '"' || c == '\\':
		return append(b, '\\', c)
	case c == '\n':
		return append(b, `\n`...)
	case c == '\r':
		return append(b, `\r`...)
	case c == '\t':
		return append(b, `\t`...)
	case c < 0x20:
		return append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
	}
	return append(b, c)
}
