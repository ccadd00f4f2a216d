package anthropic

import (
	"maps"
	"net/http"
	"slices"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// Client speaks the Messages format to a provider. Its paths begin with /v1: the
// base URL is the bare host, as in the API's own SDKs.
type Client struct{}

var (
	_ wire.Client      = Client{}
	_ wire.CountClient = Client{}
)

// version is sent where the caller names none. Under it sampling parameters are
// legal, which the typed fields may carry.
const version = "2023-06-01"

// defaultMaxTokens is how long an answer may be where neither the request nor
// the target says; the API demands a bound.
const defaultMaxTokens = 4096

// Dialect implements wire.Client.
func (Client) Dialect() string { return Name }

// EncodeRequest implements wire.Client.
func (Client) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/v1/messages", Stream: r.Stream, Header: header(r.Wire)}
	if r.Wire != nil && r.Wire.Dialect == Name {
		body, ok := splice(r.Wire.Body, replaced(r.Wire, t))
		if !ok {
			return nil, infer.Invalid("", "cannot pass the request on: its body is not an object")
		}
		o.Body, o.Native = body, true
		return o, nil
	}
	body, err := encode(r, t)
	o.Body = body
	return o, err
}

// EncodeCount implements wire.CountClient.
func (Client) EncodeCount(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/v1/messages/count_tokens", Header: header(r.Wire)}
	body := []byte(nil)
	if r.Wire != nil && r.Wire.Dialect == Name {
		var ok bool
		if body, ok = splice(r.Wire.Body, replaced(r.Wire, t)); !ok {
			return nil, infer.Invalid("", "cannot count the request: its body is not an object")
		}
		o.Native = true
	} else {
		var err error
		if body, err = encode(r, t); err != nil {
			return nil, err
		}
	}
	o.Body = countBody(body)
	return o, nil
}

// DecodeCount implements wire.CountClient.
func (Client) DecodeCount(body []byte) (promptTokens int, err error) {
	var c jsonread.Cursor
	c.Reset(body)
	n, found := int64(0), false
	for ok := c.Object(); ok && c.More(); {
		if string(c.Key()) == "input_tokens" {
			n, found = c.Int()
		} else {
			c.Skip()
		}
	}
	if !c.End() || !found || n < 0 {
		return 0, malformed("a count without input_tokens")
	}
	return int(n), nil
}

// header is what of the request head goes to the provider: version and betas as
// the caller wrote them.
func header(w *infer.Wire) http.Header {
	h := http.Header{"Anthropic-Version": {version}}
	if w == nil || w.Dialect != Name {
		return h
	}
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta"} {
		if v := w.Header[name]; len(v) > 0 {
			h[name] = slices.Clone(v)
		}
	}
	return h
}

// countable are the members that count_tokens takes; others are an error there.
var countable = map[string]bool{
	"model": true, "messages": true, "system": true, "tools": true, "tool_choice": true, "thinking": true, "output_config": true,
	"output_format": true, "cache_control": true, "mcp_servers": true, "context_management": true, "speed": true,
	"user_profile_id": true, "workspace_id": true,
}

// countBody is a request for an answer without what concerns the answer alone.
func countBody(body []byte) []byte {
	var c jsonread.Cursor
	c.Reset(body)
	dst := []byte{'{'}
	for ok := c.Object(); ok && c.More(); {
		key := c.Key()
		value := c.Raw()
		if !countable[string(key)] {
			continue
		}
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), key...), `":`...)
		dst = append(dst, value...)
	}
	return append(dst, '}')
}

// memberText is a top-level member that is put into a body.
type memberText struct {
	key   string
	value []byte
}

// replaced are the members that differ from what the caller wrote: the model's
// name, and what policy has set.
func replaced(w *infer.Wire, t wire.Target) []memberText {
	set := make([]memberText, 0, 1+len(w.Set))
	if t.Model != "" {
		set = append(set, memberText{"model", jsonwrite.String(nil, t.Model)})
	}
	for _, key := range slices.Sorted(maps.Keys(w.Set)) {
		if key != "model" || t.Model == "" {
			set = append(set, memberText{key, w.Set[key]})
		}
	}
	return set
}

// splice returns a copy of body, one JSON object, in which the members of set
// stand in place of its own of the same name, or at its end. Every other byte
// stays as it is.
func splice(body []byte, set []memberText) ([]byte, bool) {
	var c jsonread.Cursor
	c.Reset(body)
	if k, ok := c.Kind(); !ok || k != jsonread.Object || !c.Object() {
		return nil, false
	}
	size := len(body)
	for _, m := range set {
		size += len(m.key) + len(m.value) + 4
	}
	dst := make([]byte, 0, size)
	done, from, any := make([]bool, len(set)), 0, false
	for c.More() {
		any = true
		key := c.Key()
		value := c.Raw()
		for i, m := range set {
			if c.OK() && (string(key) == m.key || jsonread.Unescape(key) == m.key) {
				dst = append(dst, body[from:c.Offset()-len(value)]...)
				dst = append(dst, m.value...)
				from, done[i] = c.Offset(), true
			}
		}
	}
	last := c.Offset() - 1 // the closing brace
	if !c.End() {
		return nil, false
	}
	dst = append(dst, body[from:last]...)
	for i, m := range set {
		if done[i] {
			continue
		}
		if any {
			dst = append(dst, ',')
		}
		any = true
		dst = append(append(append(dst, '"'), m.key...), `":`...)
		dst = append(dst, m.value...)
	}
	return append(dst, body[last:]...), true
}
