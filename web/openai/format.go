package openai

import (
	"encoding/json"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// setFormat takes every field that constrains the answer: OpenAI's
// response_format, vLLM's structured_outputs and guided_*, SGLang's regex and
// llama.cpp's grammar and json_schema.
func (d *decoder) setFormat(key string, v jsonread.Value) (known bool, err error) {
	switch key {
	case "response_format":
		return true, d.responseFormat(v)
	case "structured_outputs":
		return true, d.structuredOutputs(v)
	case "guided_json", "json_schema":
		return true, d.schemaFormat(v)
	case "guided_regex", "regex":
		return true, d.regexFormat(v)
	case "guided_grammar", "grammar":
		return true, d.grammarFormat(v)
	case "guided_choice":
		return true, d.choiceFormat(v)
	}
	return false, nil
}

var formatFeature = map[infer.FormatKind]infer.Feature{
	infer.FormatJSONObject: infer.FeatureJSONObject, infer.FormatJSONSchema: infer.FeatureJSONSchema, infer.FormatRegex: infer.FeatureRegex,
	infer.FormatGrammar: infer.FeatureGrammar, infer.FormatChoice: infer.FeatureChoice,
}

// constrain notes that field v sets the format.
func (d *decoder) constrain(v jsonread.Value, f infer.Format) {
	d.r.Format = f
	d.formats = append(d.formats, v.Path())
	d.use(formatFeature[f.Kind], v)
}

func (d *decoder) regexFormat(v jsonread.Value) error {
	var s string
	if err := setString(&s, v, maxPattern); err != nil || v.IsNull() {
		return err
	}
	if s == "" {
		return v.Wrong("a pattern that is not empty")
	}
	d.constrain(v, infer.Format{Kind: infer.FormatRegex, Pattern: s, Strict: true})
	return nil
}

func (d *decoder) grammarFormat(v jsonread.Value) error {
	var s string
	if err := setString(&s, v, maxGrammar); err != nil || v.IsNull() {
		return err
	}
	if s == "" {
		return nil // llama.cpp's clients send an empty grammar for none
	}
	d.constrain(v, infer.Format{Kind: infer.FormatGrammar, Grammar: s, Strict: true})
	return nil
}

func (d *decoder) choiceFormat(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	words, err := v.Strings(maxChoice)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return v.Wrong("an array with at least one string")
	}
	d.constrain(v, infer.Format{Kind: infer.FormatChoice, Choices: words, Strict: true})
	return nil
}

// schemaFormat takes a schema as an object, or as a string that holds one.
func (d *decoder) schemaFormat(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	raw, err := schema(v)
	if err != nil {
		return err
	}
	d.constrain(v, infer.Format{Kind: infer.FormatJSONSchema, Schema: raw, Strict: true})
	return nil
}

func schema(v jsonread.Value) (json.RawMessage, error) {
	if v.Kind() == jsonread.String {
		s, err := v.Str()
		if err != nil {
			return nil, err
		}
		in, err := jsonread.Parse([]byte(s), jsonread.Limits{})
		if err != nil {
			return nil, v.Errorf("cannot use %s: %s", v.Path(), infer.AsError(err).Message)
		}
		if in.Kind() != jsonread.Object {
			return nil, v.Wrong("a JSON schema, which is an object")
		}
		return in.Clone(), nil
	}
	if v.Kind() != jsonread.Object {
		return nil, v.Wrong("a JSON schema, which is an object")
	}
	return v.Clone(), nil
}

func (d *decoder) structuredOutputs(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	return v.Members(func(key string, m jsonread.Value) error {
		switch key {
		case "json":
			return d.schemaFormat(m)
		case "regex":
			return d.regexFormat(m)
		case "grammar":
			return d.grammarFormat(m)
		case "choice":
			return d.choiceFormat(m)
		case "json_object":
			var b bool
			if err := setBool(&b, m); err != nil || !b {
				return err
			}
			d.constrain(m, infer.Format{Kind: infer.FormatJSONObject, Strict: true})
			return nil
		case "disable_fallback":
			var b bool // there is one backend and no fallback either way
			return setBool(&b, m)
		case "disable_any_whitespace", "disable_additional_properties":
			var b bool
			if err := setBool(&b, m); err != nil || !b {
				return err
			}
			return d.lost(infer.FeatureUnknown, m, m.Unsupported("cannot use %s: only false is offered", m.Path()))
		case "whitespace_pattern", "structural_tag", "backend":
			if m.IsNull() {
				return nil
			}
			return d.lost(infer.FeatureUnknown, m, m.Unsupported("cannot use %s: it is not offered", m.Path()))
		}
		return d.unknown(m)
	})
}

