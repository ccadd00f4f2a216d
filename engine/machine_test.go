package engine

import (
	"strings"
	"testing"

	"hearth/engine/worker/report"
)

// What a processor's kernels cannot be trusted with is told by name and code.
func TestSlower(t *testing.T) {
	if s := slower(nil, "avx2"); s != "" {
		t.Errorf("nothing was refused, and the reason is %q", s)
	}
	s := slower([]string{"avx512-bf16", "avx512-vnni"}, "avx2")
	if report.CodeOf(s) != report.KernelsRefused || !strings.Contains(s, "avx512-bf16 and avx512-vnni") || !strings.Contains(s, "avx2 ones") {
		t.Errorf("the reason is %q, of code %q", s, report.CodeOf(s))
	}
}
