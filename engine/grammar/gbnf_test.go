package grammar

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

const gbnfJSON = `# JSON
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
`

func TestGBNFWalks(t *testing.T) {
	for _, tc := range []struct{ gbnf, re string }{
		{`root ::= [0-9] [0-9] [0-9] [0-9] "-" [A-Z] [A-Z]`, `[0-9]{4}-[A-Z]{2}`},
		{"root ::= a b? # comment\na ::= \"x\"+\nb ::= \"y\" | \"z\" {2,3}", `x+(y|z{2,3})?`},
		{"root ::= (\"a\" | \"b\")* \"c\"", `(a|b)*c`},
		{"root ::= \"ä\"{0,2} [^a-z]{,3} .", `ä{0,2}[^a-z]{0,3}(?s:.)`},
		{"root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\\"\\\\\"", "Aé😀\n\t\"\\\\"},
		{"root ::= x\n  | y\nx ::= \"1\"\ny ::= \"2\"\n", `1|2`},
		{"root ::= e\ne ::= e \"+\" t | t\nt ::= [0-9]+", `[0-9]+(\+[0-9]+)*`},
		{"root ::= [a\\]\\-z]+ \"\"", `[a\]\-z]+`},
		{"root ::= ws \"a\" ws\nws ::= | \" \" ws", ` *a *`},
		{"root::=\"a\"{3}", `aaa`},
		{"root ::= [a-c]{1,500}", `[a-c]{1,500}`},
		{"root ::= ((\"a\"*)*)* \"b\"", `a*b`},
	} {
		c := mustCompile(t, FromGBNF(tc.gbnf))
		re := regexp.MustCompile(`^(?:` + tc.re + `)$`)
		rng := testRand(8)
		for i := 0; i < 25; i++ {
			s := randomWalk(t, c, rng, rng.IntN(10))
			if !re.MatchString(s) {
				t.Errorf("%s: walk gave %q", tc.gbnf, s)
			}
			b := []byte(s)
			if len(b) > 0 {
				b[rng.IntN(len(b))] = "ab1cA-+"[rng.IntN(7)]
			}
			if want := re.Match(b) && strings.ToValidUTF8(string(b), "") == string(b); accepts(t, c, rng, string(b)) != want {
				t.Errorf("%s: %q: want %v", tc.gbnf, b, want)
			}
		}
	}
}

func TestGBNFJSON(t *testing.T) {
	c := mustCompile(t, FromGBNF(gbnfJSON))
	rng := testRand(9)
	for i := 0; i < 40; i++ {
		s := randomWalk(t, c, rng, 60)
		if !json.Valid([]byte(s)) {
			t.Errorf("walk gave %q", s)
		}
	}
	for _, s := range []string{`{}`, `{"a": [1, {"b": null}], "c":"x\u00e9"}`, "{\n  \"a\": true}"} {
		if !accepts(t, c, rng, s) {
			t.Errorf("%q is refused", s)
		}
	}
}

func TestGBNFRecursion(t *testing.T) {
	c := mustCompile(t, FromGBNF("root ::= \"(\" root \")\" root | \"\""))
	rng := testRand(10)
	deep := strings.Repeat("(", 300) + strings.Repeat(")", 300)
	for _, s := range []string{"", "()", "()(())", deep} {
		if !accepts(t, c, rng, s) {
			t.Errorf("%.20q is refused", s)
		}
	}
	for _, s := range []string{"(", ")", "(()", deep + ")"} {
		if accepts(t, c, rng, s) {
			t.Errorf("%.20q is accepted", s)
		}
	}
}

func TestGBNFRefused(t *testing.T) {
	for text, want := range map[string]string{
		"root ::= (":                     "( is not closed at line 1:10",
		"root ::= a\nb ::= \"x\"":        `undefined rule "a" at line 1:10`,
		"root ::= \"x\n\"":               "not closed on its line at line 1:10",
		"a ::= \"x\"":                    "no rule named root",
		"":                               "no rule named root",
		"root ::= \"a\"\nroot ::= \"b\"": "defined twice at line 2:1",
		"root ::= [z-a]":                 "range",
		"root ::= \"a\"{3,1}":            "minimum",
		"root ::= \"a\"{x}":              "want {m}",
		"root ::= *":                     "nothing to repeat",
		"root = \"a\"":                   "want ::=",
		"root ::= \"a\" )":               "unexpected",
		"root ::= a\na ::= b \"x\"\nb ::= a | \"y\"": "left recursion",
		"root ::= \"a\" root":                        "no text can satisfy",
		"root ::= <tok>":                             "unexpected",
		"root ::= \"\\q\"":                           "unknown escape",
		"root ::= x{9999}\nx ::= \"a\" | \"aa\"":     "cannot repeat this 9999 times",
		"root ::= []":                                "class is empty",
		"root ::= \"\xff\"":                          "UTF-8",
	} {
		_, err := testCompiler(sharedVocab).Compile(context.Background(), FromGBNF(text))
		if e := infer.AsError(err); err == nil || e.Code != infer.CodeInvalid || e.Param != "grammar" || !strings.Contains(e.Message, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzGBNF(f *testing.F) {
	f.Add(gbnfJSON)
	f.Add("root ::= e\ne ::= e \"+\" t | t\nt ::= [0-9]+ | \"(\" e \")\"")
	f.Add("root ::= (\"a\"{0,3} | [^b]){2}")
	f.Add("root ::= ((((a))))\na ::= . \"\\x41\"*")
	comp := NewCompiler(sharedVocab, Options{StateBytes: 1 << 20, CacheEntries: 1, Deadline: time.Minute})
	f.Fuzz(func(t *testing.T, s string) {
		c, err := comp.Compile(context.Background(), FromGBNF(s))
		if err != nil {
			return
		}
		boundedWalk(t, c, testRand(len(s)), 8, 2000)
	})
}
