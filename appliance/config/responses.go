package config

import "time"

// Responses is [responses]: the answers that are kept for callers of the
// Responses API, who fetch them again and go on from them by their id.
type Responses struct {
	// Enabled keeps responses unless a request says store = false. If it is off,
	// nothing of a conversation is written to disk: earlier responses cannot be
	// named and nothing runs in the background. Default true.
	Enabled bool `toml:"enabled"`
	// Keep is how long a response is kept. Default 24h.
	Keep Duration `toml:"keep"`
	// MaxBytes is how much one tenant may have stored; what would expire first
	// makes room. Default 256MiB.
	MaxBytes Size `toml:"max_bytes"`
	// MaxCount is how many responses one tenant may have stored. Default 10000.
	MaxCount int `toml:"max_count"`
}

func (r *Responses) setDefaults() {
	*r = Responses{Enabled: true, Keep: Duration(24 * time.Hour), MaxBytes: 256 << 20, MaxCount: 10_000}
}

func (r *Responses) validate(f *Faults) {
	f.span("responses.keep", r.Keep, time.Minute, 90*24*time.Hour)
	f.count("responses.max_count", r.MaxCount, 1, 100_000)
	f.size("responses.max_bytes", r.MaxBytes, 1<<20, 8<<30)
}
