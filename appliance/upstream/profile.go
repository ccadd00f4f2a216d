package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hearth/policy"
	"hearth/web/wire"
)

// The dialects that clients speak, as infer.Wire.Dialect names them.
const (
	dialectChat           = "openai-chat"
	dialectCompletions    = "openai-completions"
	dialectResponses      = "openai-responses"
	dialectEmbeddings     = "openai-embeddings"
	dialectAnthropic      = "anthropic"
	dialectGemini         = "gemini"
	dialectOllamaChat     = "ollama-chat"
	dialectOllamaGenerate = "ollama-generate"
	dialectConverse       = "bedrock-converse"
)

// profile is what is known of one kind of provider. Departures from a dialect's
// bodies are the client's, by wire.Target.Profile; what is here concerns
// addresses, authentication and connections.
type profile struct {
	kind string
	// base is where the provider is, if it is in one place; {region} stands for
	// the configured region. Empty: base_url must be given.
	base string
	// version is the path that OpenAI's dialect has in front there, where
	// base_url names a bare host: both habits of writing it are taken.
	version string
	// dialects are offered, the one preferred for translated chats first.
	dialects []string
	// optional are offered only where the configuration names them.
	optional []string
	scheme   scheme
	// idle is how long an unused connection is kept: shorter than the provider
	// keeps it, so that a request does not meet a connection that closes.
	idle          time.Duration
	versionHeader string // carries api_version
	project       bool   // must be set
	// place puts the dialect's path where this provider has it. nil: appended.
	place func(e *endpoint, dialect, model string, o *wire.Outgoing) (path string, err error)
	// rewrite changes the body that is sent, and its head; nil: neither.
	rewrite func(dialect string, o *wire.Outgoing, h http.Header) ([]byte, error)
	// framing of a dialect's streams, where it is not the dialect's own.
	framing map[string]wire.Framing
	probe   string // where a health probe usually is; documentation only
}

// Unused connections are dropped before the usual servers drop them: uvicorn
// after 5 s (vLLM, SGLang, LiteLLM), cpp-httplib after 5 s (llama.cpp), hyper
// and Go not by themselves, managed load balancers after 60 s and more.
const (
	idleShort = 4 * time.Second
	idleLong  = 55 * time.Second
)

var openAIDialects = []string{dialectChat, dialectCompletions, dialectEmbeddings}

