package appliance

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// logRing keeps the latest records of the log, as text in memory that is used
// again: to add one allocates nothing, and keeps nothing of its caller's alive.
type logRing struct {
	mu      sync.Mutex // guards below
	list    []keptRecord
	next    uint64 // number of the next record, from 1 on
	waiting chan struct{}
}

type keptRecord struct {
	seq     uint64
	at      time.Time
	level   slog.Level
	message string
	text    logText
}

// logText is a list of attributes as text: key, value, key, value, the end of
// each in ends.
type logText struct {
	b    []byte
	ends []uint32
}

const (
	// maxLogText bounds one value that is kept, maxLogRoom what a place in the
	// ring may go on holding, maxLogAttrs the attributes of a record.
	maxLogText  = 4 << 10
	maxLogRoom  = 16 << 10
	maxLogAttrs = 64
)

// add appends an attribute, those of a group one by one.
func (t *logText) add(group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, g := range v.Group() {
			t.add(group, g)
		}
		return
	}
	if len(t.ends) >= 2*maxLogAttrs {
		return
	}
	t.b = append(append(t.b, group...), a.Key...)
	t.ends = append(t.ends, uint32(len(t.b)))
	from := len(t.b)
	switch v.Kind() {
	case slog.KindString:
		t.b = append(t.b, v.String()[:min(len(v.String()), maxLogText)]...)
	case slog.KindInt64:
		t.b = strconv.AppendInt(t.b, v.Int64(), 10)
	case slog.KindUint64:
		t.b = strconv.AppendUint(t.b, v.Uint64(), 10)
	case slog.KindBool:
		t.b = strconv.AppendBool(t.b, v.Bool())
	case slog.KindTime:
		t.b = v.Time().AppendFormat(t.b, time.RFC3339Nano)
	default:
		t.b = append(t.b, v.String()...)
	}
	if len(t.b) > from+maxLogText {
		t.b = t.b[:from+maxLogText]
	}
	t.ends = append(t.ends, uint32(len(t.b)))
}

// reset empties t for another record.
func (t *logText) reset() {
	if cap(t.b) > maxLogRoom {
		t.b = nil
	}
	t.b, t.ends = t.b[:0], t.ends[:0]
}

// each gives the attributes in order.
func (t *logText) each(yield func(key, value string)) {
	from := uint32(0)
	for i := 0; i+1 < len(t.ends); i += 2 {
		yield(string(t.b[from:t.ends[i]]), string(t.b[t.ends[i]:t.ends[i+1]]))
		from = t.ends[i+1]
	}
}

// resize sets how many records are kept; those that are there stay, the latest
// first.
func (r *logRing) resize(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == 0 {
		r.next = 1
	}
	if n == len(r.list) {
		return
	}
	list := make([]keptRecord, n)
	for seq := r.oldestLocked(); seq < r.next && n > 0; seq++ {
		k := r.list[seq%uint64(len(r.list))]
		list[seq%uint64(n)] = k
	}
	r.list = list
}

// oldestLocked is the number of the first record that is kept; next if none is.
func (r *logRing) oldestLocked() uint64 {
	n := uint64(len(r.list))
	if n == 0 {
		return r.next
	}
	first := uint64(1)
	if r.next > n {
		first = r.next - n
	}
	for first < r.next && r.list[first%n].seq != first {
		first++ // a ring that has been enlarged
	}
	return first
}

func (r *logRing) add(h *logHandler, rec *slog.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := uint64(len(r.list))
	if n == 0 {
		return
	}
	k := &r.list[r.next%n]
	k.seq, k.at, k.level, k.message = r.next, rec.Time, rec.Level, rec.Message
	if len(k.message) > maxLogText {
		k.message = strings.Clone(k.message[:maxLogText])
	}
	k.text.reset()
	k.text.b, k.text.ends = append(k.text.b, h.kept.b...), append(k.text.ends, h.kept.ends...)
	rec.Attrs(func(a slog.Attr) bool {
		k.text.add(h.group, a)
		return true
	})
	r.next++
	r.wakeLocked()
}

func (r *logRing) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeLocked()
}

func (r *logRing) wakeLocked() {
	if r.waiting != nil {
		close(r.waiting)
		r.waiting = nil
	}
}

// more is closed when a record comes after number after.
func (r *logRing) more(after uint64) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next > after+1 {
		c := make(chan struct{})
		close(c)
		return c
	}
	if r.waiting == nil {
		r.waiting = make(chan struct{})
	}
	return r.waiting
}

