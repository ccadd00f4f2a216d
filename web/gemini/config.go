package gemini

import (
	"encoding/json"
	"math"
	"strings"

	"hearth/engine/infer"
	"hearth/web/jsonread"
)

// config takes one member of generationConfig.
func (d *decoder) config(key string, v jsonread.Value) error {
	known, err := d.sampling(key, v)
	if known || err != nil {
		return err
	}
	switch key {
	case "responseMimeType":
		d.mime, d.has.mime = v, true
		return nil
	case "responseSchema":
		d.schema, d.has.schema = v, true
		return nil
	case "responseJsonSchema":
		d.json, d.has.json = v, true
		return nil
	case "thinkingConfig":
		return members(v, d.thinking)
	case "responseModalities":
		return d.modalities(v)
	case "mediaResolution":
		detail, err := d.resolution(v)
		d.detail = detail
		return err
	case "speechConfig", "imageConfig":
		d.use(infer.FeatureModalities, v)
		return nil
	case "audioTimestamp":
		return d.flag(v, infer.FeatureUnknown)
	case "enableAffectiveDialog", "enableEnhancedCivicAnswers":
		return d.flag(v, infer.FeatureBeta)
	}
	return d.unknown(v)
}

// sampling takes what shapes the tokens and where they end.
func (d *decoder) sampling(key string, v jsonread.Value) (known bool, err error) {
	s := &d.r.Sampling
	switch key {
	case "temperature":
		return true, d.float(&s.Temperature, v, 0, 2, infer.FeatureTemperature)
	case "topP":
		return true, d.float(&s.TopP, v, 0, 1, infer.FeatureTopP)
	case "topK":
		k, err := v.Float(0, math.MaxInt32) // a float in the Python client
		s.TopK = int(k)
		if s.TopK > 0 {
			d.use(infer.FeatureTopK, v)
		}
		return true, err
	case "presencePenalty":
		return true, d.float(&s.PresencePenalty, v, -2, 2, infer.FeaturePresencePenalty)
	case "frequencyPenalty":
		return true, d.float(&s.FrequencyPenalty, v, -2, 2, infer.FeatureFrequencyPenalty)
	case "candidateCount":
		n, err := integer(v, 1, maxChoices)
		s.N = int(n)
		if n > 1 {
			d.use(infer.FeatureChoices, v)
		}
		return true, err
	case "maxOutputTokens":
		n, err := integer(v, 1, maxTokens)
		s.MaxTokens = int(n)
		d.use(infer.FeatureMaxTokens, v)
		return true, err
	case "seed":
		n, err := integer(v, math.MinInt64, math.MaxInt64)
		s.Seed = &n
		d.use(infer.FeatureSeed, v)
		return true, err
	case "stopSequences":
		return true, d.stops(v)
	case "responseLogprobs":
		s.Logprobs, err = v.Bool()
		if s.Logprobs {
			d.use(infer.FeatureLogprobs, v)
		}
		return true, err
	case "logprobs":
		n, err := integer(v, 0, maxLogprobs)
		s.TopLogprobs = int(n)
		if n > 0 {
			d.ranked = &v
			d.use(infer.FeatureLogprobs, v)
		}
		return true, err
	}
	return false, nil
}

// float reads a number and notes it.
func (d *decoder) float(dst *float64, v jsonread.Value, lo, hi float64, f infer.Feature) error {
	x, err := v.Float(lo, hi)
	if err != nil {
		return err
	}
	if x == 0 && f == infer.FeatureTopP {
		x = 1e-9 // the likeliest token alone
	} else if x == 0 && f != infer.FeatureTemperature {
		return nil // as without it
	}
	*dst = x
	d.use(f, v)
	return nil
}

func (d *decoder) stops(v jsonread.Value) error {
	return v.Items(maxStops, func(i int, m jsonread.Value) error {
		var s string
		if err := str(&s, m, maxStopBytes); err != nil {
			return err
		}
		if s == "" {
			return m.Errorf("cannot use %s: got an empty stop sequence", m.Path())
		}
		if i == 0 {
			d.use(infer.FeatureStop, v)
		}
		d.r.Sampling.Stop = append(d.r.Sampling.Stop, s)
		return nil
	})
}

