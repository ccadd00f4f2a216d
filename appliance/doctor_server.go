package appliance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine"
	"hearth/engine/artifact"
	"hearth/engine/infer"
)

// modelsFit compares what the models would take with what is free; beside a
// running server it looks at how they are instead.
func (d *doctor) modelsFit(ctx context.Context) {
	const name = "models"
	if d.conf == nil {
		return
	}
	if d.conn != nil {
		rows, err := opModelList.call(ctx, d.conn, none{})
		if err != nil {
			d.fail(name, "see the server's log", "%v", err)
			return
		}
		for i := range rows {
			d.model(&rows[i])
		}
		return
	}
	var total, free int64 = 0, engine.AvailableMemory() // of the machine's memory
	for _, s := range d.specs() {
		p, err := planSpec(ctx, d.dir, &gpus{}, s, infer.Health{})
		if err != nil {
			d.fail(name, "`hearth model plan` and `hearth device doctor` tell more; a broken file is mended by `hearth model add`", "%s: %v", s.Name, err)
			continue
		}
		if p.Device == deviceCPU {
			total += p.TotalBytes
		}
		if !p.Fits {
			fix := "unload or remove another model"
			if p.LargestContext > 0 {
				fix = fmt.Sprintf("set context = %d, lower kv_memory, or unload another model", p.LargestContext)
			}
			d.fail(name, fix, "%s does not fit: %s", s.Name, p.Reason)
			continue
		}
		d.ok(name, "%s takes %s of %s", s.Name, bytesText(p.TotalBytes), p.Device)
	}
	if free > 0 && total > free {
		d.warn(name, "serve fewer models, or with smaller contexts", "together they take %s, and %s can be had", bytesText(total), bytesText(free))
	}
}

func (d *doctor) model(m *modelRow) {
	const name = "models"
	switch m.State {
	case modelFailed:
		d.fail(name, fmt.Sprintf("mend the cause, then `hearth model load %s`; `hearth model plan %s` tells what fits", m.Name, m.Name), "%s: %s", m.Name, m.Reason)
	case modelRestarting:
		d.warn(name, "see the server's log for why its worker ended", "%s is started again: %s", m.Name, m.Reason)
	case modelLoaded:
		if m.Load != nil && m.Load.Restarts > 0 {
			d.warn(name, "see the server's log for why", "%s is loaded; its worker was started anew %d times", m.Name, m.Load.Restarts)
			return
		}
		if m.Load != nil && strings.HasPrefix(m.Load.Note, "not fully") {
			d.warn(name, "see the finding about the sandbox", "%s is loaded, %s", m.Name, m.Load.Note)
			return
		}
		d.ok(name, "%s is loaded", m.Name)
	case modelUnloaded:
		d.ok(name, "%s is unloaded", m.Name)
	default:
		d.ok(name, "%s is %s", m.Name, m.stateText())
	}
}

// specs is what a start would serve, without the embedded model, which is small.
func (d *doctor) specs() (out []modelSpec) {
	var lib *artifact.Store
	if fileExists(d.dir.models()) {
		if l, err := artifact.Open(d.dir.models()); err == nil {
			lib = l
			defer lib.Close()
		}
	}
	add := func(m config.Model) {
		s := modelSpec{Model: m, File: d.dir.resolve(m.Path)}
		if lib != nil {
			if file, err := lib.Path(m.Path); err == nil {
				s.File = file
			}
		}
		out = append(out, s)
	}
	tables := map[string]config.Model{}
	for _, m := range d.conf.Models {
		tables[m.Name] = m
	}
	for _, name := range localModels(d.conf, d.dir) {
		m, ok := tables[name]
		if !ok {
			m = config.NewModel(name, name)
		}
		if m.Path != config.EmbeddedPath {
			add(m)
		}
	}
	return out
}

func (d *doctor) ledger(ctx context.Context) {
	const name = "ledger"
	if d.quick || !fileExists(d.dir.database()) {
		return
	}
	c := d.conn
	if c == nil {
		var err error
		if c, err = connect(d.env, d.dir, func() (*config.Config, error) { return loadOrDefault(d.path) }); err != nil {
			d.fail(name, "end the process that has the database open", "%v", err)
			return
		}
		defer c.close()
	}
	r, err := opLedgerCheck.call(ctx, c, none{})
	switch {
	case err != nil:
		d.fail(name, "restore the newest backup: `hearth restore`", "%v", err)
	case !r.OK():
		d.fail(name, "see `hearth ledger check`", "%d faults in %d records", len(r.Faults)+r.More, r.Records)
	default:
		d.ok(name, "%d records, no faults", r.Records)
	}
}

// server asks a running server whether it is ready.
func (d *doctor) server(ctx context.Context) {
	const name = "server"
	if d.conf == nil {
		return
	}
	if d.conn == nil {
		d.ok(name, "not running")
		return
	}
	addr, _ := d.target()
	client := d.client()
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.baseURL()+"/readyz", nil)
	if err != nil {
		return
	}
	r, err := client.Do(req)
	if err != nil {
		d.warn(name, "if it was started with --listen this is expected; else see the firewall and the certificate", "running, but %s does not answer: %v", addr, err)
		return
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 4<<10))
	if r.StatusCode != http.StatusOK {
		d.fail(name, "see `hearth status` and the server's log", "not ready: %s", strings.TrimSpace(string(body)))
		return
	}
	d.ok(name, "ready on %s", addr)
}

// baseURL is where callers on this machine reach the server.
func (d *doctor) baseURL() string {
	addr, _ := d.target()
	if plain, _ := d.conf.Plain(addr); plain {
		return "http://" + addr
	}
	return "https://" + addr
}

// client trusts the root of this data directory beside the system's.
func (d *doctor) client() *http.Client {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if b, err := os.ReadFile(d.dir.rootPEM()); err == nil {
		pool.AppendCertsFromPEM(b)
	}
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

// staleBackup is when a backup is old.
const staleBackup = 7 * 24 * time.Hour

func (d *doctor) backups(ctx context.Context) {
	const name = "backups"
	if d.conn == nil {
		return
	}
	s, err := opBackupStatus.call(ctx, d.conn, none{})
	if err != nil {
		d.warn(name, "see the server's log", "%v", err)
		return
	}
	for _, p := range s.Problems {
		d.warn(name, "see `hearth backup status`", "%s", p)
	}
	age := time.Duration(s.NewestAge * float64(time.Second))
	switch {
	case len(s.Problems) > 0:
	case s.Newest == nil:
		d.warn(name, "make one now with `hearth backup`; `hearth backup status` tells when the next comes by itself", "there is none")
	case age > staleBackup:
		d.warn(name, "make one with `hearth backup`; `hearth backup status` tells why none came by itself", "the newest is %d days old", int(age.Hours()/24))
	default:
		d.ok(name, "the newest is %s old", age.Round(time.Minute))
	}
}
