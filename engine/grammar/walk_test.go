package grammar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// testVocab has every byte, some hundred pieces that grammars like to cut
// across, one control token and one end token.
func testVocab(seed uint64) *Vocab {
	rng := rand.New(rand.NewPCG(seed, 1))
	var pieces [][]byte
	for b := 0; b < 256; b++ {
		pieces = append(pieces, []byte{byte(b)})
	}
	sample := `{"name": "x", "age": 12}, {"a":true,"b":false,"c":null} [1,2.5,-3e10] "größe" 名前😀 \n \" \\ \u00e9 ` +
		`abc def ghi aa aaa bb  <tool_call> {"name":"f","arguments":{ }}</tool_call> 2024-01-31T10:20:30Z item-00 red blue`
	for len(pieces) < 900 {
		i := rng.IntN(len(sample))
		n := 2 + rng.IntN(6)
		if i+n <= len(sample) {
			pieces = append(pieces, []byte(sample[i:i+n]))
		}
	}
	pieces = append(pieces, []byte("<|im_end|>"), []byte("<|start|>"))
	end, ctl := int32(len(pieces)-2), int32(len(pieces)-1)
	return NewVocab(pieces, func(id int32) bool { return id >= end && id <= ctl }, []int32{end})
}

var sharedVocab = testVocab(1)

func testCompiler(v *Vocab) *Compiler {
	return NewCompiler(v, Options{Deadline: 10 * time.Minute, StateBytes: 2 << 20})
}

func mustCompile(t testing.TB, e Expr) *Compiled {
	t.Helper()
	c, err := testCompiler(sharedVocab).Compile(context.Background(), e)
	if err != nil {
		t.Fatalf("cannot compile: %v", err)
	}
	return c
}

// shortest is the shortest text that completes m, if no more than limit states
// are nearer.
func (m *Matcher) shortest(limit int) []byte {
	t := m.enter()
	defer m.leave()
	type step struct {
		from int
		b    byte
	}
	order, how := []int32{m.state}, []step{{-1, 0}}
	seen := map[int32]bool{m.state: true}
	for i := 0; i < len(order) && i < limit; i++ {
		if t.sets[order[i]].accept {
			var out []byte
			for j := i; how[j].from >= 0; j = how[j].from {
				out = append([]byte{how[j].b}, out...)
			}
			return out
		}
		for k, b := range t.p.byteOf {
			if to := t.step(order[i], uint8(k)); to != deadSet && !seen[to] {
				seen[to] = true
				order, how = append(order, to), append(how, step{i, b})
			}
		}
	}
	return nil
}

// randomWalk follows masks at random for about n tokens and then ends as soon
// as it can. It returns the text.
func randomWalk(t testing.TB, c *Compiled, rng *rand.Rand, n int) string {
	t.Helper()
	text, ok := boundedWalk(t, c, rng, n, 200_000)
	if !ok {
		t.Fatalf("BUG: cannot complete %q", text)
	}
	return text
}

// boundedWalk is randomWalk for languages whose nearest end may be far: ok is
// false if it was not found.
func boundedWalk(t testing.TB, c *Compiled, rng *rand.Rand, n, limit int) (string, bool) {
	t.Helper()
	m := c.NewMatcher()
	bits := make([]uint32, MaskWords(c.v.Size()))
	var text []byte
	for step := 0; ; step++ {
		m.Mask(bits)
		var ids []int32
		for i := int32(0); int(i) < c.v.Size(); i++ {
			if bits[i>>5]&(1<<(i&31)) != 0 {
				ids = append(ids, i)
			}
		}
		if len(ids) == 0 {
			t.Fatalf("BUG: dead end after %q", text)
		}
		if m.Complete() != (bits[c.v.ends[0]>>5]&(1<<(c.v.ends[0]&31)) != 0) {
			t.Fatalf("end token and Complete disagree after %q", text)
		}
		if m.Complete() && (step >= n || rng.IntN(4) == 0) {
			if err := m.Accept(c.v.ends[0]); err != nil {
				t.Fatal(err)
			}
			return string(text), true
		}
		if step >= n {
			rest := m.shortest(limit)
			if err := m.AcceptBytes(rest); err != nil {
				t.Fatal(err)
			}
			return string(text) + string(rest), m.Complete()
		}
		id := ids[rng.IntN(len(ids))]
		if c.v.end(id) {
			return string(text), true
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("allowed token %q refused after %q: %v", c.v.pieces[id], text, err)
		}
		text = append(text, c.v.pieces[id]...)
	}
}

