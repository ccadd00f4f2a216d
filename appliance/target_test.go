package appliance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/policy"
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

// TestPassedOver holds what the ledger is told of candidates that are not asked.
func TestPassedOver(t *testing.T) {
	at := func(name string, err error) *target {
		return &target{candidate: &policy.Candidate{Backend: name}, model: "up", err: err}
	}
	lossy := refuse([]infer.Loss{{Path: "seed", Feature: infer.FeatureSeed, Class: infer.Emulated}, {Path: "n", Feature: infer.FeatureChoices, Class: infer.Dropped}}, false, false)
	got := passedOver([]*target{at("a", nil), at("b", lossy), at("c", infer.Errorf(infer.CodeUnavailable, "no model is loaded"))})
	if want := []string{"b/up=passed: n=dropped", "c/up=passed: " + string(infer.CodeUnavailable)}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
