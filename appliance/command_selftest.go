package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"hearth/appliance/progress"
	"hearth/engine/selftest"
)

func selftestCommand() *command {
	return &command{
		name: "selftest", short: "compare this build on this machine with results computed elsewhere",
		long: `Runs every vector file below DIR (tokenizer, chat, quants, tiny, tiny-gguf, real):
token ids, rendered prompts, dequantized blocks, logits, continuations and
perplexities, each exact or within its stated bound. What needs a model that is
not there is named as skipped. Exits 1 if anything fails.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var o selftest.Options
			fs.StringVar(&o.Vectors, "vectors", "", "`DIR` of the vectors (required)")
			fs.StringVar(&o.Models, "models", "", "`DIR` of the models (required)")
			fs.IntVar(&o.Threads, "threads", 0, "compute with `N` threads; 0: one a core")
			groups := fs.String("groups", "", "only these `NAMES`, with commas")
			asJSON := fs.Bool("json", false, "print one JSON document")
			var long longFlags
			long.declare(fs)
			return func(ctx context.Context, env *Env, _ []string) error {
				if o.Vectors == "" || o.Models == "" {
					return usagef("selftest: --vectors and --models are required")
				}
				if *groups != "" {
					o.Groups = strings.Split(*groups, ",")
				}
				for _, g := range o.Groups {
					if !slices.Contains(selftest.Names(), g) {
						return usagef("selftest: unknown group %q, wanted some of %s", g, strings.Join(selftest.Names(), ", "))
					}
				}
				show, err := long.shower(env, *asJSON)
				if err != nil {
					return err
				}
				o.Progress = func(_, _ string, done, total int) { show.Set("selftest", progress.Items, int64(done), int64(total)) }
				ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
				defer stop()
				r, err := selftest.Run(ctx, o)
				show.Done()
				if err != nil {
					return err
				}
				if *asJSON {
					err = printJSON(env.Stdout, r)
				} else {
					err = showSelftest(env.Stdout, r)
				}
				if err == nil && !r.OK() {
					err = errFound
				}
				return err
			}
		},
	}
}

func showSelftest(w io.Writer, r *selftest.Report) error {
	for _, g := range r.Groups {
		for _, f := range g.Failures {
			fmt.Fprintf(w, "failed: %s/%s\n", g.Name, f)
		}
		for _, s := range g.Skipped {
			fmt.Fprintf(w, "skipped: %s/%s\n", g.Name, s)
		}
	}
	return table(w, func(w io.Writer) {
		fmt.Fprintln(w, "GROUP\tCASES\tPASSED\tSKIPPED FILES")
		for _, g := range r.Groups {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", g.Name, g.Cases, g.Passed, len(g.Skipped))
		}
	})
}
