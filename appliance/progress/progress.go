// Package progress shows how far long work has come: a bar with rate and
// remaining time that is drawn over on a terminal, a plain line now and then
// elsewhere, lines of JSON for programs, or nothing.
package progress

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Mode is how progress is shown.
type Mode string

// The modes. Auto is Bar on a terminal that can move its cursor, else Plain.
const (
	Auto  Mode = "auto"
	Bar   Mode = "bar"
	Plain Mode = "plain"
	JSON  Mode = "json"
	None  Mode = "none"
)

// ParseMode reads a mode; empty is Auto.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case "":
		return Auto, nil
	case Auto, Bar, Plain, JSON, None:
		return m, nil
	}
	return "", fmt.Errorf("got %q, wanted auto, bar, plain, json or none", s)
}

// Unit is what is counted.
type Unit string

// The units. Fraction counts from 0 to 1 in thousandths.
const (
	Bytes    Unit = "bytes"
	Items    Unit = "items"
	Fraction Unit = "thousandths"
)

// Periods of drawing, and of averaging the rate.
const (
	barPeriod   = 100 * time.Millisecond
	jsonPeriod  = 500 * time.Millisecond
	plainPeriod = 5 * time.Second
	plainFirst  = 2 * time.Second // shorter work needs no line
	rateWindow  = 4 * time.Second
)

// Options of New.
type Options struct {
	Mode Mode
	// Getenv reads TERM and NO_COLOR; nil: neither is set.
	Getenv func(string) string
	Now    func() time.Time // nil: time.Now
	Width  int              // columns of the terminal; 0: asked
}

// Shower shows one piece of work after the other. It is safe for concurrent use.
// A nil Shower shows nothing.
type Shower struct {
	w    io.Writer
	o    Options
	mode Mode
	tint bool

	mu      sync.Mutex // guards below
	label   string
	unit    Unit
	began   time.Time
	shown   time.Time // of the last drawing
	first   int64     // done at the start: what resumed work had
	marks   []mark    // of the last rateWindow
	drawn   bool      // a bar stands on the line of the cursor
	written bool      // a plain line was written for this label
}

type mark struct {
	at   time.Time
	done int64
}

// New shows progress on w.
func New(w io.Writer, o Options) *Shower {
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Shower{w: w, o: o, mode: o.Mode}
	term := o.Getenv("TERM")
	if s.mode == Auto || s.mode == "" {
		s.mode = Plain
		if f, ok := w.(*os.File); ok && term != "dumb" && terminalWidth(f) > 0 {
			s.mode = Bar
		}
	}
	s.tint = s.mode == Bar && o.Getenv("NO_COLOR") == "" && term != "dumb"
	return s
}

// Update is one sight of the work, as JSON lines tell it.
type Update struct {
	Label    string  `json:"label"`
	Done     int64   `json:"done"`
	Total    int64   `json:"total,omitempty"` // 0: not known
	Unit     Unit    `json:"unit"`
	Fraction float64 `json:"fraction"`
	Rate     float64 `json:"rate,omitempty"`   // units a second
	ETA      int64   `json:"eta_ms,omitempty"` // until the end, milliseconds; 0: not known
}

