package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"

	"hearth/engine/infer"
	"hearth/web/jsonread"
	"hearth/web/jsonwrite"
	"hearth/web/wire"
)

// EmbeddingsClient asks a provider over /embeddings. It generates nothing.
type EmbeddingsClient struct{ p *profile }

var (
	_ wire.Client      = EmbeddingsClient{}
	_ wire.EmbedClient = EmbeddingsClient{}
)

// NewEmbeddingsClient makes the client for a kind of server; see NewChatClient.
func NewEmbeddingsClient(profile string) EmbeddingsClient {
	return EmbeddingsClient{profileOf(profile)}
}

// Dialect implements wire.Client.
func (EmbeddingsClient) Dialect() string { return DialectEmbeddings }

// Class implements wire.Client.
func (c EmbeddingsClient) Class(f infer.Feature) infer.Class {
	switch f {
	case infer.FeatureTokenPrompt, infer.FeatureManyPrompts, infer.FeatureDimensions:
		return infer.Carried
	case infer.FeatureUser:
		return of(c.p, wire.Target{}).class(f)
	}
	return infer.Dropped
}

// EncodeRequest implements wire.Client.
func (EmbeddingsClient) EncodeRequest(*infer.Request, wire.Target) (*wire.Outgoing, error) {
	return nil, infer.Errorf(infer.CodeUnsupported, "cannot generate over the provider's embeddings route")
}

// DecodeAnswer implements wire.Client.
func (EmbeddingsClient) DecodeAnswer(*infer.Request, *wire.Outgoing, []byte) ([]infer.Event, error) {
	return nil, wire.Malformed(errors.New("embeddings are no generation"))
}

// NewDecoder implements wire.Client.
func (EmbeddingsClient) NewDecoder(r *infer.Request, o *wire.Outgoing) wire.StreamDecoder {
	return newAnswerDecoder(r, o, false)
}

// DecodeError implements wire.Client.
func (EmbeddingsClient) DecodeError(status int, h http.Header, body []byte) *infer.Error {
	return decodeError(status, h, body)
}

// EncodeEmbed implements wire.EmbedClient. encoding_format stays absent: null
// breaks some servers, and numbers are what all have.
func (c EmbeddingsClient) EncodeEmbed(r *infer.EmbedRequest, t wire.Target) (*wire.Outgoing, error) {
	p := of(c.p, t)
	o := &wire.Outgoing{Path: "/embeddings"}
	if r.Wire != nil && r.Wire.Dialect == DialectEmbeddings {
		return native(o, r.Wire, t, p)
	}
	w := &requestWriter{b: append(make([]byte, 0, 512), '{'), p: p}
	w.str("model", t.Model)
	w.key("input")
	one := len(r.Inputs) == 1
	if !one {
		w.b = append(w.b, '[')
	}
	for i, in := range r.Inputs {
		w.b = comma(w.b, i)
		if in.Tokens != nil {
			w.b = jsonwrite.Int32s(w.b, in.Tokens)
		} else {
			w.b = jsonwrite.String(w.b, in.Text)
		}
	}
	if !one {
		w.b = append(w.b, ']')
	}
	if r.Dimensions > 0 {
		w.int("dimensions", int64(r.Dimensions))
	}
	if r.Hints.User != "" && p.has(infer.FeatureUser) {
		w.str("user", wire.Opaque(r.Hints.User, maxUser))
	}
	o.Body = append(w.b, '}')
	return o, nil
}

// Bounds of an answer with embeddings.
const (
	maxVectors = 4096
	maxWidth   = 1 << 17
)

// DecodeEmbed implements wire.EmbedClient. Natively the vectors are passed on as
// they came and only the count is read.
func (EmbeddingsClient) DecodeEmbed(r *infer.EmbedRequest, o *wire.Outgoing, body []byte) (*infer.EmbedResult, error) {
	res := &infer.EmbedResult{Model: r.Model}
	usage, seen := noCount(), false
	var c jsonread.Cursor
	c.Reset(body)
	if k, ok := c.Kind(); !ok || k != jsonread.Object {
		return nil, wire.Malformed(errors.New("embeddings that are no JSON object"))
	}
	for c.Object(); c.More(); {
		switch key := c.Key(); string(key) {
		case "data":
			k, ok := c.Kind()
			seen = ok && k == jsonread.Array
			if o.Native {
				c.Skip()
				continue
			}
			if err := readVectors(&c, r, res); err != nil {
				return nil, wire.Malformed(err)
			}
		case "usage":
			if u := readUsage(&c); u.stated() {
				usage = u
			}
		case "model":
			if s := c.Str(); s != "" && len(s) <= 512 {
				res.Model = s
			}
		case "error":
			if truthy(&c) {
				t := readTold(&c)
				return nil, t.inBand()
			}
			c.Skip()
		default:
			c.Skip()
		}
	}
	if !c.End() || !seen {
		return nil, wire.Malformed(errors.New("an answer without embeddings"))
	}
	res.Usage = infer.Usage{PromptTokens: max(0, usage.prompt)}
	if usage.prompt < 0 {
		res.Usage = infer.Usage{PromptTokens: wire.EstimatePrompt(&infer.Request{Kind: infer.Completion, Prompts: r.Inputs}), Estimated: true}
	}
	if o.Native {
		res.Frame = &infer.Frame{Data: bytes.Clone(body)}
		return res, nil
	}
	for i, v := range res.Vectors {
		if len(v) == 0 {
			return nil, wire.Malformed(fmt.Errorf("no vector for input %d", i))
		}
	}
	return res, nil
}

// readVectors reads the member data: each item states which input it is of.
func readVectors(c *jsonread.Cursor, r *infer.EmbedRequest, res *infer.EmbedResult) error {
	if len(r.Inputs) > maxVectors {
		return fmt.Errorf("%d inputs are more than an answer may have", len(r.Inputs))
	}
	res.Vectors = make([][]float32, len(r.Inputs))
	for at, ok := 0, c.Array(); ok && c.More(); at++ {
		index := at
		var vec []float32
		for ok := c.Object(); ok && c.More(); {
			switch key := c.Key(); string(key) {
			case "index":
				if n, ok := c.Int(); ok {
					index = int(n)
				}
			case "embedding":
				var err error
				if vec, err = readVector(c); err != nil {
					return err
				}
			default:
				c.Skip()
			}
		}
		if index < 0 || index >= len(res.Vectors) || res.Vectors[index] != nil {
			return fmt.Errorf("a vector for an input that was not sent, or a second one")
		}
		res.Vectors[index] = vec
	}
	return nil
}

// readVector reads numbers, or little-endian float32 in base64.
func readVector(c *jsonread.Cursor) ([]float32, error) {
	if k, _ := c.Kind(); k == jsonread.String {
		raw, err := base64.StdEncoding.DecodeString(c.Str())
		if err != nil || len(raw)%4 != 0 || len(raw)/4 > maxWidth {
			return nil, errors.New("a vector whose base64 is broken")
		}
		vec := make([]float32, len(raw)/4)
		for i := range vec {
			vec[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			if f := float64(vec[i]); math.IsNaN(f) || math.IsInf(f, 0) {
				return nil, errors.New("a vector that is not finite")
			}
		}
		return vec, nil
	}
	var vec []float32
	for ok := c.Array(); ok && c.More(); {
		f, ok := c.Float()
		if !ok || len(vec) == maxWidth || math.IsInf(float64(float32(f)), 0) {
			return nil, errors.New("a vector with something else than numbers")
		}
		vec = append(vec, float32(f))
	}
	return vec, nil
}
