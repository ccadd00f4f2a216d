package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"hearth/engine/infer"
)

// Exit codes of every command.
const (
	exitOK      = 0
	exitFailure = 1 // the command could not do what was asked, or found faults
	exitUsage   = 2 // the command line was not understood
)

// Env is the world that commands run in.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Now    func() time.Time
	Sample []byte // the commented configuration of a first start
}

// Process is the Env of the running process.
func Process(sample []byte) *Env {
	return &Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Now: time.Now, Sample: sample}
}

// command is one subcommand: either run or sub is set.
type command struct {
	name  string
	args  string // what follows the flags, for the usage line
	short string // one line for the list
	long  string // the rest of its help
	// setup declares the flags and returns what runs once they are parsed.
	setup  func(fs *flag.FlagSet) func(ctx context.Context, env *Env, args []string) error
	sub    []*command
	hidden bool
}

// usageError is a command line that was not understood: exit code 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errFound makes a command exit 1 after it has printed its own report.
var errFound = errors.New("faults were found")

// Main runs the command line args (without the program name) and returns the
// exit code.
func Main(args []string, env *Env) int {
	err := root().dispatch(context.Background(), env, "hearth", args)
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFound):
		return exitFailure
	case errors.As(err, &usage):
		fmt.Fprintf(env.Stderr, "hearth: %s\n", strings.TrimPrefix(strings.TrimPrefix(err.Error(), "hearth: "), "hearth "))
		return exitUsage
	}
	text := err.Error()
	var e *infer.Error
	if errors.As(err, &e) {
		text = strings.TrimPrefix(text, string(e.Code)+": ") // the code is for callers over HTTP
	}
	fmt.Fprintf(env.Stderr, "hearth: %s\n", text)
	return exitFailure
}

func root() *command {
	return &command{
		name: "hearth",
		long: `Hearth serves language models: its own inference engine behind TLS, API keys,
limits and budgets, with every request in a durable ledger. It is one file and
needs no network.

A first session:
  hearth serve                      start; prints a key and a curl to try it
  hearth model add model.gguf       install another model
  hearth key create --name laptop   make another API key
  hearth ledger list                see what was asked and what it cost

Exit codes: 0 done, 1 failed or faults found, 2 command line not understood.`,
		sub: []*command{
			serveCommand(), modelCommand(), keyCommand(), ledgerCommand(), configCommand(),
			benchCommand(), selftestCommand(), conformCommand(), doctorCommand(), versionCommand(), workerCommand(),
		},
	}
}

// dispatch walks down the tree of commands and runs the leaf.
func (c *command) dispatch(ctx context.Context, env *Env, path string, args []string) error {
	if c.sub == nil {
		return c.exec(ctx, env, path, args)
	}
	if len(args) == 0 {
		c.help(env.Stderr, path, nil)
		return usagef("%s: no command given", path)
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return c.helpFor(env, path, args[1:])
	}
	for _, s := range c.sub {
		if s.name == args[0] {
			return s.dispatch(ctx, env, path+" "+s.name, args[1:])
		}
	}
	return usagef("unknown command %q, see %s --help", path+" "+args[0], path)
}

func (c *command) helpFor(env *Env, path string, args []string) error {
	for len(args) > 0 && c.sub != nil {
		found := false
		for _, s := range c.sub {
			if s.name == args[0] {
				c, path, args, found = s, path+" "+s.name, args[1:], true
				break
			}
		}
		if !found {
			return usagef("unknown command %q", path+" "+args[0])
		}
	}
	fs := newFlags(path)
	if c.setup != nil {
		c.setup(fs)
	}
	c.help(env.Stdout, path, fs)
	return nil
}

func newFlags(path string) *flag.FlagSet {
	fs := flag.NewFlagSet(path, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return fs
}

// exec parses flags, which may stand before and after the arguments, and runs c.
func (c *command) exec(ctx context.Context, env *Env, path string, args []string) error {
	fs := newFlags(path)
	run := c.setup(fs)
	var rest []string
	for {
		err := fs.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			c.help(env.Stdout, path, fs)
			return nil
		}
		if err != nil {
			return usagef("%s: %v, see %s --help", path, err, path)
		}
		if args = fs.Args(); len(args) == 0 {
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	if c.args == "" && len(rest) > 0 {
		return usagef("%s: got %q, takes no arguments", path, rest[0])
	}
	return run(ctx, env, rest)
}

func (c *command) help(w io.Writer, path string, fs *flag.FlagSet) {
	line := path
	if c.sub != nil {
		line += " COMMAND"
	}
	if fs != nil && hasFlags(fs) {
		line += " [flags]"
	}
	if c.args != "" {
		line += " " + c.args
	}
	fmt.Fprintf(w, "usage: %s\n", line)
	if c.short != "" {
		fmt.Fprintf(w, "\n%s.\n", c.short)
	}
	if c.long != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.long))
	}
	if c.sub != nil {
		fmt.Fprintf(w, "\ncommands:\n")
		for _, s := range c.sub {
			if !s.hidden {
				fmt.Fprintf(w, "  %-10s %s\n", s.name, s.short)
			}
		}
		fmt.Fprintf(w, "\n%s help COMMAND tells more of one.\n", path)
	}
	if fs != nil && hasFlags(fs) {
		fmt.Fprintf(w, "\nflags:\n")
		fs.VisitAll(func(f *flag.Flag) {
			arg, usage := flag.UnquoteUsage(f)
			name := "--" + f.Name
			if arg != "" {
				name += " " + arg
			}
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
				usage += fmt.Sprintf(" (default %s)", f.DefValue)
			}
			fmt.Fprintf(w, "  %-22s %s\n", name, usage)
		})
	}
}

func hasFlags(fs *flag.FlagSet) bool {
	any := false
	fs.VisitAll(func(*flag.Flag) { any = true })
	return any
}

// printJSON writes v as one indented JSON document.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
