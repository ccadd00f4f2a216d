package config

import (
	"time"
	_ "time/tzdata" // time zones of budgets, on a box without its own table
)

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
	c.Admin.validate(f)
	c.Admin.ClientCertificate.validate(f, "admin.client_certificate", c.Tenants)
	c.TLS.validate(f)
	if _, err := c.Plain(c.Server.Listen); err != nil {
		f.add("tls.mode", "%v", err)
	}
	if c.TLS.Mode == TLSOff && c.Admin.Listen != "" && c.Admin.Listen != AdminOff && !LocalOnly(c.Admin.Listen) {
		f.add("admin.listen", "cannot be open to others with tls.mode \"off\": wanted localhost, 127.0.0.1 or ::1")
	}
	f.span("cuda.wait", c.CUDA.Wait, 0, 10*time.Minute)
	f.span("cuda.stall", c.CUDA.Stall, time.Second, time.Hour)
	c.validateModels(f)
	for _, p := range c.Config.Validate() {
		f.add(p.Path, "%s", p.Message)
	}
	c.Log.validate(f)
	c.Telemetry.validate(f)
	c.validateRetention(f)
	f.span("drain.timeout", c.Drain.Timeout, 0, time.Hour)
	f.span("drain.grace", c.Drain.Grace, 0, 10*time.Minute)
	c.Responses.validate(f)
	c.Backup.validate(f)
	c.Idempotency.validate(f)
	c.Media.validate(f)
	c.validateIdentities(f)
}
