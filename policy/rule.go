package policy

import (
	"fmt"
	"slices"
	"strings"
)

// RuleConfig is one [[rule]]: what is asked of requests and answers on the
// routes that name it.
type RuleConfig struct {
	Name string `toml:"name"` // callers are told it where the rule refuses
	// Kind is what the rule looks at:
	//
	//	size            of the request: MaxBytes, MaxMessages, MaxTools
	//	modality        media in the request: only those in Allow
	//	max_tokens      what the caller asks for: at most MaxTokens
	//	keyword         Words in the text
	//	regex           Patterns in the text, RE2 syntax
	//	pii             personal data in the text: Detect
	//	tools           names of declared tools: those in Allow, not those in Deny
	//	tool_arguments  of the answer, against the schema that the request declares
	//	json            the answer, against the schema that the request asks for
	Kind string `toml:"kind"`
	// On says where a keyword, regex or pii rule looks: "request" (default),
	// "answer", or both.
	On []string `toml:"on"`
	// Action is "deny" (default), "tag" (only noted in the ledger), and, for
	// keyword, regex and pii, "redact". A max_tokens rule denies or clamps:
	// "deny", "clamp".
	Action string `toml:"action"`

	MaxBytes    int      `toml:"max_bytes"` // 0: no bound; so with the next two
	MaxMessages int      `toml:"max_messages"`
	MaxTools    int      `toml:"max_tools"`
	MaxTokens   int      `toml:"max_tokens"`
	Allow       []string `toml:"allow"` // modality: "text", "image", "audio", "video", "file"; tools: "prefix*" allowed
	Deny        []string `toml:"deny"`
	// Words are found whole, whatever their case.
	Words    []string `toml:"words"`
	Patterns []string `toml:"patterns"`
	// Detect lists kinds of personal data: email, phone, iban, credit_card, ssn,
	// ip, api_key. See the detectors for how each is known.
	Detect []string `toml:"detect"`
	// Replacement stands where something was redacted; default "[redacted]".
	Replacement string `toml:"replacement"`
}

// Rule kinds.
const (
	ruleSize          = "size"
	ruleModality      = "modality"
	ruleMaxTokens     = "max_tokens"
	ruleKeyword       = "keyword"
	ruleRegex         = "regex"
	rulePII           = "pii"
	ruleTools         = "tools"
	ruleToolArguments = "tool_arguments"
	ruleJSON          = "json"
)

// Actions, and the two sides that a rule looks at.
const (
	actionDeny   = "deny"
	actionRedact = "redact"
	actionTag    = "tag"
	actionClamp  = "clamp"

	onRequest = "request"
	onAnswer  = "answer"
)

// What Normalize may list.
const (
	normalNewlines = "newlines"
	normalTrim     = "trim"
	normalNFC      = "nfc"
)

var (
	ruleKinds  = []string{ruleSize, ruleModality, ruleMaxTokens, ruleKeyword, ruleRegex, rulePII, ruleTools, ruleToolArguments, ruleJSON}
	modalities = []string{"text", "image", "audio", "video", "file"}
)

// Bounds of [[rule]] tables.
const (
	maxRules        = 1000
	maxRuleList     = 1000
	maxRuleText     = 1000
	maxReplacement  = 64
	maxRequestBytes = 1 << 30
)

func (r *RuleConfig) defaults() {
	setText(&r.Action, actionDeny)
	setText(&r.Replacement, "[redacted]")
	if r.On == nil {
		r.On = []string{onRequest}
		if r.Kind == ruleToolArguments || r.Kind == ruleJSON {
			r.On = []string{onAnswer}
		}
	}
}

func (v *validator) rules(rs []RuleConfig) {
	if len(rs) > maxRules {
		v.fault("rule", "cannot have %d rules: want at most %d", len(rs), maxRules)
		return
	}
	seen := map[string]bool{}
	for i := range rs {
		r, path := &rs[i], fmt.Sprintf("rule[%d]", i)
		v.name(path+".name", r.Name, false)
		if seen[r.Name] {
			v.fault(path+".name", "cannot have rule %.64q twice", r.Name)
		}
		seen[r.Name] = true
		if !slices.Contains(ruleKinds, r.Kind) {
			v.oneOf(path+".kind", r.Kind, ruleKinds...)
			continue
		}
		v.rule(path, r)
	}
}

