package grammar

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hearth/engine/infer"
)

// schemaCase is a schema with texts that it must accept and refuse. The walks
// and the oracle check the rest.
type schemaCase struct {
	schema string
	good   []string
	bad    []string
}

func (sc schemaCase) run(t *testing.T, seed, walks int) {
	t.Helper()
	oracle, err := compileOracle(json.RawMessage(sc.schema), nil)
	if err != nil {
		t.Fatalf("oracle: %s: %v", sc.schema, err)
	}
	c, err := testCompiler(sharedVocab).Compile(context.Background(), FromSchema(json.RawMessage(sc.schema), SchemaOptions{}))
	if err != nil {
		t.Errorf("%s: %v", sc.schema, err)
		return
	}
	rng := testRand(seed)
	valid := func(s string) bool {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(s))
		return err == nil && oracle.Validate(v) == nil
	}
	for _, s := range sc.good {
		if !valid(s) {
			t.Errorf("%s: the oracle refuses %s", sc.schema, s)
		}
		if !accepts(t, c, rng, s) {
			t.Errorf("%s: %s is refused", sc.schema, s)
		}
	}
	for _, s := range sc.bad {
		if valid(s) {
			t.Errorf("%s: the oracle accepts %s", sc.schema, s)
		}
		if accepts(t, c, rng, s) {
			t.Errorf("%s: %s is accepted", sc.schema, s)
		}
	}
	for i := 0; i < walks; i++ {
		s := randomWalk(t, c, rng, 5+rng.IntN(60))
		if !valid(s) {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(s))
			if err == nil {
				err = oracle.Validate(v)
			}
			t.Errorf("%s: walk gave %s: %v", sc.schema, s, err)
		}
		if err := Validate(json.RawMessage(sc.schema), s); err != nil {
			t.Errorf("%s: walk gave %s: %v", sc.schema, s, err)
		}
	}
}

func TestSchemas(t *testing.T) {
	for i, sc := range schemaCases {
		sc.run(t, i, 6)
	}
	t.Logf("%d schemas", len(schemaCases))
}

func TestSchemaRefused(t *testing.T) {
	for _, tc := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"a":{"type":"strnig"}},"required":["a"]}`, "type at #/properties/a"},
		{`{"type":5}`, "type at #"},
		{`{"properties":{"a":{"pattern":"([a-z"}}}`, "pattern at #/properties/a"},
		{`{"$ref":"#/$defs/nowhere"}`, "$ref at #"},
		{`{"$ref":"http://localhost:9/schema.json"}`, "$ref at #"},
		{`{"type":"object","properties":{"a":{"type":"integer","minimum":9,"maximum":3}},"required":["a"]}`, "minimum"},
		{`{"enum":[]}`, "enum at #"},
		{`"object"`, "a schema must be"},
		{`{`, "not valid JSON"},
		{"\"\xff\"", "not valid UTF-8"},
		{`false`, "contradictory"},
		{`{"not":{}}`, "contradictory"},
		{`{"allOf":[{"type":"string"},{"type":"integer"}]}`, "allOf"},
		{`{"type":"string","minLength":5,"maxLength":2}`, "minLength/maxLength"},
		{`{"type":"string","pattern":"^a+$","maxLength":0}`, "pattern"},
		{`{"type":"string","pattern":"^(ab)+$","minLength":3,"maxLength":3}`, "pattern"},
		{`{"type":"integer","minimum":1,"maximum":2,"multipleOf":5}`, "multipleOf"},
		{`{"type":"object","required":["a"],"additionalProperties":false}`, "required"},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":false,"minProperties":2}`, "minProperties"},
		{`{"type":"object","minProperties":3}`, "minProperties"},
		{`{"type":"array","items":{"type":"string"},"uniqueItems":true}`, "uniqueItems at #"},
		{`{"type":"array","minItems":3,"maxItems":2}`, "minItems"},
		{`{"type":"array","items":false,"minItems":1}`, "contradictory"},
		{`{"type":"string","pattern":"(?=a)b"}`, "pattern"},
		{`{"type":"string","pattern":"^(([a-c]{1,200}b{1,200}){1,200}c){1,200}$"}`, "pattern at #"},
		{`{"type":"string","format":"regex"}`, "format"},
		{`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"}`, "$ref"},
		{`{"$defs":{"a":{"type":"object","properties":{"n":{"$ref":"#/$defs/a"}},"required":["n"]}},"$ref":"#/$defs/a"}`, "contradictory"},
		{`{"minLength":-1}`, "minLength"}, {`{"maxItems":1.5}`, "maxItems"}, {`{"required":"a"}`, "required"}, {`{"properties":[]}`, "properties"},
		{`{"anyOf":[]}`, "anyOf"}, {`{"anyOf":{}}`, "anyOf"}, {`{"multipleOf":0}`, "multipleOf"}, {`{"minimum":"1"}`, "minimum"}, {`{"uniqueItems":1}`, "uniqueItems"},
		{`{"$dynamicRef":"#x"}`, "$dynamicRef"},
		{`{"type":"array","contains":{"const":1},"allOf":[{"contains":{"const":2}}]}`, "contains"},
		{`{"type":"array","contains":{"const":1},"maxItems":1000}`, "contains"},
		{`{"not":{"propertyNames":{"maxLength":3}}}`, "not"},
		{`{"oneOf":[{"type":"object","patternProperties":{"a":{"type":"integer"}}},{"type":"object","patternProperties":{"b":{"type":"number"}}}]}`, "oneOf"},
		{strings.Repeat(`{"not":`, 100) + `{}` + strings.Repeat(`}`, 100), "nested"},
	} {
		start := time.Now()
		e := FromSchema(json.RawMessage(tc.schema), SchemaOptions{Param: "response_format", Subject: `tool "f"`})
		_, err := testCompiler(sharedVocab).Compile(context.Background(), e)
		if err == nil {
			t.Errorf("%.90s is accepted", tc.schema)
			continue
		}
		if ie := infer.AsError(err); ie.Code != infer.CodeInvalid || ie.Param != "response_format" || !strings.HasPrefix(ie.Message, `tool "f": `) || !strings.Contains(ie.Message, tc.want) {
			t.Errorf("%.90s: %v, want %q", tc.schema, err, tc.want)
		}
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%.90s took %v", tc.schema, d)
		}
	}
}

