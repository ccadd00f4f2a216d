package store

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPairs measures hold + settle pairs, each acknowledged after its
// commit, against two budgets, on the disk of the test's folder. It reports the
// pairs a second, how many operations shared a commit, and the latency of the
// holds. Writers come as closed loops.
func BenchmarkPairs(b *testing.B) {
	for _, writers := range []int{1, 16, 32, 64, 256, 1024} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) { benchPairs(b, writers) })
	}
}

func benchPairs(b *testing.B, writers int) {
	defer func(n int64) { journalBytes = n }(journalBytes)
	journalBytes = 2 << 20
	s, err := Open(filepath.Join(b.TempDir(), "h.db"), Options{BallastBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	var next atomic.Int64
	lat := make([][]time.Duration, writers)
	var wg sync.WaitGroup
	cpu := cpuTime(b)
	b.ResetTimer()
	for w := range writers {
		wg.Go(func() {
			charges := []Charge{{"tenant/acme/month", "2026-01", 1 << 60}, {fmt.Sprintf("key/%d/day", w%16), "2026-01-01", 1 << 60}}
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					return
				}
				id := fmt.Sprintf("req-%019d", i)
				began := time.Now()
				if _, err := s.Hold(ctx, hold(id, 1000, charges...)); err != nil {
					b.Error(err)
					return
				}
				lat[w] = append(lat[w], time.Since(began))
				if _, err := s.Settle(id, used(700)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-us/pair")
	all := slices.Concat(lat...)
	slices.Sort(all)
	st := s.Stats()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(st.Ops)/float64(max(st.Commits, 1)), "ops/commit")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "hold-p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "hold-p99-ms")
	b.ReportMetric(float64(st.FileBytes)/float64(b.N), "B/pair")
}

// cpuTime is what the process has used so far, in user and system mode.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkRead measures opening, checking and listing a ledger of 10 000
// requests; sizes scale.
func BenchmarkRead(b *testing.B) {
	path := filepath.Join(b.TempDir(), "h.db")
	s, err := Open(path, Options{BallastBytes: -1})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	var wg sync.WaitGroup
	for w := range 500 {
		wg.Go(func() {
			for i := range 20 {
				id := fmt.Sprintf("req-%d-%d", w, i)
				mustHold(b, s, hold(id, 10, Charge{"b", "total", 1 << 50}))
				if _, err := s.Settle(id, used(9)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			checkOK(b, s)
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if p, err := s.List(ctx, Filter{Tenant: "nobody"}); err != nil || len(p.Rows) != 0 {
				b.Fatal(err)
			}
		}
	})
	b.Run("show", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Show(ctx, "req-7-7"); err != nil {
				b.Fatal(err)
			}
		}
	})
	s.Close()
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(path, Options{BallastBytes: -1})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			s.Close()
			b.StartTimer()
		}
	})
}
