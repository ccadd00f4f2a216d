package config

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"strings"
)

//go:embed schema.json
var schemaJSON []byte

// Schema is the JSON Schema (draft 2020-12) of the file, for editors. It is
// generated; a test holds it to the structs, the checks and the sample.
func Schema() []byte { return schemaJSON }

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		k, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(k)
		b.WriteByte(':')
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// Patterns of text with a unit.
const (
	spanPattern  = `^(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+$`
	sizePattern  = `^[0-9]+ *(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)?$`
	moneyPattern = `^[0-9]+(\.[0-9]{1,9})?$`
)

// MakeSchema generates the schema.
func MakeSchema(sample []byte) ([]byte, error) {
	keys := Keys(sample)
	root := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "Hearth: the one configuration file (appliance.toml)"},
	}
	root = append(root, tableSchema(keys, "")...)
	raw, err := root.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// tableSchema describes the table whose keys begin with prefix.
func tableSchema(keys []Key, prefix string) object {
	var props object
	var required []string
	for i := range keys {
		k := &keys[i]
		rest, ok := strings.CutPrefix(k.Path, prefix)
		if !ok || strings.Contains(strings.TrimSuffix(rest, "[]"), ".") || rest == "" {
			continue
		}
		props = append(props, member{k.Name(), keySchema(keys, k)})
		if k.Required {
			required = append(required, k.Name())
		}
	}
	out := object{{"type", "object"}, {"additionalProperties", false}, {"properties", props}}
	if required != nil {
		out = append(out, member{"required", required})
	}
	return out
}

func keySchema(keys []Key, k *Key) object {
	out := object{}
	if k.Doc != "" {
		out = append(out, member{"description", k.Doc})
	}
	switch k.Type {
	case TypeTable:
		return append(out, tableSchema(keys, k.Path+".")...)
	case TypeTables:
		return append(out, member{"type", "array"}, member{"items", tableSchema(keys, k.Path+".")})
	case TypeTexts:
		values := object{{"type", "string"}}
		if k.Choices != nil {
			values = append(values, member{"enum", k.Choices})
		}
		out = append(out, member{"type", "object"}, member{"additionalProperties", values})
	case TypeList:
		items := object{{"type", "string"}}
		if k.Choices != nil {
			items = append(items, member{"enum", k.Choices})
		}
		out = append(out, member{"type", "array"}, member{"items", items})
	case TypeBool:
		out = append(out, member{"type", "boolean"})
	case TypeInt:
		out = append(out, member{"type", "integer"})
		out = append(out, limits(k)...)
	case TypeFloat:
		out = append(out, member{"type", "number"})
	case TypeSpan:
		out = append(out, member{"type", "string"}, member{"pattern", spanPattern})
	case TypeSize:
		out = append(out, member{"type", "string"}, member{"pattern", sizePattern})
	case TypeMoney:
		out = append(out, member{"type", "string"}, member{"pattern", moneyPattern})
	default:
		out = append(out, member{"type", "string"})
		if k.Choices != nil {
			out = append(out, member{"enum", k.Choices})
		}
	}
	if k.Default != nil {
		out = append(out, member{"default", k.Default})
	}
	return out
}

func limits(k *Key) object {
	if k.Low == nil {
		return nil
	}
	low := k.Low
	if k.Zero {
		low = 0
	}
	return object{{"minimum", low}, {"maximum", k.High}}
}
