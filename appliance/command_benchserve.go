package appliance

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"hearth/appliance/loadgen"
	"hearth/appliance/progress"
)

func benchServeCommand() *command {
	return &command{
		name: "serve", short: "put load on a server and measure what callers wait for",
		long: `Works against any server with OpenAI's chat API. Closed loop: --streams callers,
each asking again when it has its answer. Open loop: --rate arrivals a second at
random (Poisson) moments, or a --trace of {"at_s", "prompt", "max_tokens"} lines;
arrivals do not wait for answers, so that a slow server cannot hide. The key is
taken from the file --key-file or the variable HEARTH_API_KEY. Exits 1 if a load got
no answer at all.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var o loadgen.Options
			fs.StringVar(&o.URL, "base-url", "https://localhost:8443", "base `URL` of the server")
			fs.StringVar(&o.Model, "model", "hearth-tiny", "`NAME` of the model")
			fs.IntVar(&o.Requests, "requests", 64, "`N` requests for each load")
			fs.IntVar(&o.MaxTokens, "max-tokens", 64, "`N` tokens an answer, at most")
			fs.Float64Var(&o.Rate, "rate", 0, "open loop: `N` arrivals a second")
			fs.DurationVar(&o.Timeout, "timeout", 0, "give a request up after this `DURATION`; 0: 5m")
			fs.Uint64Var(&o.Seed, "seed", 1, "`N` of the arrival times")
			streams := fs.String("streams", "1,8,32", "closed loop: `NUMBERS` of callers, with commas")
			words := fs.Int("prompt-words", 24, "`N` words a prompt; no two prompts are equal")
			shared := fs.Int("shared-words", 0, "`N` words in front that all prompts share")
			trace := fs.String("trace", "", "open loop: `FILE` of arrivals, JSON lines")
			ca := fs.String("cacert", "", "PEM `FILE` of the root to trust")
			keyFile := fs.String("key-file", "", "`FILE` that holds the API key")
			extra := fs.String("extra", "", "more fields of each request, as a `JSON` object")
			asJSON := fs.Bool("json", false, "print one JSON document")
			var long longFlags
			long.declare(fs)
			return func(ctx context.Context, env *Env, _ []string) error {
				var err error
				if o.Client, err = benchClient(*ca); err != nil {
					return err
				}
				if o.Key, err = benchKey(*keyFile); err != nil {
					return err
				}
				if *extra != "" {
					if err := json.Unmarshal([]byte(*extra), &o.Extra); err != nil {
						return usagef("bench serve: --extra: %v", err)
					}
				}
				if o.Trace, err = readTrace(*trace); err != nil {
					return err
				}
				loads := []int{0}
				if o.Rate <= 0 && len(o.Trace) == 0 {
					if loads, err = numbers(*streams); err != nil {
						return usagef("bench serve: --streams: %v", err)
					}
				}
				ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
				defer stop()
				show, err := long.shower(env, *asJSON)
				if err != nil {
					return err
				}
				return benchLoads(ctx, env, o, loads, *words, *shared, *asJSON, show)
			}
		},
	}
}

// loadReport is a report with the load it belongs to.
type loadReport struct {
	Streams int     `json:"streams,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	loadgen.Report
}

func benchLoads(ctx context.Context, env *Env, o loadgen.Options, loads []int, words, shared int, asJSON bool, show *progress.Shower) error {
	defer show.Done()
	if n := len(o.Trace); n > 0 {
		o.Requests = n
	}
	var all []loadReport
	for n, streams := range loads {
		o.Streams = streams
		label := fmt.Sprintf("%d streams", streams)
		if streams == 0 {
			label = "open loop"
		}
		var ended atomic.Int64
		o.Ended = func() { show.Set(label, progress.Items, ended.Add(1), int64(o.Requests)) }
		o.Prompt = func(i int) string { return prose(shared, 0) + prose(words, 1+n*o.Requests+i) }
		samples, took, err := loadgen.Run(ctx, o)
		if err != nil {
			return err
		}
		all = append(all, loadReport{streams, o.Rate, loadgen.Summarize(samples, took)})
	}
	show.Done()
	if asJSON {
		return errors.Join(printJSON(env.Stdout, all), answered(all))
	}
	return errors.Join(showLoads(env.Stdout, all), answered(all))
}

// answered tells which load got no answer at all: nothing was measured then.
func answered(all []loadReport) error {
	for _, r := range all {
		if r.Done > 0 {
			continue
		}
		load := fmt.Sprintf("%d streams", r.Streams)
		if r.Streams == 0 {
			load = "the arrivals"
		}
		return fmt.Errorf("cannot measure %s: no request was answered, %d were rejected, %d timed out, %d failed", load, r.Rejected, r.TimedOut, r.Failed)
	}
	return nil
}

func showLoads(w io.Writer, all []loadReport) error {
	err := table(w, func(w io.Writer) {
		fmt.Fprintln(w, "LOAD\tDONE\tREJECTED\tTIMED OUT\tFAILED\tOUTPUT TOK/S\tTTFT MS p50/p95/p99\tITL MS p50/p95/p99\tTPOT MS p50/p95/p99\tE2E MS p50/p95/p99")
		for _, r := range all {
			load := fmt.Sprintf("%d streams", r.Streams)
			if r.Streams == 0 {
				load = "open"
			}
			q := func(q loadgen.Quantiles) string { return fmt.Sprintf("%.1f / %.1f / %.1f", q.P50, q.P95, q.P99) }
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%.1f\t%s\t%s\t%s\t%s\n", load, r.Done, r.Rejected, r.TimedOut, r.Failed, r.OutputTokS, q(r.TTFT), q(r.ITL), q(r.TPOT), q(r.E2E))
		}
	})
	for _, r := range all {
		for text, n := range r.Errors {
			fmt.Fprintf(w, "%d × %s\n", n, strings.TrimSpace(text))
		}
	}
	return err
}

func benchClient(ca string) (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 1024, 0
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", ca)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return &http.Client{Transport: t}, nil
}

func benchKey(file string) (string, error) {
	if file == "" {
		return os.Getenv("HEARTH_API_KEY"), nil
	}
	b, err := os.ReadFile(file)
	return string(bytes.TrimSpace(b)), err
}

func readTrace(file string) ([]loadgen.Arrival, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []loadgen.Arrival
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for line := 1; s.Scan(); line++ {
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var a loadgen.Arrival
		if err := json.Unmarshal(s.Bytes(), &a); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", file, line, err)
		}
		out = append(out, a)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b loadgen.Arrival) int {
		switch {
		case a.At < b.At:
			return -1
		case a.At > b.At:
			return 1
		}
		return 0
	})
	return out, nil
}

// numbers reads a list such as "1,8,32".
func numbers(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > 4096 {
			return nil, fmt.Errorf("got %q, wanted numbers from 1 to 4096", part)
		}
		out = append(out, n)
	}
	return out, nil
}

// prose is n words that depend on i.
func prose(n, i int) string {
	vocabulary := strings.Fields("time year people way day man thing woman life child world school state family student group country problem hand part place case week company system")
	var b strings.Builder
	for k := range n {
		b.WriteString(vocabulary[(i*(k+7)+k*k+i)%len(vocabulary)])
		b.WriteByte(' ')
	}
	if i > 0 {
		fmt.Fprintf(&b, "%d", i)
	}
	return b.String()
}