func (v *validator) rule(path string, r *RuleConfig) {
	actions, sides := []string{actionDeny, actionTag}, []string{onRequest}
	switch r.Kind {
	case ruleKeyword, ruleRegex, rulePII:
		actions, sides = append(actions, actionRedact), []string{onRequest, onAnswer}
	case ruleMaxTokens:
		actions = []string{actionDeny, actionClamp}
	case ruleToolArguments, ruleJSON:
		sides = []string{onAnswer}
	}
	v.oneOf(path+".action", r.Action, actions...)
	if len(r.On) == 0 {
		v.fault(path+".on", "cannot be empty: want some of %s", quoted(sides))
	}
	for i, s := range r.On {
		v.oneOf(fmt.Sprintf("%s.on[%d]", path, i), s, sides...)
	}
	if len(r.Replacement) > maxReplacement || strings.ContainsFunc(r.Replacement, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' || c == 0x7f }) {
		v.fault(path+".replacement", "cannot be used: want at most %d bytes without quotes, backslashes and control characters", maxReplacement)
	}
	v.ruleKeys(path, r)
	v.ruleValues(path, r)
}

// ruleKeys refuses keys that the kind does not have: they would do nothing.
func (v *validator) ruleKeys(path string, r *RuleConfig) {
	for _, f := range []struct {
		key   string
		given bool
		kinds string
	}{
		{"max_bytes", r.MaxBytes != 0, ruleSize}, {"max_messages", r.MaxMessages != 0, ruleSize}, {"max_tools", r.MaxTools != 0, ruleSize},
		{"max_tokens", r.MaxTokens != 0, ruleMaxTokens}, {"allow", len(r.Allow) > 0, ruleModality + " " + ruleTools},
		{"deny", len(r.Deny) > 0, ruleTools}, {"words", len(r.Words) > 0, ruleKeyword},
		{"patterns", len(r.Patterns) > 0, ruleRegex}, {"detect", len(r.Detect) > 0, rulePII},
	} {
		if f.given && !slices.Contains(strings.Fields(f.kinds), r.Kind) {
			v.fault(path+"."+f.key, "cannot be set in a rule of kind %q", r.Kind)
		}
	}
}

func (v *validator) ruleValues(path string, r *RuleConfig) {
	switch r.Kind {
	case ruleSize:
		v.between(path+".max_bytes", r.MaxBytes, 0, maxRequestBytes)
		v.between(path+".max_messages", r.MaxMessages, 0, maxLimit)
		v.between(path+".max_tools", r.MaxTools, 0, maxLimit)
		if r.MaxBytes == 0 && r.MaxMessages == 0 && r.MaxTools == 0 {
			v.fault(path, "cannot bound nothing: want max_bytes, max_messages or max_tools")
		}
	case ruleModality:
		v.some(path+".allow", r.Allow)
		for i, m := range r.Allow {
			v.oneOf(fmt.Sprintf("%s.allow[%d]", path, i), m, modalities...)
		}
	case ruleMaxTokens:
		v.between(path+".max_tokens", r.MaxTokens, 1, maxOutputTokens)
	case ruleTools:
		v.patterns(path+".allow", r.Allow)
		v.patterns(path+".deny", r.Deny)
		if len(r.Allow) == 0 && len(r.Deny) == 0 {
			v.fault(path, "cannot decide on nothing: want allow or deny")
		}
	case ruleKeyword:
		v.some(path+".words", r.Words)
		v.finder(path+".words", r)
	case ruleRegex:
		v.some(path+".patterns", r.Patterns)
		v.finder(path+".patterns", r)
	case rulePII:
		v.some(path+".detect", r.Detect)
		for i, d := range r.Detect {
			v.oneOf(fmt.Sprintf("%s.detect[%d]", path, i), d, detectorNames()...)
		}
	}
}

func (v *validator) some(path string, list []string) {
	if len(list) == 0 || len(list) > maxRuleList {
		v.fault(path, "cannot have %d entries: want 1 to %d", len(list), maxRuleList)
	}
}

// finder checks that each entry can be compiled, and searched for in a stream
// where the rule looks at answers.
func (v *validator) finder(path string, r *RuleConfig) {
	list, compile := r.Words, wordPattern
	if r.Kind == ruleRegex {
		list, compile = r.Patterns, plainPattern
	}
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if len(s) > maxRuleText {
			v.fault(at, "cannot have %d bytes: want at most %d", len(s), maxRuleText)
		} else if err := checkPattern(compile(s), slices.Contains(r.On, onAnswer)); err != nil {
			v.fault(at, "%v", err)
		}
	}
}
