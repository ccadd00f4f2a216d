package edit

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of paths and values.
const (
	maxSteps = 32
	maxDepth = 32 // of a value that is written
	// MaxBytes bounds a document.
	MaxBytes = 4 << 20
)

// Step is one part of a path: a key, or the index of an element.
type Step struct {
	Key   string
	Index int // -1 with a key
}

// Path leads to a table, an element or a value.
type Path []Step

// Key makes the step of a key.
func Key(name string) Step { return Step{name, -1} }

// Index makes the step of an element.
func Index(n int) Step { return Step{"", n} }

func (s Step) isKey() bool { return s.Index < 0 }

// ParsePath reads a path such as tenant[2].budget[0].cap_usd. A key of other than
// letters, digits, dashes and underscores stands in quotes:
// upstream[0].headers."X-Team".
func ParsePath(s string) (Path, error) {
	var p Path
	for rest := s; rest != ""; {
		if len(p) > 0 && rest[0] == '.' {
			rest = rest[1:]
			if rest == "" || rest[0] == '[' || rest[0] == '.' {
				return nil, badPath(s)
			}
		} else if len(p) > 0 && rest[0] != '[' {
			return nil, badPath(s)
		}
		step, n := nextStep(rest)
		if n == 0 || len(p) == 0 && !step.isKey() || len(p) == maxSteps {
			return nil, badPath(s)
		}
		p, rest = append(p, step), rest[n:]
	}
	if len(p) == 0 {
		return nil, badPath(s)
	}
	return p, nil
}

func badPath(s string) error {
	return fmt.Errorf("cannot use %.64q as the path of a key: wanted for instance server.listen or tenant[0].budget[1].cap_usd", s)
}

// nextStep reads one step and says how long it was; 0: there is none.
func nextStep(s string) (Step, int) {
	switch s[0] {
	case '[':
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return Step{}, 0
		}
		n, err := strconv.ParseUint(s[1:end], 10, 31)
		if err != nil {
			return Step{}, 0
		}
		return Index(int(n)), end + 1
	case '"':
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			return Step{}, 0
		}
		name, err := strconv.Unquote(q)
		if err != nil {
			return Step{}, 0
		}
		return Key(name), len(q)
	}
	n := 0
	for n < len(s) && isBare(s[n]) {
		n++
	}
	return Key(s[:n]), n
}

// String is the text that ParsePath reads.
func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case !s.isKey():
			fmt.Fprintf(&b, "[%d]", s.Index)
			continue
		case i > 0:
			b.WriteByte('.')
		}
		if bare(s.Key) {
			b.WriteString(s.Key)
		} else {
			b.WriteString(strconv.Quote(s.Key))
		}
	}
	return b.String()
}

// keys are the keys of p, as a table header has them: without indexes.
func (p Path) keys() []string {
	var out []string
	for _, s := range p {
		if s.isKey() {
			out = append(out, s.Key)
		}
	}
	return out
}

func (p Path) with(s ...Step) Path { return append(append(Path{}, p...), s...) }

func isBare(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func bare(s string) bool {
	for i := range len(s) {
		if !isBare(s[i]) {
			return false
		}
	}
	return s != ""
}
