package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hearth/appliance/backup"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

func (b *testbed) answer(into any, args ...string) {
	b.t.Helper()
	code, out := b.command(args...)
	if err := json.Unmarshal([]byte(out), into); code != 0 || err != nil {
		b.t.Fatalf("hearth %s: exit %d, %v\n%s", strings.Join(args, " "), code, err, out)
	}
}

// spend makes a settled request that cost half a dollar.
func spend(t *testing.T, s *store.Store, o store.Opening) {
	t.Helper()
	o.Price = store.Price{Version: "p", Output: 1e12}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	_, err := s.Hold(context.Background(), store.HoldRequest{AmountNano: 1e9, Opening: o})
	if err == nil {
		_, err = s.Settle(o.RequestID, store.Result{Outcome: store.OutcomeComplete, Usage: store.Usage{Output: 500}, Backend: "local"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fails runs an operation on the running appliance and wants an error of a code.
func fails[Req, Resp any](b *testbed, op operation[Req, Resp], r Req, code infer.Code) {
	b.t.Helper()
	_, err := op.do(context.Background(), b.control(), r)
	var e *infer.Error
	if !errors.As(err, &e) || e.Code != code {
		b.t.Errorf("%s: got %v, wanted %s", op.name, err, code)
	}
}

// Every operation of backups, beside a running server.
func TestBackups(t *testing.T) {
	b := newTestbed(t)
	spend(t, b.store, store.Opening{RequestID: "one", Tenant: "default"})
	b.says(0, "not encrypted", "backup", "--note", "first")
	out := filepath.Join(t.TempDir(), "x.tar.zst")
	b.says(0, "ledger position", "backup", "--out", out)
	b.says(5, "it is there already", "backup", "--out", out)
	var list []backupFile
	b.answer(&list, "backup", "list", "--json")
	if len(list) != 1 || list[0].Manifest == nil || list[0].Note != "first" || list[0].Manifest.Ledger.ChargeNano != 5e8 {
		t.Fatalf("list: %+v", list)
	}
	name := list[0].Name
	b.says(0, "can be restored: ", "backup", "verify", name)
	t.Setenv("HEARTH_TEST_PASS", "correct horse battery")
	b.says(2, "takes a reference", "backup", "--passphrase", "correct horse battery")
	fails(b, opBackupCreate, backupCreate{Passphrase: "short"}, infer.CodeInvalid)
	sealed, err := opBackupCreate.do(context.Background(), b.control(), backupCreate{Passphrase: "correct horse battery"})
	if err != nil || !sealed.Encrypted {
		t.Fatal(sealed, err)
	}
	fails(b, opBackupVerify, backupOpen{Name: sealed.Name}, infer.CodeInvalid)
	if r, err := opBackupVerify.do(context.Background(), b.control(), backupOpen{sealed.Name, "wrong, wrong, wrong"}); err != nil || r.OK {
		t.Errorf("a wrong passphrase: %+v %v", r, err)
	}
	if r, err := opBackupVerify.do(context.Background(), b.control(), backupOpen{sealed.Name, "correct horse battery"}); err != nil || !r.OK {
		t.Errorf("verify: %+v %v", r, err)
	}
	fails(b, opBackupVerify, backupOpen{Name: "../d/hearth.db"}, infer.CodeNotFound)
	fails(b, opBackupDelete, backupConfirmed{sealed.Name, "yes"}, infer.CodeInvalid)
	if _, err := opBackupDelete.do(context.Background(), b.control(), backupConfirmed{sealed.Name, sealed.Name}); err != nil {
		t.Error(err)
	}
	var buf bytes.Buffer
	if err := opBackupDownload.send(context.Background(), b.control(), backupRef{name}, plainWriter{&buf}); err != nil || int64(buf.Len()) != list[0].Bytes {
		t.Errorf("download: %d bytes of %d, %v", buf.Len(), list[0].Bytes, err)
	}
	page, err := b.store.Audits(context.Background(), 1, 0)
	if err != nil || page.Entries[0].Action != "backup/download" {
		t.Errorf("audit: %+v %v", page, err)
	}
	fails(b, opBackupRestore, backupRestore{Name: name, Confirm: "no"}, infer.CodeInvalid)
	if p, err := opBackupRestore.do(context.Background(), b.control(), backupRestore{Name: name, Confirm: name, KeepConfig: true}); err != nil || p.Manifest.Ledger.Rows != 1 {
		t.Errorf("restore: %+v %v", p, err)
	}
	st, err := opBackupStatus.do(context.Background(), b.control(), none{})
	if err != nil || st.Pending == nil || st.Backups != 1 || st.LastDrill == nil || st.Schedule.Next.IsZero() {
		t.Errorf("status: %+v %v", st, err)
	}
	b.says(0, "prepared by", "backup", "status")
	b.says(0, "", "restore", "--cancel")
	if p, err := backup.Pending(string(b.dir)); p != nil || err != nil {
		t.Errorf("a plan is left: %v %v", p, err)
	}
}

// A restore that was prepared beside a running server takes its place at the next
// start and says what it brought; the command does the same without a server.
func TestRestoreAtStart(t *testing.T) {
	dir := t.TempDir()
	conf, data := filepath.Join(dir, "c.toml"), dataDir(filepath.Join(dir, "d"))
	if err := os.WriteFile(conf, []byte(testConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &syncBuffer{}
	open := func() *Appliance {
		t.Helper()
		a, err := Open(context.Background(), Options{
			Env: &Env{Stdout: &bytes.Buffer{}, Stderr: log, Getenv: os.Getenv, Now: time.Now}, Dir: data, Config: conf, Listen: "127.0.0.1:0",
			Open: func(context.Context, modelSpec) (infer.Backend, error) {
				return &fake{count: infer.Count{PromptTokens: 10, MaxOutputTokens: 20}}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	rows := func(a *Appliance) int {
		t.Helper()
		p, err := a.store.List(context.Background(), store.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		return len(p.Rows)
	}
	a := open()
	spend(t, a.store, store.Opening{RequestID: "before", Tenant: "default"})
	f, err := opBackupCreate.do(context.Background(), a.control(), backupCreate{})
	if err != nil {
		t.Fatal(err)
	}
	spend(t, a.store, store.Opening{RequestID: "after", Tenant: "default"})
	if err := os.WriteFile(conf, []byte(testConfig+"\n# a change\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := opBackupRestore.do(store.As(context.Background(), "anna (owner)"), a.control(), backupRestore{Name: f.Name, Confirm: f.Name}); err != nil {
		t.Fatal(err)
	}
	if n := rows(a); n != 2 {
		t.Fatalf("%d rows before the start", n)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = open()
	if n := rows(a); n != 1 {
		t.Errorf("%d rows after the restore, wanted 1", n)
	}
	if b, _ := os.ReadFile(conf); string(b) != testConfig {
		t.Error("the configuration is not that of the backup")
	}
	if !strings.Contains(log.String(), "a restore has taken the place") {
		t.Errorf("the log does not tell: %s", log.String())
	}
	page, err := a.store.Audits(context.Background(), 50, 0)
	told := false
	for _, e := range page.Entries {
		told = told || e.Action == "backup/restore" && e.Actor == "anna (owner)" && strings.Contains(e.Detail, "as the manifest says")
	}
	if err != nil || !told {
		t.Errorf("audit: %+v %v", page.Entries, err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	// And back again, by the command.
	sets, _ := filepath.Glob(filepath.Join(string(data), backup.SetPrefix+"*"))
	if len(sets) != 1 {
		t.Fatalf("sets: %v", sets)
	}
	var out bytes.Buffer
	env := &Env{Stdout: &out, Stderr: &out, Getenv: os.Getenv, Now: time.Now}
	if code := Main([]string{"restore", "--back", filepath.Base(sets[0]), "--data", string(data), "--config", conf}, env); code != 0 {
		t.Fatalf("restore --back: %d %s", code, out.String())
	}
	if code := Main([]string{"ledger", "check", "--data", string(data), "--config", conf}, env); code != 0 || !strings.Contains(out.String(), "2 requests") {
		t.Errorf("after the way back: %s", out.String())
	}
	out.Reset()
	file := filepath.Join(string(data), "backups", f.Name)
	if code := Main([]string{"restore", file, "--data", filepath.Join(dir, "fresh")}, env); code != 0 || !strings.Contains(out.String(), "1 rows, 0.500000000 USD charged") {
		t.Errorf("into a new folder: %d %s", code, out.String())
	}
}

// Backups come when they are due, once, and old ones go but never the newest that
// was proven.
func TestBackupSchedule(t *testing.T) {
	b := newTestbed(t)
	ctx, c := store.As(context.Background(), "schedule"), b.control()
	zone := time.UTC
	night := func(at time.Time) time.Time { return nextNight(at.In(zone), 3, 0) }
	day := func(d, h int) time.Time { return time.Date(2026, 3, d, h, 0, 0, 0, zone) }
	for _, x := range []struct {
		last, since time.Time
		every       time.Duration
		want        time.Time
	}{
		{time.Time{}, day(5, 12), 24 * time.Hour, day(6, 3)},
		{day(6, 3).Add(time.Minute), day(5, 12), 24 * time.Hour, day(7, 3)},
		{day(6, 9), day(5, 12), 24 * time.Hour, day(7, 3)}, // made up for in the morning
		{day(6, 3), day(5, 12), 72 * time.Hour, day(9, 3)},
		{day(6, 3), day(5, 12), 6 * time.Hour, day(6, 9)},
		{time.Time{}, day(5, 12), time.Hour, day(5, 12)},
	} {
		if got := nextBackup(x.last, x.since, x.every, night); !got.Equal(x.want) {
			t.Errorf("after %v every %v: %v, wanted %v", x.last, x.every, got, x.want)
		}
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	if got := nextNight(time.Date(2026, 3, 28, 12, 0, 0, 0, berlin), 2, 30); got.Sub(time.Date(2026, 3, 28, 12, 0, 0, 0, berlin)) > 15*time.Hour {
		t.Errorf("the night that has no 02:30: %v", got)
	}
	s, err := c.schedule(ctx, b.now())
	if err != nil {
		t.Fatal(err)
	}
	b.backupsDue(ctx, c, s.Next.Add(-time.Minute))
	if list, _ := listBackups(ctx, c); len(list) != 0 {
		t.Fatalf("a backup before its time: %+v", list)
	}
	for range 3 {
		if err := c.scheduledRun(ctx, b.now()); err != nil {
			t.Fatal(err)
		}
	}
	list, err := listBackups(ctx, c)
	if err != nil || len(list) != 3 || list[0].Drill == nil || !list[0].Drill.OK {
		t.Fatalf("after three runs: %+v %v", list, err)
	}
	dir, _, err := c.backupDir()
	if err != nil {
		t.Fatal(err)
	}
	// The two newest are broken: the one that was proven outlives a keep of one.
	for _, f := range list[:2] {
		f.Drill = nil
		if err := c.remember(ctx, &f); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.prune(ctx, dir, 1); err != nil {
		t.Fatal(err)
	}
	kept, _ := listBackups(ctx, c)
	if len(kept) != 2 || kept[0].Name != list[0].Name || kept[1].Name != list[2].Name {
		t.Errorf("kept %+v", kept)
	}
	// A backup that went bad is found, and told.
	path := filepath.Join(dir, kept[0].Name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.nightlyDrill(ctx); err != nil {
		t.Fatal(err)
	}
	st, err := backupState(ctx, c, none{})
	if err != nil || st.LastDrill.OK || !strings.Contains(strings.Join(st.Problems, "; "), "cannot be restored") {
		t.Errorf("status: %+v %v", st, err)
	}
}

// Who may do what with backups.
func TestBackupAccess(t *testing.T) {
	c := &control{}
	for _, op := range operations() {
		d := op.describe(c)
		if !strings.HasPrefix(d.Name, "backup/") {
			continue
		}
		if d.Access.Allows(admin.TenantAdmin) {
			t.Errorf("%s is open to tenants", d.Name)
		}
		if n := d.Name; (n == "backup/download" || n == "backup/restore") && (d.Access.Allows(admin.Operator) || !d.Fresh) {
			t.Errorf("%s is open to operators, or to old sign-ins", n)
		}
	}
}
