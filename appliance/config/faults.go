package config

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/BurntSushi/toml"

	"hearth/policy"
)

// Fault is one thing wrong with a configuration file.
type Fault struct {
	Line    int    `json:"line,omitempty"` // 1-based; 0 if not known
	Key     string `json:"key"`            // key path, for instance model[1].path
	Message string `json:"message"`
}

func (f Fault) String() string {
	var b strings.Builder
	if f.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", f.Line)
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults is the error of a configuration that was not accepted.
type Faults struct {
	File string  `json:"file"`
	List []Fault `json:"faults"`

	lines map[string]int
	seen  func(policy.Constraint) // told what is asked of each key; nil: nobody wants to know
}

func (f *Faults) note(b policy.Constraint) {
	if f.seen != nil {
		f.seen(b)
	}
}

func (f *Faults) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d fault", f.File, len(f.List))
	if len(f.List) != 1 {
		b.WriteByte('s')
	}
	for _, x := range f.List {
		b.WriteString("\n  " + x.String())
	}
	return b.String()
}

// add records a fault at key, at the line of the key or of the nearest table
// around it.
func (f *Faults) add(key, format string, args ...any) {
	if len(f.List) == maxFaults {
		f.List = append(f.List, Fault{Message: "there are more faults than are told here"})
	}
	if len(f.List) > maxFaults {
		return
	}
	f.List = append(f.List, Fault{Line: f.lineOf(key), Key: key, Message: fmt.Sprintf(format, args...)})
}

// Locate gives the lines of what was found in the configuration that stands in
// data.
func Locate(data []byte, found []policy.Fault) []Fault {
	f := Faults{List: []Fault{}, lines: keyLines(data)}
	for _, x := range found {
		f.List = append(f.List, Fault{Line: f.lineOf(x.Path), Key: x.Path, Message: x.Message})
	}
	f.sort()
	return f.List
}

func (f *Faults) lineOf(key string) int {
	for key != "" {
		if n, ok := f.lines[key]; ok {
			return n
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			break
		}
		key = key[:cut]
	}
	return 0
}

func (f *Faults) addSyntax(err error) {
	var pe toml.ParseError
	if errors.As(err, &pe) {
		f.List = append(f.List, Fault{Line: pe.Position.Line, Key: pe.LastKey, Message: pe.Message})
		return
	}
	f.List = append(f.List, Fault{Message: err.Error()})
}

// dropEchoes removes faults after the first n that are about keys which one of the
// first n is about: a value of the wrong type is also an empty one.
func (f *Faults) dropEchoes(n int) {
	told := map[string]bool{}
	for _, x := range f.List[:n] {
		told[x.Key] = true
	}
	f.List = append(f.List[:n], slices.DeleteFunc(f.List[n:], func(x Fault) bool { return told[x.Key] })...)
}

func (f *Faults) sort() {
	sort.SliceStable(f.List, func(i, j int) bool {
		a, b := f.List[i], f.List[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Key < b.Key
	})
}

// nearest returns the name of known that is closest to name, or "" if none is
// close enough to be a likely slip.
func nearest(name string, known []string) string {
	if len(name) > 100 {
		return ""
	}
	best, bestDist := "", len(name)/2+1
	for _, k := range known {
		if len(name) >= 3 && strings.HasPrefix(k, name+"_") {
			return k // the unit was left out
		}
		if d := editDistance(name, k); d < bestDist {
			best, bestDist = k, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance over bytes. Both are key names, so
// short; anything longer than 64 bytes is far from everything.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
