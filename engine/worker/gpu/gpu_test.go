package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/engine"
	"hearth/engine/worker/report"
	"hearth/kernels/cuda/driver"
)

// Each failure of the driver has a kind and a remedy.
func TestFaults(t *testing.T) {
	result := func(code int) error {
		return fmt.Errorf("load: %w", &driver.Error{Code: code, Name: "CUDA_ERROR_X", Call: "cuX"})
	}
	for _, c := range []struct {
		err  error
		want report.Code
	}{
		{&driver.NoDriver{Path: "libcuda.so.1", Err: errors.New("no such file")}, report.NoDriver},
		{&driver.TooOld{Version: 11040}, report.OldDriver},
		{&driver.Unsupported{Device: driver.Device{Name: "T4", Compute: 75}}, report.Unsupported},
		{fmt.Errorf("open: %w", &engine.NoRoom{Text: "no room"}), report.OutOfMemory},
		{result(2), report.OutOfMemory}, {result(46), report.Busy}, {result(100), report.NoDevice}, {result(209), report.WrongArch},
		{result(214), report.Degraded}, {result(218), report.PTXRefused}, {result(222), report.PTXRefused}, {result(802), report.NotReady},
		{result(803), report.Mismatch}, {result(700), report.DeviceFailed}, {result(719), report.DeviceFailed},
		{report.Faultf(report.Busy, "wait", "MIG"), report.Busy},
	} {
		f := faultOf(c.err)
		if f.Code != c.want || f.Fix == "" || f.Text == "" {
			t.Errorf("%v is %+v, want %s", c.err, f, c.want)
		}
		if err := explain(c.err); report.CodeOf(err.Error()) != c.want {
			t.Errorf("explained as %v", err)
		}
	}
	plain := errors.New("the tokenizer is broken")
	if err := explain(plain); err != plain {
		t.Errorf("a fault of the model became %v", err)
	}
}

// A machine without a driver is an answer, not a failure.
func TestListWithoutDriver(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	q, _ := json.Marshal(report.Query{Library: dir})
	if err := run(context.Background(), []string{CommandList, string(q)}, "b", &out); err != nil {
		t.Fatal(err)
	}
	var l report.List
	if err := json.Unmarshal(out.Bytes(), &l); err != nil {
		t.Fatal(err)
	}
	if l.Fault == nil || l.Fault.Code != report.NoDriver || !strings.Contains(l.Fault.Text, dir) || l.Devices == nil {
		t.Errorf("got %+v", l)
	}
	c := checkup(report.Query{Library: dir})
	if len(c.Findings) != 1 || c.Findings[0].State != "fail" || c.Findings[0].Fix == "" {
		t.Errorf("got %+v", c)
	}
	if err := run(context.Background(), []string{CommandBench, string(q)}, "b", &out); report.CodeOf(fmt.Sprint(err)) != report.NoDriver {
		t.Errorf("got %v", err)
	}
	for _, args := range [][]string{nil, {"list"}, {"dance", "{}"}, {"list", "{"}} {
		if err := run(context.Background(), args, "b", &out); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestExisting(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"nvidia0", "nvidiactl", "null"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := existing([]string{dir + "/nvidia*", dir + "/caps/*", dir + "/none"}); len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

func TestFindDevice(t *testing.T) {
	m := &machine{gpus: []driver.Device{{Ordinal: 0, UUID: "GPU-aaaa1111", Compute: 75, Name: "T4"}, {Ordinal: 1, UUID: "GPU-bbbb2222", Compute: 90}}}
	for name, want := range map[string]int{"": 1, "cuda": 1, "cuda:1": 1, "GPU-bbbb2222": 1} {
		if d, err := m.find(name); err != nil || d.Ordinal != want {
			t.Errorf("%q: %v, %v", name, d, err)
		}
	}
	if _, err := m.find("cuda:0"); report.CodeOf(fmt.Sprint(err)) != report.Unsupported {
		t.Errorf("got %v", err)
	}
	if _, err := m.find("cuda:7"); report.CodeOf(fmt.Sprint(err)) != report.NoDevice {
		t.Errorf("got %v", err)
	}
}
