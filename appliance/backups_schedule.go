package appliance

import (
	"context"
	"errors"
	"time"

	"hearth/appliance/backup"
	"hearth/appliance/config"
	"hearth/store"
)

// catchUp is how long after a start a backup that was missed is made.
const catchUp = time.Minute

// openBackups notes a restore that this start has ended, and makes backups and
// drills by the clock.
func (a *Appliance) openBackups(ctx context.Context) error {
	if err := a.tellRestored(ctx); err != nil {
		return err
	}
	if c := a.control(); keptRun[backupRun](ctx, c, "since") == nil {
		c.noteRun(ctx, "since", backupRun{At: a.now().UTC()})
	}
	if err := a.loadEvidenceNow(ctx); err != nil {
		return err
	}
	a.telemetry.registry.MustRegister(&backupCollector{a})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.backupLoop(ctx)
	}()
	a.onClose(func() error { stop(); <-done; return nil })
	return nil
}

// backupLoop looks every minute whether something is due: a reload may have
// changed the times, and the clock may have been set.
func (a *Appliance) backupLoop(ctx context.Context) {
	c := a.control()
	if dir, _, err := c.backupDir(); err == nil {
		if err := backup.Sweep(dir); err != nil {
			a.log.Warn("cannot remove unfinished backups", "error", err)
		}
	}
	tick := time.NewTicker(catchUp)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.backupsDue(store.As(ctx, "schedule"), c, a.now())
		}
	}
}

// backupsDue makes what is due at now.
func (a *Appliance) backupsDue(ctx context.Context, c *control, now time.Time) {
	s, err := c.schedule(ctx, now)
	if err != nil {
		a.log.Error("the schedule of backups cannot be read", "error", err)
		return
	}
	if !s.Next.IsZero() && !now.Before(s.Next) {
		if err := c.scheduledRun(ctx, now); err != nil && ctx.Err() == nil {
			a.log.Error("a scheduled backup failed", "error", err)
		}
		return
	}
	if !s.NextDrill.IsZero() && !now.Before(s.NextDrill) {
		if err := c.nightlyDrill(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("the drill of the newest backup failed", "error", err)
		}
	}
}

// scheduledRun makes a backup, tries it, and lets go of old ones.
func (c *control) scheduledRun(ctx context.Context, now time.Time) error {
	done, err := c.busyBackups()
	if err != nil {
		return err
	}
	defer done()
	f, err := c.scheduledFile(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	run := backupRun{At: now.UTC(), Backup: f.Name, Bytes: f.Bytes}
	if err != nil {
		run.Error = err.Error()
	}
	c.noteRun(ctx, "scheduled", run)
	if err != nil {
		return err
	}
	c.server.log.Info("backup made", "backup", f.Name, "bytes", f.Bytes, "ledger_position", f.Manifest.Ledger.Seq)
	dir, conf, err := c.backupDir()
	if err != nil {
		return err
	}
	if conf.Drill {
		err = c.drillNewest(ctx, conf)
	}
	return errors.Join(err, c.prune(ctx, dir, conf.Keep))
}

func (c *control) scheduledFile(ctx context.Context) (backupFile, error) {
	dir, conf, err := c.backupDir()
	if err != nil {
		return backupFile{}, err
	}
	pass, err := c.passphraseFor("", conf)
	if err != nil {
		return backupFile{}, err
	}
	return c.makeBackup(ctx, dir, scheduledBackup, "", pass)
}

// nightlyDrill tries the newest backup.
func (c *control) nightlyDrill(ctx context.Context) error {
	done, err := c.busyBackups()
	if err != nil {
		return err
	}
	defer done()
	_, conf, err := c.backupDir()
	if err != nil {
		return err
	}
	return c.drillNewest(ctx, conf)
}

func (c *control) drillNewest(ctx context.Context, conf *config.Backup) error {
	list, err := listBackups(ctx, c)
	if err != nil || len(list) == 0 {
		return err
	}
	f := &list[0]
	path, _, err := c.backupPath(f.Name)
	if err != nil {
		return err
	}
	pass := ""
	if f.Encrypted {
		if pass, err = c.passphraseFor("", conf); err != nil {
			return err
		}
	}
	r, err := c.drill(ctx, f, path, pass, store.Actor(ctx))
	if err != nil {
		c.noteRun(ctx, "drill-error", backupRun{At: c.now().UTC(), Backup: f.Name, Error: err.Error()})
		return err
	}
	if !r.OK {
		c.server.log.Error("a backup cannot be restored", "backup", f.Name, "fault", r.Faults[0], "faults", len(r.Faults))
		return nil
	}
	c.server.log.Info("a backup was proven", "backup", f.Name, "rows", r.Rows, "took", r.Took)
	return nil
}

// schedule is when the next backup and the next drill are due.
type schedule struct {
	Next      time.Time `json:"next,omitzero"` // zero: none are made
	NextDrill time.Time `json:"next_drill,omitzero"`
	Every     string    `json:"every"`
	At        string    `json:"at"`
	Keep      int       `json:"keep"`
	Dir       string    `json:"dir"`
	Encrypted bool      `json:"encrypted"`
}

func (c *control) schedule(ctx context.Context, now time.Time) (schedule, error) {
	conf, err := c.config()
	if err != nil {
		return schedule{}, err
	}
	b := &conf.Backup
	s := schedule{Every: b.Every.String(), At: b.At, Keep: b.Keep, Dir: c.dir.resolve(b.Dir), Encrypted: b.Passphrase != ""}
	zone, err := time.LoadLocation(conf.Zone)
	if err != nil {
		return s, err
	}
	hour, minute, err := b.Time()
	if err != nil {
		return s, err
	}
	night := func(after time.Time) time.Time { return nextNight(after.In(zone), hour, minute) }
	since := now
	if r := keptRun[backupRun](ctx, c, "since"); r != nil {
		since = r.At
	}
	if b.Every > 0 {
		switch r := keptRun[backupRun](ctx, c, "scheduled"); {
		case r == nil:
			s.Next = nextBackup(time.Time{}, since, b.Every.Std(), night)
		case r.Error != "":
			s.Next = r.At.Add(min(b.Every.Std(), time.Hour))
		default:
			s.Next = nextBackup(r.At, since, b.Every.Std(), night)
		}
	}
	if b.Drill {
		last := since
		if r := keptRun[drillResult](ctx, c, "drill"); r != nil && r.At.After(last) {
			last = r.At
		}
		if r := keptRun[backupRun](ctx, c, "drill-error"); r != nil && r.At.After(last) {
			last = r.At
		}
		s.NextDrill = night(last)
	}
	return s, nil
}

// nextNight is the first hour:minute after t, in its zone.
func nextNight(t time.Time, hour, minute int) time.Time {
	n := time.Date(t.Year(), t.Month(), t.Day(), hour, minute, 0, 0, t.Location())
	if !n.After(t) {
		n = time.Date(t.Year(), t.Month(), t.Day()+1, hour, minute, 0, 0, t.Location())
	}
	return n
}

// nextBackup is when the backup after last is due: every so often, or, from a day
// on, at night. The first one comes at once where they are closer than a day,
// else in the night after since.
func nextBackup(last, since time.Time, every time.Duration, night func(time.Time) time.Time) time.Time {
	const day = 24 * time.Hour
	switch {
	case every < day && last.IsZero():
		return since
	case every < day:
		return last.Add(every)
	case last.IsZero():
		return night(since)
	}
	// Half a day early counts: nights move with daylight saving, runs take time.
	return night(last.Add(every - day/2))
}
