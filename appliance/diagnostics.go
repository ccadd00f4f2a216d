package appliance

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// A diagnostics bundle is what somebody needs who is to help and may not see the
// box: no prompt, no answer and no secret is in it. Two walls see to that: parts
// only take what is known to be harmless, and every member then has each secret
// that this process can find taken out of it, wherever it may stand.

const (
	maxMember = 8 << 20 // of one member; the rest is cut off and said so
	askFor    = 20 * time.Second
)

// member is one file of a bundle.
type member struct {
	name, about string
	slow        bool // not made for a preview
	make        func(b *bundle, ctx context.Context, w io.Writer) error
}

// bundle is a bundle in the making.
type bundle struct {
	c      *control
	secret *secrets
}

// bundleFile is one member as the preview lists it.
type bundleFile struct {
	Name   string `json:"name"`
	About  string `json:"about"`
	Bytes  int    `json:"bytes"`
	Masked int    `json:"masked"` // secrets that were taken out
	Error  string `json:"error,omitempty"`
}

// asked are the operations whose answers are in a bundle. One that this build does
// not have is left out.
var asked = []struct{ op, about string }{
	{"about/show", "version, build, machine"},
	{"doctor/run", "what the doctor finds"},
	{"cert/show", "certificates: issuers, names, ends; no key"},
	{"cert/events", "what became of renewals"},
	{"log/state", "levels of the log"},
	{"log/tail", "the latest records of the log, masked"},
	{"model/list", "installed models"},
	{"model/served", "models in service, workers and their state"},
	{"identity/list", "token issuers and authorities of callers"},
	{"telemetry/overview", "load and latency at a glance"},
	{"job/list", "work in the background"},
	{"upstream/list", "upstreams: health, breaker, credentials by reference"},
	{"route/list", "routes and their candidates"},
	{"evidence/list", "records of evidence"},
	{"backup/status", "backups and drills"},
	{"ledger/position", "where the ledger stands, and its last check"},
	{"config/history", "revisions of the configuration, without text"},
}

// allOperations is operations, by a way that is no cycle of initialization.
var allOperations func() []anyOperation

func init() { allOperations = operations }

// members lists what a bundle has.
func (b *bundle) members() []member {
	out := []member{
		{name: "config.json", about: "the configuration with every default; references to secrets stay, headers and patterns do not", make: (*bundle).configuration},
		{name: "metrics.txt", about: "all metrics now", make: (*bundle).metrics},
		{name: "store.json", about: "sizes and counters of the database", make: (*bundle).storeStats},
		{name: "system.txt", about: "operating system, memory, limits, disk, files of the data directory, names of environment variables", make: (*bundle).system},
		{name: "goroutines.txt", about: "what every goroutine is doing", make: profileOf("goroutine", 1)},
		{name: "heap.pprof", about: "profile of the memory", make: profileOf("heap", 0)},
	}
	ops := map[string]*admin.Operation{}
	for _, op := range allOperations() {
		d := op.describe(b.c)
		ops[d.Name] = d
	}
	for _, a := range asked {
		if op := ops[a.op]; op != nil && op.Run != nil {
			out = append(out, member{name: strings.ReplaceAll(a.op, "/", "-") + ".json", about: a.about, slow: a.op == "doctor/run", make: answerOf(op)})
		}
	}
	return out
}

// answerOf is the answer of an operation that only reads.
func answerOf(op *admin.Operation) func(*bundle, context.Context, io.Writer) error {
	return func(_ *bundle, ctx context.Context, w io.Writer) error {
		ctx, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		ctx = admin.With(ctx, &admin.Caller{User: "diagnostics", Role: admin.Owner, Method: "bundle"})
		out, err := op.Run(ctx, reflect.New(op.In).Interface())
		if err != nil {
			return err
		}
		return printJSON(w, out)
	}
}

func profileOf(name string, detail int) func(*bundle, context.Context, io.Writer) error {
	return func(_ *bundle, _ context.Context, w io.Writer) error { return pprof.Lookup(name).WriteTo(w, detail) }
}

