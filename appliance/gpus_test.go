package appliance

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/engine/worker/embedded"
	"hearth/engine/worker/report"
)

func gpuList3() *report.List {
	d := func(i int, uuid string, free int64, f *report.Fault) report.Device {
		return report.Device{Device: infer.Device{ID: "cuda:" + string(rune('0'+i)), UUID: uuid}, Index: i, FreeBytes: free, Fault: f}
	}
	return &report.List{Devices: []report.Device{
		d(0, "GPU-aaaa0000", 10<<30, nil), d(1, "GPU-bbbb1111", 40<<30, nil), d(2, "GPU-cccc2222", 80<<30, report.Faultf(report.Unsupported, "", "old")), d(3, "GPU-dddd3333", 20<<30, nil),
	}}
}

func ids(list []report.Device) (out []string) {
	for _, d := range list {
		out = append(out, d.ID)
	}
	return out
}

// Models are spread over the GPUs that can be used; what is named is taken.
func TestTakeGPUs(t *testing.T) {
	var g gpus
	l := gpuList3()
	first, f := g.take(l, deviceAuto, 1)
	if f != nil || !slices.Equal(ids(first), []string{"cuda:1"}) {
		t.Fatalf("got %v, %v: wanted the one with most free memory", ids(first), f)
	}
	if got, _ := g.take(l, deviceCUDA, 2); !slices.Equal(ids(got), []string{"cuda:3", "cuda:0"}) {
		t.Errorf("got %v: wanted those without a model first", ids(got))
	}
	if got, _ := g.take(l, "cuda:0", 9); !slices.Equal(ids(got), []string{"cuda:0", "cuda:1", "cuda:3"}) {
		t.Errorf("got %v: wanted the one that was named, then all others", ids(got))
	}
	g.give(first)
	if g.users["GPU-bbbb1111"] != 1 || g.users["GPU-aaaa0000"] != 2 {
		t.Errorf("models by GPU: %v", g.users)
	}
	if _, f := g.take(l, "GPU-cccc2222", 1); f == nil || f.Code != report.Unsupported {
		t.Errorf("got %v", f)
	}
	if _, f := g.take(l, "cuda:9", 1); f == nil || f.Code != report.NoDevice {
		t.Errorf("got %v", f)
	}
	if _, f := g.take(&report.List{Fault: report.Faultf(report.NoDriver, "", "x")}, deviceAuto, 1); f == nil || f.Code != report.NoDriver {
		t.Errorf("got %v", f)
	}
	if _, f := g.take(&report.List{Devices: l.Devices[2:3]}, deviceAuto, 1); f == nil || f.Code != report.Unsupported {
		t.Errorf("got %v", f)
	}
}

// A build without a GPU worker refuses a model that must have a GPU by name, and
// serves one that may have the CPU.
func TestNoGPUWorker(t *testing.T) {
	if embedded.Worker() != "" || gpuHere != nil {
		t.Skip("SKIPPED: this build carries a GPU worker")
	}
	var log bytes.Buffer
	a := &Appliance{dir: dataDir(t.TempDir()), log: slog.New(slog.NewTextHandler(&log, nil))}
	m := modelSpec{Model: config.NewModel("m", "m"), File: "/no/such/model.gguf"}
	for _, device := range []string{"cuda", "cuda:1", "GPU-12345678"} {
		m.Device = device
		_, err := a.openOnGPU(t.Context(), m)
		if err == nil || report.CodeOf(err.Error()) != report.NoWorker || !strings.Contains(err.Error(), device) || !strings.Contains(err.Error(), "scripts/release") {
			t.Errorf("%s: %v", device, err)
		}
	}
	m.InProcess = true
	if _, err := a.openHere(t.Context(), m); err == nil || !strings.Contains(err.Error(), "cannot use a GPU") {
		t.Errorf("got %v", err)
	}
	if l := listGPUs(t.Context(), a.dir, ""); l.Fault == nil || l.Fault.Code != report.NoWorker || l.Devices == nil {
		t.Errorf("got %+v", l)
	}
	if why := a.sayCPU(m, report.Faultf(report.NoDriver, "install it", "none")); report.CodeOf(why) != report.NoDriver || !strings.Contains(log.String(), "reason=no_driver") {
		t.Errorf("%q is said, logged %q", why, log.String())
	}
}