// responseFormat reads OpenAI's object, with the types regex and grammar
// beside. llama.cpp's form of json_object with a schema is a schema.
func (d *decoder) responseFormat(v jsonread.Value) error {
	if v.IsNull() {
		return nil
	}
	tv, ok := v.Get("type")
	if !ok {
		if v.Kind() != jsonread.Object {
			return v.Wrong("an object")
		}
		return v.Errorf("cannot use response_format: got no type, wanted text, json_object, json_schema, regex or grammar")
	}
	kind, err := tv.Enum("text", "json_object", "json_schema", "regex", "grammar")
	if err != nil {
		return d.beyond(tv, err)
	}
	own := map[string]string{"json_schema": "json_schema", "regex": "regex", "grammar": "grammar", "json_object": "schema"}[kind]
	var arg *jsonread.Value
	err = v.Members(func(key string, m jsonread.Value) error {
		switch {
		case key == "type":
		case key == own || kind == "regex" && key == "pattern":
			if arg != nil {
				return m.Errorf("cannot use %s: the pattern is given twice", m.Path())
			}
			arg = &m
		case m.IsNull() && (key == "json_schema" || key == "schema" || key == "regex" || key == "grammar"):
		default:
			return d.unknown(m)
		}
		return nil
	})
	switch {
	case err != nil || kind == "text":
		return err
	case kind == "json_object" && (arg == nil || arg.IsNull()):
		d.constrain(v, infer.Format{Kind: infer.FormatJSONObject, Strict: true})
		return nil
	case arg == nil || arg.IsNull():
		return v.Errorf("cannot use response_format of type %s: got no %s", kind, own)
	case kind == "json_object":
		return d.schemaFormat(*arg)
	case kind == "regex":
		return d.regexFormat(*arg)
	case kind == "grammar":
		return d.grammarFormat(*arg)
	}
	return d.jsonSchema(*arg)
}

// jsonSchema reads {"name", "description", "schema", "strict"}.
func (d *decoder) jsonSchema(v jsonread.Value) error {
	f := infer.Format{Kind: infer.FormatJSONSchema}
	var description string
	err := v.Members(func(key string, m jsonread.Value) (err error) {
		switch key {
		case "name":
			if err = setString(&f.Name, m, maxToolName); err == nil && !validName(f.Name) {
				return m.Wrong("a name of letters, digits, '_' and '-'")
			}
			return err
		case "description":
			return setString(&description, m, maxPattern)
		case "schema":
			if m.Kind() != jsonread.Object {
				return m.Wrong("a JSON schema, which is an object")
			}
			f.Schema = m.Clone()
			return nil
		case "strict":
			return setBool(&f.Strict, m)
		}
		return d.unknown(m)
	})
	switch {
	case err != nil:
		return err
	case f.Schema == nil:
		return v.Errorf("cannot use %s: got no schema", v.Path())
	case f.Name == "":
		return v.Errorf("cannot use %s: got no name", v.Path())
	case description != "":
		// The description is for the model's eyes, and the schema's own
		// description is where the engine looks for it.
		if f.Schema, err = describe(f.Schema, description); err != nil {
			return err
		}
	}
	d.constrain(v, f)
	return nil
}

// describe puts a description into a schema that has none.
func describe(raw json.RawMessage, text string) (json.RawMessage, error) {
	v, err := jsonread.Parse(raw, jsonread.Limits{})
	if err != nil {
		return nil, err
	}
	if _, ok := v.Get("description"); ok {
		return raw, nil
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"description":`), quoted...)
	if !v.Empty() {
		out = append(out, ',')
	}
	return append(out, v.Raw()[1:]...), nil
}

// validName tells whether s may name a tool or a schema.
func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.') {
			return false
		}
	}
	return s != ""
}
