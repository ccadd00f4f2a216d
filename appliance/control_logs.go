package appliance

import (
	"context"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
	"hearth/web/admin"
)

// logState is how the log is set.
type logState struct {
	Level      string    `json:"level"`
	Configured string    `json:"configured"`     // what the configuration says
	Until      time.Time `json:"until,omitzero"` // when it goes back to that by itself
	Format     string    `json:"format"`         // "text" or "json"
	Access     bool      `json:"access"`         // a line for each exchange
	SlowMS     int64     `json:"slow_ms"`        // a line for each request that takes longer; 0: none
	Recent     int       `json:"recent"`         // records kept in memory
	Levels     []string  `json:"levels"`         // that can be set
}

// logLevelChange sets the level. Empty: back to the configuration's.
type logLevelChange struct {
	Level string `json:"level"`
	For   string `json:"for,omitempty"` // "15m"; empty: until the configuration is taken again
}

// logQuery asks for records of the log.
type logQuery struct {
	After   uint64 `json:"after,omitempty"`   // records behind this number; 0: the latest
	Level   string `json:"level,omitempty"`   // this and above; empty: all
	Request string `json:"request,omitempty"` // id of a request or of its trace
	Text    string `json:"text,omitempty"`    // somewhere in the record
	Limit   int    `json:"limit,omitempty"`   // 0: 200
	WaitMS  int    `json:"wait_ms,omitempty"` // how long to wait for the first record behind After
}

// logPage is a piece of the log, oldest first.
type logPage struct {
	Records []logRecord `json:"records"`
	Next    uint64      `json:"next"`           // After of the next query
	Lost    bool        `json:"lost,omitempty"` // records behind After have gone already
}

const (
	maxLogPage  = 2000
	maxLogWait  = 30 * time.Second
	maxLevelFor = 7 * 24 * time.Hour
)

var (
	opLogState = operation[none, logState]{
		name: "log/state", place: "GET /log", access: admin.Read,
		summary: "how the log is set",
		run: func(_ context.Context, c *control, _ none) (logState, error) {
			if c.server == nil {
				return logState{}, errNoServer
			}
			return c.server.logState(), nil
		},
	}
	opLogLevel = operation[logLevelChange, logState]{
		name: "log/level", place: "POST /log/level", access: admin.Operate,
		summary: "set the level of the log, for a time (for: \"15m\") or until the next change; an empty level is the configuration's",
		subject: func(logLevelChange) string { return "log level" },
		detail: func(r logLevelChange, out logState) string {
			if r.For != "" && r.Level != "" {
				return out.Level + " for " + r.For
			}
			return out.Level
		},
		run: setLogLevel,
	}
	opLogTail = operation[logQuery, logPage]{
		name: "log/tail", place: "GET /log/records", access: admin.Read,
		summary: "the latest records of the log, or those behind a number, for which it may wait; secrets are masked",
		run:     tailLog,
	}
)

func (a *Appliance) logState() logState {
	l, c := a.logs, a.config().Log
	l.mu.Lock()
	until := l.until
	l.mu.Unlock()
	return logState{
		Level: levelName(l.level.Level()), Configured: c.Level, Until: until, Format: c.Format, Access: c.Access,
		SlowMS: c.Slow.Std().Milliseconds(), Recent: c.Recent, Levels: config.LogLevels,
	}
}

func setLogLevel(_ context.Context, c *control, r logLevelChange) (logState, error) {
	if c.server == nil {
		return logState{}, errNoServer
	}
	var span time.Duration
	if r.For != "" {
		var err error
		if span, err = time.ParseDuration(r.For); err != nil || span < time.Second || span > maxLevelFor {
			return logState{}, infer.Invalid("for", "got %.32q, wanted 1s to %s, for instance 15m", r.For, maxLevelFor)
		}
	}
	if r.Level == "" {
		c.server.logs.reset()
		return c.server.logState(), nil
	}
	level, ok := parseLevel(r.Level)
	if !ok {
		return logState{}, infer.Invalid("level", "got %.32q, wanted one of %q", r.Level, config.LogLevels)
	}
	c.server.logs.set(level, span, c.server.now())
	return c.server.logState(), nil
}

func tailLog(ctx context.Context, c *control, q logQuery) (logPage, error) {
	if c.server == nil {
		return logPage{}, errNoServer
	}
	f := logFilter{after: q.After, level: logLevels["debug"], request: q.Request, text: q.Text, limit: q.Limit}
	if q.Level != "" {
		var ok bool
		if f.level, ok = parseLevel(q.Level); !ok {
			return logPage{}, infer.Invalid("level", "got %.32q, wanted one of %q", q.Level, config.LogLevels)
		}
	}
	if f.limit == 0 {
		f.limit = 200
	}
	if f.limit < 1 || f.limit > maxLogPage {
		return logPage{}, infer.Invalid("limit", "got %d, wanted 1 to %d", q.Limit, maxLogPage)
	}
	if q.WaitMS < 0 {
		return logPage{}, infer.Invalid("wait_ms", "must not be negative, got %d", q.WaitMS)
	}
	end := time.NewTimer(min(time.Duration(q.WaitMS)*time.Millisecond, maxLogWait))
	defer end.Stop()
	for {
		out, last, lost := c.server.logs.ring.read(f)
		if len(out) > 0 || lost || q.WaitMS == 0 {
			return logPage{Records: append([]logRecord{}, out...), Next: last, Lost: lost}, nil
		}
		select {
		case <-c.server.logs.ring.more(last):
			if f.after = last; last == 0 {
				f.after = 0
			}
		case <-end.C:
			return logPage{Records: []logRecord{}, Next: last}, nil
		case <-c.server.hardStop.Done():
			return logPage{Records: []logRecord{}, Next: last}, nil
		case <-ctx.Done():
			return logPage{}, ctx.Err()
		}
	}
}
