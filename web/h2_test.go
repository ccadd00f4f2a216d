package web_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"hearth/web"
	"hearth/web/webtest"
)

// testCert is a certificate for example.com and the pool that trusts it.
func testCert() ([]tls.Certificate, *x509.CertPool) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates, s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
}

// h2conn writes frames that no client library would (RFC 9113).
type h2conn struct {
	net.Conn
	stream uint32
}

const (
	frameData, frameHeaders, framePriority, frameReset, frameSettings, framePing, frameWindow, frameContinuation = 0, 1, 2, 3, 4, 6, 8, 9
	endStream, endHeaders                                                                                        = 1, 4
)

func (b *bench) h2(pool *x509.CertPool, settings []byte) *h2conn {
	b.t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "http://"), &tls.Config{RootCAs: pool, ServerName: "example.com", NextProtos: []string{"h2"}})
	if err != nil {
		b.t.Fatal(err)
	}
	h := &h2conn{c, 1}
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	h.frame(frameSettings, 0, 0, settings)
	go io.Copy(io.Discard, c)
	return h
}

func (h *h2conn) frame(kind, flags byte, stream uint32, payload []byte) error {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	head = binary.BigEndian.AppendUint32(head, stream)
	_, err := h.Write(append(head, payload...))
	return err
}

func (h *h2conn) next() uint32 { h.stream += 2; return h.stream - 2 }

// literal is a header field that enters no table (RFC 7541, section 6.2.2).
func literal(name, value string) []byte {
	out := append([]byte{0, byte(len(name))}, name...)
	return append(append(out, byte(len(value))), value...)
}

// getLivez is the header block of GET /livez.
var getLivez = append(append([]byte{0x82, 0x87}, literal(":path", "/livez")...), literal(":authority", "x")...)

// TestHTTP2Abuse plays known attacks against a connection, each for a moment,
// and holds that memory stays and that others are served meanwhile.
func TestHTTP2Abuse(t *testing.T) {
	cert, pool := testCert()
	b := start(t, web.Limits{HeaderTime: time.Second, WriteTime: time.Second}, &tls.Config{Certificates: cert})
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "example.com"}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	chat := []byte{0x83, 0x87}
	for _, f := range [][2]string{{":path", chatPath}, {":authority", "x"}, {"authorization", "Bearer " + webtest.Key}} {
		chat = append(chat, literal(f[0], f[1])...)
	}
	body := []byte(ask("endless", `"stream":true`))
	noWindow := []byte{0, 4, 0, 0, 0, 0} // SETTINGS_INITIAL_WINDOW_SIZE 0
	attacks := map[string]func(h *h2conn) error{
		"rapid reset": func(h *h2conn) error {
			id := h.next()
			h.frame(frameHeaders, endHeaders, id, chat)
			return h.frame(frameReset, 0, id, []byte{0, 0, 0, 8})
		},
		"continuation flood": func(h *h2conn) error {
			if h.stream == 1 {
				h.frame(frameHeaders, 0, h.next(), getLivez)
			}
			return h.frame(frameContinuation, 0, 1, bytes.Repeat(literal("x-flood", "1234567890"), 100))
		},
		"indexed bomb": func(h *h2conn) error {
			block := append([]byte(nil), getLivez...)
			block = append(block, 0x40, 1, 'a', 0x7f, 0xf1, 0x1d) // a new table entry of 4 000 bytes
			block = append(block, bytes.Repeat([]byte{'b'}, 127+0x71+0x1d<<7)...)
			block = append(block, bytes.Repeat([]byte{0xbe}, 8000)...) // named 8 000 times
			return h.frame(frameHeaders, endHeaders|endStream, h.next(), block)
		},
		"zero window": func(h *h2conn) error {
			id := h.next()
			h.frame(frameHeaders, endHeaders, id, chat)
			return h.frame(frameData, endStream, id, body)
		},
		"ping flood":     func(h *h2conn) error { return h.frame(framePing, 0, 0, make([]byte, 8)) },
		"settings flood": func(h *h2conn) error { return h.frame(frameSettings, 0, 0, []byte{0, 4, 0, 1, 0, 0}) },
		"empty data": func(h *h2conn) error {
			if h.stream == 1 {
				h.frame(frameHeaders, endHeaders, h.next(), chat)
			}
			return h.frame(frameData, 0, 1, nil)
		},
		"priority churn": func(h *h2conn) error { return h.frame(framePriority, 0, h.next(), []byte{0, 0, 0, 0, 15}) },
		"stream errors":  func(h *h2conn) error { return h.frame(frameWindow, 0, h.next(), []byte{0, 0, 0, 0}) },
	}
	for name, attack := range attacks {
		runtime.GC()
		var before, now runtime.MemStats
		runtime.ReadMemStats(&before)
		h := b.h2(pool, noWindow)
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			end := time.Now().Add(300 * time.Millisecond)
			for n := 0; n < 20_000 && time.Now().Before(end); n++ {
				if attack(h) != nil {
					return
				}
			}
		}()
		started := time.Now()
		req, _ := http.NewRequest("POST", "https"+strings.TrimPrefix(b.url, "http")+chatPath, strings.NewReader(ask("x")))
		req.Header.Set("Authorization", "Bearer "+webtest.Key)
		res, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Do(req)
		if err != nil {
			t.Fatalf("%s: a neighbour is not served: %v", name, err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if d := time.Since(started); res.StatusCode != 200 || d > 8*time.Second {
			t.Errorf("%s: a neighbour got %d after %s", name, res.StatusCode, d)
		}
		<-stop
		runtime.GC()
		runtime.ReadMemStats(&now)
		if grown := int64(now.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
			t.Errorf("%s: %d MiB are held", name, grown>>20)
		}
		h.Close()
	}
	// What was begun for the attackers ends with their connections.
	limit := time.Now().Add(5 * time.Second)
	for b.svc.Calls.Load() != b.svc.Ended.Load() && time.Now().Before(limit) {
		time.Sleep(20 * time.Millisecond)
	}
	if c, e := b.svc.Calls.Load(), b.svc.Ended.Load(); c != e {
		t.Errorf("%d calls, %d ended", c, e)
	}
}
