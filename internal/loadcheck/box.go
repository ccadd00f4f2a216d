package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	owner    = "owner"
	password = "correct horse battery staple of loadcheck"
)

// box is a running Hearth.
type box struct {
	o      *options
	dir    string
	cmd    *exec.Cmd
	api    string // https://127.0.0.1:PORT
	admin  string
	key    string
	roots  *x509.CertPool
	ready  time.Duration // from the start of the process
	config string
}

// configText is a gateway in front of base, with the embedded model beside it.
func configText(o *options, base string) string {
	console := fmt.Sprintf("[admin]\nlisten = \"127.0.0.1:%d\"\n", o.port+1)
	if o.old {
		console = ""
	}
	return fmt.Sprintf(`price_version = "load"
[server]
max_requests = 4096
%s[[model]]
name = "hearth-tiny"
path = "embedded"
[[tenant]]
name = "default"
[tenant.limits]
requests_per_minute = 100000000
tokens_per_minute = 1000000000
concurrency = 100000
[[tenant.budget]]
period = "month"
cap_usd = "1000000"
[[upstream]]
name = "mock"
kind = "openai-compatible"
base_url = %q
credential = "env:LOADCHECK_UPSTREAM"
[[route]]
model = "mock"
effect = "read-only"
[[route.candidate]]
upstream = "mock"
model = "mock"
max_output_tokens = 100000
[[price]]
model = "mock"
input_usd_per_m = "0.10"
output_usd_per_m = "0.40"
`, console, base)
}

// start starts a Hearth in a new data directory, or again in one that is there.
func start(ctx context.Context, o *options, name, base string) (*box, error) {
	b := &box{o: o, dir: filepath.Join(o.work, name), api: fmt.Sprintf("https://127.0.0.1:%d", o.port), admin: fmt.Sprintf("https://127.0.0.1:%d", o.port+1)}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	b.config = filepath.Join(b.dir, "appliance.toml")
	if err := os.WriteFile(b.config, []byte(configText(o, base)), 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(o.work, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	b.cmd = exec.Command(o.hearth, "serve", "--data", b.dir, "--listen", fmt.Sprintf("127.0.0.1:%d", o.port))
	b.cmd.Env = append(os.Environ(), "LOADCHECK_UPSTREAM=sk-upstream")
	b.cmd.Stdout, b.cmd.Stderr = log, log
	began := time.Now()
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	if err := b.awaitReady(ctx, began); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

func (b *box) awaitReady(ctx context.Context, began time.Time) error {
	for ; ; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil || time.Since(began) > time.Minute {
			return fmt.Errorf("the server in %s does not become ready", b.dir)
		}
		if b.roots == nil {
			pem, err := os.ReadFile(filepath.Join(b.dir, "ca.pem"))
			if err != nil {
				continue
			}
			b.roots = x509.NewCertPool()
			b.roots.AppendCertsFromPEM(pem)
		}
		if b.key == "" {
			var info struct {
				Key string `json:"api_key"`
			}
			text, err := os.ReadFile(filepath.Join(b.dir, "first-run.json"))
			if err != nil || json.Unmarshal(text, &info) != nil {
				continue
			}
			b.key = info.Key
		}
		resp, err := b.client(nil).Get(b.api + "/health")
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			b.ready = time.Since(began)
			return nil
		}
	}
}

// stop asks the server to end, and waits.
func (b *box) stop() {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = b.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		_ = b.cmd.Process.Kill()
		<-done
	}
}

// client trusts the server's root and keeps its connections.
func (b *box) client(jar http.CookieJar) *http.Client {
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64}}
}

// hearth runs a command beside the server.
func (b *box) hearth(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, b.o.hearth, append(args, "--data", b.dir)...)
	cmd.Stdin = strings.NewReader(stdin)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("hearth %s: %w: %s", strings.Join(args, " "), err, faults.String())
	}
	return out, nil
}

// makeOwner makes the account that signIn uses.
func (b *box) makeOwner(ctx context.Context) error {
	_, err := b.hearth(ctx, password+"\n", "account", "create", owner, "--role", "owner")
	if err != nil && strings.Contains(err.Error(), "already") {
		return nil // the data directory is one of an earlier run
	}
	return err
}

// signIn opens a session.
func (b *box) signIn() (*http.Client, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	c := b.client(jar)
	status, err := b.post(c, "/signin", url.Values{"name": {owner}, "password": {password}})
	if err == nil && status != http.StatusSeeOther {
		err = fmt.Errorf("sign-in: status %d", status)
	}
	return c, err
}

func (b *box) post(c *http.Client, path string, v url.Values) (int, error) {
	r, err := http.NewRequest("POST", b.admin+path, strings.NewReader(v.Encode()))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// call carries out an operation through the admin API.
func (b *box) call(c *http.Client, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, b.admin+"/api"+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: status %d: %.300s", method, path, resp.StatusCode, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// cpu is the time that the process has computed so far.
func (b *box) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, _ := strconv.Atoi(f[11]) // proc(5): field 14, user time, and 15, in 1/100 s
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident and peak memory in MB.
func (b *box) memory() (rss, peak float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			rss = kb / 1024
		case "VmHWM:":
			peak = kb / 1024
		}
	}
	return rss, peak
}

// descriptors that the process has open.
func (b *box) descriptors() int {
	list, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
	return len(list)
}

// goroutines that the process has.
func (b *box) goroutines() int {
	resp, err := b.client(nil).Get(b.api + "/metrics")
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			v, _ := strconv.Atoi(strings.TrimSpace(n))
			return v
		}
	}
	return -1
}
