package appliance

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"hearth/appliance/backup"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

type backupCreate struct {
	Note string `json:"note,omitempty"` // at most 200 bytes
	// Passphrase encrypts it; empty: that of backup.passphrase, if there is one.
	Passphrase string `json:"passphrase,omitempty"`
}

type backupWrite struct {
	backupCreate
	Path string `json:"path"` // absolute
}

type backupRef struct {
	Name string `json:"name"`
}

type backupOpen struct {
	Name       string `json:"name"`
	Passphrase string `json:"passphrase,omitempty"`
}

type backupRestore struct {
	Name       string `json:"name"`
	Passphrase string `json:"passphrase,omitempty"`
	KeepConfig bool   `json:"keep_config,omitempty"` // leave the configuration as it is
	Confirm    string `json:"confirm"`               // the name once more, typed
}

type backupConfirmed struct {
	Name    string `json:"name"`
	Confirm string `json:"confirm"` // the name once more, typed
}

// restorePlan is a restore that waits for the next start.
type restorePlan struct {
	Backup   string           `json:"backup"`
	By       string           `json:"by"`
	At       time.Time        `json:"at"`
	Set      string           `json:"set"` // folder that the present data will go to
	Manifest *backup.Manifest `json:"manifest,omitempty"`
	Next     string           `json:"next"` // what to do, in words
}

// backupStatus is all about backups at a glance.
type backupStatus struct {
	Schedule    schedule     `json:"schedule"`
	Backups     int          `json:"backups"`
	Bytes       int64        `json:"bytes"`
	FreeBytes   int64        `json:"free_bytes"`
	Newest      *backupFile  `json:"newest,omitempty"`
	NewestAge   float64      `json:"newest_age_s"` // seconds; 0 if there is none
	LastRun     *backupRun   `json:"last_run,omitempty"`
	LastDrill   *drillResult `json:"last_drill,omitempty"`
	DrillAge    float64      `json:"drill_age_s"`
	DrillError  *backupRun   `json:"drill_error,omitempty"` // the last drill could not be made
	Pending     *restorePlan `json:"pending_restore,omitempty"`
	Restored    *backupRun   `json:"restored,omitempty"` // the last restore
	EarlierSets []string     `json:"earlier_sets"`       // folders of what restores replaced
	Problems    []string     `json:"problems"`           // what is not as it should be, in words
}

var (
	opBackupCreate = operation[backupCreate, backupFile]{
		name: "backup/create", place: "POST /backups", access: admin.Operate,
		summary: "make a backup now, in the folder of backups",
		subject: func(backupCreate) string { return "backup" },
		detail:  func(_ backupCreate, f backupFile) string { return f.Name },
		run:     createBackup,
	}
	opBackupWrite = operation[backupWrite, backupFile]{
		name: "backup/write", access: admin.Nobody,
		summary: "make a backup now, at a path of this machine",
		subject: func(w backupWrite) string { return w.Path },
		run:     writeBackupAt,
	}
	opBackupList = operation[none, []backupFile]{
		name: "backup/list", place: "GET /backups", access: admin.Read,
		summary: "the backups, newest first, with what is known of each",
		run:     func(ctx context.Context, c *control, _ none) ([]backupFile, error) { return listBackups(ctx, c) },
	}
	opBackupStatus = operation[none, backupStatus]{
		name: "backup/status", place: "GET /backup", access: admin.Read,
		summary: "schedule, newest backup, last drill and a restore that waits",
		run:     backupState,
	}
	opBackupDownload = streamOperation[backupRef]{
		operation: operation[backupRef, none]{
			name: "backup/download", place: "GET /backups/{name}/download", access: admin.Own, fresh: true,
			summary: "one backup; it holds the private keys of certificates",
			subject: func(r backupRef) string { return r.Name },
		},
		stream: downloadBackup,
	}
	opBackupVerify = operation[backupOpen, drillResult]{
		name: "backup/verify", place: "POST /backups/{name}/verify", access: admin.Operate,
		summary: "unpack a backup beside the data, open it, and compare it with its manifest",
		subject: func(r backupOpen) string { return r.Name },
		detail:  func(_ backupOpen, d drillResult) string { return drillText(&d) },
		run:     verifyBackup,
	}
	opBackupDelete = operation[backupConfirmed, none]{
		name: "backup/delete", place: "POST /backups/{name}/delete", access: admin.Own,
		summary: "remove a backup; confirm is its name",
		subject: func(r backupConfirmed) string { return r.Name },
		run:     deleteBackup,
	}
	opBackupRestore = operation[backupRestore, restorePlan]{
		name: "backup/restore", place: "POST /backups/{name}/restore", access: admin.Own, fresh: true,
		summary: "unpack and prove a backup, to take the place of the data at the next start; confirm is its name",
		subject: func(r backupRestore) string { return r.Name },
		detail:  func(_ backupRestore, p restorePlan) string { return "prepared, for the next start" },
		run:     restoreBackup,
	}
	opBackupCancel = operation[none, none]{
		name: "backup/cancel-restore", place: "POST /backup/cancel-restore", access: admin.Own,
		summary: "forget a restore that waits for the next start",
		subject: func(none) string { return "restore" },
		run: func(_ context.Context, c *control, _ none) (none, error) {
			if p, err := backup.Pending(string(c.dir)); err == nil && p == nil {
				return none{}, infer.Errorf(infer.CodeNotFound, "no restore is waiting")
			}
			if err := backup.Cancel(string(c.dir)); err != nil {
				return none{}, infer.Errorf(infer.CodeConflict, "%v", err)
			}
			return none{}, nil
		},
	}
)

