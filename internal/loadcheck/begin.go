package main

import (
	"context"
	"fmt"
	"time"
)

// checkStart measures starts: in new data directories, and once more in each.
func checkStart(ctx context.Context, o *options) error {
	for i := range o.rounds {
		for _, kind := range []string{"first", "later"} {
			b, err := start(ctx, o, fmt.Sprintf("start-%d", i), "http://127.0.0.1:1/v1")
			if err != nil {
				return err
			}
			cpu := b.cpu()
			time.Sleep(3 * time.Second)
			rss, peak := b.memory()
			fmt.Printf("start: %s, ready after %.0f ms, %.0f ms CPU; resident %.1f MB, at the peak %.1f; %d goroutines\n", kind, ms(b.ready), ms(cpu), rss, peak, b.goroutines())
			b.stop()
		}
	}
	return nil
}
