package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"hearth/appliance/config"
)

func configCommand() *command {
	return &command{
		name: "config", short: "check or show the configuration",
		sub: []*command{configCheckCommand(), configShowCommand()},
	}
}

// configFlags are the flags that name a configuration file.
type configFlags struct {
	data, file string
}

func (c *configFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&c.data, "data", "", "data `DIR` (default $XDG_DATA_HOME/hearth)")
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
Exits 1 if there is a fault. A running server takes a changed file on SIGHUP,
and keeps the old one if the new one has a fault.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var cf configFlags
			cf.declare(fs)
			asJSON := fs.Bool("json", false, "print one JSON document")
			return func(_ context.Context, env *Env, args []string) error {
				if len(args) > 1 {
					return usagef("config check: got %d files, takes one", len(args))
				}
				if len(args) == 1 {
					cf.file = args[0]
				}
				_, path, err := cf.locate(env)
				if err != nil {
					return err
				}
				return checkConfig(env, path, *asJSON)
			}
		},
	}
}

func checkConfig(env *Env, path string, asJSON bool) error {
	_, err := config.Load(path)
	var faults *config.Faults
	switch {
	case err == nil && asJSON:
		return printJSON(env.Stdout, &config.Faults{File: path, List: []config.Fault{}})
	case err == nil:
		_, err = fmt.Fprintf(env.Stdout, "%s: no faults\n", path)
		return err
	case errors.As(err, &faults):
		if asJSON {
			if err := printJSON(env.Stdout, faults); err != nil {
				return err
			}
		} else {
			fmt.Fprintln(env.Stdout, faults)
		}
		return errFound
	}
	return err
}

func configShowCommand() *command {
	return &command{
		name: "show", short: "show the configuration in force, defaults filled in",
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var cf configFlags
			cf.declare(fs)
			asJSON := fs.Bool("json", false, "print one JSON document")
			return func(_ context.Context, env *Env, _ []string) error {
				_, path, err := cf.locate(env)
				if err != nil {
					return err
				}
				c, err := config.Load(path)
				if errors.Is(err, os.ErrNotExist) && cf.file == "" {
					c, err = config.Default(), nil
				}
				if err != nil {
					return err
				}
				if *asJSON {
					return printJSON(env.Stdout, c.Tree())
				}
				_, err = fmt.Fprint(env.Stdout, c.Text())
				return err
			}
		},
	}
}
