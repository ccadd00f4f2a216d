package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/store"
)

// keyFlags are the flags that say what a key may. Only those that are given
// count.
type keyFlags struct {
	name    string
	expires time.Duration
	limits  [3]int
	lists   [5]string
	caps    [3]string
}

var (
	keyPeriods   = [3]store.Period{store.Day, store.Month, store.Total}
	keyLists     = [5]string{"models", "tools", "data-classes", "regions", "effects"}
	keyLimitName = [3]string{"requests-per-minute", "tokens-per-minute", "concurrency"}
)

func (f *keyFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&f.name, "name", "", "`TEXT` to know it by")
	fs.DurationVar(&f.expires, "expires", 0, "valid for this `DURATION` from now, for instance 720h; 0: for ever")
	fs.StringVar(&f.lists[0], "models", "", "`NAMES` it may ask for, with commas, prefix* allowed; empty: its tenant's")
	fs.StringVar(&f.lists[1], "tools", "", "`NAMES` of tools it may offer, with commas, prefix* allowed; empty: its tenant's")
	fs.StringVar(&f.lists[2], "data-classes", "", "`CLASSES` of data whose routes it may use, with commas; empty: its tenant's")
	fs.StringVar(&f.lists[3], "regions", "", "`REGIONS` in which it may be served, with commas; empty: its tenant's")
	fs.StringVar(&f.lists[4], "effects", "", "effect `CLASSES` it may ask for: read-only, effectful; empty: both")
	fs.IntVar(&f.limits[0], "requests-per-minute", 0, "`N` requests a minute; 0: its tenant's rule for keys")
	fs.IntVar(&f.limits[1], "tokens-per-minute", 0, "`N` tokens a minute, prompt and answer; 0: its tenant's rule for keys")
	fs.IntVar(&f.limits[2], "concurrency", 0, "`N` open requests; 0: its tenant's rule for keys")
	for i, span := range [3]string{"a day", "a month", "in all"} {
		fs.StringVar(&f.caps[i], "budget-"+string(keyPeriods[i]), "", "at most so many `USD` "+span+", for instance 5.00; empty: its tenant's rule for keys")
	}
}

// change is what the given flags ask for. Budgets are told as a whole: where one
// is given, those that are not are gone.
func (f *keyFlags) change(fs *flag.FlagSet, now time.Time) (keyChange, error) {
	given := map[string]bool{}
	fs.Visit(func(x *flag.Flag) { given[x.Name] = true })
	var r keyChange
	if given["name"] {
		r.Name = &f.name
	}
	switch {
	case f.expires < 0:
		return r, usagef("--expires must not be negative")
	case f.expires > 0:
		at := now.Add(f.expires)
		r.Expires = &at
	case given["expires"]:
		r.Never = true
	}
	for i, to := range [5]**[]string{&r.Models, &r.Tools, &r.DataClasses, &r.Regions, &r.Effects} {
		if !given[keyLists[i]] {
			continue
		}
		list := []string{}
		if f.lists[i] != "" {
			list = strings.Split(f.lists[i], ",")
		}
		*to = &list
	}
	limits := limitsChange{}
	for i, to := range [3]**int{&limits.RequestsPerMinute, &limits.TokensPerMinute, &limits.Concurrency} {
		if given[keyLimitName[i]] {
			*to, r.Limits = &f.limits[i], &limits
		}
	}
	budgets := []store.KeyBudget{}
	for i, p := range keyPeriods {
		if !given["budget-"+string(p)] {
			continue
		}
		r.Budgets = &budgets
		if f.caps[i] == "" {
			continue
		}
		nano, err := config.ParseUSD(f.caps[i])
		if err != nil {
			return r, usagef("--budget-%s: %v", p, err)
		}
		budgets = append(budgets, store.KeyBudget{Period: p, CapNano: nano})
	}
	return r, nil
}

