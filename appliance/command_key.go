package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
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

// adminCommand makes the setup of a command that works on the store: more
// declares its own flags and gives what runs.
func adminCommand(more func(fs *flag.FlagSet, af *adminFlags) func(ctx context.Context, env *Env, c *connection, args []string) error) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
		af := &adminFlags{}
		af.declare(fs)
		run := more(fs, af)
		return func(ctx context.Context, env *Env, args []string) (err error) {
			dir, path, err := af.locate(env)
			if err != nil {
				return err
			}
			c, err := connect(env, dir, func() (*config.Config, error) { return config.Load(path) })
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.close()) }()
			if c.local != nil {
				c.local.file = path
			}
			return run(ctx, env, c, args)
		}
	}
}

func keyCommand() *command {
	return &command{
		name: "key", short: "make, list, rotate and revoke API keys",
		long: `A key belongs to a tenant of the configuration and is shown once, when it is
made: what is kept is a keyed hash. Works beside a running server and without one.`,
		sub: []*command{keyCreateCommand(), keyListCommand(), keyRotateCommand(), keyRevokeCommand(), keySetupCommand()},
	}
}

func keyCreateCommand() *command {
	return &command{
		name: "create", short: "make a key and show it, once",
		long: `Example: hearth key create --name laptop --budget-day 1.00 --requests-per-minute 60`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var k store.Key
			fs.StringVar(&k.Tenant, "tenant", config.DefaultTenant, "`NAME` of the tenant it belongs to")
			fs.StringVar(&k.Name, "name", "", "`TEXT` to know it by")
			expires := fs.Duration("expires", 0, "valid for this `DURATION`, for instance 720h; 0: for ever")
			models := fs.String("models", "", "`NAMES` it may ask for, with commas; empty: its tenant's")
			lists := map[string]*string{
				"models":       models,
				"tools":        fs.String("tools", "", "`NAMES` of tools it may offer, with commas, prefix* allowed; empty: its tenant's"),
				"data-classes": fs.String("data-classes", "", "`CLASSES` of data whose routes it may use, with commas; empty: its tenant's"),
				"regions":      fs.String("regions", "", "`REGIONS` in which it may be served, with commas; empty: its tenant's"),
				"effects":      fs.String("effects", "", "effect `CLASSES` it may ask for: read-only, effectful; empty: both"),
			}
			fs.IntVar(&k.Limits.RequestsPerMinute, "requests-per-minute", 0, "`N` requests a minute; 0: its tenant's rule for keys")
			fs.IntVar(&k.Limits.TokensPerMinute, "tokens-per-minute", 0, "`N` tokens a minute, prompt and answer; 0: its tenant's rule for keys")
			fs.IntVar(&k.Limits.Concurrency, "concurrency", 0, "`N` open requests; 0: its tenant's rule for keys")
			caps := map[store.Period]*string{}
			for p, span := range map[store.Period]string{store.Day: "a day", store.Month: "a month", store.Total: "in all"} {
				caps[p] = fs.String("budget-"+string(p), "", "at most so many `USD` "+span+", for instance 5.00")
			}
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				for name, list := range map[string]*[]string{"models": &k.Models, "tools": &k.Tools,
					"data-classes": &k.DataClasses, "regions": &k.Regions, "effects": &k.Effects} {
					if *lists[name] != "" {
						*list = strings.Split(*lists[name], ",")
					}
				}
				if *expires < 0 {
					return usagef("key create: --expires must not be negative")
				}
				if *expires > 0 {
					k.Expires = env.Now().Add(*expires)
				}
				for _, p := range []store.Period{store.Day, store.Month, store.Total} {
					if *caps[p] == "" {
						continue
					}
					nano, err := config.ParseUSD(*caps[p])
					if err != nil {
						return usagef("key create: --budget-%s: %v", p, err)
					}
					k.Budgets = append(k.Budgets, store.KeyBudget{Period: p, CapNano: nano})
				}
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
		name: "list", short: "list all keys, without their secrets",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				keys, err := opKeyList.call(ctx, c, tenantQuery{})
				if err != nil {
					return err
				}
				if af.json {
					if keys == nil {
						keys = []store.Key{}
					}
					return printJSON(env.Stdout, keys)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "ID\tTENANT\tNAME\tSTATE\tCREATED\tLAST USED")
					for _, k := range keys {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.Name, keyState(k, env.Now()), day(k.Created), day(k.LastUsed))
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
	case !k.Expires.IsZero() && now.After(k.Expires):
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
		name: "setup", short: "make a one-time link that signs a browser in as operator",
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
