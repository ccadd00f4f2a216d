package appliance

import (
	"context"
	"fmt"
	"time"

	"hearth/appliance/config"
	"hearth/web/admin"
)

// States of a finding.
const (
	stateOK   = "ok"
	stateWarn = "warn"
	stateFail = "fail"
)

// finding is one thing that doctor looked at.
type finding struct {
	Area   string `json:"area"` // "data", "configuration", "network", "machine", "gpu", "models", "certificate", "server"
	Name   string `json:"name"`
	State  string `json:"state"` // "ok", "warn", "fail"
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// diagnosis is all that was found.
type diagnosis struct {
	At       time.Time `json:"at"`
	Failed   int       `json:"failed"`
	Warned   int       `json:"warned"`
	Running  bool      `json:"running"`  // a server runs on this data directory
	BaseURL  string    `json:"base_url"` // where callers reach it from this machine
	TookMS   int64     `json:"took_ms"`
	Findings []finding `json:"findings"`
}

type doctorQuery struct {
	Quick bool `json:"quick,omitempty"` // leave out what takes long
}

var opDoctor = operation[doctorQuery, diagnosis]{
	name: "doctor/run", place: "POST /doctor", access: admin.Read,
	summary: "look at the machine, the configuration and this server for trouble, with a remedy for each finding",
	run: func(ctx context.Context, c *control, q doctorQuery) (diagnosis, error) {
		if c.server == nil {
			return diagnosis{}, errNoServer
		}
		d := &doctor{env: c.server.env, dir: c.dir, path: c.file, quick: q.Quick, conn: &connection{local: c}}
		return d.examine(ctx), nil
	},
}

// doctor looks at one data directory.
type doctor struct {
	env   *Env
	dir   dataDir
	path  string // of the configuration
	quick bool
	conn  *connection // to the running server, nil if none runs

	conf  *config.Config
	area  string
	found []finding
}

func (d *doctor) ok(name, format string, args ...any) {
	d.found = append(d.found, finding{d.area, name, stateOK, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) warn(name, fix, format string, args ...any) {
	d.found = append(d.found, finding{d.area, name, stateWarn, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) fail(name, fix, format string, args ...any) {
	d.found = append(d.found, finding{d.area, name, stateFail, fmt.Sprintf(format, args...), fix})
}

// examine looks at everything, in the order in which a start needs it.
func (d *doctor) examine(ctx context.Context) diagnosis {
	began := time.Now()
	for _, part := range []struct {
		area string
		look []func(context.Context)
	}{
		{"data", []func(context.Context){d.dataDirectory, d.diskSpace, d.diskSpeed}},
		{"configuration", []func(context.Context){d.configuration, d.credentials, d.timeZone}},
		{"machine", []func(context.Context){d.clock, d.processor, d.memory, d.limits, d.kernel, d.sandbox}},
		{"gpu", []func(context.Context){d.graphics}},
		{"network", []func(context.Context){d.ports, d.names}},
		{"models", []func(context.Context){d.installedModels, d.modelsFit}},
		{"certificate", []func(context.Context){d.root, d.certificate}},
		{"server", []func(context.Context){d.ledger, d.server, d.backups}},
	} {
		d.area = part.area
		for _, look := range part.look {
			if ctx.Err() == nil {
				look(ctx)
			}
		}
	}
	base := ""
	if d.conf != nil {
		base = d.baseURL()
	}
	r := diagnosis{BaseURL: base, At: d.env.Now(), Running: d.conn != nil, TookMS: time.Since(began).Milliseconds(), Findings: d.found}
	for _, f := range d.found {
		switch f.State {
		case stateFail:
			r.Failed++
		case stateWarn:
			r.Warned++
		}
	}
	return r
}
