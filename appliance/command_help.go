package appliance

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// groups order the commands of the first help by what people come for.
var groups = []struct {
	title string
	names []string
}{
	{"start and look after it", []string{"serve", "status", "doctor", "diagnostics", "backup", "restore", "version", "about"}},
	{"models", []string{"model", "job"}},
	{"who may do what", []string{"key", "tenant", "account", "token", "identity", "cert"}},
	{"configuration", []string{"config", "upstream", "route"}},
	{"books", []string{"ledger", "spend", "evidence", "audit", "content", "log", "observe"}},
	{"measure and verify", []string{"bench", "selftest", "conform", "qualify"}},
}

const otherGroup = "further"

// helpTopics are pages beside those of the commands.
var helpTopics = []struct{ name, short, text string }{
	{"exit-codes", "what a command's exit code means", `Exit codes of every command:

    0  done
    1  failed, or faults were found: config check, doctor, ledger check,
       selftest and conform print what they found and exit 1
    2  the command line was not understood; nothing was done
    3  no server is running, or it or the model is not ready: trying again later
       may help
    4  what was named does not exist
    5  conflict: it exists already, is in use, or was changed meanwhile
  130  ended by a signal

The reason is one line on stderr. With --json it is one JSON document there,
{"error": {"code", "param", "message", "exit", "faults"}}, and stdout holds the
command's own document, or nothing.`},
	{"json", "how programs read what commands print", `With --json a command prints one JSON document on stdout and nothing else. Names
are those of the admin API: times are RFC 3339, durations end in _ms or _ns and
money in _nano (10⁻⁹ USD). Unknown fields may appear with a release.

Errors are one JSON document on stderr, see hearth help exit-codes. Commands that
take long show nothing on the way, unless --progress json asks for it: then each
line of stderr is {"progress": {"label", "done", "total", "unit", "fraction",
"rate", "eta_ms"}}.`},
	{"environment", "the variables that are read", `XDG_DATA_HOME, HOME   where the data directory is, unless --data names it
HEARTH_API_KEY        the key of bench serve and doctor --clients
NO_COLOR              no colour, if it is not empty
TERM=dumb             plain lines in place of bars that are drawn over
CREDENTIALS_DIRECTORY where credentials "systemd:NAME" of upstreams stand
GOGC, GOMEMLIMIT      Go's own bounds of the heap; serve chooses GOGC itself
A credential "env:NAME" in the configuration is read from the server's environment.`},
}

// helpFor answers `hearth help …` and `hearth … help …`.
func (c *command) helpFor(env *Env, path string, args []string) error {
	if len(args) == 1 && path == "hearth" {
		if args[0] == "all" {
			c.helpAll(env.Stdout)
			return nil
		}
		for _, t := range helpTopics {
			if t.name == args[0] {
				_, err := fmt.Fprintln(env.Stdout, t.text)
				return err
			}
		}
	}
	for len(args) > 0 && c.sub != nil {
		s := c.find(args[0])
		if s == nil {
			return c.unknown(path, args[0])
		}
		c, path, args = s, path+" "+s.name, args[1:]
	}
	fs := newFlags(path)
	if c.setup != nil {
		c.setup(fs)
	}
	c.help(env.Stdout, path, fs)
	return nil
}

// help writes the page of one command.
func (c *command) help(w io.Writer, path string, fs *flag.FlagSet) {
	fmt.Fprintf(w, "usage: %s\n", c.usage(path, fs))
	if c.short != "" {
		fmt.Fprintf(w, "\n%s.\n", strings.ToUpper(c.short[:1])+c.short[1:])
	}
	if c.long != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.long))
	}
	if lines := c.examplesOf(path); len(lines) > 0 {
		title := "A first session:"
		if path != "hearth" {
			title = "Example:"
		}
		fmt.Fprintf(w, "\n%s\n  %s\n", title, strings.Join(lines, "\n  "))
	}
	if c.sub != nil {
		c.list(w, path)
	}
	if fs != nil && hasFlags(fs) {
		fmt.Fprintf(w, "\nflags:\n")
		fs.VisitAll(func(f *flag.Flag) { writeFlag(w, f) })
	}
	fmt.Fprintf(w, "\nExit codes: 0 done, 1 failed%s, 2 command line not understood;\nhearth help exit-codes tells the rest.\n", c.faultsWord(path))
}

func (c *command) faultsWord(path string) string {
	if slices.Contains([]string{"hearth config check", "hearth doctor", "hearth ledger check", "hearth selftest", "hearth conform"}, path) || c.sub != nil {
		return " or faults found"
	}
	return ""
}

func (c *command) usage(path string, fs *flag.FlagSet) string {
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
	return line
}

func writeFlag(w io.Writer, f *flag.Flag) {
	arg, usage := flag.UnquoteUsage(f)
	name := "--" + f.Name
	if arg != "" {
		name += " " + arg
	}
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && f.DefValue != "0s" {
		usage += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	fmt.Fprintf(w, "  %-22s %s\n", name, usage)
}

// list names the subcommands; those of the program itself in groups.
func (c *command) list(w io.Writer, path string) {
	left := slices.DeleteFunc(slices.Clone(c.sub), func(s *command) bool { return s.hidden })
	line := func(s *command) { fmt.Fprintf(w, "  %-12s %s\n", s.name, s.short) }
	if path != "hearth" {
		fmt.Fprintf(w, "\ncommands:\n")
		for _, s := range left {
			line(s)
		}
		fmt.Fprintf(w, "\n%s help COMMAND tells more of one.\n", path)
		return
	}
	for _, g := range groups {
		title := g.title
		for _, name := range g.names {
			s := c.find(name)
			if s == nil || s.hidden {
				continue
			}
			if title != "" {
				fmt.Fprintf(w, "\n%s:\n", title)
				title = ""
			}
			line(s)
			left = slices.DeleteFunc(left, func(x *command) bool { return x == s })
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(w, "\n%s:\n", otherGroup)
		for _, s := range left {
			line(s)
		}
	}
	fmt.Fprintf(w, "\nhearth help COMMAND tells more of one, hearth help all lists every one.\nOther pages:")
	for _, t := range helpTopics {
		fmt.Fprintf(w, " hearth help %s", t.name)
	}
	fmt.Fprintln(w)
}

// helpAll lists every command of the tree with its usage.
func (c *command) helpAll(w io.Writer) {
	c.walk("hearth", func(path string, leaf *command) {
		if leaf.hidden {
			return
		}
		fs := newFlags(path)
		leaf.setup(fs)
		fmt.Fprintf(w, "%s\n    %s\n", leaf.usage(path, fs), leaf.short)
	})
	for _, t := range helpTopics {
		fmt.Fprintf(w, "hearth help %s\n    %s\n", t.name, t.short)
	}
}

// walk visits every leaf.
func (c *command) walk(path string, visit func(path string, leaf *command)) {
	if c.sub == nil {
		visit(path, c)
		return
	}
	for _, s := range c.sub {
		s.walk(path+" "+s.name, visit)
	}
}

func hasFlags(fs *flag.FlagSet) bool {
	any := false
	fs.VisitAll(func(*flag.Flag) { any = true })
	return any
}
