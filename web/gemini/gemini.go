// Package gemini speaks the Gemini API's wire format in both directions: as a
// server (generateContent, streamGenerateContent, countTokens, embedContent,
// batchEmbedContents and the model list), and as a client of Google's service or
// of Vertex AI.
//
// The format is protocol buffers in JSON (ProtoJSON): every name may be written
// in lowerCamelCase or as the .proto file has it, null means absent, 64-bit
// numbers may be strings, and bytes are base64 in either alphabet. Requests are
// decoded leniently: what infer.Request has no place for is noted as a Use and
// is for the route to judge.
//
// Sources: the reference of the v1beta REST API at ai.google.dev/api and the
// published Python client's types.
package gemini

import (
	"encoding/base64"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// Name is the name of the dialect in infer.Wire.
const Name = "gemini"

// Bounds of one request; see package openai for their reasons.
const (
	maxContents  = 4096
	maxParts     = 4096 // of one content
	maxTools     = 256  // entries of tools, and functions in all
	maxToolName  = 128
	maxStops     = 64 // Google takes 5
	maxStopBytes = 1024
	maxTokens    = 1 << 20
	maxChoices   = 128 // candidates; Google takes 8
	maxLogprobs  = 20
	maxSafety    = 64
	maxEmbeds    = 2048 // inputs of one batch
	maxText      = 64 << 20
	maxShort     = 4096     // bytes of a name or an id
	maxUses      = 1 << 14  // noted fields of one request
	maxOpen      = maxTools // calls whose results are looked for
)

// camel is a member's name in lowerCamelCase.
func camel(key string) string {
	if strings.IndexByte(key, '_') <= 0 {
		return key
	}
	out := make([]byte, 0, len(key))
	up := false
	for i := 0; i < len(key); i++ {
		c := key[i]
		switch {
		case c == '_':
			up = true
			continue
		case up && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		up = false
		out = append(out, c)
	}
	return string(out)
}

// members calls f for each member that is not null, with its name in
// lowerCamelCase. The same name in both spellings is refused, as a name that
// comes twice is.
func members(v jsonread.Value, f func(key string, m jsonread.Value) error) error {
	var count map[string]int // of each name, made when the first is spelled otherwise
	return v.Members(func(key string, m jsonread.Value) error {
		name := camel(key)
		if name != key {
			if count == nil {
				count = map[string]int{}
				_ = v.Members(func(k string, _ jsonread.Value) error { count[camel(k)]++; return nil })
			}
			if count[name] > 1 {
				return m.Errorf("cannot use %s: the member comes in both spellings", m.Path())
			}
		}
		if m.IsNull() {
			return nil
		}
		return f(name, m)
	})
}

// each calls f for the items of an array; a single object counts as an array of
// one, as Google's server has it.
func each(v jsonread.Value, most int, f func(m jsonread.Value) error) error {
	if v.Kind() == jsonread.Object {
		return f(v)
	}
	return v.Items(most, func(_ int, m jsonread.Value) error { return f(m) })
}

// bytesOf decodes base64 in either alphabet, with or without padding.
func bytesOf(v jsonread.Value) ([]byte, error) {
	s, err := v.Str()
	if err != nil {
		return nil, err
	}
	b, ok := unbase64(s)
	if !ok {
		return nil, v.Errorf("cannot use %s: its base64 is broken", v.Path())
	}
	return b, nil
}

func unbase64(s string) ([]byte, bool) {
	s = strings.TrimRight(s, "=")
	enc := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.RawURLEncoding
	}
	b, err := enc.DecodeString(s)
	return b, err == nil
}

// str reads a string of at most most bytes.
func str(dst *string, v jsonread.Value, most int) error {
	s, err := v.Str()
	if err == nil && len(s) > most {
		return v.Errorf("cannot use %s: got %d bytes, wanted at most %d", v.Path(), len(s), most)
	}
	if err == nil {
		*dst = s
	}
	return err
}

// integer reads a whole number, which may be a string.
func integer(v jsonread.Value, lo, hi int64) (int64, error) {
	if v.Kind() == jsonread.String {
		s, err := v.Str()
		if err != nil {
			return 0, err
		}
		n, perr := jsonread.Parse([]byte(s), jsonread.Limits{Depth: 1})
		if perr != nil {
			return 0, v.Wrong("a whole number")
		}
		i, perr := n.Int(lo, hi)
		if perr != nil {
			return 0, v.Wrong("a whole number in range")
		}
		return i, nil
	}
	return v.Int(lo, hi)
}

// word reads an enumeration's name without its prefix, in capitals.
func word(v jsonread.Value) (string, error) {
	s, err := v.Str()
	if err == nil && len(s) > maxShort {
		err = v.Wrong("a short word")
	}
	return strings.ToUpper(s), err
}

// decoder collects one request. What depends on several members is settled at
// the end.
type decoder struct {
	r      *infer.Request
	hide   bool            // thoughts are not wanted in the answer
	detail string          // of every image that has none of its own
	ranked *jsonread.Value // logprobs
	open   []openCall
	calls  int
	hosted []string // paths of hosted tools
	// validated holds every call to its schema.
	validated bool
	mime      jsonread.Value
	schema    jsonread.Value // responseSchema
	json      jsonread.Value // responseJsonSchema
	has       struct{ mime, schema, json, contents bool }
}

// openCall is a call of a model turn whose result has not been seen.
type openCall struct{ id, name string }

// use notes a field.
func (d *decoder) use(f infer.Feature, v jsonread.Value) { d.useAt(f, v.Path()) }

func (d *decoder) useAt(f infer.Feature, path string) {
	switch n := len(d.r.Uses); {
	case n < maxUses:
		d.r.Uses = append(d.r.Uses, infer.Use{Feature: f, Path: path})
	case n == maxUses: // what is not noted from here on must not pass for harmless
		d.r.Uses = append(d.r.Uses, infer.Use{Feature: infer.FeatureUnknown, Path: path})
	}
}

// unknown notes a field that nothing here stands for.
func (d *decoder) unknown(v jsonread.Value) error {
	d.use(infer.FeatureUnknown, v)
	return nil
}