// accepts runs text through c token by token (greedy pieces at random), with
// every token checked against the mask, and byte by byte.
func accepts(t testing.TB, c *Compiled, rng *rand.Rand, text string) bool {
	t.Helper()
	m, whole := c.NewMatcher(), c.NewMatcher()
	ok := whole.AcceptBytes([]byte(text)) == nil && whole.Complete()
	bits := make([]uint32, MaskWords(c.v.Size()))
	for rest := text; rest != ""; {
		id := pieceFor(c.v, rng, rest)
		if id < 0 {
			return false // a byte of no UTF-8 text
		}
		m.Mask(bits)
		allowed := bits[id>>5]&(1<<(id&31)) != 0
		if err := m.Accept(id); (err == nil) != allowed {
			t.Fatalf("mask says %v, Accept says %v, at %q of %q", allowed, err, rest, text)
		}
		if !allowed {
			if ok {
				t.Fatalf("%q is accepted by bytes but not by tokens at %q", text, rest)
			}
			return false
		}
		rest = rest[len(c.v.pieces[id]):]
	}
	if m.Complete() != ok {
		t.Fatalf("%q: bytes say %v, tokens %v", text, ok, m.Complete())
	}
	return ok
}

// pieceFor is a random token that begins text.
func pieceFor(v *Vocab, rng *rand.Rand, text string) int32 {
	var fits []int32
	for i, p := range v.pieces {
		if len(p) > 0 && strings.HasPrefix(text, string(p)) {
			fits = append(fits, int32(i))
		}
	}
	if len(fits) == 0 {
		return -1
	}
	return fits[rng.IntN(len(fits))]
}

func testRand(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 99)) }

