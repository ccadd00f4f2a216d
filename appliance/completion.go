package appliance

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"
)

// completeLimit bounds how long a shell waits for names of the running server.
const completeLimit = 400 * time.Millisecond

// candidate is one word that could stand at the cursor.
type candidate struct{ word, about string }

// What a shell is to do where there are no candidates: the last line of an
// answer.
const (
	completeNothing = ":none"
	completeFiles   = ":files"
	completeDirs    = ":dirs"
)

// completion is what could stand at the cursor.
type completion struct {
	words []candidate
	else_ string // one of the above
}

// completeCommand is what the shells' scripts call at each Tab:
// `hearth __complete -- WORD… CURRENT`, the words behind the program's name up to
// the cursor. With --line the words are split here, as bash does it.
func completeCommand() *command {
	return &command{
		name: "__complete", args: "WORD…", hidden: true, short: "list what may stand at the cursor of a shell",
		setup: func(fs *flag.FlagSet) func(context.Context, *Env, []string) error {
			line := fs.String("line", "", "the `LINE` up to the cursor, in place of words")
			return func(ctx context.Context, env *Env, words []string) error {
				drop := ""
				if *line != "" {
					words = splitLine(*line)
					words = words[min(1, len(words)):]
					drop = brokenPrefix(words)
				}
				if len(words) == 0 {
					words = []string{""}
				}
				ctx, cancel := context.WithTimeout(ctx, completeLimit)
				defer cancel()
				out := complete(ctx, env, words)
				for _, w := range out.words {
					word := strings.TrimPrefix(w.word, drop)
					about, _, _ := strings.Cut(w.about, "\n")
					fmt.Fprintf(env.Stdout, "%s\t%s\n", word, strings.ReplaceAll(about, "\t", " "))
				}
				_, err := fmt.Fprintln(env.Stdout, out.else_)
				return err
			}
		},
	}
}

// complete answers for words, of which the last is the one at the cursor.
func complete(ctx context.Context, env *Env, words []string) completion {
	c, path := root(), "hearth"
	current, before := words[len(words)-1], words[:len(words)-1]
	for len(before) > 0 && c.sub != nil {
		if before[0] == "help" {
			before = before[1:]
			return c.completeHelp(path, before, current)
		}
		next := c.find(before[0])
		if next == nil {
			return completion{else_: completeNothing}
		}
		c, path, before = next, path+" "+next.name, before[1:]
	}
	if c.sub != nil {
		out := completion{else_: completeNothing}
		for _, s := range append(c.sub, &command{name: "help", short: "tell more of a command"}) {
			if !s.hidden {
				out.add(current, s.name, s.short)
			}
		}
		return out
	}
	return c.completeLeaf(ctx, env, path, before, current)
}

func (o *completion) add(current, word, about string) {
	if strings.HasPrefix(word, current) && !strings.ContainsAny(word, "\t\n") {
		o.words = append(o.words, candidate{word, about})
	}
}

func (c *command) completeHelp(path string, before []string, current string) completion {
	out := completion{else_: completeNothing}
	top := path == "hearth" && len(before) == 0
	for _, name := range before {
		if c = c.find(name); c == nil {
			return out
		}
	}
	for _, s := range c.sub {
		if !s.hidden {
			out.add(current, s.name, s.short)
		}
	}
	if top {
		out.add(current, "all", "every command")
		for _, t := range helpTopics {
			out.add(current, t.name, t.short)
		}
	}
	return out
}

// completeLeaf completes flags, their values and arguments of a command.
func (c *command) completeLeaf(ctx context.Context, env *Env, path string, before []string, current string) completion {
	fs := newFlags(path)
	c.setup(fs)
	values := completer{ctx: ctx, env: env, path: path}
	var waits *flag.Flag // for its value
	args, ended := 0, false
	for _, w := range before {
		name, value, has := strings.Cut(strings.TrimLeft(w, "-"), "=")
		switch {
		case waits != nil:
			values.note(waits.Name, w)
			waits = nil
		case ended || !strings.HasPrefix(w, "-") || w == "-":
			args++
		case w == "--":
			ended = true
		default:
			f := fs.Lookup(name)
			if has {
				values.note(name, value)
			} else if f != nil && !isSwitch(f) {
				waits = f
			}
		}
	}
	if waits != nil {
		return values.flag(waits, current)
	}
	if strings.HasPrefix(current, "-") && !ended {
		name, value, has := strings.Cut(current, "=")
		if f := fs.Lookup(strings.TrimLeft(name, "-")); has && f != nil {
			out := values.flag(f, value)
			for i := range out.words {
				out.words[i].word = name + "=" + out.words[i].word
			}
			return out
		}
		return completeFlags(fs, current)
	}
	return values.argument(c.args, args, current)
}

func completeFlags(fs *flag.FlagSet, current string) completion {
	out := completion{else_: completeNothing}
	if !strings.HasPrefix("--", current) && !strings.HasPrefix(current, "--") {
		current = "-" + current // -name does as well as --name
	}
	fs.VisitAll(func(f *flag.Flag) {
		_, usage := flag.UnquoteUsage(f)
		out.add(current, "--"+f.Name, usage)
	})
	out.add(current, "--help", "tell what it does")
	return out
}

func isSwitch(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// splitLine splits a line as a shell does, as far as completion needs: quotes and
// backslashes, no expansions. The last word may be empty or unfinished.
func splitLine(line string) []string {
	var words []string
	var b strings.Builder
	open, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			open, escaped = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				b.WriteRune(r)
			}
		case r == '\'' || r == '"':
			open, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if open {
				words = append(words, b.String())
				b.Reset()
				open = false
			}
		case r == '|' || r == ';' || r == '&' || r == '(': // another command begins
			words, open = nil, false
			b.Reset()
		default:
			open = true
			b.WriteRune(r)
		}
	}
	return append(words, b.String())
}

// brokenPrefix is what bash leaves out of the word at the cursor: it breaks
// words at "=" and ":" and replaces only what is behind the last one.
func brokenPrefix(words []string) string {
	if len(words) == 0 {
		return ""
	}
	w := words[len(words)-1]
	return w[:strings.LastIndexAny(w, "=:")+1]
}
