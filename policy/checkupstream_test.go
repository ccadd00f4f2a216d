package policy

import (
	"strings"
	"testing"
	"time"
)

// faultsOf gives the faults of a configuration, one a line.
func faultsOf(c Config) string {
	c.Defaults()
	var b strings.Builder
	for _, f := range c.Validate() {
		b.WriteString(f.Error() + "\n")
	}
	return b.String()
}

// A valid upstream and a route that names it.
func goodUpstream() UpstreamConfig {
	return UpstreamConfig{Name: "u", Kind: "openai", Credential: "env:KEY"}
}

func TestUpstreamFaults(t *testing.T) {
	const canary = "sk-canary-0123456789abcdef"
	never := 0
	for name, c := range map[string]struct {
		change func(u *UpstreamConfig)
		want   string // begins the only fault, after "upstream[0]"; empty: none
	}{
		"good":                {func(u *UpstreamConfig) {}, ""},
		"never ejected":       {func(u *UpstreamConfig) { u.Health.EjectAfter = &never }, ""},
		"no name":             {func(u *UpstreamConfig) { u.Name = "" }, ".name: cannot use"},
		"named local":         {func(u *UpstreamConfig) { u.Name = "local" }, ".name: cannot name"},
		"unknown kind":        {func(u *UpstreamConfig) { u.Kind = "openia" }, ".kind: cannot use \"openia\": want one of \"openai\""},
		"dialect of others":   {func(u *UpstreamConfig) { u.Dialect = "gemini" }, ".dialect: cannot use"},
		"no address":          {func(u *UpstreamConfig) { u.Kind = "vllm" }, ".base_url: is missing"},
		"no region":           {func(u *UpstreamConfig) { u.Kind = "bedrock" }, ".region: is missing"},
		"no project":          {func(u *UpstreamConfig) { u.Kind, u.Region = "vertex", "europe-west4" }, ".project: is missing"},
		"in the clear":        {func(u *UpstreamConfig) { u.BaseURL = "http://api.example.com/v1" }, ".base_url: cannot send requests in the clear to \"api.example.com\""},
		"in the clear, ours":  {func(u *UpstreamConfig) { u.BaseURL, u.AllowHTTP = "http://api.example.com/v1", true }, ""},
		"loopback":            {func(u *UpstreamConfig) { u.BaseURL = "http://127.0.0.1:18101/v1" }, ""},
		"private":             {func(u *UpstreamConfig) { u.BaseURL = "http://10.1.2.3" }, ""},
		"private v6":          {func(u *UpstreamConfig) { u.BaseURL = "http://[fd00::1]:8000" }, ""},
		"service name":        {func(u *UpstreamConfig) { u.BaseURL = "http://vllm.models.svc:8000/v1" }, ""},
		"public v6":           {func(u *UpstreamConfig) { u.BaseURL = "http://[2001:db8::1]" }, ".base_url: cannot send requests in the clear"},
		"no scheme":           {func(u *UpstreamConfig) { u.BaseURL = "api.example.com/v1" }, ".base_url: cannot use"},
		"other scheme":        {func(u *UpstreamConfig) { u.BaseURL = "file:///etc/passwd" }, ".base_url: cannot use"},
		"secret in the query": {func(u *UpstreamConfig) { u.BaseURL = "https://api.example.com/v1?key=" + canary }, ".base_url: cannot hold a query"},
		"secret as password":  {func(u *UpstreamConfig) { u.BaseURL = "https://u:" + canary + "@api.example.com" }, ".base_url: cannot hold a user name"},
		"dots":                {func(u *UpstreamConfig) { u.BaseURL = "https://api.example.com/../v1" }, ".base_url: cannot use"},
		"literal secret":      {func(u *UpstreamConfig) { u.Credential = canary }, ".credential: cannot be a secret itself"},
		"secret with colon":   {func(u *UpstreamConfig) { u.Credential = "key:" + canary }, ".credential: cannot be a secret itself"},
		"secret as variable":  {func(u *UpstreamConfig) { u.Credential = "env:" + canary }, ".credential: cannot be used: after \"env:\""},
		"path as credential":  {func(u *UpstreamConfig) { u.Credential = "systemd:../x" }, ".credential: cannot be used"},
		"empty path":          {func(u *UpstreamConfig) { u.Credential = "file:" }, ".credential: cannot be used"},
		"Entra without URL": {func(u *UpstreamConfig) {
			u.Kind, u.BaseURL, u.Credential = "azure", "https://x.openai.azure.com", "oidc-file:/t"
		}, ".token_url: is missing"},
		"token URL":        {func(u *UpstreamConfig) { u.TokenURL = "http://sts.example.com" }, ".token_url: cannot send requests in the clear"},
		"secret header":    {func(u *UpstreamConfig) { u.Headers = map[string]string{"authorization": "Bearer " + canary} }, ".headers.authorization: cannot be set here"},
		"own header":       {func(u *UpstreamConfig) { u.Headers = map[string]string{"content-length": "5"} }, ".headers.content-length: cannot be set"},
		"header injection": {func(u *UpstreamConfig) { u.Headers = map[string]string{"x-a": "b\r\nx-c: d"} }, ".headers.x-a: cannot have this value"},
		"header name":      {func(u *UpstreamConfig) { u.Headers = map[string]string{"x a": "b"} }, ".headers: cannot use"},
		"long wait":        {func(u *UpstreamConfig) { u.ConnectTimeout = Duration(time.Hour) }, ".connect_timeout: cannot use"},
		"negative":         {func(u *UpstreamConfig) { u.MaxConcurrent = -1 }, ".max_concurrent: cannot use"},
		"less than a byte": {func(u *UpstreamConfig) { u.BytesPerToken = 0.5 }, ".bytes_per_token: cannot use"},
		"on cancel":        {func(u *UpstreamConfig) { u.OnCancel = "leave" }, ".on_cancel: cannot use"},
		"probe":            {func(u *UpstreamConfig) { u.Health.Probe = "health" }, ".health.probe: cannot use"},
		"eject":            {func(u *UpstreamConfig) { u.Health.EjectFor = Duration(time.Hour) }, ".health.eject_max: cannot be shorter"},
	} {
		u := goodUpstream()
		c.change(&u)
		got := faultsOf(Config{Upstreams: []UpstreamConfig{u}})
		if c.want == "" && got != "" || c.want != "" && (!strings.HasPrefix(got, "upstream[0]"+c.want) || strings.Count(got, "\n") != 1) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if strings.Contains(got, "canary") {
			t.Errorf("%s: the secret is repeated in %q", name, got)
		}
	}
}