// logFilter says which records somebody wants to see.
type logFilter struct {
	after   uint64 // records behind this number; 0: the latest
	level   slog.Level
	request string // id, of ours or of a trace
	text    string // somewhere in the record
	limit   int
}

// logRecord is a record as it is told, secrets masked.
type logRecord struct {
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
	Request string    `json:"request,omitempty"`
	Attrs   []logAttr `json:"attrs,omitempty"`
}

type logAttr struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// read gives the records that pass, oldest first; with after 0 the latest of
// them. last is the number up to which everything has been looked at, lost says
// that records behind after have gone already.
func (r *logRing) read(f logFilter) (out []logRecord, last uint64, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, n := r.oldestLocked(), uint64(len(r.list))
	last = r.next - 1
	take := func(seq uint64) bool {
		if rec, ok := r.list[seq%n].tell(&f); ok {
			out = append(out, rec)
		}
		return len(out) < f.limit
	}
	if f.after == 0 { // backwards, then turned round
		for seq := r.next; seq > first; seq-- {
			if !take(seq - 1) {
				break
			}
		}
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
		return out, last, false
	}
	lost = f.after+1 < first
	for seq := max(first, f.after+1); seq < r.next; seq++ {
		if !take(seq) {
			return out, seq, lost
		}
	}
	return out, last, lost
}

// tell writes the record out if it passes.
func (k *keptRecord) tell(f *logFilter) (logRecord, bool) {
	if k.level < f.level {
		return logRecord{}, false
	}
	out := logRecord{Seq: k.seq, At: k.at, Level: levelName(k.level), Message: maskSecrets(k.message)}
	found := f.request == ""
	k.text.each(func(key, v string) {
		switch key {
		case "request", "request_id":
			out.Request = v
			found = found || v == f.request
		case "trace_id":
			found = found || v == f.request
		}
		out.Attrs = append(out.Attrs, logAttr{key, maskValue(key, v)})
	})
	return out, found && out.holds(f.text)
}

func (r *logRecord) holds(text string) bool {
	if text == "" || strings.Contains(r.Message, text) {
		return true
	}
	for _, a := range r.Attrs {
		if strings.Contains(a.Value, text) || strings.Contains(a.Key, text) {
			return true
		}
	}
	return false
}

// The log holds no secrets by construction. What is shown of it to people is
// masked all the same, should a provider or a driver have put one into words.

const mask = "[masked]"

// secretNames are attribute keys whose value is not shown.
var secretNames = []string{"authorization", "password", "secret", "cookie", "credential", "api_key", "apikey", "token"}

func maskValue(key, value string) string {
	key = strings.ToLower(key)
	for _, n := range secretNames {
		if key == n || strings.HasSuffix(key, "."+n) || strings.HasSuffix(key, "_"+n) {
			return mask
		}
	}
	return maskSecrets(value)
}

// secretStarts are beginnings of credentials, with the least length of what
// follows.
var secretStarts = []struct {
	start string
	least int
}{
	{"hk_", 16}, {"sk-", 16}, {"Bearer ", 8}, {"Basic ", 8}, {"ghp_", 16}, {"glpat-", 16}, {"AKIA", 12}, {"AIza", 20}, {"ya29.", 16}, {"xoxb-", 12}, {"eyJ", 24},
}

func maskSecrets(s string) string {
	for _, x := range secretStarts {
		for from := 0; ; {
			i := strings.Index(s[from:], x.start)
			if i < 0 {
				break
			}
			i += from
			end := i + len(x.start)
			for end < len(s) && isSecretByte(s[end]) {
				end++
			}
			if end-i-len(x.start) < x.least || i > 0 && isSecretByte(s[i-1]) && x.start[len(x.start)-1] != ' ' {
				from = i + len(x.start)
				continue
			}
			s = s[:i] + mask + s[end:]
			from = i + len(mask)
		}
	}
	return s
}

func isSecretByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '/' || c == '+' || c == '='
}

// line is the record as the log has it, for terminals.
func (r *logRecord) line() string {
	var b strings.Builder
	b.WriteString(r.At.Format("2006-01-02T15:04:05.000Z07:00") + " " + strings.ToUpper(r.Level) + " " + r.Message)
	for _, a := range r.Attrs {
		b.WriteString(" " + a.Key + "=")
		if a.Value == "" || strings.ContainsAny(a.Value, " \"\n\r\t=\x1b") || !utf8.ValidString(a.Value) {
			q, _ := json.Marshal(a.Value)
			b.Write(q)
		} else {
			b.WriteString(a.Value)
		}
	}
	return b.String()
}
