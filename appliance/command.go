package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"time"
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
	// examples are command lines that work as they stand; see also examplesOf.
	examples []string
	// setup declares the flags and returns what runs once they are parsed.
	setup  func(fs *flag.FlagSet) func(ctx context.Context, env *Env, args []string) error
	sub    []*command
	hidden bool
}

func root() *command {
	return &command{
		name: "hearth",
		long: `Hearth serves language models: its own inference engine behind TLS, API keys,
limits and budgets, with every request in a durable ledger. It is one file and
needs no network.`,
		examples: []string{
			"hearth serve                      start; prints a key and a curl to try it",
			"hearth model add model.gguf       install another model",
			"hearth key create --name laptop   make another API key",
			"hearth ledger list                see what was asked and what it cost",
			"hearth doctor                     look for trouble, with a remedy for each finding",
		},
		sub: append([]*command{
			serveCommand(), modelCommand(), keyCommand(), identityCommand(), accountCommand(), certCommand(), ledgerCommand(), configCommand(), logCommand(), contentCommand(), observeCommand(),
			jobCommand(), benchCommand(), selftestCommand(), conformCommand(), deviceCommand(), backupCommand(), restoreCommand(), diagnosticsCommand(), qualifyCommand(), statusCommand(), doctorCommand(), versionCommand(), workerCommand(),
			completionCommand(), completeCommand(),
		}, linkedCommands...),
	}
}

// linkedCommands are those that a build tag adds.
var linkedCommands []*command

// dispatch walks down the tree of commands and runs the leaf.
func (c *command) dispatch(ctx context.Context, env *Env, path string, args []string) error {
	if c.sub == nil {
		return c.exec(ctx, env, path, args)
	}
	if len(args) == 0 {
		if !wantsJSON(args) {
			c.help(env.Stderr, path, nil)
		}
		return usagef("%s: no command given", path)
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return c.helpFor(env, path, args[1:])
	}
	if s := c.find(args[0]); s != nil {
		return s.dispatch(ctx, env, path+" "+s.name, args[1:])
	}
	return c.unknown(path, args[0])
}

// find gives the subcommand of that name, nil if there is none.
func (c *command) find(name string) *command {
	for _, s := range c.sub {
		if s.name == name {
			return s
		}
	}
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
			return flagFault(path, fs, err)
		}
		// Parse stops at the first argument, or behind a "--" that it swallows.
		ended := len(args) > len(fs.Args()) && args[len(args)-len(fs.Args())-1] == "--"
		if args = fs.Args(); ended {
			rest = append(rest, args...)
			break
		}
		if len(args) == 0 {
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	if c.args == "" && len(rest) > 0 {
		return usagef("%s: got %q, takes no arguments", path, rest[0])
	}
	return run(ctx, env, rest)
}

// printJSON writes v as one indented JSON document.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
