package reach

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"hearth/appliance/reach/reachtest"
)

// What the operator names may lie in their own networks, never where a cloud
// keeps a machine's secrets, in whatever notation.
func TestConfigured(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "93.184.216.34",
		"2606:2800:220:1::1", "64:ff9b::a00:1"} {
		if err := Configured(netip.MustParseAddr(a)); err != nil {
			t.Errorf("%s is closed", a)
		}
	}
	for _, a := range []string{"169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::169.254.169.254",
		"fe80::1", "fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "fd00:ec2::254", "fd20:ce::254",
		"168.63.129.16", "100.100.100.200", "192.0.0.192", "0.1.2.3", "240.0.0.1", "::ffff:0:a9fe:a9fe"} {
		if err := Configured(netip.MustParseAddr(a)); err == nil {
			t.Errorf("%s is open", a)
		}
	}
	if Configured(netip.Addr{}) == nil || Public(netip.Addr{}, nil) == nil {
		t.Error("no address is open")
	}
}

// The address that is judged is the one that the system is about to ask.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := (&net.Dialer{Control: DialConfigured}).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	var closed *AddressError
	if _, err := (&net.Dialer{Control: DialPublic}).Dial("tcp", l.Addr().String()); !errors.As(err, &closed) {
		t.Errorf("got %v", err)
	}
	if _, err := (&net.Dialer{Control: DialConfigured}).Dial("tcp", "169.254.169.254:80"); !errors.As(err, &closed) {
		t.Errorf("got %v", err)
	}
}

// What the operator names is judged also where the connection is not ours to
// make, and the table of attempts is what it says of itself.
func TestHostileRequests(t *testing.T) {
	reachtest.Resolver(t)
	through := Requests(func(*http.Request) (*url.URL, error) { return nil, nil })
	list := reachtest.Hostile()
	for _, h := range list {
		u, err := url.Parse(h.URL)
		if err != nil || u.Host == "" {
			continue // no request can be made of it
		}
		_, err = through((&http.Request{URL: u}).WithContext(t.Context()))
		if !h.Private && u.Hostname() != reachtest.Rebinds && u.Hostname() != "example.com" && err == nil {
			t.Errorf("%s is let through", h.URL)
		}
	}
	if t.Logf("%d hostile URLs", len(list)); len(list) < 60 {
		t.Error("want 60")
	}
}
