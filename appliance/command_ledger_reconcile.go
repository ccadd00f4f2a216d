package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"hearth/appliance/config"
	"hearth/appliance/invoice"
	"hearth/store"
)

const maxMappingBytes = 1 << 20

func ledgerReconcileCommand() *command {
	return &command{
		name: "reconcile", short: "compare the ledger with what a provider says was used and charged",
		long: `Reads a provider's export of usage or cost and compares it with the ledger, by
day (UTC) and model, and request by request where the export has the provider's
request ids. Known by their columns: Anthropic's and OpenAI's exports of usage
and cost (CSV, or the pages of their APIs), AWS cost and usage reports, Google
Cloud billing exports, and plain tables with the columns date, model,
input_tokens, output_tokens and cost. For any other, --map names a TOML file that
says which column means what:

    time = "Day"
    model = "SKU"
    input = "Prompt tokens"
    output = "Completion tokens"
    cost = "Amount"
    cost_unit = "cents"
    [models]
    "Large v2" = "large-2"

(also: request_id, requests, fresh_input, cached_input, cache_write,
cache_write_hour, token_type with tokens and tokens_unit, currency, only with
only_value, kinds; columns of JSON are paths with dots). Requests whose outcome is
not known here are listed apart; hearth ledger resolve closes them. Exits 1 if
anything differs by more than is tolerated.`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			var q reconcileQuery
			q.declare(fs)
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				r, err := q.run(ctx, env, c)
				if err != nil {
					return err
				}
				if af.json {
					err = printJSON(env.Stdout, r)
				} else {
					err = showReconciled(env.Stdout, r)
				}
				if err == nil && !r.OK() {
					err = errFound
				}
				return err
			}
		}),
	}
}

// reconcileQuery is what the command line asks for.
type reconcileQuery struct {
	file, format, mapping, tolerance, toleranceUSD, since, until string
	opt                                                          invoice.Options
}

func (q *reconcileQuery) declare(fs *flag.FlagSet) {
	fs.StringVar(&q.file, "invoice", "", "the export, a `FILE`; - for standard input")
	fs.StringVar(&q.opt.Provider, "provider", "", "`NAME` of the upstream, or kind of provider, that it is of; empty: told by the format")
	fs.StringVar(&q.format, "format", "", "`FORMAT`: csv or json; empty: look")
	fs.StringVar(&q.mapping, "map", "", "`FILE` that says which column means what")
	fs.StringVar(&q.tolerance, "tolerance", "0%", "`PART` of an amount by which the sides may differ, for instance 0.5%")
	fs.StringVar(&q.toleranceUSD, "tolerance-usd", "0.01", "`USD` by which the costs of a day and model may differ: exports are rounded")
	fs.StringVar(&q.since, "since", "", "compare from this `TIME` on; default: what the export covers")
	fs.StringVar(&q.until, "until", "", "compare before this `TIME`")
}

func (q *reconcileQuery) run(ctx context.Context, env *Env, c *connection) (*invoice.Report, error) {
	if q.file == "" {
		return nil, usagef("ledger reconcile: --invoice is needed")
	}
	if err := q.parse(); err != nil {
		return nil, err
	}
	m, err := q.readMapping()
	if err != nil {
		return nil, err
	}
	in := io.NopCloser(os.Stdin)
	if q.file != "-" {
		if in, err = os.Open(q.file); err != nil {
			return nil, fmt.Errorf("cannot read the export: %w", err)
		}
	}
	defer in.Close()
	return reconcile(ctx, in, q.format, m, q.opt, func(ctx context.Context, w io.Writer, f store.Filter) error {
		return c.export(ctx, w, store.JSONL, f)
	})
}

func (q *reconcileQuery) parse() (err error) {
	percent, ok := strings.CutSuffix(q.tolerance, "%")
	t, err := strconv.ParseFloat(percent, 64)
	if !ok {
		t *= 100
	}
	if err != nil || !(t >= 0 && t <= 100) {
		return usagef("ledger reconcile: cannot use --tolerance %q, wanted for instance 0.5%%", q.tolerance)
	}
	q.opt.Tolerance = t / 100
	if q.opt.ToleranceNano, err = config.ParseUSD(q.toleranceUSD); err != nil {
		return usagef("ledger reconcile: --tolerance-usd: %v", err)
	}
	if q.opt.Since, err = parseTime(q.since); err == nil {
		q.opt.Until, err = parseTime(q.until)
	}
	return err
}

func (q *reconcileQuery) readMapping() (*invoice.Mapping, error) {
	if q.mapping == "" {
		return nil, nil
	}
	f, err := os.Open(q.mapping)
	if err != nil {
		return nil, fmt.Errorf("cannot read the mapping: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMappingBytes))
	if err != nil {
		return nil, fmt.Errorf("cannot read the mapping: %w", err)
	}
	return invoice.ReadMapping(data)
}

func showReconciled(w io.Writer, r *invoice.Report) error {
	err := table(w, func(w io.Writer) {
		fmt.Fprintln(w, "PROVIDER\tDAY\tMODEL\tWHAT\tOURS\tTHEIRS\tDIFFERENCE")
		for _, g := range r.Groups {
			for _, d := range g.Differences {
				n := func(v int64) string {
					if d.Measure == invoice.Cost {
						return usd(v)
					}
					return strconv.FormatInt(v, 10)
				}
				what := strings.TrimSuffix(string(d.Measure), "_nano")
				switch g.State {
				case invoice.MissingHere:
					what += " (not in the ledger)"
				case invoice.MissingThere:
					what += " (not in the export)"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Provider, g.Day, g.Model, what, n(d.Ours), n(d.Theirs), n(d.Difference))
			}
		}
	})
	if q := r.Requests; q != nil {
		for _, id := range q.MissingHere {
			fmt.Fprintf(w, "not in the ledger: %s\n", id)
		}
		for _, id := range q.MissingThere {
			fmt.Fprintf(w, "not in the export: %s\n", id)
		}
		for _, d := range q.Differ {
			for _, m := range d.Differences {
				fmt.Fprintf(w, "request %s (%s): %s is %d here, %d there\n", d.RequestID, d.UpstreamRequestID, m.Measure, m.Ours, m.Theirs)
			}
		}
		fmt.Fprintf(w, "requests: %d matched, %d differ, %d not in the ledger, %d not in the export, %d without an id of the provider\n",
			q.Matched, q.DifferCount, q.MissingHereCount, q.MissingThereCount, q.Unnamed)
	}
	for _, c := range r.Candidates {
		there := "not in the export"
		if !c.Listed && r.Requests == nil {
			there = "the export names no requests"
		}
		if c.Listed {
			there = "in the export"
		}
		if c.TheirsNano != nil {
			there += " at " + usd(*c.TheirsNano) + " USD"
		}
		fmt.Fprintf(w, "not known here: %s of %s, %s, is %s and charged %s USD at its hold; %s\n", c.RequestID, c.Day, c.Model, c.Outcome, usd(c.ChargeNano), there)
	}
	if r.MoreCandidates > 0 {
		fmt.Fprintf(w, "and %d more that are not known here\n", r.MoreCandidates)
	}
	_, werr := fmt.Fprintf(w, "%s, %s to %s: %d lines (%d of something else), %d days and models, %d of them the same\n",
		r.Format, r.FirstDay, r.LastDay, r.Lines, r.Skipped, len(r.Groups), r.Same)
	return errors.Join(err, werr)
}
