package appliance

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hearth/store"
)

// Secrets in every place that a bundle looks at, and in some that it does not, are
// in none of its files; what it is for is.
func TestDiagnosticsWithoutSecrets(t *testing.T) {
	canary := func(s string) string { return "canary-" + s + "-7Zq3" }
	t.Setenv("HEARTH_TEST_EAST", canary("environment"))
	t.Setenv("SOME_API_TOKEN", canary("other variable"))
	dir := t.TempDir()
	file := filepath.Join(dir, "west")
	if err := os.WriteFile(file, []byte(canary("file")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	conf := strings.Replace(recordsConfig, "[[route]]", `[[upstream]]
name = "west"
kind = "vllm"
base_url = "http://127.0.0.1:9/v1"
credential = "file:`+file+`"
headers = {"X-Team" = "`+canary("header")+`"}
[[rule]]
name = "words"
kind = "keyword"
words = ["`+canary("word")+`"]
[backup]
passphrase = "file:`+file+`"
[[route]]`, 1)
	b := newTestbedWith(t, conf)
	// What should not have been written, and was.
	b.Appliance.log.Error("a provider said "+canary("environment"), "authorization", "Bearer "+canary("bearer"), "why", "key "+b.key+" and "+canary("file"))
	b.Appliance.log.Warn("link https://localhost/setup#" + canary("link") + " with https://u:" + canary("password") + "@host/x")
	spend(t, b.store, store.Opening{RequestID: "one", Tenant: "acme", KeyID: "k"})
	b.fake.generate = words(1)
	if _, _, err := b.ask(context.Background(), "m", 0); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "bundle.zip")
	b.says(0, "bundle.zip", "diagnostics", "--out", out)
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(f.Name, "hearth-diagnostics/")
		found[name] = string(data)
		for _, secret := range []string{"canary-", b.key, "secret words", "7Zq3"} {
			if i := strings.Index(string(data), secret); i >= 0 {
				t.Errorf("%s shows %q: …%s…", name, secret, data[max(0, i-60):min(len(data), i+60)])
			}
		}
	}
	for name, want := range map[string]string{"config.json": "env:HEARTH_TEST_EAST", "metrics.txt": "hearth_ledger_position", "store.json": `"seq"`, "system.txt": "SOME_API_TOKEN",
		"goroutines.txt": "goroutine profile", "heap.pprof": "", "about-show.json": `"version"`, "upstream-list.json": `"west"`, "log-tail.json": "a provider said", "index.json": `"files"`,
		"ledger-position.json": `"head"`, "cert-show.json": ""} {
		if text, ok := found[name]; !ok || !strings.Contains(text, want) {
			t.Errorf("%s is not there, or lacks %q", name, want)
		}
	}
	b.says(0, "config.json", "diagnostics")
	page, err := b.store.Audits(context.Background(), 5, 0)
	if err != nil || page.Entries[0].Action != "diagnostics/bundle" {
		t.Errorf("audit: %+v %v", page.Entries, err)
	}
}

// What this program is, as operations and on the command line.
func TestAbout(t *testing.T) {
	b := newTestbed(t)
	a := must(b, opAbout, none{})
	if a.Version == "" || a.Go == "" || a.CPUs < 1 || len(a.Embedded) != 3 || a.DataDir != string(b.dir) {
		t.Errorf("about: %+v", a)
	}
	for _, p := range a.Embedded {
		if len(p.SHA256) != 64 || p.Licence == "" {
			t.Errorf("embedded: %+v", p)
		}
	}
	var bill, terms bytes.Buffer
	if err := opAboutSBOM.send(context.Background(), b.control(), none{}, plainWriter{&bill}); err != nil || !strings.Contains(bill.String(), `"bomFormat": "CycloneDX"`) || !strings.Contains(bill.String(), "hearth-tiny") {
		t.Errorf("sbom: %v %.200s", err, bill.String())
	}
	if err := opAboutLicencesText.send(context.Background(), b.control(), none{}, plainWriter{&terms}); err != nil || !strings.Contains(terms.String(), "bbolt") {
		t.Errorf("licences: %v", err)
	}
	for flag, want := range map[string]string{"--sbom": "CycloneDX", "--licences": "go.etcd.io/bbolt"} {
		var out bytes.Buffer
		if code := Main([]string{"version", flag}, &Env{Stdout: &out, Stderr: &out, Getenv: os.Getenv}); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("version %s: exit %d, %.200s", flag, code, out.String())
		}
	}
}
