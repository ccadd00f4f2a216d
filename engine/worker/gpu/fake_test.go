package gpu

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/engine/worker/report"
	"hearth/kernels/fakecuda/fakecudatest"
)

func TestMain(m *testing.M) {
	if os.Getenv("HEARTH_TEST_GPU_WORKER") != "" {
		os.Exit(Main(os.Args[1:], "test"))
	}
	os.Exit(m.Run())
}

// ask runs this test binary as the worker, with a driver that has no GPU behind
// it, and decodes what it says.
func ask(t *testing.T, into any, command string, q any, env ...string) (stderr string, err error) {
	t.Helper()
	arg, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, command, string(arg))
	cmd.Env = append(fakecudatest.Env(t, env...), "HEARTH_TEST_GPU_WORKER=1", "FAKECUDA_CHECKS=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	return errs.String(), err
}

const twoGPUs = "FAKECUDA_DEVICES=8.0,memory=1GiB;7.5,memory=1GiB"

func TestListDevices(t *testing.T) {
	var l report.List
	if stderr, err := ask(t, &l, CommandList, report.Query{}, twoGPUs); err != nil {
		t.Fatal(err, stderr)
	}
	if l.Fault != nil || len(l.Devices) != 2 || l.CUDA == "" || l.Driver == "" {
		t.Fatalf("got %+v", l)
	}
	d := l.Devices[0]
	if d.ID != "cuda:0" || d.Compute != "8.0" || !strings.HasPrefix(d.UUID, "GPU-") || d.MemoryBytes != 1<<30 || d.FreeBytes == 0 || d.Fault != nil {
		t.Errorf("got %+v", d)
	}
	if v, ok := d.Read(infer.ReadTemperature); !ok || v <= 0 {
		t.Errorf("its temperature is %v, %v", v, ok)
	}
	if f := l.Devices[1].Fault; f == nil || f.Code != report.Unsupported {
		t.Errorf("got %+v", f)
	}
}

func TestDoctor(t *testing.T) {
	for name, c := range map[string]struct {
		env   string
		state string
		says  string
	}{
		"well":    {"FAKECUDA_ERRORS=", "ok", "the driver compiles all"},
		"refused": {"FAKECUDA_ERRORS=cuModuleLoadDataEx:3=222", "fail", string(report.PTXRefused)},
		"memory":  {"FAKECUDA_ERRORS=cuMemAlloc_v2:1=2", "fail", string(report.OutOfMemory)},
	} {
		var found report.Checkup
		if stderr, err := ask(t, &found, CommandDoctor, report.Query{}, twoGPUs, c.env); err != nil {
			t.Fatal(name, err, stderr)
		}
		said := false
		for _, f := range found.Findings {
			said = said || f.Name == "cuda:0 kernels" && f.State == c.state && strings.Contains(f.Detail, c.says) && (f.State == "ok" || f.Fix != "")
		}
		if !said {
			t.Errorf("%s: %+v", name, found.Findings)
		}
	}
}

// A GPU that is far too slow for all of it is measured as far as the time goes.
// Each matrix that is measured can be laid out, however few of them the time of
// TestBench is enough for.
func TestBenchedLinears(t *testing.T) {
	for _, typ := range linearTypes {
		for _, shape := range linearShapes[:2] {
			if shape[1]%typ.BlockValues() != 0 {
				continue
			}
			if _, err := someWeight(typ, shape[0], shape[1]); err != nil {
				t.Error(typ, shape, err)
			}
		}
	}
}

func TestBench(t *testing.T) {
	var b report.Bench
	if stderr, err := ask(t, &b, CommandBench, report.Query{Device: "cuda:0", Seconds: 1}, twoGPUs); err != nil {
		t.Fatal(err, stderr)
	}
	if len(b.Copies) != 3 || b.Copies[0].BytesPerSec <= 0 || len(b.Rows) == 0 {
		t.Fatalf("got %+v", b)
	}
	r := b.Rows[0]
	if r.Seconds <= 0 || r.Floor <= 0 || r.Share <= 0 || r.Share > 1 || r.Bytes < 576*576 {
		t.Errorf("got %+v", r)
	}
	if _, err := ask(t, &b, CommandBench, report.Query{Device: "cuda:1", Seconds: 1}, twoGPUs); err == nil {
		t.Error("a GPU that cannot be used was measured")
	}
}
