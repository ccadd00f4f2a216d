package grammar

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pathological inputs have hung or killed servers elsewhere. Each must compile
// or be refused within the bound, and what compiles must give masks.
func pathological() map[string]Expr {
	schema := func(s string) Expr { return FromSchema(json.RawMessage(s), SchemaOptions{}) }
	pattern := func(p string, more string) Expr {
		q, _ := json.Marshal(p)
		return schema(`{"type":"string","pattern":` + string(q) + more + `}`)
	}
	m := map[string]Expr{
		"groups-60000":     FromGBNF("root ::= " + strings.Repeat("(", 60000) + "a" + strings.Repeat(")", 60000)),
		"gbnf-stars":       FromGBNF(`root ::= ((("a"*)*)*)* "b"`),
		"gbnf-nested":      FromGBNF(`root ::= ((("a"{1,100}){1,100}){1,100}){1,100}`),
		"gbnf-chain":       FromGBNF(gbnfChain(9000)),
		"gbnf-ambiguous":   FromGBNF("root ::= s\ns ::= \"a\" s \"b\"? | \"a\" s | \"a\""),
		"gbnf-two-parses":  FromGBNF("root ::= e\ne ::= \"a\" | \"(\" e \")\" | \"a\" e e | \"a\" e"),
		"regex-stars":      FromRegex(`(a*)*(a*)*b`),
		"regex-anchor":     FromRegex(`^+`),
		"regex-count":      FromRegex(`(a{1,1000}){1,1000}`),
		"regex-dfa":        FromRegex(`(a|b)*a(a|b){20}`),
		"regex-wide":       FromRegex(`(.*a.{20})|(.*b.{25})`),
		"regex-dots":       FromRegex(`.{0,900}.{0,900}.{0,100}`),
		"regex-optional":   FromRegex(`(a?){1000}a{1000}`),
		"regex-alternate":  FromRegex(strings.Repeat("(a|aa|", 60) + "b" + strings.Repeat(")*", 60)),
		"max-length":       schema(`{"type":"string","maxLength":100000000}`),
		"min-length":       schema(`{"type":"string","minLength":1000000}`),
		"beyond":           schema(`{"type":"string","maxLength":1e30}`),
		"pattern-dfa":      pattern(`^(a|b)*a(a|b){18}$`, `,"maxLength":100`),
		"pattern-search":   pattern(`(x+x+)+y`, ``),
		"pattern-unicode":  pattern(`^(\p{L}|\p{N}|\p{M}){1,100}$`, `,"minLength":3`),
		"pattern-classes":  pattern(`[\p{L}][\p{N}].*[\p{Lu}][\p{Ll}]`, `,"maxLength":300`),
		"format-length":    schema(`{"type":"string","format":"uri","minLength":100,"maxLength":500}`),
		"max-items":        schema(`{"type":"array","items":{"type":"object"},"maxItems":1000000}`),
		"counts-in-counts": schema(`{"type":"array","items":{"type":"array","items":{"type":"string","maxLength":5000},"maxItems":5000},"minItems":4000}`),
		"all-of-any-of":    schema(`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"anyOf":[{"minimum":1},{"maximum":2},{"type":"string"},{"required":["a"]},{"required":["b"]}]},`, 12), ",") + `]}`),
		"one-of-tower":     schema(tower("oneOf", 8)),
		"not-tower":        schema(tower("not", 20)),
		"enum-twice":       schema(`{"allOf":[` + bigEnum(5000) + `,` + bigEnum(4000) + `]}`),
		"properties":       schema(manyProperties(3000, `"minProperties":5`)),
		"properties-count": schema(manyProperties(1000, `"maxProperties":500`)),
		"refs":             schema(refChain(3000)),
		"choices":          FromChoices(strings.Split(strings.Repeat("abc,abd,", 20000), ",")),
		"number-bound":     schema(`{"type":"number","minimum":1e-300,"maximum":1e300}`),
		"multiple":         schema(`{"type":"integer","multipleOf":4999,"minimum":3,"maximum":1e17}`),
		"multiple-huge":    schema(`{"type":"integer","multipleOf":1000003}`),
	}
	return m
}

func gbnfChain(n int) string {
	var b strings.Builder
	b.WriteString("root ::= r0\n")
	for i := 0; i < n; i++ {
		fmt.Fprintf(&b, "r%d ::= \"x\" r%d\n", i, i+1)
	}
	fmt.Fprintf(&b, "r%d ::= \"y\"\n", n)
	return b.String()
}

func tower(keyword string, n int) string {
	t := `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}`
	for i := 0; i < n; i++ {
		if keyword == "not" {
			t = `{"not":` + t + `}`
			continue
		}
		t = fmt.Sprintf(`{"%s":[{"type":"object","properties":{"x%d":%s},"required":["x%d"]},{"type":"object","properties":{"y%d":%s}}]}`, keyword, i, t, i, i, t)
	}
	return t
}

func bigEnum(n int) string {
	var w []string
	for i := 0; i < n; i++ {
		w = append(w, fmt.Sprintf(`"w%d"`, i))
	}
	return `{"enum":[` + strings.Join(w, ",") + `]}`
}

func manyProperties(n int, more string) string {
	var w []string
	for i := 0; i < n; i++ {
		w = append(w, fmt.Sprintf(`"p%d":{"type":"integer"}`, i))
	}
	return `{"type":"object","properties":{` + strings.Join(w, ",") + `},` + more + `}`
}

func refChain(n int) string {
	var w []string
	for i := 0; i < n; i++ {
		w = append(w, fmt.Sprintf(`"d%d":{"type":"object","properties":{"n":{"$ref":"#/$defs/d%d"}}}`, i, (i+1)%n))
	}
	return `{"$defs":{` + strings.Join(w, ",") + `},"$ref":"#/$defs/d0"}`
}

// threadTime is the processor time of this thread: what counts on a busy
// machine.
func threadTime() time.Duration {
	var u syscall.Rusage
	const thisThread = 1
	if err := syscall.Getrusage(thisThread, &u); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestPathological(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, e := range pathological() {
		start := threadTime()
		c, err := NewCompiler(sharedVocab, Options{Deadline: time.Minute}).Compile(context.Background(), e)
		compiled := threadTime() - start
		if compiled > 2*time.Second {
			t.Errorf("%s: compiling took %v", name, compiled)
		}
		if err != nil {
			t.Logf("%s: %v: %.200v", name, compiled.Round(time.Millisecond), err)
			continue
		}
		rng := rand.New(rand.NewPCG(1, 2))
		m := c.NewMatcher()
		bits := make([]uint32, MaskWords(c.v.Size()))
		worst := time.Duration(0)
		steps := 0
		for ; steps < 20; steps++ {
			at := threadTime()
			m.Mask(bits)
			worst = max(worst, threadTime()-at)
			var ids []int32
			for i := int32(0); int(i) < c.v.Size(); i++ {
				if bits[i>>5]&(1<<(i&31)) != 0 && !c.v.end(i) {
					ids = append(ids, i)
				}
			}
			if len(ids) == 0 {
				if !m.Complete() {
					t.Errorf("%s: dead end", name)
				}
				break
			}
			if err := m.Accept(ids[rng.IntN(len(ids))]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		t.Logf("%s: compiled in %v (%d steps, %d instructions); %d tokens, worst mask %v, table %d KiB", name, compiled.Round(time.Millisecond), c.work, len(c.t.p.insts), steps, worst.Round(time.Microsecond), c.t.bytes>>10)
	}
}
