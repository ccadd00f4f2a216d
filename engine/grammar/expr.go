package grammar

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"sort"

	"hearth/engine/infer"
)

type exprKind uint8

const (
	exprLiteral exprKind = iota + 1
	exprToken
	exprSequence
	exprAlternatives
	exprRepeat
	exprFree
	exprUntil
	exprTriggered
	exprSchema
	exprRegex
	exprGBNF
	exprChoices
)

// Expr describes a language of texts. It is an immutable value, cheap to make:
// faults in a schema, pattern or grammar are reported by Compiler.Compile. The
// zero Expr is the empty text.
type Expr struct{ n *exprNode }

type exprNode struct {
	kind     exprKind
	text     string   // literal, stop, pattern, grammar
	words    []string // choices, triggers
	tokens   []int32  // triggers: id + 1, or 0 where words holds the text
	subs     []Expr
	min, max int // repeat, triggered; token id in min
	schema   json.RawMessage
	opt      SchemaOptions
}

// Unbounded as a maximum means no upper limit.
const Unbounded = -1

// SchemaOptions adjust how a JSON Schema is read and written.
type SchemaOptions struct {
	// Param names the request field that holds the schema, for errors.
	Param string
	// Subject is put in front of error messages, for instance `tool "f"`.
	Subject string
	// Whitespace is how many spaces may follow each ',' and ':' (0 to 4).
	// There is no other whitespace in the text. The zero value means 1; use
	// NoWhitespace for compact text only.
	Whitespace int
	// NeedObject refuses nothing but narrows the root to objects, as tool
	// arguments and json_object ask for.
	NeedObject bool
	// BestEffort leaves out keywords that cannot be honoured instead of
	// refusing the schema, and oneOf may then be anyOf: what is written has to
	// be validated. What is not a valid schema, and what contradicts itself, is
	// refused all the same.
	BestEffort bool
}

// NoWhitespace as SchemaOptions.Whitespace allows compact JSON only.
const NoWhitespace = -1

// Literal is exactly s.
func Literal(s string) Expr {
	return Expr{&exprNode{kind: exprLiteral, text: s}}
}

// Token is the one token id, also where it is a control token; control tokens
// occur nowhere else in a constrained text.
func Token(id int32) Expr {
	return Expr{&exprNode{kind: exprToken, min: int(id)}}
}

// Sequence is parts one after the other.
func Sequence(parts ...Expr) Expr {
	return Expr{&exprNode{kind: exprSequence, subs: parts}}
}

// Alternatives is any one of alts; none at all is an unsatisfiable Expr.
func Alternatives(alts ...Expr) Expr {
	return Expr{&exprNode{kind: exprAlternatives, subs: alts}}
}

// Optional is e or nothing.
func Optional(e Expr) Expr { return Repeat(e, 0, 1) }

// Repeat is e from minimum to maximum times, Unbounded for no limit.
func Repeat(e Expr, minimum, maximum int) Expr {
	return Expr{&exprNode{kind: exprRepeat, subs: []Expr{e}, min: minimum, max: maximum}}
}

// FreeText is any bytes at all, also none.
func FreeText() Expr { return Expr{&exprNode{kind: exprFree}} }

// Until is any text up to and with the first occurrence of stop.
func Until(stop string) Expr { return Expr{&exprNode{kind: exprUntil, text: stop}} }

// Trigger switches from free text to a constrained part: as soon as Text has
// been written, Then must follow.
type Trigger struct {
	Text string
	Then Expr

	token int32 // in place of Text: id + 1
}

// TokenTrigger is a Trigger whose text is one token, also a control token.
func TokenTrigger(id int32, then Expr) Trigger { return Trigger{Then: then, token: id + 1} }

// Triggered is free text in which every occurrence of a trigger is followed by
// what that trigger asks for, from minimum to maximum times in all. Before
// minimum is reached the text cannot end; after maximum no trigger can be
// written. No trigger may contain another.
func Triggered(minimum, maximum int, triggers ...Trigger) Expr {
	n := &exprNode{kind: exprTriggered, min: minimum, max: maximum}
	for _, t := range triggers {
		n.words = append(n.words, t.Text)
		n.subs = append(n.subs, t.Then)
		n.tokens = append(n.tokens, t.token)
	}
	return Expr{n}
}

