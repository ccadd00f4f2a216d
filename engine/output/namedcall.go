package output

import "bytes"

// namedByte reads calls whose name stands outside the JSON:
//
//	[TOOL_CALLS]NAME[ARGS]{…}                        Mistral, newer
//	[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}
//	[TOOL_CALLS][{"name": …}, …]                     Mistral, older
//	<begin><item>NAME<sep>{…}<itemTo>…<end>          DeepSeek V3.1
//	<begin><item>function<sep>NAME\n```json\n{…}\n```<itemTo>…<end>
func (t *toolParser) namedByte(c byte) {
	switch t.state {
	case inName:
		t.nameByte(c)
	case inSep:
		t.sepByte(c)
	case inCallID:
		if c == '[' {
			t.state = inSep
			t.hold = append(t.hold[:0], c)
		}
	case inHead:
		t.headByte(c)
	case inHeadLine:
		if c != '\n' {
			t.growName(c)
			return
		}
		t.nameEnds()
	case inArgsOpen:
		t.argsOpenByte(c)
	case inArgs:
		t.argsByte(c)
	}
}

func (t *toolParser) growName(c byte) {
	if len(t.name) >= maxCallName {
		t.notACall()
		return
	}
	t.name = append(t.name, c)
}

func (t *toolParser) nameEnds() {
	t.name = append(t.name[:0], bytes.TrimSpace(t.name)...)
	if len(t.name) == 0 {
		t.notACall()
		return
	}
	t.state, t.hold = inArgsOpen, t.hold[:0]
}

func (t *toolParser) nameByte(c byte) {
	n := len(t.name)
	switch {
	case c == '[' && n == 0:
		t.state = inBlock // a list of objects
	case c == '[':
		t.state = inSep
		t.hold = append(t.hold[:0], c)
	case c == '{' && n > 0:
		if t.nameEnds(); t.state == inArgsOpen {
			t.argsOpenByte(c)
		}
	case isWhite(c):
		if n > 0 {
			t.growName(c)
		}
	case !isNameByte(c) || n > 0 && isWhite(t.name[n-1]):
		t.notACall()
	default:
		t.growName(c)
	}
}

// isNameByte takes what occurs in function names, letters of any script included.
func isNameByte(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '-' || c == '.' || c == ':' || c == '/' || c >= 0x80
}

func (t *toolParser) sepByte(c byte) {
	t.hold = append(t.hold, c)
	marker, part := longestMatch(t.hold, t.f.seps...)
	switch {
	case marker == "[CALL_ID]":
		t.state = inCallID
	case marker != "":
		t.nameEnds()
	case !part:
		t.notACall()
	}
}

// headByte collects up to the separator.
func (t *toolParser) headByte(c byte) {
	t.growName(c)
	if t.state != inHead || !bytes.HasSuffix(t.name, []byte(t.f.seps[0])) {
		return
	}
	t.name = t.name[:len(t.name)-len(t.f.seps[0])]
	if string(t.name) == "function" {
		t.state, t.name = inHeadLine, t.name[:0]
		return
	}
	t.nameEnds()
}

// argsOpenByte skips white space and a code fence before the arguments.
func (t *toolParser) argsOpenByte(c byte) {
	switch {
	case c == '{' && len(t.hold) == 0:
		t.commit()
		t.scan.reset()
		t.state = inArgs
		t.argsByte(c)
	case isWhite(c) && len(t.hold) == 0:
	default:
		t.hold = append(t.hold, c)
		marker, part := longestMatch(t.hold, "```json")
		switch {
		case marker != "":
			t.hold = t.hold[:0]
		case !part || t.f.item == "":
			t.notACall()
		}
	}
}

func (t *toolParser) argsByte(c byte) {
	var one [8]byte
	b := t.argumentByte(one[:0], c)
	r := t.scan.step(c)
	if r == scanError {
		t.breakOff(c)
		return
	}
	t.arguments(b)
	if r == scanDone {
		t.callDone()
	}
}