// Set tells that done of total units of the work called label are finished. A
// new label begins a new piece of work.
func (s *Shower) Set(label string, unit Unit, done, total int64) {
	if s == nil || s.mode == None {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Now()
	if label != s.label || unit != s.unit || s.began.IsZero() {
		s.clear()
		s.label, s.unit, s.began, s.shown, s.first = label, unit, now, time.Time{}, done
		s.marks, s.written = nil, false
	}
	s.note(now, done)
	if !s.due(now, total > 0 && done >= total) {
		return
	}
	s.shown = now
	s.draw(s.update(done, total))
}

// Say prints a line above the bar, or as it is in plain mode. JSON and None drop
// it.
func (s *Shower) Say(format string, args ...any) {
	if s == nil || s.mode == None || s.mode == JSON {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// Done clears the bar. Work may follow.
func (s *Shower) Done() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.label, s.began = "", time.Time{}
}

func (s *Shower) due(now time.Time, end bool) bool {
	switch s.mode {
	case Bar:
		return end || now.Sub(s.shown) >= barPeriod
	case JSON:
		return end || now.Sub(s.shown) >= jsonPeriod
	}
	if end {
		return s.written // the end of what was worth a line
	}
	since := s.shown
	if since.IsZero() {
		return now.Sub(s.began) >= plainFirst
	}
	return now.Sub(since) >= plainPeriod
}

// note keeps what is needed for a rate.
func (s *Shower) note(now time.Time, done int64) {
	if n := len(s.marks); n > 0 && now.Sub(s.marks[n-1].at) < 50*time.Millisecond {
		s.marks[n-1].done = done
		return
	}
	s.marks = append(s.marks, mark{now, done})
	for len(s.marks) > 2 && now.Sub(s.marks[0].at) > rateWindow {
		s.marks = s.marks[1:]
	}
}

func (s *Shower) update(done, total int64) Update {
	u := Update{Label: s.label, Done: done, Total: total, Unit: s.unit}
	if total > 0 {
		u.Fraction = math.Min(1, float64(done)/float64(total))
	}
	if a, b := s.marks[0], s.marks[len(s.marks)-1]; b.at.Sub(a.at) >= 200*time.Millisecond && b.done > a.done {
		u.Rate = float64(b.done-a.done) / b.at.Sub(a.at).Seconds()
	}
	if u.Rate > 0 && total > done {
		u.ETA = int64(1000 * float64(total-done) / u.Rate)
	}
	return u
}

func (s *Shower) draw(u Update) {
	switch s.mode {
	case JSON:
		b, _ := json.Marshal(map[string]Update{"progress": u}) // made of plain kinds
		fmt.Fprintf(s.w, "%s\n", b)
	case Bar:
		width := s.o.Width
		if f, ok := s.w.(*os.File); ok && width == 0 {
			width = terminalWidth(f)
		}
		if width <= 0 {
			width = 80
		}
		fmt.Fprintf(s.w, "\r%s\x1b[K", s.line(u, width-1))
		s.drawn = true
	default:
		fmt.Fprintln(s.w, u.text())
		s.written = true
	}
}

func (s *Shower) clear() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// maxBar is how wide the bar itself is at most.
const maxBar = 30

// line fits label, bar and figures into width columns, the bar first to go.
func (s *Shower) line(u Update, width int) string {
	figures := u.figures()
	room := width - utf8.RuneCountInString(u.Label) - utf8.RuneCountInString(figures) - 4
	if u.Total <= 0 || room < 8 {
		return cut(u.Label+"  "+figures, width)
	}
	n := min(room, maxBar)
	full := int(u.Fraction * float64(n))
	done, left := strings.Repeat("━", full), strings.Repeat("─", n-full)
	if s.tint {
		done, left = "\x1b[32m"+done+"\x1b[0m", "\x1b[2m"+left+"\x1b[0m"
	}
	return u.Label + "  " + done + left + "  " + figures
}

func cut(text string, width int) string {
	r := []rune(text)
	return string(r[:min(len(r), max(0, width))])
}

func (u Update) text() string { return u.Label + ": " + u.figures() }

// figures is what the bar says in numbers.
func (u Update) figures() string {
	var parts []string
	if u.Total > 0 {
		parts = append(parts, fmt.Sprintf("%3.0f %%", math.Floor(100*u.Fraction)))
	}
	switch u.Unit {
	case Bytes:
		text := Size(u.Done)
		if u.Total > 0 {
			text += " of " + Size(u.Total)
		}
		parts = append(parts, text)
		if u.Rate > 0 {
			parts = append(parts, Size(int64(u.Rate))+"/s")
		}
	case Items:
		text := fmt.Sprint(u.Done)
		if u.Total > 0 {
			text += fmt.Sprintf(" of %d", u.Total)
		}
		parts = append(parts, text)
		if u.Rate >= 10 {
			parts = append(parts, fmt.Sprintf("%.0f/s", u.Rate))
		}
	}
	if u.ETA > 0 {
		parts = append(parts, remaining(time.Duration(u.ETA)*time.Millisecond)+" left")
	}
	return strings.Join(parts, "  ")
}

// Size writes bytes in powers of 1000, as disks and networks count.
func Size(n int64) string {
	switch {
	case n >= 1e12:
		return fmt.Sprintf("%.2f TB", float64(n)/1e12)
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

func remaining(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d s", max(1, int(d.Seconds())))
}
