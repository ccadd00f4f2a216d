package store

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var kills = flag.Int("kills", 3, "how often TestKill kills its child")

// killChild, if set, is the database that this process works on until killed.
const killChild = "HEARTH_STORE_KILL_CHILD"

func TestMain(m *testing.M) {
	journalBytes = 64 << 10 // so that it comes round
	if path := os.Getenv(killChild); path != "" {
		if err := killedWorker(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// killCap is small enough to be reached by the writers of one life.
const killCap = 30_000

// killedWorker runs 64 writers that say on stdout what has been acknowledged to
// them, after it was.
func killedWorker(path string) error {
	s, err := Open(path, Options{BallastBytes: -1})
	if err != nil {
		return err
	}
	life := time.Now().UnixNano()
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		fmt.Printf(format+"\n", args...) // one write, unbuffered
		mu.Unlock()
	}
	say("up %d", life)
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", life, w, i)
				amount := 1 + rand.Int64N(100)
				c := []Charge{{"life", strconv.FormatInt(life, 10), killCap}, {"w" + strconv.Itoa(w%4), "total", 1 << 40}}
				if _, err := s.Hold(context.Background(), hold(id, amount, c...)); err != nil {
					say("refused")
					time.Sleep(5 * time.Millisecond)
					continue
				}
				say("held %s %d", id, amount)
				if i%10 == 0 {
					o := Once{ID: OnceID("k", id), RequestID: id, Expires: time.Now().Add(time.Hour)}
					if _, err := s.ClaimOnce(context.Background(), o, "", 0); err == nil {
						say("claimed %s", id)
					}
					if s.KeepOnce(o.ID, id, someAnswer, 0) == nil {
						say("kept %s", id)
					}
				}
				switch rand.IntN(4) {
				case 0:
					if _, err := s.Release(id, Result{Outcome: OutcomeError}); err == nil {
						say("ended %s 0", id)
					}
				default:
					charge := rand.Int64N(amount) + 1
					if _, err := s.Settle(id, used(charge)); err == nil {
						say("ended %s %d", id, charge)
					}
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// TestKill kills a process in the middle of its writes, again and again, on one
// database. Nothing that was acknowledged may be lost or doubled; what was held
// must end in full; no cap may be passed; the whole must check.
func TestKill(t *testing.T) {
	var path string
	allAcked, allHeld := map[string]int64{}, map[string]int64{}
	total := 0
	for round := range *kills {
		if round%25 == 0 { // a fresh database now and then, or each check takes longer
			path = filepath.Join(tempDir(t), fmt.Sprint(round, ".db"))
			clear(allAcked)
			clear(allHeld)
		}
		acked := map[string]int64{} // ended request -> charge
		held := map[string]int64{}  // held, end not acknowledged
		claims := map[string]bool{} // claimed -> kept
		life := ""
		for _, line := range killOnce(t, path) {
			f := strings.Fields(line)
			switch {
			case len(f) == 2 && f[0] == "up":
				life = f[1]
			case len(f) == 2 && (f[0] == "claimed" || f[0] == "kept"):
				claims[f[1]] = f[0] == "kept"
			case len(f) == 3 && f[0] == "held":
				held[f[1]], _ = strconv.ParseInt(f[2], 10, 64)
			case len(f) == 3 && f[0] == "ended":
				acked[f[1]], _ = strconv.ParseInt(f[2], 10, 64)
				delete(held, f[1])
			}
		}
		s, err := Open(path, Options{BallastBytes: -1})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		rep := checkOK(t, s)
		if rep.OpenHolds != 0 {
			t.Errorf("round %d: %d holds are open after opening", round, rep.OpenHolds)
		}
		verifyAcked(t, s, acked, held)
		verifyClaims(t, s, claims)
		b, err := s.Balance("life", life)
		if err != nil || b.SpentNano > killCap || b.HeldNano != 0 {
			t.Errorf("round %d: balance %+v, %v", round, b, err)
		}
		maps.Copy(allAcked, acked)
		maps.Copy(allHeld, held)
		total += len(acked)
		if round == *kills-1 || round%25 == 24 {
			verifyAcked(t, s, allAcked, allHeld)
		}
		s.Close()
		if t.Failed() {
			t.Fatalf("round %d of %d", round, *kills)
		}
	}
	t.Logf("%d kills: %d acknowledged ends, none lost or changed", *kills, total)
}

// verifyClaims finds each claim that was acknowledged, with its answer if that
// was.
func verifyClaims(t *testing.T, s *Store, claims map[string]bool) {
	for id, kept := range claims {
		o := Once{ID: OnceID("k", id), RequestID: "repeat", Expires: time.Now().Add(time.Hour)}
		first, err := s.ClaimOnce(context.Background(), o, "", 0)
		if err != nil || first == nil || first.RequestID != id || kept && (first.State != OnceKept || string(first.Answer.Body) != string(someAnswer.Body)) {
			t.Errorf("claim of %s, kept %t: %+v, %v", id, kept, first, err)
		}
	}
}

// verifyAcked looks up every request that was acknowledged.
func verifyAcked(t *testing.T, s *Store, acked, held map[string]int64) {
	for id, charge := range acked {
		row, err := s.rowOf(id)
		if err != nil || row.ChargeNano != charge || row.Outcome == OutcomeOpen {
			t.Errorf("acknowledged %s at %d: %+v, %v", id, charge, row, err)
		}
	}
	for id, amount := range held {
		row, err := s.rowOf(id)
		// Its end may have been written without the acknowledgement arriving.
		full := row.Outcome == OutcomeUnknown && row.ChargeNano == amount
		ended := row.Outcome != OutcomeUnknown && row.Outcome != OutcomeOpen && row.ChargeNano <= amount
		if err != nil || !full && !ended {
			t.Errorf("held %s at %d: %+v, %v", id, amount, row, err)
		}
	}
}

// killOnce runs the child, kills it at a random moment after it is up, and
// gives all that it said.
func killOnce(t *testing.T, path string) []string {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killChild+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var lines []string
	r := bufio.NewReader(out)
	killed := false
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a half line was never acknowledged
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.TrimSpace(line))
		if !killed {
			killed = true
			time.AfterFunc(time.Duration(rand.Int64N(int64(200*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		}
	}
	_ = cmd.Wait()
	return lines
}
