package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"hearth/appliance/progress"
	"hearth/engine/bench"
)

func benchCommand() *command {
	return &command{
		name: "bench", short: "measure the engine, or a server",
		long: "Figures depend on the machine and on what else it does: compare two of one sitting only.",
		sub:  []*command{benchModelCommand(), benchServeCommand()},
	}
}

func benchModelCommand() *command {
	return &command{
		name: "model", args: "FILE", short: "tokens a second of one model, without a server",
		long: `Runs the engine alone on a .gguf file or a safetensors directory: one prompt
(prefill), then batches of sequences that grow by a token a step (decode), each
several times after one round that is not timed.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var o bench.Options
			fs.IntVar(&o.Prefill, "prefill", 512, "`N` tokens of the prompt")
			fs.IntVar(&o.Decode, "decode", 128, "`N` steps of each batch")
			fs.IntVar(&o.Depth, "depth", 0, "`N` tokens that each sequence of a batch has before")
			batch := fs.String("batch", "1,8,32", "`SIZES` of the batches, with commas")
			fs.IntVar(&o.Threads, "threads", 0, "compute with `N` threads; 0: one a core")
			fs.IntVar(&o.Repeat, "repeat", 5, "measure `N` times")
			fs.StringVar(&o.Kernels, "kernels", "", "force an instruction `SET`, for instance portable; empty: the best")
			fs.StringVar(&o.Activations, "activations", "", "`PRECISION` of activations: q8, bf16 or f32; empty: as the server does")
			fs.StringVar(&o.KVType, "kv-type", "", "keep keys and values as `TYPE`: f16, bf16 or f32; empty: as the server does")
			asJSON := fs.Bool("json", false, "print one JSON document")
			var long longFlags
			long.declare(fs)
			return func(ctx context.Context, env *Env, args []string) error {
				if len(args) != 1 {
					return usagef("bench model: wanted one FILE, got %d", len(args))
				}
				o.Path = args[0]
				var err error
				if o.Batch, err = numbers(*batch); err != nil {
					return usagef("bench model: --batch: %v", err)
				}
				if o.Prefill < 1 || o.Decode < 1 || o.Repeat < 1 || o.Depth < 0 {
					return usagef("bench model: --prefill, --decode and --repeat must be at least 1, --depth at least 0")
				}
				show, err := long.shower(env, *asJSON)
				if err != nil {
					return err
				}
				defer show.Done()
				var begun int64 // measurements; each round has a prefill and the batches
				o.Progress = func(what string) {
					show.Set("bench", progress.Items, begun, int64(o.Repeat+1)*int64(1+len(o.Batch)))
					begun++
				}
				ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
				defer stop()
				r, err := bench.Run(ctx, o)
				show.Done()
				if err != nil {
					return err
				}
				if *asJSON {
					return printJSON(env.Stdout, r)
				}
				return showBench(env.Stdout, r, o.Prefill)
			}
		},
	}
}

func showBench(w io.Writer, r *bench.Result, prefill int) error {
	fmt.Fprintf(w, "%s, %d threads, %s; loaded in %.2f s\n", r.Type, r.Threads, r.Path, r.LoadSeconds)
	return table(w, func(w io.Writer) {
		fmt.Fprintln(w, "WORK\tTOKENS/S (MEDIAN)\tLEAST\tMOST")
		row := func(name string, x []float64) {
			x = slices.Sorted(slices.Values(x))
			fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.1f\n", name, x[len(x)/2], x[0], x[len(x)-1])
		}
		row(fmt.Sprintf("prefill %d", prefill), r.PrefillTokS)
		number := func(s string) int { n, _ := strconv.Atoi(s); return n }
		for _, b := range slices.SortedFunc(maps.Keys(r.DecodeTokS), func(a, b string) int { return number(a) - number(b) }) {
			row("decode, batch "+b, r.DecodeTokS[b])
		}
	})
}
