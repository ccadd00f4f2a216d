package appliance

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeapPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, maxPercent}, {6 << 20, 400}, {heapRoom, 100}, {heapRoom * 2, 50}, {64 << 20, 12}, {8 << 30, 10}} {
		if got := heapPercent(c.live); got != c.want {
			t.Errorf("%d bytes: got %d %%, want %d", c.live, got, c.want)
		}
	}
}

// The percentage follows what is alive, and is put back at the end.
func TestTuneCollector(t *testing.T) {
	percent := func() int {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64())
	}
	before := percent()
	stop := tuneCollector()
	settle := func(want func(int) bool) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); !want(percent()); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("got %d %%", percent())
			}
			runtime.GC()
		}
	}
	settle(func(p int) bool { return p > 12 })
	held := make([]*[1 << 20]byte, 0, 96)
	for range cap(held) {
		held = append(held, new([1 << 20]byte))
	}
	settle(func(p int) bool { return p <= 12 })
	runtime.KeepAlive(held)
	stop()
	if got := percent(); got != before {
		t.Errorf("got %d %% at the end, want %d", got, before)
	}
	debug.FreeOSMemory()
}
