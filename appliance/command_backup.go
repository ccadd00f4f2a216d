package appliance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hearth/appliance/backup"
	"hearth/store"
)

func backupCommand() *command {
	return &command{
		name: "backup", short: "make a backup of everything but the models",
		long: `One file (tar in zstd) with a consistent copy of the database while requests run,
the configuration and the keys of what is kept encrypted, and a manifest with
counts, sums and the SHA-256 of each. It holds private keys: keep it as such, or
encrypt it. Without --out it goes to the folder of backups (backup.dir), as the
scheduled ones do; hearth backup list shows them. Models are named by digest only.

  hearth backup                                      into the folder of backups
  hearth backup --out /mnt/usb/hearth.tar.zst        to a file
  hearth backup --passphrase file:/root/passphrase   encrypted
  hearth backup list
  hearth backup status                               schedule, last drill, problems
  hearth backup verify NAME                          unpack, open, compare`,
		args: "[create | list | status | verify NAME | drop NAME]",
		setup: adminCommand(func(fs *flag.FlagSet, af *adminFlags) func(context.Context, *Env, *connection, []string) error {
			out := fs.String("out", "", "write to this `FILE`, which must not be there")
			note := fs.String("note", "", "`TEXT` to know it by")
			pass := fs.String("passphrase", "", "encrypt it, or open it, with the passphrase behind this `REFERENCE`, env:NAME or file:PATH")
			return func(ctx context.Context, env *Env, c *connection, args []string) error {
				secret, err := passphraseOf(*pass, env)
				if err != nil {
					return err
				}
				if len(args) > 0 && !(len(args) == 1 && args[0] == "create") {
					return backupSub(ctx, env, c, args, secret, af.json)
				}
				in := backupCreate{Note: *note, Passphrase: secret}
				var f backupFile
				if *out == "" {
					f, err = opBackupCreate.call(ctx, c, in)
				} else if path, perr := filepath.Abs(*out); perr != nil {
					return perr
				} else {
					f, err = opBackupWrite.call(ctx, c, backupWrite{in, path})
				}
				if err != nil {
					return err
				}
				if af.json {
					return printJSON(env.Stdout, f)
				}
				return showBackup(env.Stdout, &f)
			}
		}),
	}
}

// passphraseOf reads the passphrase behind a reference on the command line.
func passphraseOf(ref string, env *Env) (string, error) {
	if ref == "" {
		return "", nil
	}
	kind, name, ok := strings.Cut(ref, ":")
	if !ok || name == "" || kind != "env" && kind != "file" {
		return "", usagef("cannot use this --passphrase: it takes a reference, env:NAME or file:PATH, so that the passphrase is in no list of processes")
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	p, err := readReference(ref, dataDir(here), env.Getenv)
	if err != nil {
		return "", fmt.Errorf("cannot read the passphrase: %w", err)
	}
	return p, nil
}

func backupSub(ctx context.Context, env *Env, c *connection, args []string, secret string, asJSON bool) error {
	switch {
	case args[0] == "list" && len(args) == 1:
		list, err := opBackupList.call(ctx, c, none{})
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(env.Stdout, list)
		}
		return table(env.Stdout, func(w io.Writer) {
			fmt.Fprintln(w, "MADE\tNAME\tKIND\tSIZE\tROWS\tUSD\tPROVEN")
			for _, f := range list {
				rows, charge := "-", "-"
				if m := f.Manifest; m != nil {
					rows, charge = fmt.Sprint(m.Ledger.Rows), usd(m.Ledger.ChargeNano)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Created.Local().Format(time.DateTime), f.Name, f.Kind, bytesText(f.Bytes), rows, charge, provenText(&f))
			}
		})
	case args[0] == "verify" && len(args) == 2:
		r, err := opBackupVerify.call(ctx, c, backupOpen{args[1], secret})
		if err != nil {
			return err
		}
		if asJSON {
			err = printJSON(env.Stdout, r)
		} else {
			err = showDrill(env.Stdout, &r)
		}
		if err == nil && !r.OK {
			err = errFound
		}
		return err
	case args[0] == "status" && len(args) == 1:
		s, err := opBackupStatus.call(ctx, c, none{})
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(env.Stdout, s)
		}
		return showBackups(env.Stdout, &s)
	case args[0] == "drop" && len(args) == 2:
		_, err := opBackupDelete.call(ctx, c, backupConfirmed{args[1], args[1]})
		return err
	}
	return usagef("backup: got %q, wanted create, list, status, verify NAME or drop NAME", strings.Join(args, " "))
}

