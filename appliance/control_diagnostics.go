package appliance

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"hearth/web/admin"
)

var (
	opDiagnosticsPreview = operation[none, []bundleFile]{
		name: "diagnostics/preview", place: "GET /diagnostics", access: admin.Operate,
		summary: "what a diagnostics bundle has in it: each file, its size, and how many secrets were taken out",
		run: func(ctx context.Context, c *control, _ none) ([]bundleFile, error) {
			b, err := c.newBundle()
			if err != nil {
				return nil, err
			}
			out := []bundleFile{}
			err = b.each(ctx, true, func(f bundleFile, _ []byte) error { out = append(out, f); return nil })
			return out, err
		},
	}
	opDiagnosticsBundle = streamOperation[none]{
		operation: operation[none, none]{
			name: "diagnostics/bundle", place: "GET /diagnostics/download", access: admin.Operate,
			summary: "the diagnostics bundle, a zip file without content and secrets",
			subject: func(none) string { return "diagnostics bundle" },
		},
		stream: func(ctx context.Context, c *control, _ none, w admin.Writer) error {
			b, err := c.newBundle()
			if err != nil {
				return err
			}
			w.Begin("application/zip", "hearth-diagnostics-"+c.now().UTC().Format("20060102T150405Z")+".zip")
			return b.write(ctx, w)
		},
	}
)

func diagnosticsCommand() *command {
	return &command{
		name: "diagnostics", short: "make a bundle for somebody who is to help, without secrets",
		long: `Writes a zip file with version, configuration (references to secrets stay, values
do not), findings of the doctor, the latest log records, metrics, profiles,
certificates, states of models, upstreams, backups and ledger. Prompts, answers
and secrets are not in it. Without --out it lists what would be in it.

  hearth diagnostics
  hearth diagnostics --out bundle.zip`,
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			out := fs.String("out", "", "write the bundle to this `FILE`")
			return func(ctx context.Context, env *Env, c *connection, _ []string) error {
				if *out != "" {
					return writeBundle(ctx, env, c, *out)
				}
				list, err := opDiagnosticsPreview.call(ctx, c, none{})
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, list)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "FILE\tBYTES\tMASKED\tWHAT")
					for _, f := range list {
						what := f.About
						if f.Error != "" {
							what = "not to be had: " + f.Error
						}
						fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", f.Name, f.Bytes, f.Masked, what)
					}
				})
			}
		}),
	}
}

// writeBundle writes the file in one step.
func writeBundle(ctx context.Context, env *Env, c *connection, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".diagnostics-*")
	if err != nil {
		return fmt.Errorf("cannot write the bundle: %w", err)
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	err = opDiagnosticsBundle.call(ctx, c, none{}, f)
	size, _ := f.Seek(0, io.SeekEnd)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: %s\n", path, bytesText(size))
	return err
}
