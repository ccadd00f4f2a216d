package identity

import (
	"encoding/json"
	"strings"
)

// facts are what is known of a caller once it has proved who it is.
type facts interface {
	// values gives what stands under a name; nil: nothing, or nothing that can be
	// compared.
	values(name string) []string
}

// maxValues bounds what stands under one name.
const maxValues = 1024

// claims are the facts of a token.
type claims struct {
	members map[string]any
	path    string // of the SPIFFE ID; empty: it is none
}

func (c *claims) values(name string) []string {
	if name == "spiffe" && c.path != "" {
		return []string{c.path}
	}
	v, ok := lookup(c.members, name)
	if !ok {
		return nil
	}
	if s, text := v.(string); text && (name == "scope" || name == "scp") {
		return clipped(strings.Fields(s)) // RFC 8693 section 4.2
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) > maxValues {
		return nil
	}
	var out []string
	for _, e := range list {
		s, ok := scalar(e)
		if !ok {
			return nil // a list of which a part cannot be read says nothing
		}
		out = append(out, s)
	}
	return out
}

func clipped(list []string) []string {
	if len(list) > maxValues {
		return nil
	}
	return list
}

func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", false
}

// lookup finds a member by its whole name, else by a dotted path.
func lookup(m map[string]any, name string) (any, bool) {
	if v, ok := m[name]; ok {
		return v, true
	}
	first, rest, dotted := strings.Cut(name, ".")
	inner, ok := m[first].(map[string]any)
	if !dotted || !ok {
		return nil, false
	}
	return lookup(inner, rest)
}

// attributes are the facts of a certificate.
type attributes map[string][]string

func (a attributes) values(name string) []string { return a[name] }
