package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"hearth/internal/fakeprovider"
)

// canaryWorld has a secret of its own in every place that holds one.
type canaryWorld struct {
	t       *testing.T
	s       *selfServer
	exe     string
	fake    *fakeprovider.Server
	mode    atomic.Pointer[string] // how the provider fails
	key     string                 // the caller's
	admin   string                 // address of the control plane
	session string                 // of its owner, as a cookie
	client  *http.Client
	outs    map[string][]byte // all that can be read from outside, by name
}

// canaries are words that stand in credentials and may appear nowhere else.
var canaries = map[string]string{
	"the key from the environment":  "cAnArY-env-5d21f0",
	"the key from a file":           "cAnArY-file-81c7aa",
	"the key from systemd":          "cAnArY-systemd-0be913",
	"the identity token":            "cAnArY-oidc-77f2e4",
	"the AWS secret":                "cAnArY-aws-c03d55",
	"a wrong key of a caller":       "cAnArY-wrong-19aa38",
	"a caller's cookie":             "cAnArY-cookie-e4be70",
	"a caller's key in an address":  "cAnArY-query-2b6f9c",
	"a proxy's credential":          "cAnArY-proxy-6a0d31",
	"an exchanged access token":     "fake-access-token",
	"a wrong secret at the sign-in": "cAnArY-signin-f00dfe",
	"a password":                    "cAnArY-password-3e91b4",
	"a wrong token of the console":  "cAnArY-token-88d20c",
}

const canaryConfig = `price_version = "c"
[auth]
failure_burst = 1000
[[model]]
name = "hearth-tiny"
path = "embedded"
[[tenant]]
name = "default"
[[tenant.budget]]
period = "total"
cap_usd = "10.00"
`

