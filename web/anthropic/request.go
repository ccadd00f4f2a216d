package anthropic

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// decoder collects one request. JSON members come in any order, so what depends
// on several of them is settled in finish.
type decoder struct {
	r *infer.Request
	o wire.Options

	model     bool
	maxTokens bool
	system    []infer.Part // of the top-level member
	turns     []infer.Message
	hosted    []hostedTool
	names     map[string]bool // of all tools
	formats   []string        // the members that set a form of the answer
	cacheAll  string          // top-level cache_control
	cachePath string
	toolsAt   int // where in Uses the notes on tools stand
}

// hostedTool is a tool whose kind the API defines.
type hostedTool struct {
	name string
	use  int // its note in Uses
}

// decode reads a body that must be an object.
func decode(h *http.Request, body []byte) (*decoder, error) {
	v, err := jsonread.Parse(body, jsonread.Limits{Depth: 128})
	if err != nil {
		return nil, err
	}
	if v.Kind() != jsonread.Object {
		return nil, v.Wrong("an object")
	}
	d := &decoder{r: infer.NewRequest(), names: map[string]bool{}}
	d.r.Kind = infer.Chat
	d.r.Wire = &infer.Wire{Dialect: Name, Body: body, Header: d.headers(h)}
	if err := v.Members(d.member); err != nil {
		return nil, err
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	return d, nil
}

// headers keeps what of the request head belongs to the dialect.
func (d *decoder) headers(h *http.Request) textproto.MIMEHeader {
	if h == nil {
		return nil
	}
	var out textproto.MIMEHeader
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta"} {
		if v := h.Header.Values(name); len(v) > 0 && len(v) <= 64 {
			if out == nil {
				out = textproto.MIMEHeader{}
			}
			out[name] = slices.Clone(v)
		}
	}
	if len(out["Anthropic-Beta"]) > 0 {
		d.use(infer.FeatureBeta, "anthropic-beta")
	}
	return out
}

// use notes a field that asks for more than plain text.
func (d *decoder) use(f infer.Feature, path string) {
	if len(d.r.Uses) < maxUses {
		d.r.Uses = append(d.r.Uses, infer.Use{Feature: f, Path: path})
	} else if len(d.r.Uses) == maxUses {
		d.r.Uses = append(d.r.Uses, infer.Use{Feature: infer.FeatureUnknown, Path: "further fields"})
	}
}

// unknown notes a field that nobody here knows, unless it is null.
func (d *decoder) unknown(v jsonread.Value) {
	if !v.IsNull() {
		d.use(infer.FeatureUnknown, v.Path())
	}
}

// member takes one top-level member.
func (d *decoder) member(key string, v jsonread.Value) error {
	if v.IsNull() && key != "model" && key != "messages" && key != "max_tokens" {
		return nil // absent
	}
	switch key {
	case "model":
		return d.setModel(v)
	case "messages":
		return d.messages(v)
	case "system":
		return d.setSystem(v)
	case "tools":
		return d.tools(v)
	case "tool_choice":
		return d.toolChoice(v)
	case "thinking":
		return d.thinking(v)
	case "output_config":
		return d.outputConfig(v)
	case "output_format": // before output_config, under a beta
		return d.format(v)
	}
	if known, err := d.sampling(key, v); known {
		return err
	}
	return d.whole(key, v)
}

func (d *decoder) setModel(v jsonread.Value) error {
	m, err := v.Str()
	if err != nil {
		return err
	}
	if m == "" || len(m) > 512 {
		return v.Errorf("cannot use model: got %d bytes, wanted a name of 1 to 512", len(m))
	}
	d.r.Model, d.model = m, true
	return nil
}

// sampling takes what shapes the choice of each token and where an answer ends.
func (d *decoder) sampling(key string, v jsonread.Value) (known bool, err error) {
	s := &d.r.Sampling
	switch key {
	case "max_tokens":
		return true, d.setMaxTokens(v)
	case "temperature":
		if s.Temperature, err = v.Float(0, 2); err == nil && s.Temperature != 1 {
			d.use(infer.FeatureTemperature, key)
		}
	case "top_p":
		if s.TopP, err = v.Float(0, 1); err == nil && s.TopP != 1 {
			s.TopP = max(s.TopP, 1e-6) // 0 leaves the likeliest token alone
			d.use(infer.FeatureTopP, key)
		}
	case "top_k":
		var n int64
		if n, err = v.Int(-1, 1<<31-1); err == nil && n > 0 {
			s.TopK = int(n)
			d.use(infer.FeatureTopK, key)
		}
	case "stop_sequences":
		return true, d.stops(v)
	case "stream":
		d.o.Stream, err = v.Bool()
		d.r.Stream = d.o.Stream
	default:
		return false, nil
	}
	return true, err
}

// setMaxTokens takes 0 too, which asks the API to fill its cache and answer
// nothing; no other target has that.
func (d *decoder) setMaxTokens(v jsonread.Value) error {
	n, err := v.Int(0, maxTokens)
	if err != nil {
		return err
	}
	d.maxTokens = true
	d.r.Sampling.MaxTokens = int(max(1, n))
	if n == 0 {
		d.use(infer.FeatureUnknown, "max_tokens")
	} else {
		d.use(infer.FeatureMaxTokens, "max_tokens")
	}
	return nil
}

