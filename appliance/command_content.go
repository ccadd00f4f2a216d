package appliance

import (
	"context"
	"flag"
	"fmt"
	"text/tabwriter"
	"time"
)

func contentCommand() *command {
	return &command{
		name: "content", short: "look at, and delete, what a [[retention]] table has kept",
		long: `Nothing that callers and models say is kept unless a [[retention]] table of the
configuration authorises it. What is kept is redacted and encrypted, and deleted
in time. Each reading is written into the audit trail.`,
		sub: []*command{contentListCommand(), contentShowCommand(), contentPurgeCommand()},
	}
}

func contentListCommand() *command {
	return &command{
		name: "list", short: "list the requests of which content is kept",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var q contentQuery
			fs.StringVar(&q.Tenant, "tenant", "", "only of this tenant (`NAME`)")
			fs.StringVar(&q.Retention, "retention", "", "only under this table (`NAME`)")
			fs.StringVar(&q.Model, "model", "", "only of this model (`NAME`)")
			fs.IntVar(&q.Limit, "limit", 100, "at most `N`")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				p, err := opContentList.call(ctx, c, q)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, p)
				}
				w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "REQUEST\tAT\tTENANT\tMODEL\tRETENTION\tEXPIRES")
				for i := range p.Items {
					it := &p.Items[i]
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", it.Request, it.At.Format(time.RFC3339), it.Tenant, it.Model, it.Retention, it.Expires.Format(time.RFC3339))
				}
				return w.Flush()
			}
		}),
	}
}

func contentShowCommand() *command {
	return &command{
		name: "show", args: "REQUEST", short: "show what is kept of a request, as JSON; the audit trail notes who did",
		setup: adminCommand(func(*flag.FlagSet, *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("content show: got %d arguments, wanted the id of a request", len(args))
				}
				v, err := opContentShow.call(ctx, c, requestID{args[0]})
				if err != nil {
					return err
				}
				return printJSON(env.Stdout, v)
			}
		}),
	}
}

func contentPurgeCommand() *command {
	return &command{
		name: "purge", short: "delete kept content before its time",
		long: `Example: hearth content purge --tenant acme --before 24h`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var p contentPurge
			fs.StringVar(&p.ID, "request", "", "of this request (`ID`)")
			fs.StringVar(&p.Tenant, "tenant", "", "of this tenant (`NAME`)")
			fs.StringVar(&p.Retention, "retention", "", "under this table (`NAME`)")
			before := fs.String("before", "", "of requests before this `TIME`: 2026-11-29, RFC 3339, or an age such as 24h")
			fs.BoolVar(&p.All, "all", false, "everything")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				var err error
				if p.Before, err = parseTime(*before); err != nil {
					return err
				}
				out, err := opContentPurge.call(ctx, c, p)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, out)
				}
				_, err = fmt.Fprintf(env.Stdout, "deleted the content of %d requests\n", out.Requests)
				return err
			}
		}),
	}
}
