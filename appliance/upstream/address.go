package upstream

import (
	"fmt"
	"net/netip"
)

// closed are the ranges that no address given by a caller may lead into: every
// block of the IANA special-purpose registries that is not globally reachable,
// multicast, and what clouds put behind such addresses.
var closed = prefixes(
	// IPv4: RFC 6890 and its registry.
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
	"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // Azure's wire server, reachable from inside only
	// IPv6.
	"::/128", "::1/128", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
	"fec0::/10", "ff00::/8",
)

// inner are ranges of IPv6 that hold an IPv4 address: they lead where that leads,
// through a translator, and are judged by it. at is the first byte of it.
var inner = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // translated, RFC 2765
	{netip.MustParsePrefix("::/96"), 12},           // compatible, RFC 4291 section 2.5.5.1
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64, RFC 6052
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4, RFC 3056
}

// translators are ranges whose IPv4 part cannot be found: its place depends on
// the network's own prefix (RFC 8215), or it is masked (Teredo, RFC 4380).
var translators = prefixes("64:ff9b:1::/48", "2001::/32")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// addressError says that an address may not be asked. It does not name it: who
// gave a name must not learn where that leads.
type addressError struct{ addr netip.Addr }

func (e *addressError) Error() string {
	return "the address leads into a network that is closed to requests"
}

// public checks an address against the closed ranges; allowed are exceptions.
func public(a netip.Addr, allowed []netip.Prefix) error {
	a = a.Unmap().WithZone("")
	if in(a, allowed) {
		return nil
	}
	if !a.IsValid() || in(a, closed) || in(a, translators) {
		return &addressError{a}
	}
	if a.Is6() {
		b := a.As16()
		for _, p := range inner {
			if p.prefix.Contains(a) {
				return public(netip.AddrFrom4([4]byte(b[p.at:p.at+4])), allowed)
			}
		}
		if !netip.MustParsePrefix("2000::/3").Contains(a) {
			return &addressError{a} // not handed out to anybody
		}
	}
	return nil
}

func in(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// AllowedNetworks reads a list of networks ("10.1.0.0/16") or addresses that
// callers' URLs may lead into although they are not public.
func AllowedNetworks(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, s := range list {
		if a, err := netip.ParseAddr(s); err == nil {
			out = append(out, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("cannot read %.64q as a network: want one such as \"10.1.0.0/16\"", s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