const maxNote = 200

func createBackup(ctx context.Context, c *control, in backupCreate) (backupFile, error) {
	if len(in.Note) > maxNote {
		return backupFile{}, infer.Invalid("note", "has %d bytes, at most %d are kept", len(in.Note), maxNote)
	}
	done, err := c.busyBackups()
	if err != nil {
		return backupFile{}, err
	}
	defer done()
	dir, conf, err := c.backupDir()
	if err != nil {
		return backupFile{}, err
	}
	pass, err := c.passphraseFor(in.Passphrase, conf)
	if err != nil {
		return backupFile{}, err
	}
	return c.makeBackup(ctx, dir, manualBackup, in.Note, pass)
}

func writeBackupAt(ctx context.Context, c *control, in backupWrite) (backupFile, error) {
	if !filepath.IsAbs(in.Path) {
		return backupFile{}, infer.Invalid("path", "cannot be %.80q, wanted an absolute path", in.Path)
	}
	if fileExists(in.Path) {
		return backupFile{}, infer.Errorf(infer.CodeConflict, "cannot write %s: it is there already", in.Path)
	}
	if len(in.Note) > maxNote {
		return backupFile{}, infer.Invalid("note", "has %d bytes, at most %d are kept", len(in.Note), maxNote)
	}
	done, err := c.busyBackups()
	if err != nil {
		return backupFile{}, err
	}
	defer done()
	conf, err := c.config()
	if err != nil {
		return backupFile{}, err
	}
	pass, err := c.passphraseFor(in.Passphrase, &conf.Backup)
	if err != nil {
		return backupFile{}, err
	}
	src, err := c.source(manualBackup, in.Note)
	if err != nil {
		return backupFile{}, err
	}
	m, size, err := c.writeBackup(ctx, in.Path, src, pass)
	return backupFile{Name: in.Path, Bytes: size, Modified: m.Created, Created: m.Created, Kind: m.Kind, Encrypted: pass != "",
		Hearth: m.Hearth, Note: in.Note, Manifest: &m}, err
}

func downloadBackup(_ context.Context, c *control, r backupRef, w admin.Writer) error {
	path, _, err := c.backupPath(r.Name)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return infer.Errorf(infer.CodeUnavailable, "cannot read the backup: %v", err)
	}
	defer f.Close()
	w.Begin("application/octet-stream", r.Name)
	_, err = io.Copy(w, f)
	return err
}

func verifyBackup(ctx context.Context, c *control, in backupOpen) (drillResult, error) {
	path, st, err := c.backupPath(in.Name)
	if err != nil {
		return drillResult{}, err
	}
	done, err := c.busyBackups()
	if err != nil {
		return drillResult{}, err
	}
	defer done()
	dir, conf, err := c.backupDir()
	if err != nil {
		return drillResult{}, err
	}
	f := c.known(ctx, dir, in.Name, st)
	pass := in.Passphrase
	if f.Encrypted {
		if pass, err = c.passphraseFor(in.Passphrase, conf); err != nil {
			return drillResult{}, err
		}
	}
	r, err := c.drill(ctx, &f, path, pass, store.Actor(ctx))
	if err != nil {
		return drillResult{}, err
	}
	return *r, nil
}

func drillText(d *drillResult) string {
	if d.OK {
		return "it can be restored"
	}
	return "it cannot be restored: " + d.Faults[0]
}

// confirmed asks for the name once more: some things are not done by a slip.
func confirmed(name, typed string) error {
	if typed != name {
		return infer.Invalid("confirm", "got %.80q, wanted the name once more, %q", typed, name)
	}
	return nil
}

