package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	connections = 300
	watchers    = 70
	signIns     = 50
	mostMemory  = 400 // MB at the peak of the sign-ins
)

// checkLimits goes to the bounds of the control plane.
func checkLimits(ctx context.Context, o *options) error {
	base, stop, err := provider(o.gap)
	if err != nil {
		return err
	}
	defer stop()
	b, err := start(ctx, o, "limits", base)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.makeOwner(ctx); err != nil {
		return err
	}
	if err := b.limitSignIns(); err != nil {
		return err
	}
	c, err := b.signIn()
	for range 60 { // what failed a moment ago is waited for
		if err == nil {
			break
		}
		time.Sleep(2 * time.Second)
		c, err = b.signIn()
	}
	if err != nil {
		return err
	}
	if err := b.limitWatchers(ctx, c); err != nil {
		return err
	}
	return b.limitConnections(c)
}

// limitSignIns sends wrong passwords of many names at once.
func (b *box) limitSignIns() error {
	before, _ := b.memory()
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	began := time.Now()
	for i := range signIns {
		wg.Go(func() {
			status, err := b.post(b.client(nil), "/signin", url.Values{"name": {fmt.Sprintf("nobody-%d", i)}, "password": {"a wrong password"}})
			if err != nil {
				status = -1
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	wg.Wait()
	after, peak := b.memory()
	fmt.Printf("limits: %d sign-ins at once in %.1f s, by status %v: resident %.0f → %.0f MB, at the peak %.0f\n", signIns, time.Since(began).Seconds(), statuses, before, after, peak)
	if peak > mostMemory {
		return fmt.Errorf("sign-ins took %.0f MB, wanted at most %d", peak, mostMemory)
	}
	return nil
}

func (b *box) limitWatchers(ctx context.Context, c *http.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var events, bytes atomic.Int64
	open, refused := 0, 0
	for range watchers {
		switch err := b.watch(ctx, c, "/", &events, &bytes); {
		case err == nil:
			open++
		case strings.Contains(err.Error(), "status 503") || strings.Contains(err.Error(), "status 429"):
			refused++
		default:
			return err
		}
	}
	before, began := b.cpu(), time.Now()
	events.Store(0)
	time.Sleep(10 * time.Second)
	rss, _ := b.memory()
	fmt.Printf("limits: %d watchers, %d refused; %d updates in 10 s, %.1f %% of a core; resident %.0f MB\n", open, refused, events.Load(), 100*float64(b.cpu()-before)/float64(time.Since(began)), rss)
	return nil
}

// limitConnections opens more connections than are taken, and looks whether the
// next caller is served once they go.
func (b *box) limitConnections(c *http.Client) error {
	var list []net.Conn
	host := strings.TrimPrefix(b.admin, "https://")
	shaken := atomic.Int64{}
	var wg sync.WaitGroup
	for range connections {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			return err
		}
		list = append(list, conn)
		wg.Go(func() {
			t := tls.Client(conn, &tls.Config{RootCAs: b.roots, ServerName: "127.0.0.1"})
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			if t.Handshake() == nil {
				shaken.Add(1)
			}
		})
	}
	wg.Wait()
	files := b.descriptors()
	for _, conn := range list {
		conn.Close()
	}
	began := time.Now()
	var err error
	for time.Since(began) < 30*time.Second {
		fresh := *c
		fresh.Transport = b.client(nil).Transport
		var resp *http.Response
		if resp, err = fresh.Get(b.admin + "/"); err == nil {
			resp.Body.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Printf("limits: %d of %d connections taken, %d descriptors then, %d after; the next caller is served after %d ms\n", shaken.Load(), connections, files, b.descriptors(), time.Since(began).Milliseconds())
	return err
}
