package linediff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// patch applies a unified difference: a reader of the format of its own.
func patch(t *testing.T, a, diff string) string {
	t.Helper()
	src, at := lines(a), 0
	var out strings.Builder
	last := &out
	for _, l := range lines(diff)[2:] {
		switch l[0] {
		case '@':
			var from, n int
			part := strings.Fields(l)[1][1:]
			if c, _ := fmt.Sscanf(part, "%d,%d", &from, &n); c < 2 {
				n = 1
			}
			if n > 0 {
				from--
			}
			for ; at < from; at++ {
				out.WriteString(src[at])
			}
		case ' ', '-':
			if src[at] != l[1:] && src[at]+"\n" != l[1:] {
				t.Fatalf("line %d is %q, the difference has %q", at, src[at], l)
			}
			if l[0] == ' ' {
				out.WriteString(src[at])
			}
			at++
		case '+':
			last.WriteString(l[1:])
		case '\\':
			if s := out.String(); strings.HasSuffix(s, "\n") && at == len(src) {
				out.Reset()
				out.WriteString(strings.TrimSuffix(s, "\n"))
			}
		}
	}
	for ; at < len(src); at++ {
		out.WriteString(src[at])
	}
	return out.String()
}

func TestPatched(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 9))
		var a []string
		for range r.IntN(30) {
			a = append(a, fmt.Sprint("line ", r.IntN(6), "\n"))
		}
		b := append([]string(nil), a...)
		for range r.IntN(6) {
			i := r.IntN(len(b) + 1)
			switch r.IntN(3) {
			case 0:
				b = append(b[:i:i], append([]string{fmt.Sprint("new ", r.IntN(4), "\n")}, b[i:]...)...)
			case 1:
				if i < len(b) {
					b = append(b[:i:i], b[i+1:]...)
				}
			default:
				if i < len(b) {
					b[i] = "changed\n"
				}
			}
		}
		x, y := strings.Join(a, ""), strings.Join(b, "")
		diff := Unified("a", "b", x, y)
		if x == y {
			if diff != "" {
				t.Fatalf("equal texts differ: %s", diff)
			}
			continue
		}
		if got := patch(t, x, diff); got != y {
			t.Fatalf("seed %d: patched\n%q\nwanted\n%q\nwith\n%s", seed, got, y, diff)
		}
	}
}

func TestForm(t *testing.T) {
	a := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12"
	b := "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n11\n12\n"
	want := `--- old
+++ new
@@ -2,11 +2,11 @@
 2
 3
 4
-5
+five
 6
 7
 8
 9
 10
 11
-12
\ No newline at end of file
+12
`
	if got := Unified("old", "new", a, b); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := Unified("old", "new", "", "x\n"); got != "--- old\n+++ new\n@@ -0,0 +1 @@\n+x\n" {
		t.Errorf("got\n%s", got)
	}
	// Nothing in common, and large: bounded work.
	big, other := strings.Repeat("a\n", 200_000), strings.Repeat("b\n", 200_000)
	if got := Unified("old", "new", big, other); len(got) < 800_000 {
		t.Errorf("got %d bytes", len(got))
	}
}
