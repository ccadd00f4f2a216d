package appliance

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/otlp"
	addresses "hearth/appliance/reach"
	"hearth/store"
)

// traces makes spans of finished requests and has them sent, while the
// configuration names a collector. Nothing is recorded for it beforehand but
// the times that a request notes anyway.
type traces struct {
	live atomic.Pointer[liveTraces]

	mu   sync.Mutex // guards below
	past otlp.Stats // of exporters that have ended
}

// liveTraces is one configuration of traces in force.
type liveTraces struct {
	conf  config.Traces
	names *traceNames
	out   *otlp.Exporter
}

const closeTraces = 3 * time.Second

func (a *Appliance) openTraces() error {
	a.onClose(func() error { a.traces.set(nil); return nil })
	return a.traces.apply(a, a.config())
}

// apply follows the configuration; with an error the old one stays.
func (t *traces) apply(a *Appliance, c *config.Config) error {
	conf, old := c.Telemetry.Traces, t.live.Load()
	if old != nil && reflect.DeepEqual(old.conf, conf) {
		return nil
	}
	if conf.Endpoint == "" {
		t.set(nil)
		return nil
	}
	base := filepath.Dir(a.configPath())
	client, err := traceClient(&conf, base)
	if err != nil {
		return fmt.Errorf("cannot set up telemetry.traces: %w", err)
	}
	o := otlp.Options{
		Endpoint: conf.Endpoint, Client: client, Queue: conf.Queue, Batch: conf.Batch, Interval: conf.Interval.Std(), Timeout: conf.Timeout.Std(),
		Resource: otlp.Resource{
			Attrs: []otlp.Attr{
				otlp.String("service.name", conf.Service), otlp.String("service.version", Version), otlp.String("host.name", hostName()),
				otlp.String("telemetry.sdk.name", "hearth"), otlp.String("telemetry.sdk.language", "go"), otlp.String("telemetry.sdk.version", Version),
			},
			Library: "hearth", Version: Version,
		},
		Header: func(h http.Header) error { return traceHeader(h, &conf, base, a.env.Getenv) },
		Failed: func(err error, spans int) { a.log.Warn("spans cannot be sent", "spans", spans, "error", err) },
	}
	t.set(&liveTraces{conf, traceNameTables[conf.Names], otlp.New(o)})
	return nil
}

// set puts live in force and lets the one before send what it has.
func (t *traces) set(live *liveTraces) {
	old := t.live.Swap(live)
	if old == nil {
		return
	}
	old.out.Close(closeTraces)
	s := old.out.Stats()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.past.Exported += s.Exported
	t.past.Dropped += s.Dropped
	t.past.Rejected += s.Rejected
	t.past.Posts += s.Posts
	t.past.Failures += s.Failures
}

// stats are the counters since the start.
func (t *traces) stats() otlp.Stats {
	t.mu.Lock()
	s := t.past
	t.mu.Unlock()
	if live := t.live.Load(); live != nil {
		n := live.out.Stats()
		s = otlp.Stats{
			Exported: s.Exported + n.Exported, Dropped: s.Dropped + n.Dropped, Rejected: s.Rejected + n.Rejected,
			Posts: s.Posts + n.Posts, Failures: s.Failures + n.Failures, Waiting: n.Waiting,
		}
	}
	return s
}

// ratio is the part of new traces that is sampled.
func (t *traces) ratio() float64 {
	if live := t.live.Load(); live != nil {
		return live.conf.Ratio
	}
	return 0
}

// wants says whether a request's spans are sent: sampled, failed where it was
// served, or slow.
func (l *liveTraces) wants(trace string, failed bool, took time.Duration) bool {
	return sampled(trace) || l.conf.Errors && failed || l.conf.Slow > 0 && took >= l.conf.Slow.Std()
}

// callEnds sends the spans of a request.
func (t *traces) callEnds(c *call, row *store.Row) {
	live := t.live.Load()
	if live == nil {
		return
	}
	failed := c.err != nil && c.outcome != store.OutcomeCancelled
	// Refusals may come in floods: they are not sent for being failures.
	if !live.wants(c.grant.Trace, failed && c.outcome != store.OutcomeRefused, c.a.now().Sub(c.grant.Started)) {
		return
	}
	live.out.Offer(live.spans(c, row, failed))
}

// attemptTrace is the traceparent that the provider of an attempt is told: the
// span of the attempt, where there will be one.
func (c *call) attemptTrace() string {
	if c.a.traces.live.Load() == nil {
		return c.grant.Trace
	}
	if c.timing.span == [8]byte{} {
		c.timing.span = newSpanID()
	}
	t := c.grant.Trace
	return t[:36] + hex.EncodeToString(c.timing.span[:]) + t[52:]
}

// traceClient makes the HTTP client for the collector. Relative paths are those
// of the configuration file's folder.
func traceClient(c *config.Traces, base string) (*http.Client, error) {
	tc := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(resolveIn(base, c.CAFile))
		if err != nil {
			return nil, err
		}
		tc.RootCAs = x509.NewCertPool()
		if !tc.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", c.CAFile)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: tc, ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: time.Minute,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second, Control: addresses.DialConfigured}).DialContext, TLSHandshakeTimeout: 5 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func resolveIn(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// traceHeader sets what goes with a post. The secret is read each time, so that
// a changed one is taken.
func traceHeader(h http.Header, c *config.Traces, base string, getenv func(string) string) error {
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	if c.Credential == "" {
		return nil
	}
	kind, name, _ := strings.Cut(c.Credential, ":")
	secret := ""
	switch kind {
	case "env":
		secret = getenv(name)
	case "systemd": // systemd.exec(5)
		if strings.ContainsRune(name, '/') || name == ".." {
			return errors.New("the name of the credential is a path")
		}
		name = filepath.Join(getenv("CREDENTIALS_DIRECTORY"), name)
		fallthrough
	case "file":
		f, err := os.Open(resolveIn(base, name))
		if err != nil {
			return fmt.Errorf("cannot read the credential: %w", err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, 64<<10))
		if err != nil {
			return fmt.Errorf("cannot read the credential: %w", err)
		}
		secret = string(b)
	}
	secret = strings.TrimSpace(secret)
	if secret == "" || strings.ContainsAny(secret, "\r\n\x00") {
		return errors.New("the credential is empty or no header can hold it")
	}
	if c.CredentialHeader == "" || strings.EqualFold(c.CredentialHeader, "Authorization") && !strings.Contains(secret, " ") {
		h.Set("Authorization", "Bearer "+secret)
	} else {
		h.Set(c.CredentialHeader, secret)
	}
	return nil
}

func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
