package config

import (
	"strings"
	"time"
)

// Backup is [backup]: copies of everything but the models, made while serving.
type Backup struct {
	// Every is the time between scheduled backups; zero: none are made. Default 24h.
	Every Duration `toml:"every"`
	// At is the time of day, HH:MM in the zone at the top of the file, of backups
	// that are a day or more apart, and of the nightly drill. Default "03:00".
	At string `toml:"at"`
	// Keep is how many scheduled backups are kept; the oldest go, never the newest
	// that has passed its drill. Default 7.
	Keep int `toml:"keep"`
	// Dir is where they lie, relative to the data directory. Default "backups".
	Dir string `toml:"dir"`
	// Passphrase is a reference to the passphrase that scheduled backups are
	// encrypted with: "env:NAME", "file:PATH" or "systemd:NAME". Empty: they are
	// not, and readable by whoever reads the data directory. Default empty.
	Passphrase string `toml:"passphrase"`
	// Drill has the newest backup unpacked, opened and compared with its manifest
	// each night. Default true.
	Drill bool `toml:"drill"`
}

func (b *Backup) setDefaults() {
	*b = Backup{Every: Duration(24 * time.Hour), At: "03:00", Keep: 7, Dir: "backups", Drill: true}
}

func (b *Backup) validate(f *Faults) {
	if b.Every != 0 {
		f.span("backup.every", b.Every, 10*time.Minute, 31*24*time.Hour)
	}
	if _, _, err := b.Time(); err != nil {
		f.add("backup.at", "cannot read %.20q as a time of day, wanted HH:MM, for instance \"03:00\"", b.At)
	}
	f.count("backup.keep", b.Keep, 1, 1000)
	if b.Dir == "" || strings.ContainsRune(b.Dir, 0) {
		f.add("backup.dir", "is empty, wanted a folder")
	}
	if b.Passphrase != "" {
		kind, name, ok := strings.Cut(b.Passphrase, ":")
		if !ok || name == "" || kind != "env" && kind != "file" && kind != "systemd" {
			f.add("backup.passphrase", "cannot be used: wanted a reference to it, env:NAME, file:PATH or systemd:NAME")
		}
	}
}

// Time is At as hour and minute.
func (b *Backup) Time() (hour, minute int, err error) {
	t, err := time.Parse("15:04", b.At)
	return t.Hour(), t.Minute(), err
}