// profiles is the one table of providers.
var profiles = []profile{
	{kind: "openai", base: "https://api.openai.com/v1", version: "/v1", dialects: []string{dialectChat, dialectResponses, dialectCompletions, dialectEmbeddings}, scheme: bearerKey, idle: idleLong},
	{kind: "openai-compatible", version: "/v1", dialects: openAIDialects, optional: []string{dialectResponses}, scheme: bearerKey, idle: idleShort},
	{kind: "vllm", version: "/v1", dialects: openAIDialects, optional: []string{dialectResponses}, scheme: bearerKey, idle: idleShort, probe: "/health"},
	{kind: "sglang", version: "/v1", dialects: openAIDialects, optional: []string{dialectResponses}, scheme: bearerKey, idle: idleShort, probe: "/health"},
	{kind: "tgi", version: "/v1", dialects: []string{dialectChat, dialectCompletions}, scheme: bearerKey, idle: idleLong, probe: "/health"},
	{kind: "tensorrt-llm", version: "/v1", dialects: openAIDialects, optional: []string{dialectResponses}, scheme: bearerKey, idle: idleShort, probe: "/health"},
	{kind: "llamacpp", version: "/v1", dialects: openAIDialects, optional: []string{dialectResponses}, scheme: bearerKey, idle: idleShort, probe: "/health"},
	{kind: "ollama", base: "http://127.0.0.1:11434", version: "/v1", dialects: []string{dialectOllamaChat, dialectChat, dialectOllamaGenerate, dialectCompletions, dialectEmbeddings}, scheme: bearerKey, idle: idleLong, probe: "/api/version"},
	{kind: "openrouter", base: "https://openrouter.ai/api/v1", version: "/api/v1", dialects: openAIDialects, optional: []string{dialectResponses}, scheme: bearerKey, idle: idleLong},
	{kind: "litellm", version: "/v1", dialects: []string{dialectChat, dialectCompletions, dialectEmbeddings, dialectAnthropic}, optional: []string{dialectResponses}, scheme: bearerKey, idle: idleShort, probe: "/health/liveliness"},
	{kind: "azure", version: "/openai/v1", dialects: openAIDialects, optional: []string{dialectResponses}, scheme: azureKey, idle: idleLong, place: placeAzure},
	{kind: "anthropic", base: "https://api.anthropic.com", dialects: []string{dialectAnthropic}, scheme: headerKey("X-Api-Key"), idle: idleLong, versionHeader: "Anthropic-Version"},
	{kind: "gemini", base: "https://generativelanguage.googleapis.com", dialects: []string{dialectGemini, dialectChat, dialectEmbeddings}, scheme: geminiKey, idle: idleLong, place: placeGemini},
	{kind: "vertex", base: "https://{region}-aiplatform.googleapis.com/v1", dialects: []string{dialectGemini, dialectAnthropic, dialectChat}, scheme: googleToken, idle: idleLong, project: true, place: placeVertex, rewrite: rewriteVertex},
	{kind: "bedrock", base: "https://bedrock-runtime.{region}.amazonaws.com", dialects: []string{dialectConverse, dialectAnthropic}, scheme: awsSignature, idle: idleLong, place: placeBedrock, rewrite: rewriteBedrock, framing: map[string]wire.Framing{dialectAnthropic: wire.FramingEventStream}},
	{kind: "hearth", version: "/v1", dialects: []string{dialectChat, dialectResponses, dialectCompletions, dialectEmbeddings, dialectAnthropic, dialectGemini, dialectOllamaChat, dialectOllamaGenerate}, scheme: bearerKey, idle: idleLong, probe: "/health"},
}

// Kinds lists the kinds of upstream.
func Kinds() []string {
	var out []string
	for i := range profiles {
		out = append(out, profiles[i].kind)
	}
	return out
}

func profileOf(kind string) (*profile, error) {
	for i := range profiles {
		if profiles[i].kind == kind {
			return &profiles[i], nil
		}
	}
	return nil, fmt.Errorf("cannot use kind %.32q: want one of %s", kind, strings.Join(Kinds(), ", "))
}

// endpoint is where an upstream is.
type endpoint struct {
	scheme  string
	host    string
	path    string // of base_url, escaped, without a slash at its end
	project string
	region  string
	version string // api_version
}

// endpoint reads base_url, or takes the provider's own.
func (p *profile) endpoint(c *policy.UpstreamConfig) (endpoint, error) {
	e := endpoint{project: c.Project, region: c.Region, version: c.APIVersion}
	base := c.BaseURL
	if p.project && c.Project == "" {
		return e, fmt.Errorf("cannot do without project for kind %s", p.kind)
	}
	if strings.Contains(p.base, "{region}") && base == "" && c.Region == "" {
		return e, fmt.Errorf("cannot do without region for kind %s: it is part of the address", p.kind)
	}
	if strings.ContainsFunc(c.Region+c.Project, func(r rune) bool { return notGraphic(r) || strings.ContainsRune("/?#%@\\", r) }) {
		return e, fmt.Errorf("cannot use region %.32q or project %.64q: want the names that the provider gives them", c.Region, c.Project)
	}
	if base == "" {
		base = strings.ReplaceAll(p.base, "{region}", c.Region)
		if p.kind == "vertex" && c.Region == "global" {
			base = "https://aiplatform.googleapis.com/v1"
		}
	}
	if base == "" {
		return e, fmt.Errorf("cannot do without base_url for kind %s", p.kind)
	}
	// The URL itself is not quoted: someone may have put a key into it.
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return e, fmt.Errorf("cannot use base_url: want http:// or https:// with a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return e, fmt.Errorf("cannot use base_url: want no user, query or fragment in it; keys belong into credential, by reference")
	}
	e.scheme, e.host, e.path = u.Scheme, u.Host, strings.TrimRight(u.EscapedPath(), "/")
	if e.region == "" {
		e.region = regionOf(u.Hostname())
	}
	return e, nil
}

