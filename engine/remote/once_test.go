//go:build linux && (amd64 || arm64)

package remote

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRunOnce(t *testing.T) {
	sh := func(script string) *Command { return &Command{Path: "/bin/sh", Args: []string{"-c", script}} }
	if b, err := sh("echo one; echo two >&2").RunOnce(t.Context()); err != nil || string(b) != "one\n" {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := sh("echo because >&2; exit 3").RunOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 3: because") {
		t.Errorf("got %v", err)
	}
	if _, err := sh("yes | head -c 5000000").RunOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "wrote more than") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := sh("exec sleep 60").RunOnce(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("got %v after %v", err, time.Since(began))
	}
	im := selfImage(t, "")
	c := imageCommand(im, "once")
	if b, err := c.RunOnce(t.Context()); err != nil || !strings.Contains(string(b), "memfd:hearth-test-worker") {
		t.Errorf("got %q, %v", b, err)
	}
	im.ELF = withInterpreter(t, im.ELF, "/no/such/loader.so.2")
	if _, err := c.RunOnce(t.Context()); err == nil || !strings.Contains(err.Error(), "this system has no /no/such/loader.so.2") {
		t.Errorf("got %v", err)
	}
}
