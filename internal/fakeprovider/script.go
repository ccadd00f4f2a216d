package fakeprovider

import (
	"encoding/json"
	"slices"
	"strings"
)

// Script is the answer to one request. The zero value answers 200 with an empty
// Answer. At most one of Answer, Error, JSON, Text and Events is set.
type Script struct {
	Status int               `json:"status,omitempty"` // default 200, or that of Error
	Header map[string]string `json:"header,omitempty"` // added; an empty value removes
	// Answer is written in the dialect of the request, streamed or whole as it
	// asks.
	Answer *Answer `json:"answer,omitempty"`
	// Error is written in the dialect of the request.
	Error *Error `json:"error,omitempty"`
	// JSON and Text are whole bodies as they are; Events a stream as it is.
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   string          `json:"text,omitempty"`
	Repeat int             `json:"repeat,omitempty"` // Text so many times
	Events []Event         `json:"events,omitempty"`
	// InStream is an error that comes inside the stream, after the Answer's
	// content and in place of its end.
	InStream *Error `json:"in_stream,omitempty"`
	// Whole answers with one body also where a stream was asked for.
	Whole bool `json:"whole,omitempty"`

	Frame Framing `json:"frame,omitzero"`

	DelayMS int `json:"delay_ms,omitempty"` // before the head
	GapMS   int `json:"gap_ms,omitempty"`   // before each event but the first
	// StallAfter events nothing comes for StallMS.
	StallAfter int `json:"stall_after,omitempty"`
	StallMS    int `json:"stall_ms,omitempty"`

	// Die is where the answer breaks off: "" nowhere, "before_headers",
	// "in_headers", "after_headers", "event" (after Event events), "mid_event"
	// (within the event after those), "before_end" (before the end mark and what
	// follows the content).
	Die   string `json:"die,omitempty"`
	Event int    `json:"event,omitempty"`
	// How it breaks off: "close" (default), "reset", "hang" (silence until the
	// peer leaves), "clean" (as if that were all: the framing of HTTP is ended
	// properly).
	How string `json:"how,omitempty"`
	// Free makes the request cost nothing although it was answered.
	Free bool `json:"free,omitempty"`
}

