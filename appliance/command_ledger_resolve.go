package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"hearth/appliance/config"
	"hearth/store"
	"hearth/web/admin"
)

// auditQuery asks for a page of the audit trail.
type auditQuery struct {
	Limit  int    `json:"limit"`
	Cursor uint64 `json:"cursor,omitempty"`
}

var (
	opLedgerResolve = operation[store.Correction, store.Row]{
		name: "ledger/resolve", place: "POST /ledger/{request_id}/resolve", access: admin.Operate,
		summary: "correct the charge of a request whose outcome was not known",
		run: func(ctx context.Context, c *control, r store.Correction) (store.Row, error) {
			r.Actor = store.Actor(ctx)
			return c.store.Correct(ctx, r)
		},
	}
	opLedgerAudit = operation[auditQuery, store.AuditPage]{
		name: "ledger/audit", place: "GET /audit", access: admin.Read,
		summary: "the audit trail, newest first",
		run: func(ctx context.Context, c *control, q auditQuery) (store.AuditPage, error) {
			return c.store.Audits(ctx, q.Limit, q.Cursor)
		},
	}
)

// operator is who the audit trail names: both ways to the store are open to the
// owner of its files only.
func operator(way string) string { return fmt.Sprintf("%s, uid %d", way, os.Getuid()) }

func ledgerResolveCommand() *command {
	return &command{
		name: "resolve", args: "REQUEST-ID", short: "correct the charge of a request whose outcome was not known",
		long: `A request whose outcome at the provider is not known (ambiguous), or whose
process died (unknown), is charged at its hold. When the provider's invoice or
support has told what became of it, this appends the correction: nothing that was
written is changed, the budgets get back what was charged too much.
Example: hearth ledger resolve req_0123 --charge 0.0042 --reason "invoice 2026-11, line 17"`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			charge := fs.String("charge", "", "what it cost in all, in `USD`; 0 if it was never served")
			reason := fs.String("reason", "", "`TEXT` for the audit trail")
			outcome := fs.String("outcome", "", "`OUTCOME` from now on: complete, partial, cancelled or error; default: complete if it cost something, else error")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("ledger resolve: got %d request ids, wanted one", len(args))
				}
				if *charge == "" || *reason == "" {
					return usagef("ledger resolve: --charge and --reason are needed")
				}
				nano, err := config.ParseUSD(*charge)
				if err != nil {
					return usagef("ledger resolve: --charge: %v", err)
				}
				row, err := opLedgerResolve.call(ctx, c, store.Correction{RequestID: args[0], ChargeNano: nano, Reason: *reason, Outcome: store.Outcome(*outcome)})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, row)
				}
				_, err = fmt.Fprintf(env.Stdout, "request %s is %s and charged %s USD (it was %s at %s USD)\n",
					row.RequestID, row.Outcome, usd(row.ChargeNano), row.Corrected.Outcome, usd(row.Corrected.ChargeNano))
				return err
			}
		}),
	}
}

func ledgerAuditCommand() *command {
	return &command{
		name: "audit", short: "list corrections and changes of keys, newest first",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			limit := fs.Int("limit", 50, "at most `N` entries; 0: all")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				if *limit < 0 {
					return usagef("ledger audit: --limit must not be negative")
				}
				entries, err := listAudits(ctx, c, *limit)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, entries)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "AT\tRECORD\tACTOR\tACTION\tSUBJECT\tDETAIL")
					for _, e := range entries {
						fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", e.At.Local().Format(time.DateTime), e.Seq, e.Actor, e.Action, e.Subject, e.Detail)
					}
				})
			}
		}),
	}
}

func listAudits(ctx context.Context, c *connection, limit int) ([]store.AuditEntry, error) {
	out := []store.AuditEntry{}
	q := auditQuery{}
	for {
		q.Limit = 1000
		if limit > 0 {
			q.Limit = min(1000, limit-len(out))
		}
		p, err := opLedgerAudit.call(ctx, c, q)
		if err != nil {
			return nil, err
		}
		out = append(out, p.Entries...)
		if q.Cursor = p.Next; q.Cursor == 0 || limit > 0 && len(out) >= limit {
			return out, nil
		}
	}
}
