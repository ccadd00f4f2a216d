// Package bedrock speaks Amazon Bedrock's Converse and ConverseStream to a
// provider. There is no server side: SDKs of AWS sign their requests for AWS.
//
// Sources: the Amazon Bedrock API Reference (Converse, ConverseStream and the
// types that they name) and the chapters on prompt caching, tool use, structured
// output and extended thinking of the user guide.
package bedrock

import (
	"hearth/engine/infer"
	"hearth/web/wire"
)

// Name is the name of the dialect in infer.Wire.
const Name = "bedrock-converse"

// Client is a wire.Client for every model that Converse serves.
type Client struct{}

var (
	_ wire.Client = Client{}
	_ wire.Framer = Client{}
)

// Dialect implements wire.Client.
func (Client) Dialect() string { return Name }

// Framing implements wire.Framer: ConverseStream answers in AWS's binary events.
func (Client) Framing() wire.Framing { return wire.FramingEventStream }

// Class implements wire.Client.
func (Client) Class(f infer.Feature) infer.Class {
	if c, ok := classes[f]; ok {
		return c
	}
	return infer.Dropped
}

// EncodeRequest implements wire.Client. The model is part of the path.
func (Client) EncodeRequest(r *infer.Request, t wire.Target) (*wire.Outgoing, error) {
	o := &wire.Outgoing{Path: "/model/" + escape(t.Model) + "/converse", Stream: r.Stream}
	if r.Stream {
		o.Path += "-stream"
	}
	if r.Wire != nil && r.Wire.Dialect == Name {
		body, ok := wire.Splice(r.Wire.Body, wire.Members(r.Wire.Set), nil)
		if !ok {
			return nil, infer.Invalid("", "cannot pass the request on: its body is not an object")
		}
		o.Body, o.Native = body, true
		return o, nil
	}
	var err error
	o.Body, err = encode(r, t)
	return o, err
}

// escape encodes a model's name for the path as AWS's SDKs do, all but the
// unreserved characters, since the path is signed. Inference profiles are ARNs,
// with colons and slashes.
func escape(s string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~' {
			b = append(b, c)
		} else {
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(b)
}
