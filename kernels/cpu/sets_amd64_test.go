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
	all := func(flags ...string) bool {
		for _, f := range flags {
			if !slices.Contains(has, f) {
				return false
			}
		}
		return true
	}
	f := func(path string, want bool) {
		t.Helper()
		if got := slices.Contains(Paths(), path); got != want {
			t.Errorf("paths %q: %s present %v, the processor's flags say %v", Paths(), path, got, want)
		}
	}
	f("avx2", all("avx2", "fma", "f16c"))
	f("avx512-vnni", all("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"))
	f("avx512-bf16", all("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16"))
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