func TestWhitespaceIsBounded(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"],"additionalProperties":false}`)
	rng := testRand(5)
	for _, tc := range []struct {
		ws        int
		good, bad []string
	}{
		{0, []string{`{"a":[1,2]}`, `{"a": [1, 2]}`}, []string{`{"a":  [1]}`, `{ "a":[1]}`, ` {"a":[1]}`, `{"a":[1]} `, "{\"a\":\n[1]}", `{"a" :[1]}`}},
		{NoWhitespace, []string{`{"a":[1,2]}`}, []string{`{"a": [1,2]}`, `{"a":[1, 2]}`}},
		{3, []string{`{"a":   [1,  2]}`}, []string{`{"a":    [1]}`}},
	} {
		c := mustCompile(t, FromSchema(schema, SchemaOptions{Whitespace: tc.ws}))
		for _, s := range tc.good {
			if !accepts(t, c, rng, s) {
				t.Errorf("whitespace %d: %q is refused", tc.ws, s)
			}
		}
		for _, s := range tc.bad {
			if accepts(t, c, rng, s) {
				t.Errorf("whitespace %d: %q is accepted", tc.ws, s)
			}
		}
	}
}

func TestJSONObject(t *testing.T) {
	c := mustCompile(t, FromJSONObject())
	rng := testRand(6)
	for _, s := range []string{`{}`, `{"a":1}`, `{"a": {"b": [1, 2.5e3, null, true, "x\u00e9\ud83d\ude00\/"]}}`, `{"名前":"😀"}`, `{"a":-0.5}`} {
		if !accepts(t, c, rng, s) {
			t.Errorf("%s is refused", s)
		}
	}
	for _, s := range []string{``, `[]`, `{"a"}`, `{"a":1,}`, `{"a":01}`, `{"a":"\ud83d"}`, `{"a":"\ud83dx"}`, "{\"a\":\"\n\"}", "{\"a\":\"\xff\"}", `{a:1}`, `{"a":.5}`, `{"a":+1}`, `{"a":NaN}`, `{"a":"\x"}`} {
		if accepts(t, c, rng, s) {
			t.Errorf("%s is accepted", s)
		}
	}
	for i := 0; i < 60; i++ {
		s := randomWalk(t, c, rng, 80)
		var v map[string]any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Errorf("walk gave %s: %v", s, err)
		}
	}
}