func keyUpdateCommand() *command {
	return &command{
		name: "update", args: "ID", short: "change what a key is called and may ask for",
		long: `Flags that are not given leave things as they are; an empty list means the
tenant's again. Where one --budget flag is given, all budgets are told anew.`,
		examples: []string{"hearth key update --models 'chat-*' --budget-month 20.00 KEY-ID"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			kf := &keyFlags{}
			kf.declare(fs)
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				id, err := oneArg("key update", args)
				if err != nil {
					return err
				}
				change, err := kf.change(fs, env.Now())
				if err != nil {
					return fmt.Errorf("key update: %w", err)
				}
				change.ID = id
				row, err := opKeyUpdate.call(ctx, c, change)
				if err != nil {
					return err
				}
				return showKey(env, &row, af.json)
			}
		}),
	}
}

func keyShowCommand() *command {
	return &command{
		name: "show", args: "ID", short: "one key: what it may, its state and its spend",
		examples: []string{"hearth key show KEY-ID"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				id, err := oneArg("key show", args)
				if err != nil {
					return err
				}
				row, err := opKeyShow.call(ctx, c, oneKey{id})
				if err != nil {
					return err
				}
				return showKey(env, &row, af.json)
			}
		}),
	}
}

// keySwitchCommand is disable or enable.
func keySwitchCommand(name, short string, op operation[oneKey, keyRow]) *command {
	return &command{
		name: name, args: "ID", short: short,
		examples: []string{"hearth key " + name + " KEY-ID"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				id, err := oneArg("key "+name, args)
				if err != nil {
					return err
				}
				row, err := op.call(ctx, c, oneKey{id})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, row)
				}
				_, err = fmt.Fprintf(env.Stdout, "key %s of tenant %s is %s\n", row.ID, row.Tenant, row.State)
				return err
			}
		}),
	}
}

func oneArg(command string, args []string) (string, error) {
	if len(args) != 1 {
		return "", usagef("%s: got %d ids, wanted one", command, len(args))
	}
	return args[0], nil
}

func showKey(env *Env, k *keyRow, asJSON bool) error {
	if asJSON {
		return printJSON(env.Stdout, k)
	}
	return table(env.Stdout, func(w io.Writer) {
		line := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
		list := func(name string, l []string) {
			if len(l) > 0 {
				line(name, "%s", strings.Join(l, ", "))
			} else {
				line(name, "its tenant's")
			}
		}
		line("id", "%s", k.ID)
		line("tenant", "%s", k.Tenant)
		line("name", "%s", k.Name)
		line("state", "%s", k.State)
		line("created", "%s", day(k.Created))
		line("rotated", "%s", day(k.Rotated))
		line("last used", "%s", day(k.LastUsed))
		line("expires", "%s", day(k.Expires))
		list("models", k.Models)
		list("tools", k.Tools)
		list("data classes", k.DataClasses)
		list("regions", k.Regions)
		list("effects", k.Effects)
		for i, n := range [3]int{k.Limits.RequestsPerMinute, k.Limits.TokensPerMinute, k.Limits.Concurrency} {
			if name := strings.ReplaceAll(keyLimitName[i], "-", " "); n > 0 {
				line(name, "%d", n)
			} else {
				line(name, "its tenant's rule for keys")
			}
		}
		for _, b := range k.Spend {
			line("budget of a "+string(b.Period), "%s spent, %s held, of %s", usd(b.Spent), usd(b.Held), usd(b.Cap))
		}
		line("spent lately", "%s in %d requests", usd(k.Recent.Charge), k.Recent.Requests)
		line("open requests", "%d", k.Open)
	})
}

func identityCommand() *command {
	return &command{
		name: "identity", short: "callers by token and certificate: keys and authorities that count",
		sub: []*command{{
			name: "list", short: "list every [[identity]] of the running server as it stands",
			examples: []string{"hearth identity list"},
			setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
				return func(ctx context.Context, env *Env, c *connection, _ []string) error {
					states, err := opIdentityList.call(ctx, c, none{})
					if err != nil {
						return err
					}
					if af.json {
						return printJSON(env.Stdout, states)
					}
					return table(env.Stdout, func(w io.Writer) {
						fmt.Fprintln(w, "NAME\tKIND\tUSABLE\tKEYS\tAUTHORITIES\tFETCHED\tFAILURE")
						for _, s := range states {
							fmt.Fprintf(w, "%s\t%s\t%t\t%d\t%d\t%s\t%s\n", s.Name, s.Kind, s.Usable, len(s.Keys), len(s.Authorities), day(s.Fetched), s.Failure)
						}
					})
				}
			}),
		}},
	}
}
