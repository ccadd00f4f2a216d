package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"hearth/appliance"
	"hearth/engine/weights/gguftest"
	"hearth/kernels"
)

// TestMain lets the test binary be the program: a script's `hearth` and every
// process that this starts (workers, background servers) run it again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == appliance.WorkerCommand {
		main() // a worker is started by /proc/self/exe and has no name of its own
	}
	testscript.Main(m, map[string]func(){"hearth": main})
}

// TestScripts drives the whole program from the scripts in testdata/script.
// A script has $MODEL, a tiny model with random weights.
func TestScripts(t *testing.T) {
	model, err := os.ReadFile(gguftest.WriteLlama(t, gguftest.Options{Seed: 1, Context: 8192, Type: kernels.Q8_0}))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			path := filepath.Join(e.WorkDir, "tiny.gguf")
			e.Setenv("MODEL", path)
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_DATA_HOME", "")
			return os.WriteFile(path, model, 0o600)
		},
		Condition: func(cond string) (bool, error) {
			if cond == "embedded" {
				return appliance.HasEmbeddedModel(), nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": cmdServe, "signal": cmdSignal, "ask": cmdAsk, "field": cmdField, "until": cmdUntil,
			"stream": cmdStream, "ended": cmdEnded, "stopped": cmdStopped,
		},
	})
}

// server is one running server of a script.
type server struct {
	cmd  *exec.Cmd
	done chan error
}

// servers and streams are those of the scripts that run now, by script.
var servers, streams sync.Map

func serverOf(ts *testscript.TestScript) *server {
	s, ok := servers.Load(ts)
	if !ok {
		ts.Fatalf("no server has been started")
	}
	return s.(*server)
}

// serve DIR [flag…] starts `hearth serve` on a free port and waits until it is
// ready (or, negated, until it answers at all). Its output goes to DIR.out and
// DIR.log. One server a script; it is killed at the end.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: serve DIR [flag…]")
	}
	dir := ts.MkAbs(args[0])
	exe, err := exec.LookPath(filepath.Join(filepath.SplitList(ts.Getenv("PATH"))[0], "hearth"))
	ts.Check(err)
	cmd := exec.Command(exe, append([]string{"serve", "--data", dir, "--listen", "localhost:0"}, args[1:]...)...)
	cmd.Env = []string{"HOME=" + ts.Getenv("WORK"), "PATH=" + ts.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.Dir = ts.Getenv("WORK")
	out, err := os.Create(dir + ".out")
	ts.Check(err)
	log, err := os.Create(dir + ".log")
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = out, log
	ts.Check(cmd.Start())
	s := &server{cmd, make(chan error, 1)}
	servers.Store(ts, s)
	go func() { s.done <- cmd.Wait(); out.Close(); log.Close() }()
	ts.Defer(func() { cmd.Process.Kill() })
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-s.done:
			ts.Fatalf("the server ended: %v\n%s", err, ts.ReadFile(dir+".log"))
		default:
		}
		base := announced(dir + ".out")
		if base == "" {
			continue
		}
		ts.Setenv("BASE", base)
		status, _, err := get(dir, base, "GET", "/readyz", "", "")
		if err == nil && (status == http.StatusOK) != neg {
			return
		}
	}
	ts.Fatalf("the server is not ready\n%s", ts.ReadFile(dir+".log"))
}

// announced finds the base URL in what a server has printed.
func announced(file string) string {
	b, _ := os.ReadFile(file)
	_, rest, ok := strings.Cut(string(b), "  api ")
	if !ok || !strings.Contains(rest, "\n") {
		return ""
	}
	return strings.TrimSuffix(strings.Fields(rest)[0], "/v1")
}

// signal NAME [wait]: sends HUP, TERM or KILL; with wait the server must end,
// with exit 0 unless it was killed.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	s := serverOf(ts)
	if len(args) < 1 {
		ts.Fatalf("usage: signal HUP|TERM|KILL [wait], after serve")
	}
	sig := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[args[0]]
	ts.Check(s.cmd.Process.Signal(sig))
	if len(args) < 2 {
		return
	}
	s.stopped(ts, sig == syscall.SIGKILL)
}

// stopped waits until the server has ended, with exit 0.
func cmdStopped(ts *testscript.TestScript, neg bool, args []string) { serverOf(ts).stopped(ts, false) }