func (d *decoder) stops(v jsonread.Value) error {
	err := v.Items(maxStops, func(_ int, m jsonread.Value) error {
		s, err := m.Str()
		if err != nil {
			return err
		}
		if s == "" || len(s) > maxStopBytes {
			return m.Errorf("cannot use %s: got %d bytes, wanted a stop sequence of 1 to %d", m.Path(), len(s), maxStopBytes)
		}
		d.r.Sampling.Stop = append(d.r.Sampling.Stop, s)
		return nil
	})
	if err == nil && len(d.r.Sampling.Stop) > 0 {
		d.use(infer.FeatureStop, "stop_sequences")
	}
	return err
}

// wholeFields are the members that concern the request as a whole and have no
// typed place: what each asks for.
var wholeFields = map[string]infer.Feature{
	"container":   infer.FeatureToolHosted,
	"mcp_servers": infer.FeatureToolHosted,
	"thread":      infer.FeatureState,
	"compaction":  infer.FeatureContextEdits,
	"diagnostics": infer.FeatureBeta,
	"betas":       infer.FeatureBeta,
}

// whole takes what concerns the request as a whole.
func (d *decoder) whole(key string, v jsonread.Value) error {
	if f, ok := wholeFields[key]; ok {
		if (v.Kind() != jsonread.Array && v.Kind() != jsonread.Object) || !v.Empty() {
			d.use(f, key)
		}
		return nil
	}
	switch key {
	case "metadata":
		return d.metadata(v)
	case "cache_control":
		d.cachePath = key
		var err error
		d.cacheAll, err = cacheTTL(v)
		return err
	case "context_management":
		return d.contextManagement(v)
	case "service_tier":
		s, err := v.Str()
		if err == nil && s != "auto" {
			d.use(infer.FeatureServiceTier, key)
			d.r.Hints.ServiceTier = neutralTier(s)
		}
		return err
	case "speed":
		s, err := v.Str()
		if err == nil && s != "standard" && len(d.r.Uses) < maxUses {
			d.r.Uses = append(d.r.Uses, infer.Use{Feature: infer.FeatureServiceTier, Path: key, Own: true})
		}
		return err
	}
	d.unknown(v)
	return nil
}

// neutralTier is a tier in the words of infer.Hints, which are OpenAI's.
func neutralTier(s string) string {
	if s == "standard_only" {
		return "default"
	}
	return s
}

func (d *decoder) metadata(v jsonread.Value) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if m.IsNull() {
			return nil
		}
		if key != "user_id" {
			d.use(infer.FeatureMetadata, m.Path())
			return nil
		}
		s, err := m.Str()
		if err != nil {
			return err
		}
		if len(s) > 4096 {
			return m.Errorf("cannot use metadata.user_id: got %d bytes, wanted at most 4096", len(s))
		}
		if d.r.Hints.User = s; s != "" {
			d.use(infer.FeatureUser, "metadata.user_id")
		}
		return nil
	})
}

// contextManagement notes edits of the context that change it. To keep all
// thinking, which agents write out, changes nothing.
func (d *decoder) contextManagement(v jsonread.Value) error {
	return v.Members(func(key string, m jsonread.Value) error {
		if key != "edits" {
			d.unknown(m)
			return nil
		}
		if m.IsNull() {
			return nil
		}
		return m.Items(64, func(_ int, e jsonread.Value) error {
			t, err := typeOf(e)
			if err != nil {
				return err
			}
			if keep, ok := e.Get("keep"); ok && strings.HasPrefix(t, "clear_thinking_") && string(keep.Raw()) == `"all"` {
				return nil
			}
			d.use(infer.FeatureContextEdits, e.Path())
			return nil
		})
	})
}

// typeOf is the type member of a block, a tool or another tagged object.
func typeOf(v jsonread.Value) (string, error) {
	if v.Kind() != jsonread.Object {
		return "", v.Wrong("an object")
	}
	t, ok := v.Get("type")
	if !ok {
		return "", v.Errorf("cannot use %s: got no type", v.Path())
	}
	return t.Str()
}

// cacheTTL reads a cache_control: "5m" or "1h", or "" for null.
func cacheTTL(v jsonread.Value) (string, error) {
	if v.IsNull() {
		return "", nil
	}
	if v.Kind() != jsonread.Object {
		return "", v.Wrong("an object")
	}
	ttl, ok := v.Get("ttl")
	if !ok || ttl.IsNull() {
		return "5m", nil
	}
	s, err := ttl.Str()
	if s != "1h" {
		s = "5m"
	}
	return s, err
}

// finish settles what several members decide together.
func (d *decoder) finish() error {
	if !d.model {
		return infer.Invalid("model", "cannot route the request: got no model, wanted its name")
	}
	if d.turns == nil {
		return infer.Invalid("messages", "cannot answer an empty conversation: got no messages, wanted at least one")
	}
	if len(d.formats) > 1 {
		return infer.Invalid(d.formats[1], "cannot use both %s and %s: one answer has one form", d.formats[0], d.formats[1])
	}
	if err := d.finishTools(); err != nil {
		return err
	}
	if len(d.system) > 0 {
		d.turns = append([]infer.Message{{Role: infer.RoleSystem, Content: d.system}}, d.turns...)
	}
	d.r.Messages = d.turns
	if d.cacheAll != "" {
		d.cacheLast()
	}
	return nil
}

// cacheLast puts the mark of a top-level cache_control where the API puts it: at
// the last block that can be cached.
func (d *decoder) cacheLast() {
	d.use(infer.FeatureCacheBreakpoint, d.cachePath)
	for i := len(d.r.Messages) - 1; i >= 0; i-- {
		if parts := d.r.Messages[i].Content; len(parts) > 0 {
			if p := &parts[len(parts)-1]; p.Cache == "" {
				p.Cache = d.cacheAll
			}
			return
		}
	}
}
