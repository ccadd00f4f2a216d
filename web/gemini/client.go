package gemini

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Client asks Google's Gemini API. With the profile "vertex" it asks Vertex AI,
// whose bodies are the same but for embeddings and the count of tokens, and whose
// paths are relative to projects/PROJECT/locations/REGION.
type Client struct{}

var (
	_ wire.Client      = Client{}
	_ wire.EmbedClient = Client{}
	_ wire.CountClient = Client{}
)

// ProfileVertex is the Target.Profile for Vertex AI.
const ProfileVertex = "vertex"

// Dialect implements wire.Client.
func (Client) Dialect() string { return Name }

// path is where verb of the target's model is asked for.
func path(t wire.Target, verb string) string {
	model := t.Model
	if t.Profile == ProfileVertex {
		if !strings.HasPrefix(model, "publishers/") && !strings.HasPrefix(model, "endpoints/") {
			model = "publishers/google/models/" + model
		}
		return "/" + escape(model) + ":" + verb
	}
	if !strings.HasPrefix(model, "models/") && !strings.HasPrefix(model, "tunedModels/") {
		model = "models/" + model
	}
	return "/v1beta/" + escape(model) + ":" + verb
}

// escape writes a model's name for a path; slashes part its segments.
func escape(model string) string {
	parts := strings.Split(model, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// sameName tells whether two spellings of a member's name are one.
func sameName(a, b string) bool { return camel(a) == camel(b) }

// EncodeRequest implements wire.Client.
func (Client) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	if r.Kind != infer.Chat {
		return nil, infer.Errorf(infer.CodeUnsupported, "cannot continue a plain prompt with Gemini: it takes conversations")
	}
	o := &wire.Outgoing{Path: path(t, "generateContent"), Stream: r.Stream}
	if r.Stream {
		o.Path = path(t, "streamGenerateContent?alt=sse")
	}
	if r.Wire != nil && r.Wire.Dialect == Name {
		o.Native = true
		body, ok := nativeBody(r.Wire, t)
		if !ok {
			return nil, infer.Errorf(infer.CodeInvalid, "cannot pass the request on: its body is no JSON object")
		}
		o.Body = body
		return o, nil
	}
	e := encoder{r: r, t: t}
	body, err := e.request()
	o.Body = body
	return o, err
}

// nativeBody is the body as it came, but for what policy has set and a name of
// the model, which is usually in the path alone.
func nativeBody(w *infer.Wire, t wire.Target) ([]byte, bool) {
	set := wire.Members(w.Set)
	var c jsonread.Cursor
	c.Reset(w.Body)
	named := false
	for ok := c.Object(); ok && c.More(); {
		named = jsonread.Unescape(c.Key()) == "model" || named
		c.Skip()
	}
	if named {
		name, err := json.Marshal(resource(t))
		if err != nil {
			return nil, false
		}
		set = append(set, wire.Member{Name: "model", Value: name})
	}
	if len(set) == 0 {
		return w.Body, c.End()
	}
	return wire.Splice(w.Body, set, sameName)
}

// resource is the target's model as bodies name it.
func resource(t wire.Target) string {
	p := strings.TrimPrefix(strings.TrimPrefix(path(t, ""), "/"), "v1beta/")
	p, err := url.PathUnescape(strings.TrimSuffix(p, ":"))
	if err != nil {
		return t.Model
	}
	return p
}

// EncodeCount implements wire.CountClient.
func (c Client) EncodeCount(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o, err := c.EncodeRequest(r, t)
	if err != nil {
		return nil, err
	}
	o.Path, o.Stream, o.Native = path(t, "countTokens"), false, false
	if t.Profile == ProfileVertex {
		o.Body = countable(o.Body)
		return o, nil
	}
	name, err := json.Marshal(resource(t))
	if err != nil {
		return nil, err
	}
	inner, ok := wire.Splice(o.Body, []wire.Member{{Name: "model", Value: name}}, nil)
	if !ok {
		return nil, infer.Errorf(infer.CodeInvalid, "cannot count the tokens of the request: its body is no JSON object")
	}
	body := append(make([]byte, 0, len(inner)+32), `{"generateContentRequest":`...)
	o.Body = append(append(body, inner...), '}')
	return o, nil
}

// countable keeps the members that Vertex AI counts.
func countable(body []byte) []byte {
	var c jsonread.Cursor
	c.Reset(body)
	dst := []byte{'{'}
	for ok := c.Object(); ok && c.More(); {
		name := camel(jsonread.Unescape(c.Key()))
		raw := c.Raw()
		switch name {
		case "contents", "systemInstruction", "tools", "generationConfig":
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = append(append(append(append(dst, '"'), name...), `":`...), raw...)
		}
	}
	return append(dst, '}')
}

// DecodeCount implements wire.CountClient.
func (Client) DecodeCount(body []byte) (int, error) {
	var c jsonread.Cursor
	c.Reset(body)
	n, has := int64(0), false
	for ok := c.Object(); ok && c.More(); {
		if string(c.Key()) == "totalTokens" {
			n, has = c.Int()
		} else {
			c.Skip()
		}
	}
	// A count of nothing is left out, as ProtoJSON does with zeros.
	if !c.End() || has && n < 0 || n > wire.MaxCount {
		return 0, wire.Malformed(nil)
	}
	return int(n), nil
}

// DecodeError implements wire.Client.
func (Client) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	return decodeError(status, h, body)
}
