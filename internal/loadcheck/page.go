package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"
)

// mostOfACore is what one watched page may cost.
const mostOfACore = 0.01

// watch follows the live part of a page until ctx ends.
func (b *box) watch(ctx context.Context, c *http.Client, page string, events, bytes *atomic.Int64) error {
	r, err := http.NewRequestWithContext(ctx, "GET", b.admin+"/live?page="+url.QueryEscape(page), nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return fmt.Errorf("watching %s: status %d", page, resp.StatusCode)
	}
	go func() {
		defer resp.Body.Close()
		in := bufio.NewReaderSize(resp.Body, 64<<10)
		for {
			line, err := in.ReadSlice('\n')
			bytes.Add(int64(len(line)))
			if string(line) == "event: live\n" {
				events.Add(1)
			}
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
		}
	}()
	return nil
}

// checkPage compares the CPU time of the server with 0, 1 and 5 watchers of the
// overview, in turn.
func checkPage(ctx context.Context, o *options) error {
	base, stop, err := provider(o.gap)
	if err != nil {
		return err
	}
	defer stop()
	b, err := start(ctx, o, "page", base)
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
	s, err := b.open(ctx, b.key, o.streams)
	if err != nil {
		return err
	}
	defer s.close()
	time.Sleep(10 * time.Second) // samples of the series
	took := map[int][]float64{}
	for range o.rounds {
		for _, n := range []int{0, 1, 5} {
			share, events, bytes, err := b.watched(ctx, c, n)
			if err != nil {
				return err
			}
			took[n] = append(took[n], share)
			fmt.Printf("  %d watchers: %5.2f %% of a core, %d updates, %d KB each\n", n, 100*share, events, bytes/max(1, events)/1000)
		}
	}
	if n := s.ended(); n > 0 {
		return fmt.Errorf("%d of %d streams ended", n, o.streams)
	}
	none := median(took[0])
	one, five := median(took[1])-none, median(took[5])-none
	fmt.Printf("page: %d streams alone %.2f %% of a core; 1 watcher %+.2f %%, 5 watchers %+.2f %%\n", o.streams, 100*none, 100*one, 100*five)
	if one > mostOfACore {
		return fmt.Errorf("one watched page costs %.2f %% of a core, at most %.0f %% are promised", 100*one, 100*mostOfACore)
	}
	return nil
}

// watched is the share of a core that the server takes with n watchers.
func (b *box) watched(ctx context.Context, c *http.Client, n int) (share float64, events, bytes int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var e, z atomic.Int64
	for range n {
		if err := b.watch(ctx, c, "/", &e, &z); err != nil {
			return 0, 0, 0, err
		}
	}
	time.Sleep(time.Second)
	e.Store(0)
	z.Store(0)
	began, before := time.Now(), b.cpu()
	select {
	case <-time.After(b.o.window):
	case <-ctx.Done():
		return 0, 0, 0, ctx.Err()
	}
	return float64(b.cpu()-before) / float64(time.Since(began)), e.Load(), z.Load(), nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
