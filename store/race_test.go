package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var raceOps = flag.Int("raceops", 40, "operations of each of the 64 workers of TestConcurrent")

// TestConcurrent races 64 workers against small caps while others read. At
// every moment that a reader sees, spent + held less overdraft ≤ cap, and in the
// end the sums are exactly what the workers were told.
func TestConcurrent(t *testing.T) {
	s := open(t, Options{})
	ctx := context.Background()
	const capNano = 2_000
	var spent [4]atomic.Int64
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() { watch(t, s, capNano, stop) })
	}
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 7))
			for i := range *raceOps {
				id := fmt.Sprintf("%d-%d", w, i)
				a, b := r.IntN(4), r.IntN(4)
				charges := []Charge{{fmt.Sprint("b", a), "total", capNano}}
				if a != b {
					charges = append(charges, Charge{fmt.Sprint("b", b), "total", capNano})
				}
				amount := r.Int64N(40)
				_, err := s.Hold(ctx, hold(id, amount, charges...))
				var be *BudgetError
				if errors.As(err, &be) {
					if be.SpentNano+be.HeldNano+amount <= capNano {
						t.Errorf("refused what fits: %v", err)
					}
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				charge := r.Int64N(amount+1) / 4
				if _, err := s.Settle(id, used(charge)); err != nil {
					t.Error(err)
				}
				if _, err := s.Settle(id, used(charge)); !errors.Is(err, ErrResolved) {
					t.Errorf("settled twice: %v", err)
				}
				spent[a].Add(charge)
				if a != b {
					spent[b].Add(charge)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	for i := range spent {
		wantBalance(t, s, fmt.Sprint("b", i), "total", spent[i].Load(), 0)
	}
}

// watch reads all that can be read until stop.
func watch(t *testing.T, s *Store, capNano int64, stop chan struct{}) {
	ctx := context.Background()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		b, err := s.Balance(fmt.Sprint("b", i%4), "total")
		if err != nil || b.SpentNano+b.HeldNano > capNano {
			t.Errorf("balance %+v, %v", b, err)
		}
		s.Stats()
		if _, err := s.List(ctx, Filter{Limit: 5}); err != nil {
			t.Errorf("list: %v", err)
		}
		time.Sleep(100 * time.Microsecond)
		if i%100 == 0 {
			if rep, err := s.Check(ctx); err != nil || !rep.OK() {
				t.Errorf("check: %v %+v", err, rep.Faults)
			}
		}
	}
}
