package store

import (
	"fmt"
	"time"
)

// Period is the length of a budget window.
type Period string

const (
	Day   Period = "day"   // local midnight to local midnight, 23 to 25 hours long
	Month Period = "month" // first of the month to the next first
	Total Period = "total" // one window, never reset
)

// Window is one calendar window of a budget. Its ID is a date label without the
// zone ("2026-03-29", "2026-03", "total"): moving the budget to another zone
// keeps today's spending, and a clock that jumps back finds the old balance
// again, so that no window is ever granted twice.
type Window struct {
	ID    string    `json:"id"`
	Start time.Time `json:"start,omitzero"` // zero for Total
	End   time.Time `json:"end,omitzero"`   // exclusive; zero for Total
}

// WindowAt gives the window of p that holds t in loc. Days and months begin at
// the first instant of their first date, also in zones that skip midnight.
func WindowAt(p Period, loc *time.Location, t time.Time) (Window, error) {
	l := t.In(loc)
	y, m, d := l.Date()
	switch p {
	case Day:
		return Window{l.Format("2006-01-02"), startOfDay(y, m, d, loc), startOfDay(y, m, d+1, loc)}, nil
	case Month:
		return Window{l.Format("2006-01"), startOfDay(y, m, 1, loc), startOfDay(y, m+1, 1, loc)}, nil
	case Total:
		return Window{ID: "total"}, nil
	}
	return Window{}, fmt.Errorf("cannot find the window of period %q: want day, month or total", p)
}

// startOfDay is the first instant whose local date is y-m-d. Most days that is
// midnight; where daylight saving skips midnight or has it twice, time.Date may
// answer with another instant, and the edge is searched for.
func startOfDay(y int, m time.Month, d int, loc *time.Location) time.Time {
	noon := time.Date(y, m, d, 12, 0, 0, 0, loc)
	y, m, d = noon.Date() // d may have been 0 or past the month's end
	t := time.Date(y, m, d, 0, 0, 0, 0, loc)
	if sameDate(t, y, m, d) && !sameDate(t.Add(-time.Nanosecond), y, m, d) {
		return t
	}
	lo, hi := noon.Add(-20*time.Hour).Unix(), noon.Unix() // lo is on the day before, hi on the day
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if sameDate(time.Unix(mid, 0).In(loc), y, m, d) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return time.Unix(hi, 0).In(loc)
}

func sameDate(t time.Time, y int, m time.Month, d int) bool {
	ty, tm, td := t.Date()
	return ty == y && tm == m && td == d
}