func TestRouteFaults(t *testing.T) {
	base := func() Config {
		u := goodUpstream()
		u.DataClasses, u.Region = []string{"public"}, "eu"
		return Config{Upstreams: []UpstreamConfig{u}, Rules: []RuleConfig{{Name: "r", Kind: ruleKeyword, Words: []string{"w"}}},
			Routes: []RouteConfig{{Model: "m", DataClasses: []string{"public"}, Candidates: []CandidateConfig{{Upstream: "u", Model: "x"}, {Upstream: Local}}}}}
	}
	for name, c := range map[string]struct {
		change func(r *RouteConfig)
		want   string
	}{
		"good": {func(r *RouteConfig) {}, ""},
		"good rules": {func(r *RouteConfig) {
			r.Rules, r.DataClasses, r.Regions = []string{"r"}, []string{"public"}, []string{"eu"}
		}, ""},
		"no retries":         {func(r *RouteConfig) { r.Retry.On = []string{} }, ""},
		"unknown upstream":   {func(r *RouteConfig) { r.Candidates[0].Upstream = "v" }, ".candidate[0].upstream: cannot find upstream \"v\""},
		"twice":              {func(r *RouteConfig) { r.Candidates = append(r.Candidates, r.Candidates[0]) }, ".candidate[2]: cannot have candidate \"u/x\" twice"},
		"undeclared data":    {func(r *RouteConfig) { r.DataClasses = nil }, ".candidate[0].upstream: cannot send any data"},
		"class not accepted": {func(r *RouteConfig) { r.DataClasses = []string{"secret"} }, ".candidate[0].upstream: cannot send data of class \"secret\""},
		"other region":       {func(r *RouteConfig) { r.Regions = []string{"us"} }, ".candidate[0].upstream: cannot serve this route"},
		"weight":             {func(r *RouteConfig) { r.Candidates[0].Weight = -1 }, ".candidate[0].weight: cannot use"},
		"effect":             {func(r *RouteConfig) { r.Effect = "pure" }, ".effect: cannot use"},
		"split":              {func(r *RouteConfig) { r.Split = "random" }, ".split: cannot use"},
		"loss":               {func(r *RouteConfig) { r.OnLoss = "ignore" }, ".on_loss: cannot use"},
		"attempts":           {func(r *RouteConfig) { r.Retry.Attempts = 11 }, ".retry.attempts: cannot use"},
		"retry of requests":  {func(r *RouteConfig) { r.Retry.On = []string{"request"} }, ".retry.on[0]: cannot repeat"},
		"retry of nonsense":  {func(r *RouteConfig) { r.Retry.On = []string{"500"} }, ".retry.on[0]: cannot use"},
		"backoff":            {func(r *RouteConfig) { r.Retry.Backoff = Duration(10 * time.Second) }, ".retry.max_backoff: cannot be shorter"},
		"queue":              {func(r *RouteConfig) { r.Queue.Depth = -1 }, ".queue.depth: cannot use"},
		"rule":               {func(r *RouteConfig) { r.Rules = []string{"s"} }, ".rules[0]: cannot find rule \"s\""},
		"rule twice":         {func(r *RouteConfig) { r.Rules = []string{"r", "r"} }, ".rules[1]: cannot apply rule \"r\" twice"},
		"normal form":        {func(r *RouteConfig) { r.Normalize = []string{"nfkd"} }, ".normalize[0]: cannot use"},
	} {
		cfg := base()
		c.change(&cfg.Routes[0])
		got := faultsOf(cfg)
		if c.want == "" && got != "" || c.want != "" && (!strings.HasPrefix(got, "route[0]"+c.want) || strings.Count(got, "\n") != 1) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestRuleFaults(t *testing.T) {
	for name, c := range map[string]struct {
		rule RuleConfig
		want string
	}{
		"good":                {RuleConfig{Kind: ruleSize, MaxBytes: 10}, ""},
		"bounds nothing":      {RuleConfig{Kind: ruleSize}, ": cannot bound nothing"},
		"kind":                {RuleConfig{Kind: "magic"}, ".kind: cannot use"},
		"key of another kind": {RuleConfig{Kind: ruleSize, MaxBytes: 10, Words: []string{"a"}}, ".words: cannot be set"},
		"action":              {RuleConfig{Kind: ruleSize, MaxBytes: 10, Action: actionRedact}, ".action: cannot use"},
		"clamp":               {RuleConfig{Kind: ruleMaxTokens, MaxTokens: 10, Action: actionClamp}, ""},
		"side":                {RuleConfig{Kind: ruleTools, Deny: []string{"a"}, On: []string{onAnswer}}, ".on[0]: cannot use"},
		"media":               {RuleConfig{Kind: ruleModality, Allow: []string{"smell"}}, ".allow[0]: cannot use"},
		"no words":            {RuleConfig{Kind: ruleKeyword}, ".words: cannot have 0 entries"},
		"empty word":          {RuleConfig{Kind: ruleKeyword, Words: []string{""}}, ".words[0]: cannot use a pattern that matches nothing"},
		"bad pattern":         {RuleConfig{Kind: ruleRegex, Patterns: []string{"a)(b"}}, ".patterns[0]: cannot parse"},
		"matches nothing":     {RuleConfig{Kind: ruleRegex, Patterns: []string{"a*"}}, ".patterns[0]: cannot use a pattern that matches nothing"},
		"unbounded":           {RuleConfig{Kind: ruleRegex, Patterns: []string{"ok", "a+"}, On: []string{onAnswer}}, ".patterns[1]: cannot look in an answer"},
		"unbounded request":   {RuleConfig{Kind: ruleRegex, Patterns: []string{"a+"}}, ""},
		"bounded":             {RuleConfig{Kind: ruleRegex, Patterns: []string{`\bkey-[a-z]{1,64}\b`}, On: []string{onAnswer}}, ""},
		"unknown data":        {RuleConfig{Kind: rulePII, Detect: []string{"shoe_size"}}, ".detect[0]: cannot use"},
		"replacement":         {RuleConfig{Kind: rulePII, Detect: []string{"ip"}, Replacement: `"`}, ".replacement: cannot be used"},
	} {
		c.rule.Name = "r"
		got := faultsOf(Config{Rules: []RuleConfig{c.rule}})
		if c.want == "" && got != "" || c.want != "" && (!strings.HasPrefix(got, "rule[0]"+c.want) || strings.Count(got, "\n") != 1) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
