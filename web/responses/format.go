package responses

import (
	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// text reads {format, verbosity}.
func (d *decoder) text(v jsonread.Value) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "format":
			return d.format(m)
		case "verbosity":
			s, err := m.Enum("low", "medium", "high")
			if err == nil && s != "medium" {
				d.r.Hints.Verbosity = s
				d.use(infer.FeatureVerbosity, m.Path())
			}
			return err
		}
		return d.unknown(m)
	})
}

// format reads the constraint of the answer.
func (d *decoder) format(v jsonread.Value) error {
	tv, ok := v.Get("type")
	if !ok {
		return v.Errorf("cannot use %s: got no type", v.Path())
	}
	kind, err := tv.Str()
	if err != nil {
		return err
	}
	switch kind {
	case "text":
		return nil
	case "json_object":
		d.r.Format = infer.Format{Kind: infer.FormatJSONObject, Strict: true}
		d.use(infer.FeatureJSONObject, v.Path())
		return nil
	case "json_schema":
		d.use(infer.FeatureJSONSchema, v.Path())
		return d.schema(v)
	case "grammar": // of the local engine, as its chat route has it
		d.use(infer.FeatureGrammar, v.Path())
		d.r.Format = infer.Format{Kind: infer.FormatGrammar, Strict: true}
		return d.members(v, map[string]*string{"grammar": &d.r.Format.Grammar}, nil)
	}
	return d.unknown(v)
}

func (d *decoder) schema(v jsonread.Value) error {
	f := infer.Format{Kind: infer.FormatJSONSchema}
	about := ""
	src := v
	if in, ok := v.Get("json_schema"); ok && in.Kind() == jsonread.Object { // as chat writes it
		src = in
	}
	err := src.Members(func(key string, m jsonread.Value) (err error) {
		if m.IsNull() {
			return nil
		}
		switch key {
		case "type":
		case "name":
			f.Name, err = label(m)
		case "description":
			about, err = m.Str()
		case "strict":
			f.Strict, err = m.Bool()
		case "schema":
			if m.Kind() != jsonread.Object {
				return m.Wrong("a JSON schema, which is an object")
			}
			f.Schema = m.Clone()
		default:
			return d.unknown(m)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case f.Schema == nil:
		return v.Errorf("cannot use %s: got no schema", v.Path())
	case f.Name == "":
		return v.Errorf("cannot use %s: got no name", v.Path())
	}
	if about != "" {
		f.Schema = describe(f.Schema, about)
	}
	d.r.Format = f
	return nil
}

// describe puts a description into a schema that has none, where models and
// providers look for it.
func describe(schema []byte, about string) []byte {
	v, err := jsonread.Parse(schema, jsonread.Limits{})
	if err != nil {
		return schema
	}
	if _, ok := v.Get("description"); ok {
		return schema
	}
	out := jsonwrite.String([]byte(`{"description":`), about)
	if !v.Empty() {
		out = append(out, ',')
	}
	return append(out, v.Raw()[1:]...)
}
