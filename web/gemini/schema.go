package gemini

import (
	"bytes"
	"encoding/json"
	"strings"

	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
)

// jsonSchema writes a Schema of the API, which is a subset of OpenAPI 3.0, as
// JSON Schema: types in small letters, nullable as a second type, numbers that
// came as strings as numbers.
func jsonSchema(v jsonread.Value) (json.RawMessage, error) {
	if v.Kind() != jsonread.Object {
		return nil, v.Wrong("a schema, which is an object")
	}
	return appendSchema(nil, v)
}

// schemaNames are the members whose name in JSON Schema differs.
var schemaNames = map[string]string{"defs": "$defs", "ref": "$ref", "example": "examples"}

func appendSchema(dst []byte, v jsonread.Value) ([]byte, error) {
	if v.Kind() != jsonread.Object {
		return dst, v.Wrong("a schema, which is an object")
	}
	nullable := false
	if err := members(v, func(key string, m jsonread.Value) (err error) {
		if key == "nullable" {
			nullable, err = m.Bool()
		}
		return err
	}); err != nil {
		return dst, err
	}
	dst = append(dst, '{')
	first := true
	typed := false
	err := members(v, func(key string, m jsonread.Value) (err error) {
		if key == "nullable" || key == "propertyOrdering" {
			return nil
		}
		name := key
		if n, ok := schemaNames[key]; ok {
			name = n
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(jsonwrite.String(dst, name), ':')
		typed = typed || key == "type"
		dst, err = appendMember(dst, key, m, nullable)
		return err
	})
	if err == nil && nullable && !typed {
		if !first {
			dst = append(dst, ',')
		}
		dst = append(dst, `"nullable":true`...)
	}
	return append(dst, '}'), err
}

// appendMember appends the value of one member of a schema.
func appendMember(dst []byte, key string, m jsonread.Value, nullable bool) ([]byte, error) {
	switch key {
	case "type":
		return appendType(dst, m, nullable)
	case "items":
		if m.Kind() == jsonread.Object {
			return appendSchema(dst, m)
		}
	case "additionalProperties":
		if m.Kind() == jsonread.Object {
			return appendSchema(dst, m)
		}
	case "anyOf", "oneOf", "allOf", "prefixItems":
		dst = append(dst, '[')
		err := m.Items(1024, func(i int, s jsonread.Value) (err error) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst, err = appendSchema(dst, s)
			return err
		})
		return append(dst, ']'), err
	case "properties", "defs", "$defs":
		dst = append(dst, '{')
		n := 0
		err := m.Members(func(name string, s jsonread.Value) (err error) {
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = append(jsonwrite.String(dst, name), ':')
			dst, err = appendSchema(dst, s)
			return err
		})
		return append(dst, '}'), err
	case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
		n, err := integer(m, 0, 1<<53)
		return jsonwrite.Int(dst, n), err
	case "example":
		return append(append(append(dst, '['), m.Raw()...), ']'), nil
	}
	return append(dst, m.Raw()...), nil
}

// appendType appends a type, which is a word here and may be a list in JSON
// Schema that comes in this place.
func appendType(dst []byte, m jsonread.Value, nullable bool) ([]byte, error) {
	if m.Kind() == jsonread.Array {
		return append(dst, m.Raw()...), nil
	}
	s, err := m.Str()
	if err != nil {
		return dst, err
	}
	if s = strings.ToLower(s); s == "type_unspecified" {
		return append(dst, `["string","number","integer","boolean","array","object","null"]`...), nil
	}
	if !nullable {
		return jsonwrite.String(dst, s), nil
	}
	dst = jsonwrite.String(append(dst, '['), s)
	return append(dst, `,"null"]`...), nil
}

// compact is raw without the space between its tokens; raw itself if it has none.
func compact(raw []byte) []byte {
	if !bytes.ContainsAny(raw, " \t\r\n") {
		return raw
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
