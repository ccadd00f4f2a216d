package infer

// StepTokenEdges are the upper edges that Stats.StepTokens counts by, as
// vLLM's histogram of the same meaning has them.
var StepTokenEdges = [...]int{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}

// StepBucket is the place in Stats.StepTokens of a step with n tokens.
func StepBucket(n int) int {
	for i, edge := range StepTokenEdges {
		if n <= edge {
			return i
		}
	}
	return len(StepTokenEdges)
}

// Device is one piece of hardware with what it tells of itself. What cannot be
// read is absent: no reading is made up.
type Device struct {
	ID       string    `json:"id"`               // "cpu", "cuda:0"
	Kind     string    `json:"kind"`             // "cpu", "gpu"
	Name     string    `json:"name"`             // as the vendor calls it
	UUID     string    `json:"uuid,omitempty"`   // empty: it has none
	Driver   string    `json:"driver,omitempty"` // and its version; empty: none
	Readings []Reading `json:"readings"`
	Throttle []string  `json:"throttle,omitempty"` // why it runs slower than it could, right now; empty: it does not
}

// Reading is one figure of a device.
type Reading struct {
	Name  string  `json:"name"` // one of the names below
	Value float64 `json:"value"`
}

// Names of readings. Those that end in "total" only grow.
const (
	ReadTemperature    = "temperature_celsius"
	ReadPower          = "power_watts"
	ReadPowerLimit     = "power_limit_watts"
	ReadMemoryUsed     = "memory_used_bytes"
	ReadMemoryTotal    = "memory_total_bytes" // the size, which does not grow
	ReadUtilization    = "utilization_ratio"  // 0 to 1
	ReadClock          = "clock_hertz"
	ReadThrottles      = "throttle_total" // times that heat or power slowed it down
	ReadECCCorrected   = "ecc_corrected_total"
	ReadECCUncorrected = "ecc_uncorrected_total"
	ReadXID            = "last_xid" // number of the last driver error; 0: none
)

// Read gives a reading by name; false if it is not known.
func (d *Device) Read(name string) (float64, bool) {
	for _, r := range d.Readings {
		if r.Name == name {
			return r.Value, true
		}
	}
	return 0, false
}
