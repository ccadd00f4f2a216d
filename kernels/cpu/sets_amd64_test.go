//go:build amd64 && !purego

package cpu

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A machine with the features must use them: a path that silently falls back
// would pass every other test.
func TestPathsPresent(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("SKIPPED: no /proc/cpuinfo to compare with")
	}
	_, flags, _ := strings.Cut(string(info), "\nflags")
	flags, _, _ = strings.Cut(flags, "\n")
	has := strings.Fields(flags)
	want := slices.Contains(has, "avx2") && slices.Contains(has, "fma") && slices.Contains(has, "f16c")
	if got := slices.Contains(Paths(), "avx2"); got != want {
		t.Errorf("paths %q, processor flags say avx2 %v", Paths(), want)
	}
}

// The generator takes registers 16 to 31 when it runs out of others; they need
// AVX-512, which an AVX2 kernel must not.
func TestAVX2Registers(t *testing.T) {
	src, err := os.ReadFile("avx2_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`.*\b([XY](1[6-9]|2\d|3[01])|Z\d+|K[0-7])\b.*`).Find(src); m != nil {
		t.Errorf("an AVX-512 register in %q", m)
	}
}
