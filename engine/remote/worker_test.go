//go:build linux

package remote

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"iter"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
)

var rounds = flag.Int("rounds", 2, "how often each fault is tried on a worker process")

// workerMain is the test binary as a worker process.
func workerMain(mode string) int {
	switch mode {
	case "parent": // a gateway that the test kills
		return parentMain()
	case "sandbox":
		return sandboxMain()
	case "once":
		exe, err := os.Readlink("/proc/self/exe")
		fmt.Println(exe, err)
		return 0
	case "image-refused", "image-parent":
		return imageMain(mode)
	}
	conn, err := Inherited()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Fprintln(os.Stderr, "worker up")
	if err := Serve(context.Background(), conn, &faulty{conn: conn}, ServeOptions{Build: "b", Note: func() string { return "a note" }}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// faulty is a fake that breaks its process, where the prompt says "fault=...".
type faulty struct {
	fake
	conn net.Conn
}

func (f *faulty) Generate(ctx context.Context, r *infer.Request) iter.Seq2[infer.Event, error] {
	_, fault, _ := strings.Cut(r.Prompts[0].Text, "fault=")
	seq := f.fake.Generate(ctx, r)
	return func(yield func(infer.Event, error) bool) {
		n := 0
		for ev, err := range seq {
			if !yield(ev, err) {
				return
			}
			if n++; n == 3 && fault != "" {
				time.Sleep(5 * time.Millisecond) // let the events go
				f.do(fault)
			}
		}
	}
}

func (f *faulty) do(fault string) {
	batch := appendFrame(nil, frameBatch, 0, appendItem(nil, 1, itemEnd, nil))
	switch fault {
	case "exit":
		os.Exit(137)
	case "panic":
		go panic("test")
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "stop":
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "garbage":
		f.conn.Write([]byte(strings.Repeat("garbage ", 10)))
	case "half":
		f.conn.Write(batch[:len(batch)-2])
		os.Exit(0)
	case "oversize":
		huge := appendFrame(nil, frameBatch, 0, nil)
		huge[19] = 0x7f
		f.conn.Write(huge)
	case "checksum":
		batch[len(batch)-1] ^= 1
		f.conn.Write(batch)
	case "close":
		f.conn.Close()
	}
	time.Sleep(time.Hour)
}

var faults = []string{"exit", "panic", "kill", "stop", "garbage", "half", "oversize", "checksum", "close"}

// testCommand starts this binary again as a worker.
func testCommand(mode string, stderr func(string)) *Command {
	return &Command{
		Args: []string{"-test.run=^$"}, Env: append(os.Environ(), "HEARTH_TEST_WORKER="+mode, "GOTRACEBACK=none"),
		Stderr: stderr,
	}
}

// openFDs counts this process's descriptors.
func openFDs(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestFaults breaks a worker process in every way in the middle of streams:
// each stream ends with an error that says it was cut, a new worker is there
// soon, and nothing is leaked.
func TestFaults(t *testing.T) {
	fds, goroutines := openFDs(t), runtime.NumGoroutine()
	var mu sync.Mutex
	lines := 0
	const silence = 1500 * time.Millisecond
	s := Supervise(testCommand("serve", func(string) { mu.Lock(); lines++; mu.Unlock() }), SupervisorOptions{
		Build: "b", Beat: 50 * time.Millisecond, Silence: silence, Settled: time.Millisecond,
	})
	defer s.Close()
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	worst := map[string]time.Duration{}
	lost := uint64(0)
	for range *rounds {
		for _, fault := range faults {
			breakOnce(t, s, fault, silence, worst)
			lost++
		}
	}
	h := s.Health(t.Context())
	if h.Stats.WorkerRestarts != lost {
		t.Errorf("%d restarts, want %d", h.Stats.WorkerRestarts, lost)
	}
	s.Close()
	wait(t, "descriptors to be closed", func() bool { return openFDs(t) <= fds })
	wait(t, "goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	if kids := children(t); len(kids) != 0 {
		t.Errorf("child processes are left: %v", kids)
	}
	mu.Lock()
	defer mu.Unlock()
	if lines < int(lost) {
		t.Errorf("got %d lines of output of %d workers", lines, lost+1)
	}
	t.Logf("%d workers lost; worst times: %v", lost, worst)
}

func breakOnce(t *testing.T, s *Supervisor, fault string, silence time.Duration, worst map[string]time.Duration) {
	t.Helper()
	pid := s.PID()
	var wg sync.WaitGroup
	started := make(chan struct{}, 5)
	ended := make([]time.Time, 5)
	for i := range 5 {
		prompt := "hang"
		if i == 4 {
			for range 4 {
				<-started
			}
			prompt = "n=9 fault=" + fault
		}
		wg.Go(func() {
			tokens := 0
			var last error
			for ev, err := range s.Generate(context.Background(), request(prompt)) {
				last = err
				if tokens += ev.Tokens; ev.Tokens > 0 {
					started <- struct{}{}
				}
			}
			ended[i] = time.Now()
			if tokens == 0 {
				started <- struct{}{}
			}
			e := infer.AsError(last)
			// The last stream's own tokens may still lie in the worker.
			if last == nil || e.Code != infer.CodeUnavailable || e.NoRetry != (tokens > 0) || e.Cause == nil || tokens == 0 && i < 4 {
				t.Errorf("%s: stream %d got %v (%v) after %d tokens", fault, i, e, e.Cause, tokens)
			}
		})
	}
	// The fault strikes with the third event of the last stream.
	<-started
	began := time.Now()
	wg.Wait()
	bound := time.Second
	if fault == "stop" {
		bound += silence
	}
	for _, at := range ended {
		d := at.Sub(began)
		worst[fault] = max(worst[fault], d)
		if d > bound {
			t.Errorf("%s: a stream ended after %v, want at most %v", fault, d, bound)
		}
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready := time.Since(began)
	worst["ready"] = max(worst["ready"], ready)
	if limit := 5*time.Second + bound; ready > limit {
		t.Errorf("%s: the next worker is ready after %v", fault, ready)
	}
	if s.PID() == pid {
		t.Errorf("%s: the worker is the same", fault)
	}
	if o := drain(s.Generate(t.Context(), request("n=3"))); o.err != nil || o.tokens != 3 {
		t.Errorf("%s: the next worker gives %+v", fault, o)
	}
}

// children lists processes whose parent is this one.
func children(t testing.TB) []string {
	var kids []string
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			kids = append(kids, string(b))
		}
	}
	return kids
}

func TestNoteAndOutput(t *testing.T) {
	got := make(chan string, 10)
	s := Supervise(testCommand("serve", func(l string) { got <- l }), SupervisorOptions{Build: "b", Beat: 20 * time.Millisecond})
	defer s.Close()
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l := <-got; l != "worker up" {
		t.Errorf("got line %q", l)
	}
	wait(t, "the note", func() bool { return s.Note() == "a note" })
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", s.PID())); err != nil || strings.TrimSpace(string(b)) != workerOOMScore {
		t.Errorf("oom_score_adj is %q, %v", b, err)
	}
}

func TestCannotStart(t *testing.T) {
	s := Supervise(&Command{Path: "/no/such/file"}, SupervisorOptions{})
	defer s.Close()
	wait(t, "the reason", func() bool { return strings.Contains(s.Health(t.Context()).Reason, "no such file") })
	wrong := Supervise(testCommand("sandbox", nil), SupervisorOptions{Build: "b"}) // ends without a word
	defer wrong.Close()
	wait(t, "the reason", func() bool { return strings.Contains(wrong.Health(t.Context()).Reason, "cannot shake hands") })
}

// parentMain supervises a worker, prints its id and waits to be killed.
func parentMain() int {
	s := Supervise(testCommand("serve", nil), SupervisorOptions{Build: "b", Beat: 20 * time.Millisecond})
	if err := s.WaitReady(context.Background()); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(s.PID())
	time.Sleep(time.Hour)
	return 0
}

// gateway starts this test program as a gateway of its own, which starts a worker
// and tells its process.
func gateway(t *testing.T, mode string) (cmd *exec.Cmd, worker int) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Env = append(os.Environ(), "HEARTH_TEST_WORKER="+mode)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if worker, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatalf("got %q", line)
	}
	return cmd, worker
}

// TestParentDeath: a worker does not outlive the gateway, even one that is
// stopped and sees no closed connection.
func TestParentDeath(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		cmd, pid := gateway(t, "parent")
		if stopped {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		cmd.Process.Kill()
		cmd.Wait()
		wait(t, "the worker to end", func() bool {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(b), ") Z ")
		})
	}
}
