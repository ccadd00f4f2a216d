package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"hearth/policy"
)

// Key is one key of the file with all that is known of it: from the struct that
// holds it, from the checks, and from the sample, which explains it.
type Key struct {
	// Path has a pair of brackets behind each array of tables: tenant[].budget[].cap_usd.
	Path string `json:"path"`
	// Type is "table", "array of tables", "text", "list of text", "whole number",
	// "number", "true or false", "duration", "size", "US dollars" or "text by name".
	Type     string   `json:"type"`
	Required bool     `json:"required,omitempty"`
	Default  any      `json:"default,omitempty"` // nil: none of its own
	Choices  []string `json:"choices,omitempty"`
	Low      any      `json:"low,omitempty"`
	High     any      `json:"high,omitempty"`
	Zero     bool     `json:"zero,omitempty"`    // 0 is allowed beside low to high
	Example  string   `json:"example,omitempty"` // as the sample has it
	Doc      string   `json:"doc"`
}

// Name is the last part of the path.
func (k *Key) Name() string {
	p := strings.TrimSuffix(k.Path, "[]")
	return p[strings.LastIndexByte(p, '.')+1:]
}

// Types of keys.
const (
	TypeTable  = "table"
	TypeTables = "array of tables"
	TypeText   = "text"
	TypeList   = "list of text"
	TypeInt    = "whole number"
	TypeFloat  = "number"
	TypeBool   = "true or false"
	TypeSpan   = "duration"
	TypeSize   = "size"
	TypeMoney  = "US dollars"
	TypeTexts  = "text by name"
)

// Keys lists every key in the order of the structs, tables before what is in
// them. sample is the commented file that comes with the appliance.
func Keys(sample []byte) []Key {
	k := keyLister{said: readSample(string(sample)), asked: map[string]*policy.Constraint{}, missing: map[string]bool{}}
	probe := &Config{}
	for _, kind := range k.probe(probe, "") { // learn the kinds, then what each of them asks
		k.probe(&Config{}, kind)
	}
	k.walk("", reflect.ValueOf(probe).Elem())
	return k.keys
}

type keyLister struct {
	keys    []Key
	said    map[string]said               // by path
	asked   map[string]*policy.Constraint // by path without indexes
	missing map[string]bool               // paths that may not be empty
}

