package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// editing makes the setup of a command that reads or changes the configuration:
// through a running server, or in the file, before a first start also without a
// ledger.
func editing(more connected) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return over(connectConfig, more)
}

// connectConfig finds the server that serves by the file, or works on the file.
func connectConfig(ctx context.Context, env *Env, dir dataDir, path string, named bool) (*connection, error) {
	c := &connection{local: &control{dir: dir, config: func() (*config.Config, error) { return config.Load(path) }}, close: func() error { return nil }}
	if found, err := connect(env, dir, c.local.config); err == nil {
		c = found
	} else if fileExists(dir.database()) {
		return nil, err // a ledger that cannot be opened
	}
	if c.local != nil {
		c.local.file, c.local.sample, c.local.getenv = path, env.Sample, env.Getenv
		return c, nil
	}
	if named {
		is, err := opConfigGet.call(ctx, c, none{})
		if err == nil && !sameFile(is.File, path) {
			err = usagef("config: the running server's file is %s, not %s", is.File, path)
		}
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	if errX == nil && errY == nil {
		return os.SameFile(x, y)
	}
	return filepath.Base(a) == filepath.Base(b)
}

// changeFlags are the flags of every command that changes the configuration.
type changeFlags struct {
	note, ifMatch string
	confirm       time.Duration
	keep          bool
}

func (f *changeFlags) declare(fs *flag.FlagSet) {
	fs.StringVar(&f.note, "note", "", "`TEXT` that stands beside it in the history")
	fs.StringVar(&f.ifMatch, "if-match", "", "`DIGEST` that the file must have, from config get --json or config history")
	fs.DurationVar(&f.confirm, "confirm-within", 0, "go back after this `DURATION` unless hearth config confirm comes first; 0: stay")
	fs.BoolVar(&f.keep, "keep-unready", false, "stay even where a model fails")
}

func (f *changeFlags) seconds() int { return int((f.confirm + time.Second - 1) / time.Second) }

// printApplied tells what came of a change.
func printApplied(env *Env, c *connection, a applied, asJSON bool) error {
	if asJSON {
		return printJSON(env.Stdout, a)
	}
	var b strings.Builder
	b.WriteString(a.Diff)
	switch {
	case a.Diff == "" && len(a.Changed) == 0:
		b.WriteString("nothing differs")
	case c.local != nil:
		b.WriteString("written; a server takes it when it starts")
	default:
		b.WriteString("taken: new requests are served by it, those under way end as they began")
	}
	if a.Revision > 0 {
		fmt.Fprintf(&b, " (revision %d)", a.Revision)
	}
	b.WriteString("\n")
	if len(a.Restart) > 0 {
		fmt.Fprintf(&b, "at the next start only: %s\n", strings.Join(a.Restart, ", "))
	}
	for _, d := range a.Doubts {
		fmt.Fprintf(&b, "doubt: %s\n", d)
	}
	if a.ConfirmBy != nil {
		fmt.Fprintf(&b, "goes back at %s unless you say: hearth config confirm\n", a.ConfirmBy.Local().Format(time.TimeOnly))
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}

func configGetCommand() *command {
	return &command{
		name: "get", args: "[KEY]", short: "print the file, or the value of one key",
		long: `A value is what is served, defaults included. Elements of arrays go by number or
by name: tenant[default].budget[month].cap_usd.`,
		examples: []string{"hearth config get server.listen", "hearth config get > appliance.toml", "hearth config get --json"},
		setup: editing(func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) > 1 {
					return usagef("config get: got %d keys, takes one", len(args))
				}
				is, err := opConfigGet.call(ctx, c, none{})
				switch {
				case err != nil:
					return err
				case len(args) == 1:
					return printKey(env, is, args[0], af.json)
				case af.json:
					return printJSON(env.Stdout, is)
				}
				_, err = io.WriteString(env.Stdout, is.Text)
				return err
			}
		}),
	}
}

func printKey(env *Env, is configText, key string, asJSON bool) error {
	v, ok := config.Lookup(is.Tree, key)
	if !ok {
		return infer.Errorf(infer.CodeNotFound, "there is no key or table %.64q; hearth config reference lists them all", key)
	}
	if asJSON {
		return printJSON(env.Stdout, v)
	}
	_, err := fmt.Fprintln(env.Stdout, config.Literal(v))
	return err
}

func configSetCommand() *command {
	return &command{
		name: "set", args: "KEY VALUE [KEY VALUE…]", short: "change keys in the file and have them served",
		long: `Comments and order of the file stay. A key that is not there yet goes below its
commented default, or below the last key of its table. Text is read as what the
key takes; lists may be written with commas. --append adds to a list or an array
of tables, --delete removes keys, elements or tables. Elements go by number or by
name. All changes of one call are applied together or not at all.`,
		examples: []string{
			"hearth config set tenant[default].limits.concurrency 8",
			"hearth config set tenant[default].budget[month].cap_usd 25.00 --note \"more for November\"",
			`hearth config set --append tenant '{ name = "team-b" }'`,
			"hearth config set --delete route[assistant]",
		},
		setup: editing(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var cf changeFlags
			cf.declare(fs)
			remove := fs.Bool("delete", false, "remove the keys that are named, without values")
			add := fs.Bool("append", false, "add the value to the end of the list or array of tables")
			dry := fs.Bool("dry-run", false, "print what would change, and change nothing")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				r := configSet{IfMatch: cf.ifMatch, Note: cf.note, DryRun: *dry, ConfirmWithinS: cf.seconds(), KeepUnready: cf.keep}
				if *remove {
					for _, key := range args {
						r.Changes = append(r.Changes, configEdit{Path: key, Delete: true})
					}
				} else if len(args)%2 != 0 {
					return usagef("config set: got %d arguments, wanted KEY VALUE [KEY VALUE…], as in: hearth config set log.level debug", len(args))
				}
				for i := 0; !*remove && i < len(args); i += 2 {
					r.Changes = append(r.Changes, configEdit{Path: args[i], Value: args[i+1], Append: *add})
				}
				if len(r.Changes) == 0 {
					return usagef("config set: no key is named")
				}
				out, err := opConfigSet.call(ctx, c, r)
				if err != nil {
					return err
				}
				if *dry && !af.json {
					_, err = io.WriteString(env.Stdout, out.Diff)
					return err
				}
				return printApplied(env, c, out, af.json)
			}
		}),
	}
}

