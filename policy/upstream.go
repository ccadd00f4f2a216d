package policy

// UpstreamConfig is one [[upstream]]: a deployment at a provider that routes may
// name. It holds no secret: Credential is a reference that is resolved when it
// is used.
type UpstreamConfig struct {
	Name string `toml:"name"`
	// Kind is the provider and with it dialect, paths, authentication and known
	// departures: openai, openai-compatible, vllm, sglang, tgi, tensorrt-llm,
	// llamacpp, ollama, openrouter, litellm, azure, anthropic, gemini, vertex,
	// bedrock, hearth.
	Kind string `toml:"kind"`
	// BaseURL is where the paths of the kind begin, for instance
	// "https://api.openai.com/v1"; empty: the kind's own. It must be https unless
	// the host is this machine or in a private network, or AllowHTTP is set.
	BaseURL   string `toml:"base_url"`
	AllowHTTP bool   `toml:"allow_http"`
	// Dialect chooses among those that a kind offers for requests that must be
	// translated, by name: "openai-chat", "openai-responses", "anthropic" and so
	// on, see Provider.Dialects; empty: the kind's first.
	Dialect string `toml:"dialect"`
	// Credential is "env:NAME", "file:PATH", "systemd:NAME", "oidc-file:PATH" or
	// empty for none.
	Credential string `toml:"credential"`
	Project    string `toml:"project"`     // vertex: id or number of the project
	Region     string `toml:"region"`      // vertex, bedrock; also matched against a route's regions
	APIVersion string `toml:"api_version"` // azure, anthropic
	Audience   string `toml:"audience"`    // oidc-file: of the token that is asked for
	TokenURL   string `toml:"token_url"`   // oidc-file and Entra: where tokens are exchanged
	ClientID   string `toml:"client_id"`
	Scope      string `toml:"scope"`
	// Headers are sent with every request. Those that carry secrets are refused:
	// that is what Credential is for.
	Headers map[string]string `toml:"headers"`
	CAFile  string            `toml:"ca_file"` // roots to trust for base_url; empty: the system's

	ConnectTimeout   Duration `toml:"connect_timeout"`    // default 5s
	FirstByteTimeout Duration `toml:"first_byte_timeout"` // until the head of the answer; default 0: the request's deadline
	IdleTimeout      Duration `toml:"idle_timeout"`       // longest silence inside a stream; default 2m

	MaxConcurrent int      `toml:"max_concurrent"` // requests open there at once; 0: no limit
	DataClasses   []string `toml:"data_classes"`   // classes of data that may go there; empty: all
	// BytesPerToken turns the size of a prompt into the tokens that are held for
	// it; default 1, which no tokenizer exceeds.
	BytesPerToken float64 `toml:"bytes_per_token"`
	// OnCancel says what happens to the provider's work when the caller leaves:
	// "close" (default) ends it; "drain" reads on for the usage, up to
	// DrainTimeout.
	OnCancel     string       `toml:"on_cancel"`
	DrainTimeout Duration     `toml:"drain_timeout"` // default 5s
	Health       HealthConfig `toml:"health"`
}

// HealthConfig says how a deployment's health is known: [upstream.health].
type HealthConfig struct {
	// Probe is a path asked with GET every ProbeInterval; empty: no probes.
	Probe         string   `toml:"probe"`
	ProbeInterval Duration `toml:"probe_interval"` // default 10s
	// EjectAfter failures in a row take a candidate out for EjectFor, doubling
	// up to EjectMax; then one request at a time tries it again. 0: never.
	EjectAfter *int     `toml:"eject_after"` // default 5
	EjectFor   Duration `toml:"eject_for"`   // default 10s
	EjectMax   Duration `toml:"eject_max"`   // default 5m
}

// CandidateConfig is one [[route.candidate]].
type CandidateConfig struct {
	Upstream string `toml:"upstream"` // name of an [[upstream]], or "local"
	Model    string `toml:"model"`    // the model's name there; empty: the route's
	Weight   int    `toml:"weight"`   // split "weighted"; default 1
	// MaxConcurrent bounds this candidate, besides the upstream's own bound.
	MaxConcurrent   int    `toml:"max_concurrent"`
	MaxOutputTokens int    `toml:"max_output_tokens"` // what is asked for and held where the request names no maximum; default 4096
	QuotaDomain     string `toml:"quota_domain"`      // what shares the provider's rate limit; default: upstream + "/" + route
}

// RetryConfig is [route.retry]: who is asked again, and when.
type RetryConfig struct {
	// Attempts in all, first and fallbacks included; default 3, at most 10.
	Attempts int `toml:"attempts"`
	// On lists the failure classes after which another attempt is made; default
	// connect, rate_limit, overload, server, timeout, lost.
	On         []string `toml:"on"`
	Backoff    Duration `toml:"backoff"`     // before asking the same candidate again; default 250ms, doubled each time, with jitter
	MaxBackoff Duration `toml:"max_backoff"` // default 8s
}

// QueueConfig is [route.queue]: waiting for a candidate's concurrency instead of
// a refusal.
type QueueConfig struct {
	Depth int      `toml:"depth"` // requests that may wait; 0: none
	Wait  Duration `toml:"wait"`  // longest wait; default: the request's deadline
}
