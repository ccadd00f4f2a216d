package appliance

import (
	"errors"
	"strings"
	"testing"

	"hearth/engine/infer"
)

// TestRefuse holds that a refusal names everything that would be lost at an
// upstream, and only what is not let pass.
func TestRefuse(t *testing.T) {
	loss := func(f infer.Feature, path string) infer.Loss {
		return infer.Loss{Path: path, Feature: f, Class: infer.Dropped}
	}
	losses := []infer.Loss{loss(infer.FeatureLogprobs, "logprobs"), loss(infer.FeatureLogprobs, "top_logprobs"),
		loss(infer.FeatureToolHostedOptional, "tools[0].web_search"), loss(infer.FeatureChoices, "n"), loss(infer.FeatureChoices, "n")}
	for _, c := range []struct {
		name          string
		local, report bool
		param         string
		has, lacks    string
	}{
		{"an upstream", false, false, "logprobs", "; so would top_logprobs, n", "web_search"},
		{"a route that reports", false, true, "n", "n has no counterpart", "so would"},
		{"here", true, false, "logprobs", "logprobs is not offered", "so would"},
	} {
		var e *infer.Error
		if err := refuse(losses, c.local, c.report); !errors.As(err, &e) {
			t.Fatalf("%s: got %v, want a refusal", c.name, err)
		}
		if e.Param != c.param || !strings.Contains(e.Message, c.has) || strings.Contains(e.Message, c.lacks) || !e.NoRetry {
			t.Errorf("%s: got %q about %q", c.name, e.Message, e.Param)
		}
	}
	if err := refuse(losses[:3], false, true); err != nil {
		t.Errorf("a route that reports refuses %v", err)
	}
}
