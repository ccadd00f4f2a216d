package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	reloads       = 200
	reloadStreams = 100
)

// checkReload applies 200 configurations while 100 streams run and requests
// come and go.
func checkReload(ctx context.Context, o *options) error {
	base, stop, err := provider(o.gap)
	if err != nil {
		return err
	}
	defer stop()
	b, err := start(ctx, o, "reload", base)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := b.makeOwner(ctx); err != nil {
		return err
	}
	c, err := b.signIn()
	if err != nil {
		return err
	}
	s, err := b.open(ctx, b.key, reloadStreams)
	if err != nil {
		return err
	}
	defer s.close()
	if err := b.reloadTimes(ctx, c, s, 20); err != nil { // what is kept of a reload is there then
		return err
	}
	time.Sleep(2 * time.Second)
	goroutines, files, pieces := b.goroutines(), b.descriptors(), s.pieces.Load()
	rss, _ := b.memory()
	began := time.Now()
	if err := b.reloadTimes(ctx, c, s, reloads); err != nil {
		return err
	}
	took := time.Since(began)
	time.Sleep(5 * time.Second)
	after, _ := b.memory()
	fmt.Printf("reload: %d reloads of %d streams in %.1f s, %d pieces meanwhile: %d cut, 0 failed; resident %.0f → %.0f MB, goroutines %d → %d, descriptors %d → %d\n",
		reloads, reloadStreams, took.Seconds(), s.pieces.Load()-pieces, s.ended(), rss, after, goroutines, b.goroutines(), files, b.descriptors())
	if n := s.ended(); n > 0 {
		return fmt.Errorf("%d streams were cut", n)
	}
	if g := b.goroutines(); g > goroutines+20 {
		return fmt.Errorf("goroutines grew from %d to %d", goroutines, g)
	}
	if f := b.descriptors(); f > files+10 {
		return fmt.Errorf("descriptors grew from %d to %d", files, f)
	}
	return nil
}

// reloadTimes applies n configurations, each another one, through the admin API.
func (b *box) reloadTimes(ctx context.Context, c *http.Client, s *streams, n int) error {
	var now struct {
		Text   string `json:"text"`
		Digest string `json:"digest"`
	}
	if err := b.call(c, "GET", "/config", nil, &now); err != nil {
		return err
	}
	text := now.Text
	caps := []string{"1000000", "999999"}
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to := caps[i%2], caps[(i+1)%2]
		next := strings.Replace(text, `cap_usd = "`+from+`"`, `cap_usd = "`+to+`"`, 1)
		if next == text {
			from, to = to, from
			next = strings.Replace(text, `cap_usd = "`+from+`"`, `cap_usd = "`+to+`"`, 1)
		}
		var out json.RawMessage
		if err := b.call(c, "POST", "/config/apply", map[string]any{"text": next}, &out); err != nil {
			return fmt.Errorf("reload %d: %w", i+1, err)
		}
		text = next
		if err := b.ask(); err != nil {
			return fmt.Errorf("after reload %d: %w", i+1, err)
		}
	}
	return nil
}

// ask has a request answered that the server does not send on.
func (b *box) ask() error {
	r, err := http.NewRequest("GET", b.api+"/v1/models", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+b.key)
	c := b.client(nil)
	defer c.CloseIdleConnections()
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
