package grammar

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"unicode/utf8"

	"hearth/engine/infer"
)

// builder turns an Expr into rules.
type builder struct {
	g     *grammarIR
	depth int
	bytes int // of all inputs together
}

// compile does the whole of one compilation in the caller's goroutine. A fault
// of ours ends this request only: its input came from a caller.
func (c *Compiler) compile(ctx context.Context, e Expr) (out *Compiled, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &infer.Error{Code: infer.CodeInternal, Message: "the grammar could not be compiled",
				Cause: fmt.Errorf("BUG: grammar: %v\n%s", p, debug.Stack())}
		}
	}()
	b := newBudget(ctx, maxWork, c.o.Deadline)
	bd := &builder{g: &grammarIR{v: c.v, b: b}}
	root, err := bd.g.newRule("root")
	if err != nil {
		return nil, refusal(err, nil)
	}
	if root.body, err = bd.build(e); err != nil {
		return nil, refusal(err, e.n)
	}
	p, err := bd.g.lower(root)
	if err == nil {
		err = b.err
	}
	if err != nil {
		return nil, refusal(err, e.n)
	}
	out = &Compiled{v: c.v, t: newTable(p, c.v, c.o.StateBytes), work: maxWork - b.left, fixed: p.bytes()}
	out.size.Store(out.fixed + int64(out.t.bytes))
	return out, nil
}

// refusal makes the error that callers see. n names the field at fault where
// err does not do so itself.
func refusal(err error, n *exprNode) error {
	var ie *infer.Error
	var f *fault
	switch {
	case errors.As(err, &ie):
		if ie.Param != "" || n == nil {
			return ie
		}
		named := *ie
		named.Param = n.opt.Param
		return &named
	case errors.As(err, &f):
		out := infer.Errorf(infer.CodeInvalid, "%s", f.Error())
		if n != nil {
			out.Param = n.opt.Param
			if n.opt.Subject != "" {
				out.Message = n.opt.Subject + ": " + out.Message
			}
		}
		return out
	}
	return err
}

func (bd *builder) build(e Expr) (*ir, error) {
	n := e.n
	if n == nil {
		return empty, nil
	}
	if bd.depth++; bd.depth > maxDepth {
		return nil, faultf("the expression is nested more than %d deep", maxDepth)
	}
	defer func() { bd.depth-- }()
	if bd.bytes += len(n.text) + len(n.schema); bd.bytes > maxInputBytes {
		return nil, refusal(faultf("the grammar's text is longer than %d bytes", maxInputBytes), n)
	}
	x, err := bd.node(n)
	if err != nil {
		return nil, refusal(err, n)
	}
	return x, nil
}

func (bd *builder) node(n *exprNode) (*ir, error) {
	switch n.kind {
	case exprLiteral:
		return lit(n.text), nil
	case exprToken:
		return bd.token(n.min)
	case exprRepeat:
		return bd.repeat(n)
	case exprFree:
		x := &ir{kind: irByte}
		x.bytes = freeBytes()
		return repeat(x, 0, -1), nil
	case exprUntil:
		if n.text == "" {
			return empty, nil
		}
		return bd.triggered([]string{n.text}, []*ir{empty}, 1, 1, false)
	case exprChoices:
		return bd.choices(n.words)
	case exprSchema:
		return bd.schema(n.schema, n.opt)
	case exprRegex:
		re, err := parseRegex(n.text, bd.g.b)
		if err != nil {
			return nil, err
		}
		return re.fullMatch(rawText)
	case exprGBNF:
		return bd.gbnf(n.text)
	}
	subs := make([]*ir, len(n.subs))
	for i, s := range n.subs {
		var err error
		if subs[i], err = bd.build(s); err != nil {
			return nil, err
		}
	}
	switch n.kind {
	case exprSequence:
		return seq(subs...), nil
	case exprAlternatives:
		return alt(subs...), nil
	}
	words := append([]string(nil), n.words...)
	for i, t := range n.tokens {
		if t > 0 {
			x, err := bd.token(int(t - 1))
			if err != nil {
				return nil, err
			}
			words[i] = x.lit
		}
	}
	return bd.triggered(words, subs, n.min, n.max, true)
}

func (bd *builder) token(id int) (*ir, error) {
	v := bd.g.v
	if id < 0 || id >= v.size || len(v.pieces[id]) == 0 {
		return nil, faultf("token %d cannot be part of a grammar", id)
	}
	return lit(string(v.pieces[id])), nil
}

func (bd *builder) repeat(n *exprNode) (*ir, error) {
	if n.min < 0 || n.max >= 0 && n.max < n.min || max(n.min, n.max) > maxCount {
		return nil, faultf("cannot repeat from %d to %d times", n.min, n.max)
	}
	sub, err := bd.build(n.subs[0])
	if err != nil {
		return nil, err
	}
	if max(n.min, n.max) > 1 || n.max < 0 {
		// A rule of its own keeps copies small.
		r, err := bd.g.newRule("repeated")
		if err != nil {
			return nil, err
		}
		r.body, sub = sub, ref(r)
	}
	x := repeat(sub, n.min, n.max)
	return x, x.check()
}

func (bd *builder) choices(words []string) (*ir, error) {
	if len(words) == 0 {
		return nil, faultf("there are no choices")
	}
	if len(words) > maxEnum {
		return nil, faultf("there are %d choices, the limit is %d", len(words), maxEnum)
	}
	for i, w := range words {
		if !utf8.ValidString(w) {
			return nil, faultf("choice %d is not valid UTF-8", i)
		}
		if bd.bytes += len(w); bd.bytes > maxInputBytes {
			return nil, faultf("the choices are longer than %d bytes", maxInputBytes)
		}
	}
	bd.g.b.spend(len(words))
	return wordsIR(words), nil
}

// freeBytes is what free text is made of: everything but control tokens.
func freeBytes() (set [256]bool) {
	for b := range set {
		set[b] = b != controlMark
	}
	return set
}
