package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

func configCommand() *command {
	return &command{
		name: "config", short: "read, check and change the configuration",
		long: `All that is configuration stands in one file, DIR/appliance.toml. It may be
changed by hand: a running server takes it up, or tells its faults and serves on
as before. These commands change it in place, keep every revision, and work with
a running server and without one.`,
		sub: []*command{
			configShowCommand(), configGetCommand(), configSetCommand(), configCheckCommand(), configApplyCommand(), configReloadCommand(),
			configDiffCommand(), configHistoryCommand(), configRollbackCommand(), configConfirmCommand(),
			configSchemaCommand(), configReferenceCommand(),
		},
	}
}

// configFlags are the flags that name a configuration file.
type configFlags struct {
	data, file string
}

func (c *configFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&c.data, "data", "", "data `DIR` (default $XDG_DATA_HOME/hearth, else ~/.local/share/hearth)")
	fs.StringVar(&c.file, "config", "", "configuration `FILE` (default DIR/appliance.toml)")
}

// locate finds the data directory and the file.
func (c *configFlags) locate(env *Env) (dataDir, string, error) {
	dir, err := findDataDir(env, c.data)
	if err != nil {
		return "", "", err
	}
	if c.file != "" {
		return dir, c.file, nil
	}
	return dir, dir.config(), nil
}

func configCheckCommand() *command {
	return &command{
		name: "check", args: "[FILE]", short: "check a configuration file and list every fault",
		long: `Reads the file as a start would: unknown keys, wrong units, unknown time zones
and names that do not fit together are all listed at once, with line and key.
Exits 1 if there is a fault. Doubts, which are no faults, stand below: models
that are refused for want of a price, upstreams that no route names, credentials
that cannot be read here. A running server takes a changed file on SIGHUP, and
keeps the old one if the new one has a fault; its log tells faults and doubts.
Beside a running server it also tells what would change, and which of that takes
effect at the next start only.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var cf configFlags
			cf.declare(fs)
			asJSON := fs.Bool("json", false, "print one JSON document")
			return func(ctx context.Context, env *Env, args []string) error {
				if len(args) > 1 {
					return usagef("config check: got %d files, takes one", len(args))
				}
				if len(args) == 1 {
					cf.file = args[0]
				}
				dir, path, err := cf.locate(env)
				if err != nil {
					return err
				}
				return checkConfig(ctx, env, dir, path, *asJSON)
			}
		},
	}
}

// checkedConfig is what config check prints as JSON.
type checkedConfig struct {
	File   string         `json:"file"`
	Faults []config.Fault `json:"faults"`
	Doubts []config.Fault `json:"doubts"`
	// Of a running server: what would change there.
	Changed []changedKey `json:"changed,omitempty"`
	Restart []string     `json:"restart,omitempty"`
}

// askServer has a running server tell what data would change; without one nothing
// is told.
func (c *checkedConfig) askServer(ctx context.Context, env *Env, dir dataDir, data []byte) error {
	conn, err := dialAdmin(ctx, dir)
	if err != nil {
		return nil
	}
	conn.Close()
	server, err := connect(env, dir, nil)
	if err != nil || server.local != nil {
		return err
	}
	defer server.close()
	plan, err := opConfigCheck.call(ctx, server, configCheck{Text: string(data)})
	c.Changed, c.Restart = plan.Changed, plan.Restart
	return err
}

func checkConfig(ctx context.Context, env *Env, dir dataDir, path string, asJSON bool) error {
	c, err := config.Load(path)
	found := checkedConfig{File: path, Faults: []config.Fault{}, Doubts: []config.Fault{}}
	var faults *config.Faults
	switch {
	case err == nil:
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("cannot read the configuration: %w", err)
		}
		found.Doubts = config.Locate(data, doubts(c, path, localModels(c, dir), env.Getenv))
		if err := found.askServer(ctx, env, dir, data); err != nil {
			return err
		}
	case errors.As(err, &faults):
		found.Faults = faults.List
	default:
		return err
	}
	if asJSON {
		err = printJSON(env.Stdout, found)
	} else {
		err = found.print(env.Stdout, faults)
	}
	if err == nil && faults != nil {
		err = errFound
	}
	return err
}

func (c *checkedConfig) print(w io.Writer, faults *config.Faults) error {
	if faults != nil {
		_, err := fmt.Fprintln(w, faults)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: no faults\n", c.File)
	for _, d := range c.Doubts {
		fmt.Fprintf(&b, "  doubt: %s\n", d)
	}
	for _, k := range c.Changed {
		fmt.Fprintf(&b, "  changes: %s: %s\n", k.Path, k.words())
	}
	if len(c.Restart) > 0 {
		fmt.Fprintf(&b, "  at the next start only: %s\n", strings.Join(c.Restart, ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func configReloadCommand() *command {
	return &command{
		name: "reload", short: "have the running server take its changed configuration",
		long: `Does what SIGHUP does, and tells what came of it: a file with a fault changes
nothing, its faults are listed and the exit code is 1. No stream is cut. Doubts
are listed by hearth config check.`,
		setup: adminCommand(func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				if c.local != nil {
					return infer.Errorf(infer.CodeUnavailable, "no server is running; it takes the configuration when it starts")
				}
				if _, err := opReload.call(ctx, c, none{}); err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, none{})
				}
				_, err := fmt.Fprintln(env.Stdout, "taken: new requests are served by it, those under way end as they began")
				return err
			}
		}),
	}
}

func configShowCommand() *command {
	return &command{
		name: "show", short: "show the configuration in force, defaults filled in",
		long: `Beside a running server it is what that serves, without one what the file says.
--revision shows the text of an earlier one as it was.`,
		setup: editing(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			number := fs.Int("revision", 0, "the `NUMBER` of a revision, as in config history")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				if *number != 0 {
					return showRevision(ctx, env, c, *number, af.json)
				}
				is, err := opConfigGet.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if is.InForce != is.Digest {
					v, err := opConfigShow.call(ctx, c, revisionNumber{is.Revision})
					if err != nil {
						return err
					}
					is.Text = v.Text
				}
				conf, err := config.Parse(is.File, []byte(is.Text))
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, conf.Tree())
				}
				_, err = fmt.Fprint(env.Stdout, conf.Text())
				return err
			}
		}),
	}
}

func showRevision(ctx context.Context, env *Env, c *connection, number int, asJSON bool) error {
	v, err := opConfigShow.call(ctx, c, revisionNumber{number})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, v)
	}
	_, err = io.WriteString(env.Stdout, v.Text)
	return err
}
