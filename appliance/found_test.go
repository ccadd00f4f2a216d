package appliance

import (
	"errors"
	"testing"
	"time"
)

func TestKept(t *testing.T) {
	var k found[string, int]
	now, n, records := time.Unix(1000, 0), 0, 200_000
	ask := func(q string) int {
		a, err := k.get(q, func() time.Time { return now }, func() (int, int, error) { n++; return n, records, nil })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if first, again := ask("a"), ask("a"); first != 1 || again != 1 || ask("b") != 2 {
		t.Error("an answer that was dear is not kept")
	}
	if now = now.Add(20 * time.Second); ask("a") != 3 {
		t.Error("an answer is kept for too long")
	}
	if now = now.Add(-time.Hour); ask("a") != 4 {
		t.Error("an answer of the future is served")
	}
	records = keptFrom - 1
	if first, again := ask("c"), ask("c"); first == again {
		t.Error("an answer that was cheap is kept")
	}
	if _, err := k.get("d", time.Now, func() (int, int, error) { return 0, 1 << 30, errors.New("no") }); err == nil {
		t.Error("an error is lost")
	}
	if records = keptFrom; ask("d") == 0 {
		t.Error("an error is kept")
	}
	for i := range 3 * maxKept {
		ask(string(rune('e' + i)))
	}
	if len(k.list) > maxKept {
		t.Errorf("%d answers are kept", len(k.list))
	}
}
