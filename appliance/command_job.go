package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"

	"hearth/engine/infer"
)

func jobCommand() *command {
	return &command{
		name: "job", short: "list, watch and cancel long work of the running server",
		sub: []*command{jobListCommand(), jobShowCommand(), jobCancelCommand()},
	}
}

// needServer refuses what only a running server can do.
func needServer(c *connection) error {
	if c.local != nil {
		return infer.Errorf(infer.CodeUnavailable, "no server is running: `hearth serve` starts one")
	}
	return nil
}

func jobListCommand() *command {
	return &command{
		name: "list", short: "list long work, the newest first",
		setup: adminCommand(func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				list, err := opJobList.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, list)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "ID\tWORK\tON\tSTATE\tDONE\tSTARTED\tNOTE")
					for i := range list {
						j := &list[i]
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f %%\t%s\t%s\n", j.ID, j.Kind, j.Subject, j.State, 100*j.Progress, day(j.Started), j.Error)
					}
				})
			}
		}),
	}
}

func jobShowCommand() *command {
	return &command{
		name: "show", args: "ID", short: "show one job, and wait for its end if asked to",
		long: "Exits as the work did: 0 if it is done or still runs.",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var long longFlags
			long.declare(fs)
			wait := fs.Bool("wait", false, "wait for its end; leaving cancels it")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("job show: got %d ids, wanted one", len(args))
				}
				if err := needServer(c); err != nil {
					return err
				}
				ctx, stop := interruptible(ctx)
				defer stop()
				j, err := opJobShow.call(ctx, c, jobQuery{ID: args[0]})
				if err == nil && *wait {
					show, serr := long.shower(env, af.json)
					if serr != nil {
						return serr
					}
					j, err = follow(ctx, c, j, show)
				}
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, j)
				}
				return table(env.Stdout, func(w io.Writer) {
					for _, l := range [][2]string{{"id", j.ID}, {"work", j.Kind}, {"on", j.Subject}, {"state", string(j.State)},
						{"done", fmt.Sprintf("%.0f %%", 100*j.Progress)}, {"now", j.Label}, {"by", j.Actor}, {"started", day(j.Started)}, {"ended", day(j.Ended)}, {"error", j.Error}} {
						if l[1] != "" {
							fmt.Fprintf(w, "%s\t%s\n", l[0], l[1])
						}
					}
				})
			}
		}),
	}
}

func jobCancelCommand() *command {
	return &command{
		name: "cancel", args: "ID", short: "end a job before it is done",
		setup: adminCommand(func(_ *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("job cancel: got %d ids, wanted one", len(args))
				}
				if err := needServer(c); err != nil {
					return err
				}
				j, err := opJobCancel.call(ctx, c, jobID{args[0]})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, j)
				}
				_, err = fmt.Fprintf(env.Stdout, "%s of %s is told to end\n", j.Kind, j.Subject)
				return err
			}
		}),
	}
}
