package responses

import (
	"net/http"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// Client asks a provider over POST /responses.
type Client struct{}

var (
	_ wire.Client      = Client{}
	_ wire.CountClient = Client{}
)

// Dialect implements wire.Client.
func (Client) Dialect() string { return Name }

// Class implements wire.Client.
func (Client) Class(f infer.Feature) infer.Class {
	if c, ok := classes[f]; ok {
		return c
	}
	return infer.Dropped
}

// EncodeRequest implements wire.Client. A request of the dialect goes out as it
// came: what it says about earlier responses, and about keeping this one, is then
// between the caller and the provider.
func (Client) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/responses", Stream: r.Stream}
	if r.Wire != nil && r.Wire.Dialect == Name {
		return native(o, r, t)
	}
	if r.Kind != infer.Chat {
		return nil, infer.Unsupported("prompt", "cannot continue a plain prompt at a provider of responses: it takes conversations")
	}
	var err error
	o.Body, err = appendRequest(nil, r, t, false)
	return o, err
}

func native(o *wire.Outgoing, r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o.Native = true
	set := wire.Members(r.Wire.Set)
	put := func(name string, value []byte) {
		for i := range set {
			if set[i].Name == name {
				set[i].Value = value
				return
			}
		}
		set = append(set, wire.Member{Name: name, Value: value})
	}
	put("model", jsonwrite.String(nil, t.Model))
	var ok bool
	if o.Body, ok = wire.Splice(r.Wire.Body, set, nil); !ok {
		return nil, infer.Errorf(infer.CodeInvalid, "cannot pass the request on: its body is no JSON object")
	}
	if len(r.Wire.Header) > 0 {
		o.Header = http.Header(r.Wire.Header)
	}
	return o, nil
}

// EncodeCount implements wire.CountClient.
func (Client) EncodeCount(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/responses/input_tokens"}
	var err error
	o.Body, err = appendRequest(nil, r, t, true)
	return o, err
}

// DecodeCount implements wire.CountClient.
func (Client) DecodeCount(body []byte) (int, error) {
	var c jsonread.Cursor
	c.Reset(body)
	n, found := int64(0), false
	for c.Object(); c.More(); {
		if string(c.Key()) == "input_tokens" {
			n, found = c.Int()
		} else {
			c.Skip()
		}
	}
	if !c.End() || !found || n < 0 {
		return 0, wire.Malformed(nil)
	}
	return int(n), nil
}

// DecodeAnswer implements wire.Client.
func (Client) DecodeAnswer(r *infer.Request, o *wire.Outgoing, body []byte) ([]infer.Event, error) {
	d := newDecoder(r, o)
	d.native = o.Native && !o.Stream
	return d.answer(body)
}

// NewDecoder implements wire.Client.
func (Client) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return newDecoder(r, o)
}

// classes says what becomes of each feature of a request of another dialect at
// a provider of this one. What is not in the table is dropped.
var classes = map[infer.Feature]infer.Class{
	infer.FeatureDeveloperRole: infer.Carried, infer.FeatureSystemMidway: infer.Carried,
	infer.FeatureImageData: infer.Carried, infer.FeatureImageURL: infer.Carried, infer.FeatureImageDetail: infer.Carried,
	infer.FeatureFile:        infer.Carried,
	infer.FeatureFileURL:     infer.Carried,
	infer.FeatureRefusalPart: infer.Transformed, // text of the assistant
	// The result's own text has to say that it tells of a failure.
	infer.FeatureToolResultError: infer.Emulated,
	infer.FeatureToolResultMedia: infer.Carried,
	// Reasoning goes back where its seal was made by a provider of this dialect.
	infer.FeatureThoughtSignature:   infer.Emulated,
	infer.FeatureReasoningEncrypted: infer.Carried,

	infer.FeatureTools: infer.Carried, infer.FeatureToolStrict: infer.Carried, infer.FeatureToolRequired: infer.Carried,
	infer.FeatureToolNamed: infer.Carried, infer.FeatureToolNone: infer.Carried, infer.FeatureToolAllowed: infer.Carried,
	infer.FeatureToolSerial: infer.Carried, infer.FeatureToolCustom: infer.Carried,

	infer.FeatureMaxTokens: infer.Carried, infer.FeatureTemperature: infer.Carried, infer.FeatureTopP: infer.Carried,
	infer.FeatureLogprobs: infer.Carried, infer.FeatureJSONObject: infer.Carried, infer.FeatureJSONSchema: infer.Carried,
	infer.FeatureVerbosity: infer.Carried,

	infer.FeatureReasoningEffort:  infer.Carried,
	infer.FeatureReasoningBudget:  infer.Emulated, // as the effort that comes near
	infer.FeatureReasoningSwitch:  infer.Emulated, // off as the effort none; on is left to the model
	infer.FeatureReasoningSummary: infer.Carried,

	infer.FeatureUser: infer.Carried, infer.FeatureMetadata: infer.Carried, infer.FeatureCacheKey: infer.Carried,
	infer.FeatureServiceTier: infer.Carried,
}