// FromSchema is the JSON texts that satisfy schema (drafts 2020-12 and 7).
func FromSchema(schema json.RawMessage, o SchemaOptions) Expr {
	return Expr{&exprNode{kind: exprSchema, schema: schema, opt: o}}
}

// FromJSONObject is any JSON object.
func FromJSONObject() Expr {
	return FromSchema(json.RawMessage(`{"type":"object"}`), SchemaOptions{Param: "response_format"})
}

// FromRegex is the texts that pattern matches as a whole.
func FromRegex(pattern string) Expr {
	return Expr{&exprNode{kind: exprRegex, text: pattern, opt: SchemaOptions{Param: "regex"}}}
}

// FromGBNF is the texts that rule root of a GBNF grammar derives.
func FromGBNF(text string) Expr {
	return Expr{&exprNode{kind: exprGBNF, text: text, opt: SchemaOptions{Param: "grammar"}}}
}

// FromChoices is exactly one of choices.
func FromChoices(choices []string) Expr {
	return Expr{&exprNode{kind: exprChoices, words: choices, opt: SchemaOptions{Param: "choice"}}}
}

// WithParam returns e with the request field and subject that errors about it
// name; it changes only an Expr that came from a From function.
func WithParam(e Expr, param, subject string) Expr {
	if e.n == nil {
		return e
	}
	n := *e.n
	n.opt.Param, n.opt.Subject = param, subject
	return Expr{&n}
}

// FromFormat is the Expr of a request's Format; ok is false for free text.
func FromFormat(f infer.Format) (e Expr, ok bool, err error) {
	switch f.Kind {
	case infer.FormatText:
		return Expr{}, false, nil
	case infer.FormatJSONObject:
		return FromJSONObject(), true, nil
	case infer.FormatJSONSchema:
		if len(f.Schema) == 0 {
			return Expr{}, false, infer.Invalid("response_format", "json_schema has no schema")
		}
		return FromSchema(f.Schema, SchemaOptions{Param: "response_format"}), true, nil
	case infer.FormatRegex:
		return FromRegex(f.Pattern), true, nil
	case infer.FormatGrammar:
		return FromGBNF(f.Grammar), true, nil
	case infer.FormatChoice:
		return FromChoices(f.Choices), true, nil
	}
	return Expr{}, false, infer.Invalid("response_format", "unknown format %q", string(f.Kind))
}

// digest is the cache key: it covers everything that the compiled form or an
// error message depends on.
func (e Expr) digest() [32]byte {
	h := sha256.New()
	e.write(h)
	return [32]byte(h.Sum(nil))
}

func (e Expr) write(h hash.Hash) {
	if e.n == nil {
		writeInts(h, 0)
		return
	}
	n := e.n
	writeInts(h, int(n.kind), n.min, n.max, n.opt.Whitespace, len(n.words), len(n.subs))
	if n.opt.NeedObject {
		writeInts(h, 1)
	}
	if n.opt.BestEffort {
		writeInts(h, 2)
	}
	writeText(h, n.text)
	writeText(h, string(n.schema))
	writeText(h, n.opt.Param)
	writeText(h, n.opt.Subject)
	for _, w := range n.words {
		writeText(h, w)
	}
	for _, t := range n.tokens {
		writeInts(h, int(t))
	}
	for _, s := range n.subs {
		s.write(h)
	}
}

func writeInts(h hash.Hash, vs ...int) {
	var b [8]byte
	for _, v := range vs {
		binary.LittleEndian.PutUint64(b[:], uint64(v))
		h.Write(b[:])
	}
}

func writeText(h hash.Hash, s string) {
	writeInts(h, len(s))
	h.Write([]byte(s))
}

func sortedUnique(words []string) []string {
	out := append([]string(nil), words...)
	sort.Strings(out)
	k := 0
	for i, w := range out {
		if i == 0 || w != out[k-1] {
			out[k] = w
			k++
		}
	}
	return out[:k]
}
