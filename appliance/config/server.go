package config

import (
	"net"
	"strconv"
	"time"

	"hearth/policy"
)

// Server is [server]: where the appliance listens and what a peer may make it
// hold.
type Server struct {
	// Listen is HOST:PORT. The host "localhost" means both loopback addresses;
	// an empty host means every address. Default "localhost:8443".
	Listen string `toml:"listen"`
	// MaxBody is the largest request body, in bytes. Default 20MiB.
	MaxBody Size `toml:"max_body"`
	// HeaderTimeout bounds the time to read a request head. Default 10s.
	HeaderTimeout Duration `toml:"header_timeout"`
	// BodyTimeout bounds the time to read a request body. Default 60s.
	BodyTimeout Duration `toml:"body_timeout"`
	// IdleTimeout closes an unused connection. Default 2m.
	IdleTimeout Duration `toml:"idle_timeout"`
	// WriteTimeout bounds a single write to a peer that does not read. Default 30s.
	WriteTimeout Duration `toml:"write_timeout"`
	// RequestTimeout bounds a whole request, queue and generation included;
	// zero: no bound. Default 10m.
	RequestTimeout Duration `toml:"request_timeout"`
	// MaxRequests is how many generations may be open at once over all keys,
	// the rest is told to come back; zero: no bound. Default 256.
	MaxRequests int `toml:"max_requests"`
}

func (s *Server) setDefaults() {
	*s = Server{
		Listen:         "localhost:8443",
		MaxBody:        20 << 20,
		HeaderTimeout:  Duration(10 * time.Second),
		BodyTimeout:    Duration(60 * time.Second),
		IdleTimeout:    Duration(2 * time.Minute),
		WriteTimeout:   Duration(30 * time.Second),
		RequestTimeout: Duration(10 * time.Minute),
		MaxRequests:    256,
	}
}

// CheckListen says why addr cannot be listened on, if so.
func CheckListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return &net.AddrError{Err: "port is not a number from 0 to 65535", Addr: addr}
	} else if n == 0 {
		return nil // any free port: for tests
	}
	return nil
}

func (s *Server) validate(f *Faults) {
	if err := CheckListen(s.Listen); err != nil {
		f.add("server.listen", "cannot use %q as an address: %v; wanted HOST:PORT", s.Listen, err)
	}
	f.size("server.max_body", s.MaxBody, 1<<10, 1<<30)
	f.span("server.header_timeout", s.HeaderTimeout, time.Second, 5*time.Minute)
	f.span("server.body_timeout", s.BodyTimeout, time.Second, time.Hour)
	f.span("server.idle_timeout", s.IdleTimeout, time.Second, time.Hour)
	f.span("server.write_timeout", s.WriteTimeout, time.Second, 10*time.Minute)
	if s.HeaderTimeout >= s.IdleTimeout {
		f.add("server.header_timeout", "got %s, wanted less than idle_timeout, which is %s", s.HeaderTimeout, s.IdleTimeout)
	}
	if s.RequestTimeout != 0 {
		f.span("server.request_timeout", s.RequestTimeout, time.Second, 24*time.Hour)
	}
	f.count("server.max_requests", s.MaxRequests, 0, 1<<20)
}

// span adds a fault if d is outside [low, high].
func (f *Faults) span(key string, d Duration, low, high time.Duration) {
	f.note(policy.Constraint{Path: key, Low: low, High: high})
	if d.Std() < low || d.Std() > high {
		f.add(key, "got %s, wanted %s to %s", d, low, high)
	}
}

// count adds a fault if n is outside [low, high].
func (f *Faults) count(key string, n, low, high int) {
	f.note(policy.Constraint{Path: key, Low: low, High: high})
	if n < low || n > high {
		f.add(key, "got %d, wanted %d to %d", n, low, high)
	}
}

// size adds a fault if z is outside [low, high].
func (f *Faults) size(key string, z, low, high Size) {
	f.note(policy.Constraint{Path: key, Low: low.String(), High: high.String()})
	if z < low || z > high {
		f.add(key, "got %s, wanted %s to %s", z, low, high)
	}
}

// oneOf adds a fault if got is not among want.
func (f *Faults) oneOf(key, got string, want ...string) {
	f.note(policy.Constraint{Path: key, Choices: want})
	for _, w := range want {
		if got == w {
			return
		}
	}
	hint := ""
	if n := nearest(got, want); n != "" {
		hint = "; did you mean " + strconv.Quote(n) + "?"
	}
	f.add(key, "got %q, wanted one of %q%s", got, want, hint)
}
