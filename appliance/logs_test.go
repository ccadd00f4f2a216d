package appliance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"hearth/appliance/config"
)

func testLogs(t *testing.T, recent int) (*logs, *slog.Logger, *bytes.Buffer) {
	t.Helper()
	c, out := config.Default(), &bytes.Buffer{}
	c.Log.Recent = recent
	l, log := newLogs(out, c)
	t.Cleanup(func() { l.close() })
	return l, log, out
}

func (l *logs) messages(f logFilter) string {
	if f.limit == 0 {
		f.limit = 100
	}
	out, _, _ := l.ring.read(f)
	var b strings.Builder
	for i := range out {
		b.WriteString(out[i].Message + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestLogRing(t *testing.T) {
	l, log, _ := testLogs(t, 3)
	for i := range 5 {
		log.Info(fmt.Sprint("m", i), "request", fmt.Sprint("r", i%2))
	}
	if got := l.messages(logFilter{}); got != "m2 m3 m4" {
		t.Errorf("kept %q, wanted the latest three", got)
	}
	if got := l.messages(logFilter{request: "r1"}); got != "m3" {
		t.Errorf("of r1: %q", got)
	}
	if got := l.messages(logFilter{limit: 1}); got != "m4" {
		t.Errorf("the latest is %q", got)
	}
	out, last, lost := l.ring.read(logFilter{after: 1, limit: 2})
	if len(out) != 2 || out[0].Message != "m2" || last != 4 || !lost {
		t.Errorf("behind 1: %+v, last %d, lost %v", out, last, lost)
	}
	if out, last, lost = l.ring.read(logFilter{after: last, limit: 2}); len(out) != 1 || out[0].Message != "m4" || last != 5 || lost {
		t.Errorf("behind 4: %+v, last %d, lost %v", out, last, lost)
	}
	l.ring.resize(5)
	log.Info("m5")
	if got := l.messages(logFilter{}); got != "m2 m3 m4 m5" {
		t.Errorf("after growing: %q", got)
	}
	l.ring.resize(2)
	if got := l.messages(logFilter{}); got != "m4 m5" {
		t.Errorf("after shrinking: %q", got)
	}
	l.ring.resize(0)
	log.Info("m6")
	if got := l.messages(logFilter{}); got != "" {
		t.Errorf("an empty ring keeps %q", got)
	}
}

func TestLogRecordText(t *testing.T) {
	l, log, _ := testLogs(t, 10)
	log.With("model", "m").WithGroup("g").Warn("said", "n", 3, "took", 1500*time.Millisecond, "error", errors.New("no"),
		"api_key", "plain", "text", "with Bearer abcdef0123456789 in it", slog.Group("in", "ok", true))
	out, _, _ := l.ring.read(logFilter{limit: 1})
	want := `WARN said model=m g.n=3 g.took=1.5s g.error=no g.api_key=[masked] g.text="with [masked] in it" g.in.ok=true`
	if got := out[0].line(); !strings.HasSuffix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := maskSecrets("hk_0123456789abcdef0123, task_0123456789abcdef0123, sk-short"); got != "[masked], task_0123456789abcdef0123, sk-short" {
		t.Errorf("masked %q", got)
	}
}

func TestLogLevelAndFormatLive(t *testing.T) {
	l, log, out := testLogs(t, 10)
	sub := log.With("part", "x")
	sub.Debug("hidden")
	l.set(slog.LevelDebug, 30*time.Millisecond, time.Now())
	sub.Debug("shown")
	deadline := time.Now().Add(5 * time.Second)
	for log.Enabled(t.Context(), slog.LevelDebug) {
		if time.Now().After(deadline) {
			t.Fatal("the level does not go back")
		}
		time.Sleep(5 * time.Millisecond)
	}
	c := config.Default()
	c.Log.Format, c.Log.Level = "json", "warn"
	l.take(c)
	sub.Info("hidden")
	sub.Warn("as JSON")
	got := out.String()
	if strings.Contains(got, "hidden") || !strings.Contains(got, "msg=shown part=x") || !strings.Contains(got, `"msg":"as JSON","part":"x"`) {
		t.Errorf("the log is %s", got)
	}
}

// What is kept of a record takes no new memory once the ring is full.
func TestLogRingAllocatesNothing(t *testing.T) {
	c := config.Default()
	c.Log.Recent = 16
	l := &logs{}
	l.take(c)
	h := &logHandler{hub: l, text: slog.NewTextHandler(io.Discard, nil)}
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "http", 0)
	r.AddAttrs(slog.String("route", "POST /v1/chat/completions"), slog.Int("status", 200), slog.String("tenant", "t"))
	add := func() { l.ring.add(h, &r) }
	for range 32 {
		add()
	}
	if n := testing.AllocsPerRun(100, add); n > 0 {
		t.Errorf("%v allocations a record", n)
	}
}