func TestNeedObject(t *testing.T) {
	c := mustCompile(t, FromSchema(nil, SchemaOptions{NeedObject: true}))
	rng := testRand(7)
	if !accepts(t, c, rng, `{}`) || accepts(t, c, rng, `1`) {
		t.Error("NeedObject does not narrow the root to objects")
	}
	e := Sequence(Literal(`<tool_call>{"name":"f","arguments":`), FromSchema(json.RawMessage(`{"type":"object","properties":{"cmd":{"const":"</tool_call>"}},"required":["cmd"]}`), SchemaOptions{}), Literal(`}</tool_call>`))
	c = mustCompile(t, Triggered(0, Unbounded, Trigger{Text: "<tool_call>", Then: Sequence(Literal(`{"name":"f","arguments":`), FromSchema(json.RawMessage(`{"type":"object","properties":{"cmd":{"const":"</tool_call>"}},"required":["cmd"],"additionalProperties":false}`), SchemaOptions{}), Literal("}</tool_call>"))}))
	for _, c := range []*Compiled{mustCompile(t, e), c} {
		if s := `<tool_call>{"name":"f","arguments":{"cmd":"</tool_call>"}}</tool_call>`; !accepts(t, c, rng, s) {
			t.Errorf("%s is refused", s)
		}
	}
}

func TestBestEffort(t *testing.T) {
	comp := testCompiler(sharedVocab)
	rng := testRand(12)
	for _, tc := range []struct{ schema, good, bad string }{
		{`{"type":"object","properties":{"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true}},"required":["tags"],"additionalProperties":false}`, `{"tags":["a","a"]}`, `{"tags":[1]}`},
		{`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=x)y$"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}`, `{"a":"z","b":1}`, `{"a":"z","b":"1"}`},
		{`{"type":"object","minProperties":3,"additionalProperties":{"type":"integer"}}`, `{"a":1}`, `{"a":"x"}`},
		{`{"type":"object","properties":{"a":{"oneOf":[{"type":"object","patternProperties":{"x":{"type":"integer"}}},{"type":"object","patternProperties":{"y":{"type":"number"}}}]}},"required":["a"]}`, `{"a":{"x":1}}`, `{"a":1}`},
		{`{"type":"object","properties":{"a":{"not":{"propertyNames":{"maxLength":3}}}},"required":["a"]}`, `{"a":{}}`, `{}`},
		{`{"type":"object","properties":{"a":{"type":"array","contains":{"const":1},"items":{"type":"integer"}},"b":{"type":"integer","multipleOf":1000003}},"required":["a","b"],"maxProperties":2}`, `{"a":[1],"b":5}`, `{"a":["x"],"b":5}`},
		{`{"type":"object","properties":{"a":{"format":"regex","type":"string"}},"required":["a"]}`, `{"a":"x"}`, `{"a":1}`},
	} {
		e := FromSchema(json.RawMessage(tc.schema), SchemaOptions{BestEffort: true})
		c, err := comp.Compile(context.Background(), e)
		if err != nil {
			t.Errorf("%s: %v", tc.schema, err)
			continue
		}
		if !accepts(t, c, rng, tc.good) || accepts(t, c, rng, tc.bad) {
			t.Errorf("%s: want %s accepted and %s refused", tc.schema, tc.good, tc.bad)
		}
	}
	for _, s := range []string{`{"pattern":"([a-z"}`, `{"type":"strnig"}`, `{"$ref":"#/nowhere"}`, `{"type":"integer","minimum":5,"maximum":4}`, `{"enum":[]}`} {
		if _, err := comp.Compile(context.Background(), FromSchema(json.RawMessage(s), SchemaOptions{BestEffort: true})); infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("%s is accepted: %v", s, err)
		}
	}
}

func FuzzSchema(f *testing.F) {
	for _, sc := range schemaCases {
		f.Add(sc.schema)
	}
	f.Add(`{"enum":[1,1.0,"a",{"a":[{}]}]}`)
	comp := NewCompiler(sharedVocab, Options{StateBytes: 1 << 20, CacheEntries: 1, Deadline: time.Minute})
	f.Fuzz(func(t *testing.T, s string) {
		c, err := comp.Compile(context.Background(), FromSchema(json.RawMessage(s), SchemaOptions{}))
		if err != nil {
			return
		}
		text, ok := boundedWalk(t, c, testRand(len(s)), 12, 5000)
		if !ok {
			return
		}
		oracle, err := compileOracle(json.RawMessage(s), ownRegexp)
		if err != nil {
			return // for instance a member that only the library minds
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: walk gave %s: %v", s, text, err)
		}
		if err := oracle.Validate(v); err != nil {
			t.Fatalf("%s: walk gave %s: %v", s, text, err)
		}
	})
}
