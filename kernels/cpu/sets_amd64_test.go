//go:build amd64 && !purego

package cpu

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A machine with the features must use them, the best first: a path that silently
// falls back would pass every other test.
func TestPathsPresent(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("SKIPPED: no /proc/cpuinfo to compare with")
	}
	_, flags, _ := strings.Cut(string(info), "\nflags")
	flags, _, _ = strings.Cut(flags, "\n")
	has := strings.Fields(flags)
	var want []string
	for _, c := range []struct{ path, flags string }{
		{"avx512-bf16", "avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512_vnni bmi1 bmi2 avx512_bf16"},
		{"avx512-vnni", "avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512_vnni bmi1 bmi2"},
		{"avx2", "avx2 fma f16c"},
	} {
		if !slices.ContainsFunc(strings.Fields(c.flags), func(f string) bool { return !slices.Contains(has, f) }) {
			want = append(want, c.path)
		}
	}
	got := slices.DeleteFunc(Paths(), func(p string) bool { return p == "vnni-emulated" })
	if want = append(want, "portable"); !slices.Equal(got, want) {
		t.Errorf("paths %q, the processor's flags ask for %q; refused are %q", got, want, Refused())
	}
}

// What does not agree is left out, and named.
func TestSetsRefused(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	unasked := func() bool { t.Error("kernels are run that the processor has no instructions for"); return true }
	for _, c := range []struct {
		has           features
		vnni, bf16    func() bool
		first, others string
	}{
		{features{}, unasked, unasked, "portable", ""},
		{features{avx2: true}, unasked, unasked, "avx2", ""},
		{features{avx2: true, vnni: true}, yes, unasked, "avx512-vnni", ""},
		{features{avx2: true, vnni: true}, no, unasked, "avx2", "avx512-vnni"},
		{features{avx2: true, vnni: true, bf16: true}, yes, yes, "avx512-bf16", ""},
		{features{avx2: true, vnni: true, bf16: true}, yes, no, "avx512-vnni", "avx512-bf16"},
		{features{avx2: true, vnni: true, bf16: true}, no, no, "avx2", "avx512-bf16 avx512-vnni"},
	} {
		all, refused := setsFor(c.has, c.vnni, c.bf16)
		if got := strings.Join(refused, " "); all[0].name != c.first || got != c.others {
			t.Errorf("%+v: first is %s and %q are refused, want %s and %q", c.has, all[0].name, got, c.first, c.others)
		}
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
