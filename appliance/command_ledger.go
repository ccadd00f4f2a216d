package appliance

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"hearth/appliance/progress"
	"hearth/store"
)

func ledgerCommand() *command {
	return &command{
		name: "ledger", short: "look at what was asked and what it cost, and prove that it adds up",
		long: `Every admitted request has one row: who asked for what, the tokens, the price,
how it ended; never its content. Works beside a running server and without one.`,
		sub: []*command{ledgerListCommand(), ledgerShowCommand(), ledgerExportCommand(), ledgerCheckCommand(),
			ledgerReconcileCommand(), ledgerResolveCommand(), ledgerAuditCommand()},
	}
}

// declareFilter declares the flags that select rows.
func declareFilter(fs *flag.FlagSet, f *store.Filter) func() error {
	since := fs.String("since", "", "from this `TIME` on: 2026-11-29, RFC 3339, or an age such as 24h")
	until := fs.String("until", "", "before this `TIME`")
	fs.StringVar(&f.Tenant, "tenant", "", "only of this tenant (`NAME`)")
	fs.StringVar(&f.KeyID, "key", "", "only of this key (`ID`)")
	fs.StringVar(&f.Model, "model", "", "only of this model (`NAME`)")
	outcome := fs.String("outcome", "", "only with this `OUTCOME`: open, complete, partial, cancelled, error, unknown, ambiguous, refused")
	return func() (err error) {
		f.Outcome = store.Outcome(*outcome)
		if f.Since, err = parseTime(*since); err == nil {
			f.Until, err = parseTime(*until)
		}
		return err
	}
}

// parseTime reads a date, a time, or an age.
func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, usagef("cannot read %q as a time, wanted 2026-11-29, 2026-11-29T12:00:00Z or an age such as 24h", s)
	}
	return t, nil
}

func ledgerListCommand() *command {
	return &command{
		name: "list", short: "list requests, newest first",
		long: `UPSTREAM served it in the end ("local" is the engine in this box), after so many
TRIES; LOST counts the fields that translation lost. hearth ledger show names them.`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var f store.Filter
			ready := declareFilter(fs, &f)
			limit := fs.Int("limit", 50, "at most `N` rows; 0: all")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				if err := ready(); err != nil {
					return err
				}
				rows, err := listRows(ctx, c, f, *limit)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, rows)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "STARTED\tREQUEST\tTENANT\tMODEL\tOUTCOME\tUPSTREAM\tTRIES\tLOST\tIN\tOUT\tUSD")
					for _, r := range rows {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", r.Started.Local().Format(time.DateTime), r.RequestID, r.Tenant,
							r.Model, r.Outcome, cmp.Or(r.Backend, "-"), len(r.Attempts), len(r.Losses), r.Usage.Prompt(), r.Usage.Output, usd(r.ChargeNano))
					}
				})
			}
		}),
	}
}

// listRows gathers pages until there are limit rows.
func listRows(ctx context.Context, c *connection, f store.Filter, limit int) ([]store.Row, error) {
	rows := []store.Row{}
	for {
		f.Limit = 1000
		if limit > 0 {
			f.Limit = min(1000, limit-len(rows))
		}
		page, err := opLedgerList.call(ctx, c, f)
		if err != nil {
			return nil, err
		}
		rows = append(rows, page.Rows...)
		if f.Cursor = page.Next; f.Cursor == 0 || limit > 0 && len(rows) >= limit {
			return rows, nil
		}
	}
}

// usd writes nano-dollars as dollars.
func usd(nano int64) string {
	sign := ""
	if nano < 0 {
		sign, nano = "-", -nano
	}
	return fmt.Sprintf("%s%d.%09d", sign, nano/1e9, nano%1e9)
}

func ledgerShowCommand() *command {
	return &command{
		name: "show", args: "REQUEST-ID", short: "show one request and its records",
		long: "REQUEST-ID is what the client got as x-request-id.",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				if len(args) != 1 {
					return usagef("ledger show: got %d request ids, wanted one", len(args))
				}
				d, err := opLedgerShow.call(ctx, c, requestID{args[0]})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, d)
				}
				return showRow(env.Stdout, d.Row)
			}
		}),
	}
}

