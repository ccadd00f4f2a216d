package appliance

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/otlp"
	"hearth/engine/infer"
	"hearth/policy"
	"hearth/store"
)

// traceNames are the attribute names of what the GenAI conventions have a word
// for; empty: the attribute is left out. The conventions are still moving, so
// every name of them stands in one table.
type traceNames struct {
	operation, provider, requestModel, responseModel, responseID, finish string
	input, output, cacheRead, cacheWrite, reasoning                      string
	maxTokens, temperature, topP, seed, choices, stream, firstToken      string
	// providers translates our kinds of upstreams; nil: as they are.
	providers map[string]string
}

// traceNameTables: "genai" are the names of semantic-conventions-genai as it
// stands since it left the main repository after v1.41.0, "genai-1.36" those of
// the conventions v1.36.0.
var traceNameTables = map[string]*traceNames{
	config.NamesGenAI: {
		operation: "gen_ai.operation.name", provider: "gen_ai.provider.name", requestModel: "gen_ai.request.model", responseModel: "gen_ai.response.model",
		responseID: "gen_ai.response.id", finish: "gen_ai.response.finish_reasons",
		input: "gen_ai.usage.input_tokens", output: "gen_ai.usage.output_tokens", cacheRead: "gen_ai.usage.cache_read.input_tokens",
		cacheWrite: "gen_ai.usage.cache_write.input_tokens", reasoning: "gen_ai.usage.reasoning.output_tokens",
		maxTokens: "gen_ai.request.max_tokens", temperature: "gen_ai.request.temperature", topP: "gen_ai.request.top_p",
		seed: "gen_ai.request.seed", choices: "gen_ai.request.choice.count", stream: "gen_ai.request.stream", firstToken: "gen_ai.response.time_to_first_chunk",
		providers: map[string]string{"gemini": "gcp.gemini", "vertex": "gcp.vertex_ai", "bedrock": "aws.bedrock", "azure": "azure.ai.openai", policy.Local: "hearth"},
	},
	config.NamesGenAI136: {
		operation: "gen_ai.operation.name", provider: "gen_ai.system", requestModel: "gen_ai.request.model", responseModel: "gen_ai.response.model",
		responseID: "gen_ai.response.id", finish: "gen_ai.response.finish_reasons",
		input: "gen_ai.usage.input_tokens", output: "gen_ai.usage.output_tokens",
		maxTokens: "gen_ai.request.max_tokens", temperature: "gen_ai.request.temperature", topP: "gen_ai.request.top_p",
		seed: "gen_ai.request.seed", choices: "gen_ai.request.choice.count",
		providers: map[string]string{"gemini": "gcp.gemini", "vertex": "gcp.vertex_ai", "bedrock": "aws.bedrock", "azure": "az.ai.openai", policy.Local: "hearth"},
	},
	config.NamesOff: {
		operation: "hearth.operation", provider: "hearth.provider", requestModel: "hearth.request.model", responseModel: "hearth.response.model",
		finish: "hearth.finish", input: "hearth.tokens.input", output: "hearth.tokens.output",
		cacheRead: "hearth.tokens.cached", cacheWrite: "hearth.tokens.cache_write", reasoning: "hearth.tokens.reasoning",
	},
}

// spanBuilder gathers the spans of one request.
type spanBuilder struct {
	names *traceNames
	trace [16]byte
	state string
	on    bool // the sampled flag
	out   []otlp.Span
}

func (b *spanBuilder) add(parent [8]byte, name string, kind otlp.Kind, from, to time.Time, attrs ...otlp.Attr) *otlp.Span {
	if to.Before(from) {
		to = from
	}
	b.out = append(b.out, otlp.Span{
		Trace: b.trace, ID: newSpanID(), Parent: parent, State: b.state, Sampled: b.on, Name: name, Kind: kind, Start: from, End: to,
		Attrs: slices.DeleteFunc(attrs, func(a otlp.Attr) bool { return a.Key() == "" }),
	})
	return &b.out[len(b.out)-1]
}

