package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"hearth/engine/infer"
)

func statusCommand() *command {
	return &command{
		name: "status", short: "tell how the running server is, at a glance",
		long: `What the overview of the page shows: readiness by part, models with their load,
what callers wait for, rates of the last five minutes, spend. Exits 3 if no server
runs or it is not ready.`,
		examples: []string{"hearth status", "hearth status --watch 2s", "hearth status --json"},
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			watch := fs.Duration("watch", 0, "show it again every `DURATION`, until interrupted; with --json a document each")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				if err := needServer(c); err != nil {
					return err
				}
				if *watch != 0 && *watch < 100*time.Millisecond {
					return usagef("status: got --watch %s, wanted 100ms at least", *watch)
				}
				ctx, stop := interruptible(ctx)
				defer stop()
				for {
					o, err := opOverview.call(ctx, c, tenantQuery{})
					if ctx.Err() != nil && *watch > 0 {
						return nil
					}
					if err != nil {
						return err
					}
					if err := showStatus(env, &o, af.json, *watch > 0); err != nil {
						return err
					}
					if *watch == 0 {
						if !o.Ready {
							return errNotReady
						}
						return nil
					}
					select {
					case <-time.After(*watch):
					case <-ctx.Done():
						return nil
					}
				}
			}
		}),
	}
}

func showStatus(env *Env, o *overview, asJSON, again bool) error {
	if asJSON {
		return printJSON(env.Stdout, o)
	}
	var b strings.Builder
	if again {
		if env.Getenv("TERM") != "dumb" {
			b.WriteString("\x1b[H\x1b[2J")
		}
		fmt.Fprintf(&b, "%s\n", o.Now.Local().Format(time.DateTime))
	}
	if err := o.write(&b); err != nil {
		return err
	}
	_, err := io.WriteString(env.Stdout, b.String())
	return err
}

// write tells it in lines.
func (o *overview) write(w io.Writer) error {
	state := "ready"
	if !o.Ready {
		state = "not ready: " + o.Reason
	}
	fmt.Fprintf(w, "Hearth %s, up %s: %s\n", o.Version, (time.Duration(o.UptimeSec) * time.Second).String(), state)
	fmt.Fprintf(w, "%d requests open, %d running, %d waiting; %.2f requests/s, %.1f tokens/s out, %.1f %% errors; %s/h spent\n",
		o.Open, o.Running, o.Waiting, o.Rates.Requests, o.Rates.TokensOut, 100*o.Rates.ErrorRate, usd(int64(o.Rates.SpendUSDH*1e9)))
	return table(w, func(w io.Writer) {
		for _, p := range o.Parts {
			mark := "ok"
			if !p.OK {
				mark = "fault"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", mark, p.Name, p.State)
		}
		if len(o.Models) > 0 {
			fmt.Fprintf(w, "\nMODEL\tSTATE\tDEVICE\tCACHE\tRUNNING\tWAITING\tTOKENS/S\n")
		}
		for _, m := range o.Models {
			state := "ready"
			if !m.Ready {
				state = m.Reason
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f %%\t%d\t%d\t%.1f\n", m.Name, state, orDash(m.Device), 100*m.KVUse, m.Running, m.Waiting, m.TokensOut)
		}
		o.writeLatency(w)
		if len(o.Spend) > 0 {
			fmt.Fprintf(w, "\nTENANT\tBUDGET\tSPENT\tHELD\tOF\tFORECAST\n")
		}
		for _, s := range o.Spend {
			forecast := "-"
			if s.ForecastNano > 0 {
				forecast = usd(s.ForecastNano)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Tenant, s.Period, usd(s.SpentNano), usd(s.HeldNano), usd(s.CapNano), forecast)
		}
	})
}

// writeLatency shows the last five minutes of all classes.
func (o *overview) writeLatency(w io.Writer) {
	title := "\nLAST 5 MIN\tp50\tp95\tp99\tREQUESTS\n"
	for _, l := range o.Latency {
		if l.Class != "all" || l.Five.Count == 0 {
			continue
		}
		fmt.Fprint(w, title)
		title = ""
		fmt.Fprintf(w, "%s\t%.0f ms\t%.0f ms\t%.0f ms\t%d\n", strings.ToUpper(l.Quantity), ms(l.Five.P50), ms(l.Five.P95), ms(l.Five.P99), l.Five.Count)
	}
}

var errNotReady = infer.Errorf(infer.CodeUnavailable, "the server is not ready")

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
