package appliance

import (
	"context"
	"fmt"
	"path/filepath"

	"hearth/appliance/backup"
	"hearth/appliance/config"
	"hearth/store"
)

// A restore is unpacked and proven while the server runs, and takes its place at
// the next start: no moment has half of the old data and half of the new, and who
// asked can still think again.

// openRestore carries out a restore that is to be done, before anything else is
// opened.
func (a *Appliance) openRestore(ctx context.Context) error {
	if !fileExists(string(a.dir)) {
		return nil
	}
	r, err := backup.Apply(ctx, string(a.dir))
	if err != nil {
		return err
	}
	a.restored = r
	return nil
}

// tellRestored says what a restore has brought: in the log, and in the audit trail
// of the ledger that it restored.
func (a *Appliance) tellRestored(ctx context.Context) error {
	r := a.restored
	if r == nil {
		return nil
	}
	f := &r.Found
	a.log.Warn("a restore has taken the place of the earlier data", "backup", filepath.Base(r.Plan.Backup), "ledger_position", f.Seq, "rows", f.Rows,
		"charge_usd", usd(f.ChargeNano), "keys", f.Keys, "orphans", a.store.Recovery().Orphans, "earlier_data", filepath.Join(string(a.dir), r.Plan.Set))
	c := a.control()
	c.noteRun(ctx, "restored", backupRun{At: a.now().UTC(), Backup: filepath.Base(r.Plan.Backup)})
	return a.store.Audit(ctx, store.Audit{Actor: r.Plan.By, Action: "backup/restore", Subject: filepath.Base(r.Plan.Backup), Detail: restoredText(r)})
}

// restoredText is a restore in one line, counts and sums compared.
func restoredText(r *backup.Result) string {
	f := &r.Found
	text := fmt.Sprintf("ledger position %d, %d rows, %s USD charged, %d keys, %d accounts and sign-ins", f.Seq, f.Rows, usd(f.ChargeNano), f.Keys, f.Blobs["accounts"])
	if r.Plan.Manifest != nil {
		text += ", as the manifest says"
	}
	return text + "; the earlier data is in " + r.Plan.Set
}

// stageRestore unpacks and proves a backup beside what is there.
func (c *control) stageRestore(ctx context.Context, file, passphrase string, keepConfig bool) (*backup.Plan, error) {
	o := backup.StageOptions{File: file, Passphrase: passphrase, Dir: string(c.dir), By: store.Actor(ctx), Now: c.now(),
		CheckConfig: func(path string) error { _, err := config.Load(path); return err }}
	if !keepConfig {
		path, err := filepath.Abs(c.file)
		if err != nil {
			return nil, err
		}
		o.Config = path
	}
	return backup.Stage(ctx, o)
}
