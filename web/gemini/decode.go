package gemini

import (
	"net/http"
	"strings"
	"time"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Generate is the dialect of POST /v1beta/models/{model}:generateContent and
// :streamGenerateContent. The model's name and the form of the answer stand in
// the URL.
type Generate struct {
	Model  string
	Stream bool
	// Array sends a stream as one JSON array in place of SSE, as the API does
	// without ?alt=sse.
	Array bool
}

var _ wire.Dialect = Generate{}

// DecodeRequest implements wire.Dialect.
func (g Generate) DecodeRequest(_ *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	v, err := root(body)
	if err != nil {
		return nil, wire.Options{}, err
	}
	d, err := decodeGenerate(v, g.Model)
	if err != nil {
		return nil, wire.Options{}, err
	}
	d.r.Stream = g.Stream
	d.r.Wire = &infer.Wire{Dialect: Name, Body: body}
	return d.r, wire.Options{Stream: g.Stream, HideReasoning: d.hide, Created: time.Now()}, nil
}

// root parses a body that must be an object.
func root(body []byte) (jsonread.Value, error) {
	v, err := jsonread.Parse(body, jsonread.Limits{})
	if err == nil && v.Kind() != jsonread.Object {
		err = v.Wrong("an object")
	}
	return v, err
}

// decodeGenerate reads a GenerateContentRequest.
func decodeGenerate(v jsonread.Value, model string) (*decoder, error) {
	d := &decoder{r: infer.NewRequest(), hide: true}
	if err := d.setModel(model); err != nil {
		return nil, err
	}
	if err := members(v, d.top); err != nil {
		return nil, err
	}
	return d, d.finish()
}

// setModel takes the name as the URL has it.
func (d *decoder) setModel(name string) error {
	if name == "" || len(name) > 512 {
		return infer.Invalid("model", "cannot use model: got %d bytes, wanted a name of 1 to 512", len(name))
	}
	d.r.Model = name
	return nil
}

// top takes one member of the request.
func (d *decoder) top(key string, v jsonread.Value) error {
	switch key {
	case "contents":
		d.has.contents = true
		return each(v, maxContents, d.content)
	case "systemInstruction":
		return d.system(v)
	case "tools":
		return each(v, maxTools, d.tool)
	case "toolConfig":
		return members(v, d.toolConfig)
	case "generationConfig":
		return members(v, d.config)
	case "safetySettings":
		return each(v, maxSafety, d.safety)
	case "cachedContent":
		d.use(infer.FeatureCachedContent, v)
		return nil
	case "labels":
		d.use(infer.FeatureMetadata, v)
		d.r.Hints.Metadata = v.Clone()
		return nil
	case "serviceTier":
		return d.serviceTier(v)
	case "store":
		return d.flag(v, infer.FeatureStore)
	case "modelArmorConfig":
		d.use(infer.FeatureSafety, v)
		return nil
	case "model":
		return d.sameModel(v)
	}
	return d.unknown(v)
}

// sameModel holds a name in the body against that in the URL.
func (d *decoder) sameModel(v jsonread.Value) error {
	var name string
	if err := str(&name, v, 512); err != nil {
		return err
	}
	if bare(name) != bare(d.r.Model) {
		return v.Errorf("cannot use model: the body names another than the path")
	}
	return nil
}

// bare is a model's name without its collection.
func bare(name string) string {
	if i := strings.LastIndex(name, "/models/"); i >= 0 {
		return name[i+len("/models/"):]
	}
	return strings.TrimPrefix(name, "models/")
}

func (d *decoder) serviceTier(v jsonread.Value) error {
	s, err := word(v)
	if err != nil || s == "" || strings.HasSuffix(s, "UNSPECIFIED") || s == "STANDARD" {
		return err
	}
	d.use(infer.FeatureServiceTier, v)
	d.r.Hints.ServiceTier = strings.ToLower(s)
	return nil
}

// flag notes a switch that is on.
func (d *decoder) flag(v jsonread.Value, f infer.Feature) error {
	on, err := v.Bool()
	if err == nil && on {
		d.use(f, v)
	}
	return err
}

// safety notes a filter setting. One that asks for no filter loses nothing where
// there is none, and is told as an opt-in of the provider.
func (d *decoder) safety(v jsonread.Value) error {
	threshold := ""
	err := members(v, func(key string, m jsonread.Value) (err error) {
		if key == "threshold" {
			threshold, err = word(m)
		}
		return err
	})
	if err != nil {
		return err
	}
	switch threshold {
	case "BLOCK_NONE", "OFF":
		d.use(infer.FeatureBeta, v)
	case "", "HARM_BLOCK_THRESHOLD_UNSPECIFIED":
	default:
		d.use(infer.FeatureSafety, v)
	}
	return nil
}

// finish settles what several members decide together.
func (d *decoder) finish() error {
	if !d.has.contents || len(d.r.Messages) == 0 {
		return infer.Invalid("contents", "cannot answer without contents: wanted at least one")
	}
	if last := &d.r.Messages[len(d.r.Messages)-1]; last.Role == infer.RoleSystem {
		return infer.Invalid("contents", "cannot answer without contents: wanted at least one")
	} else if last.Role == infer.RoleAssistant {
		if len(last.ToolCalls) == 0 {
			d.useAt(infer.FeaturePrefill, "contents")
			d.r.ContinueFinalMessage, d.r.AddGenerationPrompt = true, false
		}
	}
	if d.ranked != nil && !d.r.Sampling.Logprobs {
		return d.ranked.Errorf("cannot use logprobs without responseLogprobs: true")
	}
	if d.detail != "" {
		d.finishDetail()
	}
	d.finishTools()
	return d.finishFormat()
}

// finishDetail gives every image the detail that the request has for all.
func (d *decoder) finishDetail() {
	for i := range d.r.Messages {
		for k := range d.r.Messages[i].Content {
			if p := &d.r.Messages[i].Content[k]; p.Type == "image" && p.Detail == "" {
				p.Detail = d.detail
			}
		}
	}
}
