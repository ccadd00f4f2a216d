package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"hearth/appliance/backup"
	"hearth/appliance/config"
	"hearth/engine/artifact"
	"hearth/engine/infer"
)

const (
	backupSuffix    = ".tar.zst"
	sealedSuffix    = ".tar.zst.enc" // encrypted
	manualBackup    = "manual"
	scheduledBackup = "scheduled"
	backupIndex     = "backups" // blobs: what is known of each file
	backupRuns      = "backup-runs"
	// backupRoom is left on a disk beside what a backup may take, so that the
	// ledger, which may lie on it too, goes on.
	backupRoom = 64 << 20
)

// backupFile is one backup in the folder of backups.
type backupFile struct {
	Name      string    `json:"name"`
	Bytes     int64     `json:"bytes"`
	Modified  time.Time `json:"modified"`
	Kind      string    `json:"kind,omitempty"` // "manual" or "scheduled"
	Encrypted bool      `json:"encrypted"`
	Created   time.Time `json:"created,omitzero"`
	Hearth    string    `json:"hearth,omitempty"` // version that wrote it
	Note      string    `json:"note,omitempty"`
	// Manifest is known of backups that were made or verified here.
	Manifest *backup.Manifest `json:"manifest,omitempty"`
	Drill    *drillResult     `json:"drill,omitempty"` // the last one of this file
	Problem  string           `json:"problem,omitempty"`
}

// drillResult is what a drill of a backup found.
type drillResult struct {
	Backup  string        `json:"backup"`
	At      time.Time     `json:"at"`
	By      string        `json:"by"` // who asked for it; "schedule"
	OK      bool          `json:"ok"`
	Faults  []string      `json:"faults"`
	Rows    uint64        `json:"rows"`
	Records uint64        `json:"records"`
	Charge  int64         `json:"charge_nano"`
	Keys    int           `json:"keys"`
	Orphans int           `json:"orphans"` // holds that a restore would settle
	Took    time.Duration `json:"took_ns"`
}

