package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"

	"hearth/appliance/config"
	"hearth/appliance/progress"
	"hearth/engine/infer"
)

// jobRun finishes a command that has started a job: it follows it, or with
// --detach names it.
func jobRun(ctx context.Context, env *Env, c *connection, j job, af *adminFlags, long *longFlags, detach bool, done string) error {
	if !detach {
		show, err := long.shower(env, af.json)
		if err != nil {
			return err
		}
		if j, err = follow(ctx, c, j, show); err != nil {
			return err
		}
	}
	if af.json {
		return printJSON(env.Stdout, j)
	}
	if detach {
		done = fmt.Sprintf("it is under way as %s; `hearth job show %s` tells how far it is", j.ID, j.ID)
	}
	_, err := fmt.Fprintln(env.Stdout, done)
	return err
}

func modelLoadCommand() *command {
	return &command{
		name: "load", args: "NAME", short: "load a model, maybe with other parameters than the configuration's",
		long: `Parameters given here hold beside the configuration, over reloads, until the
server ends or the model is loaded without any. What was served before ends its
open requests first.`,
		setup: modelSetup(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *modelPlace, []string) error {
			var long longFlags
			long.declare(fs)
			var s modelSettings
			fs.IntVar(&s.Context, "context", 0, "most `TOKENS` of a sequence; 0: as configured")
			fs.StringVar(&s.KVMemory, "kv-memory", "", "`SIZE` of the cache, such as 512MiB; empty: as configured")
			fs.IntVar(&s.MaxSequences, "max-sequences", 0, "run `N` sequences at once; 0: as configured")
			fs.IntVar(&s.Threads, "threads", 0, "compute with `N` threads; 0: as configured")
			detach := fs.Bool("detach", false, "do not wait")
			return func(ctx context.Context, env *Env, at *modelPlace, args []string) error {
				if err := oneName("load", args); err != nil {
					return err
				}
				c, err := at.server()
				if err != nil {
					return err
				}
				s.Name = args[0]
				j, err := opModelLoad.call(ctx, c, s)
				if err != nil {
					return err
				}
				return jobRun(ctx, env, c, j, af, &long, *detach, args[0]+" is loaded and answers")
			}
		}),
	}
}

// nameJob makes a command that starts a job with a model's name.
func nameJob(what, done string, op operation[modelName, job]) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return modelSetup(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *modelPlace, []string) error {
		var long longFlags
		long.declare(fs)
		detach := fs.Bool("detach", false, "do not wait")
		return func(ctx context.Context, env *Env, at *modelPlace, args []string) error {
			if err := oneName(what, args); err != nil {
				return err
			}
			c, err := at.server()
			if err != nil {
				return err
			}
			j, err := op.call(ctx, c, modelName{args[0]})
			if err != nil {
				return err
			}
			return jobRun(ctx, env, c, j, af, &long, *detach, fmt.Sprintf(done, args[0]))
		}
	})
}

func modelUnloadCommand() *command {
	return &command{
		name: "unload", args: "NAME", short: "take a model out of memory once its open requests have ended",
		long: `New requests for it are refused at once, or go to the other candidates of their
route. It stays unloaded over reloads until hearth model load, or the next start.`,
		setup: nameJob("unload", "%s is unloaded", opModelUnload),
	}
}

func modelWarmCommand() *command {
	return &command{
		name: "warm", args: "NAME", short: "load a model if it is not, and have it answer once",
		setup: nameJob("warm", "%s is warm", opModelWarm),
	}
}

