package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func qualifyCommand() *command {
	return &command{
		name: "qualify", short: "record and list what is known of candidates",
		long: `A route with qualification = "enforce" asks a candidate only while three records
of it have passed and are in date: a conformance report (hearth conform --json), a
quality gate and a load gate. A record is of the contract that the candidate has:
if its model, address, dialect or this program changes, it counts no more.`,
		sub: []*command{qualifyRecordCommand(), qualifyListCommand(), qualifyShowCommand()},
	}
}

func qualifyRecordCommand() *command {
	return &command{
		name: "record", args: "UPSTREAM/MODEL", short: "record a report about a candidate",
		long: `  hearth conform --upstream east --json report.json
  hearth qualify record east/big --kind conformance --report report.json
  hearth qualify record east/big --kind quality --report eval.json --passed
  hearth qualify record east/big --kind load --report bench.json --passed --valid-for 168h`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var r evidenceAdd
			fs.StringVar(&r.Kind, "kind", "", "`KIND`: conformance, quality or load")
			report := fs.String("report", "", "`FILE` with what was found")
			fs.BoolVar(&r.Passed, "passed", false, "the gate was passed; of a conformance report the report tells")
			fs.StringVar(&r.ValidFor, "valid-for", "", "`DURATION` for which it counts (default 720h)")
			fs.StringVar(&r.Note, "note", "", "`TEXT` for people")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 || *report == "" || r.Kind == "" {
					return usagef("qualify record: wanted one candidate, --kind and --report")
				}
				f, err := os.Open(*report)
				if err != nil {
					return fmt.Errorf("cannot read the report: %w", err)
				}
				defer f.Close()
				b, err := io.ReadAll(io.LimitReader(f, maxReportBytes+1))
				if err != nil {
					return fmt.Errorf("cannot read the report: %w", err)
				}
				r.Candidate, r.Report = args[0], string(b)
				e, err := opEvidenceAdd.call(ctx, c, r)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, e)
				}
				_, err = fmt.Fprintf(env.Stdout, "%s: %s of %s/%s, %s, until %s\n", e.ID, e.Kind, e.Upstream, e.Model, e.Summary, e.Expires.Local().Format(time.DateTime))
				return err
			}
		}),
	}
}

func qualifyListCommand() *command {
	return &command{
		name: "list", short: "list records and the candidates that need them",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var q evidenceQuery
			fs.StringVar(&q.Candidate, "candidate", "", "only of this `UPSTREAM/MODEL`")
			fs.StringVar(&q.Kind, "kind", "", "only of this `KIND`")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				list, err := opEvidenceList.call(ctx, c, q)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, list)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "RECORDED\tID\tKIND\tCANDIDATE\tSTATE\tUNTIL\tWHAT")
					for _, e := range list.Records {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s/%s\t%s\t%s\t%s\n", e.At.Local().Format(time.DateTime), e.ID, e.Kind, e.Upstream, e.Model, e.State,
							e.Expires.Local().Format(time.DateOnly), e.Summary)
					}
					for _, k := range list.Candidates {
						state := "qualified until " + k.Until.Local().Format(time.DateTime)
						if !k.OK {
							state = k.Why
						}
						fmt.Fprintf(w, "route %s\t%s\t\t\t%s\n", k.Route, k.Candidate, state)
					}
				})
			}
		}),
	}
}

func qualifyShowCommand() *command {
	return &command{
		name: "show", args: "ID", short: "show one record with its report",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("qualify show: got %d ids, wanted one", len(args))
				}
				e, err := opEvidenceShow.call(ctx, c, evidenceID{args[0]})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, e)
				}
				_, err = fmt.Fprintf(env.Stdout, "%s: %s of %s/%s is %s\n%s\ncontract %s, report %s\nrecorded %s by %s, until %s\n\n%s\n", e.ID, e.Kind, e.Upstream, e.Model, e.State,
					e.Summary, e.Contract, e.Digest, e.At.Local().Format(time.DateTime), e.By, e.Expires.Local().Format(time.DateTime), e.Report)
				return err
			}
		}),
	}
}
