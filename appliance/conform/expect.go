package conform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Expect is what must be seen. A field that is not set is not looked at, but for
// Status and End.
type Expect struct {
	Status []int `json:"status,omitempty"` // default 200
	// End of a stream: default "done"; "broken" is an error in the stream, or an
	// error status before it.
	End string `json:"end,omitempty"`
	// Answer holds text, calls, finish and usage to what the script's answer
	// says, as far as the two dialects have words for it.
	Answer  bool     `json:"answer,omitempty"`
	Text    *string  `json:"text,omitempty"`
	Some    bool     `json:"some,omitempty"` // text or reasoning, whatever it says
	Has     []string `json:"has,omitempty"`  // in the text
	Lacks   []string `json:"lacks,omitempty"`
	Finish  []string `json:"finish,omitempty"`
	Call    string   `json:"call,omitempty"`  // name of the one tool that is called
	Keys    []string `json:"keys,omitempty"`  // the text is a JSON object with exactly these members
	Usage   string   `json:"usage,omitempty"` // "counted": above zero; "unknown": none, or not zero
	Param   bool     `json:"param,omitempty"` // an error of the request names what is wrong
	Retry   string   `json:"retry,omitempty"` // x-should-retry
	After   []int    `json:"after,omitempty"` // retry-after between
	Context bool     `json:"context,omitempty"`
	Hidden  []string `json:"hidden,omitempty"` // in no byte of the answer
	MaxMS   int64    `json:"max_ms,omitempty"`
	// ClosedMS: the provider saw the caller's leaving so soon.
	ClosedMS int `json:"closed_ms,omitempty"`
	Attempts int `json:"attempts,omitempty"`
	// Sent is, by the provider's dialect, what its request must contain.
	Sent map[string]json.RawMessage `json:"sent,omitempty"`
	// SentHas are texts that its request must contain, whatever the dialect.
	SentHas []string `json:"sent_has,omitempty"`
}

// said is the part of a script that expectations are drawn from.
type said struct {
	Answer *struct {
		Parts []struct {
			Text      string `json:"text"`
			Repeat    int    `json:"repeat"`
			Reasoning string `json:"reasoning"`
			Refusal   string `json:"refusal"`
			Tool      *Call  `json:"tool"`
		} `json:"parts"`
		Finish string `json:"finish"`
		When   string `json:"usage_when"`
		Usage  struct {
			Fresh, Cached     int
			CacheWrite        int `json:"cache_write"`
			CacheWriteHour    int `json:"cache_write_hour"`
			Output, Reasoning int
		} `json:"usage"`
		Quirks []string `json:"quirks"`
	} `json:"answer"`
}

// judge compares. left is when the caller hung up, zero if it did not.
func (e *Expect) judge(c *Case, in, mode string, s *Seen, saw []Observed, left time.Time) (string, []string) {
	j := &judgement{e: e, in: in, stream: mode == "stream", s: s}
	if len(saw) > 0 {
		j.out = saw[len(saw)-1].Dialect
	}
	if !left.IsZero() {
		j.closed(saw, left)
		return j.result()
	}
	if c.MayRefuse && s.Status == 400 && s.Error != nil && len(saw) == 0 {
		if s.Error.Message == "" || len(s.Faults) > 0 {
			j.bad("a refusal that is not told well: %v", s.Faults)
			return j.result()
		}
		return Refused, nil
	}
	for _, f := range s.Faults {
		j.bad("%s", f)
	}
	j.status()
	j.content()
	if e.Answer {
		j.answer(c)
	}
	j.failure()
	if c.MayRefuse && s.Header.Get("X-Hearth-Loss") != "" && s.Status == 200 {
		if len(j.why) == 0 {
			return Refused, nil
		}
		return j.result()
	}
	j.sent(saw)
	if e.ClosedMS > 0 {
		j.closed(saw, time.Now())
	}
	return j.result()
}

type judgement struct {
	e      *Expect
	in     string
	out    string
	stream bool
	s      *Seen
	why    []string
}

func (j *judgement) bad(format string, args ...any) {
	j.why = append(j.why, fmt.Sprintf(format, args...))
}

func (j *judgement) result() (string, []string) {
	if len(j.why) > 0 {
		return Failed, j.why
	}
	return Passed, nil
}

func (j *judgement) status() {
	e, s := j.e, j.s
	if e.End == "broken" {
		switch {
		case s.Status >= 500:
		case s.Status == 200 && j.stream && s.End == "error":
			if s.Finish != "" && s.Error != nil {
				j.bad("a broken answer with finish %q", s.Finish)
			}
		default:
			j.bad("status %d and end %q, wanted an error", s.Status, s.End)
		}
		return
	}
	want := e.Status
	if len(want) == 0 {
		want = []int{200}
	}
	if !slices.Contains(want, s.Status) {
		j.bad("status %d, wanted %v: %.200s", s.Status, want, s.Raw)
		return
	}
	if s.Status != 200 || !j.stream {
		return
	}
	end := e.End
	if end == "" {
		end = "done"
	}
	if s.End != end {
		j.bad("the stream ended with %q, wanted %q: %.200q", s.End, end, tail(s.Raw))
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-200):] }

