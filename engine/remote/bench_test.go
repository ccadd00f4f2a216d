package remote

import (
	"fmt"
	"sync"
	"testing"
)

// BenchmarkStreams: events through the protocol, of 1 and 32 streams.
func BenchmarkStreams(b *testing.B) {
	for _, streams := range []int{1, 32} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			f := new(fake)
			c := pair(b, f)
			n := b.N/streams + 1
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range streams {
				wg.Go(func() {
					if o := drain(c.Generate(b.Context(), request(fmt.Sprintf("n=%d size=6", n)))); o.tokens != n {
						b.Errorf("got %d tokens, %v", o.tokens, o.err)
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkCall: a call there and back.
func BenchmarkCall(b *testing.B) {
	c := pair(b, new(fake))
	for b.Loop() {
		if _, err := c.Count(b.Context(), request("x")); err != nil {
			b.Fatal(err)
		}
	}
}
