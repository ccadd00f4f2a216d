package ollama

import (
	"net/http"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// Generate is the dialect of POST /api/generate. A prompt is a turn of a user
// for the model's template, unless raw or suffix has it continued as it is.
type Generate struct{}

var _ wire.Dialect = Generate{}

// generateDecoder is a decoder with the members of generate.
type generateDecoder struct {
	*decoder
	prompt, system, suffix string
	raw                    bool
	images                 []infer.Part
	ours                   *jsonread.Value // what raw leaves no place for
}

// DecodeRequest implements wire.Dialect. A request without a prompt asks only
// that the model be loaded.
func (Generate) DecodeRequest(_ *http.Request, body []byte) (*infer.Request, wire.Options, error) {
	v, err := root(body)
	if err != nil {
		return nil, wire.Options{}, err
	}
	d := &generateDecoder{decoder: newDecoder(infer.Chat)}
	if err := members(v, d.field); err != nil {
		return nil, wire.Options{}, err
	}
	if err := d.finish(); err != nil {
		return nil, wire.Options{}, err
	}
	d.r.Wire = &infer.Wire{Dialect: NameGenerate, Body: body}
	return d.r, d.options(), nil
}

func (d *generateDecoder) field(key string, v jsonread.Value) error {
	switch key {
	case "prompt":
		return str(&d.prompt, v, maxText)
	case "system":
		d.ours = &v
		return str(&d.system, v, maxText)
	case "suffix":
		err := str(&d.suffix, v, maxText)
		if d.suffix != "" {
			d.use(infer.FeatureSuffix, v)
		}
		return err
	case "raw":
		on, err := v.Bool()
		d.raw = on
		return err
	case "images":
		images, err := d.decoder.images(v)
		d.images = images
		return err
	case "template":
		var s string
		err := str(&s, v, maxText)
		if s != "" {
			d.ours = &v
			d.use(infer.FeatureUnknown, v)
		}
		return err
	case "context": // ids of an earlier answer; no other engine has the same
		_, err := v.Int32s(1<<20, 0, 1<<31-1)
		if err == nil && !v.Empty() {
			d.ours = &v
			d.use(infer.FeatureUnknown, v)
		}
		return err
	}
	return d.shared(key, v)
}

func (d *generateDecoder) finish() error {
	if err := d.decoder.finish(); err != nil {
		return err
	}
	if d.raw && d.ours != nil && (d.system != "" || d.ours.Path() != "system") {
		return d.ours.Errorf("cannot use %s with raw: nothing is put around a raw prompt", d.ours.Path())
	}
	if d.prompt == "" && len(d.images) == 0 && d.suffix == "" {
		return nil // asks for the model alone
	}
	if d.raw || d.suffix != "" {
		d.r.Kind = infer.Completion
		d.r.Prompts = []infer.Prompt{{Text: d.prompt}}
		d.r.Suffix = d.suffix
		return nil
	}
	if d.system != "" {
		d.r.Messages = append(d.r.Messages, infer.Message{Role: infer.RoleSystem, Content: []infer.Part{{Type: "text", Text: d.system}}})
	}
	content := append([]infer.Part{{Type: "text", Text: d.prompt}}, d.images...)
	d.r.Messages = append(d.r.Messages, infer.Message{Role: infer.RoleUser, Content: content})
	return nil
}

// Loads tells a request that asks for nothing but the model to be loaded, or
// with keep_alive 0 to be unloaded.
func Loads(r *infer.Request) (loads bool, reason string) {
	if len(r.Messages) > 0 || len(r.Prompts) > 0 {
		return false, ""
	}
	switch r.Hints.KeepAlive {
	case "0", "0s", "0m", "0h":
		return true, "unload"
	}
	return true, "load"
}