func showRow(w io.Writer, r store.Row) error {
	return table(w, func(w io.Writer) {
		line := func(name string, v any) {
			if s := fmt.Sprint(v); s != "" && s != "0" {
				fmt.Fprintf(w, "%s\t%s\n", name, s)
			}
		}
		line("request", r.RequestID)
		line("trace", r.TraceID)
		line("tenant", r.Tenant)
		line("key", r.KeyID)
		line("operation", r.Operation)
		line("model", r.Model)
		line("route", r.Route)
		line("route revision", r.Revision)
		line("contract", r.Contract)
		line("idempotency", r.Idempotency)
		line("started", r.Started.Format(time.RFC3339Nano))
		if !r.Ended.IsZero() {
			line("took", r.Ended.Sub(r.Started))
		}
		if r.TTFT > 0 {
			line("first token after", r.TTFT)
		}
		line("outcome", r.Outcome)
		line("ended by", r.Termination)
		line("finish", r.Finish)
		line("error", r.ErrorCode)
		for i := range r.Attempts {
			line(fmt.Sprintf("attempt %d", i+1), attemptText(&r.Attempts[i]))
		}
		line("lost in translation", strings.Join(r.Losses, ", "))
		line("decisions", strings.Join(r.Decisions, ", "))
		line("input tokens", r.Usage.FreshInput)
		line("cached tokens", r.Usage.CachedInput)
		line("cache-write tokens", r.Usage.CacheWrite)
		line("cache-write tokens, one hour", r.Usage.CacheWriteHour)
		line("output tokens", r.Usage.Output)
		line("of them reasoning", r.Usage.Reasoning)
		if r.Usage.Estimated {
			line("tokens", "counted here, the provider told none")
		}
		line("price version", r.Price.Version)
		line("held USD", usd(r.HoldNano))
		line("charged USD", usd(r.ChargeNano))
		if r.OverdraftNano > 0 {
			line("overdraft USD", usd(r.OverdraftNano))
		}
		if c := r.Corrected; c != nil {
			line("corrected from", fmt.Sprintf("%s at %s USD, record %d", c.Outcome, usd(c.ChargeNano), c.Record))
		}
	})
}

// attemptText is one attempt in words.
func attemptText(a *store.Attempt) string {
	s := a.Backend
	if a.Provider != "" && a.Provider != a.Backend {
		s += " (" + a.Provider + ")"
	}
	s += fmt.Sprintf(" %s: %s after %v", a.Model, a.Outcome, a.Took.Round(time.Microsecond))
	if a.Failure != "" {
		s += ", " + a.Failure
	}
	if a.Status != 0 {
		s += fmt.Sprintf(", status %d", a.Status)
	}
	if a.ErrorCode != "" {
		s += ", " + a.ErrorCode
	}
	switch {
	case a.Sent:
	case a.Status != 0:
		s += ", not begun there"
	default:
		s += ", not sent"
	}
	if a.UpstreamRequestID != "" {
		s += ", there known as " + a.UpstreamRequestID
	}
	return s
}

func ledgerExportCommand() *command {
	return &command{
		name: "export", short: "write rows as JSON lines or CSV, oldest first",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var f store.Filter
			ready := declareFilter(fs, &f)
			format := fs.String("format", "jsonl", "`FORMAT`: jsonl or csv")
			var long longFlags
			long.declare(fs)
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				if err := ready(); err != nil {
					return err
				}
				if *format != string(store.JSONL) && *format != string(store.CSV) {
					return usagef("ledger export: got --format %q, wanted jsonl or csv", *format)
				}
				show, err := long.shower(env, false)
				if err != nil {
					return err
				}
				ctx, stop := interruptible(ctx)
				defer stop()
				defer show.Done()
				return c.export(ctx, &shownWriter{w: env.Stdout, show: show, label: "export"}, store.Format(*format), f)
			}
		}),
	}
}

func ledgerCheckCommand() *command {
	return &command{
		name: "check", short: "walk the whole ledger and prove that it adds up",
		long: `Proves the chain of hashes, that every hold has ended at most once, that postings
sum to the balances, that no budget was ever exceeded, and that each charge is
its tokens at its price. Exits 1 if anything is wrong.`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var long longFlags
			long.declare(fs)
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				show, err := long.shower(env, af.json)
				if err != nil {
					return err
				}
				ctx, stop := interruptible(ctx)
				defer stop()
				// A running server walks by itself and tells nothing on the way.
				ctx = store.Reporting(ctx, func(done, total uint64) { show.Set("check", progress.Items, int64(done), int64(total)) })
				r, err := opLedgerCheck.call(ctx, c, none{})
				show.Done()
				if err != nil {
					return err
				}
				if af.json {
					err = printJSON(env.Stdout, r)
				} else {
					err = showReport(env.Stdout, &r)
				}
				if err == nil && !r.OK() {
					err = errFound
				}
				return err
			}
		}),
	}
}

func showReport(w io.Writer, r *store.Report) error {
	for _, f := range r.Faults {
		fmt.Fprintf(w, "fault: %s\n", f)
	}
	if r.More > 0 {
		fmt.Fprintf(w, "and %d more faults\n", r.More)
	}
	verdict := "no faults"
	if !r.OK() {
		verdict = fmt.Sprintf("%d faults", len(r.Faults)+r.More)
	}
	_, err := fmt.Fprintf(w, "%s: %d records, %d requests, %d open holds (%s USD), %d balances, overdrafts %s USD, took %s\n",
		verdict, r.Records, r.Rows, r.OpenHolds, usd(r.HeldNano), r.Balances, usd(r.OverdraftNano), r.Took.Round(time.Millisecond))
	return err
}
