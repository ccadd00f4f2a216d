package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
)

// The simulation drives one store with random operations, crashes, commit
// faults and clock jumps, and compares it after every step with a model that is
// nothing but maps. Invariants:
//
//   - a hold is granted exactly when spent + held + amount ≤ cap for all its budgets
//   - committed + held ≤ cap except for overdrafts booked as such
//   - an acknowledged operation is never lost; one whose commit failed is undone
//     (a hold) or done (an end) by Reopen, and by Open after a crash charged in full
//   - Check finds nothing
var (
	simSeed  = flag.Uint64("seed", 0, "seed of the first simulation; 0: by the clock")
	simRuns  = flag.Int("sims", 4, "simulations to run, with seeds in a row")
	simSteps = flag.Int("steps", 250, "steps of one simulation")
)

type modelHold struct {
	amount  int64
	charges []Charge
}

type model struct {
	spent, held map[string]int64 // by budget and window
	open        map[string]modelHold
	ids         []string // of open holds, in order
	ended       map[string]int64
}

func (m *model) fits(h HoldRequest) bool {
	for _, c := range h.Charges {
		k := balanceKey(c.Budget, c.Window)
		if m.spent[k]+m.held[k]+h.AmountNano > c.CapNano {
			return false
		}
	}
	return true
}

func (m *model) hold(h HoldRequest) {
	for _, c := range h.Charges {
		m.held[balanceKey(c.Budget, c.Window)] += h.AmountNano
	}
	m.open[h.Opening.RequestID] = modelHold{h.AmountNano, h.Charges}
	m.ids = append(m.ids, h.Opening.RequestID)
}

func (m *model) end(id string, charge int64) {
	h := m.open[id]
	for _, c := range h.charges {
		k := balanceKey(c.Budget, c.Window)
		m.held[k] -= h.amount
		m.spent[k] += charge
	}
	delete(m.open, id)
	for i, v := range m.ids {
		if v == id {
			m.ids = append(m.ids[:i:i], m.ids[i+1:]...)
			break
		}
	}
	m.ended[id] = charge
}

type sim struct {
	t     *testing.T
	r     *rand.Rand
	path  string
	s     *Store
	m     model
	clock time.Time
	next  int
	fault error  // what the next commit meets
	at    string // and where
}

func TestSimulation(t *testing.T) {
	seed := *simSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	for i := range uint64(*simRuns) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) { simulate(t, seed+i) })
	}
}

func simulate(t *testing.T, seed uint64) {
	m := &sim{t: t, r: rand.New(rand.NewPCG(seed, 1)), path: filepath.Join(tempDir(t), "h.db"),
		m:     model{map[string]int64{}, map[string]int64{}, map[string]modelHold{}, nil, map[string]int64{}},
		clock: time.Date(2026, 3, 28, 22, 0, 0, 0, time.UTC)}
	m.start()
	for range *simSteps {
		m.step()
		if t.Failed() {
			return
		}
	}
	m.crash()
	checkOK(t, m.s)
	m.s.Close()
}

