package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// Bounds of the JSON in a token. What two readers could read differently, a
// member that comes twice or text that is no Unicode, is refused.
const (
	maxDepth   = 8
	maxMembers = 1024
)

var errJSON = errors.New("cannot read the JSON of a token")

// readObject reads one JSON object, with numbers as they are written.
func readObject(b []byte) (map[string]any, error) {
	if !utf8.Valid(b) {
		return nil, errJSON
	}
	r := &strictReader{d: json.NewDecoder(bytes.NewReader(b))}
	r.d.UseNumber()
	v, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := r.d.Token(); !errors.Is(err, io.EOF) {
		return nil, errJSON
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errJSON
	}
	return m, nil
}

type strictReader struct {
	d    *json.Decoder
	seen int // members and elements
}

func (r *strictReader) value(depth int) (any, error) {
	t, err := r.d.Token()
	if err != nil || depth > maxDepth {
		return nil, errJSON
	}
	if r.seen++; r.seen > maxMembers {
		return nil, errJSON
	}
	switch t := t.(type) {
	case json.Delim:
		switch t {
		case '{':
			return r.object(depth)
		case '[':
			return r.array(depth)
		}
		return nil, errJSON
	case string:
		if !whole(t) {
			return nil, errJSON
		}
	}
	return t, nil
}

func (r *strictReader) object(depth int) (any, error) {
	m := map[string]any{}
	for r.d.More() {
		t, err := r.d.Token()
		name, ok := t.(string)
		if err != nil || !ok || !whole(name) {
			return nil, errJSON
		}
		if _, twice := m[name]; twice {
			return nil, errJSON
		}
		if m[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return m, r.end()
}

func (r *strictReader) array(depth int) (any, error) {
	a := []any{}
	for r.d.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		a = append(a, v)
	}
	return a, r.end()
}

// end reads the bracket that closes.
func (r *strictReader) end() error {
	if _, err := r.d.Token(); err != nil {
		return errJSON
	}
	return nil
}

// whole refuses what the decoder has put for half a character, and NUL.
func whole(s string) bool { return !strings.ContainsAny(s, "\ufffd\x00") }