func TestLiteralAndChoices(t *testing.T) {
	c := mustCompile(t, Sequence(Literal("a"), FromChoices([]string{"in", "int", "integer", "größe", "größer"}), Optional(Literal("!"))))
	rng := testRand(1)
	for _, s := range []string{"ain", "aint", "aint!", "ainteger", "agröße", "agrößer!"} {
		if !accepts(t, c, rng, s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{"", "a", "ai", "ainte", "aint!!", "agrö"} {
		if accepts(t, c, rng, s) {
			t.Errorf("%q is accepted", s)
		}
	}
	for i := 0; i < 50; i++ {
		if s := randomWalk(t, c, rng, 20); !accepts(t, c, rng, s) {
			t.Errorf("walk gave %q", s)
		}
	}
	if got := string(c.NewMatcher().Forced(nil, 10)); got != "a" {
		t.Errorf("forced %q, want a", got)
	}
}

func TestTriggered(t *testing.T) {
	body := Sequence(FromRegex("[0-9]{2}"), Literal("</t>"))
	rng := testRand(2)
	for _, tc := range []struct {
		min, max int
		good     []string
		bad      []string
	}{
		{0, Unbounded, []string{"", "hello", "a<t b", "x<t>12</t>", "<t>12</t> and <t>34</t>!", "<<t>12</t>"}, []string{"<t>", "<t>1</t>", "x<t>12</t><t>x"}},
		{1, 1, []string{"<t>12</t>", "<<t>12</t>x<t"}, []string{"", "hello", "<t>12</t><t>12</t>"}},
		{1, 2, []string{"<t>12</t>", "<t>12</t><t>12</t>."}, []string{"<t", "<t>12</t><t>12</t><t>12</t>"}},
	} {
		c := mustCompile(t, Triggered(tc.min, tc.max, Trigger{Text: "<t>", Then: body}, Trigger{Text: "<<u>", Then: Literal("u")}))
		for _, s := range tc.good {
			if !accepts(t, c, rng, s) {
				t.Errorf("%d..%d: %q is refused", tc.min, tc.max, s)
			}
		}
		for _, s := range tc.bad {
			if accepts(t, c, rng, s) {
				t.Errorf("%d..%d: %q is accepted", tc.min, tc.max, s)
			}
		}
		for i := 0; i < 30; i++ {
			randomWalk(t, c, rng, 30)
		}
	}
	c := mustCompile(t, Sequence(Until("</think>"), Literal("ok")))
	if !accepts(t, c, rng, "hm </thin</think>ok") || accepts(t, c, rng, "</think>x</think>ok") {
		t.Error("Until does not end at the first stop")
	}
}

func TestControlTokens(t *testing.T) {
	v := sharedVocab
	ctl := int32(v.size - 1)
	c := mustCompile(t, Sequence(FreeText()))
	bits := make([]uint32, MaskWords(v.Size()))
	c.NewMatcher().Mask(bits)
	if bits[ctl>>5]&(1<<(ctl&31)) != 0 {
		t.Error("free text allows a control token")
	}
	c = mustCompile(t, Triggered(0, Unbounded, TokenTrigger(ctl, Literal("x")), Trigger{Text: "<t>", Then: Literal("y")}))
	k := c.NewMatcher()
	for _, step := range []struct {
		id int32
		ok bool
	}{{'a', true}, {'<', true}, {ctl, true}, {'y', false}, {'x', true}, {'<', true}, {'t', true}, {'>', true}, {ctl, false}, {'y', true}} {
		if err := k.Accept(step.id); (err == nil) != step.ok {
			t.Errorf("token %d after a control trigger: %v", step.id, err)
		}
	}
	if !k.Complete() {
		t.Error("free text after a control trigger cannot end")
	}
	c = mustCompile(t, Sequence(Token(ctl), Literal("x")))
	m := c.NewMatcher()
	m.Mask(bits)
	n := 0
	for _, w := range bits {
		for ; w != 0; w &= w - 1 {
			n++
		}
	}
	if n != 1 || m.Accept(ctl) != nil || m.AcceptBytes([]byte("x")) != nil || !m.Complete() {
		t.Errorf("a control token asked for is not allowed alone (%d tokens)", n)
	}
}

func TestMatcherStates(t *testing.T) {
	c := mustCompile(t, FromRegex("ab|ac"))
	m := c.NewMatcher()
	if err := m.Accept('z'); err == nil {
		t.Error("z is accepted")
	}
	if err := m.Accept(c.v.ends[0]); err == nil {
		t.Error("the end is accepted too early")
	}
	if m.Accept('a') != nil {
		t.Fatal("a is refused")
	}
	k := m.Clone()
	if m.Accept('b') != nil || k.Accept('c') != nil || !m.Complete() || !k.Complete() {
		t.Error("clones are not independent")
	}
	if m.Accept(c.v.ends[0]) != nil || !m.Ended() || m.Accept(c.v.ends[0]) == nil {
		t.Error("the end is not final")
	}
	if m.Accept(int32(c.v.size)) == nil || m.Accept(-1) == nil {
		t.Error("a token outside the vocabulary is accepted")
	}
}

// TestSmallTable forces the table to be renewed all the time.
func TestSmallTable(t *testing.T) {
	comp := NewCompiler(sharedVocab, Options{StateBytes: 1, Deadline: time.Minute})
	c, err := comp.Compile(context.Background(), FromGBNF(`root ::= "(" root ")" | [a-z]{1,300} | "1" root "2"`))
	if err != nil {
		t.Fatal(err)
	}
	big := mustCompile(t, FromGBNF(`root ::= "(" root ")" | [a-z]{1,300} | "1" root "2"`))
	rng := testRand(3)
	a, b := make([]uint32, MaskWords(c.v.Size())), make([]uint32, MaskWords(c.v.Size()))
	m, n := c.NewMatcher(), big.NewMatcher()
	for step := 0; step < 200; step++ {
		m.Mask(a)
		n.Mask(b)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("step %d: masks differ", step)
		}
		var ids []int32
		for i := int32(0); int(i) < c.v.Size(); i++ {
			if a[i>>5]&(1<<(i&31)) != 0 && !c.v.end(i) {
				ids = append(ids, i)
			}
		}
		if len(ids) == 0 {
			break
		}
		id := ids[rng.IntN(len(ids))]
		if m.Accept(id) != nil || n.Accept(id) != nil {
			t.Fatal("allowed token refused")
		}
	}
}
