package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
)

// noJSON has the commands without --json, with the reason.
var noJSON = map[string]string{
	"hearth serve":             "runs until it is ended; first-run.json has what it made",
	"hearth completion":        "prints a script",
	"hearth observe dashboard": "prints a file of Grafana's",
	"hearth observe rules":     "prints a file of Prometheus'",
	"hearth observe alerts":    "prints a file of Prometheus'",
	"hearth ledger export":     "writes rows in the format asked for",
	"hearth __complete":        "speaks with shells",
	"hearth engine-worker":     "speaks with the server",
}

func testEnv(vars map[string]string) (*Env, *bytes.Buffer, *bytes.Buffer) {
	var out, errs bytes.Buffer
	return &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(k string) string { return vars[k] }, Now: time.Now}, &out, &errs
}

// TestEveryCommandTeaches walks the tree: each command says what it is for, has
// an example that parses, and prints JSON.
func TestEveryCommandTeaches(t *testing.T) {
	root().walk("hearth", func(path string, c *command) {
		if c.hidden {
			return
		}
		fs := newFlags(path)
		c.setup(fs)
		if c.short == "" || strings.HasSuffix(c.short, ".") {
			t.Errorf("%s: the one line is %q, wanted a sentence without full stop", path, c.short)
		}
		if _, ok := noJSON[path]; !ok && fs.Lookup("json") == nil {
			t.Errorf("%s: has no --json", path)
		}
		if len(c.examplesOf(path)) == 0 {
			t.Errorf("%s: has no example: give it one in command_examples.go", path)
		}
		for _, line := range c.examplesOf(path) {
			if !strings.Contains(line, path) {
				t.Errorf("%s: the example %q is of another command", path, line)
			}
			_, flags, _ := strings.Cut(line, path)
			for _, w := range strings.Fields(flags) {
				if name, ok := strings.CutPrefix(w, "--"); ok && name != "" {
					name, _, _ = strings.Cut(name, "=")
					if fs.Lookup(name) == nil {
						t.Errorf("%s: the example %q has an unknown flag --%s", path, line, name)
					}
				}
			}
		}
		fs.VisitAll(func(f *flag.Flag) {
			if _, usage := flag.UnquoteUsage(f); usage == "" {
				t.Errorf("%s: --%s says nothing of itself", path, f.Name)
			}
		})
		env, out, _ := testEnv(nil)
		if code := Main(append(strings.Fields(path)[1:], "--help"), env); code != exitOK || !strings.Contains(out.String(), "Exit codes:") {
			t.Errorf("%s --help: exit %d\n%s", path, code, out)
		}
	})
}

func TestExitCodes(t *testing.T) {
	for want, errs := range map[int][]error{
		exitOK:          {nil},
		exitFailure:     {errors.New("x"), errFound, infer.Invalid("a", "b"), infer.Errorf(infer.CodeForbidden, "x")},
		exitUsage:       {usagef("x"), fmt.Errorf("y: %w", usagef("x"))},
		exitUnavailable: {errNoServer, infer.Errorf(infer.CodeOverloaded, "x")},
		exitNotFound:    {fmt.Errorf("y: %w", infer.Errorf(infer.CodeNotFound, "x")), infer.Errorf(infer.CodeModelNotFound, "x")},
		exitConflict:    {infer.Errorf(infer.CodeConflict, "x")},
		exitInterrupted: {context.Canceled, fmt.Errorf("cannot copy: %w", context.Canceled)},
	} {
		for _, err := range errs {
			if got := exitCode(err); got != want {
				t.Errorf("%v: exit %d, wanted %d", err, got, want)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"serve", "model", "key", "ledger", "config", "bench", "selftest", "conform", "doctor", "version", "completion", "status"}
	for slip, want := range map[string]string{
		"sreve": "serve", "serv": "serve", "modle": "model", "legder": "ledger", "conf": "", "config": "config", "comp": "completion",
		"keys": "key", "xyzzy": "", "": "", "statsu": "status", strings.Repeat("a", 1000): "", "doc": "doctor",
	} {
		if got := nearest(slip, words); got != want {
			t.Errorf("nearest(%q) is %q, wanted %q", slip, got, want)
		}
	}
}

func TestFaultsAsJSON(t *testing.T) {
	for _, args := range [][]string{
		{"sreve", "--json"}, {"key", "--json"}, {"key", "list", "--json", "--no-such"}, {"ledger", "list", "--data", "/nonexistent/x", "--json"},
		{"completion", "tcsh", "--json"},
	} {
		env, out, errs := testEnv(map[string]string{"HOME": t.TempDir()})
		code := Main(args, env)
		var doc map[string]commandFault
		if err := json.Unmarshal(errs.Bytes(), &doc); err != nil {
			t.Errorf("%v: stderr is no JSON: %q", args, errs)
			continue
		}
		if f := doc["error"]; f.Exit != code || f.Message == "" || f.Code == "" || out.Len() > 0 {
			t.Errorf("%v: exit %d, got %+v and %q on stdout", args, code, f, out)
		}
	}
}

func completed(t *testing.T, words ...string) (list []string, end string) {
	t.Helper()
	env, _, _ := testEnv(map[string]string{"HOME": t.TempDir()})
	out := complete(context.Background(), env, words)
	for _, w := range out.words {
		list = append(list, w.word)
	}
	return list, out.else_
}

func TestComplete(t *testing.T) {
	for _, c := range []struct {
		line string // words, the last at the cursor
		want string // some of the candidates
		end  string
	}{
		{"se", "serve selftest", completeNothing},
		{"help exit", "exit-codes", completeNothing},
		{"help key r", "revoke rotate", completeNothing},
		{"key list --da", "--data", completeNothing},
		{"serve --device ", "auto cpu cuda", completeNothing},
		{"serve --device=c", "--device=cpu --device=cuda", completeNothing},
		{"serve --data ", "", completeDirs},
		{"model add ", "", completeFiles},
		{"model add x.gguf ", "", completeNothing},
		{"config check --config ", "", completeFiles},
		{"ledger export -f", "--format", completeNothing},
		{"completion po", "powershell", completeNothing},
		{"key create --tenant ", "default", completeNothing},
		{"key create --models hearth-tiny,he", "hearth-tiny,hearth-tiny", completeNothing},
		{"model show he", "hearth-tiny", completeNothing},
		{"nonsense x", "", completeNothing},
	} {
		got, end := completed(t, strings.Split(c.line, " ")...)
		if end != c.end {
			t.Errorf("%q: ends with %s, wanted %s", c.line, end, c.end)
		}
		for _, w := range strings.Fields(c.want) {
			if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+w+" ") {
				t.Errorf("%q: got %v, wanted %s", c.line, got, w)
			}
		}
		if c.want == "" && len(got) > 0 {
			t.Errorf("%q: got %v, wanted nothing", c.line, got)
		}
	}
}

func FuzzSplitLine(f *testing.F) {
	for _, s := range []string{"hearth key list", `hearth model add "a b`, `x\ y 'z' | hearth `, `a=b:c "`, "\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := splitLine(line)
		if len(words) == 0 {
			t.Fatal("no word at the cursor")
		}
		n := 0
		for _, w := range words {
			n += len(w)
		}
		if n > 3*len(line) { // an invalid byte becomes U+FFFD
			t.Errorf("%q became %q", line, words)
		}
		if last := words[len(words)-1]; !strings.HasPrefix(last, brokenPrefix(words)) {
			t.Errorf("%q: the broken prefix is not of it", last)
		}
	})
}
