package appliance

import (
	"context"
	"strings"

	"hearth/engine/infer"
)

// deviceLabels are those that NVIDIA's DCGM exporter gives its metrics, so that
// dashboards for it find ours.
var deviceLabels = []string{"gpu", "UUID", "device", "modelName", "Hostname"}

// dcgm are the metrics of graphics processors: names and units as DCGM has them.
var dcgm = []struct {
	name, help string
	counter    bool
	value      func(d *infer.Device) (float64, bool)
}{
	{"DCGM_FI_DEV_GPU_TEMP", "Temperature of a GPU, degrees Celsius.", false, reading(infer.ReadTemperature, 1)},
	{"DCGM_FI_DEV_POWER_USAGE", "Power of a GPU, watts.", false, reading(infer.ReadPower, 1)},
	{"DCGM_FI_DEV_POWER_MGMT_LIMIT", "Limit of the power of a GPU, watts.", false, reading(infer.ReadPowerLimit, 1)},
	{"DCGM_FI_DEV_FB_USED", "Memory of a GPU in use, MiB.", false, reading(infer.ReadMemoryUsed, 1./(1<<20))},
	{"DCGM_FI_DEV_FB_FREE", "Memory of a GPU that is free, MiB.", false, func(d *infer.Device) (float64, bool) {
		total, ok := d.Read(infer.ReadMemoryTotal)
		used, ok2 := d.Read(infer.ReadMemoryUsed)
		return (total - used) / (1 << 20), ok && ok2
	}},
	{"DCGM_FI_DEV_GPU_UTIL", "Utilization of a GPU, percent.", false, reading(infer.ReadUtilization, 100)},
	{"DCGM_FI_DEV_SM_CLOCK", "Clock of a GPU, MHz.", false, reading(infer.ReadClock, 1e-6)},
	{"DCGM_FI_DEV_XID_ERRORS", "Number of the last error of the driver; 0: none.", false, reading(infer.ReadXID, 1)},
	{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "Memory errors that were corrected.", true, reading(infer.ReadECCCorrected, 1)},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Memory errors that were not corrected.", true, reading(infer.ReadECCUncorrected, 1)},
}

// deviceMetrics are our own, for devices of every kind.
var deviceMetrics = []struct {
	name, help, reading string
	counter             bool
}{
	{"hearth_device_temperature_celsius", "Temperature of a device: of its hottest sensor.", infer.ReadTemperature, false},
	{"hearth_device_power_watts", "Power of a device.", infer.ReadPower, false},
	{"hearth_device_memory_used_bytes", "Memory of a device in use.", infer.ReadMemoryUsed, false},
	{"hearth_device_memory_bytes", "Memory of a device.", infer.ReadMemoryTotal, false},
	{"hearth_device_utilization_ratio", "Part of the time in which a device worked.", infer.ReadUtilization, false},
	{"hearth_device_clock_hertz", "Clock of a device.", infer.ReadClock, false},
	{"hearth_device_throttles_total", "Times that a device was slowed down for heat or power.", infer.ReadThrottles, true},
	{"hearth_device_xid", "Number of the last error of the driver; 0: none.", infer.ReadXID, false},
}

func reading(name string, factor float64) func(*infer.Device) (float64, bool) {
	return func(d *infer.Device) (float64, bool) {
		v, ok := d.Read(name)
		return v * factor, ok
	}
}

const maxDevices = 16

// devices are the processor of this machine and what the backends tell of, each
// once.
func (a *Appliance) devices(ctx context.Context) []infer.Device {
	return a.devicesOf(a.models.states(ctx))
}

func (a *Appliance) devicesOf(states []modelState) []infer.Device {
	all := []infer.Device{a.telemetry.cpu.read(a.now())}
	seen := map[string]bool{"cpu": true}
	for i := range states {
		for _, d := range states[i].health.Stats.Devices {
			if !seen[d.ID] && len(all) < maxDevices {
				seen[d.ID] = true
				all = append(all, d)
			}
		}
	}
	return all
}

// devices tells of each device by our names, and of GPUs by those of DCGM too.
func (p *puller) devices(ctx context.Context, gauge, counter emit) {
	host := hostName()
	for _, d := range p.a.devices(ctx) {
		for _, m := range deviceMetrics {
			if v, ok := d.Read(m.reading); ok {
				kindOf(m.counter, gauge, counter)(m.name, v, d.ID, d.Kind, d.Name)
			}
		}
		for _, why := range d.Throttle {
			gauge("hearth_device_throttled", 1, d.ID, d.Kind, d.Name, why)
		}
		if d.Kind != "gpu" {
			continue
		}
		n := strings.TrimLeft(d.ID, "abcdefghijklmnopqrstuvwxyz:")
		for _, m := range dcgm {
			if v, ok := m.value(&d); ok {
				kindOf(m.counter, gauge, counter)(m.name, v, n, d.UUID, d.ID, d.Name, host)
			}
		}
	}
}

func kindOf(isCounter bool, gauge, counter emit) emit {
	if isCounter {
		return counter
	}
	return gauge
}

// devicesPulled lists the metrics of devices.
func devicesPulled() (pulled []pulledMetric) {
	for _, m := range deviceMetrics {
		pulled = append(pulled, pulledMetric{m.name, m.help, []string{"device", "kind", "name"}})
	}
	pulled = append(pulled, pulledMetric{"hearth_device_throttled", "1 for each reason why a device runs slower than it could.", []string{"device", "kind", "name", "reason"}})
	for _, m := range dcgm {
		pulled = append(pulled, pulledMetric{m.name, m.help, deviceLabels})
	}
	return pulled
}
