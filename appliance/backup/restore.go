package backup

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
	"syscall"
	"time"

	"hearth/store"
)

const planName = "restore.json"

// The phases of a plan.
const (
	Staged  = "staged"  // unpacked beside what is there; nothing has changed
	Moving  = "moving"  // what is there moves aside
	Placing = "placing" // what was unpacked takes its place
)

// Plan is a restore that is to be done or is being done. It is a file in the data
// directory, so that a start after a crash goes on with it.
type Plan struct {
	Phase  string    `json:"phase"`
	Backup string    `json:"backup"`           // where it came from, for people
	By     string    `json:"by"`               // who asked
	At     time.Time `json:"at"`               // when
	Stage  string    `json:"stage"`            // folder of the new files, in the data directory
	Set    string    `json:"set"`              // folder for the old ones
	Config string    `json:"config,omitempty"` // absolute path of the configuration; empty: it stays
	// Manifest is what the restored data is compared with in the end; nil where an
	// earlier set is put back, which has none.
	Manifest *Manifest `json:"manifest,omitempty"`
	Files    []string  `json:"files"` // what Stage has, the database last
}

// Result is what became of a restore.
type Result struct {
	Plan  Plan          `json:"plan"`
	Found store.Summary `json:"found"` // in place now
	// Differences between the manifest and what is in place, in words; empty: none.
	Differences []string `json:"differences"`
}

// StageOptions say what is to be put where.
type StageOptions struct {
	File, Passphrase string
	Dir              string // data directory
	Config           string // absolute path of the configuration; empty: keep what is there
	By               string
	Now              time.Time
	// CheckConfig refuses a configuration that this build cannot serve with.
	CheckConfig func(path string) error
}

// Stage unpacks and proves a backup beside what is there, and leaves a plan that
// Apply carries out. Nothing else changes. An earlier plan that has not begun is
// replaced.
func Stage(ctx context.Context, o StageOptions) (*Plan, error) {
	if err := Cancel(o.Dir); err != nil {
		return nil, err
	}
	mark := o.Now.UTC().Format("20060102T150405")
	p := &Plan{Phase: Staged, Backup: o.File, By: o.By, At: o.Now.UTC(), Stage: unfinished + "restore-" + mark, Set: SetPrefix + mark, Config: o.Config}
	for n := 2; ; n++ { // two restores in one second
		if _, err := os.Lstat(filepath.Join(o.Dir, p.Set)); errors.Is(err, fs.ErrNotExist) {
			break
		}
		p.Set = fmt.Sprintf("%s%s-%d", SetPrefix, mark, n)
	}
	stage := filepath.Join(o.Dir, p.Stage)
	if err := errors.Join(os.RemoveAll(stage), os.Mkdir(stage, 0o700)); err != nil {
		return nil, fmt.Errorf("cannot restore: %w", err)
	}
	err := p.fill(ctx, &o, stage)
	if err == nil {
		err = p.save(o.Dir)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(stage))
		if noSpace(err) {
			err = fmt.Errorf("the disk is full, nothing was changed: %w", err)
		}
		return nil, err
	}
	return p, nil
}

// SetPrefix begins the names of the folders of earlier sets.
const SetPrefix = "before-restore-"

func (p *Plan) fill(ctx context.Context, o *StageOptions, stage string) error {
	m, err := Unpack(ctx, o.File, o.Passphrase, stage)
	if err != nil {
		return err
	}
	p.Manifest = &m
	var faults []string
	if _, _, err := compare(ctx, &m, stage, &faults); err != nil {
		return fmt.Errorf("cannot restore this backup: %w", err)
	}
	if len(faults) > 0 {
		return fmt.Errorf("cannot restore this backup: %s", strings.Join(faults, "; "))
	}
	if o.Config == "" {
		if err := os.Remove(filepath.Join(stage, Config)); err != nil {
			return err
		}
	} else if o.CheckConfig != nil {
		if err := o.CheckConfig(filepath.Join(stage, Config)); err != nil {
			return fmt.Errorf("cannot restore this backup: its configuration is refused by this version: %w", err)
		}
	}
	return p.list(stage)
}

// list notes what is in the folder of new files; the database comes last.
func (p *Plan) list(stage string) error {
	entries, err := os.ReadDir(stage)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return fmt.Errorf("cannot restore %s: it is not a plain file", e.Name())
		}
		if e.Name() != Database {
			p.Files = append(p.Files, e.Name())
		}
	}
	if _, err := os.Stat(filepath.Join(stage, Database)); err != nil {
		return fmt.Errorf("cannot restore: there is no %s", Database)
	}
	p.Files = append(p.Files, Database)
	return nil
}

// StageSet makes a plan that puts an earlier set back: the way back from a
// restore. Its files are used up.
func StageSet(dir, set, config, by string, now time.Time) (*Plan, error) {
	if err := Cancel(dir); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(set, SetPrefix) || set != filepath.Base(set) {
		return nil, fmt.Errorf("cannot put back %.80q: wanted the name of a folder in the data directory that begins with %s", set, SetPrefix)
	}
	p := &Plan{Phase: Staged, Backup: set, By: by, At: now.UTC(), Stage: set, Set: SetPrefix + now.UTC().Format("20060102T150405"), Config: config}
	if p.Set == set {
		p.Set += "-2"
	}
	if err := p.list(filepath.Join(dir, set)); err != nil {
		return nil, err
	}
	return p, p.save(dir)
}

