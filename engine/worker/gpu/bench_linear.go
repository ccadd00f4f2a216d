package gpu

import (
	"fmt"
	"time"

	"hearth/engine/worker/report"
	"hearth/kernels"
	"hearth/kernels/cuda"
	"hearth/kernels/cuda/driver"
	"hearth/kernels/cuda/kernel"
)

// linearShapes are matrices of models with 8 and 0.1 thousand million weights;
// linearRows are tokens of a step: one stream, many, a prompt.
var (
	linearTypes  = []kernels.DType{kernels.BF16, kernels.F16, kernels.Q8_0, kernels.Q4_0, kernels.Q4_K, kernels.Q6_K}
	linearShapes = [][2]int{{576, 576}, {1536, 576}, {4096, 4096}, {14336, 4096}}
	linearRows   = []int{1, 8, 32, 256}
)

// launchesPerTiming are enough that the time of one launch, which begins while
// the one before ends, is that of a step's.
const launchesPerTiming = 8

// bandwidth of the memory in bytes a second: what clock and width promise, or
// what a copy reached if that is more.
func bandwidth(b *report.Bench) float64 {
	best := float64(b.Device.Bandwidth)
	for _, c := range b.Copies {
		if c.Way == "within the device" {
			best = max(best, c.BytesPerSec)
		}
	}
	return best
}

// tensorFlops is what a multiprocessor's tensor cores do in a clock with 16-bit
// inputs and float32 sums (NVIDIA's architecture white papers: A100, GA102, AD102,
// H100).
func tensorFlops(compute int) float64 {
	switch {
	case compute == 80:
		return 2048
	case compute >= 90:
		return 4096
	}
	return 512
}

// linears times matrices of each type, for about so long, each against the time in
// which its weights can be read and its products made.
func (t *timer) linears(dev *driver.Device, bandwidth float64, limit time.Duration) ([]report.Timing, error) {
	images, err := cuda.Images(dev.Compute)
	if err != nil {
		return nil, err
	}
	t.images = images
	t.ends = time.Now().Add(limit)
	peak := float64(dev.SMs) * float64(dev.ClockKHz) * 1000 * tensorFlops(dev.Compute)
	var out []report.Timing
	for _, shape := range linearShapes {
		for _, typ := range linearTypes {
			if shape[1]%typ.BlockValues() != 0 || t.over(0) {
				continue
			}
			list, err := t.linear(typ, shape[0], shape[1])
			if err != nil {
				return nil, fmt.Errorf("linear %s %d×%d: %w", typ, shape[0], shape[1], err)
			}
			for i := range list {
				r := &list[i]
				if bandwidth > 0 && peak > 0 {
					r.Floor = max(float64(r.Bytes)/bandwidth, float64(r.Flops)/peak)
				}
				if r.Seconds > 0 {
					r.Share = r.Floor / r.Seconds
				}
			}
			out = append(out, list...)
		}
	}
	return out, nil
}

// someWeight is a matrix (n, k) of zeros.
func someWeight(typ kernels.DType, n, k int) (*kernel.Weight, error) {
	return kernel.NewWeight([]*kernels.Tensor{{Name: "w", Type: typ, Rows: n, Cols: k, Data: make([]byte, n*typ.RowBytes(k))}}, false, false)
}

// linear times one matrix with each number of rows, as far as the time goes. Its
// weights are whatever: the time does not depend on them.
func (t *timer) linear(typ kernels.DType, n, k int) (out []report.Timing, err error) {
	w, err := someWeight(typ, n, k)
	if err != nil {
		return nil, err
	}
	most := linearRows[len(linearRows)-1]
	var held []kernel.Addr
	defer func() {
		for _, a := range held {
			if ferr := t.gpu.Free(a); err == nil {
				err = ferr
			}
		}
	}()
	alloc := func(bytes int64, fill byte) kernel.Addr {
		if err != nil {
			return 0
		}
		var a kernel.Addr
		if a, err = t.gpu.Alloc(max(bytes, 256)); err == nil {
			held = append(held, a)
			err = t.gpu.Fill(a, fill, max(bytes, 256))
		}
		return a
	}
	const small = 0x2c // a small number in every format
	w.Addr = alloc(w.Bytes, small)
	x, y := alloc(4*int64(most)*int64(k), small), alloc(4*int64(most)*int64(n), 0)
	call := kernel.LinearCall{
		X: kernel.Mat{Addr: x, Stride: k}, Y: kernel.Mat{Addr: y, Stride: n},
		Scratch: alloc(kernel.ScratchBytes(w, most), 0), Counters: alloc(kernel.CounterBytes, 0),
	}
	if err != nil {
		return nil, err
	}
	for i, rows := range linearRows {
		if n := len(out); i > 0 && n > 0 && t.over(out[n-1].Seconds*float64(rows)/float64(call.Rows)*2*launchesPerTiming) {
			break
		}
		call.Rows = rows
		list, err := kernel.Linear(t.gpu.Target(), w, call)
		if err != nil {
			return nil, err
		}
		s, err := t.launches(list)
		if err != nil {
			return nil, err
		}
		out = append(out, report.Timing{
			Kernel: "linear " + typ.String(), Shape: fmt.Sprintf("%d×%d×%d", rows, n, k), Seconds: s,
			Bytes: w.Bytes + 4*int64(rows)*int64(n+k), Flops: 2 * int64(rows) * int64(n) * int64(k),
		})
	}
	return out, nil
}

// over says that there is no time for so many seconds more.
func (t *timer) over(seconds float64) bool {
	return time.Now().Add(time.Duration(seconds * float64(time.Second))).After(t.ends)
}

// compile has the driver compile the modules of a list, those that it has not yet.
// That is no part of the time for measuring.
func (t *timer) compile(list []kernel.Launch) error {
	began := time.Now()
	for i := range list {
		name := list[i].Module
		ptx, ok := t.images[name]
		if !ok {
			continue // the GPU has it
		}
		if err := t.gpu.Load(name, ptx); err != nil {
			return err
		}
		delete(t.images, name)
	}
	t.ends = t.ends.Add(time.Since(began))
	return nil
}

// launches times a list as it runs in a graph.
func (t *timer) launches(list []kernel.Launch) (seconds float64, err error) {
	if err := t.compile(list); err != nil {
		return 0, err
	}
	var many []kernel.Launch
	for range launchesPerTiming {
		many = append(many, list...)
	}
	work, err := t.gpu.Prepare(many)
	if err != nil {
		return 0, err
	}
	defer func() {
		if rerr := work.Release(); err == nil {
			err = rerr
		}
	}()
	if err := work.Capture(); err != nil {
		return 0, err
	}
	s, err := t.median(9, work.Run)
	return s / launchesPerTiming, err
}