// configuration is what is served, not the file: comments may say anything.
func (b *bundle) configuration(_ context.Context, w io.Writer) error {
	c, err := b.c.config()
	if err != nil {
		return err
	}
	return printJSON(w, harmless("", c.Tree()))
}

// hiddenKeys are values of the configuration that may hold anything a person wrote.
var hiddenKeys = []string{"headers", "words", "patterns", "replacement"}

// referenceKeys are keys that hold a reference to a secret.
var referenceKeys = []string{"credential", "client_secret", "passphrase"}

// harmless drops what may be secret from a tree of the configuration.
func harmless(key string, v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			if slices.Contains(hiddenKeys, k) && !reflect.ValueOf(e).IsZero() {
				out[k] = "[left out]"
				continue
			}
			out[k] = harmless(k, e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i := range x {
			out[i] = harmless(key, x[i])
		}
		return out
	case string:
		if slices.Contains(referenceKeys, key) && x != "" && !isReference(x) {
			return "[left out: no reference]"
		}
		if strings.Contains(x, "://") {
			return plainURL(x)
		}
	}
	return v
}

func isReference(s string) bool {
	kind, name, ok := strings.Cut(s, ":")
	return ok && name != "" && slices.Contains([]string{"env", "file", "systemd", "oidc-file"}, kind)
}

func (b *bundle) metrics(_ context.Context, w io.Writer) error {
	if b.c.server == nil {
		return errNoServer
	}
	r, err := http.NewRequest(http.MethodGet, "/metrics", nil)
	if err != nil {
		return err
	}
	promhttp.HandlerFor(b.c.server.telemetry.registry, promhttp.HandlerOpts{}).ServeHTTP(&plainAnswer{w, http.Header{}}, r)
	return nil
}

// plainAnswer is an answer of which only the body counts.
type plainAnswer struct {
	io.Writer
	header http.Header
}

func (p *plainAnswer) Header() http.Header { return p.header }
func (p *plainAnswer) WriteHeader(int)     {}

func (b *bundle) storeStats(ctx context.Context, w io.Writer) error {
	p, err := b.c.store.Position(ctx)
	if err != nil {
		return err
	}
	return printJSON(w, map[string]any{"stats": b.c.store.Stats(), "position": p, "recovery": b.c.store.Recovery()})
}

// systemFiles of Linux say how the machine is; none of them holds a secret.
var systemFiles = []string{"/proc/version", "/proc/uptime", "/proc/loadavg", "/proc/meminfo", "/proc/self/limits", "/proc/self/status", "/proc/self/cgroup",
	"/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/cpu.max"}

func (b *bundle) system(_ context.Context, w io.Writer) error {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	zone, offset := b.c.now().Zone()
	fmt.Fprintf(w, "time %s, zone %s (%d s)\ncpus %d, goroutines %d, heap %d bytes, from the system %d bytes, collections %d\n", b.c.now().Format(time.RFC3339), zone, offset,
		runtime.NumCPU(), runtime.NumGoroutine(), mem.HeapAlloc, mem.Sys, mem.NumGC)
	if free, err := freeBytes(string(b.c.dir)); err == nil {
		fmt.Fprintf(w, "free on the disk of the data directory: %s\n", bytesText(free))
	}
	fmt.Fprintf(w, "\n== files of the data directory\n")
	entries, err := os.ReadDir(string(b.c.dir))
	if err != nil {
		fmt.Fprintf(w, "%v\n", err)
	}
	for _, e := range entries {
		if st, err := e.Info(); err == nil {
			fmt.Fprintf(w, "%s %12d %s %s\n", st.Mode(), st.Size(), st.ModTime().UTC().Format(time.RFC3339), e.Name())
		}
	}
	fmt.Fprintf(w, "\n== environment variables, names only\n")
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		fmt.Fprintln(w, name)
	}
	for _, path := range systemFiles {
		if data, err := os.ReadFile(path); err == nil {
			fmt.Fprintf(w, "\n== %s\n%s", path, data)
		}
	}
	return nil
}