// spans tells a request as one trace: the server span, and under it admission,
// hold, queue, each attempt with prefill and decode, and settle. There are
// names, numbers and times in them, never content.
func (l *liveTraces) spans(c *call, row *store.Row, failed bool) []otlp.Span {
	g, n := c.grant, l.names
	b := &spanBuilder{names: n, state: g.TraceState, on: sampled(g.Trace), out: make([]otlp.Span, 0, 10)}
	var own [8]byte
	hex.Decode(b.trace[:], []byte(g.Trace[3:35]))
	hex.Decode(own[:], []byte(g.Trace[36:52]))
	now := c.a.now()
	root := b.add(c.parentSpan(), operationName(c.operation())+" "+c.asked, otlp.Server, g.Started, now, l.rootAttrs(c, row)...)
	root.ID = own
	if failed {
		root.Failed = true
		root.Attrs = append(root.Attrs, otlp.String("error.type", string(c.err.Code)))
	}
	t := &c.timing
	if t.holding.IsZero() {
		b.add(own, "admission", otlp.Internal, g.Started, t.ended)
		return b.out
	}
	b.add(own, "admission", otlp.Internal, g.Started, t.holding)
	b.add(own, "hold", otlp.Internal, t.holding, t.held, otlp.Int("hearth.hold_nano", row.HoldNano), otlp.Int("hearth.budgets", int64(len(row.Budgets))))
	if t.asked.Sub(t.held) > 100*time.Microsecond {
		b.add(own, "queue", otlp.Internal, t.held, t.asked)
	}
	b.attempts(c, row, own)
	b.add(own, "settle", otlp.Internal, t.ended, now, otlp.Int("hearth.charge_nano", row.ChargeNano), otlp.String("hearth.outcome", string(c.outcome)))
	return b.out
}

func (l *liveTraces) rootAttrs(c *call, row *store.Row) []otlp.Attr {
	g, n, u := c.grant, l.names, c.stream.total()
	attrs := []otlp.Attr{
		otlp.String(n.operation, operationName(c.operation())), otlp.String(n.requestModel, c.asked),
		otlp.String("hearth.request_id", g.RequestID), otlp.String("hearth.tenant", g.Tenant), otlp.String("hearth.key_id", g.KeyID),
		otlp.String("hearth.outcome", string(c.outcome)), otlp.Int("hearth.attempts", int64(len(row.Attempts))),
		otlp.Int("hearth.charge_nano", row.ChargeNano), otlp.Bool(orElse(n.stream, "hearth.stream"), g.Stream),
	}
	attrs = append(attrs, samplingAttrs(n, c)...)
	if g.Route != "" {
		attrs = append(attrs, otlp.String("hearth.route", g.Route), otlp.String("hearth.revision", g.Revision), otlp.String("hearth.contract", g.Contract))
	}
	if len(g.Losses) > 0 {
		attrs = append(attrs, otlp.Int("hearth.losses", int64(len(g.Losses))))
	}
	if c.target == nil {
		return attrs
	}
	attrs = append(attrs, otlp.String(n.provider, n.providerOf(c.target.provider())), otlp.String(n.responseModel, c.target.model),
		otlp.Int(n.input, int64(u.PromptTokens)), otlp.Int(n.output, int64(u.CompletionTokens)))
	if c.target.requestID != "" {
		attrs = append(attrs, otlp.String(n.responseID, c.target.requestID))
	}
	for _, x := range []struct {
		name string
		n    int
	}{{n.cacheRead, u.CachedTokens}, {n.cacheWrite, u.CacheWriteTokens}, {n.reasoning, u.ReasoningTokens}} {
		if x.n > 0 {
			attrs = append(attrs, otlp.Int(x.name, int64(x.n)))
		}
	}
	var finish []string
	for i := range c.stream.choices {
		if f, ok := c.stream.finish[i]; ok {
			finish = append(finish, string(f))
		}
	}
	if len(finish) > 0 {
		attrs = append(attrs, otlp.Strings(n.finish, finish...))
	}
	if !c.first.IsZero() {
		attrs = append(attrs, otlp.Float(orElse(n.firstToken, "hearth.time_to_first_token"), c.first.Sub(g.Started).Seconds()))
	}
	return attrs
}

