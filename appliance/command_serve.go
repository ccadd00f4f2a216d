package appliance

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"syscall"

	"hearth/appliance/config"
)

func serveCommand() *command {
	return &command{
		name: "serve", short: "start the appliance",
		long: `The first start needs nothing: it makes the data directory, a commented
appliance.toml in it, a certificate authority (DIR/ca.pem) and an API key, loads
the model inside the binary, and prints a link to the status page and a curl to
try. What it made stands in DIR/first-run.json too. Later starts make nothing
anew.

Signals: HUP takes the changed configuration, if it has no fault. TERM and INT
stop admitting, let open requests finish within drain.timeout, settle and end;
a second one ends at once.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var cf configFlags
			cf.declare(fs)
			listen := fs.String("listen", "", "`HOST:PORT`, in place of server.listen")
			device := fs.String("device", "auto", "`DEVICE` of models that name none: "+config.DeviceForms)
			graphs := fs.String("cuda-graphs", "", "`on` or off, in place of cuda.graphs")
			return func(ctx context.Context, env *Env, _ []string) error {
				if !config.CheckDevice(*device) {
					return usagef("serve: got --device %q, wanted %s", *device, config.DeviceForms)
				}
				switch *graphs {
				case "", "on", "off":
				default:
					return usagef("serve: got --cuda-graphs %q, wanted on or off", *graphs)
				}
				dir, err := findDataDir(env, cf.data)
				if err != nil {
					return err
				}
				return serve(ctx, Options{Env: env, Dir: dir, Config: cf.file, Listen: *listen, Device: *device, CUDAGraphs: *graphs})
			}
		},
	}
}

// serve runs an appliance until a signal ends it.
func serve(ctx context.Context, opt Options) error {
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(end)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	if opt.Env.Getenv("GOGC") == "" {
		defer tuneCollector()()
	}
	a, err := Open(ctx, opt)
	if err != nil {
		return err
	}
	if err := a.Announce(ctx, opt.Env.Stdout); err != nil {
		a.Close()
		return err
	}
	for {
		select {
		case <-hup:
			if err := a.Reload(ctx); err != nil {
				a.log.Error("the changed configuration is not taken, the old one stays", "error", err)
			}
		case <-end:
			a.Drain(end)
			return a.Close()
		case <-ctx.Done():
			return a.Close()
		}
	}
}