func (m *sim) start() {
	s, err := Open(m.path, Options{BallastBytes: -1, retryAfter: time.Hour, Now: func() time.Time { return m.clock },
		fault: func(point string) error {
			if point == m.at {
				m.at = ""
				return m.fault
			}
			return nil
		}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.s = s
}

// crash ends this life without ending the holds. Closing is not what a crash
// does, but leaves the same in the file; the kill test does the real thing.
func (m *sim) crash() {
	m.s.Close()
	m.start()
	if got := m.s.Recovery().Orphans; got != len(m.m.open) {
		m.t.Fatalf("%d orphans, want %d", got, len(m.m.open))
	}
	for len(m.m.ids) > 0 {
		m.m.end(m.m.ids[0], m.m.open[m.m.ids[0]].amount)
	}
	m.compare()
}

func (m *sim) step() {
	m.s.full.Store(false) // as the committer does within a second
	switch n := m.r.IntN(100); {
	case n < 45:
		m.hold()
	case n < 80:
		m.end()
	case n < 84:
		m.clock = m.clock.Add(time.Duration(m.r.Int64N(int64(48*time.Hour))) - 20*time.Hour)
	case n < 92:
		m.arm()
	case n < 94:
		m.crash()
	case n < 96:
		checkOK(m.t, m.s)
	default:
		m.compare()
	}
}

// arm makes the next commit fail: before it could be written, or after it was,
// for a reason that heals at once (no space) or not.
func (m *sim) arm() {
	m.at = []string{"before commit", "after commit"}[m.r.IntN(2)]
	m.fault = []error{syscall.EIO, fmt.Errorf("write: %w", syscall.ENOSPC)}[m.r.IntN(2)]
}

func (m *sim) hold() {
	m.next++
	loc, _ := time.LoadLocation("Europe/Berlin")
	h := hold(fmt.Sprintf("r%06d", m.next), m.r.Int64N(60))
	for i, p := range []Period{Day, Month, Total} {
		if m.r.IntN(3) > 0 {
			w, err := WindowAt(p, loc, m.clock)
			if err != nil {
				m.t.Fatal(err)
			}
			h.Charges = append(h.Charges, Charge{fmt.Sprintf("tenant/%d/%s", m.r.IntN(2), p), w.ID, int64(100 * (i + 1) * (i + 1))})
		}
	}
	armed := m.at != ""
	_, err := m.s.Hold(context.Background(), h)
	var be *BudgetError
	switch fits := m.m.fits(h); {
	case errors.As(err, &be):
		if fits {
			m.t.Fatalf("refused what fits: %v", err)
		}
	case err == nil && fits && !(armed && m.at == ""):
		m.m.hold(h)
	case err != nil && armed && m.at == "": // the fault struck: the hold must come to nothing
		m.recover(err)
		m.compare()
		if _, err := m.s.Settle(h.Opening.RequestID, used(1)); err == nil {
			m.t.Fatalf("a hold whose commit failed is still open")
		}
	default:
		m.t.Fatalf("hold: %v, fits: %t", err, fits)
	}
}

func (m *sim) end() {
	if len(m.m.ids) == 0 {
		return
	}
	id := m.m.ids[m.r.IntN(len(m.m.ids))]
	h := m.m.open[id]
	var err error
	var charge int64
	switch m.r.IntN(8) {
	case 0:
		_, err = m.s.Release(id, Result{Outcome: OutcomeError})
	case 1:
		charge = h.amount
		_, err = m.s.Expire(id, "lost")
	case 2:
		charge = h.amount + 1 + m.r.Int64N(20) // overdraft
		_, err = m.s.Settle(id, used(charge))
	default:
		charge = m.r.Int64N(h.amount + 1)
		_, err = m.s.Settle(id, used(charge))
	}
	if err != nil {
		if !errors.Is(err, ErrUnknownOutcome) {
			m.t.Fatalf("end of %s: %v", id, err)
		}
		m.recover(err)
	}
	m.s.full.Store(false) // as the committer does within a second
	m.m.end(id, charge)
	m.compare()
}

// recover reopens a store that failed. Nothing may be granted before.
func (m *sim) recover(err error) {
	if infer.AsError(err).Code != infer.CodeUnavailable {
		m.t.Fatalf("a failed commit was answered with %v", err)
	}
	if m.s.failure.Load() != nil {
		if _, err := m.s.Hold(context.Background(), hold("never", 0)); err == nil {
			m.t.Fatal("a failed store granted a hold")
		}
	}
	if err := m.s.Reopen(); err != nil {
		m.t.Fatalf("reopen: %v", err)
	}
	m.s.full.Store(false) // as the committer does within a second
}

func (m *sim) compare() {
	m.t.Helper()
	seen := map[string]bool{}
	for _, sums := range []map[string]int64{m.m.spent, m.m.held} {
		for k := range sums {
			if seen[k] {
				continue
			}
			seen[k] = true
			budget, window, _ := cutBalanceKey(k)
			b, err := m.s.Balance(budget, window)
			if err != nil || b.SpentNano != m.m.spent[k] || b.HeldNano != m.m.held[k] {
				m.t.Fatalf("%q: spent %d held %d (%v), model %d, %d", k, b.SpentNano, b.HeldNano, err, m.m.spent[k], m.m.held[k])
			}
		}
	}
}
