package store

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestWindowsOfOddDays(t *testing.T) {
	f := func(zone string, p Period, at, id, start, end string) {
		t.Helper()
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		w, err := WindowAt(p, loc, when)
		if err != nil || w.ID != id || w.Start.UTC().Format(time.RFC3339) != start || w.End.UTC().Format(time.RFC3339) != end {
			t.Errorf("%s %s %s: %s [%s, %s), %v, want %s [%s, %s)", zone, p, at, w.ID,
				w.Start.UTC().Format(time.RFC3339), w.End.UTC().Format(time.RFC3339), err, id, start, end)
		}
	}
	// A day of 23 hours and one of 25.
	f("Europe/Berlin", Day, "2026-03-29T12:00:00Z", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z")
	f("Europe/Berlin", Day, "2026-10-25T12:00:00Z", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z")
	// Midnight that does not exist: 2024-09-08 in Santiago begins at 01:00.
	f("America/Santiago", Day, "2024-09-08T12:00:00Z", "2024-09-08", "2024-09-08T04:00:00Z", "2024-09-09T03:00:00Z")
	// Midnight that comes twice: Havana goes back from 01:00 to 00:00.
	f("America/Havana", Day, "2026-11-01T12:00:00Z", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z")
	// A day that does not exist: Apia skipped 2011-12-30.
	f("Pacific/Apia", Day, "2011-12-30T09:59:59Z", "2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z")
	f("Pacific/Apia", Day, "2011-12-30T10:00:00Z", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z")
	// Ends of months and years.
	f("UTC", Month, "2028-02-29T23:59:59Z", "2028-02", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z")
	f("Asia/Kolkata", Month, "2026-12-31T18:29:59Z", "2026-12", "2026-11-30T18:30:00Z", "2026-12-31T18:30:00Z")
	f("Asia/Kolkata", Month, "2026-12-31T18:30:00Z", "2027-01", "2026-12-31T18:30:00Z", "2027-01-31T18:30:00Z")
	if w, err := WindowAt(Total, time.UTC, time.Now()); err != nil || w != (Window{ID: "total"}) {
		t.Errorf("total: %+v, %v", w, err)
	}
	if _, err := WindowAt("week", time.UTC, time.Now()); err == nil {
		t.Error("there is no week")
	}
}

// TestWindowsTile walks random instants of awkward zones: each lies in its
// window, the end of one is the start of the next, and labels never go back
// except where a date itself comes twice.
func TestWindowsTile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "America/Sao_Paulo", "Asia/Beirut",
		"Africa/Cairo", "Asia/Tehran", "Australia/Lord_Howe", "Pacific/Apia", "America/Havana", "Atlantic/Azores", "America/Scoresbysund"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			at := time.Unix(r.Int64N(2_000_000_000), 0)
			for _, p := range []Period{Day, Month} {
				w, err := WindowAt(p, loc, at)
				if err != nil {
					t.Fatal(err)
				}
				next, _ := WindowAt(p, loc, w.End)
				prev, _ := WindowAt(p, loc, w.Start.Add(-time.Second))
				if at.Before(w.Start) || !next.Start.Equal(w.End) || next.ID <= w.ID || prev.ID >= w.ID || !w.Start.Before(w.End) {
					t.Fatalf("%s %s %v: %+v, then %+v, before %+v", zone, p, at, w, next, prev)
				}
			}
		}
	}
}
