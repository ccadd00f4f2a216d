package config

import "time"

// Idempotency is [idempotency]: answers that are kept so that a repeat of a
// request with the same Idempotency-Key gets the first answer again and is not
// charged a second time.
type Idempotency struct {
	// Enabled; otherwise requests that carry the header are refused, since their
	// sender counts on it. Default true.
	Enabled bool `toml:"enabled"`
	// Keep is how long a key stays bound to its first request. Default 24h.
	Keep Duration `toml:"keep"`
	// MaxAnswer bounds one answer that is kept. A larger one is served, and its
	// repeats are refused. Default 1MiB.
	MaxAnswer Size `toml:"max_answer"`
	// MaxBytes bounds what all keys take together; beyond it requests with a new
	// key are refused. Default 256MiB.
	MaxBytes Size `toml:"max_bytes"`
}

func (i *Idempotency) setDefaults() {
	*i = Idempotency{Enabled: true, Keep: Duration(24 * time.Hour), MaxAnswer: 1 << 20, MaxBytes: 256 << 20}
}

func (i *Idempotency) validate(f *Faults) {
	f.span("idempotency.keep", i.Keep, time.Minute, 30*24*time.Hour)
	f.size("idempotency.max_answer", i.MaxAnswer, 1<<10, 8<<20)
	f.size("idempotency.max_bytes", i.MaxBytes, 1<<20, 64<<30)
}
