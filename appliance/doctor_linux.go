package appliance

import (
	"context"

	"golang.org/x/sys/unix"
)

// clockSynced says whether the kernel believes that its clock is kept right, see
// adjtimex(2).
func clockSynced() (synced, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, false
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, true
}

// fewFiles is what a server needs beside two for each request.
const fewFiles = 256

func (d *doctor) limits(context.Context) {
	var files, locked unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || unix.Getrlimit(unix.RLIMIT_MEMLOCK, &locked) != nil {
		return
	}
	requests := 0
	if d.conf != nil {
		requests = d.conf.Server.MaxRequests
	}
	// Go raises the soft limit to the hard one.
	if need := uint64(2*requests + fewFiles); files.Max < need {
		d.warn("open files", "raise the limit: LimitNOFILE=65536 in the unit, or ulimit -n 65536", "%d may be open, and %d requests take up to %d", files.Max, requests, need)
	} else {
		d.ok("open files", "%d may be open", files.Max)
	}
	if locked.Max != unix.RLIM_INFINITY && locked.Max < 64<<20 {
		d.ok("locked memory", "%s may be locked: enough for processors; a GPU's host buffers want LimitMEMLOCK=infinity", bytesText(int64(locked.Max)))
		return
	}
	d.ok("locked memory", "enough may be locked")
}
