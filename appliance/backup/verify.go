package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hearth/store"
)

// Verdict is what a drill found: a backup unpacked, opened as a start would, and
// compared with its manifest.
type Verdict struct {
	Manifest Manifest      `json:"manifest"`
	Found    store.Summary `json:"found"` // in the copy, before it was opened
	Checked  store.Report  `json:"checked"`
	// Faults says in words what is wrong; empty: the backup can be restored.
	Faults []string `json:"faults"`
	// Orphans are holds that were open when the copy was made: a restore settles
	// them at their hold.
	Orphans int           `json:"orphans"`
	Took    time.Duration `json:"took_ns"`
}

// OK says that the backup can be restored.
func (v *Verdict) OK() bool { return len(v.Faults) == 0 }

// Drill proves the backup at path: it is unpacked into a folder of its own below
// scratch, which needs room for the database, every digest, count and sum is
// compared, the ledger is walked, and the database is opened as a start would
// open it. The folder is removed again. The error is about not being able to
// look; what is wrong with the backup is in the verdict.
func Drill(ctx context.Context, path, passphrase, scratch string) (Verdict, error) {
	began := time.Now()
	v := Verdict{Faults: []string{}}
	dir, err := os.MkdirTemp(scratch, unfinished+"drill-")
	if err != nil {
		return v, fmt.Errorf("cannot try the backup: %w", err)
	}
	defer os.RemoveAll(dir)
	err = v.try(ctx, path, passphrase, dir)
	v.Took = time.Since(began)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrNoPassphrase) || errors.Is(err, os.ErrNotExist) || noSpace(err) {
		return v, err
	}
	v.Faults = append(v.Faults, err.Error())
	return v, nil
}

func (v *Verdict) try(ctx context.Context, path, passphrase, dir string) (err error) {
	if v.Manifest, err = Unpack(ctx, path, passphrase, dir); err != nil {
		return err
	}
	if v.Found, v.Checked, err = compare(ctx, &v.Manifest, dir, &v.Faults); err != nil || len(v.Faults) > 0 {
		return err
	}
	s, err := store.Open(filepath.Join(dir, Database), store.Options{BallastBytes: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	v.Orphans = s.Recovery().Orphans
	r, err := s.Check(ctx)
	if err != nil {
		return err
	}
	if !r.OK() {
		v.Faults = append(v.Faults, fmt.Sprintf("opened, its ledger has %d faults, the first: %v", len(r.Faults)+r.More, r.Faults[0]))
	}
	return nil
}

// compare holds the database in dir to the manifest and walks it.
func compare(ctx context.Context, m *Manifest, dir string, faults *[]string) (store.Summary, store.Report, error) {
	s, r, err := store.Inspect(ctx, filepath.Join(dir, Database))
	if err != nil {
		return s, r, err
	}
	for _, d := range m.Ledger.Differences(&s) {
		*faults = append(*faults, "the manifest and the database differ in "+d)
	}
	if !r.OK() {
		*faults = append(*faults, fmt.Sprintf("its ledger has %d faults, the first: %v", len(r.Faults)+r.More, r.Faults[0]))
	}
	return s, r, nil
}
