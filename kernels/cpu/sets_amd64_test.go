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
		{"avx-vnni", "avx2 fma f16c avx_vnni"},
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

// What does not agree is left out, and named; what is not needed is not tried.
func TestSetsRefused(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	unasked := func() bool { t.Error("kernels are tried that need not be"); return true }
	for _, c := range []struct {
		has                 features
		vnni, bf16, avxVNNI func() bool
		first, refused      string
	}{
		{features{}, unasked, unasked, unasked, "portable", ""},
		{features{avx2: true}, unasked, unasked, unasked, "avx2", ""},
		{features{avx2: true, avxVNNI: true}, unasked, unasked, yes, "avx-vnni", ""},
		{features{avx2: true, avxVNNI: true}, unasked, unasked, no, "avx2", "avx-vnni"},
		{features{avx2: true, vnni: true}, yes, unasked, unasked, "avx512-vnni", ""},
		{features{avx2: true, vnni: true}, no, unasked, unasked, "avx2", "avx512-vnni"},
		{features{avx2: true, vnni: true, bf16: true, avxVNNI: true}, unasked, yes, unasked, "avx512-bf16", ""},
		{features{avx2: true, vnni: true, bf16: true}, yes, no, unasked, "avx512-vnni", "avx512-bf16"},
		{features{avx2: true, vnni: true, bf16: true, avxVNNI: true}, no, no, yes, "avx-vnni", "avx512-bf16 avx512-vnni"},
		{features{avx2: true, vnni: true, bf16: true, avxVNNI: true}, no, no, no, "avx2", "avx512-bf16 avx512-vnni avx-vnni"},
	} {
		all := candidatesOf(c.has, c.vnni, c.bf16, c.avxVNNI)
		best, err := chooseOf(all, "")
		if err != nil {
			t.Fatal(err)
		}
		refused := refusedOf(all)
		if got := strings.Join(refused, " "); best.name != c.first || got != c.refused {
			t.Errorf("%+v: %s is taken and %q are refused, want %s and %q", c.has, best.name, got, c.first, c.refused)
		}
		for _, name := range refused {
			if ks, err := chooseOf(all, name); err == nil {
				t.Errorf("%+v: %s is refused, and %s given for its name", c.has, name, ks.name)
			}
		}
	}
}

// What does not agree is no path, also where better sets do.
func TestPathsAgreeing(t *testing.T) {
	yes, no := func() bool { return true }, func() bool { return false }
	all := candidatesOf(features{avx2: true, avxVNNI: true, vnni: true, bf16: true}, yes, no, no)
	if got, want := strings.Join(pathsOf(all), " "), "avx512-vnni avx2 "; !strings.HasPrefix(got, want) {
		t.Errorf("paths are %q, want %q first", got, want)
	}
}

// The generator takes registers 16 to 31 when it runs out of others; they need
// AVX-512, which kernels for processors without it must not. Nor may they have its
// instructions, which the generator names above each function.
func TestNarrow(t *testing.T) {
	wide := regexp.MustCompile(`.*\b([XY](1[6-9]|2\d|3[01])|Z\d+|K[0-7])\b.*|(?m:^// Requires:.*AVX512.*|^\s*VPDPBUSD.*)`)
	for _, name := range []string{"avx2_amd64.s", "avxvnni_amd64.s"} {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if m := wide.Find(src); m != nil {
			t.Errorf("%s: AVX-512 in %q", name, m)
		}
	}
}