// thinking takes one member of thinkingConfig.
func (d *decoder) thinking(key string, v jsonread.Value) error {
	t := &d.r.Thinking
	switch key {
	case "includeThoughts":
		on, err := v.Bool()
		if err == nil && on {
			d.hide, t.Summary = false, "auto"
			d.use(infer.FeatureReasoningSummary, v)
		}
		return err
	case "thinkingBudget":
		n, err := integer(v, -1, maxTokens)
		switch {
		case err != nil:
			return err
		case n == 0:
			t.Switch = "off"
			d.use(infer.FeatureReasoningSwitch, v)
		case n < 0:
			t.Switch = "adaptive"
			d.use(infer.FeatureReasoningSwitch, v)
		default:
			t.Switch, t.Budget = "on", int(n)
			d.use(infer.FeatureReasoningBudget, v)
		}
		return nil
	case "thinkingLevel":
		s, err := word(v)
		if err != nil || s == "THINKING_LEVEL_UNSPECIFIED" {
			return err
		}
		switch s = strings.ToLower(s); s {
		case "minimal", "low", "medium", "high", "xhigh":
			t.Effort = s
			d.use(infer.FeatureReasoningEffort, v)
			return nil
		}
		return v.Wrong("one of MINIMAL, LOW, MEDIUM, HIGH, XHIGH")
	}
	return d.unknown(v)
}

// modalities notes an answer in other than text.
func (d *decoder) modalities(v jsonread.Value) error {
	other := false
	err := v.Items(16, func(_ int, m jsonread.Value) error {
		s, err := word(m)
		other = other || s != "TEXT" && s != "MODALITY_UNSPECIFIED"
		return err
	})
	if other {
		d.use(infer.FeatureModalities, v)
	}
	return err
}

// finishFormat settles the form of the answer, which three members tell.
func (d *decoder) finishFormat() error {
	mime := ""
	if d.has.mime {
		if err := str(&mime, d.mime, 256); err != nil {
			return err
		}
	}
	if d.has.schema && d.has.json {
		return d.json.Errorf("cannot use both responseSchema and responseJsonSchema")
	}
	f := &d.r.Format
	var schema json.RawMessage
	at := d.json
	switch {
	case d.has.schema:
		at = d.schema
		s, err := jsonSchema(d.schema)
		if err != nil {
			return err
		}
		schema = s
	case d.has.json:
		if d.json.Kind() != jsonread.Object {
			return d.json.Wrong("a JSON schema, which is an object")
		}
		schema = d.json.Clone()
	}
	switch mime {
	case "", "text/plain", "application/json":
		if schema != nil {
			f.Kind, f.Schema, f.Strict = infer.FormatJSONSchema, schema, true
			d.use(infer.FeatureJSONSchema, at)
		} else if mime == "application/json" {
			f.Kind = infer.FormatJSONObject
			d.use(infer.FeatureJSONObject, d.mime)
		}
		return nil
	case "text/x.enum":
		if schema == nil {
			return d.mime.Errorf("cannot use responseMimeType text/x.enum: got no responseSchema with the choices")
		}
		choices, err := enumOf(at)
		if err != nil {
			return err
		}
		f.Kind, f.Choices = infer.FormatChoice, choices
		d.use(infer.FeatureChoice, at)
		return nil
	}
	return d.mime.Errorf("cannot use responseMimeType: got %q, wanted text/plain, application/json or text/x.enum", jsonread.Shorten(mime, 60))
}

// enumOf reads the choices of a schema.
func enumOf(v jsonread.Value) (choices []string, err error) {
	err = members(v, func(key string, m jsonread.Value) (err error) {
		if key == "enum" {
			choices, err = m.Strings(4096)
		}
		return err
	})
	if err == nil && len(choices) == 0 {
		err = v.Errorf("cannot use %s: got no enum", v.Path())
	}
	return choices, err
}