func provenText(f *backupFile) string {
	switch {
	case f.Problem != "":
		return f.Problem
	case f.Drill == nil:
		return "not tried"
	case f.Drill.OK:
		return "on " + f.Drill.At.Local().Format(time.DateTime)
	}
	return "NO: " + f.Drill.Faults[0]
}

func showBackup(w io.Writer, f *backupFile) error {
	how := "not encrypted"
	if f.Encrypted {
		how = "encrypted"
	}
	l := &f.Manifest.Ledger
	_, err := fmt.Fprintf(w, "%s: %s, %s\nledger position %d, %d rows, %s USD charged, %d open holds, %d keys\n", f.Name, bytesText(f.Bytes), how,
		l.Seq, l.Rows, usd(l.ChargeNano), l.OpenHolds, l.Keys)
	for _, m := range f.Manifest.Models {
		fmt.Fprintf(w, "not in it: model %s, sha256 %s\n", m.Name, m.Digest)
	}
	for _, o := range f.Manifest.Outside {
		fmt.Fprintf(w, "not in it: %s\n", o)
	}
	return err
}

func showBackups(w io.Writer, s *backupStatus) error {
	at := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.Local().Format(time.DateTime)
	}
	fmt.Fprintf(w, "folder    %s, %d backups, %s, %s free\n", s.Schedule.Dir, s.Backups, bytesText(s.Bytes), bytesText(s.FreeBytes))
	fmt.Fprintf(w, "schedule  every %s at %s, %d are kept, the next %s\n", s.Schedule.Every, s.Schedule.At, s.Schedule.Keep, at(s.Schedule.Next))
	if s.Newest != nil {
		fmt.Fprintf(w, "newest    %s of %s\n", s.Newest.Name, at(s.Newest.Created))
	}
	if d := s.LastDrill; d != nil {
		fmt.Fprintf(w, "drill     %s, %s: %s\n", at(d.At), d.Backup, drillText(d))
	}
	if p := s.Pending; p != nil {
		fmt.Fprintf(w, "restore   %s, prepared by %s: %s\n", p.Backup, p.By, p.Next)
	}
	for _, set := range s.EarlierSets {
		fmt.Fprintf(w, "earlier   %s\n", set)
	}
	for _, p := range s.Problems {
		fmt.Fprintf(w, "problem   %s\n", p)
	}
	return nil
}

func showDrill(w io.Writer, r *drillResult) error {
	if r.OK {
		_, err := fmt.Fprintf(w, "%s can be restored: %d rows, %d records, %s USD charged, %d keys, all as its manifest says; %d open holds would be settled; took %s\n",
			r.Backup, r.Rows, r.Records, usd(r.Charge), r.Keys, r.Orphans, r.Took.Round(time.Millisecond))
		return err
	}
	for _, f := range r.Faults {
		fmt.Fprintf(w, "fault: %s\n", f)
	}
	_, err := fmt.Fprintf(w, "%s cannot be restored\n", r.Backup)
	return err
}

func restoreCommand() *command {
	return &command{
		name: "restore", args: "FILE", short: "put a backup in place of the data",
		long: `Reads the whole backup, compares every digest, count and sum with its manifest and
walks its ledger before anything is changed. What is there goes to a folder
DIR/before-restore-TIME as one set, the journals of its database included; then
the backup takes its place, and counts and sums are compared once more.

Without a running server that is done at once. Beside a running one it is
prepared, and done when that is started anew.

  hearth restore /mnt/usb/hearth.tar.zst
  hearth restore hearth-auto-20261129T030000Z.tar.zst --keep-config
  hearth restore --back before-restore-20261129T120000    the way back
  hearth restore --cancel                                 forget what is prepared

Models are not in a backup: hearth model add installs them again, and the backup
says which by digest.`,
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			var r restoreFlags
			r.af.declare(fs)
			fs.StringVar(&r.pass, "passphrase", "", "open it with the passphrase behind this `REFERENCE`, env:NAME or file:PATH")
			fs.BoolVar(&r.keep, "keep-config", false, "leave appliance.toml as it is")
			fs.StringVar(&r.back, "back", "", "put back the earlier data in this `FOLDER` of the data directory")
			fs.BoolVar(&r.cancel, "cancel", false, "forget a restore that is prepared")
			return func(ctx context.Context, env *Env, args []string) error { return r.run(ctx, env, args) }
		},
	}
}

type restoreFlags struct {
	af           adminFlags
	pass, back   string
	keep, cancel bool
}

