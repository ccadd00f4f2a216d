package appliance

import (
	"context"
	"flag"
	"io"
	"strings"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

func configSchemaCommand() *command {
	return &command{
		name: "schema", short: "print the JSON Schema of the file, for editors",
		long: `Draft 2020-12, with the meaning, the choices and the bounds of every key. An editor
that knows TOML completes and checks by it.`,
		examples: []string{"hearth config schema > hearth.schema.json"},
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			fs.Bool("json", false, "as without: it is one JSON document")
			return func(_ context.Context, env *Env, _ []string) error {
				_, err := env.Stdout.Write(config.Schema())
				return err
			}
		},
	}
}

func configReferenceCommand() *command {
	return &command{
		name: "reference", args: "[KEY]", short: "print what every key means, with its type, default and bounds",
		long:     `The whole page is Markdown. With a key, or the name of a table, only that is told.`,
		examples: []string{"hearth config reference tenant.budget", "hearth config reference > CONFIG.md", "hearth config reference --json"},
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			asJSON := fs.Bool("json", false, "print one JSON document")
			return func(_ context.Context, env *Env, args []string) error {
				if len(args) > 1 {
					return usagef("config reference: got %d keys, takes one", len(args))
				}
				if len(args) == 0 && !*asJSON {
					_, err := io.WriteString(env.Stdout, config.Reference(env.Sample))
					return err
				}
				keys := config.Keys(env.Sample)
				if len(args) == 1 {
					if keys = config.KeysAt(keys, args[0]); len(keys) == 0 {
						return infer.Errorf(infer.CodeNotFound, "there is no key or table %.64q", args[0])
					}
				}
				if *asJSON {
					return printJSON(env.Stdout, keys)
				}
				var b strings.Builder
				for _, k := range keys {
					b.WriteString(k.Text())
				}
				_, err := io.WriteString(env.Stdout, b.String())
				return err
			}
		},
	}
}
