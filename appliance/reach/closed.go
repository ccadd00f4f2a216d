// Package reach decides which addresses this box may connect to, by who has
// named them: a caller or a foreign document may lead it to the public network
// only; the operator's configuration also into their own networks, though never
// to where machines are given their identity and secrets.
package reach

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

// barred are the ranges that not even the configuration may lead into: nothing
// serves there that this box has a use for, and what clouds put there hands out
// the machine's own credentials to whoever asks from within it.
var barred = prefixes(
	"0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32",   // Azure
	"100.100.100.200/32", // Alibaba
	"192.0.0.192/32",     // Oracle
	"::/128", "fe80::/10", "ff00::/8",
	"fd00:ec2::/32",    // AWS
	"fd20:ce::254/128", // Google
	"fd00:a9fe::/32",   // OpenStack, and others that write 169.254 so
	"fd00:42::42/128",  // Scaleway
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

// AddressError says that an address may not be asked. It does not name it: who
// gave a name must not learn where that leads.
type AddressError struct{ addr netip.Addr }

func (e *AddressError) Error() string {
	return "the address leads into a network that is closed to requests"
}

// Public judges an address that a caller or a foreign document has given;
// allowed are networks that are open although they are not public.
func Public(a netip.Addr, allowed []netip.Prefix) error {
	a = a.Unmap().WithZone("")
	if In(a, allowed) {
		return nil
	}
	if !a.IsValid() || In(a, closed) || In(a, translators) {
		return &AddressError{a}
	}
	if a.Is6() {
		if v4, ok := within(a); ok {
			return Public(v4, allowed)
		}
		if !netip.MustParsePrefix("2000::/3").Contains(a) {
			return &AddressError{a} // not handed out to anybody
		}
	}
	return nil
}

// Configured judges an address that the operator has given.
func Configured(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	if a == netip.IPv6Loopback() {
		return nil
	}
	if !a.IsValid() || In(a, barred) {
		return &AddressError{a}
	}
	if v4, ok := within(a); ok {
		return Configured(v4)
	}
	return nil
}

// within finds the IPv4 address that an IPv6 one leads to.
func within(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return a, false
	}
	b := a.As16()
	for _, p := range inner {
		if p.prefix.Contains(a) {
			return netip.AddrFrom4([4]byte(b[p.at : p.at+4])), true
		}
	}
	return a, false
}

// In says whether one of the networks holds a.
func In(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Networks reads a list of networks ("10.1.0.0/16") or addresses that callers'
// URLs may lead into although they are not public.
func Networks(list []string) ([]netip.Prefix, error) {
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
