package appliance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"hearth/appliance/config"
	"hearth/appliance/conform"
	"hearth/appliance/upstream"
	"hearth/policy"
)

// conformFlags say what is asked, and how.
type conformFlags struct {
	configFlags
	upstream, url, kind, credential, caFile, dialect, model, in, json string
}

func conformCommand() *command {
	return &command{
		name: "conform", short: "ask a provider whether its adapter keeps its promises",
		long: `Puts the cases that any model can pass (plain answers, streams, tools, schemas,
usage, errors, prompts that are too long, callers that leave) to an upstream of
the configuration, or to any URL, through the adapter that would serve it, in
every inbound dialect. It costs a few hundred short answers. Without --upstream
and --url every upstream that a route names is asked. Exits 1 if a case fails.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var f conformFlags
			f.configFlags.declare(fs)
			fs.StringVar(&f.upstream, "upstream", "", "the upstream of this `NAME` in the configuration")
			fs.StringVar(&f.url, "url", "", "a provider at this `URL` instead")
			fs.StringVar(&f.kind, "kind", "openai-compatible", "with --url: the provider's `KIND`")
			fs.StringVar(&f.credential, "credential", "", "with --url: its key by `REFERENCE`, such as env:NAME")
			fs.StringVar(&f.caFile, "ca-file", "", "with --url: trust the roots in this `FILE`")
			fs.StringVar(&f.dialect, "dialect", "", "with --url: prefer this `DIALECT` of its kind")
			fs.StringVar(&f.model, "model", "", "ask for this `MODEL`; default: that of the first route to the upstream")
			fs.StringVar(&f.in, "in", strings.Join(conform.Inbound, ","), "ask in these `DIALECTS`, with commas")
			fs.StringVar(&f.json, "json", "", "write the report to `FILE`; -: print it")
			return func(ctx context.Context, env *Env, _ []string) error {
				ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
				defer stop()
				return f.run(ctx, env)
			}
		},
	}
}

func (f *conformFlags) run(ctx context.Context, env *Env) error {
	in := strings.Split(f.in, ",")
	for _, d := range in {
		if !slices.Contains(conform.Inbound, d) {
			return usagef("conform: unknown dialect %q, wanted some of %s", d, strings.Join(conform.Inbound, ", "))
		}
	}
	ds, err := f.deployments(env)
	if err != nil {
		return err
	}
	var reports []*conform.Report
	var down []error
	failed := false
	for _, d := range ds {
		r, err := askDeployment(ctx, env, d, in, f.json != "-")
		if err != nil {
			err = fmt.Errorf("upstream %s: %w", d.Config.Name, err)
			if ctx.Err() == nil && errors.Is(err, conform.ErrUnreachable) {
				down = append(down, err) // the others can be asked
				continue
			}
			return err
		}
		reports, failed = append(reports, r), failed || r.Failed > 0
		if f.json != "-" {
			if err := r.Print(env.Stdout); err != nil {
				return err
			}
		}
	}
	if len(reports) > 0 {
		if err := writeReports(env, f.json, reports); err != nil {
			return err
		}
	}
	if len(down) > 0 {
		return errors.Join(down...)
	}
	if failed {
		return errFound
	}
	return nil
}

// writeReports writes one report as an object, several as an array.
func writeReports(env *Env, file string, reports []*conform.Report) error {
	var v any = reports
	if len(reports) == 1 {
		v = reports[0]
	}
	switch file {
	case "":
		return nil
	case "-":
		return printJSON(env.Stdout, v)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o600)
}

// askDeployment runs the live cases through a bridge of its own.
func askDeployment(ctx context.Context, env *Env, d conform.Deployment, in []string, progress bool) (_ *conform.Report, err error) {
	id := conform.Identity{Name: d.Config.Name, Kind: d.Config.Kind, URL: plainURL(d.Config.BaseURL), Model: d.Model}
	if why := unreadable(d.Config.Credential, env.Getenv); why != "" {
		return nil, fmt.Errorf("cannot ask it: its credential: %s", why) // once, not for each case
	}
	d.Config.Health = policy.HealthConfig{} // no probes beside the cases
	key := rand.Text()
	b, err := conform.NewBridge([]conform.Deployment{d}, key, upstream.Options{Version: Version, Getenv: env.Getenv})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if err := b.Reach(ctx, d.Config.Name); err != nil {
		return nil, fmt.Errorf("cannot ask it: %w", err)
	}
	g := &conform.Gateway{URL: b.URL(), Key: key, Model: d.Config.Name}
	out, err := g.Live(ctx, in, func(o conform.Outcome) {
		if progress {
			fmt.Fprintf(env.Stderr, "%s %s %s: %s (%d ms)\n", o.Case, o.In, o.Mode, o.Result, o.MS)
		}
	})
	if err != nil {
		return nil, err
	}
	return conform.NewReport(buildName(), id, out)
}

// buildName is the version with its revision, where it is known.
func buildName() string {
	b := readBuild()
	if b.Revision == "" {
		return b.Version
	}
	return b.Version + "+" + b.Revision
}

// plainURL is a URL without what may be secret.
func plainURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// deployments are what is to be asked.
func (f *conformFlags) deployments(env *Env) ([]conform.Deployment, error) {
	if f.url != "" {
		if f.upstream != "" {
			return nil, usagef("conform: --upstream and --url exclude each other")
		}
		if f.model == "" {
			return nil, usagef("conform: --url needs --model")
		}
		return []conform.Deployment{{Config: policy.UpstreamConfig{Name: "url", Kind: f.kind, BaseURL: f.url, Credential: f.credential, CAFile: f.caFile, Dialect: f.dialect}, Model: f.model}}, nil
	}
	_, path, err := f.locate(env)
	if err != nil {
		return nil, err
	}
	c, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	var out []conform.Deployment
	for _, u := range beside(path, c.Upstreams) {
		if f.upstream != "" && u.Name != f.upstream {
			continue
		}
		model := f.model
		for i := range c.Routes {
			for _, cand := range c.Routes[i].Candidates {
				if model == "" && cand.Upstream == u.Name {
					model = cand.Model
				}
			}
		}
		if model != "" {
			out = append(out, conform.Deployment{Config: u, Model: model})
		} else if f.upstream != "" {
			return nil, usagef("conform: no route names upstream %s: say which --model to ask for", u.Name)
		}
	}
	if len(out) == 0 && f.upstream != "" {
		return nil, fmt.Errorf("cannot find upstream %q in %s", f.upstream, path)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("cannot find an upstream with a route in %s: name one with --url", path)
	}
	return out, nil
}
