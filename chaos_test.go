package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hearth/appliance"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// chaosRounds is how often TestKill kills: a few by default, HEARTH_CHAOS=100
// for the whole campaign.
func chaosRounds(t *testing.T) int {
	if s := os.Getenv("HEARTH_CHAOS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 0
	}
	return 3
}

// selfServer is this test binary running `hearth serve`.
type selfServer struct {
	cmd  *exec.Cmd
	dir  string
	base string
	key  string
}

// asProgram makes a link to the test binary under the program's name, by which
// TestMain knows what to be.
func asProgram(t *testing.T) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "hearth")
	if err := os.Symlink(exe, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func startSelf(t *testing.T, exe, dir, conf string) *selfServer {
	t.Helper()
	out := dir + ".out"
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(dir+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer log.Close()
	s := &selfServer{cmd: exec.Command(exe, "serve", "--data", dir, "--config", conf, "--listen", "localhost:0"), dir: dir}
	s.cmd.Stdout, s.cmd.Stderr = f, log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if s.base = announced(out); s.base == "" {
			continue
		}
		if status, _, err := get(dir, s.base, "GET", "/readyz", "", ""); err == nil && status == http.StatusOK {
			return s
		}
	}
	b, _ := os.ReadFile(dir + ".log")
	t.Fatalf("the server is not ready\n%s", b)
	return nil
}

// command runs `hearth args… --data DIR --json` and decodes what it prints.
func command(t *testing.T, exe, dir string, into any, args ...string) {
	t.Helper()
	cmd := exec.Command(exe, append(args, "--data", dir, "--json")...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("hearth %v: %v\n%s%s", args, err, out, errs.Bytes())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("hearth %v: %v\n%s", args, err, out)
	}
}

// TestKill kills the whole appliance at random moments under 16 paid streams.
// After each restart the ledger is whole, every row has an end, and no answer
// that a client has seen the end of is missing.
func TestKill(t *testing.T) {
	rounds := chaosRounds(t)
	if rounds == 0 {
		t.Skip("not with -short")
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HEARTH_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("HEARTH_SEED=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	model := gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Context: 2048, Type: kernels.Q8_0})
	dir := filepath.Join(t.TempDir(), "d")
	conf := filepath.Join(t.TempDir(), "c.toml")
	text := fmt.Sprintf(`price_version = "k"
[[model]]
name = "tiny"
path = %q
[[tenant]]
name = "default"
[[tenant.budget]]
period = "total"
cap_usd = "1.00"
[[price]]
model = "*"
input_usd_per_m = "1.00"
output_usd_per_m = "4.00"
`, model)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	exe := asProgram(t)
	var seen sync.Map // request id → true, of answers seen to their end
	ends := 0
	for round := range rounds {
		s := startSelf(t, exe, dir, conf)
		if round == 0 {
			var first struct {
				Key string `json:"api_key"`
			}
			b, err := os.ReadFile(filepath.Join(dir, "first-run.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(b, &first); err != nil {
				t.Fatal(err)
			}
			t.Setenv("HEARTH_TEST_KEY", first.Key)
		}
		s.key = os.Getenv("HEARTH_TEST_KEY")
		ends += load(s, 16, time.Duration(rng.IntN(1500))*time.Millisecond, rng.Uint64(), &seen)
		var report struct {
			Open   int              `json:"open_holds"`
			Faults []map[string]any `json:"faults"`
		}
		command(t, exe, dir, &report, "ledger", "check")
		if report.Open != 0 || len(report.Faults) != 0 {
			t.Fatalf("round %d: %+v", round, report)
		}
	}
	var rows []struct {
		ID      string `json:"request_id"`
		Outcome string `json:"outcome"`
	}
	command(t, exe, dir, &rows, "ledger", "list", "--limit", "0")
	outcomes, byID := map[string]int{}, map[string]string{}
	for _, r := range rows {
		outcomes[r.Outcome]++
		byID[r.ID] = r.Outcome
	}
	missing := 0
	seen.Range(func(id, _ any) bool {
		if byID[id.(string)] != "complete" {
			missing++
		}
		return true
	})
	if missing > 0 || outcomes["open"] > 0 {
		t.Errorf("%d answers seen to their end are not complete in the ledger; outcomes %v", missing, outcomes)
	}
	t.Logf("%d kills, %d rows, %d answers seen to their end, 0 lost, outcomes %v", rounds, len(rows), ends, outcomes)
}

// load keeps n streams open for a while, then kills the server under them.
func load(s *selfServer, n int, life time.Duration, seed uint64, seen *sync.Map) int {
	var ended atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				body := fmt.Sprintf(`{"model":"tiny","prompt":[5,6,7],"stream":true,"ignore_eos":true,"max_tokens":%d}`, 1+rng.IntN(120))
				r, done, err := request(ctx, s.dir, s.base, "POST", "/v1/completions", s.key, body)
				if err != nil {
					return
				}
				b, _ := io.ReadAll(r.Body)
				if r.StatusCode == http.StatusOK && strings.HasSuffix(strings.TrimSpace(string(b)), "data: [DONE]") {
					seen.Store(r.Header.Get("X-Request-Id"), true)
					ended.Add(1)
				}
				done()
			}
		}()
	}
	time.Sleep(life)
	s.cmd.Process.Kill()
	s.cmd.Wait()
	cancel()
	wg.Wait()
	return int(ended.Load())
}

// TestWorkerLost ends the worker in two ways under open streams: each stream
// ends with an error inside it, is charged for what it delivered, and a new
// worker answers soon; the server itself never stops.
func TestWorkerLost(t *testing.T) {
	if chaosRounds(t) == 0 {
		t.Skip("not with -short")
	}
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("SKIPPED: workers need /proc")
	}
	model := gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Context: 8192, Type: kernels.Q8_0})
	dir := filepath.Join(t.TempDir(), "d")
	conf := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(conf, []byte(fmt.Sprintf("[[model]]\nname = \"tiny\"\npath = %q\n", model)), 0o600); err != nil {
		t.Fatal(err)
	}
	exe := asProgram(t)
	s := startSelf(t, exe, dir, conf)
	defer s.cmd.Process.Kill()
	var first struct {
		Key string `json:"api_key"`
	}
	b, _ := os.ReadFile(filepath.Join(dir, "first-run.json"))
	if err := json.Unmarshal(b, &first); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		const n = 4
		ends := make(chan string, n)
		for range n {
			go func() {
				r, done, err := request(context.Background(), dir, s.base, "POST", "/v1/completions", first.Key,
					`{"model":"tiny","prompt":[5],"stream":true,"ignore_eos":true,"max_tokens":8000}`)
				if err != nil {
					ends <- err.Error()
					return
				}
				defer done()
				b, err := io.ReadAll(r.Body)
				ends <- fmt.Sprintf("%s%v", b[max(0, len(b)-300):], err)
			}()
		}
		time.Sleep(300 * time.Millisecond)
		pid := workerOf(t, s.cmd.Process.Pid)
		syscall.Kill(pid, sig)
		struck := time.Now()
		for range n {
			select {
			case end := <-ends:
				if !strings.Contains(end, `data: {"error"`) || !strings.HasSuffix(end, "<nil>") {
					t.Errorf("%v: a stream ended with %q", sig, end)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%v: a stream does not end", sig)
			}
		}
		t.Logf("%v: streams ended after %v", sig, time.Since(struck).Round(time.Millisecond))
		for {
			if status, _, err := get(dir, s.base, "GET", "/readyz", "", ""); err != nil {
				t.Fatalf("%v: the server does not answer: %v", sig, err)
			} else if status == http.StatusOK && workerOf(t, s.cmd.Process.Pid) != pid {
				break
			}
			if time.Since(struck) > 30*time.Second {
				t.Fatalf("%v: no new worker is ready", sig)
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Logf("%v: ready again after %v", sig, time.Since(struck).Round(time.Millisecond))
	}
	var rows []struct {
		Outcome string `json:"outcome"`
		Usage   struct {
			Output int `json:"output"`
		} `json:"usage"`
	}
	command(t, exe, dir, &rows, "ledger", "list")
	for _, r := range rows {
		if r.Outcome != "partial" || r.Usage.Output == 0 {
			t.Errorf("a row says %+v, wanted a partial answer with its tokens", r)
		}
	}
	if len(rows) != 8 {
		t.Errorf("%d rows, wanted 8", len(rows))
	}
}

// workerOf finds the one child process of pid that is a worker; 0 if there is
// none now.
func workerOf(t *testing.T, pid int) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		b, _ := os.ReadFile(path)
		for _, f := range strings.Fields(string(b)) {
			line, _ := os.ReadFile("/proc/" + f + "/cmdline")
			if strings.Contains(string(line), appliance.WorkerCommand) {
				n, _ := strconv.Atoi(f)
				return n
			}
		}
	}
	return 0
}
