package progress

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func run(t *testing.T, o Options, seconds int) string {
	t.Helper()
	var b bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	o.Now = c.now
	s := New(&b, o)
	total := int64(seconds) * 10e6
	for i := range 10*seconds + 1 {
		s.Set("copy", Bytes, int64(i)*1e6, total)
		c.t = c.t.Add(100 * time.Millisecond)
	}
	s.Done()
	return b.String()
}

func TestPlainLinesAreFew(t *testing.T) {
	out := run(t, Options{Mode: Auto}, 20)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 {
		t.Fatalf("got %d lines, wanted 5 in 20 seconds\n%s", len(lines), out)
	}
	if !strings.Contains(lines[1], "10.0 MB/s") || !strings.Contains(lines[1], "left") || !strings.Contains(lines[4], "100 %") {
		t.Errorf("got\n%s", out)
	}
	if strings.ContainsAny(out, "\r\x1b") {
		t.Errorf("plain lines move the cursor: %q", out)
	}
	if short := run(t, Options{Mode: Plain}, 1); short != "" {
		t.Errorf("a second's work wrote %q, wanted nothing", short)
	}
}

func TestBarFitsAndLeavesNothing(t *testing.T) {
	for _, width := range []int{10, 20, 40, 80, 200} {
		out := run(t, Options{Mode: Bar, Width: width, Getenv: func(k string) string { return map[string]string{"NO_COLOR": "1"}[k] }}, 3)
		if !strings.HasSuffix(out, "\r\x1b[K") {
			t.Errorf("width %d: the bar stays", width)
		}
		for _, line := range strings.Split(out, "\r") {
			line = strings.TrimSuffix(line, "\x1b[K")
			if n := utf8.RuneCountInString(line); n >= width {
				t.Errorf("width %d: a line of %d columns: %q", width, n, line)
			}
			if strings.Contains(line, "\x1b") {
				t.Errorf("NO_COLOR: got %q", line)
			}
		}
	}
	if out := run(t, Options{Mode: Bar, Width: 80}, 1); !strings.Contains(out, "\x1b[32m━") {
		t.Errorf("no colour in %q", out)
	}
}

func TestJSONLines(t *testing.T) {
	out := run(t, Options{Mode: JSON}, 3)
	var last Update
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var u map[string]Update
		if err := json.Unmarshal([]byte(line), &u); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if next := u["progress"]; next.Done < last.Done {
			t.Errorf("went back from %d to %d", last.Done, next.Done)
		}
		last = u["progress"]
	}
	if last.Fraction != 1 || last.Label != "copy" || last.Unit != Bytes {
		t.Errorf("ended with %+v", last)
	}
}

func TestNothing(t *testing.T) {
	if out := run(t, Options{Mode: None}, 30); out != "" {
		t.Errorf("got %q", out)
	}
	var s *Shower
	s.Set("x", Items, 1, 2)
	s.Say("x")
	s.Done()
	if _, err := ParseMode("loud"); err == nil {
		t.Error("the mode loud is taken")
	}
}
