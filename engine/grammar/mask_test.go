package grammar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"hearth/engine/infer"
)

// TestMaskIsExact compares masks with trying every token, in particular where
// the plain tokens are allowed all at once.
func TestMaskIsExact(t *testing.T) {
	exprs := []Expr{
		FromRegex(`[a-z"]{0,9}é?`), FromRegex(`(.|\n){0,3}`), FreeText(), FromGBNF(gbnfJSON),
		FromSchema(json.RawMessage(`{"type":"string","maxLength":3}`), SchemaOptions{}),
		FromSchema(json.RawMessage(`{"type":"string","minLength":2,"maxLength":100000}`), SchemaOptions{}),
		FromSchema(json.RawMessage(`{"type":"string","pattern":"^[^x]*$"}`), SchemaOptions{}),
		FromSchema(json.RawMessage(`{"type":"string","pattern":"^.{3,900}$"}`), SchemaOptions{}),
		FromSchema(json.RawMessage(`{"type":"object","properties":{"größe":{"type":"string"},"a":{}}}`), SchemaOptions{}),
	}
	for n, e := range exprs {
		c := mustCompile(t, e)
		rng := testRand(20 + n)
		m, try := c.NewMatcher(), c.NewMatcher()
		bits := make([]uint32, MaskWords(c.v.Size()))
		for step := 0; step < 40; step++ {
			m.Mask(bits)
			var ids []int32
			for id := int32(0); int(id) < c.v.Size(); id++ {
				try.CopyFrom(m)
				ok := try.Accept(id) == nil
				if got := bits[id>>5]&(1<<(id&31)) != 0; got != ok {
					t.Fatalf("expr %d step %d token %q: mask %v, accepted %v", n, step, c.v.pieces[id], got, ok)
				}
				if ok && !c.v.end(id) {
					ids = append(ids, id)
				}
			}
			if len(ids) == 0 {
				break
			}
			if err := m.Accept(ids[rng.IntN(len(ids))]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestMaskCutShort bounds the work of a mask to almost nothing: what is left is
// part of the full mask and never empty.
func TestMaskCutShort(t *testing.T) {
	e := FromSchema(json.RawMessage(`{"type":"object","properties":{"a":{"enum":["red","blue"]},"b":{"type":"string","pattern":"^(red|a*b*)+$"}},"required":["a","b"],"additionalProperties":false}`), SchemaOptions{})
	full, cut := mustCompile(t, e), mustCompile(t, e)
	cut.t.work = 3
	a, b := make([]uint32, MaskWords(full.v.Size())), make([]uint32, MaskWords(full.v.Size()))
	m, n := full.NewMatcher(), cut.NewMatcher()
	for _, c := range []byte(`{"a":"blue", "b":"redaab"}`) {
		m.Mask(a)
		n.Mask(b)
		some := uint32(0)
		for i := range b {
			if b[i]&^a[i] != 0 {
				t.Fatal("a mask that is cut short allows more")
			}
			some |= b[i]
		}
		if some == 0 || b[c>>5]&(1<<(c&31)) == 0 {
			t.Fatalf("at %q nothing is left", c)
		}
		if m.Accept(int32(c)) != nil || n.Accept(int32(c)) != nil {
			t.Fatal("refused")
		}
	}
}

func TestMaskAllocatesNothing(t *testing.T) {
	c := mustCompile(t, FromSchema(json.RawMessage(`{"type":"array","items":{"type":"string","maxLength":9},"maxItems":5000}`), SchemaOptions{}))
	bits := make([]uint32, MaskWords(c.v.Size()))
	first, m := c.NewMatcher(), c.NewMatcher()
	run := func() {
		m.CopyFrom(first)
		for _, b := range []byte(`["abc","d"`) {
			m.Mask(bits)
			if m.Accept(int32(b)) != nil {
				t.Fatal("refused")
			}
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations a run on cached states", n)
	}
}

// TestVocabularyWithoutSomeBytes must end no walk in a dead end although some
// bytes can only be written inside longer tokens.
func TestVocabularyWithoutSomeBytes(t *testing.T) {
	var pieces [][]byte
	for b := 0; b < 256; b++ {
		if b == 'q' || b == 0xF0 || b == 4 || b == 0xC3 {
			continue
		}
		pieces = append(pieces, []byte{byte(b)})
	}
	pieces = append(pieces, []byte("qu"), []byte("é"), []byte("😀"), []byte("aq"), []byte("</s>"))
	v := NewVocab(pieces, nil, []int32{int32(len(pieces) - 1)})
	comp := testCompiler(v)
	for i, s := range []string{`{"type":"string","maxLength":5}`, `{"enum":["quit","go"]}`, `{"type":"object"}`, `{"type":"string","pattern":"q|b"}`, `{"type":"string","pattern":"^[p-r]{2}$"}`,
		`{"type":"string","minLength":3,"pattern":"^[oq]+$"}`} {
		c, err := comp.Compile(context.Background(), FromSchema(json.RawMessage(s), SchemaOptions{}))
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		rng := testRand(i)
		for k := 0; k < 20; k++ {
			text := randomWalk(t, c, rng, 12)
			if err := Validate(json.RawMessage(s), text); err != nil {
				t.Errorf("%s: %q: %v", s, text, err)
			}
		}
	}
	for _, e := range []Expr{FromSchema(json.RawMessage(`{"const":"quit"}`), SchemaOptions{}), Literal("q"), FromRegex("q+")} {
		if _, err := comp.Compile(context.Background(), e); infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("what cannot be spelled is not refused: %v", err)
		}
	}
}

func TestCompilerShares(t *testing.T) {
	comp := NewCompiler(sharedVocab, Options{CacheEntries: 4})
	e := func(i int) Expr { return FromRegex(fmt.Sprintf("a{%d}", i)) }
	var wg sync.WaitGroup
	got := make([]*Compiled, 16)
	for i := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := comp.Compile(context.Background(), e(3))
			if err != nil {
				t.Error(err)
				return
			}
			got[i] = c
			randomWalk(t, c, testRand(i), 5)
		}()
	}
	wg.Wait()
	for _, c := range got {
		if c != got[0] {
			t.Error("equal grammars are compiled twice")
		}
	}
	for i := 0; i < 10; i++ {
		comp.Compile(context.Background(), e(i))
	}
	if s := comp.Stats(); s.Entries != 4 || s.Compiled < 10 {
		t.Errorf("stats %+v", s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := comp.Compile(ctx, FromSchema(json.RawMessage(bigEnum(20000)), SchemaOptions{}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled compilation gives %v", err)
	}
	comp.slot <- struct{}{} // nobody else may compile
	busy := NewCompiler(sharedVocab, Options{Queue: 1})
	busy.slot <- struct{}{}
	ctx, cancel = context.WithCancel(context.Background())
	done := make(chan error)
	go func() { _, err := busy.Compile(ctx, e(1)); done <- err }()
	for {
		if busy.mu.Lock(); busy.waiting == 1 {
			busy.mu.Unlock()
			break
		}
		busy.mu.Unlock()
	}
	if _, err := busy.Compile(context.Background(), e(2)); infer.AsError(err).Code != infer.CodeOverloaded {
		t.Errorf("a full queue gives %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("leaving the queue gives %v", err)
	}
}

func TestFromFormat(t *testing.T) {
	for _, f := range []infer.Format{{Kind: infer.FormatJSONObject}, {Kind: infer.FormatJSONSchema, Schema: json.RawMessage(`{}`)}, {Kind: infer.FormatRegex, Pattern: "a"}, {Kind: infer.FormatGrammar, Grammar: `root ::= "a"`}, {Kind: infer.FormatChoice, Choices: []string{"a"}}} {
		e, ok, err := FromFormat(f)
		if err != nil || !ok {
			t.Errorf("%s: %v %v", f.Kind, ok, err)
		}
		mustCompile(t, e)
	}
	if _, ok, err := FromFormat(infer.Format{}); ok || err != nil {
		t.Error("free text is a constraint")
	}
	for _, f := range []infer.Format{{Kind: "jsno"}, {Kind: infer.FormatJSONSchema}} {
		if _, _, err := FromFormat(f); infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("%v is accepted", f)
		}
	}
	for _, e := range []Expr{FromChoices(nil), Alternatives(), Repeat(Literal("a"), 3, 2), Triggered(0, 1), Triggered(0, 1, Trigger{Then: Literal("a")}), Token(99999), FromChoices([]string{"\xff"})} {
		if _, err := testCompiler(sharedVocab).Compile(context.Background(), e); infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("an impossible expression is accepted: %v", err)
		}
	}
}
