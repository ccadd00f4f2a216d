package gpu

import (
	"fmt"
	"slices"
	"strings"

	"hearth/engine/infer"
	"hearth/engine/worker/nvml"
	"hearth/engine/worker/report"
	"hearth/kernels/cuda"
	"hearth/kernels/cuda/driver"
)

// checkup looks at the driver and at each GPU, in the order in which a model
// needs them, and tries what a model would.
func checkup(q report.Query) *report.Checkup {
	c := &report.Checkup{}
	m, err := open(q.Library)
	if err != nil {
		f := faultOf(err)
		c.Fail("gpu driver", f.Fix, "%s", f.Error())
		return c
	}
	c.OK("gpu driver", "%s takes CUDA up to %s", m.driver.Path(), m.driver.VersionString())
	switch {
	case m.noNVML != nil && nvml.Mismatch(m.noNVML):
		c.Fail("gpu readings", "restart the machine", "%v", m.noNVML)
	case m.noNVML != nil:
		c.Warn("gpu readings", "install the driver's libnvidia-ml.so.1; models run without it", "%v", m.noNVML)
	default:
		c.OK("gpu readings", "driver %s, through %s", m.readings.Driver, m.readings.Way())
	}
	usable := 0
	for i := range m.gpus {
		d := m.describe(&m.gpus[i])
		if q.Device != "" && q.Device != d.ID && q.Device != fmt.Sprint(d.Index) && q.Device != d.UUID {
			continue
		}
		if m.examine(c, &m.gpus[i], &d) {
			usable++
		}
	}
	if usable == 0 {
		c.Fail("gpus", "see the findings above", "none of %d can be used", len(m.gpus))
	}
	return c
}

// examine looks at one GPU and says whether models can run on it.
func (m *machine) examine(c *report.Checkup, g *driver.Device, d *report.Device) bool {
	name := d.ID
	if d.Fault != nil {
		c.Warn(name, d.Fault.Fix, "%s (%s): %s", d.Name, d.UUID, d.Fault.Error())
		return false
	}
	c.OK(name, "%s, compute capability %s, %d multiprocessors, %s", d.Name, d.Compute, d.SMs, d.UUID)
	if n, ok := d.Read(infer.ReadECCUncorrected); ok && n > 0 {
		c.Fail(name+" memory errors", byCode[214].fix, "%.0f that could not be corrected since the driver was loaded", n)
	} else if n, ok := d.Read(infer.ReadECCCorrected); ok && n > 0 {
		c.Warn(name+" memory errors", "watch DCGM_FI_DEV_ECC_SBE_VOL_TOTAL; many that come fast announce a fault", "%.0f that were corrected since the driver was loaded", n)
	}
	if len(d.Throttle) > 0 {
		c.Warn(name+" speed", "look after cooling and the power limit", "slowed down for %s", strings.Join(d.Throttle, ", "))
	}
	if err := m.try(c, name, g); err != nil {
		f := faultOf(err)
		c.Fail(name+" kernels", f.Fix, "%s", f.Error())
		return false
	}
	return true
}

// try takes the GPU into use, compiles every kernel and moves some memory.
func (m *machine) try(c *report.Checkup, name string, g *driver.Device) (err error) {
	gpu, err := m.driver.OpenGPU(*g)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := gpu.Close(); err == nil {
			err = cerr
		}
	}()
	images, err := cuda.Images(g.Compute)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(images))
	for n := range images {
		names = append(names, n)
	}
	slices.Sort(names)
	return gpu.Do(func() error {
		free, total, err := gpu.MemInfo()
		if err != nil {
			return err
		}
		if free < total/20 {
			c.Warn(name+" memory", "unload a model, or end other programs that use the GPU", "%d of %d MiB are free", free>>20, total>>20)
		} else {
			c.OK(name+" memory", "%d of %d MiB are free", free>>20, total>>20)
		}
		for _, n := range names {
			mod, err := gpu.LoadModule(n, images[n], false)
			if err != nil {
				return err
			}
			if err := mod.Unload(); err != nil {
				return err
			}
		}
		if err := moves(gpu); err != nil {
			return err
		}
		c.OK(name+" kernels", "the driver compiles all %d; copies come back as they went", len(names))
		return nil
	})
}

// moves sends a pattern there and back.
func moves(gpu *driver.GPU) error {
	const n = 1 << 20
	buf, err := gpu.HostAlloc(2 * n)
	if err != nil {
		return err
	}
	defer gpu.HostFree(buf)
	at, err := gpu.Alloc(2 * n)
	if err != nil {
		return err
	}
	defer gpu.Free(at)
	for i := range n {
		buf[i], buf[n+i] = byte(i*7+i>>8), 0
	}
	for _, step := range []func() error{
		func() error { return gpu.Upload(at, buf[:n]) },
		func() error { return gpu.Copy(at+n, at, n) },
		func() error { return gpu.Download(buf[n:], at+n) },
		func() error { return gpu.Stream().Sync() },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	for i := range n {
		if buf[i] != buf[n+i] {
			return report.Faultf(report.Degraded, byCode[214].fix, "byte %d of a copy came back as %#x, sent was %#x", i, buf[n+i], buf[i])
		}
	}
	return nil
}