// What a CPU is given in a GPU's place is what a CPU can do.
func TestCPUSpec(t *testing.T) {
	m := modelSpec{Model: config.NewModel("m", "m"), CUDA: config.CUDA{Library: "/x", Graphs: false}}
	m.Device, m.KVType, m.Activations = "auto", "fp8", "fast"
	s := newWorkerSpec(m)
	if s.KVType != "fp8" || s.Activations != "fast" || s.Library != "/x" || !s.NoGraphs {
		t.Errorf("the GPU gets %+v", s)
	}
	if c := cpuSpec(s); c.Device != "cpu" || c.KVType != "" || c.Activations != "" || c.Library != "" || c.NoGraphs {
		t.Errorf("the CPU gets %+v", c)
	}
}

// degradedBackend answers, and says that it should be elsewhere.
type degradedBackend struct{ infer.Backend }

const whyDegraded = "no_driver: no NVIDIA driver: cannot load libcuda.so.1"

func (degradedBackend) Models(context.Context) ([]infer.Model, error) {
	return []infer.Model{{Name: "m", Device: "cuda:0"}}, nil
}

func (degradedBackend) Health(context.Context) infer.Health {
	return infer.Health{Ready: true, Device: "cpu", Degraded: whyDegraded}
}

func (degradedBackend) Generate(context.Context, *infer.Request) iter.Seq2[infer.Event, error] {
	return func(yield func(infer.Event, error) bool) { yield(infer.Event{Kind: infer.EventText, Tokens: 1}, nil) }
}

func (degradedBackend) Close() error { return nil }

// A model that is on the CPU in place of a GPU is ready, and says so wherever an
// operator looks.
func TestDegradedIsTold(t *testing.T) {
	m := newModels(func(context.Context, modelSpec) (infer.Backend, error) { return degradedBackend{}, nil }, slog.New(slog.DiscardHandler))
	defer m.close()
	m.apply([]modelSpec{{Model: config.NewModel("m", "m")}})
	<-m.get("m").settled
	if ok, why := m.ready(t.Context()); !ok {
		t.Fatal(why)
	}
	s := m.states(t.Context())[0]
	if s.info.Device != "cpu" {
		t.Errorf("it is said to run on %s", s.info.Device)
	}
	if got := degradedText(&s); got != "model m runs on cpu: "+whyDegraded {
		t.Errorf("got %q", got)
	}
	var r modelRow
	r.serving(t.Context(), m, m.get("m"))
	if r.Degraded != whyDegraded || r.State != modelLoaded || r.Device != "cpu" {
		t.Errorf("got %+v", r)
	}
}

// movingBackend is on a GPU until it is told to go to the CPU.
type movingBackend struct {
	degradedBackend
	moved atomic.Bool
}

func (b *movingBackend) Models(context.Context) ([]infer.Model, error) {
	if b.moved.Load() {
		return []infer.Model{{Device: "cpu", Fingerprint: "fp_cpu"}}, nil
	}
	return []infer.Model{{Device: "cuda:0", Fingerprint: "fp_gpu"}}, nil
}

func (b *movingBackend) Health(ctx context.Context) infer.Health {
	if b.moved.Load() {
		return b.degradedBackend.Health(ctx)
	}
	return infer.Health{Ready: true, Device: "cuda:0"}
}

// A model that goes to the CPU while it is served has the CPU's fingerprint then.
func TestFingerprintMoves(t *testing.T) {
	b := &movingBackend{}
	m := newModels(func(context.Context, modelSpec) (infer.Backend, error) { return b, nil }, slog.New(slog.DiscardHandler))
	defer m.close()
	m.apply([]modelSpec{{Model: config.NewModel("m", "m")}})
	<-m.get("m").settled
	for _, want := range []string{"cuda:0 fp_gpu m", "cpu fp_cpu m"} {
		i := m.states(t.Context())[0].info
		if got := i.Device + " " + i.Fingerprint + " " + i.Name; got != want {
			t.Errorf("got %q, wanted %q", got, want)
		}
		b.moved.Store(true)
	}
}

// A model that is loaded anew waits for the one before it to be gone.
func TestWaitForOld(t *testing.T) {
	m := newModels(func(context.Context, modelSpec) (infer.Backend, error) { return degradedBackend{}, nil }, slog.New(slog.DiscardHandler))
	defer m.close()
	spec := modelSpec{Model: config.NewModel("m", "m")}
	m.apply([]modelSpec{spec})
	old := m.get("m")
	<-old.settled
	_, release, err := m.acquire("m") // a request is open
	if err != nil {
		t.Fatal(err)
	}
	spec.Threads = 3
	m.apply([]modelSpec{spec})
	waited := make(chan bool)
	go func() {
		m.waitForOld(t.Context(), "m")
		close(waited)
	}()
	select {
	case <-waited:
		t.Fatal("it did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	release()
	select {
	case <-waited:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits on")
	}
	m.waitForOld(t.Context(), "other")
}