func modelPlanCommand() *command {
	return &command{
		name: "plan", args: "MODEL", short: "tell what a model would take in memory before it is loaded",
		long: `MODEL is a name of hearth model list, or a .gguf file or folder of safetensors.
It is planned for the device that it is configured for: on a GPU for that one's
memory and type of cache, or for the CPU with the reason why it would go there.
Exits 1 if it does not fit, and names the longest context that would.`,
		setup: modelSetup(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *modelPlace, []string) error {
			var q planQuery
			fs.IntVar(&q.Context, "context", 0, "most `TOKENS` of a sequence; 0: as configured")
			fs.StringVar(&q.KVMemory, "kv-memory", "", "`SIZE` of the cache, such as 512MiB; empty: as configured")
			fs.IntVar(&q.MaxSequences, "max-sequences", 0, "`N` sequences at once; 0: as configured")
			return func(ctx context.Context, env *Env, at *modelPlace, args []string) error {
				if err := oneName("plan", args); err != nil {
					return err
				}
				q.Name = args[0]
				p, err := at.plan(ctx, q)
				if err != nil {
					return err
				}
				if af.json {
					err = printJSON(env.Stdout, p)
				} else {
					err = p.write(env.Stdout)
				}
				if err == nil && !p.Fits {
					err = errFound
				}
				return err
			}
		}),
	}
}

// plan asks the server about a name, and looks at a path here.
func (p *modelPlace) plan(ctx context.Context, q planQuery) (modelPlan, error) {
	if p.conn != nil && !fileExists(q.Name) {
		return opModelPlan.call(ctx, p.conn, q)
	}
	s := modelSettings{Name: q.Name, Context: q.Context, KVMemory: q.KVMemory, MaxSequences: q.MaxSequences}
	o, err := s.override()
	if err != nil {
		return modelPlan{}, err
	}
	conf, err := p.control().config()
	if err != nil {
		return modelPlan{}, err
	}
	spec := modelSpec{Model: config.NewModel(filepath.Base(q.Name), q.Name), CUDA: conf.CUDA, File: q.Name}
	for _, m := range conf.Models {
		if m.Name == q.Name {
			spec.Model, spec.File = m, p.dir.resolve(m.Path)
		}
	}
	if conf.CUDA.Library != "" {
		spec.CUDA.Library = p.dir.resolve(conf.CUDA.Library)
	}
	if p.lib != nil {
		if file, err := p.lib.Path(q.Name); err == nil {
			spec.File = file
		}
	}
	if !fileExists(spec.File) {
		return modelPlan{}, infer.Errorf(infer.CodeNotFound, "there is no model %.200q: neither installed nor a file", q.Name)
	}
	o.apply(&spec)
	out, err := planSpec(ctx, p.dir, &gpus{}, spec, infer.Health{})
	out.Name = q.Name
	return out, err
}

func (p *modelPlan) write(w io.Writer) error {
	err := table(w, func(w io.Writer) {
		fmt.Fprintf(w, "%s\t%s %s, %d tokens of context\n", p.Name, p.Architecture, p.Quantization, p.Context)
		fmt.Fprintf(w, "on\t%s\n", p.Device)
		fmt.Fprintf(w, "weights\t%s\n", progress.Size(p.WeightBytes))
		fmt.Fprintf(w, "cache\t%s\t%d blocks of %d tokens: %d sequences of full context at once\n", progress.Size(p.KVBytes), p.KVBlocks, p.BlockTokens, p.FullSequences)
		fmt.Fprintf(w, "scratch\t%s\n", progress.Size(p.ScratchBytes))
		if p.Device == deviceCPU {
			fmt.Fprintf(w, "process\t%s\tabout\n", progress.Size(p.ProcessBytes))
		}
		fmt.Fprintf(w, "in all\t%s\n", progress.Size(p.TotalBytes))
		fmt.Fprintf(w, "free\t%s\n", sizeOrDash(p.AvailableBytes))
		if p.MappedBytes > 0 {
			fmt.Fprintf(w, "and\t%s\tof the file are read in place, from memory that can be taken back\n", progress.Size(p.MappedBytes))
		}
	})
	if err == nil && p.Note != "" {
		_, err = fmt.Fprintf(w, "it would be on the CPU: %s\n", p.Note)
	}
	switch {
	case err != nil:
	case p.Fits && p.Loaded:
		_, err = fmt.Fprintln(w, "it is loaded now")
	case p.Fits:
		_, err = fmt.Fprintln(w, "it fits")
	default:
		_, err = fmt.Fprintf(w, "it does not fit: %s\n", p.Reason)
		if err == nil && p.LargestContext > 0 {
			_, err = fmt.Fprintf(w, "with --context %d it would\n", p.LargestContext)
		}
	}
	return err
}
