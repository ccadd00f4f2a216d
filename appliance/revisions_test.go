package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web"
	"hearth/web/admin"
)

func as(role admin.Role) context.Context {
	c := &admin.Caller{User: "kim", Role: role, Method: "password"}
	return store.As(admin.With(context.Background(), c), c.Actor())
}

func runOp[Req, Resp any](t *testing.T, ctx context.Context, b *testbed, op operation[Req, Resp], r Req) Resp {
	t.Helper()
	out, err := op.do(ctx, b.control(), r)
	if err != nil {
		t.Fatalf("%s: %v", op.name, err)
	}
	return out
}

func codeOf(err error) infer.Code {
	if err == nil {
		return ""
	}
	return infer.AsError(err).Code
}

func fileText(t *testing.T, b *testbed) string {
	t.Helper()
	text, err := os.ReadFile(b.configPath())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A text is applied if it has no fault and the file is what its editor saw of
// it; each that was is a revision and stands in the audit trail.
func TestConfigApply(t *testing.T) {
	b := newTestbed(t)
	if err := os.Chmod(b.configPath(), 0o640); err != nil {
		t.Fatal(err)
	}
	ctx := as(admin.Operator)
	first := runOp(t, ctx, b, opConfigGet, none{})
	if first.Text != testConfig || first.Revision != 1 || first.Author != authorStart || first.ETag() != digestOf([]byte(testConfig)) {
		t.Errorf("at first: revision %d by %q, digest %s", first.Revision, first.Author, first.Digest)
	}
	next := strings.Replace(testConfig, "max_requests = 8", "# more\nmax_requests = 9", 1)
	check := runOp(t, ctx, b, opConfigCheck, configCheck{Text: next, IfMatch: first.Digest})
	if !check.OK || len(check.Changed) != 1 || check.Changed[0].Path != "server.max_requests" || !strings.Contains(check.Diff, "+# more\n+max_requests = 9\n") {
		t.Errorf("checked: %+v", check)
	}
	got := runOp(t, ctx, b, opConfigApply, configApply{Text: next, IfMatch: first.Digest, Note: "more room"})
	if got.Revision != 2 || got.Digest != digestOf([]byte(next)) || fileText(t, b) != next || b.config().Server.MaxRequests != 9 {
		t.Errorf("applied: %+v", got)
	}
	if st, err := os.Stat(b.configPath()); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("the file has mode %v, %v", st.Mode(), err)
	}

	// Bounds of the data plane hold at once.
	if keys := restartKeys(b.book.boot, b.config()); len(keys) > 0 {
		t.Errorf("a start is wanted for %q", keys)
	}

	// The second editor is told what the first has done.
	_, err := opConfigApply.do(ctx, b.control(), configApply{Text: testConfig + "# mine\n", IfMatch: first.Digest})
	if codeOf(err) != infer.CodeConflict || !strings.Contains(err.Error(), "+max_requests = 9") || !strings.Contains(err.Error(), "revision 2 by kim (operator, password)") {
		t.Errorf("the second editor got %v", err)
	}
	_, err = opConfigSet.do(ctx, b.control(), configSet{configEdit: configEdit{Path: "log.level", Value: "debug"}, IfMatch: first.Digest})
	if codeOf(err) != infer.CodeConflict {
		t.Errorf("the second editor of a key got %v", err)
	}
	// So is one who raced with a hand in the file.
	if err := os.WriteFile(b.configPath(), []byte(next+"# by hand\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	_, err = opConfigApply.do(ctx, b.control(), configApply{Text: testConfig, IfMatch: got.Digest})
	if codeOf(err) != infer.CodeConflict || !strings.Contains(err.Error(), "changed by hand") || !strings.Contains(err.Error(), "+# by hand") {
		t.Errorf("beside a hand edit: %v", err)
	}
	if err := os.WriteFile(b.configPath(), []byte(next), 0o640); err != nil {
		t.Fatal(err)
	}

	// Faults change nothing and are all told.
	_, err = opConfigApply.do(ctx, b.control(), configApply{Text: next + "[server.x]\n[lgo]\n"})
	var faults *config.Faults
	if codeOf(err) != infer.CodeInvalid || !errors.As(err, &faults) || len(faults.List) < 2 || fileText(t, b) != next {
		t.Errorf("with faults: %v", err)
	}
	// A text from a form has other line ends; nothing else differs.
	if again := runOp(t, ctx, b, opConfigApply, configApply{Text: strings.ReplaceAll(next, "\n", "\r\n")}); again.Revision != 2 || again.Diff != "" {
		t.Errorf("the same text: %+v", again)
	}
	page, err := b.store.Audits(context.Background(), 100, 0)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, e := range page.Entries {
		if strings.HasPrefix(e.Action, "config/") {
			seen = append(seen, e.Actor+" "+e.Action)
			if e.Action == "config/apply" && (!strings.Contains(e.Detail, got.Digest) || !strings.Contains(e.Detail, "server.max_requests; more room")) {
				t.Errorf("audited: %+v", e)
			}
		}
	}
	if want := []string{"kim (operator, password) config/apply", authorStart + " config/start"}; !slices.Equal(seen, want) {
		t.Errorf("audit trail: %q, wanted %q", seen, want)
	}
}

// Keys are changed in place; what belongs to the owner is the owner's.
func TestConfigSet(t *testing.T) {
	b := newTestbed(t)
	ctx := as(admin.Operator)
	dry := runOp(t, ctx, b, opConfigSet, configSet{configEdit: configEdit{Path: "tenant[default].limits.concurrency", Value: "3"}, DryRun: true})
	if !strings.Contains(dry.Text, "[tenant.limits]\nconcurrency = 3\n") || fileText(t, b) != testConfig {
		t.Errorf("dry run: %+v", dry)
	}
	got := runOp(t, ctx, b, opConfigSet, configSet{Changes: []configEdit{
		{Path: "tenant[default].limits.concurrency", Value: float64(3)},
		{Path: "tenant[default].budget[total].cap_usd", Value: "2.50"},
		{Path: "price", Append: true, Value: map[string]any{"model": "m", "input_usd_per_m": "1", "output_usd_per_m": "2"}},
		{Path: "route[quick].aliases", Value: "fast, faster"},
		{Path: "log.access", Value: "false"},
	}})
	c := b.config()
	if c.Tenants[0].Limits.Concurrency != 3 || len(c.Prices) != 2 || !slices.Equal(c.Routes[0].Aliases, []string{"fast", "faster"}) || c.Log.Access {
		t.Errorf("set: %+v", got)
	}
	if paths := pathsOf(got.Changed, 99); !slices.Contains(paths, "price[m]") || !slices.Contains(paths, "tenant[default].budget[total].cap_usd") {
		t.Errorf("changed: %q", paths)
	}
	for _, e := range []configEdit{{Path: "admin.session_idle", Value: "30m"}, {Path: "identity", Append: true, Value: map[string]any{"name": "x", "kind": "jwt"}}} {
		_, err := opConfigSet.do(ctx, b.control(), configSet{configEdit: e})
		if code := codeOf(err); code != infer.CodeForbidden && code != infer.CodeInvalid {
			t.Errorf("%s by an operator: %v", e.Path, err)
		}
	}
	runOp(t, as(admin.Owner), b, opConfigSet, configSet{configEdit: configEdit{Path: "admin.session_idle", Value: "30m"}})
	if check := runOp(t, ctx, b, opConfigCheck, configCheck{Text: testConfig}); check.OK || !slices.Equal(check.Owner, []string{"admin.session_idle"}) {
		t.Errorf("checked by an operator: %+v", check)
	}
	if _, err := opConfigRollback.do(ctx, b.control(), configRollback{Revision: 1}); codeOf(err) != infer.CodeForbidden {
		t.Errorf("an operator rolls back what an owner set: %v", err)
	}
	back := runOp(t, as(admin.Owner), b, opConfigRollback, configRollback{Revision: 1, Note: "as it was"})
	if fileText(t, b) != testConfig || back.Revision != 4 || b.config().Tenants[0].Limits.Concurrency != 0 {
		t.Errorf("rolled back: %+v", back)
	}
	for _, bad := range []configEdit{
		{Path: "server.nothing", Value: "x"}, {Path: "tenant[nobody].name", Value: "x"}, {Path: "server", Value: "x"}, {Path: "..", Value: "x"},
		{Path: "server.max_requests"}, {Path: "server.max_requests", Value: "many"}, {Path: "server.max_requests", Value: 1, Delete: true}, {Path: "log.level", Value: "loud"},
	} {
		if _, err := opConfigSet.do(ctx, b.control(), configSet{configEdit: bad}); codeOf(err) != infer.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if fileText(t, b) != testConfig {
		t.Error("a refused change changed the file")
	}
	diff := runOp(t, ctx, b, opConfigDiff, revisionPair{From: 1, To: 2})
	if !strings.Contains(diff.Diff, "+cap_usd = \"2.50\"") || len(diff.Changed) != 5 {
		t.Errorf("difference: %+v", diff)
	}
}

// The last fifty are kept with their texts, and nothing of older ones.
func TestConfigHistoryIsBounded(t *testing.T) {
	b := newTestbed(t)
	ctx := as(admin.Owner)
	for i := range 60 {
		runOp(t, ctx, b, opConfigApply, configApply{Text: fmt.Sprintf("%s# %d\n", testConfig, i)})
	}
	all := runOp(t, ctx, b, opConfigHistory, none{})
	if len(all) != keptRevisions || all[0].Number != 61 {
		t.Errorf("%d revisions, the newest %d", len(all), all[0].Number)
	}
	if v := runOp(t, ctx, b, opConfigShow, revisionNumber{12}); !strings.HasSuffix(v.Text, "# 10\n") {
		t.Errorf("revision 12: %q", v.Text)
	}
	if _, err := opConfigShow.do(ctx, b.control(), revisionNumber{11}); codeOf(err) != infer.CodeNotFound {
		t.Errorf("revision 11: %v", err)
	}
	blobs, err := b.book.revs.blobs.List(ctx, "", "", 1000)
	if err != nil || len(blobs) != 2*keptRevisions {
		t.Errorf("%d values, %v", len(blobs), err)
	}
	large := testConfig + strings.Repeat("# note\n", 3_500_000/7)
	if got := runOp(t, ctx, b, opConfigApply, configApply{Text: large}); runOp(t, ctx, b, opConfigShow, revisionNumber{got.Revision}).Text != large {
		t.Error("a large text is kept as another one")
	}
	if _, err := opConfigApply.do(ctx, b.control(), configApply{Text: large + large}); codeOf(err) != infer.CodeInvalid || len(err.Error()) > 1000 {
		t.Errorf("more than may be: %.1000v", err)
	}
	all = runOp(t, ctx, b, opConfigHistory, none{})
	// Another process finds the same.
	if again, err := newRevisions(b.store, time.Now).all(ctx); err != nil || !slices.EqualFunc(again, all, func(x, y revision) bool { return x.Digest == y.Digest && x.Number == y.Number }) {
		t.Errorf("read anew: %d revisions, %v", len(again), err)
	}
}

// A change by hand is taken up by itself; one with a fault is shown, and the old
// configuration serves on.
func TestHandEdit(t *testing.T) {
	b := newTestbed(t)
	ctx := as(admin.Owner)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(b.configPath(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wait := func(what string, done func(configText) bool) configText {
		t.Helper()
		for end := time.Now().Add(15 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if c := runOp(t, ctx, b, opConfigGet, none{}); done(c) {
				return c
			} else if time.Now().After(end) {
				t.Fatalf("%s: %+v\n%s", what, c, b.log)
			}
		}
	}
	write(strings.Replace(testConfig, "= 8", "= 7", 1))
	got := wait("a change by hand", func(c configText) bool { return c.Revision == 2 })
	if got.Author != authorHand || b.config().Server.MaxRequests != 7 {
		t.Errorf("taken: %+v", got)
	}
	write(strings.Replace(testConfig, "max_requests = 8", "max_request = 8", 1))
	got = wait("a faulty change", func(c configText) bool { return c.Refused != nil })
	if len(got.Faults) != 1 || got.Faults[0].Line != 3 || got.Faults[0].Key != "server.max_request" || got.Revision != 2 || got.InForce == got.Digest || b.config().Server.MaxRequests != 7 {
		t.Errorf("refused: %+v", got)
	}
	wait("the word in the log", func(configText) bool { return strings.Contains(b.log.String(), "is not taken") })
	b.takeFile(ctx)
	b.takeFile(ctx)
	if n := strings.Count(b.log.String(), "the changed configuration is not taken"); n != 1 || !strings.Contains(b.log.String(), "line 3: server.max_request") {
		t.Errorf("logged %d times:\n%s", n, b.log)
	}
	write(testConfig)
	got = wait("the repair", func(c configText) bool { return c.Revision == 3 })
	if got.Refused != nil || len(got.Faults) != 0 {
		t.Errorf("repaired: %+v", got)
	}
	if all := runOp(t, ctx, b, opConfigHistory, none{}); all[0].How != "hand-edit" || !slices.Equal(all[0].Changed, []string{"server.max_requests"}) {
		t.Errorf("history: %+v", all)
	}
}

// What nobody confirms goes back; what is confirmed stays.
func TestConfigConfirm(t *testing.T) {
	b := newTestbed(t)
	ctx := as(admin.Owner)
	nine := strings.Replace(testConfig, "= 8", "= 9", 1)
	got := runOp(t, ctx, b, opConfigApply, configApply{Text: nine, ConfirmWithinS: 1})
	if got.ConfirmBy == nil || runOp(t, ctx, b, opConfigGet, none{}).Pending == nil {
		t.Errorf("applied: %+v", got)
	}
	for end := time.Now().Add(10 * time.Second); b.config().Server.MaxRequests != 8; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not go back")
		}
	}
	_, _ = b.book.revs.last(ctx)
	if err := func() error { u, err := b.lockConfig(); u(); return err }(); err != nil { // it has ended
		t.Fatal(err)
	}
	if all := runOp(t, ctx, b, opConfigHistory, none{}); all[0].How != "undo" || all[0].Author != authorUndo || fileText(t, b) != testConfig {
		t.Errorf("went back: %+v", all[0])
	}
	runOp(t, ctx, b, opConfigApply, configApply{Text: nine, ConfirmWithinS: 1})
	if p := runOp(t, ctx, b, opConfigConfirm, none{}); p.Revision != 4 {
		t.Errorf("confirmed %+v", p)
	}
	time.Sleep(1200 * time.Millisecond)
	if b.config().Server.MaxRequests != 9 {
		t.Error("it went back although it was confirmed")
	}
	if _, err := opConfigConfirm.do(ctx, b.control(), none{}); codeOf(err) != infer.CodeConflict {
		t.Errorf("confirmed twice: %v", err)
	}
	if _, err := opConfigApply.do(ctx, b.control(), configApply{Text: testConfig, ConfirmWithinS: -1}); codeOf(err) != infer.CodeInvalid {
		t.Errorf("confirmed before: %v", err)
	}
}

// A change that leaves a model without life goes back.
func TestFailedModelGoesBack(t *testing.T) {
	b := newTestbed(t)
	b.models.open = func(_ context.Context, s modelSpec) (infer.Backend, error) {
		if strings.HasSuffix(s.File, "broken.gguf") {
			return nil, errors.New("no such weights")
		}
		return b.fake, nil
	}
	ctx := as(admin.Owner)
	runOp(t, ctx, b, opConfigSet, configSet{configEdit: configEdit{Path: "model[m].path", Value: "broken.gguf"}})
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if ok, _ := b.Ready(); ok && fileText(t, b) == testConfig {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it did not go back:\n%s", b.log)
		}
	}
	if unlock, err := b.lockConfig(); err != nil {
		t.Fatal(err)
	} else {
		unlock()
	}
	if all := runOp(t, ctx, b, opConfigHistory, none{}); len(all) != 3 || !strings.Contains(all[0].Note, "no such weights") {
		t.Errorf("history: %+v", all)
	}
}

// A configuration that cannot be swapped leaves file and service as they were.
func TestFailedSwapIsUndone(t *testing.T) {
	b := newTestbed(t)
	ctx := as(admin.Owner)
	gone := filepath.Join(t.TempDir(), "none.pem")
	text := strings.Replace(testConfig, "[[model]]", fmt.Sprintf("[tls]\nmode = \"files\"\ncertificate = %q\nkey = %q\n[[model]]", gone, gone), 1)
	if _, err := opConfigApply.do(ctx, b.control(), configApply{Text: text}); err == nil {
		t.Fatal("certificates that are not there were taken")
	}
	if fileText(t, b) != testConfig || b.config().TLS.Mode != config.TLSInternal || len(runOp(t, ctx, b, opConfigHistory, none{})) != 1 {
		t.Error("something of it stayed")
	}
	b.fake.generate = words(2)
	if _, _, err := b.ask(ctx, "m", 0); err != nil {
		t.Error(err)
	}
}

var (
	commentedLine = regexp.MustCompile(`(?m)^#(\[\[?[a-z_.]+\]\]?|[a-z_]+ = .*)$`)
	keyLine       = regexp.MustCompile(`^([a-z_0-9]+) = (.*)$`)
)

// broken makes faulty configurations of the sample: in each, one line is wrong.
func broken(t *testing.T) (texts []string, lines []int, keys []string) {
	t.Helper()
	sample, err := os.ReadFile("../appliance.toml")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Split(commentedLine.ReplaceAllString(string(sample), "$1"), "\n")
	n := 0
	for i, l := range all {
		m := keyLine.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		key, wrong, line := m[1], "", i+1
		if n++; n%2 == 0 {
			continue // every second key will do
		}
		switch n / 2 % 6 {
		case 0:
			key = key + "x"
			wrong = key + " = " + m[2]
		case 1:
			wrong = key + " = 1979-05-27"
		case 2:
			key = key[1:] + key[:1] + "q"
			wrong = key + " = " + m[2]
		case 3:
			wrong = key + " = [[1]]"
		case 4:
			wrong = l + "\n" + l
			line++
		case 5:
			wrong = key + " = "
		}
		text := slices.Clone(all)
		text[i] = wrong
		texts, lines, keys = append(texts, strings.Join(text, "\n")), append(lines, line), append(keys, key)
	}
	return texts, lines, keys
}

// A hundred broken configurations and more are refused with line and key, by hand
// and through the API, and the old one serves on.
func TestBrokenConfigurations(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = words(2)
	ctx := as(admin.Owner)
	texts, lines, keys := broken(t)
	if len(texts) < 100 {
		t.Fatalf("only %d broken configurations", len(texts))
	}
	generation := b.generation.Load()
	for i, text := range texts {
		var err error
		if i%2 == 0 {
			_, err = opConfigApply.do(ctx, b.control(), configApply{Text: text})
		} else {
			if werr := os.WriteFile(b.configPath(), []byte(text), 0o600); werr != nil {
				t.Fatal(werr)
			}
			err = b.Reload(ctx)
		}
		var faults *config.Faults
		if !errors.As(err, &faults) || len(faults.List) == 0 {
			t.Fatalf("with %s wrong in line %d: %v", keys[i], lines[i], err)
		}
		if !slices.ContainsFunc(faults.List, func(f config.Fault) bool {
			return f.Line == lines[i] && strings.Contains("."+f.Key+"[", "."+keys[i]+"[")
		}) {
			t.Errorf("%s is wrong in line %d, told was: %v", keys[i], lines[i], err)
		}
		if i%25 == 0 {
			if _, _, err := b.ask(context.Background(), "m", 0); err != nil {
				t.Fatalf("the old configuration does not serve: %v", err)
			}
		}
	}
	if b.generation.Load() != generation || string(b.book.inForce()) != testConfig {
		t.Error("something was taken")
	}
	t.Logf("%d broken configurations refused", len(texts))
}

const streamConfig = `price_version = "p1"
[server]
max_requests = 200
[[model]]
name = "m"
path = "nowhere.gguf"
[[tenant]]
name = "default"
[tenant.limits]
requests_per_minute = 150
[[tenant.budget]]
period = "total"
cap_usd = "5.00"
[[price]]
model = "*"
input_usd_per_m = "1.00"
output_usd_per_m = "4.00"
[[route]]
model = "quick"
[log]
level = "info"
`

// Two hundred reloads under a hundred streams: none is cut or fails, and what was
// counted against limits and budgets stays counted.
func TestReloadsUnderStreams(t *testing.T) {
	const streams, reloads, words = 100, 200, 21
	b := newTestbedWith(t, streamConfig)
	steps := make([]chan struct{}, words)
	for i := range steps {
		steps[i] = make(chan struct{})
	}
	b.fake.generate = func(ctx context.Context, _ *infer.Request, yield func(infer.Event, error) bool) {
		if !yield(started(), nil) {
			return
		}
		for _, step := range steps {
			select {
			case <-step:
			case <-ctx.Done():
				yield(infer.Event{}, context.Cause(ctx))
				return
			}
			if !yield(infer.Event{Kind: infer.EventText, Text: "w ", Tokens: 1}, nil) {
				return
			}
		}
		_ = yield(infer.Event{Kind: infer.EventFinish, Finish: infer.FinishStop}, nil) &&
			yield(infer.Event{Kind: infer.EventUsage, Usage: &infer.Usage{PromptTokens: 10, CompletionTokens: words}}, nil)
	}
	began := time.Now()
	var wg sync.WaitGroup
	tokens, failed := make([]int, streams), make([]error, streams)
	for i := range streams {
		wg.Add(1)
		g := b.admit()
		go func() {
			defer wg.Done()
			defer g.Release()
			for ev, err := range b.Call(context.Background(), g, chat("m")) {
				if err != nil {
					failed[i] = err
					return
				}
				tokens[i] += ev.Tokens
			}
		}()
	}
	for b.fake.open.Load() < streams {
		time.Sleep(time.Millisecond)
	}
	held := b.store.Stats().HeldNano
	ctx := as(admin.Owner)
	for i := range reloads {
		if i%2 == 0 {
			text := fmt.Sprintf("%s# %d\n[[tenant]]\nname = \"t%d\"\n", streamConfig, i, i)
			if err := os.WriteFile(b.configPath(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := b.Reload(ctx); err != nil {
				t.Fatal(err)
			}
		} else {
			runOp(t, ctx, b, opConfigSet, configSet{Changes: []configEdit{
				{Path: "log.level", Value: []string{"warn", "info"}[i/2%2]}, {Path: "route[quick].deadline", Value: fmt.Sprintf("%ds", 10+i)},
			}})
		}
		if i%10 == 0 {
			close(steps[i/10])
		}
	}
	if now := b.store.Stats().HeldNano; now != held {
		t.Errorf("held were %d, and %d after the reloads", held, now)
	}
	close(steps[words-1])
	// What was admitted before counts still: 100 of 150 are spent, and some have
	// come back by the clock.
	more := 0
	for ; more < 150; more++ {
		g, err := b.Admit(context.Background(), web.Caller{RequestID: fmt.Sprint("more-", more), Credential: b.key, RemoteAddr: "127.0.0.1:1", Route: "POST /x"})
		if err != nil {
			if codeOf(err) != infer.CodeRateLimited {
				t.Fatal(err)
			}
			break
		}
		g.Release()
	}
	if most := 50 + int(time.Since(began).Seconds()*150/60) + 2; more > most {
		t.Errorf("%d more requests were admitted, wanted at most %d: the limit was reset", more, most)
	}
	wg.Wait()
	for i := range streams {
		if failed[i] != nil || tokens[i] != words {
			t.Errorf("stream %d: %d of %d words, %v", i, tokens[i], words, failed[i])
		}
	}
	budgets, err := b.policy.Budgets()
	if want := int64(streams) * (10*1000 + words*4000); err != nil || budgets[0].SpentNano != want || budgets[0].HeldNano != 0 {
		t.Errorf("spent %+v, wanted %d: %v", budgets[0], want, err)
	}
	if err := b.Reload(ctx); err != nil {
		t.Fatal(err)
	}
	if after, err := b.policy.Budgets(); err != nil || after[0].SpentNano != budgets[0].SpentNano {
		t.Errorf("spent %d, and %d after a reload: %v", budgets[0].SpentNano, after[0].SpentNano, err)
	}
	t.Logf("%d reloads under %d streams in %v", reloads, streams, time.Since(began).Round(time.Millisecond))
}