func (r *restoreFlags) run(ctx context.Context, env *Env, args []string) error {
	dir, path, err := r.af.locate(env)
	if err != nil {
		return err
	}
	one := 1
	if r.back != "" || r.cancel {
		one = 0
	}
	if len(args) != one {
		return usagef("restore: got %d files, wanted %d", len(args), one)
	}
	secret, err := passphraseOf(r.pass, env)
	if err != nil {
		return err
	}
	conn, err := dialAdmin(ctx, dir)
	if err == nil {
		conn.Close()
		return r.beside(ctx, env, dir, args, secret)
	}
	if r.cancel {
		return backup.Cancel(string(dir))
	}
	if err := dir.create(); err != nil {
		return err
	}
	c := &control{dir: dir, file: path}
	ctx = store.As(ctx, operator("command line"))
	if r.back != "" {
		config, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		_, err = backup.StageSet(string(dir), r.back, config, store.Actor(ctx), env.Now())
		if err != nil {
			return err
		}
	} else if _, err := c.stageRestore(ctx, c.findBackup(args[0]), secret, r.keep); err != nil {
		return err
	}
	return finishRestore(ctx, env, dir, r.af.json)
}

// findBackup takes a path, or the name of a file in the folder of backups.
func (c *control) findBackup(arg string) string {
	if there := c.dir.join("backups", arg); arg == filepath.Base(arg) && !fileExists(arg) && fileExists(there) {
		return there
	}
	return arg
}

// finishRestore carries out the plan of a data directory and says what came of it.
func finishRestore(ctx context.Context, env *Env, dir dataDir, asJSON bool) error {
	res, err := backup.Apply(ctx, string(dir))
	if err != nil || res == nil {
		return err
	}
	s, err := store.Open(dir.database(), store.Options{Now: env.Now, BallastBytes: -1})
	if err != nil {
		return fmt.Errorf("the restored ledger cannot be opened, the earlier data is in %s: %w", dir.join(res.Plan.Set), err)
	}
	defer s.Close()
	err = s.Audit(ctx, store.Audit{Actor: res.Plan.By, Action: "backup/restore", Subject: filepath.Base(res.Plan.Backup), Detail: restoredText(res)})
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(env.Stdout, res)
	}
	_, err = fmt.Fprintf(env.Stdout, "restored %s: %s\n", filepath.Base(res.Plan.Backup), restoredText(res))
	if o := s.Recovery(); o.Orphans > 0 {
		fmt.Fprintf(env.Stdout, "%d holds that were open when it was made are settled at %s USD\n", o.Orphans, usd(o.Nano))
	}
	if m := res.Plan.Manifest; m != nil {
		for _, model := range m.Models {
			fmt.Fprintf(env.Stdout, "not in it: model %s, sha256 %s\n", model.Name, model.Digest)
		}
		for _, o := range m.Outside {
			fmt.Fprintf(env.Stdout, "not in it: %s\n", o)
		}
	}
	fmt.Fprintf(env.Stdout, "the way back: hearth restore --back %s\n", res.Plan.Set)
	return err
}

// beside prepares a restore while a server runs.
func (r *restoreFlags) beside(ctx context.Context, env *Env, dir dataDir, args []string, secret string) error {
	c, err := connect(env, dir, nil)
	if err != nil {
		return err
	}
	defer c.close()
	if r.cancel {
		_, err := opBackupCancel.call(ctx, c, none{})
		return err
	}
	if r.back != "" {
		return errors.New("cannot put earlier data back beside a running server: stop it first")
	}
	st, err := opBackupStatus.call(ctx, c, none{})
	if err != nil {
		return err
	}
	name := filepath.Base(args[0])
	if there := filepath.Join(st.Schedule.Dir, name); args[0] != name || !fileExists(there) {
		if name, err = copyBackup(args[0], st.Schedule.Dir); err != nil {
			return err
		}
	}
	p, err := opBackupRestore.call(ctx, c, backupRestore{Name: name, Passphrase: secret, KeepConfig: r.keep, Confirm: name})
	if err != nil {
		return err
	}
	if r.af.json {
		return printJSON(env.Stdout, p)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s is unpacked and proven: ledger position %d, %d rows, %s USD charged\n%s\n", p.Backup,
		p.Manifest.Ledger.Seq, p.Manifest.Ledger.Rows, usd(p.Manifest.Ledger.ChargeNano), p.Next)
	return err
}

// copyBackup puts a backup from elsewhere into the folder of backups.
func copyBackup(path, dir string) (string, error) {
	in, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot open the backup: %w", err)
	}
	defer in.Close()
	name := filepath.Base(path)
	if !backupName(name) {
		name = strings.TrimLeft(name, ".") + backupSuffix // what it is shows in its head
	}
	if fileExists(filepath.Join(dir, name)) {
		return "", fmt.Errorf("cannot copy the backup to %s: a file of that name is there; name it alone if it is meant", dir)
	}
	out, err := os.CreateTemp(dir, ".unfinished-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(out.Name(), filepath.Join(dir, name))
	}
	return name, err
}