// probe fills c with one element in every list and has it checked. It gives the
// kinds that tables may have.
func (k *keyLister) probe(c *Config, kind string) []string {
	c.Server.setDefaults()
	fill(reflect.ValueOf(c).Elem(), kind)
	c.fillEmpty()
	f := &Faults{seen: func(b policy.Constraint) { k.learn(b) }}
	for _, b := range c.Config.Constraints() {
		k.learn(b)
	}
	c.validate(f)
	for _, x := range f.List {
		if kind == "" {
			k.missing[plainPath(x.Key)] = true
		}
	}
	var kinds []string
	for path, b := range k.asked {
		if strings.HasSuffix(path, ".kind") {
			kinds = append(kinds, b.Choices...)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// fill puts one element into each empty list of v, with its defaults.
func fill(v reflect.Value, kind string) {
	if d, ok := v.Addr().Interface().(defaulter); ok {
		d.setDefaults()
	}
	for i := range v.NumField() {
		f, t := v.Field(i), v.Type().Field(i)
		switch {
		case t.Tag.Get("toml") == "kind" && f.Kind() == reflect.String && kind != "":
			f.SetString(kind)
		case isText(f.Type()):
		case f.Kind() == reflect.Struct:
			fill(f, kind)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			fill(f.Index(0), kind)
		case f.Kind() == reflect.Slice && f.Len() == 0 && kind != "":
			f.Set(reflect.MakeSlice(f.Type(), 1, 1)) // for what is asked of its elements
		}
	}
}

// learn notes what a check asks, and joins what is asked of one key in several
// kinds of a table.
func (k *keyLister) learn(b policy.Constraint) {
	path := plainPath(b.Path)
	have := k.asked[path]
	if have == nil {
		own := b
		own.Choices = slices.Clone(b.Choices)
		k.asked[path] = &own
		return
	}
	for _, c := range b.Choices {
		if !slices.Contains(have.Choices, c) {
			have.Choices = append(have.Choices, c)
		}
	}
}

var indexes = regexp.MustCompile(`\[[0-9]+\]`)

func plainPath(path string) string { return indexes.ReplaceAllString(path, "") }

// walk lists the keys of a table.
func (k *keyLister) walk(at string, v reflect.Value) {
	eachField(v, func(name string, f reflect.Value) {
		path := join(at, name)
		key := Key{Path: path, Type: typeName(f.Type())}
		plain := strings.ReplaceAll(path, "[]", "")
		s := k.said[plain]
		key.Doc, key.Example = s.doc, s.value
		switch key.Type {
		case TypeTable:
			k.keys = append(k.keys, key)
			k.walk(path, f)
			return
		case TypeTables:
			key.Path += "[]"
			k.keys = append(k.keys, key)
			k.walk(key.Path, f.Index(0))
			return
		}
		if b := k.asked[plain]; b != nil {
			key.Choices, key.Zero = b.Choices, b.Zero
			key.Low, key.High = inUnits(b.Low), inUnits(b.High)
		}
		optional := strings.Contains(s.doc, "Empty: ") || strings.Contains(s.doc, "Default") || slices.Contains(alternatives, plain)
		key.Required = strings.Contains(path, "[]") && k.missing[plain] && !optional && f.IsZero() && key.Type != TypeInt
		if !key.Required && f.Kind() != reflect.Pointer || f.Kind() == reflect.Pointer && name == "eject_after" {
			key.Default = defaultOf(f)
		}
		if low, ok := key.Low.(int); ok && key.Default == 0 && low > 0 {
			key.Zero = true // left out, in kinds of the table that do not have it
		}
		if n := len(key.Choices); n > 0 && key.Default == "" && !slices.Contains(key.Choices, "") {
			key.Choices = append(key.Choices[:n:n], "")
		}
		k.keys = append(k.keys, key)
	})
}

// alternatives are keys that may be empty where another one is set.
var alternatives = []string{"identity.tenant"}

// defaultOf is the default as it stands in a file; an empty list as such.
func defaultOf(f reflect.Value) any {
	switch {
	case f.Kind() == reflect.Slice && (f.Len() == 0 || f.Len() == 1 && f.Index(0).IsZero()):
		return []any{}
	case f.Kind() == reflect.Map && f.Len() == 0:
		return map[string]any{}
	}
	if typeName(f.Type()) == TypeSpan {
		return shortSpan(time.Duration(f.Int()))
	}
	return leafOf(f)
}

func inUnits(v any) any {
	if d, ok := v.(time.Duration); ok {
		return shortSpan(d)
	}
	return v
}

// shortSpan writes a duration without parts that are zero.
func shortSpan(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func typeName(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(textType) {
		switch t.Name() {
		case "Duration":
			return TypeSpan
		case "Size":
			return TypeSize
		case "NanoUSD":
			return TypeMoney
		}
		return TypeText
	}
	switch t.Kind() {
	case reflect.Struct:
		return TypeTable
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return TypeTables
		}
		return TypeList
	case reflect.Map:
		return TypeTexts
	case reflect.Bool:
		return TypeBool
	case reflect.Int, reflect.Int64:
		return TypeInt
	case reflect.Float64:
		return TypeFloat
	case reflect.String:
		return TypeText
	}
	panic(fmt.Sprintf("BUG: configuration field of type %s", t))
}

// said is what the sample says of a key or a table.
type said struct{ doc, value string }

var (
	sampleHeader = regexp.MustCompile(`^#?\[\[?([a-z_.]+)\]\]?$`)
	sampleKey    = regexp.MustCompile(`^#?([a-z_0-9]+) = (.*)$`)
)

// readSample finds the comment above each key and each header. Keys that follow on
// one another without a comment share the one above the first.
func readSample(text string) map[string]said {
	out := map[string]said{}
	table, shared := "", ""
	var block []string
	put := func(path, value string) {
		doc := strings.Join(block, "\n")
		if doc == "" {
			doc = shared
		}
		if doc == "" && value != "" {
			doc = out[table].doc // the table explains its keys
		}
		if _, known := out[path]; !known || out[path].doc == "" {
			out[path] = said{doc, value}
		}
		shared, block = doc, nil
	}
	for _, l := range strings.Split(text, "\n") {
		l = strings.TrimRight(l, "\r")
		if m := sampleHeader.FindStringSubmatch(l); m != nil {
			put(m[1], "")
			table, shared = m[1], ""
		} else if m := sampleKey.FindStringSubmatch(l); m != nil {
			put(join(table, m[1]), m[2])
		} else if c, ok := strings.CutPrefix(l, "#"); ok {
			block = append(block, strings.TrimPrefix(c, " "))
		} else {
			block, shared = nil, ""
		}
	}
	return out
}
