package config

import (
	"time"
	_ "time/tzdata" // time zones of budgets, on a box without its own table
)

// Log is [log].
type Log struct {
	// Level is "debug", "info", "warn" or "error". Default "info".
	Level string `toml:"level"`
	// Format is "text" or "json". Default "text".
	Format string `toml:"format"`
}

func (l *Log) setDefaults() { *l = Log{Level: "info", Format: "text"} }

// Telemetry is [telemetry].
type Telemetry struct {
	// Metrics serves /metrics: to this machine without a key, to others with
	// one. Default true.
	Metrics bool `toml:"metrics"`
	// Tenants is how many tenants get a label of their own; the rest is summed
	// as "other". Default 50.
	Tenants int `toml:"tenants"`
}

func (t *Telemetry) setDefaults() { *t = Telemetry{Metrics: true, Tenants: 50} }

// Drain is [drain]: how the server ends.
type Drain struct {
	// Timeout is how long open requests may go on after SIGTERM; what is open
	// then is ended with an error and charged for what was delivered. Default 30s.
	Timeout Duration `toml:"timeout"`
	// Grace is how long the server goes on answering "not ready" after the last
	// request, so that a load balancer notices. Default 0s.
	Grace Duration `toml:"grace"`
}

func (d *Drain) setDefaults() { *d = Drain{Timeout: Duration(30 * time.Second)} }

// validate checks every table and what they say of each other.
func (c *Config) validate(f *Faults) {
	c.Server.validate(f)
	c.TLS.validate(f)
	if _, err := c.Plain(c.Server.Listen); err != nil {
		f.add("tls.mode", "%v", err)
	}
	c.validateModels(f)
	for _, p := range c.Config.Validate() {
		f.add(p.Path, "%s", p.Message)
	}
	f.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	f.oneOf("log.format", c.Log.Format, "text", "json")
	f.count("telemetry.tenants", c.Telemetry.Tenants, 0, 1000)
	f.span("drain.timeout", c.Drain.Timeout, 0, time.Hour)
	f.span("drain.grace", c.Drain.Grace, 0, 10*time.Minute)
	c.Responses.validate(f)
	c.Idempotency.validate(f)
	c.Media.validate(f)
}
