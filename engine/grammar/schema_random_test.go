package grammar

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hearth/engine/infer"
)

// schemaMaker makes random schemas of all keywords, with small numbers so that
// they meet each other.
type schemaMaker struct{ *rand.Rand }

func (g schemaMaker) pick(xs ...string) string { return xs[g.IntN(len(xs))] }

func (g schemaMaker) value(depth int) string {
	switch g.IntN(8) {
	case 0:
		return "null"
	case 1:
		return g.pick("true", "false")
	case 2, 3:
		return g.pick("0", "1", "2", "-1", "1.5", "10", "3e1")
	case 4:
		if depth > 0 {
			return "[" + g.value(depth-1) + "]"
		}
	case 5:
		if depth > 0 {
			return `{"` + g.pick("a", "b", "c") + `":` + g.value(depth-1) + `}`
		}
	}
	return `"` + g.pick("", "a", "b", "ab", "x1", "é") + `"`
}

func (g schemaMaker) list(depth, n int) string {
	var out []string
	for i := 0; i < n; i++ {
		out = append(out, g.schema(depth))
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (g schemaMaker) props(depth int) string {
	var out []string
	for _, n := range []string{"a", "b", "c", "x1"} {
		if g.IntN(2) == 0 {
			out = append(out, fmt.Sprintf("%q:%s", n, g.schema(depth)))
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

func (g schemaMaker) schema(depth int) string {
	if depth <= 0 || g.IntN(12) == 0 {
		return g.pick("true", "{}", `{"type":"string"}`, `{"type":"integer"}`, `{"type":"boolean"}`, `{"type":"null"}`, `{"type":"number"}`, `{"enum":["a","b"]}`, `{"$ref":"#/$defs/d"}`)
	}
	d := depth - 1
	num := func() string { return g.pick("0", "1", "2", "3") }
	keywords := []func() string{
		func() string {
			return `"type":"` + g.pick("string", "integer", "number", "array", "object", "object", "boolean", "null") + `"`
		},
		func() string {
			return `"type":["` + g.pick("string", "integer", "null") + `","` + g.pick("object", "array", "number") + `"]`
		},
		func() string { return `"enum":[` + g.value(1) + "," + g.value(2) + "," + g.value(0) + "]" },
		func() string { return `"const":` + g.value(1) },
		func() string {
			return `"minimum":` + g.pick("0", "1", "-3", "0.5") + `,"maximum":` + g.pick("3", "10", "2.25")
		},
		func() string { return `"exclusiveMinimum":` + g.pick("0", "1.5") },
		func() string { return `"multipleOf":` + g.pick("2", "3", "0.5", "0.1") },
		func() string { return `"maxLength":` + num() },
		func() string { return `"minLength":` + num() },
		func() string {
			return `"pattern":"` + g.pick("^a", "b$", "^[a-c]{1,3}$", "x", "^(ab)*$", "^[^a]*$") + `"`
		},
		func() string { return `"format":"` + g.pick("date", "ipv4", "uuid", "email") + `"` },
		func() string { return `"items":` + g.schema(d) },
		func() string { return `"prefixItems":` + g.list(d, 1+g.IntN(2)) },
		func() string { return `"minItems":` + num() + `,"maxItems":` + g.pick("2", "3", "5") },
		func() string { return `"contains":` + g.schema(d) + `,"maxItems":4` },
		func() string { return `"contains":` + g.schema(d) + `,"minContains":1,"maxContains":2,"maxItems":4` },
		func() string { return `"uniqueItems":true` },
		func() string { return `"properties":` + g.props(d) },
		func() string { return `"properties":` + g.props(d) + `,"additionalProperties":false` },
		func() string { return `"required":["` + g.pick("a", "b", "z") + `"]` },
		func() string { return `"additionalProperties":` + g.schema(d) },
		func() string { return `"patternProperties":{"` + g.pick("^a", "1$", "b") + `":` + g.schema(d) + "}" },
		func() string {
			return `"propertyNames":` + g.pick(`{"maxLength":2}`, `{"enum":["a","b","q"]}`, `{"pattern":"^[a-z]*$"}`)
		},
		func() string { return `"minProperties":` + g.pick("0", "1", "2") },
		func() string { return `"maxProperties":` + g.pick("1", "2", "3") },
		func() string { return `"dependentRequired":{"a":["b"]}` },
		func() string { return `"dependentSchemas":{"b":` + g.schema(d) + "}" },
		func() string { return `"unevaluatedProperties":` + g.pick("false", `{"type":"integer"}`) },
		func() string { return `"unevaluatedItems":false` },
		func() string { return `"anyOf":` + g.list(d, 1+g.IntN(3)) },
		func() string { return `"oneOf":` + g.list(d, 1+g.IntN(3)) },
		func() string { return `"allOf":` + g.list(d, 1+g.IntN(2)) },
		func() string { return `"not":` + g.schema(d) },
		func() string { return `"if":` + g.schema(d) + `,"then":` + g.schema(d) + `,"else":` + g.schema(d) },
		func() string { return `"$ref":"#/$defs/d"` },
	}
	seen := map[string]bool{}
	var out []string
	for i := 0; i < 1+g.IntN(3); i++ {
		k := keywords[g.IntN(len(keywords))]()
		name, _, _ := strings.Cut(k, ":")
		if !seen[name] {
			seen[name] = true
			out = append(out, k)
		}
	}
	return "{" + strings.Join(out, ",") + "}"
}

func (g schemaMaker) document() string {
	s := g.schema(3)
	if strings.HasPrefix(s, "{") && len(s) > 2 {
		return `{"$defs":{"d":` + g.schema(2) + `},` + s[1:]
	}
	return `{"$defs":{"d":` + g.schema(2) + `},"allOf":[` + s + `]}`
}

// TestRandomSchemas composes keywords at random. Each schema is refused by name
// or gives texts that the oracle accepts; what the oracle accepts of some small
// values is not called contradictory.
func TestRandomSchemas(t *testing.T) {
	n, from := 150, 0
	if s := os.Getenv("GRAMMAR_RANDOM"); s != "" {
		a, b, _ := strings.Cut(s, "+")
		from, _ = strconv.Atoi(a)
		n, _ = strconv.Atoi(b)
	}
	honoured, contradictory := 0, 0
	reasons := map[string]int{}
	for i := from; i < from+n; i++ {
		g := schemaMaker{testRand(1000 + i)}
		s := g.document()
		oracle, err := compileOracle(json.RawMessage(s), nil)
		if err != nil {
			continue // for instance a reference to itself
		}
		c, err := testCompiler(sharedVocab).Compile(context.Background(), FromSchema(json.RawMessage(s), SchemaOptions{}))
		if err != nil {
			var e *infer.Error
			if !errors.As(err, &e) || e.Code != infer.CodeInvalid {
				t.Errorf("%d: %s: %v", i, s, err)
				continue
			}
			if !strings.Contains(e.Message, "contradictory") {
				reasons[reasonOf(e.Message)]++
				continue
			}
			contradictory++
			for k := 0; k < 60; k++ {
				text := g.value(2)
				if v, err := jsonschema.UnmarshalJSON(strings.NewReader(text)); err == nil && oracle.Validate(v) == nil {
					t.Errorf("%d: %s: called contradictory, but %s satisfies it: %v", i, s, text, e)
					break
				}
			}
			continue
		}
		honoured++
		for k := 0; k < 3; k++ {
			text := randomWalk(t, c, g.Rand, 20)
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err == nil {
				err = oracle.Validate(v)
			}
			if err != nil {
				t.Errorf("%d: %s: walk gave %s: %v", i, s, text, err)
				break
			}
		}
	}
	t.Logf("%d schemas: %d honoured, %d contradictory, refused: %v", n, honoured, contradictory, reasons)
}

// reasonOf is an error message without places and names.
func reasonOf(m string) string {
	a, b, _ := strings.Cut(m, " at #")
	if _, c, ok := strings.Cut(b, ": "); ok {
		return a + ": " + c
	}
	return m
}