// limited is a buffer that stops growing.
type limited struct {
	bytes.Buffer
	cut bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := maxMember - l.Len(); len(p) > room {
		l.cut = true
		l.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

// each makes every member, masked, and gives it to put. For a preview those that
// take long are only named.
func (b *bundle) each(ctx context.Context, preview bool, put func(f bundleFile, data []byte) error) error {
	for _, m := range b.members() {
		if err := ctx.Err(); err != nil {
			return err
		}
		var buf limited
		f := bundleFile{Name: m.name, About: m.about}
		if preview && m.slow {
			f.About += "; made when it is downloaded"
			if err := put(f, nil); err != nil {
				return err
			}
			continue
		}
		if err := m.make(b, ctx, &buf); err != nil {
			buf.Reset()
			f.Error = infer.AsError(err).Message
			fmt.Fprintf(&buf, "could not be had: %s\n", f.Error)
		}
		if buf.cut {
			buf.Buffer.WriteString("\n[cut off here]\n")
		}
		data, n := b.secret.mask(buf.Bytes())
		f.Bytes, f.Masked = len(data), n
		if err := put(f, data); err != nil {
			return err
		}
	}
	return nil
}

// newBundle finds the secrets first: what cannot be read cannot be in a member.
func (c *control) newBundle() (*bundle, error) {
	conf, err := c.config()
	if err != nil {
		conf = config.Default() // a broken file is a reason to ask for help
	}
	return &bundle{c, c.findSecrets(conf)}, nil
}

// write writes the bundle as a zip file.
func (b *bundle) write(ctx context.Context, w io.Writer) error {
	z := zip.NewWriter(w)
	var index []bundleFile
	add := func(name string, data []byte) error {
		f, err := z.CreateHeader(&zip.FileHeader{Name: "hearth-diagnostics/" + name, Method: zip.Deflate, Modified: b.c.now().UTC()})
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return err
	}
	err := b.each(ctx, false, func(f bundleFile, data []byte) error {
		index = append(index, f)
		return add(f.Name, data)
	})
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := printJSON(&buf, map[string]any{"made": b.c.now().UTC(), "hearth": readBuild(), "files": index}); err != nil {
		return err
	}
	if err := add("index.json", buf.Bytes()); err != nil {
		return err
	}
	return z.Close()
}

// secretVariables are what variables with a secret are called.
var secretVariables = []string{"KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE", "SESSION"}

// findSecrets gathers the values of all secrets that this process can read.
func (c *control) findSecrets(conf *config.Config) *secrets {
	s := &secrets{}
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(secretVariables, func(w string) bool { return strings.Contains(strings.ToUpper(name), w) }) {
			s.add(value)
		}
	}
	s.references(c, "", conf.Tree())
	if b, err := os.ReadFile(c.dir.firstRun()); err == nil {
		var first map[string]any
		if json.Unmarshal(b, &first) == nil {
			for _, key := range []string{"api_key", "setup_token"} {
				text, _ := first[key].(string)
				s.add(text)
			}
		}
	}
	return s
}

// references adds what the configuration refers to, and what people should not
// have written into it but may have.
func (s *secrets) references(c *control, key string, v any) {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			s.references(c, k, e)
		}
	case map[string]string: // headers
		for _, e := range x {
			s.add(e)
		}
	case []any:
		for _, e := range x {
			s.references(c, key, e)
		}
	case string:
		if !slices.Contains(referenceKeys, key) || x == "" {
			return
		}
		if !isReference(x) {
			s.add(x)
			return
		}
		text, err := readReference(strings.TrimPrefix(x, "oidc-"), c.dir, c.variable)
		if err == nil {
			s.add(text)
			for _, line := range strings.Fields(text) {
				s.add(line)
			}
		}
	}
}