func (s *server) stopped(ts *testscript.TestScript, killed bool) {
	select {
	case err := <-s.done:
		if err != nil && !killed {
			ts.Fatalf("the server ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		ts.Fatalf("the server goes on")
	}
}

// stream DIR BODY opens a streamed completion and waits for its first event.
func cmdStream(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	r, done, err := request(context.Background(), dir, ts.Getenv("BASE"), "POST", "/v1/completions", ts.Getenv("KEY"), args[1])
	ts.Check(err)
	first := make([]byte, 6)
	if _, err := io.ReadFull(r.Body, first); err != nil || string(first) != "data: " {
		ts.Fatalf("got status %d, %q, %v, wanted a stream", r.StatusCode, first, err)
	}
	all := make(chan string, 1)
	streams.Store(ts, all)
	go func() {
		defer done()
		b, err := io.ReadAll(r.Body)
		all <- fmt.Sprintf("%s\n%v", b, err)
	}()
}

// ended TEXT waits for the end of the stream, which must have TEXT.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	open, ok := streams.Load(ts)
	if !ok {
		ts.Fatalf("no stream has been opened")
	}
	select {
	case all := <-open.(chan string):
		if strings.Contains(all, args[0]) == neg {
			ts.Fatalf("the stream ended with %q", all[max(0, len(all)-500):])
		}
	case <-time.After(30 * time.Second):
		ts.Fatalf("the stream does not end")
	}
}

// ask DIR STATUS METHOD PATH [BODY]: asks the running server with $KEY and
// wants STATUS. The answer with its head becomes DIR.answer.
func cmdAsk(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 4 {
		ts.Fatalf("usage: ask DIR STATUS METHOD PATH [BODY]")
	}
	dir, body := ts.MkAbs(args[0]), ""
	if len(args) > 4 {
		body = args[4]
	}
	status, answer, err := get(dir, ts.Getenv("BASE"), args[2], args[3], ts.Getenv("KEY"), body)
	ts.Check(err)
	ts.Check(os.WriteFile(dir+".answer", []byte(answer), 0o600))
	if want, _ := strconv.Atoi(args[1]); (status == want) == neg {
		ts.Fatalf("got status %d, wanted %s\n%s", status, args[1], answer)
	}
}

// get makes one request and reads the whole answer.
func get(dir, base, method, path, key, body string) (int, string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, done, err := request(ctx, dir, base, method, path, key, body)
	if err != nil {
		return 0, "", err
	}
	defer done()
	var head strings.Builder
	fmt.Fprintf(&head, "status: %d\n", r.StatusCode)
	for name, values := range r.Header {
		fmt.Fprintf(&head, "%s: %s\n", strings.ToLower(name), strings.Join(values, ", "))
	}
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, head.String() + "\n" + string(b), err
}

// request sends one request over TLS with the server's own root. done gives
// everything back.
func request(ctx context.Context, dir, base, method, path, key, body string) (*http.Response, func(), error) {
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		return nil, nil, err
	}
	pool.AppendCertsFromPEM(pem)
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	r, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		t.CloseIdleConnections()
		return nil, nil, err
	}
	return r, func() { r.Body.Close(); t.CloseIdleConnections() }, nil
}

// field VAR FILE NAME: sets a variable to a field of a JSON file; NAME may be a
// path with dots, FILE may be stdout.
func cmdField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: field VAR FILE NAME")
	}
	text := ts.ReadFile(args[1])
	if i := strings.Index(text, "\n\n"); strings.HasPrefix(text, "status: ") && i > 0 {
		text = text[i:]
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		ts.Fatalf("%s: %v\n%s", args[1], err, text)
	}
	for _, name := range strings.Split(args[2], ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			i, _ := strconv.Atoi(name)
			if i >= len(x) {
				ts.Fatalf("%s: no element %d", args[1], i)
			}
			v = x[i]
		default:
			ts.Fatalf("%s: no field %s", args[1], args[2])
		}
	}
	ts.Setenv(args[0], fmt.Sprint(v))
}

// until FILE TEXT waits until a file has a text.
func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: until FILE TEXT")
	}
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if b, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(b), args[1]) {
			return
		}
	}
	ts.Fatalf("%s never had %q\n%s", args[0], args[1], ts.ReadFile(args[0]))
}
