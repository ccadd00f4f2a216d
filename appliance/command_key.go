package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"hearth/appliance/config"
	"hearth/store"
)

// adminFlags are the flags of every command that works on the store.
type adminFlags struct {
	configFlags
	json bool
}

func (f *adminFlags) declare(fs *flag.FlagSet) {
	f.configFlags.declare(fs)
	fs.BoolVar(&f.json, "json", false, "print one JSON document")
}

// connected declares the flags of a command that works over a connection, and
// gives what runs over it.
type connected = func(fs *flag.FlagSet, af *adminFlags) func(ctx context.Context, env *Env, c *connection, args []string) error

// dialer makes the connection of a command; named says that --config was given.
type dialer func(ctx context.Context, env *Env, dir dataDir, file string, named bool) (*connection, error)

// over makes the setup of a command that works over what dial connects to.
func over(dial dialer, more connected) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
		af := &adminFlags{}
		af.declare(fs)
		run := more(fs, af)
		return func(ctx context.Context, env *Env, args []string) (err error) {
			dir, path, err := af.locate(env)
			if err != nil {
				return err
			}
			c, err := dial(ctx, env, dir, path, af.file != "")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.close()) }()
			return run(ctx, env, c, args)
		}
	}
}

// adminCommand makes the setup of a command that works on the store: more
// declares its own flags and gives what runs.
func adminCommand(more connected) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return over(connectStore, more)
}

// connectStore finds a running server, or opens the database of dir.
func connectStore(_ context.Context, env *Env, dir dataDir, file string, _ bool) (*connection, error) {
	c, err := connect(env, dir, func() (*config.Config, error) { return config.Load(file) })
	if err == nil && c.local != nil {
		c.local.file = file
	}
	return c, err
}

func keyCommand() *command {
	return &command{
		name: "key", short: "make, list, change, rotate and revoke API keys",
		long: `A key belongs to a tenant of the configuration and is shown once, when it is
made: what is kept is a keyed hash. Works beside a running server and without one.
To disable, revoke or rotate a key ends its open streams within a second.`,
		sub: []*command{keyCreateCommand(), keyListCommand(), keyShowCommand(), keyUpdateCommand(), keyRotateCommand(),
			keySwitchCommand("disable", "refuse a key until it is enabled again", opKeyDisable),
			keySwitchCommand("enable", "take a key again that was disabled", opKeyEnable),
			keyRevokeCommand(), keySetupCommand()},
	}
}

func keyCreateCommand() *command {
	return &command{
		name: "create", short: "make a key and show it, once",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			tenant := fs.String("tenant", config.DefaultTenant, "`NAME` of the tenant it belongs to")
			kf := &keyFlags{}
			kf.declare(fs)
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				change, err := kf.change(fs, env.Now())
				if err != nil {
					return fmt.Errorf("key create: %w", err)
				}
				k := store.Key{Tenant: *tenant}
				change.apply(&k)
				made, err := opKeyCreate.call(ctx, c, k)
				if err != nil {
					return err
				}
				return showNewKey(env, made, af.json)
			}
		}),
	}
}

func showNewKey(env *Env, k store.NewKey, asJSON bool) error {
	if asJSON {
		return printJSON(env.Stdout, struct {
			store.Key
			Credential string `json:"key"`
		}{k.Key, k.Secret})
	}
	_, err := fmt.Fprintf(env.Stdout, "id      %s\ntenant  %s\nkey     %s\n        (shown now and never again)\n", k.ID, k.Tenant, k.Secret)
	return err
}

func keyListCommand() *command {
	return &command{
		name: "list", short: "list all keys with state and spend, without their secrets",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			tenant := fs.String("tenant", "", "only of this tenant (`NAME`)")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				keys, err := opKeyList.call(ctx, c, tenantQuery{Tenant: *tenant})
				if err != nil {
					return err
				}
				if af.json {
					if keys == nil {
						keys = []keyRow{}
					}
					return printJSON(env.Stdout, keys)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "ID\tTENANT\tNAME\tSTATE\tCREATED\tLAST USED\tSPENT LATELY")
					for _, k := range keys {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.Name, k.State, day(k.Created), day(k.LastUsed), usd(k.Recent.Charge))
					}
				})
			}
		}),
	}
}

func keyState(k store.Key, now time.Time) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case k.Disabled:
		return "disabled"
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return "expired"
	}
	return "live"
}

func keyRotateCommand() *command {
	return &command{
		name: "rotate", args: "ID", short: "give a key a new secret",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			grace := fs.Duration("grace", 0, "the old secret stays valid for this `DURATION`")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("key rotate: got %d ids, wanted one", len(args))
				}
				made, err := opKeyRotate.call(ctx, c, keyID{ID: args[0], Grace: *grace})
				if err != nil {
					return err
				}
				return showNewKey(env, made, af.json)
			}
		}),
	}
}

func keyRevokeCommand() *command {
	return &command{
		name: "revoke", args: "ID", short: "end a key for good; it stays listed for the ledger's sake",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("key revoke: got %d ids, wanted one", len(args))
				}
				k, err := opKeyRevoke.call(ctx, c, keyID{ID: args[0]})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, k)
				}
				_, err = fmt.Fprintf(env.Stdout, "key %s of tenant %s is revoked\n", k.ID, k.Tenant)
				return err
			}
		}),
	}
}

func keySetupCommand() *command {
	return &command{
		name: "setup", short: "make a one-time link that signs a browser in as owner",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				l, err := opKeySetup.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, l)
				}
				_, err = fmt.Fprintf(env.Stdout, "%s\n(works once, for %d minutes)\n", l.URL, int(setupLifetime.Minutes()))
				return err
			}
		}),
	}
}

// table writes rows of cells that are separated by tabs.
func table(w io.Writer, rows func(io.Writer)) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(t)
	return t.Flush()
}

func day(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}