func deleteBackup(ctx context.Context, c *control, in backupConfirmed) (none, error) {
	if err := confirmed(in.Name, in.Confirm); err != nil {
		return none{}, err
	}
	path, _, err := c.backupPath(in.Name)
	if err != nil {
		return none{}, err
	}
	done, err := c.busyBackups()
	if err != nil {
		return none{}, err
	}
	defer done()
	return none{}, c.forget(ctx, filepath.Dir(path), in.Name)
}

func restoreBackup(ctx context.Context, c *control, in backupRestore) (restorePlan, error) {
	if err := confirmed(in.Name, in.Confirm); err != nil {
		return restorePlan{}, err
	}
	path, _, err := c.backupPath(in.Name)
	if err != nil {
		return restorePlan{}, err
	}
	done, err := c.busyBackups()
	if err != nil {
		return restorePlan{}, err
	}
	defer done()
	_, conf, err := c.backupDir()
	if err != nil {
		return restorePlan{}, err
	}
	pass, err := c.passphraseFor(in.Passphrase, conf)
	if err != nil {
		return restorePlan{}, err
	}
	p, err := c.stageRestore(ctx, path, pass, in.KeepConfig)
	if errors.Is(err, backup.ErrNoPassphrase) || errors.Is(err, backup.ErrPassphrase) {
		return restorePlan{}, infer.Invalid("passphrase", "%v", err)
	}
	if err != nil {
		return restorePlan{}, infer.Errorf(infer.CodeConflict, "%v", err)
	}
	return *planOf(p), nil
}

func planOf(p *backup.Plan) *restorePlan {
	if p == nil {
		return nil
	}
	next := "restart the server: the restore takes its place at the next start"
	if p.Phase != backup.Staged {
		next = "restart the server: the restore has begun and the next start ends it"
	}
	return &restorePlan{Backup: filepath.Base(p.Backup), By: p.By, At: p.At, Set: p.Set, Manifest: p.Manifest, Next: next}
}

// staleAfter is how much longer than planned a newest backup or a drill may be
// away before it counts as a problem.
const staleAfter = 12 * time.Hour

func backupState(ctx context.Context, c *control, _ none) (backupStatus, error) {
	s := backupStatus{EarlierSets: []string{}, Problems: []string{}}
	now := c.now()
	list, err := listBackups(ctx, c)
	if err != nil {
		return s, err
	}
	if s.Schedule, err = c.schedule(ctx, now); err != nil {
		return s, err
	}
	s.Backups = len(list)
	for i := range list {
		s.Bytes += list[i].Bytes
	}
	if len(list) > 0 {
		s.Newest, s.NewestAge = &list[0], now.Sub(list[0].Created).Seconds()
	}
	s.FreeBytes, _ = freeBytes(s.Schedule.Dir)
	s.LastRun, s.LastDrill = keptRun[backupRun](ctx, c, "scheduled"), keptRun[drillResult](ctx, c, "drill")
	s.Restored, s.DrillError = keptRun[backupRun](ctx, c, "restored"), keptRun[backupRun](ctx, c, "drill-error")
	if s.LastDrill != nil {
		s.DrillAge = now.Sub(s.LastDrill.At).Seconds()
	}
	p, err := backup.Pending(string(c.dir))
	if err != nil {
		s.Problems = append(s.Problems, err.Error())
	}
	s.Pending = planOf(p)
	sets, _ := filepath.Glob(filepath.Join(string(c.dir), backup.SetPrefix+"*")) // a fixed pattern
	for _, set := range sets {
		s.EarlierSets = append(s.EarlierSets, filepath.Base(set))
	}
	s.judge(now)
	return s, nil
}

// judge says in words what is not as it should be.
func (s *backupStatus) judge(now time.Time) {
	problem := func(when bool, text string) {
		if when {
			s.Problems = append(s.Problems, text)
		}
	}
	every, _ := time.ParseDuration(s.Schedule.Every)
	problem(every == 0, "no backups are scheduled (backup.every)")
	problem(every > 0 && now.After(s.Schedule.Next.Add(staleAfter)), "the scheduled backup of "+s.Schedule.Next.Format(time.DateTime)+" was not made")
	problem(s.LastRun != nil && s.LastRun.Error != "", "the last scheduled backup failed: "+textOf(s.LastRun))
	d := s.LastDrill
	problem(d != nil && !d.OK, "the last drill found that "+nameOf(d)+" cannot be restored")
	problem(s.DrillError != nil && (d == nil || s.DrillError.At.After(d.At)), "the last drill could not be made: "+textOf(s.DrillError))
	problem(s.Pending != nil, "a restore waits for the next start")
}

func textOf(r *backupRun) string {
	if r == nil {
		return ""
	}
	return r.Error
}

func nameOf(d *drillResult) string {
	if d == nil {
		return ""
	}
	return d.Backup
}
