package config

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// spent is the processor's time that this process has had: other than a clock it
// does not count what else the machine does.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// No text within MaxBytes costs more than a moment: it may come from somebody who
// may only have it checked.
func TestParseOfOvergrownText(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for what, text := range map[string]string{
		"parts of a key":    strings.Repeat("a.", 1<<20) + "b = 1",
		"parts of a header": "[" + strings.Repeat("a . ", 1<<19) + "b]",
		"quoted parts":      strings.Repeat(`"a".`, 1<<19) + "b = 1",
		"in an inline":      "x = {" + strings.Repeat("a.", 1<<20) + "b = 1}",
		"tables":            many(150_000, "[[tenant]]\nname='t%d'\n"),
		"inline tables":     "tenant = [" + many(200_000, "{name='t%d'},") + "]",
		"unknown keys":      many(300_000, "x%d = 1\n"),
		"behind a string":   "a = \"\"\"x\"\"\"\"\"\nb = '''\n'''\n" + strings.Repeat("c.", 1<<20) + "d = 1",
	} {
		began := spent(t)
		_, err := Parse("x.toml", []byte(text))
		if err == nil {
			t.Errorf("%s: taken", what)
		} else if len(err.Error()) > 1<<20 {
			t.Errorf("%s: the error has %d bytes", what, len(err.Error()))
		}
		if took := spent(t) - began; took > 20*time.Second {
			t.Errorf("%s: took %v", what, took)
		}
	}
	fine := "# " + strings.Repeat("a.", 500) + "\n[log]\nlevel = \"info\" # " + strings.Repeat(".", 500) + "\n"
	if line, how := overgrown([]byte(fine + "x = '" + strings.Repeat(".", 500) + "'\ny = \"\"\"\n" + strings.Repeat("a.b.", 500) + "\n\"\"\"\n")); line != 0 {
		t.Errorf("dots in comments and strings: line %d: %s", line, how)
	}
}

func TestNamesOfManyElements(t *testing.T) {
	list := make([]any, 50_000)
	for i := range list {
		list[i] = map[string]any{"name": "same"}
	}
	began := spent(t)
	names := ElementNames(list)
	seen := map[string]bool{}
	for _, n := range names {
		seen[n] = true
	}
	if len(seen) != len(list) || names[1] != "same#2" || spent(t)-began > 10*time.Second {
		t.Errorf("%d names of %d, %q, in %v", len(seen), len(list), names[1], spent(t)-began)
	}
}
