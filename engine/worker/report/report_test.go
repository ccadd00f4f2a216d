package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hearth/engine/infer"
)

func TestCode(t *testing.T) {
	f := Faultf(NoDriver, "install it", "cannot load %s", "libcuda.so.1")
	for text, want := range map[string]Code{
		f.Error():                              NoDriver,
		"replica 1: out_of_memory: 3 GiB":      OutOfMemory,
		"something else":                       Other,
		"":                                     Other,
		"no_driver: then out_of_memory: later": NoDriver,
	} {
		if got := CodeOf(text); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	for _, c := range codes {
		if got := CodeOf(Faultf(c, "", "x").Error()); got != c {
			t.Errorf("%s is read as %s", c, got)
		}
	}
	var got *Fault
	if err := fmt.Errorf("open: %w", f); !errors.As(err, &got) || got.Fix != "install it" {
		t.Error("a fault is lost in an error")
	}
}

func TestFind(t *testing.T) {
	bad := Faultf(Unsupported, "", "old")
	l := &List{Devices: []Device{
		{Device: infer.Device{ID: "cuda:0", UUID: "GPU-aaaa1111-0000"}, Index: 0},
		{Device: infer.Device{ID: "cuda:1", UUID: "GPU-bbbb2222-0000"}, Index: 1, Fault: bad},
	}}
	for name, want := range map[string]string{"cuda:0": "cuda:0", "0": "cuda:0", "GPU-AAAA": "cuda:0", "GPU-aaaa1111-0000": "cuda:0"} {
		if d, f := l.Find(name); f != nil || d.ID != want {
			t.Errorf("%s: %v, %v", name, d, f)
		}
	}
	if _, f := l.Find("cuda:1"); f != bad {
		t.Errorf("got %v", f)
	}
	for _, name := range []string{"cuda:2", "GPU-cccc", "GPU-", "", "2"} {
		if _, f := l.Find(name); f == nil || f.Code != NoDevice || !strings.Contains(f.Text, "GPU-bbbb2222") {
			t.Errorf("%q: %v", name, f)
		}
	}
}
