package wire

import (
	"strings"
	"testing"
)

func TestOpaque(t *testing.T) {
	long := strings.Repeat("x", 65)
	if got := Opaque("short", 64); got != "short" {
		t.Errorf("got %q", got)
	}
	if got := Opaque(long, 64); len(got) != 64 || got == Opaque(long+"y", 64) || got != Opaque(long, 64) {
		t.Errorf("got %q", got)
	}
	if got := Opaque("a@b", 0); len(got) != 64 || Opaque("", 0) != "" {
		t.Errorf("got %q", got)
	}
	if got := Opaque(long, 8); len(got) != 8 {
		t.Errorf("got %q", got)
	}
}
