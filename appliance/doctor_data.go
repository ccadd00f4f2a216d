package appliance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine/artifact"
)

func (d *doctor) dataDirectory(context.Context) {
	const name = "data directory"
	st, err := os.Stat(string(d.dir))
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.warn(name, "run `hearth serve`, which makes it", "%s is not there yet", d.dir)
		return
	case err != nil:
		d.fail(name, "see that this user may read it", "%v", err)
		return
	case !st.IsDir():
		d.fail(name, "name another with --data", "%s is not a directory", d.dir)
		return
	case st.Mode().Perm()&0o077 != 0:
		d.warn(name, "chmod 700 "+shellQuote(string(d.dir)), "others may read %s", d.dir)
	default:
		d.ok(name, "%s", d.dir)
	}
	for _, file := range []string{d.dir.database(), d.dir.firstRun(), d.path} {
		st, err := os.Stat(file)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			d.fail("permissions", "see that this user may read it", "%v", err)
		case st.Mode().Perm()&0o077 != 0 && file != d.path:
			d.warn("permissions", "chmod 600 "+shellQuote(file), "others may read %s", file)
		case st.Mode().Perm()&0o022 != 0:
			d.warn("permissions", "chmod 600 "+shellQuote(file), "others may change %s", file)
		}
	}
	f, err := os.CreateTemp(string(d.dir), ".doctor-*")
	if err != nil {
		d.fail("permissions", fmt.Sprintf("chown -R $(id -un) %s, or start hearth as its owner", shellQuote(string(d.dir))), "this user cannot write there: %v", err)
		return
	}
	f.Close()
	os.Remove(f.Name())
}

func (d *doctor) diskSpace(context.Context) {
	const name = "disk space"
	if !fileExists(string(d.dir)) {
		return
	}
	free, err := freeBytes(string(d.dir))
	switch {
	case err != nil:
		d.warn(name, "look with df", "cannot be read: %v", err)
	case free < 64<<20:
		d.fail(name, "make room: the ledger takes no new work on a full disk", "%s free", bytesText(int64(free)))
	case free < 1<<30:
		d.warn(name, "make room before it is full", "%s free", bytesText(int64(free)))
	default:
		d.ok(name, "%s free", bytesText(int64(free)))
	}
}

// Every hold and every settlement waits for the disk once.
const (
	slowSync = 20 * time.Millisecond
	badSync  = 200 * time.Millisecond
	syncs    = 15
)

// diskSpeed times small synced writes, as the ledger makes them.
func (d *doctor) diskSpeed(ctx context.Context) {
	const name = "disk speed"
	if d.quick || !fileExists(string(d.dir)) {
		return
	}
	f, err := os.CreateTemp(string(d.dir), ".doctor-*")
	if err != nil {
		return // told already
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	var took []time.Duration
	for i := 0; i < syncs && ctx.Err() == nil; i++ {
		began := time.Now()
		if _, err = f.WriteAt(page, int64(i)*4096); err == nil {
			err = f.Sync()
		}
		if err != nil {
			d.fail(name, "look at the kernel's log for errors of the disk", "a synced write failed: %v", err)
			return
		}
		took = append(took, time.Since(began))
	}
	if len(took) == 0 {
		return
	}
	slices.Sort(took)
	mid, worst := took[len(took)/2], took[len(took)-1]
	text := fmt.Sprintf("a synced write takes %s, at worst %s", mid.Round(10*time.Microsecond), worst.Round(10*time.Microsecond))
	const fix = "put the data directory on a local SSD: each request waits for a synced write before its first token, and again at its end"
	switch {
	case mid > badSync:
		d.fail(name, fix, "%s", text)
	case mid > slowSync:
		d.warn(name, fix, "%s", text)
	default:
		d.ok(name, "%s", text)
	}
}

func (d *doctor) configuration(context.Context) {
	const name = "configuration"
	c, err := config.Load(d.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.conf = config.Default()
		d.warn(name, "run `hearth serve`, which writes one", "%s is not there yet", d.path)
	case err != nil:
		d.fail(name, "mend the named keys, then `hearth config check`", "%v", strings.ReplaceAll(err.Error(), "\n  ", "; "))
	default:
		d.conf = c
		d.ok(name, "%s", d.path)
		for _, x := range doubts(c, d.path, localModels(c, d.dir), d.env.Getenv) {
			if !strings.HasSuffix(x.Path, ".credential") { // told below
				d.warn(name, "see `hearth config check`, which names the line", "%v", x)
			}
		}
	}
}

// credentials sees whether the keys of upstreams can be read.
func (d *doctor) credentials(context.Context) {
	const name = "upstream credentials"
	if d.conf == nil || len(d.conf.Upstreams) == 0 {
		return
	}
	bad := 0
	for _, u := range beside(d.path, d.conf.Upstreams) {
		why := unreadable(u.Credential, d.env.Getenv)
		if why == "" {
			continue
		}
		bad++
		d.warn(name, "give it to the server's environment, or mend the reference", "upstream %s: %s", u.Name, why)
	}
	if bad == 0 {
		d.ok(name, "all of %d can be read", len(d.conf.Upstreams))
	}
}

func (d *doctor) timeZone(context.Context) {
	const name = "time zone"
	if d.conf == nil {
		return
	}
	zones := []string{d.conf.Zone}
	for i := range d.conf.Tenants {
		if z := d.conf.Tenants[i].Zone; z != "" && !slices.Contains(zones, z) {
			zones = append(zones, z)
		}
	}
	for _, z := range zones {
		l, err := time.LoadLocation(z)
		if err != nil {
			d.fail(name, "install tzdata, or use UTC", "the zone %q is not known here: %v", z, err)
			continue
		}
		d.ok(name, "budgets of %s begin their day at 00:00 %s, it is %s there", orDash(z), l, d.env.Now().In(l).Format("15:04"))
	}
}

func (d *doctor) installedModels(context.Context) {
	const name = "library"
	if !fileExists(d.dir.models()) {
		return
	}
	lib, err := artifact.Open(d.dir.models())
	if err == nil {
		defer lib.Close()
		var list []artifact.Manifest
		list, err = lib.List()
		for i := range list {
			file, perr := lib.Path(list[i].Name)
			if perr == nil && !fileExists(file) {
				d.fail(name, fmt.Sprintf("hearth model remove %s, and add it again", list[i].Name), "%s has lost its file %s", list[i].Name, filepath.Base(file))
			}
		}
		if err == nil {
			d.ok(name, "%d models are installed", len(list))
			return
		}
	}
	d.fail(name, "remove the broken model's folder and add it again", "%v", err)
}
