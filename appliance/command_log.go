package appliance

import (
	"context"
	"flag"
	"fmt"
)

func logCommand() *command {
	return &command{
		name: "log", short: "read the log of a running server and change its level",
		long: `The latest records are kept in memory ([log] recent); a change of the level holds
for a time, or until the configuration is taken again.`,
		sub: []*command{logTailCommand(), logLevelCommand()},
	}
}

func logLevelCommand() *command {
	return &command{
		name: "level", args: "[LEVEL]", short: "show the level of the log, or set it: debug, info, warn, error, or configured",
		long: `Example: hearth log level debug --for 15m`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			span := fs.String("for", "", "go back after this `DURATION`, for instance 15m")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				var s logState
				var err error
				switch len(args) {
				case 0:
					s, err = opLogState.call(ctx, c, none{})
				case 1:
					if args[0] == "configured" {
						args[0] = ""
					}
					s, err = opLogLevel.call(ctx, c, logLevelChange{args[0], *span})
				default:
					return usagef("log level: got %d arguments, wanted at most one", len(args))
				}
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, s)
				}
				text := s.Level
				if !s.Until.IsZero() {
					text += " until " + s.Until.Local().Format("15:04:05") + ", then " + s.Configured
				} else if s.Level != s.Configured {
					text += ", the configuration says " + s.Configured
				}
				_, err = fmt.Fprintln(env.Stdout, text)
				return err
			}
		}),
	}
}

func logTailCommand() *command {
	return &command{
		name: "tail", short: "print the latest records of the log",
		long: `Example: hearth log tail --follow --level warn`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var q logQuery
			fs.IntVar(&q.Limit, "lines", 50, "the latest `N` records")
			fs.StringVar(&q.Level, "level", "", "of this `LEVEL` and above")
			fs.StringVar(&q.Request, "request", "", "of this request or trace (`ID`)")
			fs.StringVar(&q.Text, "text", "", "that hold this `TEXT`")
			follow := fs.Bool("follow", false, "go on with those that come")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				for {
					p, err := opLogTail.call(ctx, c, q)
					if err != nil {
						if ctx.Err() != nil {
							return nil
						}
						return err
					}
					if err := printLog(env, &p, af.json, *follow); err != nil || !*follow {
						return err
					}
					q.After, q.WaitMS, q.Limit = p.Next, int(maxLogWait.Milliseconds()), maxLogPage
				}
			}
		}),
	}
}

// printLog prints a page: one document, or where it goes on one a record.
func printLog(env *Env, p *logPage, asJSON, follow bool) error {
	if asJSON && !follow {
		return printJSON(env.Stdout, p)
	}
	if p.Lost {
		fmt.Fprintln(env.Stderr, "hearth: some records have gone before they could be read")
	}
	for i := range p.Records {
		var err error
		if asJSON {
			err = printJSON(env.Stdout, &p.Records[i])
		} else {
			_, err = fmt.Fprintln(env.Stdout, p.Records[i].line())
		}
		if err != nil {
			return err
		}
	}
	return nil
}
