package config

import (
	"net/url"
	"strings"
	"time"

	"hearth/policy"
)

// Telemetry is [telemetry].
type Telemetry struct {
	// Metrics serves /metrics: to this machine without a key, to others with
	// one. Default true.
	Metrics bool `toml:"metrics"`
	// Tenants is how many tenants get a label of their own; the rest is summed
	// as "other". Default 50.
	Tenants int `toml:"tenants"`

	Traces Traces `toml:"traces"`
}

func (t *Telemetry) setDefaults() {
	*t = Telemetry{Metrics: true, Tenants: 50}
	t.Traces.setDefaults()
}

func (t *Telemetry) validate(f *Faults) {
	f.count("telemetry.tenants", t.Tenants, 0, 1000)
	t.Traces.validate(f)
}

// Traces is [telemetry.traces]: spans sent by OTLP over HTTP, as protobuf.
type Traces struct {
	// Endpoint is the URL that spans are posted to, most often one that ends in
	// /v1/traces; empty: none are made. Default none.
	Endpoint string `toml:"endpoint"`
	// Credential is a reference to a secret that is sent as "Authorization:
	// Bearer", or as the header in CredentialHeader as it is. Default none.
	Credential       string `toml:"credential"`
	CredentialHeader string `toml:"credential_header"`
	// Headers are sent with each post; never a secret. Default none.
	Headers map[string]string `toml:"headers"`
	// CAFile is a PEM file with the roots to trust; empty: the system's.
	CAFile string `toml:"ca_file"`
	// Ratio is the part of the traces that begin here which is exported, 0 to 1.
	// For a trace that began elsewhere the caller's sampled flag decides. Default 0.1.
	Ratio float64 `toml:"ratio"`
	// Errors exports every request that failed, whatever Ratio says. Default true.
	Errors bool `toml:"errors"`
	// Slow exports every request that took longer; zero: none for that. Default 10s.
	Slow Duration `toml:"slow"`
	// Names is the table of attribute names: "genai" (the GenAI conventions as
	// they are), "genai-1.36" (as most back ends know them), "off" (our own only).
	// Default "genai".
	Names string `toml:"names"`
	// Service is the service.name of the resource. Default "hearth".
	Service string `toml:"service"`
	// Queue is how many requests' spans may wait to be sent; beyond it they are
	// dropped and counted. Default 2048.
	Queue int `toml:"queue"`
	// Batch is how many requests' spans go in one post, Interval how long the
	// first of them waits. Default 256, 5s.
	Batch    int      `toml:"batch"`
	Interval Duration `toml:"interval"`
	// Timeout bounds one post. Default 10s.
	Timeout Duration `toml:"timeout"`
}

// Names of [telemetry.traces].
const (
	NamesGenAI    = "genai"
	NamesGenAI136 = "genai-1.36"
	NamesOff      = "off"
)

func (t *Traces) setDefaults() {
	*t = Traces{
		Ratio: 0.1, Errors: true, Slow: Duration(10 * time.Second), Names: NamesGenAI, Service: "hearth",
		Queue: 2048, Batch: 256, Interval: Duration(5 * time.Second), Timeout: Duration(10 * time.Second),
	}
}

func (t *Traces) validate(f *Faults) {
	const at = "telemetry.traces."
	if t.Endpoint != "" {
		u, err := url.Parse(t.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
			f.add(at+"endpoint", "cannot use it, wanted a URL such as https://collector.example:4318/v1/traces, without a user in it")
		} else if t.Credential != "" && u.Scheme != "https" && !policy.PrivateHost(u.Hostname()) {
			f.add(at+"credential", "cannot be sent in the clear: wanted an https endpoint, or one on this machine or in a private network")
		}
	}
	if kind, name, _ := strings.Cut(t.Credential, ":"); t.Credential != "" && (name == "" || kind != "env" && kind != "file" && kind != "systemd") {
		f.add(at+"credential", "wanted a reference to the secret: env:NAME, file:PATH or systemd:NAME")
	}
	for name, value := range t.Headers {
		if !headerName(name) || strings.ContainsAny(value, "\r\n\x00") {
			f.add(at+"headers", "cannot send the header %.64q", name)
		}
	}
	if t.CredentialHeader != "" && !headerName(t.CredentialHeader) {
		f.add(at+"credential_header", "cannot send the header %.64q", t.CredentialHeader)
	}
	if !(t.Ratio >= 0 && t.Ratio <= 1) {
		f.add(at+"ratio", "got %v, wanted 0 to 1", t.Ratio)
	}
	if t.Slow != 0 {
		f.span(at+"slow", t.Slow, time.Millisecond, 24*time.Hour)
	}
	f.oneOf(at+"names", t.Names, NamesGenAI, NamesGenAI136, NamesOff)
	if t.Service == "" || len(t.Service) > 255 {
		f.add(at+"service", "got %d bytes, wanted 1 to 255", len(t.Service))
	}
	f.count(at+"queue", t.Queue, 1, 1<<16)
	f.count(at+"batch", t.Batch, 1, 4096)
	f.span(at+"interval", t.Interval, 10*time.Millisecond, 5*time.Minute)
	f.span(at+"timeout", t.Timeout, 100*time.Millisecond, 5*time.Minute)
}

// headerName says whether s is a token (RFC 9110 §5.6.2) that we may set.
func headerName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i] | 0x20
		if !(c >= 'a' && c <= 'z' || s[i] >= '0' && s[i] <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", s[i]) >= 0) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "host", "content-length", "transfer-encoding", "connection", "content-type", "content-encoding":
		return false
	}
	return s != "" && len(s) <= 128
}
