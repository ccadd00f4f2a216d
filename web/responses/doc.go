// Package responses speaks OpenAI's Responses API, as a server and as a client:
// the items of its input and output, its stream of named and numbered events,
// and the response object that starts, ends and outlives a stream.
//
// The server side decodes leniently. What has a counterpart in infer.Request is
// carried there; a field that has none is noted as a use of infer.FeatureUnknown
// or of the feature it belongs to, so that the target's class decides whether it
// is carried, reported or refused. Only what cannot be understood at all is an
// error of the decoder.
//
// Every stream ends with response.completed, response.incomplete or
// response.failed, whatever happens; clients of this API wait for one of the
// three and report anything else as a lost connection.
package responses

// Name is the dialect in infer.Wire.Dialect.
const Name = "openai-responses"

// Bounds of one request. They keep what a body can make us build in proportion
// to what a model could use; the body itself is bounded by the server.
const (
	maxItems     = 8192 // input items, earlier turns included
	maxParts     = 1024 // content parts of one item
	maxTools     = 512  // with those in namespaces
	maxName      = 256
	maxID        = 512
	maxText      = 1 << 20 // descriptions, grammars
	maxTokens    = 1 << 20
	maxInclude   = 64
	maxStops     = 64
	maxTop       = 20
	maxReference = 64 // item references that load a stored response
	maxUses      = 4096
)