func (j *judgement) content() {
	e, s := j.e, j.s
	if e.Text != nil && s.Text != *e.Text {
		j.bad("text %.100q, wanted %.100q", s.Text, *e.Text)
	}
	if e.Some && s.Text == "" && s.Thought == "" && len(s.Calls) == 0 {
		j.bad("an answer without content")
	}
	for _, h := range e.Has {
		if !strings.Contains(s.Text, h) {
			j.bad("text %.200q lacks %q", s.Text, h)
		}
	}
	for _, h := range e.Lacks {
		if strings.Contains(s.Text, h) {
			j.bad("text %.200q has %q", s.Text, h)
		}
	}
	if len(e.Finish) > 0 && !slices.ContainsFunc(e.Finish, func(f string) bool { return slices.Contains(shown(j.in, f), s.Finish) }) {
		j.bad("finish %q, wanted one of %v", s.Finish, e.Finish)
	}
	if e.Call != "" && (len(s.Calls) == 0 || s.Calls[0].Name != e.Call || !json.Valid([]byte(s.Calls[0].Args))) {
		j.bad("calls %v, wanted one of %s with JSON arguments", s.Calls, e.Call)
	}
	if e.Keys != nil {
		var o map[string]json.RawMessage
		if err := json.Unmarshal([]byte(s.Text), &o); err != nil || len(o) != len(e.Keys) || slices.ContainsFunc(e.Keys, func(k string) bool { return o[k] == nil }) {
			j.bad("text %.200q is no object with the members %v", s.Text, e.Keys)
		}
	}
	switch u := s.Usage; e.Usage {
	case "counted":
		if u == nil || u.Prompt <= 0 || u.Output <= 0 {
			j.bad("usage %+v, wanted counts", u)
		}
	case "unknown":
		if u != nil && (u.Prompt == 0 || u.Output == 0 && s.Text != "") {
			j.bad("usage %+v where the provider told none", *u)
		}
	}
	for _, h := range e.Hidden {
		if bytes.Contains(s.Raw, []byte(h)) {
			j.bad("the answer shows %q", h)
		}
	}
	if e.MaxMS > 0 && s.Total > time.Duration(e.MaxMS)*time.Millisecond {
		j.bad("took %d ms, wanted at most %d", s.Total.Milliseconds(), e.MaxMS)
	}
}

func (j *judgement) failure() {
	e, s := j.e, j.s
	if s.Error == nil {
		return
	}
	if e.Retry != "" && s.Error.Retry != e.Retry {
		j.bad("x-should-retry %q, wanted %q", s.Error.Retry, e.Retry)
	}
	if len(e.After) == 2 {
		n, err := strconv.Atoi(s.Error.RetryAfter)
		if err != nil || n < e.After[0] || n > e.After[1] {
			j.bad("retry-after %q, wanted %d to %d", s.Error.RetryAfter, e.After[0], e.After[1])
		}
	}
	if e.Context {
		told := s.Error.Code == "context_length_exceeded" || s.Status == 400 && (strings.Contains(s.Error.Message, "context") || strings.Contains(s.Error.Message, "too long") || strings.Contains(s.Error.Message, "exceed"))
		if !told {
			j.bad("an error that does not tell of the context: %+v", *s.Error)
		}
	}
}

func (j *judgement) closed(saw []Observed, left time.Time) {
	if len(saw) == 0 {
		j.bad("the provider was not asked")
		return
	}
	o := saw[len(saw)-1]
	switch {
	case o.Closed.IsZero():
		j.bad("the provider did not see the caller leave")
	case j.e.ClosedMS > 0 && o.Closed.Sub(left) > time.Duration(j.e.ClosedMS)*time.Millisecond:
		j.bad("the provider saw the caller leave after %d ms", o.Closed.Sub(left).Milliseconds())
	}
	if j.e.Attempts > 0 && len(saw) != j.e.Attempts {
		j.bad("%d attempts, wanted %d", len(saw), j.e.Attempts)
	}
}

func (j *judgement) sent(saw []Observed) {
	e := j.e
	if e.Attempts > 0 && len(saw) != e.Attempts {
		j.bad("%d attempts, wanted %d", len(saw), e.Attempts)
	}
	if len(saw) == 0 {
		return
	}
	last := saw[len(saw)-1]
	if want := e.Sent[last.Dialect]; want != nil {
		var w, got any
		if json.Unmarshal(want, &w) != nil || json.Unmarshal(last.Body, &got) != nil || !subset(w, got) {
			j.bad("the provider was sent %.300s, wanted %s in it", last.Body, want)
		}
	}
	for _, h := range e.SentHas {
		if !bytes.Contains(last.Body, []byte(h)) {
			j.bad("the provider was sent %.300s, which lacks %q", last.Body, h)
		}
	}
}

// subset says whether got has everything that want has; of lists, some element
// for each wanted one.
func subset(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if _, there := g[k]; !there && v != nil || !subset(v, g[k]) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok {
			return false
		}
		for _, v := range w {
			if !slices.ContainsFunc(g, func(x any) bool { return subset(v, x) }) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, got)
}
