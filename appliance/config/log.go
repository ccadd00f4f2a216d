package config

import "time"

// Log is [log].
type Log struct {
	// Level is "debug", "info", "warn" or "error". Default "info".
	Level string `toml:"level"`
	// Format is "text" or "json". Default "text".
	Format string `toml:"format"`
	// Access writes a line for each exchange, also for those without fault.
	// Default true.
	Access bool `toml:"access"`
	// Slow writes a warning with the timings of each request that took longer;
	// zero: none. Default 30s.
	Slow Duration `toml:"slow"`
	// Recent is how many of the latest records are kept in memory for the page
	// and `hearth log tail`; zero: none. Default 2000.
	Recent int `toml:"recent"`
}

func (l *Log) setDefaults() {
	*l = Log{Level: "info", Format: "text", Access: true, Slow: Duration(30 * time.Second), Recent: 2000}
}

func (l *Log) validate(f *Faults) {
	f.oneOf("log.level", l.Level, LogLevels...)
	f.oneOf("log.format", l.Format, "text", "json")
	if l.Slow != 0 {
		f.span("log.slow", l.Slow, time.Millisecond, 24*time.Hour)
	}
	f.count("log.recent", l.Recent, 0, 100000)
}

// LogLevels are the levels of the log, the most talkative first.
var LogLevels = []string{"debug", "info", "warn", "error"}