// samplingAttrs are the parameters of the request that the conventions name.
func samplingAttrs(n *traceNames, c *call) []otlp.Attr {
	if c.embed != nil {
		return nil
	}
	s := &c.request.Sampling
	attrs := []otlp.Attr{otlp.Float(n.temperature, s.Temperature), otlp.Float(n.topP, s.TopP)}
	if s.MaxTokens > 0 {
		attrs = append(attrs, otlp.Int(n.maxTokens, int64(s.MaxTokens)))
	}
	if s.Seed != nil {
		attrs = append(attrs, otlp.Int(n.seed, *s.Seed))
	}
	if s.N > 1 {
		attrs = append(attrs, otlp.Int(n.choices, int64(s.N)))
	}
	return attrs
}

// attempts adds a span for each attempt. The spans of providers are those that
// the provider was told as its parent.
func (b *spanBuilder) attempts(c *call, row *store.Row, parent [8]byte) {
	ids, retry := c.timing.spans, ""
	for i := range row.Attempts {
		at := &row.Attempts[i]
		kind := otlp.Client
		if at.Backend == policy.Local {
			kind = otlp.Internal
		}
		s := b.add(parent, "attempt "+at.Backend+"/"+at.Model, kind, at.Started, at.Started.Add(at.Took),
			otlp.String(b.names.provider, b.names.providerOf(at.Provider)), otlp.String(b.names.requestModel, at.Model),
			otlp.String("hearth.upstream", at.Backend), otlp.Int("hearth.attempt", int64(i+1)), otlp.String("hearth.outcome", string(at.Outcome)))
		id := c.timing.span
		if i < len(ids) {
			id = ids[i]
		}
		if id != [8]byte{} {
			s.ID = id
		}
		if retry != "" {
			s.Attrs = append(s.Attrs, otlp.String("hearth.retry_reason", retry))
		}
		if at.Status != 0 {
			s.Attrs = append(s.Attrs, otlp.Int("http.response.status_code", int64(at.Status)))
		}
		if at.UpstreamRequestID != "" && b.names.responseID != "" {
			s.Attrs = append(s.Attrs, otlp.String("hearth.upstream_request_id", at.UpstreamRequestID))
		}
		if retry = at.Failure; retry == "" {
			retry = at.ErrorCode
		}
		if at.Outcome != store.OutcomeComplete && at.Outcome != store.OutcomeCancelled {
			s.Failed = true
			s.Attrs = append(s.Attrs, otlp.String("error.type", orElse(retry, string(at.Outcome))))
		}
		if id := s.ID; i == len(row.Attempts)-1 {
			b.phases(c, id)
		}
	}
}

// phases adds what happened within the last attempt.
func (b *spanBuilder) phases(c *call, parent [8]byte) {
	if c.first.IsZero() {
		return
	}
	begun := c.began.Add(min(c.timing.queued, c.first.Sub(c.began)))
	if c.timing.queued > 0 {
		b.add(parent, "queue", otlp.Internal, c.began, begun)
	}
	b.add(parent, "prefill", otlp.Internal, begun, c.first)
	b.add(parent, "decode", otlp.Internal, c.first, c.last, otlp.Int("hearth.tokens", int64(c.stream.tokens)))
}

// providerOf is the conventions' name for a kind of upstream.
func (n *traceNames) providerOf(kind string) string {
	if name := n.providers[kind]; name != "" {
		return name
	}
	return kind
}

// operationName is the conventions' word for our operations.
func operationName(op string) string {
	if op == "completion" {
		return "text_completion"
	}
	return op
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

func newSpanID() (id [8]byte) {
	rand.Read(id[:]) // never fails, see crypto/rand
	if id == [8]byte{} {
		id[0] = 1
	}
	return id
}

// refused sends the one span of a request that was not admitted.
func (t *traces) refused(trace, parent, state string, began, now time.Time, requestID string, err error) {
	live := t.live.Load()
	if live == nil || !sampled(trace) {
		return
	}
	b := &spanBuilder{names: live.names, state: state, on: true}
	hex.Decode(b.trace[:], []byte(trace[3:35]))
	s := b.add(spanIDOf(parent), "admission", otlp.Server, began, now,
		otlp.String("hearth.request_id", requestID), otlp.String("error.type", string(infer.AsError(err).Code)))
	hex.Decode(s.ID[:], []byte(trace[36:52]))
	s.Failed = true
	live.out.Offer(b.out)
}
