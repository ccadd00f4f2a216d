package appliance

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

const (
	canaryPrompt = "cAnArY-prompt-41f0"
	canaryAnswer = "cAnArY-answer-b7d2"
	canaryMail   = "jane.canary@example.com"
)

// speaks answers with the canary, an address and a call of a tool.
func speaks(_ context.Context, _ *infer.Request, yield func(infer.Event, error) bool) {
	usage := infer.Usage{PromptTokens: 10, CompletionTokens: 4}
	for _, ev := range []infer.Event{
		started(),
		{Kind: infer.EventText, Text: "Write to jane.can", Tokens: 1},
		{Kind: infer.EventText, Text: "ary@example.com, " + canaryAnswer, Tokens: 1},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{ID: "c1", Name: "send", Arguments: `{"to":"jane.canary`}, Tokens: 1},
		{Kind: infer.EventTool, Tool: &infer.ToolDelta{Arguments: `\u0040example.com","n":1}`}, Tokens: 1},
		{Kind: infer.EventFinish, Finish: infer.FinishToolCalls},
		{Kind: infer.EventUsage, Usage: &usage},
	} {
		if !yield(ev, nil) {
			return
		}
	}
}

func (b *testbed) say(t *testing.T, text string) store.Row {
	t.Helper()
	g := b.admit()
	defer g.Release()
	r := chat("m")
	r.Messages = []infer.Message{{Role: infer.RoleUser, Content: []infer.Part{{Type: "text", Text: text}}}}
	for _, err := range b.Call(context.Background(), g, r) {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := b.store.Show(context.Background(), g.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	return d.Row
}

// everything is all files of the data directory, and the log.
func (b *testbed) everything(t *testing.T) []byte {
	t.Helper()
	out := []byte(b.log.String())
	err := filepath.WalkDir(string(b.dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		out = append(out, data...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *testbed) drained(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); len(b.retained.slots) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what was gathered is not written")
		}
	}
}

func TestNothingIsKeptUnasked(t *testing.T) {
	b := newTestbed(t)
	b.fake.generate = speaks
	row := b.say(t, canaryPrompt+" "+canaryMail)
	b.drained(t)
	all := b.everything(t)
	for _, word := range []string{canaryPrompt, canaryAnswer, canaryMail, "ary@example"} {
		if bytes.Contains(all, []byte(word)) {
			t.Errorf("%s is kept although nobody asked for it", word)
		}
	}
	if fileExists(b.dir.join("retained")) || fileExists(b.dir.join("retained.key")) || strings.Contains(fmt.Sprint(row.Decisions), "retention") {
		t.Error("something is made for content that is not kept")
	}
}

func TestRetention(t *testing.T) {
	b := newTestbedWith(t, testConfig+`
[[rule]]
name = "bird"
kind = "keyword"
words = ["bluebird"]
[[retention]]
name = "audit"
tenants = ["default"]
what = ["prompts", "answers", "tools"]
rules = ["bird"]
readers = ["owner", "auditor"]
`)
	b.fake.generate = speaks
	row := b.say(t, canaryPrompt+" about Bluebird, "+canaryMail)
	if !strings.Contains(fmt.Sprint(row.Decisions), "retention audit=keep") {
		t.Errorf("the ledger's row does not say that content is kept: %v", row.Decisions)
	}
	b.drained(t)
	all := b.everything(t)
	for _, word := range []string{canaryPrompt, canaryAnswer, canaryMail} {
		if bytes.Contains(all, []byte(word)) {
			t.Errorf("%s stands in clear in the data directory", word)
		}
	}
	c := &control{store: b.store, server: b.Appliance}
	as := func(r admin.Role) context.Context {
		who := &admin.Caller{User: "ann", Role: r}
		return store.As(admin.With(context.Background(), who), who.Actor())
	}
	v, err := opContentShow.do(as(admin.Auditor), c, requestID{row.RequestID})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Messages) != 1 || v.Messages[0].Text != canaryPrompt+" about [redacted], [redacted]" {
		t.Errorf("kept of the prompt: %+v", v.Messages)
	}
	if len(v.Answers) != 1 || v.Answers[0].Text != "Write to [redacted], "+canaryAnswer || len(v.Answers[0].ToolCalls) != 1 ||
		v.Answers[0].ToolCalls[0].Arguments != `{"n":1,"to":"[redacted]"}` || v.Redacted != 4 {
		t.Errorf("kept of the answer: %+v", v)
	}
	if _, err := opContentShow.do(as(admin.Operator), c, requestID{row.RequestID}); err == nil {
		t.Error("an operator reads what owners and auditors may read")
	}
	p, err := b.store.Audits(context.Background(), 10, 0)
	if err != nil || len(p.Entries) == 0 || p.Entries[0].Action != "content/show" || p.Entries[0].Subject != row.RequestID || !strings.Contains(p.Entries[0].Actor, "ann") {
		t.Errorf("the reading is not in the audit trail: %+v %v", p.Entries, err)
	}
	if page, err := opContentList.run(as(admin.Operator), c, contentQuery{}); err != nil || len(page.Items) != 0 || len(page.Rules) != 1 {
		t.Errorf("an operator sees %+v, %v", page, err)
	}
	b.say(t, "again")
	b.drained(t)
	if page, err := opContentList.run(as(admin.Owner), c, contentQuery{Limit: 1}); err != nil || len(page.Items) != 1 || page.Next.IsZero() || page.Items[0].Request == row.RequestID {
		t.Errorf("the owner sees %+v, %v", page, err)
	}
	if _, err := opContentPurge.do(as(admin.Owner), c, contentPurge{}); err == nil {
		t.Error("a purge of nothing in particular is carried out")
	}
	if out, err := opContentPurge.do(as(admin.Owner), c, contentPurge{Tenant: "default"}); err != nil || out.Requests != 2 {
		t.Errorf("purged %+v, %v", out, err)
	}
	if files, _ := os.ReadDir(b.dir.join("retained")); len(files) != 0 {
		t.Errorf("%d files are left", len(files))
	}
}

// What is kept is found again after a start, gives way to what is newer, and
// goes in time; a file that was changed is not believed.
func TestVault(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	open := func() *vault {
		v, err := openVault(filepath.Join(dir, "v"), filepath.Join(dir, "k"), clock)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := open()
	put := func(id string, most int64) {
		t.Helper()
		now = now.Add(time.Second)
		h := &keptHead{Request: id, Retention: "r", Tenant: "t", At: now, Expires: now.Add(time.Hour)}
		if err := v.put(h, []byte(`{"outcome":"`+strings.Repeat("x", 100)+`"}`), most); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		put(id, 1<<20)
	}
	one := v.items["a"].Bytes
	v = open()
	if c, err := v.open("b"); err != nil || c.Outcome != strings.Repeat("x", 100) {
		t.Fatalf("%+v %v", c, err)
	}
	put("d", 2*one+10)
	if v.items["a"] != nil || v.items["b"] != nil || v.items["c"] == nil || v.items["d"] == nil {
		t.Errorf("the oldest do not make room: %v", v.items)
	}
	if err := v.put(&keptHead{Request: "../x"}, nil, 1<<20); err == nil {
		t.Error("an id leads out of the folder")
	}
	b, _ := os.ReadFile(v.path("c"))
	for _, at := range []int{8, len(b) - 1} {
		bad := bytes.Clone(b)
		bad[at] ^= 1
		if err := os.WriteFile(v.path("c"), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := v.open("c"); err == nil {
			t.Errorf("a file that was changed at %d is believed", at)
		}
	}
	now = now.Add(2 * time.Hour)
	if _, ok := v.head("d"); ok || len(v.list(func(*keptItem) bool { return true })) != 0 {
		t.Error("what has expired is shown")
	}
	if n, err := v.remove(func(h *keptHead) bool { return !now.Before(h.Expires) }); n != 2 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "v", "z"+keptSuffix), []byte("HKC1 junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if open(); fileExists(filepath.Join(dir, "v", "z"+keptSuffix)) {
		t.Error("a file without a head stays for ever")
	}
}

// What is kept of one request is bounded, and a match at the bound is redacted.
func TestKeptIsBounded(t *testing.T) {
	b := newTestbedWith(t, testConfig+"[[retention]]\nname = \"r\"\ntenants = [\"*\"]\nwhat = [\"prompts\"]\nmax_item = \"1KiB\"\nmax_bytes = \"1MiB\"\n")
	rule := b.retained.find("default", "m")
	k := &keeper{rule: rule, left: int(rule.MaxItem)}
	text := strings.Repeat("a ", 506) + canaryMail + strings.Repeat(" b", 100_000)
	got := k.text(text)
	if len(got) != 1<<10 || !k.cut || strings.Contains(got, "jane") {
		t.Errorf("kept %d bytes, cut %v: …%s", len(got), k.cut, got[len(got)-30:])
	}
	if k.text("more") != "" {
		t.Error("there is no end")
	}
}

func FuzzParseKept(f *testing.F) {
	f.Add([]byte("HKC1\x00\x02{}0123456789ab"))
	f.Add([]byte("HKC1\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, at, err := parseKept(b); err == nil && (h == nil || at > len(b)) {
			t.Errorf("%v %d", h, at)
		}
	})
}
