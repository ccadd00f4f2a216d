package config

import (
	"net/netip"
	"strconv"
	"time"
)

// Media is [media]: images that callers name by URL. A provider that takes URLs
// fetches them itself; for one that does not, this appliance may.
type Media struct {
	// Fetch lets the appliance fetch them. Default false: such a request is
	// refused, or its loss reported.
	Fetch bool `toml:"fetch"`
	// Networks that may be asked although they are not public. Default none.
	Networks []string `toml:"networks"`
	// HTTP allows URLs without TLS. Default false.
	HTTP bool `toml:"http"`
	// MaxBytes of one image. Default 20MiB.
	MaxBytes Size `toml:"max_bytes"`
	// MaxCount of images in a request. Default 16.
	MaxCount int `toml:"max_count"`
	// Timeout of one fetch. Default 10s.
	Timeout Duration `toml:"timeout"`
}

func (m *Media) setDefaults() {
	*m = Media{MaxBytes: 20 << 20, MaxCount: 16, Timeout: Duration(10 * time.Second)}
}

func (m *Media) validate(f *Faults) {
	for i, n := range m.Networks {
		if _, err := netip.ParsePrefix(n); err != nil {
			f.add("media.networks["+strconv.Itoa(i)+"]", "cannot use %q as a network, wanted one such as 10.1.0.0/16", n)
		}
	}
	f.size("media.max_bytes", m.MaxBytes, 1<<10, 1<<30)
	f.count("media.max_count", m.MaxCount, 1, 1000)
	f.span("media.timeout", m.Timeout, 100*time.Millisecond, 5*time.Minute)
}

// Prefixes are the networks.
func (m *Media) Prefixes() []netip.Prefix {
	var out []netip.Prefix
	for _, n := range m.Networks {
		if p, err := netip.ParsePrefix(n); err == nil {
			out = append(out, p)
		}
	}
	return out
}
