package gpu

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hearth/engine/worker/report"
	"hearth/kernels/cuda/driver"
	"hearth/kernels/cuda/kernel"
)

// Sizes of what is measured.
const (
	copyBytes    = 256 << 20
	smallCopy    = 1 << 20
	copyTimes    = 5
	defaultBench = 10 // seconds
)

// bench measures one GPU: how fast memory moves, and each kernel on the shapes of
// usual models against the least time that the hardware allows.
func bench(ctx context.Context, q report.Query) (*report.Bench, error) {
	m, err := open(q.Library)
	if err != nil {
		return nil, err
	}
	dev, err := m.find(q.Device)
	if err != nil {
		return nil, err
	}
	gpu, err := m.driver.OpenGPU(*dev)
	if err != nil {
		return nil, err
	}
	defer gpu.Close()
	if q.Seconds <= 0 {
		q.Seconds = defaultBench
	}
	b := &report.Bench{Device: m.describe(dev)}
	whole := time.Duration(q.Seconds) * time.Second
	t := &timer{ctx: ctx, gpu: gpu, ends: time.Now().Add(whole / 4)}
	err = gpu.Do(func() error {
		if b.Copies, err = t.copies(whole / 4); err != nil {
			return err
		}
		b.Rows, err = t.linears(dev, bandwidth(b), whole*3/4)
		return err
	})
	return b, err
}

// timer measures on a GPU's own clock. Its methods are for its thread.
type timer struct {
	ctx  context.Context
	gpu  *driver.GPU
	ends time.Time
	// images are the kernels that are not compiled yet, by module.
	images map[string][]byte
}

// median times f several times, with the GPU's events around it, in seconds. It
// stops early when the time is up.
func (t *timer) median(times int, f func() error) (float64, error) {
	from, err := t.gpu.NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer from.Destroy()
	to, err := t.gpu.NewEvent(true)
	if err != nil {
		return 0, err
	}
	defer to.Destroy()
	var all []float64
	for i := range times + 1 { // the first warms up
		if err := t.ctx.Err(); err != nil {
			return 0, err
		}
		if err := from.Record(t.gpu.Stream()); err != nil {
			return 0, err
		}
		if err := f(); err != nil {
			return 0, err
		}
		if err := to.Record(t.gpu.Stream()); err != nil {
			return 0, err
		}
		if err := to.Wait(); err != nil {
			return 0, err
		}
		ms, err := from.Elapsed(to)
		if err != nil {
			return 0, err
		}
		if i > 0 {
			all = append(all, ms/1000)
		}
		if i > 0 && time.Now().After(t.ends) {
			break
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// copies measures the three ways of memory, in about so much time.
func (t *timer) copies(limit time.Duration) ([]report.Copy, error) {
	free, _, err := t.gpu.MemInfo()
	if err != nil {
		return nil, err
	}
	n := int64(copyBytes)
	for n > 1<<20 && 4*n > free {
		n /= 2
	}
	host, err := t.gpu.HostAlloc(int(n))
	if err != nil {
		return nil, err
	}
	defer t.gpu.HostFree(host)
	clear(host)
	at, err := t.gpu.Alloc(2 * n)
	if err != nil {
		return nil, fmt.Errorf("%d MiB to copy: %w", 2*n>>20, err)
	}
	defer t.gpu.Free(at)
	var out []report.Copy
	for _, way := range []struct {
		name    string
		touched int64 // bytes of the bus or the memory for a byte that is copied
		run     func(n int64) error
	}{
		{"host to device", 1, func(n int64) error { return t.gpu.Upload(at, host[:n]) }},
		{"device to host", 1, func(n int64) error { return t.gpu.Download(host[:n], at) }},
		{"within the device", 2, func(n int64) error { return t.gpu.Copy(at+kernel.Addr(n), at, n) }}, // read and written
	} {
		size := n
		s, err := t.median(1, func() error { return way.run(smallCopy) })
		if err == nil && s*float64(n/smallCopy)*copyTimes > limit.Seconds()/3 {
			size = smallCopy // on a slow one the small copy tells enough
		}
		if err == nil {
			s, err = t.median(copyTimes, func() error { return way.run(size) })
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		c := report.Copy{Way: way.name, Bytes: size}
		if s > 0 {
			c.BytesPerSec = float64(way.touched*size) / s
		}
		out = append(out, c)
	}
	return out, nil
}
