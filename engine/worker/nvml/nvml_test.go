package nvml

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/engine/infer"
)

// fakeCard answers as it is set; lost, nothing.
type fakeCard struct {
	mu    sync.Mutex
	lost  bool
	bits  uint64
	xids  chan uint64
	reads int
}

func (f *fakeCard) ret() code {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost {
		return gpuIsLost
	}
	return success
}

func (f *fakeCard) temperature() (uint32, code) {
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	return 71, f.ret()
}
func (f *fakeCard) power() (uint32, code)          { return 512400, f.ret() }
func (f *fakeCard) powerLimit() (uint32, code)     { return 700000, f.ret() }
func (f *fakeCard) memory() (uint64, uint64, code) { return 60 << 30, 140 << 30, f.ret() }
func (f *fakeCard) utilization() (uint32, code)    { return 83, f.ret() }
func (f *fakeCard) clock() (uint32, code)          { return 1980, f.ret() }
func (f *fakeCard) ecc() (uint64, uint64, code)    { return 0, 0, notSupported }
func (f *fakeCard) mig() (int, code)               { return 1, f.ret() }
func (f *fakeCard) throttle() (uint64, code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bits, success
}
func (f *fakeCard) watchXID() (func() (uint64, code), code) {
	return func() (uint64, code) {
		select {
		case x, ok := <-f.xids:
			if !ok {
				return 0, gpuIsLost
			}
			return x, success
		case <-time.After(5 * time.Millisecond):
			return 0, timeout
		}
	}, success
}

type fakeLibrary struct {
	card card
	c    code
}

func (f fakeLibrary) init() code             { return f.c }
func (f fakeLibrary) driver() (string, code) { return "580.65.06", success }
func (f fakeLibrary) handle(uuid string) (card, code) {
	if uuid != "GPU-1" {
		return nil, 6
	}
	return f.card, success
}

func TestRead(t *testing.T) {
	f := &fakeCard{xids: make(chan uint64, 1)}
	l, err := newLibrary(fakeLibrary{card: f})
	if err != nil {
		t.Fatal(err)
	}
	g, err := l.GPU("GPU-1", "cuda:0", "NVIDIA X")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	now := time.Unix(1000, 0)
	d := g.Read(now)
	if d.ID != "cuda:0" || d.Kind != "gpu" || d.Driver != "580.65.06" || d.UUID != "GPU-1" || d.Throttle != nil {
		t.Errorf("got %+v", d)
	}
	for name, want := range map[string]float64{
		infer.ReadTemperature: 71, infer.ReadPower: 512.4, infer.ReadPowerLimit: 700, infer.ReadMemoryUsed: 60 << 30, infer.ReadMemoryTotal: 140 << 30,
		infer.ReadUtilization: 0.83, infer.ReadClock: 1.98e9, infer.ReadThrottles: 0, infer.ReadXID: 0,
	} {
		if got, ok := d.Read(name); !ok || got != want {
			t.Errorf("%s is %v, %v, want %v", name, got, ok, want)
		}
	}
	if _, ok := d.Read(infer.ReadECCCorrected); ok {
		t.Error("a reading that the GPU lacks was made up")
	}
	if on, known := g.MIG(); !on || !known {
		t.Error("MIG is on")
	}
	f.mu.Lock()
	before := f.reads
	f.mu.Unlock()
	g.Read(now.Add(readEvery / 2))
	f.mu.Lock()
	if f.reads != before {
		t.Error("read twice within a second")
	}
	f.bits = 0x04 | 0x40 | 0x01
	f.mu.Unlock()
	f.xids <- 79
	for end := time.Now().Add(5 * time.Second); g.xid.Load() != 79 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	d = g.Read(now.Add(2 * time.Second))
	if !reflect.DeepEqual(d.Throttle, []string{"heat", "power limit"}) {
		t.Errorf("throttled for %q", d.Throttle)
	}
	if n, _ := d.Read(infer.ReadThrottles); n != 1 {
		t.Errorf("%v times", n)
	}
	if x, _ := d.Read(infer.ReadXID); x != 79 {
		t.Errorf("XID %v", x)
	}
}

// Readings of a GPU that is lost are shown on for a while, then not.
func TestStale(t *testing.T) {
	f := &fakeCard{xids: make(chan uint64)}
	l, _ := newLibrary(fakeLibrary{card: f})
	g, err := l.GPU("GPU-1", "cuda:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	now := time.Unix(1000, 0)
	g.Read(now)
	f.mu.Lock()
	f.lost = true
	f.mu.Unlock()
	if d := g.Read(now.Add(2 * time.Second)); len(d.Readings) == 0 {
		t.Error("dropped at once")
	}
	// What answers still (throttling) is no reading of the GPU's state.
	if d := g.Read(now.Add(readStale + 2*time.Second)); len(d.Readings) != 0 || d.UUID != "GPU-1" {
		t.Errorf("stale readings: %+v", d)
	}
}

func TestErrors(t *testing.T) {
	if _, err := newLibrary(fakeLibrary{c: 18}); err == nil || !Mismatch(err) || !strings.Contains(err.Error(), "restart") {
		t.Errorf("got %v", err)
	}
	l, _ := newLibrary(fakeLibrary{})
	if _, err := l.GPU("GPU-2", "", ""); !errors.Is(err, code(6)) || !strings.Contains(err.Error(), "GPU-2") {
		t.Errorf("got %v", err)
	}
	if _, err := Open("/no/such/folder"); err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Errorf("got %v", err)
	}
}
