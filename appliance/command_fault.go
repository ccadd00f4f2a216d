package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/engine/infer"
)

// Exit codes of every command, as `hearth help exit-codes` tells them.
const (
	exitOK          = 0
	exitFailure     = 1   // the command could not do what was asked, or found faults
	exitUsage       = 2   // the command line was not understood
	exitUnavailable = 3   // no server is running, or it is not ready: trying again may help
	exitNotFound    = 4   // what was named does not exist
	exitConflict    = 5   // it exists already, is in use, or was changed meanwhile
	exitInterrupted = 130 // ended by a signal, as shells count SIGINT
)

// usageError is a command line that was not understood: exit code 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errFound makes a command exit 1 after it has printed its own report.
var errFound = errors.New("faults were found")

// Main runs the command line args (without the program name) and returns the
// exit code. An error is one line on stderr; with --json it is one JSON document
// there, so that stdout holds the command's own document or nothing.
func Main(args []string, env *Env) int {
	err := root().dispatch(context.Background(), env, "hearth", args)
	code := exitCode(err)
	if err == nil || errors.Is(err, errFound) {
		return code
	}
	if wantsJSON(args) {
		writeFault(env.Stderr, err, code)
	} else {
		fmt.Fprintf(env.Stderr, "hearth: %s\n", faultText(err))
	}
	return code
}

func exitCode(err error) int {
	var usage *usageError
	var e *infer.Error
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFailure
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &e):
		switch e.Code {
		case infer.CodeUnavailable, infer.CodeOverloaded:
			return exitUnavailable
		case infer.CodeNotFound, infer.CodeModelNotFound:
			return exitNotFound
		case infer.CodeConflict:
			return exitConflict
		}
	}
	return exitFailure
}

// faultText is err for a person: without the code, which is for programs.
func faultText(err error) string {
	text := err.Error()
	var usage *usageError
	var e *infer.Error
	switch {
	case errors.As(err, &usage):
		return strings.TrimPrefix(strings.TrimPrefix(text, "hearth: "), "hearth ")
	case errors.As(err, &e):
		return strings.TrimPrefix(text, string(e.Code)+": ")
	}
	return text
}

// commandFault is an error of a command with --json.
type commandFault struct {
	Code    string         `json:"code"` // "usage", or what the admin API calls it
	Param   string         `json:"param,omitempty"`
	Message string         `json:"message"`
	Exit    int            `json:"exit"`
	Faults  []config.Fault `json:"faults,omitempty"`
}

func writeFault(w io.Writer, err error, code int) {
	f := commandFault{Code: "failed", Message: faultText(err), Exit: code}
	var faults *config.Faults
	var e *infer.Error
	switch {
	case code == exitUsage:
		f.Code = "usage"
	case code == exitInterrupted:
		f.Code = "interrupted"
	case errors.As(err, &faults):
		f.Code, f.Faults = string(infer.CodeInvalid), faults.List
	case errors.As(err, &e):
		f.Code, f.Param = string(e.Code), e.Param
	}
	b := json.NewEncoder(w)
	b.SetEscapeHTML(false)
	_ = b.Encode(map[string]commandFault{"error": f})
}

// wantsJSON says whether a command line asks for JSON, also one that cannot be
// parsed.
func wantsJSON(args []string) bool {
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "-json", "--json=true", "-json=true":
			return true
		}
	}
	return false
}

// unknown is the error of a subcommand that there is not.
func (c *command) unknown(path, name string) error {
	var names []string
	for _, s := range c.sub {
		if !s.hidden {
			names = append(names, s.name)
		}
	}
	if near := nearest(name, names); near != "" {
		return usagef("unknown command %q, did you mean %q?", path+" "+name, path+" "+near)
	}
	return usagef("unknown command %q, see %s --help", path+" "+name, path)
}

// flagFault says what is wrong with a flag in our own words, where package flag
// is not of help, and names the nearest known one.
func flagFault(path string, fs *flag.FlagSet, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if bad := flagValue.FindStringSubmatch(err.Error()); bad != nil {
		if f := fs.Lookup(bad[2]); f != nil {
			return usagef("%s: cannot use %s for --%s: wanted %s", path, bad[1], bad[2], flagWants(f))
		}
	}
	if !unknown {
		return usagef("%s: %v, see %s --help", path, strings.NewReplacer("flag -", "flag --", "argument: -", "argument: --").Replace(err.Error()), path)
	}
	var names []string
	fs.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	if near := nearest(name, names); near != "" {
		return usagef("%s: unknown flag --%s, did you mean --%s?", path, name, near)
	}
	return usagef("%s: unknown flag --%s, see %s --help", path, name, path)
}

// flagValue is what package flag says of a value that it cannot read.
var flagValue = regexp.MustCompile(`^invalid value (".*") for flag -([a-z0-9-]+): (?:parse error|value out of range)$`)

// flagWants says what a flag takes.
func flagWants(f *flag.Flag) string {
	if g, ok := f.Value.(flag.Getter); ok {
		switch g.Get().(type) {
		case time.Duration:
			return "a duration, as 90s, 15m or 720h"
		case int, int64, uint, uint64:
			return "a whole number"
		case float64:
			return "a number"
		case bool:
			return "true or false"
		}
	}
	return "what its help says"
}

// maxNear bounds what is compared: longer words are slips of another kind.
const maxNear = 64

// nearest is the word of known that name most likely stands for: the only one
// that it begins, or the one that the fewest slips lead to; empty if none is
// near.
func nearest(name string, known []string) string {
	if name == "" || len(name) > maxNear {
		return ""
	}
	known = slices.Sorted(slices.Values(known))
	best, slips := "", 1+len(name)/3
	for _, k := range known {
		if d := slipsBetween(name, k); d < slips {
			best, slips = k, d
		}
	}
	if best != "" {
		return best
	}
	for _, k := range known {
		if strings.HasPrefix(k, name) {
			if best != "" {
				return ""
			}
			best = k
		}
	}
	return best
}

// slipsBetween counts the letters left out, put in, mistaken or swapped with
// their neighbour that make a of b (the restricted Damerau-Levenshtein distance).
func slipsBetween(a, b string) int {
	if len(b) > maxNear {
		return maxNear
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			d := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				d++
			}
			d = min(d, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