// backupRun is how the last try of something went.
type backupRun struct {
	At     time.Time `json:"at"`
	Backup string    `json:"backup,omitempty"`
	Bytes  int64     `json:"bytes,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// backups lets one piece of work at a time use the folder of backups.
type backups struct{ mu sync.Mutex }

// busyBackups takes the folder; done gives it back.
func (c *control) busyBackups() (done func(), err error) {
	if c.server == nil {
		return func() {}, nil // the store's lock keeps others out
	}
	if !c.server.backups.mu.TryLock() {
		return nil, infer.Errorf(infer.CodeConflict, "cannot begin: a backup or a drill is under way")
	}
	return c.server.backups.mu.Unlock, nil
}

// backupDir is the folder of backups, made if it is not there.
func (c *control) backupDir() (string, *config.Backup, error) {
	conf, err := c.config()
	if err != nil {
		return "", nil, err
	}
	dir := c.dir.resolve(conf.Backup.Dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, infer.Errorf(infer.CodeUnavailable, "cannot make the folder of backups: %v", err)
	}
	return dir, &conf.Backup, nil
}

func (c *control) variable(name string) string {
	if c.server != nil {
		return c.server.env.Getenv(name)
	}
	return os.Getenv(name)
}

func (c *control) now() time.Time {
	if c.server != nil {
		return c.server.now()
	}
	return time.Now()
}

// source gathers what a backup is made of.
func (c *control) source(kind, note string) (*backup.Source, error) {
	conf, err := c.config()
	if err != nil {
		return nil, err
	}
	b := readBuild()
	host, _ := os.Hostname() // for people
	src := &backup.Source{
		Head:  backup.Head{Hearth: b.Version, Revision: b.Revision, Created: c.now().UTC().Truncate(time.Second), Host: host, Kind: kind, Note: note},
		Copy:  c.store.Copy,
		Files: []backup.File{{Name: backup.Config, Path: c.file}},
	}
	keys, err := filepath.Glob(filepath.Join(string(c.dir), "*.key")) // of what is kept encrypted
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if st, err := os.Lstat(k); err == nil && st.Mode().IsRegular() {
			src.Files = append(src.Files, backup.File{Name: filepath.Base(k), Path: k})
		}
	}
	src.Models, src.Outside = c.installed(), outside(conf)
	return src, nil
}

// installed lists the models, which no backup has.
func (c *control) installed() []backup.Model {
	if !fileExists(c.dir.models()) {
		return nil
	}
	lib, err := artifact.Open(c.dir.models())
	if err != nil {
		return nil
	}
	defer lib.Close()
	list, _ := lib.List() // those that are sound
	var out []backup.Model
	for _, m := range list {
		out = append(out, backup.Model{Name: m.Name, Digest: m.Digest, Size: m.Size, Source: m.Source})
	}
	return out
}

// outside lists what the configuration refers to and no backup has.
func outside(c *config.Config) []string {
	var out []string
	add := func(key, ref string) {
		if ref != "" {
			out = append(out, key+" = "+ref)
		}
	}
	add("tls.certificate", c.TLS.Certificate)
	add("tls.key", c.TLS.Key)
	add("tls.ca_file", c.TLS.CAFile)
	add("backup.passphrase", c.Backup.Passphrase)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		add("upstream "+u.Name+" credential", u.Credential)
		add("upstream "+u.Name+" ca_file", u.CAFile)
	}
	return out
}

// makeBackup writes one file into dir. The folder must have been taken.
func (c *control) makeBackup(ctx context.Context, dir, kind, note, passphrase string) (backupFile, error) {
	src, err := c.source(kind, note)
	if err != nil {
		return backupFile{}, err
	}
	name := "hearth-"
	if kind == scheduledBackup {
		name += "auto-"
	}
	name += src.Head.Created.Format("20060102T150405Z")
	suffix := backupSuffix
	if passphrase != "" {
		suffix = sealedSuffix
	}
	path := filepath.Join(dir, name+suffix)
	for n := 2; fileExists(path); n++ {
		path = filepath.Join(dir, fmt.Sprintf("%s-%d%s", name, n, suffix))
	}
	m, size, err := c.writeBackup(ctx, path, src, passphrase)
	if err != nil {
		return backupFile{}, err
	}
	f := backupFile{Name: filepath.Base(path), Bytes: size, Modified: src.Head.Created, Kind: kind, Encrypted: passphrase != "",
		Created: m.Created, Hearth: m.Hearth, Note: note, Manifest: &m}
	return f, c.remember(ctx, &f)
}

// writeBackup writes a backup to path if the disk has room for the worst case.
func (c *control) writeBackup(ctx context.Context, path string, src *backup.Source, passphrase string) (backup.Manifest, int64, error) {
	if passphrase != "" {
		if err := backup.CheckPassphrase(passphrase); err != nil {
			return backup.Manifest{}, 0, infer.Invalid("passphrase", "%v", err)
		}
	}
	p, err := c.store.Position(ctx)
	if err != nil {
		return backup.Manifest{}, 0, err
	}
	if free, err := freeBytes(filepath.Dir(path)); err == nil && free < p.FileBytes+backupRoom {
		return backup.Manifest{}, 0, infer.Errorf(infer.CodeUnavailable, "cannot back up to %s: the disk is nearly full, %s are free and a copy may take %s, with %s to be left",
			filepath.Dir(path), bytesText(free), bytesText(p.FileBytes), bytesText(backupRoom))
	}
	m, size, err := backup.WriteFile(ctx, path, src, passphrase)
	var e *infer.Error
	if err != nil && !errors.As(err, &e) {
		err = infer.Errorf(infer.CodeUnavailable, "%v", err)
	}
	return m, size, err
}

// remember keeps what is known of a backup.
func (c *control) remember(ctx context.Context, f *backupFile) error {
	b, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return c.store.Blobs(backupIndex).Put(ctx, f.Name, b)
}

// backupName is whether a file of the folder is a backup.
func backupName(name string) bool {
	return name == filepath.Base(name) && !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, backupSuffix) || strings.HasSuffix(name, sealedSuffix))
}

// listBackups lists the folder, newest first.
func listBackups(ctx context.Context, c *control) ([]backupFile, error) {
	dir, _, err := c.backupDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, infer.Errorf(infer.CodeUnavailable, "cannot read the folder of backups: %v", err)
	}
	out := []backupFile{}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() || !backupName(e.Name()) {
			continue
		}
		out = append(out, c.known(ctx, dir, e.Name(), st))
	}
	slices.SortFunc(out, func(a, b backupFile) int {
		if d := b.Created.Compare(a.Created); d != 0 {
			return d
		}
		return b.Modified.Compare(a.Modified)
	})
	return out, nil
}

// known is what is known of one file; one that was copied here tells its head, if
// it is not encrypted.
func (c *control) known(ctx context.Context, dir, name string, st fs.FileInfo) backupFile {
	f := backupFile{Name: name, Bytes: st.Size(), Modified: st.ModTime().UTC(), Encrypted: strings.HasSuffix(name, sealedSuffix)}
	if b, err := c.store.Blobs(backupIndex).Get(ctx, name); err == nil {
		var kept backupFile
		if json.Unmarshal(b.Value, &kept) == nil && kept.Bytes == st.Size() {
			kept.Name, kept.Modified = name, f.Modified
			return kept
		}
	}
	h, encrypted, err := backup.ReadHead(filepath.Join(dir, name), "")
	switch {
	case errors.Is(err, backup.ErrNoPassphrase):
		f.Encrypted, f.Created = true, f.Modified
	case err != nil:
		f.Problem, f.Created = err.Error(), f.Modified
	default:
		f.Encrypted, f.Created, f.Hearth, f.Kind, f.Note = encrypted, h.Created, h.Hearth, h.Kind, h.Note
	}
	return f
}

// backupPath finds a backup by name.
func (c *control) backupPath(name string) (path string, st fs.FileInfo, err error) {
	dir, _, err := c.backupDir()
	if err != nil {
		return "", nil, err
	}
	if backupName(name) {
		path = filepath.Join(dir, name)
		if st, err = os.Lstat(path); err == nil && st.Mode().IsRegular() {
			return path, st, nil
		}
	}
	return "", nil, infer.Errorf(infer.CodeNotFound, "there is no backup %.80q in %s", name, dir)
}

// passphraseFor is what was given, or else the one of the configuration.
func (c *control) passphraseFor(given string, b *config.Backup) (string, error) {
	if given != "" || b.Passphrase == "" {
		return given, nil
	}
	p, err := readReference(b.Passphrase, c.dir, c.variable)
	if err != nil {
		return "", infer.Errorf(infer.CodeUnavailable, "cannot read the passphrase of backups (backup.passphrase): %v", err)
	}
	return p, nil
}

// drill proves one backup and keeps the result. The folder must have been taken.
func (c *control) drill(ctx context.Context, f *backupFile, path, passphrase, by string) (*drillResult, error) {
	if free, err := freeBytes(filepath.Dir(path)); err == nil && f.Manifest != nil {
		if need := f.Manifest.Members[0].Size + f.Manifest.Members[min(1, len(f.Manifest.Members)-1)].Size; free < need+backupRoom {
			return nil, infer.Errorf(infer.CodeUnavailable, "cannot try the backup: the disk is nearly full, %s are free and it takes %s", bytesText(free), bytesText(need))
		}
	}
	v, err := backup.Drill(ctx, path, passphrase, filepath.Dir(path))
	if errors.Is(err, backup.ErrNoPassphrase) {
		return nil, infer.Invalid("passphrase", "is needed: this backup is encrypted")
	}
	if err != nil {
		return nil, infer.Errorf(infer.CodeUnavailable, "%v", err)
	}
	r := &drillResult{Backup: f.Name, At: c.now().UTC(), By: by, OK: v.OK(), Faults: v.Faults, Rows: v.Found.Rows, Records: v.Found.Records,
		Charge: v.Found.ChargeNano, Keys: v.Found.Keys, Orphans: v.Orphans, Took: v.Took}
	if f.Drill = r; v.OK() {
		f.Manifest, f.Created, f.Hearth, f.Kind, f.Note = &v.Manifest, v.Manifest.Created, v.Manifest.Hearth, v.Manifest.Kind, v.Manifest.Note
	}
	if b, err := json.Marshal(r); err == nil {
		_ = c.store.Blobs(backupRuns).Put(ctx, "drill", b) // what it found stands whether or not it can be kept
	}
	return r, c.remember(ctx, f)
}

// prune removes scheduled backups beyond the number that is kept, the oldest
// first, but never the newest one that has passed its drill.
func (c *control) prune(ctx context.Context, dir string, keep int) error {
	list, err := listBackups(ctx, c)
	if err != nil {
		return err
	}
	n, proven := 0, false
	for _, f := range list {
		if !strings.HasPrefix(f.Name, "hearth-auto-") {
			continue
		}
		passed := f.Drill != nil && f.Drill.OK
		first := passed && !proven
		proven = proven || passed
		if n++; n <= keep || first {
			continue
		}
		if err := c.forget(ctx, dir, f.Name); err != nil {
			return err
		}
	}
	return nil
}

func (c *control) forget(ctx context.Context, dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return infer.Errorf(infer.CodeUnavailable, "cannot remove the backup: %v", err)
	}
	err := c.store.Blobs(backupIndex).Delete(ctx, name)
	if errors.Is(err, fs.ErrNotExist) || absent(err) == fs.ErrNotExist {
		err = nil
	}
	return err
}

// note keeps how a run went.
func (c *control) noteRun(ctx context.Context, what string, r backupRun) {
	if b, err := json.Marshal(r); err == nil {
		_ = c.store.Blobs(backupRuns).Put(ctx, what, b) // the log tells it too
	}
}

// keptRun reads back what noteRun or drill kept.
func keptRun[T any](ctx context.Context, c *control, what string) *T {
	v := new(T)
	b, err := c.store.Blobs(backupRuns).Get(ctx, what)
	if err != nil || json.Unmarshal(b.Value, v) != nil {
		return nil
	}
	return v
}
