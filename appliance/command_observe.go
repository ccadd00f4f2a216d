package appliance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"

	"hearth/appliance/observe"
)

func observeCommand() *command {
	c := &command{
		name: "observe", short: "print the dashboard and the rules for Grafana and Prometheus",
		long: `The files are part of the program and need no running server. Prometheus
scrapes /metrics of the server: from this machine without a key, from elsewhere
with an API key as bearer token.`,
	}
	for _, f := range observe.Files() {
		c.sub = append(c.sub, observeFileCommand(f))
	}
	c.sub = append(c.sub, observeListCommand())
	return c
}

func observeFileCommand(f observe.File) *command {
	return &command{
		name: f.Name, short: f.Summary,
		long: fmt.Sprintf("Example: hearth observe %s --out %s", f.Name, f.FileName),
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			out := fs.String("out", "", "write to this `FILE` instead of printing")
			return func(_ context.Context, env *Env, _ []string) error {
				if *out == "" {
					_, err := env.Stdout.Write(f.Data)
					return err
				}
				if err := os.WriteFile(*out, f.Data, 0o644); err != nil {
					return fmt.Errorf("cannot write %s: %w", f.Name, err)
				}
				return nil
			}
		},
	}
}

func observeListCommand() *command {
	return &command{
		name: "list", short: "list the files",
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			asJSON := fs.Bool("json", false, "print one JSON document")
			return func(_ context.Context, env *Env, _ []string) error {
				if *asJSON {
					list, _ := opObserveFiles.run(context.Background(), nil, none{})
					return printJSON(env.Stdout, list)
				}
				w := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
				for _, f := range observe.Files() {
					fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.FileName, f.Summary)
				}
				return w.Flush()
			}
		},
	}
}