func configApplyCommand() *command {
	return &command{
		name: "apply", args: "FILE", short: "put a whole new text in the place of the file and have it served",
		long: `The text is checked first, written in one step, and swapped without cutting a
stream; a text with a fault changes nothing. "-" reads standard input. With
--if-match the change is refused, with the difference, if somebody has changed
the file since.`,
		examples: []string{"hearth config apply draft.toml --note \"second region\"", "hearth config apply draft.toml --confirm-within 5m"},
		setup: editing(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var cf changeFlags
			cf.declare(fs)
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("config apply: got %d files, wanted one", len(args))
				}
				text, err := readConfigText(env, args[0])
				if err != nil {
					return err
				}
				out, err := opConfigApply.call(ctx, c, configApply{Text: text, IfMatch: cf.ifMatch, Note: cf.note, ConfirmWithinS: cf.seconds(), KeepUnready: cf.keep})
				if err != nil {
					return err
				}
				return printApplied(env, c, out, af.json)
			}
		}),
	}
}

func readConfigText(env *Env, path string) (string, error) {
	if path != "-" {
		b, err := config.Read(path)
		return string(b), err
	}
	b, err := io.ReadAll(io.LimitReader(env.Stdin, config.MaxBytes+1))
	if err == nil && len(b) > config.MaxBytes {
		err = fmt.Errorf("cannot read more than %d bytes", config.MaxBytes)
	}
	return string(b), err
}

func configHistoryCommand() *command {
	return &command{
		name: "history", short: "list the last revisions of the configuration, newest first",
		examples: []string{"hearth config history"},
		setup: editing(func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				all, err := opConfigHistory.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, all)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "REVISION\tTIME\tHOW\tAUTHOR\tDIGEST\tCHANGED\tNOTE")
					for _, v := range all {
						fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%.12s\t%s\t%s\n", v.Number, day(v.At), v.How, v.Author, v.Digest, strings.Join(v.Changed[:min(3, len(v.Changed))], ", "), v.Note)
					}
				})
			}
		}),
	}
}

// revisionArg reads the number of a revision.
func revisionArg(command string, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, usagef("%s: got %q, wanted the number of a revision (hearth config history); a file is compared by hearth config check FILE", command, s)
	}
	return n, nil
}

func configDiffCommand() *command {
	return &command{
		name: "diff", args: "[FROM [TO]]", short: "show what differs between two revisions",
		long: `Without numbers: between the newest revision and the one before it, or the file
where that has changes which are not served. With one: between that and the file.`,
		examples: []string{"hearth config diff", "hearth config diff 3 5"},
		setup: editing(func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) > 2 {
					return usagef("config diff: got %d revisions, takes at most two", len(args))
				}
				var n [2]int
				for i, s := range args {
					var err error
					if n[i], err = revisionArg("config diff", s); err != nil {
						return err
					}
				}
				d, err := opConfigDiff.call(ctx, c, revisionPair{n[0], n[1]})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, d)
				}
				_, err = io.WriteString(env.Stdout, d.Diff)
				return err
			}
		}),
	}
}

func configRollbackCommand() *command {
	return &command{
		name: "rollback", args: "[REVISION]", short: "serve by an earlier revision again",
		long: `Without a number: by the one before the newest. What is in force stays in the
history; rolling back is a revision of its own.`,
		examples: []string{"hearth config rollback", "hearth config rollback 3 --note \"as on Monday\""},
		setup: editing(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var cf changeFlags
			cf.declare(fs)
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				r := configRollback{IfMatch: cf.ifMatch, Note: cf.note, ConfirmWithinS: cf.seconds(), KeepUnready: cf.keep}
				var err error
				switch len(args) {
				case 0:
				case 1:
					r.Revision, err = revisionArg("config rollback", args[0])
				default:
					err = usagef("config rollback: got %d revisions, takes one", len(args))
				}
				if err != nil {
					return err
				}
				out, err := opConfigRollback.call(ctx, c, r)
				if err != nil {
					return err
				}
				return printApplied(env, c, out, af.json)
			}
		}),
	}
}

func configConfirmCommand() *command {
	return &command{
		name: "confirm", short: "keep a change that would go back by itself",
		examples: []string{"hearth config confirm"},
		setup: editing(func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				p, err := opConfigConfirm.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, p)
				}
				_, err = fmt.Fprintf(env.Stdout, "revision %d stays\n", p.Revision)
				return err
			}
		}),
	}
}