// regionOf finds the region in a host of Google's or AWS's; empty: it names none.
func regionOf(host string) string {
	if region, ok := strings.CutSuffix(host, "-aiplatform.googleapis.com"); ok {
		return region
	}
	for _, service := range []string{"bedrock-runtime.", "bedrock-runtime-fips."} {
		if _, rest, ok := strings.Cut(host, service); ok {
			region, _, _ := strings.Cut(rest, ".")
			return region
		}
	}
	return ""
}

// place finds the path and query of one request.
func (u *Upstream) place(dialect, model string, o *wire.Outgoing) (*url.URL, error) {
	e := &u.target
	path := ""
	if u.profile.place != nil {
		var err error
		if path, err = u.profile.place(e, dialect, model, o); err != nil {
			return nil, err
		}
	} else {
		path = join(e.path, u.profile.version, dialect, o.Path)
	}
	path, query, _ := strings.Cut(path, "?")
	out := &url.URL{Scheme: e.scheme, Host: e.host, Path: path, RawQuery: query}
	if strings.Contains(path, "%") {
		plain, err := url.PathUnescape(path)
		if err != nil {
			return nil, fmt.Errorf("cannot use the path of the request: %w", err)
		}
		out.Path, out.RawPath = plain, path
	}
	return out, nil
}

// join puts a dialect's path behind a base path. Whether the base carries the
// version segment ("/v1") is a habit; both are taken, in every dialect.
func join(base, version, dialect, path string) string {
	last := base[strings.LastIndexByte(base, '/')+1:]
	openAI := strings.HasPrefix(dialect, "openai-")
	switch {
	case openAI && base == "":
		base = version
	case openAI:
	case last == "v1" || last == "v1beta" || last == "api":
		// The other dialects' paths begin with their own version.
		if first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); isVersion(first) {
			base = strings.TrimSuffix(base, "/"+last)
		}
	}
	if first, rest, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/"); openAI && ok && isVersion(first) && strings.HasSuffix(base, "/"+first) {
		path = "/" + rest
	}
	return base + path
}

func isVersion(segment string) bool {
	return segment == "v1" || segment == "v1beta" || segment == "v1alpha" || segment == "api"
}

// clientsFor makes the clients that an upstream offers, the preferred one first.
func (p *profile) clientsFor(c *policy.UpstreamConfig, e endpoint, maker func(dialect, kind string) wire.Client) ([]wire.Client, error) {
	want, offered := c.Dialect, slices.Clone(p.dialects)
	if p.kind == "azure" && (e.version == "" || strings.HasSuffix(e.path, "/v1")) {
		offered = append(offered, dialectResponses)
	}
	if want != "" {
		if slices.Contains(p.optional, want) {
			offered = append(offered, want)
		}
		i := slices.Index(offered, want)
		if i < 0 {
			return nil, fmt.Errorf("cannot speak dialect %.32q to kind %s: want one of %s", want, p.kind, strings.Join(append(offered, p.optional...), ", "))
		}
		offered = append([]string{want}, slices.Delete(offered, i, i+1)...)
	}
	var out []wire.Client
	for i, d := range offered {
		if slices.Contains(offered[:i], d) {
			continue
		}
		if client := maker(d, p.kind); client != nil {
			out = append(out, client)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("cannot speak any dialect of kind %s", p.kind)
	}
	return out, nil
}
