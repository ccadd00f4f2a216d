// Package reachtest has the URLs by which people try to make a server ask what
// only it can reach, and a resolver that answers for the names in them.
package reachtest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// URL is one attempt.
type URL struct {
	URL string
	// Private says that it leads into a private network or to this machine: the
	// operator may name that, a caller may not. Everything else nobody may.
	Private bool
}

// Names resolve so; several addresses are separated by spaces. Rebinds is the
// name whose first answer is harmless and whose later ones are not.
var Names = map[string]string{
	"meta.example.com": "169.254.169.254", "mapped.example.com": "::ffff:169.254.169.254", "nat64.example.com": "64:ff9b::a9fe:a9fe",
	"sixtofour.example.com": "2002:a9fe:a9fe::1", "zero.example.com": "0.0.0.0", "zero6.example.com": "::", "link.example.com": "fe80::1",
	"multi.example.com": "224.0.0.1", "all.example.com": "255.255.255.255", "ec2.example.com": "fd00:ec2::254", "alibaba.example.com": "100.100.100.200",
	"oracle.example.com": "192.0.0.192", "azure.example.com": "168.63.129.16", "google.example.com": "fd20:ce::254",
	"metadata.google.internal": "169.254.169.254", "metadata": "169.254.169.254", "instance-data": "169.254.169.254",
	"169.254.169.254.nip.example.com": "169.254.169.254",
	Rebinds:                           "169.254.169.254",
}

// Rebinds is a name that is answered differently each time it is asked for.
const Rebinds = "rebind.example.com"

// Hostile is every attempt.
func Hostile() []URL {
	var out []URL
	for _, u := range strings.Fields(`
		https://169.254.169.254/latest/meta-data/ https://169.254.169.254:80/ https://169.254.170.2/v2/credentials https://[::ffff:169.254.169.254]/
		https://[::ffff:a9fe:a9fe]/ https://[64:ff9b::a9fe:a9fe]/ https://[64:ff9b::169.254.169.254]/ https://[2002:a9fe:a9fe::]/ https://[::169.254.169.254]/
		https://[fd00:ec2::254]/latest/ https://[fd20:ce::254]/ https://[fe80::1]/ https://[fe80::1%25eth0]/ https://[fe80::a9fe:a9fe%25lo]/
		https://0.0.0.0/ https://0.0.0.0:8443/ https://[::]/ https://[0:0:0:0:0:0:0:0]/ https://0.1.2.3/ https://224.0.0.1/ https://239.255.255.250:1900/
		https://255.255.255.255/ https://240.0.0.1/ https://[ff02::1]/ https://168.63.129.16/ https://100.100.100.200/latest/ https://192.0.0.192/
		https://2852039166/ https://0xa9fea9fe/ https://0xa9.0xfe.0xa9.0xfe/ https://0251.0376.0251.0376/ https://0251.0xfe.43518/ https://169.254.43518/
		https://169.16689662/ https://169.254.169.254./ https://①⑥⑨.②⑤④.①⑥⑨.②⑤④/ https://169。254。169。254/ https://１６９.254.169.254/
		https://169.254.169.254%00.example.com/ https://169.254.169.254%2f.example.com/ https://169.254.169.254%23@example.com/ https://example.com@169.254.169.254/
		https://user:password@169.254.169.254/ https://169.254.169.254#@example.com/ https://169.254.169.254?@example.com/ https://169.254.169.254\@example.com/
		https://example.com\@169.254.169.254/ https://meta.example.com/ https://meta.example.com./ https://META.EXAMPLE.COM/ https://mapped.example.com/
		https://nat64.example.com/ https://sixtofour.example.com/ https://zero.example.com/ https://zero6.example.com/ https://link.example.com/
		https://multi.example.com/ https://all.example.com/ https://ec2.example.com/ https://alibaba.example.com/ https://oracle.example.com/
		https://azure.example.com/ https://google.example.com/ https://metadata.google.internal/computeMetadata/v1/ https://metadata/ https://instance-data/
		https://169.254.169.254.nip.example.com/ https://rebind.example.com/
		file:///etc/passwd file://169.254.169.254/share gopher://169.254.169.254:70/_GET ftp://169.254.169.254/ dict://169.254.169.254:11211/
		ldap://169.254.169.254/ unix:///var/run/docker.sock data:application/json,{} javascript:alert(1) //169.254.169.254/ /169.254.169.254 https: https:// https:///x
		https:169.254.169.254 http:/169.254.169.254/ jar:https://169.254.169.254!/ https://[169.254.169.254]/ https://[::ffff:169.254.169.254 https://169.254.169.254:99999/
		https://169.254.169.254:-1/ https://:443/ https://%31%36%39.254.169.254/`) {
		out = append(out, URL{URL: u})
	}
	for _, u := range strings.Fields(`
		https://127.0.0.1/ https://127.1/ https://2130706433/ https://0x7f000001/ https://0177.0.0.1/ https://[::1]/ https://[::ffff:127.0.0.1]/ https://localhost/ https://localhost./
		https://10.0.0.1/ https://172.16.0.1/ https://192.168.1.1/ https://100.64.0.1/ https://[fd00::1]/ https://[64:ff9b::a00:1]/ https://[2002:a00:1::1]/ https://[::10.0.0.1]/
		https://router.lan/ https://printer.local/ https://db.internal/ https://198.18.0.1/`) {
		out = append(out, URL{u, true})
	}
	return out
}

// Resolver answers for Names alone for the length of a test, in place of the
// system's.
func Resolver(t testing.TB) {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	old := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	var done sync.WaitGroup
	done.Go(func() {
		asked := map[string]int{}
		buf := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if b := answer(buf[:n], asked); b != nil {
				_, _ = conn.WriteTo(b, from)
			}
		}
	})
	t.Cleanup(func() {
		net.DefaultResolver = old
		conn.Close()
		done.Wait()
	})
}

// answer is nil for what is no question.
func answer(b []byte, asked map[string]int) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	h.Response, h.RCode = true, dnsmessage.RCodeSuccess
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	list, known := Names[name]
	if !known {
		h.RCode = dnsmessage.RCodeNameError
	}
	if name == Rebinds && q.Type == dnsmessage.TypeA {
		if asked[name]++; asked[name]%2 == 1 {
			list = harmless // nothing serves there
		}
	}
	m := dnsmessage.NewBuilder(nil, h)
	if m.StartQuestions() != nil || m.Question(q) != nil || m.StartAnswers() != nil {
		return nil
	}
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
	for _, s := range strings.Fields(list) {
		a := netip.MustParseAddr(s)
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			_ = m.AResource(head, dnsmessage.AResource{A: a.As4()})
		case !a.Is4() && q.Type == dnsmessage.TypeAAAA:
			_ = m.AAAAResource(head, dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	out, err := m.Finish()
	if err != nil {
		return nil
	}
	return out
}

// Connected says that an address was asked that should not have been: what
// refused it is the system, and not this box. The harmless address of Rebinds may
// be asked.
func Connected(err error) bool {
	var errno syscall.Errno
	return err == nil || errors.As(err, &errno) && !strings.Contains(err.Error(), harmless)
}

const harmless = "192.0.2.1"
