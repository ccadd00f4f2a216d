package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
)

// document is the API as OpenAPI 3.1, made from the operations.
func (s *Server) document() []byte {
	d := documenter{schemas: map[string]any{}, names: map[reflect.Type]string{}}
	paths := map[string]any{}
	for _, op := range s.opt.Operations.All() {
		if op.Path == "" {
			continue
		}
		at, _ := paths[op.Path].(map[string]any)
		if at == nil {
			at = map[string]any{}
			paths[op.Path] = at
		}
		at[strings.ToLower(op.Method)] = d.operation(op)
	}
	d.schemas["Error"] = map[string]any{"type": "object", "required": []string{"error"}, "properties": map[string]any{"error": d.schema(reflect.TypeFor[Fault]())}}
	b, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Hearth admin API", "version": s.opt.Version,
			"description": "The control plane of a Hearth appliance. Every operation asks for a role; what changes something stands in the audit trail. Money is in nano-dollars, names that end in _ns are nanoseconds."},
		"servers":  []any{map[string]any{"url": apiPrefix}},
		"security": []any{map[string]any{"token": []string{}}, map[string]any{"session": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"schemas": d.schemas,
			"securitySchemes": map[string]any{
				"token":   map[string]any{"type": "http", "scheme": "bearer", "description": "an API token of the control plane"},
				"session": map[string]any{"type": "apiKey", "in": "cookie", "name": cookieName},
			},
		},
	}, "", " ")
	if err != nil {
		panic("BUG: the API cannot be described: " + err.Error())
	}
	return b
}

type documenter struct {
	schemas map[string]any
	names   map[reflect.Type]string
}

// rolesOf lists who may.
func rolesOf(a Access) []string {
	var out []string
	for _, r := range Roles() {
		if a.Allows(r) {
			out = append(out, string(r))
		}
	}
	return out
}

func (d *documenter) operation(op *Operation) map[string]any {
	o := map[string]any{
		"operationId": strings.ReplaceAll(op.Name, "/", "_"),
		"summary":     op.Summary,
		"tags":        []string{strings.Split(op.Name, "/")[0]},
		"x-roles":     rolesOf(op.Access),
	}
	inPath := pathNames(op.Path)
	var params []any
	for _, name := range inPath {
		t, _ := field(op.In, name)
		params = append(params, map[string]any{"name": name, "in": "path", "required": true, "schema": d.schema(t)})
	}
	if op.Method == http.MethodGet {
		for _, f := range fieldsOf(op.In) {
			if !slices.Contains(inPath, f.name) {
				params = append(params, map[string]any{"name": f.name, "in": "query", "schema": d.schema(f.t)})
			}
		}
	} else if op.In.Kind() == reflect.Struct && len(fieldsOf(op.In)) > len(inPath) {
		o["requestBody"] = map[string]any{"content": map[string]any{"application/json": map[string]any{"schema": d.schema(op.In)}}}
	}
	if len(params) > 0 {
		o["parameters"] = params
	}
	ok := map[string]any{"description": "done"}
	if op.Stream == nil {
		ok["content"] = map[string]any{"application/json": map[string]any{"schema": d.schema(op.Out)}}
	} else {
		ok["content"] = map[string]any{"application/octet-stream": map[string]any{}}
	}
	o["responses"] = map[string]any{
		"200":     ok,
		"default": map[string]any{"description": "not done", "content": map[string]any{"application/json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Error"}}}},
	}
	return o
}

type jsonField struct {
	name     string
	t        reflect.Type
	optional bool
}

// fieldsOf lists a struct's fields as encoding/json sees them.
func fieldsOf(t reflect.Type) []jsonField {
	var out []jsonField
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case f.Anonymous && name == "":
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			out = append(out, fieldsOf(ft)...)
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			out = append(out, jsonField{name, f.Type, strings.Contains(rest, "omit")})
		}
	}
	return out
}

// schema describes a type as JSON Schema; structs are named once.
func (d *documenter) schema(t reflect.Type) map[string]any {
	if t == nil {
		return map[string]any{}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == timeType:
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "integer", "description": "nanoseconds"}
	case t == rawType:
		return map[string]any{}
	case reflect.PointerTo(t).Implements(textType):
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": d.schema(t.Elem())}
	case reflect.Struct:
		return d.object(t)
	case reflect.Interface:
		return map[string]any{}
	}
	return map[string]any{"type": "integer"}
}

func (d *documenter) object(t reflect.Type) map[string]any {
	if name, ok := d.names[t]; ok && name != "" {
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	name := t.Name()
	if i := strings.IndexByte(name, '['); i >= 0 {
		name = name[:i]
	}
	if name != "" {
		name = strings.ToUpper(name[:1]) + name[1:]
		for taken := slices.Collect(maps.Values(d.names)); slices.Contains(taken, name); {
			name += "_"
		}
		d.names[t] = name
	}
	props, required := map[string]any{}, []string{}
	for _, f := range fieldsOf(t) {
		props[f.name] = d.schema(f.t)
		if !f.optional {
			required = append(required, f.name)
		}
	}
	o := map[string]any{"type": "object", "properties": props}
	if len(required) > 0 {
		slices.Sort(required)
		o["required"] = required
	}
	if name == "" {
		return o
	}
	d.schemas[name] = o
	return map[string]any{"$ref": "#/components/schemas/" + name}
}
