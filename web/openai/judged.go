package openai

import (
	"hearth/web/jsonread"
	"hearth/web/wire"
)

// choosing are members with which proxies let a caller say what serves a request,
// or where: that is for the route, and for nobody else.
var choosing = map[string]bool{
	"models": true, "fallbacks": true, "context_window_fallbacks": true, "content_policy_fallbacks": true, // OpenRouter, LiteLLM
	"model_list": true, "user_config": true, "custom_llm_provider": true, "api_base": true, "base_url": true, "api_key": true, "extra_headers": true, // LiteLLM
}

// unknownMember notes a top-level member that nobody here knows.
func (d *decoder) unknownMember(key string, v jsonread.Value) error {
	if err := wire.Guard(key, v); err != nil {
		return err
	}
	if choosing[key] && !v.IsNull() {
		return v.Unsupported("cannot use %s: what serves a request, and where, is for the route to say", key)
	}
	return d.unknown(v)
}
