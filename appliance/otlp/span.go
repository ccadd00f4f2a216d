package otlp

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kind is the role of a span.
type Kind uint8

// The kinds, numbered as in the protocol.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Span is one finished span.
type Span struct {
	Trace      [16]byte
	ID, Parent [8]byte // Parent is zero for a root
	State      string  // W3C tracestate
	Sampled    bool
	Name       string
	Kind       Kind
	Start, End time.Time
	Attrs      []Attr
	Events     []Event
	// Failed says that what the span stands for failed; Message why, in words.
	Failed  bool
	Message string
}

// Event is a moment within a span.
type Event struct {
	At    time.Time
	Name  string
	Attrs []Attr
}

// Attr is a key with a value.
type Attr struct {
	key  string
	kind attrKind
	text string
	list []string
	num  uint64
}

type attrKind uint8

// The kinds of values are the field numbers of AnyValue.
const (
	textValue   attrKind = 1
	boolValue   attrKind = 2
	intValue    attrKind = 3
	doubleValue attrKind = 4
	arrayValue  attrKind = 5
)

// String, Strings, Int, Float and Bool make attributes.
func String(key, v string) Attr            { return Attr{key: key, kind: textValue, text: v} }
func Strings(key string, v ...string) Attr { return Attr{key: key, kind: arrayValue, list: v} }
func Int(key string, v int64) Attr         { return Attr{key: key, kind: intValue, num: uint64(v)} }
func Float(key string, v float64) Attr {
	return Attr{key: key, kind: doubleValue, num: math.Float64bits(v)}
}
func Bool(key string, v bool) Attr {
	a := Attr{key: key, kind: boolValue}
	if v {
		a.num = 1
	}
	return a
}

// Resource says who made the spans.
type Resource struct {
	Attrs            []Attr
	Library, Version string // the instrumentation scope
}

// message appends field num, a message that fill writes.
func message(b []byte, num protowire.Number, fill func(b []byte) []byte) []byte {
	b = protowire.AppendTag(b, num, protowire.BytesType)
	at := len(b)
	b = fill(append(b, 0)) // most are shorter than 128 bytes
	n := len(b) - at - 1
	if n < 0x80 {
		b[at] = byte(n)
		return b
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	for range more {
		b = append(b, 0)
	}
	copy(b[at+1+more:], b[at+1:at+1+n])
	protowire.AppendVarint(b[:at], uint64(n))
	return b
}

func text(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func moment(b []byte, num protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, num, protowire.Fixed64Type), uint64(t.UnixNano()))
}

// appendAttrs writes attributes as repeated KeyValue in field num.
func appendAttrs(b []byte, num protowire.Number, attrs []Attr) []byte {
	for i := range attrs {
		a := &attrs[i]
		b = message(b, num, func(b []byte) []byte {
			b = text(b, 1, a.key)
			return message(b, 2, a.value)
		})
	}
	return b
}

// value writes an AnyValue. A member of a oneof is written also where it is zero.
func (a *Attr) value(b []byte) []byte {
	num := protowire.Number(a.kind)
	switch a.kind {
	case textValue:
		return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), a.text)
	case boolValue, intValue:
		return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), a.num)
	case doubleValue:
		return protowire.AppendFixed64(protowire.AppendTag(b, num, protowire.Fixed64Type), a.num)
	}
	return message(b, num, func(b []byte) []byte {
		for _, s := range a.list {
			b = message(b, 1, func(b []byte) []byte {
				return protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), s)
			})
		}
		return b
	})
}

// Encode writes an ExportTraceServiceRequest.
func Encode(b []byte, r *Resource, spans []Span) []byte {
	return message(b, 1, func(b []byte) []byte { // ResourceSpans
		b = message(b, 1, func(b []byte) []byte { return appendAttrs(b, 1, r.Attrs) })
		return message(b, 2, func(b []byte) []byte { // ScopeSpans
			b = message(b, 1, func(b []byte) []byte { return text(text(b, 1, r.Library), 2, r.Version) })
			for i := range spans {
				b = message(b, 2, spans[i].encode)
			}
			return b
		})
	})
}

func (s *Span) encode(b []byte) []byte {
	id := func(num protowire.Number, v []byte) {
		b = protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
	}
	id(1, s.Trace[:])
	id(2, s.ID[:])
	b = text(b, 3, s.State)
	if s.Parent != [8]byte{} {
		id(4, s.Parent[:])
	}
	b = text(b, 5, s.Name)
	b = protowire.AppendVarint(protowire.AppendTag(b, 6, protowire.VarintType), uint64(s.Kind))
	b = moment(moment(b, 7, s.Start), 8, s.End)
	b = appendAttrs(b, 9, s.Attrs)
	for i := range s.Events {
		e := &s.Events[i]
		b = message(b, 11, func(b []byte) []byte { return appendAttrs(text(moment(b, 1, e.At), 2, e.Name), 3, e.Attrs) })
	}
	if s.Failed {
		b = message(b, 15, func(b []byte) []byte {
			return protowire.AppendVarint(protowire.AppendTag(text(b, 2, s.Message), 3, protowire.VarintType), 2) // STATUS_CODE_ERROR
		})
	}
	if s.Sampled { // the low byte are the W3C trace flags
		b = protowire.AppendFixed32(protowire.AppendTag(b, 16, protowire.Fixed32Type), 1)
	}
	return b
}

// rejected reads an ExportTraceServiceResponse: how many spans were refused and
// why, where only a part was taken.
func rejected(b []byte) (n int64, why string) {
	eachField(b, func(num protowire.Number, v []byte, _ uint64) {
		if num != 1 {
			return
		}
		eachField(v, func(num protowire.Number, v []byte, x uint64) {
			switch num {
			case 1:
				n = int64(x)
			case 2:
				why = string(v[:min(len(v), 500)])
			}
		})
	})
	return max(0, n), why
}

// eachField walks the fields of a message, and ends at the first fault.
func eachField(b []byte, do func(num protowire.Number, v []byte, x uint64)) {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		var v []byte
		var x uint64
		switch typ {
		case protowire.BytesType:
			v, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			x, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return
		}
		do(num, v, x)
		b = b[n:]
	}
}

// Key is the attribute's name.
func (a *Attr) Key() string { return a.key }