// Pending gives the plan of a data directory, nil if there is none.
func Pending(dir string) (*Plan, error) {
	b, err := readBounded(filepath.Join(dir, planName), maxFinal)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the plan of a restore: %w", err)
	}
	p := &Plan{}
	if err := json.Unmarshal(b, p); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", filepath.Join(dir, planName), err)
	}
	for _, name := range append([]string{p.Stage, p.Set}, p.Files...) {
		if name == "" || name != filepath.Base(name) || name == ".." || name == "." {
			return nil, fmt.Errorf("cannot read %s: it names %.80q", filepath.Join(dir, planName), name)
		}
	}
	return p, nil
}

// Cancel forgets a plan that has not begun.
func Cancel(dir string) error {
	p, err := Pending(dir)
	if p == nil || err != nil {
		return err
	}
	if p.Phase != Staged {
		return errors.New("cannot forget the restore: it has begun, the next start ends it")
	}
	if err := os.Remove(filepath.Join(dir, planName)); err != nil {
		return err
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if p.Manifest == nil { // an earlier set, which stays
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, p.Stage))
}

// save writes the plan in one step.
func (p *Plan) save(dir string) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, planName), append(b, '\n'))
}

func writeWhole(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

// Apply carries out the plan of a data directory, from wherever it is. Nobody may
// have the database open. A nil result: there is no plan. An error leaves the plan
// where it is, for the next call to go on.
func Apply(ctx context.Context, dir string) (*Result, error) {
	p, err := Pending(dir)
	if p == nil || err != nil {
		return nil, err
	}
	var r *Result
	err = store.Exclusive(filepath.Join(dir, Database), func() error {
		r, err = p.apply(ctx, dir)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("the restore of %s has not ended: %w", p.Backup, err)
	}
	return r, nil
}

// crash is a hook of tests: it ends the work at a named point.
var crash = func(string) error { return nil }

func (p *Plan) apply(ctx context.Context, dir string) (*Result, error) {
	for _, phase := range []struct {
		name string
		do   func(dir string) error
	}{{Moving, p.moveAside}, {Placing, p.place}} {
		if p.Phase == Placing && phase.name == Moving {
			continue
		}
		if p.Phase != phase.name {
			p.Phase = phase.name
			if err := p.save(dir); err != nil {
				return nil, err
			}
		}
		err := crash(phase.name)
		if err == nil {
			err = phase.do(dir)
		}
		if err != nil {
			return nil, err
		}
	}
	r := &Result{Plan: *p, Differences: []string{}}
	found, _, err := store.Inspect(ctx, filepath.Join(dir, Database))
	if err != nil {
		if p.Manifest != nil {
			return r, err
		}
		// What an earlier set had is not ours to judge: a start will.
	}
	if r.Found = found; p.Manifest != nil {
		r.Differences = p.Manifest.Ledger.Differences(&found)
	}
	if len(r.Differences) > 0 {
		return r, fmt.Errorf("what is in place differs from the manifest in %s; the earlier data is whole in %s",
			strings.Join(r.Differences, ", "), filepath.Join(dir, p.Set))
	}
	if err = crash("end"); err == nil {
		err = os.RemoveAll(filepath.Join(dir, p.Stage))
	}
	if err == nil {
		err = os.Remove(filepath.Join(dir, planName))
	}
	if err == nil {
		err = syncDir(dir)
	}
	return r, err
}

// moveAside puts what is there into the set: the database first, so that from
// then on there is none that its journals could be missing from, or be added to.
func (p *Plan) moveAside(dir string) error {
	set := filepath.Join(dir, p.Set)
	if err := os.MkdirAll(set, 0o700); err != nil {
		return err
	}
	names := append([]string{Database}, store.Files(filepath.Join(dir, Database))...)
	for _, n := range p.Files {
		if !slices.Contains(names, n) && n != Config {
			names = append(names, n)
		}
	}
	for _, n := range names {
		err := os.Rename(filepath.Join(dir, n), filepath.Join(set, n))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := crash("moved " + n); err != nil {
			return err
		}
	}
	// The configuration is copied: it may lie elsewhere, and a start without one
	// would write another.
	if b, err := readBounded(p.Config, maxFile); p.Config != "" && err == nil {
		if err := writeWhole(filepath.Join(set, Config), b); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(set), syncDir(dir))
}

// place puts the new files where they belong, those that are not there yet.
func (p *Plan) place(dir string) error {
	stage := filepath.Join(dir, p.Stage)
	for _, n := range p.Files {
		from := filepath.Join(stage, n)
		if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if n == Config {
			if err := p.placeConfig(from); err != nil {
				return err
			}
		} else if err := os.Rename(from, filepath.Join(dir, n)); err != nil {
			return err
		}
		if err := errors.Join(syncDir(dir), crash("placed "+n)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) placeConfig(from string) error {
	if p.Config != "" {
		b, err := readBounded(from, maxFile)
		if err != nil {
			return err
		}
		if err := writeWhole(p.Config, b); err != nil {
			return err
		}
	}
	return os.Remove(from)
}

func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
