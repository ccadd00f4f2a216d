package edit

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// writer makes a random document and remembers where each value stands.
type writer struct {
	r    *rand.Rand
	b    strings.Builder
	nl   string
	at   map[string]span // path of a value → its bytes
	n    int             // for names that are new
	list []string        // paths in the order of writing
}

func randomDoc(r *rand.Rand) *writer {
	w := &writer{r: r, nl: "\n", at: map[string]span{}}
	if r.IntN(4) == 0 {
		w.nl = "\r\n"
	}
	w.comments()
	w.pairs("", "", r.IntN(4))
	for range r.IntN(5) {
		w.table("", "", 0)
	}
	if s := w.b.String(); r.IntN(4) == 0 {
		s = strings.TrimSuffix(s, w.nl)
		w.b.Reset()
		w.b.WriteString(s)
	}
	return w
}

func (w *writer) name() string {
	w.n++
	switch w.r.IntN(6) {
	case 0:
		return fmt.Sprintf(`"q %d"`, w.n)
	case 1:
		return fmt.Sprintf(`'l.%d'`, w.n)
	case 2:
		return fmt.Sprintf(`"ü\t%d"`, w.n)
	}
	return fmt.Sprintf("k%d", w.n)
}

// bareName is what a key says, as a path has it.
func pathOf(at, key string) string {
	key = strings.TrimSpace(key)
	if strings.HasPrefix(key, "'") {
		key = `"` + strings.Trim(key, "'") + `"`
	}
	if at == "" {
		return key
	}
	return at + "." + key
}

func (w *writer) comments() {
	for range w.r.IntN(3) {
		w.b.WriteString(w.pick("# a note", "#k1 = 3", "#name = \"x\"", "", "\t# indented", "#[k2]", "# [[k3]]") + w.nl)
	}
}

func (w *writer) pick(of ...string) string { return of[w.r.IntN(len(of))] }

// pairs writes n keys of the table at path, whose keys may be dotted.
func (w *writer) pairs(path, prefix string, n int) {
	for range n {
		key, at := w.name(), path
		w.b.WriteString(w.pick("", "", "  "))
		w.b.WriteString(prefix)
		if w.r.IntN(6) == 0 { // a dotted table, maybe with several keys
			top := w.name()
			for i := range 1 + w.r.IntN(2) {
				if i > 0 {
					key = w.name()
				}
				w.b.WriteString(top + w.pick(".", " . ") + key)
				w.value(pathOf(pathOf(at, top), key))
			}
			continue
		}
		w.b.WriteString(key)
		w.value(pathOf(at, key))
	}
}

func (w *writer) value(path string) {
	w.b.WriteString(w.pick(" = ", "=", " =\t"))
	w.raw(path, 0)
	w.b.WriteString(w.pick("", "", "  # why", " ") + w.nl)
	w.comments()
}

// raw writes one value and notes its range.
func (w *writer) raw(path string, depth int) {
	start := w.b.Len()
	switch k := w.r.IntN(14); {
	case k == 0 && depth < 3:
		w.list0(path, depth)
	case k == 1 && depth < 3:
		w.inline(path, depth)
	case k == 2:
		w.b.WriteString(`"""` + w.nl + `one "two" # no comment` + w.nl + `[not.a.table]` + w.nl + `\` + w.nl + `  x = 1"""""`)
	case k == 3:
		w.b.WriteString(`'''` + w.nl + `it's \ # raw` + w.nl + `'''`)
	default:
		w.b.WriteString(w.pick(`"text"`, `'lit # eral'`, `"esc \" \\ \u00e9"`, "1", "-17", "0xff", "1_000", "3.5", "1e3", "inf", "nan", "true", "false",
			"1979-05-27T07:32:00Z", "1979-05-27", "07:32:00", `""`, "[]", "{}", "[ ]", "{ }"))
	}
	w.at[path] = span{start, w.b.Len()}
	w.list = append(w.list, path)
}

func (w *writer) list0(path string, depth int) {
	lines := w.r.IntN(2) == 0
	sep := func() {
		if lines {
			w.b.WriteString(w.pick("", " # c, ]") + w.nl + "  ")
		} else {
			w.b.WriteString(w.pick("", " "))
		}
	}
	w.b.WriteString("[")
	n := w.r.IntN(4)
	for i := range n {
		sep()
		w.raw(fmt.Sprintf("%s[%d]", path, i), depth+1)
		if i < n-1 || w.r.IntN(2) == 0 {
			w.b.WriteString(w.pick(",", " ,"))
		}
	}
	sep()
	w.b.WriteString("]")
}

func (w *writer) inline(path string, depth int) {
	w.b.WriteString("{" + w.pick("", " "))
	n := w.r.IntN(4)
	for i := range n {
		key := w.name()
		p := pathOf(path, key)
		w.b.WriteString(key)
		if w.r.IntN(5) == 0 {
			sub := w.name()
			w.b.WriteString("." + sub)
			p = pathOf(p, sub)
		}
		w.b.WriteString(w.pick(" = ", "="))
		w.raw(p, depth+1)
		if i < n-1 {
			w.b.WriteString(w.pick(", ", ","))
		}
	}
	w.b.WriteString(w.pick("", " ") + "}")
}

// table writes a table or an array of tables below a header, with sub-tables.
func (w *writer) table(path, head string, depth int) {
	name := w.name()
	at, h := pathOf(path, name), name
	if head != "" {
		h = head + "." + name
	}
	many := w.r.IntN(2) == 0
	for i := range 1 + w.r.IntN(3)*map[bool]int{true: 1}[many] {
		w.b.WriteString(w.pick("", w.nl))
		w.comments()
		p := at
		if many {
			p = fmt.Sprintf("%s[%d]", at, i)
			w.b.WriteString(w.pick("", "  ") + "[[" + w.pick("", " ") + h + "]]" + w.pick("", " # head") + w.nl)
		} else if w.r.IntN(6) == 0 && depth < 2 { // implied by one below it
			w.table(p, h, depth+1)
			continue
		} else {
			w.b.WriteString("[" + h + w.pick("", " ") + "]" + w.nl)
		}
		w.comments()
		w.pairs(p, "", w.r.IntN(4))
		for range w.r.IntN(3) {
			if depth < 2 {
				w.table(p, h, depth+1)
			}
		}
	}
}
