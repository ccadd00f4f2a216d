package grammar

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

var goodPatterns = []string{
	`abc`, `a*`, `a+b?`, `(a|b)*c`, `[a-f]{2,5}`, `[^a-z]`, `\d{4}-\d{2}`, `\w+@\w+\.(com|org)`, `(?:ab){3}`,
	`^a$`, `^a|b$`, `^(a|^b)$`, `a{0}`, `a{0,0}b`, `(a{1,3}b){2,4}`, `x?y??z*?`, `é+`, `[à-ü]{1,3}`, `[😀-😄]`, `.`, `.{3}`, `(a*)*`, `(a|ab)(c|bcd)(d*)`,
	`\p{Lu}\p{Ll}*`, `\x41\u0042`, `[\]\-\\]`, `\.\*\+`, `(?<year>\d\d)`, `[a-z]{1,300}`, `(a?){10}`, `(a*b*)*`, ``, `()`, `a||b`, `{a}`, `a{x}`, `[a-]`, `\/x`,
	`(a{0,20}){0,30}`, `(a|b)*a(a|b){12}`, `[0-9]{4}-[A-Z]{2}`,
}

func TestRegexAgainstGo(t *testing.T) {
	rng := testRand(4)
	for _, p := range goodPatterns {
		c := mustCompile(t, FromRegex(p))
		g := p
		for from, to := range map[string]string{`\u0042`: `B`, `(?<`: `(?P<`, `a{x}`: `a\{x\}`, `{a}`: `\{a\}`} {
			g = strings.ReplaceAll(g, from, to)
		}
		re := regexp.MustCompile(`^(?:` + g + `)$`)
		for i := 0; i < 20; i++ {
			s := randomWalk(t, c, rng, rng.IntN(12))
			if !re.MatchString(s) {
				t.Errorf("%s: walk gave %q", p, s)
			}
			b := []byte(s)
			if len(b) > 0 { // a neighbour, to see that both refuse alike
				b[rng.IntN(len(b))] = "ab1cé-Z"[rng.IntN(7)]
			}
			if want := re.Match(b) && strings.ToValidUTF8(string(b), "") == string(b); accepts(t, c, rng, string(b)) != want {
				t.Errorf("%s: %q: want %v", p, b, want)
			}
		}
	}
}

func TestRegexRefused(t *testing.T) {
	for p, want := range map[string]string{
		`([0-9`: "not closed", `(a`: "( is not closed", `a)`: "unmatched )", `*a`: "nothing to repeat", `^+`: "after an anchor", `a**`: "quantifier after a quantifier",
		`a++`: "quantifier after a quantifier", `(?=a)b`: "look-ahead", `(?!a)`: "look-ahead", `(?<=a)`: "look-behind", `(a)\1`: "back reference", `\bword\b`: `\b`,
		`(?i)a`: "flags", `[z-a]`: "range", `\`: "backslash", `a{3,1}`: "minimum", `a^b`: "inside the pattern", `\q`: "unknown escape", `[[:alpha:]]`: "POSIX",
		`\p{Nope}`: "property", `((a{1,200}b{1,200}){1,200}c){1,200}`: "multiply", `(ab|c){3000}`: "repeat this 3000", strings.Repeat("(", 60000): "nested", "\xff": "UTF-8",
		`(a*){99999}`: "repeat", `a{99999999999}`: "count", `\ud800`: "surrogate", `\u12`: "hexadecimal",
	} {
		start := time.Now()
		_, err := testCompiler(sharedVocab).Compile(context.Background(), FromRegex(p))
		if err == nil {
			t.Errorf("%.40s is accepted", p)
			continue
		}
		if e := infer.AsError(err); e.Code != infer.CodeInvalid || e.Param != "regex" || !strings.Contains(e.Message, want) {
			t.Errorf("%.40s: %v, want %q", p, err, want)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%.40s took %v", p, d)
		}
	}
}

func FuzzRegex(f *testing.F) {
	for _, p := range goodPatterns {
		f.Add(p)
	}
	f.Add(strings.Repeat("(", 70))
	f.Add(`((a{1,200}b{1,200}){1,200}c){1,200}`)
	comp := NewCompiler(sharedVocab, Options{StateBytes: 1 << 20, CacheEntries: 1, Deadline: time.Minute})
	f.Fuzz(func(t *testing.T, p string) {
		c, err := comp.Compile(context.Background(), FromRegex(p))
		if err != nil {
			return
		}
		boundedWalk(t, c, testRand(len(p)), 8, 2000)
	})
}
