package reach

import (
	"net"
	"net/netip"
	"syscall"
)

// DialConfigured is the Control of a net.Dialer that connects to what the
// configuration names. It judges the address that the system is about to ask,
// so that what a name resolved to before does not count.
func DialConfigured(_, address string, _ syscall.RawConn) error {
	return judge(address, Configured)
}

// DialPublic is the Control of a net.Dialer that connects to what a foreign
// document names.
func DialPublic(_, address string, _ syscall.RawConn) error {
	return judge(address, func(a netip.Addr) error { return Public(a, nil) })
}

func judge(address string, by func(netip.Addr) error) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &net.AddrError{Err: "want an address and a port", Addr: address}
	}
	return by(ap.Addr())
}
