// Command loadcheck puts a Hearth binary under load and holds what it costs, and
// what becomes of the streams, to what is promised: pages that are watched beside
// a thousand streams, reloads and revocations under streams, page times on a
// large ledger, bounds of the control plane. Provider, callers and watchers are in
// this process; everything runs on loopback. It prints what it measured and exits
// 1 where a promise is not kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options of a run.
type options struct {
	hearth, work string
	port         int
	streams      int
	gap, window  time.Duration
	rounds       int
	rows         int
	old          bool
}

// checks by name.
var checks = []struct {
	name, about string
	run         func(context.Context, *options) error
}{
	{"page", "CPU time of watched pages beside open streams", checkPage},
	{"reload", "reloads under streams: none is cut, nothing leaks", checkReload},
	{"revoke", "a revoked key's streams end, others do not", checkRevoke},
	{"times", "time of each page on a large ledger", checkTimes},
	{"limits", "bounds of connections, watchers and sign-ins", checkLimits},
	{"gateway", "CPU time of requests and streams", checkGateway},
	{"start", "time to ready, and memory then", checkStart},
}

func main() {
	o := &options{}
	flag.StringVar(&o.hearth, "hearth", "", "`FILE` of the hearth program")
	flag.StringVar(&o.work, "work", "", "`DIR` for everything that is written")
	flag.IntVar(&o.port, "port", 27000, "first `PORT` of the two that it listens on")
	flag.IntVar(&o.streams, "streams", 1000, "`N` streams at once")
	flag.DurationVar(&o.gap, "gap", 100*time.Millisecond, "`DURATION` between two pieces of a stream")
	flag.DurationVar(&o.window, "window", 20*time.Second, "`DURATION` of one measurement")
	flag.IntVar(&o.rounds, "rounds", 3, "`N` measurements of each kind")
	flag.IntVar(&o.rows, "rows", 100_000, "`N` rows of the ledger")
	flag.BoolVar(&o.old, "old", false, "the program is one from before there was a control plane")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: loadcheck [flags] CHECK...")
		for _, c := range checks {
			fmt.Fprintf(os.Stderr, "  %-8s %s\n", c.name, c.about)
		}
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "loadcheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options, names []string) error {
	if o.hearth == "" || o.work == "" || len(names) == 0 {
		flag.Usage()
		return fmt.Errorf("--hearth, --work and a check are wanted")
	}
	for _, name := range names {
		found := false
		for _, c := range checks {
			if c.name != name {
				continue
			}
			found = true
			if err := c.run(ctx, o); err != nil {
				return fmt.Errorf("%s: %w", strings.ToLower(name), err)
			}
		}
		if !found {
			return fmt.Errorf("there is no check %q", name)
		}
	}
	return nil
}