func newCanaryWorld(t *testing.T) *canaryWorld {
	w := &canaryWorld{t: t, outs: map[string][]byte{}}
	var err error
	if w.fake, err = fakeprovider.New(fakeprovider.Options{Handle: w.script}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.fake.Close() })
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("CANARY_KEY", canaries["the key from the environment"])
	t.Setenv("CANARY_AWS", "AKIDEXAMPLE:"+canaries["the AWS secret"])
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	put("unit-key", canaries["the key from systemd"])
	conf := canaryConfig
	for _, u := range []struct{ name, kind, more string }{
		{"openai", "openai", `credential = "env:CANARY_KEY"`},
		{"anthropic", "anthropic", fmt.Sprintf("credential = %q", "file:"+put("key", canaries["the key from a file"]))},
		{"gemini", "gemini", `credential = "systemd:unit-key"`},
		{"vllm", "vllm", fmt.Sprintf("credential = %q\ntoken_url = %q\naudience = \"aud\"", "oidc-file:"+put("token", canaries["the identity token"]), w.fake.URL()+"/token")},
		{"bedrock", "bedrock", "region = \"eu-central-1\"\ncredential = \"env:CANARY_AWS\""},
	} {
		conf += fmt.Sprintf("[[upstream]]\nname = %q\nkind = %q\nbase_url = %q\n%s\n[upstream.health]\neject_after = 0\n[[route]]\nmodel = \"via-%s\"\neffect = \"read-only\"\non_loss = \"report\"\n[route.retry]\nattempts = 1\n[[route.candidate]]\nupstream = %q\nmodel = \"up\"\n[[price]]\nmodel = \"via-%s\"\ninput_usd_per_m = \"1.00\"\noutput_usd_per_m = \"4.00\"\n",
			u.name, u.kind, w.fake.URL(), u.more, u.name, u.name, u.name)
	}
	w.exe = asProgram(t)
	w.s = startSelf(t, w.exe, filepath.Join(dir, "d"), put("c.toml", conf))
	t.Cleanup(func() { w.s.cmd.Process.Kill(); w.s.cmd.Wait() })
	var first struct {
		Key   string `json:"api_key"`
		Admin string `json:"admin_url"`
	}
	b, err := os.ReadFile(filepath.Join(w.s.dir, "first-run.json"))
	if err == nil {
		err = json.Unmarshal(b, &first)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.key, w.admin = first.Key, first.Admin
	pool := x509.NewCertPool()
	if b, err = os.ReadFile(filepath.Join(w.s.dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(b)
	w.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// script repeats every credential that the provider was shown, in the way that
// the mode says.
func (w *canaryWorld) script(r *fakeprovider.Request) *fakeprovider.Script {
	shown := r.Header.Get("Authorization") + " " + r.Header.Get("X-Api-Key") + " " + r.Header.Get("X-Goog-Api-Key") + " " + r.Header.Get("Proxy-Authorization") + " " + r.Header.Get("Cookie")
	words := &fakeprovider.Answer{Parts: []fakeprovider.Part{{Text: "An ordinary answer of some length."}}, Usage: fakeprovider.Usage{Fresh: 5, Output: 5}}
	echo := map[string]string{"X-Echo": shown, "X-Request-Id": strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(shown), "Bearer ", "req-"), " ", "-")}
	switch *w.mode.Load() {
	case "fine":
		return &fakeprovider.Script{Answer: words, Header: map[string]string{"X-Echo": shown}}
	case "401", "400", "429", "500":
		kind := map[string]string{"401": "auth", "400": "invalid", "429": "rate_limit", "500": "server"}[*w.mode.Load()]
		return &fakeprovider.Script{Error: &fakeprovider.Error{Kind: kind, Message: "cannot use the credential " + shown}, Header: map[string]string{"X-Echo": shown}}
	case "html":
		return &fakeprovider.Script{Status: 502, Text: "<html><body>" + shown + "</body></html>", Header: map[string]string{"Content-Type": "text/html"}}
	case "junk":
		return &fakeprovider.Script{Text: "not JSON but " + shown, Header: echo}
	case "in the stream":
		return &fakeprovider.Script{Answer: words, InStream: &fakeprovider.Error{Kind: "server", Message: "lost " + shown}}
	case "reset":
		return &fakeprovider.Script{Answer: words, Die: "event", Event: 2, How: "reset"}
	}
	return nil
}

// ask sends one request, to the data plane where path is no whole address, and
// keeps what came back.
func (w *canaryWorld) ask(what, method, path, body string, head map[string]string) {
	if strings.HasPrefix(path, "/") {
		path = w.s.base + path
	}
	r, err := http.NewRequest(method, path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for k, v := range head {
		r.Header.Set(k, v)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		w.outs[what] = append(w.outs[what], err.Error()...)
		return
	}
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		w.session = c.Name + "=" + c.Value
	}
	resp.Header.Del("Set-Cookie")
	b, _ := io.ReadAll(resp.Body)
	var h bytes.Buffer
	resp.Header.Write(&h)
	w.outs[what] = append(append(w.outs[what], h.Bytes()...), b...)
}

// traffic asks every way out in every mode and dialect, and is refused.
func (w *canaryWorld) traffic() {
	bodies := []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"a"}],"max_tokens":20,"stream":%v}`},
		{"/v1/responses", `{"model":%q,"input":"a","max_output_tokens":20,"stream":%v}`},
		{"/v1/messages", `{"model":%q,"messages":[{"role":"user","content":"a"}],"max_tokens":20,"stream":%v}`},
		{"/api/chat", `{"model":%q,"messages":[{"role":"user","content":"a"}],"stream":%v}`},
	}
	for _, mode := range []string{"fine", "401", "400", "429", "500", "html", "junk", "in the stream", "reset"} {
		w.mode.Store(&mode)
		for _, model := range []string{"via-openai", "via-anthropic", "via-gemini", "via-vllm", "via-bedrock"} {
			for _, b := range bodies {
				for _, stream := range []bool{false, true} {
					w.ask("answers", "POST", b.path, fmt.Sprintf(b.body, model, stream), map[string]string{"Authorization": "Bearer " + w.key,
						"Cookie": "__Host-hearth=" + canaries["a caller's cookie"], "Proxy-Authorization": "Basic " + canaries["a proxy's credential"]})
				}
			}
			w.ask("answers", "POST", "/v1beta/models/"+model+":generateContent", `{"contents":[{"parts":[{"text":"a"}]}]}`, map[string]string{"X-Goog-Api-Key": w.key})
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/api/chat", "/v1beta/models/x:generateContent?key=" + canaries["a caller's key in an address"], "/v1/models", "/nowhere?key=" + canaries["a caller's key in an address"]} {
		for name, before := range map[string]string{"Authorization": "Bearer ", "X-Api-Key": "", "X-Goog-Api-Key": ""} {
			w.ask("refusals", "POST", path, `{}`, map[string]string{name: before + canaries["a wrong key of a caller"]})
		}
	}
	w.console()
	for _, path := range []string{"/", "/metrics", "/version", "/v1/models"} {
		w.ask(path, "GET", path, "", map[string]string{"Cookie": w.session, "Sec-Fetch-Site": "same-origin"})
	}
}

// console makes an owner, signs in, wrongly and rightly, and reads every page and
// every operation of the control plane.
func (w *canaryWorld) console() {
	cmd := exec.Command(w.exe, "account", "create", "ada", "--role", "owner", "--data", w.s.dir)
	cmd.Stdin = strings.NewReader(canaries["a password"] + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	w.outs["account create"] = out
	ours := map[string]string{"Origin": w.admin, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
	sign := func(what, password string) {
		w.ask(what, "POST", w.admin+"/signin", url.Values{"name": {"ada"}, "password": {password}}.Encode(), ours)
	}
	sign("refusals", canaries["a wrong secret at the sign-in"])
	w.ask("refusals", "POST", w.admin+"/setup", url.Values{"token": {canaries["a wrong secret at the sign-in"]}}.Encode(), ours)
	w.ask("refusals", "GET", w.admin+"/api/keys", "", map[string]string{"Authorization": "Bearer " + canaries["a wrong token of the console"]})
	w.session = ""
	sign("sign-in", canaries["a password"])
	if w.session == "" {
		w.t.Fatalf("cannot sign in: %s", w.outs["sign-in"])
	}
	access, err := os.ReadFile("appliance/testdata/access.txt")
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(access)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "GET" || f[1] == "/live" || strings.Contains(f[1], "backups/{") {
			continue
		}
		path := strings.NewReplacer("{$}", "", "{revision}", "1", "{name}", "default", "{", "", "...}", "", "}", "").Replace(f[1])
		w.ask("console", "GET", w.admin+path, "", map[string]string{"Cookie": w.session, "Sec-Fetch-Site": "same-origin", "Accept": "text/html"})
	}
	if n := len(w.outs["console"]); n < 100_000 {
		w.t.Fatalf("only %d bytes of the console were seen", n)
	}
}

// collect reads what the commands print and what lies on the disk.
func (w *canaryWorld) collect() {
	for _, args := range [][]string{{"ledger", "export"}, {"ledger", "export", "--format", "csv"}, {"ledger", "list", "--json"}, {"ledger", "audit", "--json"}, {"key", "list", "--json"}, {"config", "show"}, {"doctor", "--json"}, {"status", "--json"}, {"account", "list", "--json"}} {
		cmd := exec.Command(w.exe, append(args, "--data", w.s.dir)...)
		if args[0] == "config" || args[0] == "doctor" {
			cmd.Args = append(cmd.Args, "--config", filepath.Join(filepath.Dir(w.s.dir), "c.toml"))
		}
		b, _ := cmd.CombinedOutput()
		w.outs["hearth "+strings.Join(args, " ")] = b
	}
	w.s.cmd.Process.Signal(syscall.SIGQUIT) // the dump of every goroutine
	w.s.cmd.Wait()
	for _, name := range []string{w.s.dir + ".log", w.s.dir + ".out"} {
		w.outs[filepath.Ext(name)[1:]], _ = os.ReadFile(name)
	}
	filepath.WalkDir(w.s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "first-run.json" {
			w.outs["file "+d.Name()], _ = os.ReadFile(path)
		}
		return nil
	})
	for _, r := range w.fake.All() {
		var h bytes.Buffer
		r.Header.Write(&h)
		w.outs["requests to providers"] = append(append(append(w.outs["requests to providers"], r.Path...), h.Bytes()...), r.Body...)
	}
}

// A secret that stands in a credential is nowhere else: no answer, header, log,
// metric, page, export, row or dump has it, whatever the provider repeats.
func TestCanary(t *testing.T) {
	if testing.Short() {
		t.Skip("not with -short")
	}
	w := newCanaryWorld(t)
	w.traffic()
	w.collect()
	if len(w.outs["answers"]) < 1000 || len(w.outs["log"]) < 1000 || len(w.outs["hearth ledger export"]) < 1000 || !bytes.Contains(w.outs["log"], []byte("goroutine ")) {
		t.Fatalf("too little was seen: %d bytes of answers, %d of log, %d of ledger", len(w.outs["answers"]), len(w.outs["log"]), len(w.outs["hearth ledger export"]))
	}
	for where, b := range w.outs {
		for what, secret := range canaries {
			// To its provider a credential has to go.
			if where == "requests to providers" && (strings.HasPrefix(what, "the key") || strings.HasPrefix(what, "the identity") || strings.HasPrefix(what, "an exchanged")) {
				continue
			}
			if at := bytes.Index(b, []byte(secret)); at >= 0 {
				t.Errorf("%s has %s: …%q…", where, what, b[max(0, at-120):min(len(b), at+60)])
			}
		}
		secret := w.key[strings.LastIndexByte(w.key, '_')+1:]
		if where != "out" && bytes.Contains(b, []byte(secret)) { // the console of a first start shows the key once
			t.Errorf("%s has the caller's key", where)
		}
	}
}
