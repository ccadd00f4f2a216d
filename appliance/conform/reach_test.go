package conform

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"hearth/appliance/upstream"
	"hearth/internal/fakeprovider"
	"hearth/policy"
)

// TestReach holds that a provider that is down is told in one line, before any
// case, and that one which answers, be it badly, is asked.
func TestReach(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := "http://" + l.Addr().String() + "/v1"
	l.Close()
	s, err := fakeprovider.New(fakeprovider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reach := func(url string) error {
		t.Helper()
		c := policy.UpstreamConfig{Name: "up", Kind: "vllm", BaseURL: url}
		b, err := NewBridge([]Deployment{{c, "m"}}, "key", upstream.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		return b.Reach(context.Background(), "up")
	}
	if err := reach(down); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "could not be reached") {
		t.Errorf("down: got %v", err)
	}
	if err := reach(s.URL() + "/v1"); err != nil {
		t.Errorf("up: got %v", err)
	}
	s.Play(fakeprovider.Script{Error: &fakeprovider.Error{Kind: "overloaded"}})
	if err := reach(s.URL() + "/v1"); err != nil {
		t.Errorf("overloaded: got %v", err)
	}
}

// TestPrintLines holds that a failure has one line, whatever the model said.
func TestPrintLines(t *testing.T) {
	r := Report{Outcomes: []Outcome{{Case: "a.b", In: Chat, Mode: "whole", Result: Failed, Why: []string{"got \"x\r\ny\" \x1b[1m \\ é"}}}}
	var b bytes.Buffer
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	if want := "failed: a.b in chat, whole: got \"x\\r\\ny\" \\x1b[1m \\ é\n"; !strings.Contains(b.String(), want) {
		t.Errorf("got %q, want %q in it", b.String(), want)
	}
}
