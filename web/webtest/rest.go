package webtest

import (
	"context"
	"time"

	"hearth/engine/infer"
	"hearth/web"
)

// Embed gives each input a vector of unit length.
func (s *Service) Embed(_ context.Context, _ *web.Grant, r *infer.EmbedRequest) (*infer.EmbedResult, error) {
	out := &infer.EmbedResult{Model: r.Model}
	for i := range r.Inputs {
		v := make([]float32, max(4, r.Dimensions))
		v[i%len(v)] = 1
		out.Vectors = append(out.Vectors, v)
		out.Usage.PromptTokens += 2
	}
	return out, nil
}

// Models lists the parrot.
func (s *Service) Models(context.Context, *web.Grant) ([]infer.Model, error) {
	return []infer.Model{{Name: "parrot", ContextLength: 2048, Created: 1_700_000_000, Architecture: "llama", Quantization: "Q8_0", Device: "cpu", ParameterSize: 1_500_000, FileBytes: 2_000_000}}, nil
}

// Count counts words.
func (s *Service) Count(_ context.Context, _ *web.Grant, r *infer.Request) (infer.Count, error) {
	return infer.Count{PromptTokens: len(words(Asked(r))), MaxOutputTokens: r.Sampling.MaxTokens}, nil
}

// Tokenize gives every byte an id, behind a 1 for the beginning.
func (s *Service) Tokenize(_ context.Context, _ *web.Grant, r *infer.TokenizeRequest) ([]int32, error) {
	text, out := r.Text, []int32{}
	if r.Chat != nil {
		text = Asked(r.Chat)
	}
	if r.AddSpecial {
		out = append(out, 1)
	}
	for _, b := range []byte(text) {
		out = append(out, int32(b))
	}
	return out, nil
}

// Detokenize is the inverse of Tokenize.
func (s *Service) Detokenize(_ context.Context, _ *web.Grant, _ string, ids []int32) ([]byte, error) {
	var out []byte
	for _, id := range ids {
		if id > 255 {
			return nil, infer.Invalid("tokens", "the id %d is not in the vocabulary", id)
		}
		if id != 1 {
			out = append(out, byte(id))
		}
	}
	return out, nil
}

// Ready follows Down.
func (s *Service) Ready() (bool, string) {
	why, _ := s.Down.Load().(string)
	return why == "", why
}

// Status is a picture with something in every corner.
func (s *Service) Status(ctx context.Context) web.Status {
	models, _ := s.Models(ctx, nil)
	ok, why := s.Ready()
	return web.Status{
		Version: "1.2.3", Started: time.Now().Add(-90 * time.Minute), Ready: ok, Reason: why, Open: 3, OpenHolds: 2, HeldNano: 1_500_000, Ledger: 42,
		Models: []web.ModelStatus{{Model: models[0], Ready: ok, Reason: why, Stats: infer.Stats{Running: 2, Waiting: 1, BlocksTotal: 100, BlocksUsed: 40, BlocksCached: 25, PrefixQueries: 10, PrefixHits: 5, PromptTokens: 1234, OutputTokens: 567}}},
		Upstreams: []web.UpstreamStatus{
			{Name: "next-door", Model: "parrot-7b", Routes: []string{"talk"}, State: "ejected", For: 9500 * time.Millisecond, Failures: 5, LastFailure: "connect", Succeeded: 7, Failed: 6},
			{Name: "far-away", Model: "<parrot>", Routes: []string{"talk"}, State: "healthy", Open: 1, Waiting: 2, Succeeded: 6, Fallbacks: 6, Retries: 1},
			{Name: "forgotten", State: "unused"},
		},
		Recent: []web.RecentRequest{
			{ID: "req_2", Started: time.Unix(1_800_000_000, 0), Tenant: "acme", Model: "talk", Upstream: "far-away", Attempts: 2, Outcome: "complete", Losses: []string{"seed=dropped", "top_k=emulated"}, ChargeNano: 38_000},
			{ID: "req_1", Started: time.Unix(1_799_999_999, 0), Tenant: "acme", Model: "talk", Upstream: "next-door", Attempts: 1, Outcome: "error", Error: "upstream_error"},
		},
		Spend: []web.Spend{
			{Tenant: "acme", Budget: "daily", Window: "day", CapNano: 5_000_000_000, SpentNano: 1_234_000_000, HeldNano: 1_500_000, Resets: time.Now().Add(time.Hour)},
			{Tenant: "other", Budget: "total", Window: "total", CapNano: 1_000_000_000, SpentNano: 999_000_000},
		},
		Latency: []web.Latency{{Name: "ttft", Count: 20, P50: 40 * time.Millisecond, P95: 90 * time.Millisecond, P99: 120 * time.Millisecond}, {Name: "tpot"}, {Name: "e2e", Count: 20, P50: time.Second, P95: 12 * time.Second, P99: 20 * time.Second}},
	}
}

// Setup takes Token, once.
func (s *Service) Setup(_ context.Context, token string) (*web.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != Token || s.used {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the set-up token is wrong, used or too old")
	}
	s.used = true
	return s.newSession(true), nil
}

// SignIn takes Key.
func (s *Service) SignIn(_ context.Context, c web.Caller) (*web.Session, error) {
	if c.Credential != Key {
		return nil, infer.Errorf(infer.CodeUnauthorized, "the API key is wrong")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newSession(false), nil
}

func (s *Service) newSession(operator bool) *web.Session {
	if s.sessions == nil {
		s.sessions = map[string]*web.Session{}
	}
	secret := "session-for-tenants"
	if operator {
		secret = "session-for-operators"
	}
	s.sessions[secret] = &web.Session{Secret: secret, Tenant: "acme", Operator: operator, Expires: time.Now().Add(time.Hour)}
	return s.sessions[secret]
}

// Session finds what Setup or SignIn made.
func (s *Service) Session(_ context.Context, secret string) (*web.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.sessions[secret]; v != nil {
		return v, nil
	}
	return nil, infer.Errorf(infer.CodeUnauthorized, "please sign in")
}

// SignOut forgets a session.
func (s *Service) SignOut(_ context.Context, secret string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, secret)
	return nil
}
