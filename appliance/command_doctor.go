package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"hearth/appliance/config"
)

func doctorCommand() *command {
	return &command{
		name: "doctor", short: "look for trouble and name one fix for each finding",
		long: `Looks at the machine, the data directory, the configuration, models, certificate,
backups and the running server, if there is one. Works beside a server and without
one, and changes nothing. Exits 1 if something fails; warnings do not.

--clients prints ready-made settings for programs that speak to this server, and
asks each of its APIs for a word, with the key in HEARTH_API_KEY or --key-file.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var af adminFlags
			af.declare(fs)
			quick := fs.Bool("quick", false, "leave out what takes long: the walk of the ledger, the disk's speed")
			all := fs.Bool("verbose", false, "show also what is well")
			clients := fs.Bool("clients", false, "print settings for clients and try every API")
			keyFile := fs.String("key-file", "", "with --clients: `FILE` that holds an API key")
			model := fs.String("model", "", "with --clients: `NAME` to ask for; empty: the first")
			return func(ctx context.Context, env *Env, _ []string) error {
				ctx, stop := interruptible(ctx)
				defer stop()
				dir, path, err := af.locate(env)
				if err != nil {
					return err
				}
				if *clients {
					return showClients(ctx, env, dir, path, clientOptions{keyFile: *keyFile, model: *model, json: af.json})
				}
				d := &doctor{env: env, dir: dir, path: path, quick: *quick}
				if c, err := dialAdmin(ctx, dir); err == nil {
					c.Close()
					if d.conn, err = connect(env, dir, nil); err != nil {
						return err
					}
					defer d.conn.close()
				}
				r, err := d.ask(ctx)
				if err != nil {
					return err
				}
				if af.json {
					err = printJSON(env.Stdout, r)
				} else {
					err = r.print(env.Stdout, *all)
				}
				if err == nil && r.Failed > 0 {
					err = errFound
				}
				return err
			}
		},
	}
}

// maxDoctor bounds how long a running server may look, its ledger included.
const maxDoctor = 3 * time.Minute

// ask has a running server look, which sees what it may see and listens where it
// does; without one it looks itself.
func (d *doctor) ask(ctx context.Context) (diagnosis, error) {
	if d.conn == nil {
		return d.examine(ctx), nil
	}
	limited, cancel := context.WithTimeout(ctx, maxDoctor)
	defer cancel()
	r, err := opDoctor.call(limited, d.conn, doctorQuery{Quick: d.quick})
	if err != nil && ctx.Err() == nil {
		d.area = "server"
		d.fail("server", "see the server's log; if it hangs, end it: its work is settled at its hold", "it runs and does not answer: %v", err)
		d.conn, d.quick = nil, true // the rest must not wait for it
		return d.examine(ctx), nil
	}
	return r, err
}

func (r *diagnosis) print(w io.Writer, all bool) error {
	err := table(w, func(w io.Writer) {
		for _, f := range r.Findings {
			if f.State == stateOK && !all && r.Failed+r.Warned > 0 {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.State, f.Name, f.Detail)
			if f.Fix != "" {
				fmt.Fprintf(w, "\t\tfix: %s\n", f.Fix)
			}
		}
	})
	if err == nil {
		_, err = fmt.Fprintf(w, "%d looked at: %d fail, %d to look after, %d well\n", len(r.Findings), r.Failed, r.Warned, len(r.Findings)-r.Failed-r.Warned)
	}
	return err
}

// loadOrDefault reads a configuration; that of a first start stands for one that
// is not there.
func loadOrDefault(path string) (*config.Config, error) {
	c, err := config.Load(path)
	if errors.Is(err, os.ErrNotExist) {
		return config.Default(), nil
	}
	return c, err
}
