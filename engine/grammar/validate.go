package grammar

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"hearth/engine/infer"
)

// Validate checks a finished text against a JSON Schema with a library that
// shares nothing with this package's own reading of the schema. It is run after
// generation: what fails here is a fault of ours, or a text that was cut.
//
// The error is CodeInternal and names the schema's keyword that failed, never
// anything of the text.
func Validate(schema json.RawMessage, text string) error {
	s, err := compileOracle(schema, ownRegexp)
	if err != nil {
		return infer.Errorf(infer.CodeInternal, "the answer's schema cannot be used to validate it")
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return infer.Errorf(infer.CodeInternal, "the answer is not complete JSON")
	}
	if err := s.Validate(v); err != nil {
		return infer.Errorf(infer.CodeInternal, "the answer does not satisfy its schema%s", keywordOf(err))
	}
	return nil
}

func compileOracle(schema json.RawMessage, engine jsonschema.RegexpEngine) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if engine != nil {
		c.UseRegexpEngine(engine)
	}
	const url = "mem:///schema.json"
	if err := c.AddResource(url, withNull(doc)); err != nil {
		return nil, err
	}
	return c.Compile(url)
}

// keywordOf is where in the schema the first fault lies.
func keywordOf(err error) string {
	var e *jsonschema.ValidationError
	if !errors.As(err, &e) {
		return ""
	}
	for len(e.Causes) > 0 {
		e = e.Causes[0]
	}
	_, at, _ := strings.Cut(e.SchemaURL, "#")
	return " at #" + at + " " + strings.Join(e.ErrorKind.KeywordPath(), "/")
}

// noLoader keeps references inside the document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, errors.New("no remote schemas") }

// withNull spells OpenAPI's nullable out, which the library does not know.
func withNull(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = withNull(x)
		}
		if v["nullable"] == true {
			switch t := v["type"].(type) {
			case string:
				v["type"] = []any{t, "null"}
			case []any:
				has := false
				for _, x := range t {
					has = has || x == "null"
				}
				if !has {
					v["type"] = append(t, "null")
				}
			}
		}
	case []any:
		for i, x := range v {
			v[i] = withNull(x)
		}
	}
	return v
}

// ownRegexp reads patterns as the grammar does.
func ownRegexp(pattern string) (jsonschema.Regexp, error) {
	b := newBudget(context.Background(), maxWork, time.Second)
	re, err := parseRegex(pattern, b)
	if err != nil {
		return nil, err
	}
	d, err := re.search(b)
	if err != nil {
		return nil, err
	}
	return dfaRegexp{d, pattern}, nil
}

type dfaRegexp struct {
	d       *dfa
	pattern string
}

func (r dfaRegexp) MatchString(s string) bool { return r.d.match(s) }
func (r dfaRegexp) String() string            { return r.pattern }
