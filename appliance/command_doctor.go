package appliance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine/artifact"
)

// finding is one thing that doctor looked at.
type finding struct {
	Name   string `json:"name"`
	State  string `json:"state"` // "ok", "warn", "fail"
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

func doctorCommand() *command {
	return &command{
		name: "doctor", short: "look for trouble and name one fix for each finding",
		long: "Works beside a running server and without one. Exits 1 if something fails.",
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var af adminFlags
			af.declare(fs)
			return func(ctx context.Context, env *Env, _ []string) error {
				dir, path, err := af.locate(env)
				if err != nil {
					return err
				}
				d := &doctor{env: env, dir: dir, path: path}
				d.examine(ctx)
				if af.json {
					err = printJSON(env.Stdout, d.found)
				} else {
					err = d.print(env.Stdout)
				}
				if err == nil && d.failed() {
					err = errFound
				}
				return err
			}
		},
	}
}

type doctor struct {
	env   *Env
	dir   dataDir
	path  string
	conf  *config.Config
	found []finding
}

func (d *doctor) ok(name, format string, args ...any) {
	d.found = append(d.found, finding{name, "ok", fmt.Sprintf(format, args...), ""})
}

func (d *doctor) bad(state, name, fix, format string, args ...any) {
	d.found = append(d.found, finding{name, state, fmt.Sprintf(format, args...), fix})
}

func (d *doctor) failed() bool {
	for _, f := range d.found {
		if f.State == "fail" {
			return true
		}
	}
	return false
}

func (d *doctor) print(w io.Writer) error {
	return table(w, func(w io.Writer) {
		for _, f := range d.found {
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.State, f.Name, f.Detail)
			if f.Fix != "" {
				fmt.Fprintf(w, "\t\tfix: %s\n", f.Fix)
			}
		}
	})
}

// examine looks at everything, in the order in which a start needs it.
func (d *doctor) examine(ctx context.Context) {
	d.dataDirectory()
	d.configuration()
	if d.conf == nil {
		return
	}
	d.installedModels()
	d.root()
	d.ledger(ctx)
	d.server(ctx)
}

func (d *doctor) dataDirectory() {
	const name = "data directory"
	st, err := os.Stat(string(d.dir))
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.bad("warn", name, "run `hearth serve`, which makes it", "%s is not there yet", d.dir)
		return
	case err != nil:
		d.bad("fail", name, "see that this user may read it", "%v", err)
		return
	case !st.IsDir():
		d.bad("fail", name, "name another with --data", "%s is not a directory", d.dir)
		return
	case st.Mode().Perm()&0o077 != 0:
		d.bad("warn", name, fmt.Sprintf("chmod 700 %s", shellQuote(string(d.dir))), "others may read %s", d.dir)
	default:
		d.ok(name, "%s", d.dir)
	}
	free, err := freeBytes(string(d.dir))
	switch {
	case err != nil:
		d.bad("warn", "disk space", "", "cannot be read: %v", err)
	case free < 64<<20:
		d.bad("fail", "disk space", "make room: the ledger takes no new work on a full disk", "%s free", bytesText(free))
	case free < 1<<30:
		d.bad("warn", "disk space", "make room before it is full", "%s free", bytesText(free))
	default:
		d.ok("disk space", "%s free", bytesText(free))
	}
}

func (d *doctor) configuration() {
	const name = "configuration"
	c, err := config.Load(d.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.conf = config.Default()
		d.bad("warn", name, "run `hearth serve`, which writes one", "%s is not there yet", d.path)
	case err != nil:
		d.bad("fail", name, "mend the named keys, then `hearth config check`", "%v", strings.ReplaceAll(err.Error(), "\n  ", "; "))
	default:
		d.conf = c
		d.ok(name, "%s", d.path)
		for _, x := range doubts(c, d.path, localModels(c, d.dir), d.env.Getenv) {
			d.bad("warn", name, "see `hearth config check`, which names the line", "%v", x)
		}
	}
}

func (d *doctor) installedModels() {
	const name = "models"
	if !fileExists(d.dir.models()) {
		return
	}
	lib, err := artifact.Open(d.dir.models())
	if err == nil {
		var list []artifact.Manifest
		if list, err = lib.List(); err == nil {
			d.ok(name, "%d installed", len(list))
			return
		}
	}
	d.bad("fail", name, "remove the broken model's folder and add it again", "%v", err)
}

func (d *doctor) root() {
	const name = "certificate authority"
	b, err := os.ReadFile(d.dir.rootPEM())
	if err != nil {
		return // no first start yet
	}
	block, _ := pem.Decode(b)
	if block == nil {
		d.bad("fail", name, "restart the server, which writes it anew", "%s is not PEM", d.dir.rootPEM())
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	switch now := d.env.Now(); {
	case err != nil:
		d.bad("fail", name, "restart the server, which writes it anew", "%v", err)
	case now.Before(c.NotBefore):
		d.bad("fail", name, "set the clock", "the clock says %s, before the root was made", now.Format(time.DateTime))
	case now.After(c.NotAfter):
		d.bad("fail", name, "set the clock, or start with a new data directory", "it ended on %s", c.NotAfter.Format(time.DateOnly))
	default:
		d.ok(name, "%s, until %s", c.Subject.CommonName, c.NotAfter.Format(time.DateOnly))
	}
}

func (d *doctor) ledger(ctx context.Context) {
	const name = "ledger"
	if !fileExists(d.dir.database()) {
		return
	}
	c, err := connect(d.env, d.dir, func() (*config.Config, error) { return d.conf, nil })
	if err != nil {
		d.bad("fail", name, "end the process that has the database open", "%v", err)
		return
	}
	defer c.close()
	r, err := opLedgerCheck.call(ctx, c, none{})
	switch {
	case err != nil:
		d.bad("fail", name, "restore the newest backup", "%v", err)
	case !r.OK():
		d.bad("fail", name, "see `hearth ledger check`", "%d faults in %d records", len(r.Faults)+r.More, r.Records)
	default:
		d.ok(name, "%d records, no faults", r.Records)
	}
}

// server asks a running server whether it is ready, or sees whether its port is
// free.
func (d *doctor) server(ctx context.Context) {
	const name = "server"
	addr := d.conf.Server.Listen
	if c, err := dialAdmin(ctx, d.dir); err != nil {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			d.bad("fail", name, "end what listens there, or change server.listen", "not running, and %s cannot be used: %v", addr, err)
			return
		}
		l.Close()
		d.ok(name, "not running; %s is free", addr)
		return
	} else {
		c.Close()
	}
	pool := x509.NewCertPool()
	if b, err := os.ReadFile(d.dir.rootPEM()); err == nil {
		pool.AppendCertsFromPEM(b)
	}
	host, port, _ := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	r, err := client.Get("https://" + net.JoinHostPort(host, port) + "/readyz")
	if err != nil {
		d.bad("warn", name, "if it was started with --listen this is expected", "running, but %s does not answer: %v", addr, err)
		return
	}
	defer r.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(r.Body, 4<<10))
	if r.StatusCode != http.StatusOK {
		d.bad("fail", name, "see the server's log", "not ready: %s", strings.TrimSpace(string(body)))
		return
	}
	d.ok(name, "ready on %s", addr)
}
