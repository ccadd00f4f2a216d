package cpu

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The arm64 files hold most instructions as words that their generator encoded, with
// the instruction as a comment. Each word is the one that another assembler gave
// (testdata/arm64.txt, made by _asm/arm64/encodings).
func TestEncodings(t *testing.T) {
	list, err := os.ReadFile("testdata/arm64.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(list)) {
		word, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		want[text] = word
	}
	line := regexp.MustCompile(`(?m)^\tWORD (.*)$`)
	used := map[string]bool{}
	for _, name := range []string{"dotprod_arm64.s", "neon_arm64.s"} {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllSubmatch(src, -1) {
			word, text, _ := strings.Cut(string(m[1]), " // ")
			if got := strings.ToLower(strings.TrimPrefix(word, "$0x")); got != want[text] {
				t.Errorf("%s: %q is encoded as %s, another assembler says %q", name, text, got, want[text])
			}
			used[text] = true
		}
	}
	if len(used) != len(want) || len(used) == 0 {
		t.Errorf("%d instructions in the files, %d in the list: make it anew", len(used), len(want))
	}
}