// Event is one event of a stream as it is written.
type Event struct {
	Name   string          `json:"event,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
	Text   string          `json:"text,omitempty"` // data that is no JSON
	Tokens int             `json:"tokens,omitempty"`
}

// Framing is how a stream or body is put on the wire.
type Framing struct {
	Newline        string `json:"newline,omitempty"`  // "lf" (default), "crlf", "cr"
	NoSpace        bool   `json:"no_space,omitempty"` // data:{…}
	Comments       bool   `json:"comments,omitempty"` // a comment before every event
	BOM            bool   `json:"bom,omitempty"`
	MultiLine      bool   `json:"multi_line,omitempty"` // JSON over several data lines
	NoFinalBlank   bool   `json:"no_final_blank,omitempty"`
	NoFinalNewline bool   `json:"no_final_newline,omitempty"`
	Fields         bool   `json:"fields,omitempty"` // id, retry and unknown fields
	// Packet sends so many bytes at a time; 1 is every byte on its own. SplitAt
	// cuts the whole stream in two at one byte.
	Packet  int  `json:"packet,omitempty"`
	SplitAt int  `json:"split_at,omitempty"`
	Gzip    bool `json:"gzip,omitempty"`
	// Length sends a Content-Length in place of chunks; Until neither: the end
	// of the connection is the end of the body.
	Length bool `json:"length,omitempty"`
	Until  bool `json:"until,omitempty"`
}

// Answer is what the model says.
type Answer struct {
	ID    string `json:"id,omitempty"`
	Parts []Part `json:"parts,omitempty"` // in order
	// Finish: "stop" (default; "tool_calls" where there are calls), "length",
	// "content_filter", "refusal", "stop_sequence", "context", "pause".
	Finish string `json:"finish,omitempty"`
	Stop   string `json:"stop,omitempty"` // the sequence that matched
	Usage  Usage  `json:"usage,omitzero"`
	// UsageWhen: "late" (default: where the dialect has it), "early" (with the
	// first event too), "finish" (in the event of the finish), "absent", "zero".
	UsageWhen string `json:"usage_when,omitempty"`
	// Choices repeats the answer for so many choices; default 1.
	Choices int `json:"choices,omitempty"`
	// Quirks are known departures of the OpenAI dialect: "no_index",
	// "same_index", "repeat_name", "null_name", "args_with_finish",
	// "content_with_finish", "preamble", "interleave", "no_role",
	// "null_choices_usage", "duplicate_id", "object_args"; of Gemini: "no_call_id";
	// of all: "unknown_events", "padding" (a frame of 1 MiB that says little).
	Quirks []string `json:"quirks,omitempty"`
	// Piece is the length of a delta in characters; default 8.
	Piece int `json:"piece,omitempty"`
	// Vectors is the number of dimensions of embeddings; default 4.
	Vectors int `json:"vectors,omitempty"`
}

// Part is one block of an answer.
type Part struct {
	Text      string `json:"text,omitempty"`
	Repeat    int    `json:"repeat,omitempty"` // Text so many times
	Reasoning string `json:"reasoning,omitempty"`
	Signature string `json:"signature,omitempty"` // closes Reasoning
	Redacted  string `json:"redacted,omitempty"`
	Refusal   string `json:"refusal,omitempty"`
	Tool      *Tool  `json:"tool,omitempty"`
}

// Tool is a call. Args is JSON text as the model made it, maybe cut.
type Tool struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Args string `json:"args"`
}

// Usage in disjoint buckets; Reasoning is part of Output.
type Usage struct {
	Fresh          int `json:"fresh,omitempty"`
	Cached         int `json:"cached,omitempty"`
	CacheWrite     int `json:"cache_write,omitempty"`
	CacheWriteHour int `json:"cache_write_hour,omitempty"`
	Output         int `json:"output,omitempty"`
	Reasoning      int `json:"reasoning,omitempty"`
}

func (u Usage) prompt() int { return u.Fresh + u.Cached + u.CacheWrite + u.CacheWriteHour }

// Error is a failure that the provider tells.
type Error struct {
	// Kind: "rate_limit", "quota", "overloaded", "server", "auth", "forbidden",
	// "not_found", "invalid", "context", "too_large", "timeout", "html" (a
	// proxy's page).
	Kind    string `json:"kind"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"` // default: that of the kind
	// RetryAfter: "" none, "seconds:N", "date:N" (N seconds from now), "ms:N",
	// "past" (a date gone by), "junk".
	RetryAfter string `json:"retry_after,omitempty"`
}

func (a *Answer) quirk(name string) bool {
	for _, q := range a.Quirks {
		if q == name {
			return true
		}
	}
	return false
}

func (a *Answer) finish() string {
	if a.Finish != "" {
		return a.Finish
	}
	for _, p := range a.Parts {
		if p.Tool != nil {
			return "tool_calls"
		}
	}
	return "stop"
}

// stated is the usage as the provider tells it, nil where it tells none.
func (a *Answer) stated() *Usage {
	switch a.UsageWhen {
	case "absent":
		return nil
	case "zero":
		return &Usage{}
	}
	return &a.Usage
}

// text, reasoning and calls of the answer, joined.
func (a *Answer) joined() (text, reasoning, refusal string, calls []*Tool) {
	for _, p := range a.Parts {
		text, reasoning, refusal = text+p.Text, reasoning+p.Reasoning, refusal+p.Refusal
		if p.Tool != nil {
			calls = append(calls, p.Tool)
		}
	}
	return
}

// pieces cuts s into deltas without breaking a character.
func (a *Answer) pieces(s string) []string {
	n := a.Piece
	if n <= 0 {
		n = 8
	}
	var out []string
	r := []rune(s)
	for len(r) > n {
		out, r = append(out, string(r[:n])), r[n:]
	}
	return append(out, string(r))
}

// repeated is the answer with the texts of its parts repeated as they say.
func (a *Answer) repeated() *Answer {
	b := *a
	b.Parts = slices.Clone(a.Parts)
	for i := range b.Parts {
		if n := b.Parts[i].Repeat; n > 1 {
			b.Parts[i].Text = strings.Repeat(b.Parts[i].Text, n)
		}
	}
	return &b
}
