package edit

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func decode(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var m map[string]any
	if _, err := toml.Decode(string(text), &m); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// flat lists every leaf of a configuration by its path, and every empty table
// and list: another notion of equality than that of the package.
func flat(v any, at string, out map[string]string) map[string]string {
	switch x := v.(type) {
	case map[string]any:
		out[at] = "table"
		for k := range x {
			flat(x[k], fmt.Sprintf("%s.%q", at, k), out)
		}
	case []map[string]any:
		flat(untyped(x), at, out)
	case []any:
		out[at] = fmt.Sprint("list ", len(x))
		for i := range x {
			flat(x[i], fmt.Sprintf("%s[%d]", at, i), out)
		}
	default:
		out[at] = fmt.Sprintf("%T %v", v, v)
	}
	return out
}

func flatPath(p Path) string {
	s := ""
	for _, x := range p {
		if x.isKey() {
			s += fmt.Sprintf(".%q", x.Key)
		} else {
			s += fmt.Sprintf("[%d]", x.Index)
		}
	}
	return s
}

// dropBelow removes a path and everything in it.
func dropBelow(m map[string]string, at string) {
	maps.DeleteFunc(m, func(k, _ string) bool {
		return k == at || strings.HasPrefix(k, at+".") || strings.HasPrefix(k, at+"[")
	})
}

func mustPath(t *testing.T, s string) Path {
	t.Helper()
	p, err := ParsePath(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const rounds = 200

// Whatever value is set: no byte outside it changes, and the document says the
// old configuration with that one value.
func TestSetKeepsEveryOtherByte(t *testing.T) {
	values := []any{"new", "two\nlines \"quoted\" \\ \x01 ü", true, int64(-5), 2.0, []any{"a", int64(1)}, []any{}, map[string]any{"x": int64(1), "y z": "v"}}
	sets := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := randomDoc(r)
		text := []byte(w.b.String())
		old := flat(decode(t, text), "", map[string]string{})
		for range min(6, len(w.list)) {
			path, v := w.list[r.IntN(len(w.list))], values[r.IntN(len(values))]
			d, err := Parse(text)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			p := mustPath(t, path)
			if err := d.Set(p, v); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			sets++
			lit, _ := literal(v)
			at := w.at[path]
			if want := string(text[:at.start]) + lit + string(text[at.end:]); string(d.Bytes()) != want {
				t.Fatalf("seed %d: %s = %s made\n%s\nof\n%s", seed, path, lit, d.Bytes(), text)
			}
			want := maps.Clone(old)
			dropBelow(want, flatPath(p))
			flat(v, flatPath(p), want)
			if got := flat(decode(t, d.Bytes()), "", map[string]string{}); !maps.Equal(got, want) {
				t.Fatalf("seed %d: %s = %s says %v\nwanted %v", seed, path, lit, got, want)
			}
		}
	}
	t.Logf("%d values set in %d documents", sets, rounds)
}

// places lists every table and list of a document.
func places(n *node, out []*node) []*node {
	if n.val == nil || n.kind == aList || n.kind == anInline {
		out = append(out, n)
	}
	for _, k := range slices.Sorted(maps.Keys(n.keys)) {
		out = places(n.keys[k], out)
	}
	for _, e := range n.elems {
		out = places(e, out)
	}
	return out
}

// kept counts the bytes of old that stand in the result before and behind the
// one place that changed.
func kept(old, new []byte) int {
	n := 0
	for n < len(old) && n < len(new) && old[n] == new[n] {
		n++
	}
	m := 0
	for m < len(old)-n && m < len(new)-n && old[len(old)-1-m] == new[len(new)-1-m] {
		m++
	}
	return n + m
}

// A new key, table or element in any place of any document leaves every byte
// that was there.
func TestInsertKeepsEveryByte(t *testing.T) {
	inserts, twice := 0, 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 2))
		text := []byte(randomDoc(r).b.String())
		d, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all := places(d.root, nil)
		for range 5 {
			n := all[r.IntN(len(all))]
			p := n.path()
			var v any = []any{"v", int64(7), false, []any{}, map[string]any{"a": "b"}, map[string]any{"s": map[string]any{"t": int64(1)}, "l": []any{map[string]any{"u": true}}}}[r.IntN(6)]
			switch n.kind {
			case aList:
				p = p.with(Index(len(n.elems)))
			case tableOf:
				p, v = p.with(Index(len(n.elems))), map[string]any{"n": "x", "m": []any{int64(1)}, "sub": map[string]any{"k": 1.5}}
			default:
				p = p.with(Key(fmt.Sprintf("new %d", r.IntN(9))))
				for range r.IntN(3) {
					p = p.with(Key("deep"))
				}
			}
			if err := d.Set(p, v); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			inserts++
			if k := kept(text, d.Bytes()); k < len(text) {
				// A comma and, on a line of its own, the element.
				if twice++; n.kind != aList && n.kind != anInline && n.kind != aDotted || len(d.Bytes()) <= len(text) {
					t.Fatalf("seed %d: %s made\n%s\nof\n%s", seed, p, d.Bytes(), text)
				}
			}
			want := flat(decode(t, text), "", map[string]string{})
			for i := range p { // tables on the way
				if at := flatPath(p[:i+1]); want[at] == "" && i < len(p)-1 {
					want[at] = "table"
				}
			}
			if last := p[len(p)-1]; !last.isKey() {
				want[flatPath(p[:len(p)-1])] = fmt.Sprint("list ", last.Index+1)
			}
			flat(v, flatPath(p), want)
			if got := flat(decode(t, d.Bytes()), "", map[string]string{}); !maps.Equal(got, want) {
				t.Fatalf("seed %d: %s says %v\nwanted %v", seed, p, got, want)
			}
			if d, err = Parse(text); err != nil {
				t.Fatal(err)
			}
			all = places(d.root, nil)
		}
	}
	t.Logf("%d inserts in %d documents", inserts, rounds)
}

// What is removed takes nothing along but itself; what is renamed keeps its
// contents.
func TestDeleteAndRename(t *testing.T) {
	deletes, renames := 0, 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 3))
		text := []byte(randomDoc(r).b.String())
		first, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var paths []Path
		var walk func(n *node)
		walk = func(n *node) {
			if n.parent != nil {
				paths = append(paths, n.path())
			}
			for _, k := range slices.Sorted(maps.Keys(n.keys)) {
				walk(n.keys[k])
			}
			for _, e := range n.elems {
				walk(e)
			}
		}
		walk(first.root)
		old := flat(decode(t, text), "", map[string]string{})
		for range min(4, len(paths)) {
			p := paths[r.IntN(len(paths))]
			d, _ := Parse(text)
			if err := d.Delete(p); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			deletes++
			if len(d.Bytes()) >= len(text) {
				t.Fatalf("seed %d: nothing was removed", seed)
			}
			got := flat(decode(t, d.Bytes()), "", map[string]string{})
			if p[len(p)-1].isKey() { // what is left is a part of what was there
				for k, v := range got {
					if old[k] != v && !strings.HasPrefix(v, "list") {
						t.Fatalf("seed %d: %s removed, and %s is now %q", seed, p, k, v)
					}
				}
				if _, there := got[flatPath(p)]; there {
					t.Fatalf("seed %d: %s is still there", seed, p)
				}
			}
			if last := p[len(p)-1]; last.isKey() {
				d, _ := Parse(text)
				if err := d.Rename(p, "renamed"); err != nil {
					t.Fatalf("seed %d: %v\n%s", seed, err, text)
				}
				renames++
				if got := len(flat(decode(t, d.Bytes()), "", map[string]string{})); got != len(old) {
					t.Fatalf("seed %d: %d leaves became %d", seed, len(old), got)
				}
				if err := d.Rename(p[:len(p)-1].with(Key("renamed")), last.Key); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if !Equal(d.tree, first.tree) {
					t.Fatalf("seed %d: renamed there and back it says something else", seed)
				}
			}
		}
	}
	t.Logf("%d removed, %d renamed in %d documents", deletes, renames, rounds)
}

// The places where people look for a new line.
func TestWhereThingsGo(t *testing.T) {
	for _, c := range []struct {
		name, doc, path string
		v               any
		want            string
	}{
		{"below its commented-out default", "[s]\n# what\n#a = 1\n#b = 2\n\n[t]\n", "s.a", int64(3), "[s]\n# what\n#a = 1\na = 3\n#b = 2\n\n[t]\n"},
		{"below the last key", "[s]\nx = 1 # one\n\n# about t\n[t]\n", "s.a", "v", "[s]\nx = 1 # one\na = \"v\"\n\n# about t\n[t]\n"},
		{"not below the default of another table", "[s]\nx = 1\n#[[e]]\n#a = 1\n", "s.a", "v", "[s]\nx = 1\na = \"v\"\n#[[e]]\n#a = 1\n"},
		{"a list over several commented lines", "[s]\n#a = [\n#  1,\n#]\n", "s.a", []any{}, "[s]\n#a = [\n#  1,\n#]\na = []\n"},
		{"no final newline", "[s]\nx = 1", "s.a", true, "[s]\nx = 1\na = true"},
		{"windows", "[s]\r\nx = 1\r\n", "s.a", 1.0, "[s]\r\nx = 1\r\na = 1.0\r\n"},
		{"an empty document", "", "s.a", "v", "[s]\na = \"v\"\n"},
		{"above all tables", "# about s\n[s]\n", "a", "v", "a = \"v\"\n\n# about s\n[s]\n"},
		{"a table of an element", "[[e]]\nn = 1\n\n[[e]]\nn = 2\n", "e[0].l.c", int64(5), "[[e]]\nn = 1\n\n[e.l]\nc = 5\n\n[[e]]\nn = 2\n"},
		{"below its commented-out header", "[[e]]\nn = 1\n#[e.l]\n# c\n#c = 0\n", "e[0].l.c", int64(5), "[[e]]\nn = 1\n#[e.l]\n[e.l]\nc = 5\n# c\n#c = 0\n"},
		{"a further element", "[[e]]\nn = 1\n[e.l]\nc = 1\n\n# about f\n[f]\n", "e[1]", map[string]any{"n": int64(2)}, "[[e]]\nn = 1\n[e.l]\nc = 1\n\n[[e]]\nn = 2\n\n# about f\n[f]\n"},
		{"dotted keys", "a.b = 1\nc = 2\n", "a.d", int64(3), "a.b = 1\na.d = 3\nc = 2\n"},
		{"an inline table", "a = { b = 1 }\n", "a.d", int64(3), "a = { b = 1, d = 3 }\n"},
		{"a list by lines", "a = [\n  1, # one\n  2 # two\n]\n", "a[2]", int64(3), "a = [\n  1, # one\n  2, # two\n  3\n]\n"},
		{"a list by lines with a last comma", "a = [\n  1,\n]\n", "a[1]", int64(2), "a = [\n  1,\n  2,\n]\n"},
		{"a map where the default is inline", "[s]\n#h = {}\n", "s.h", map[string]any{"X-A": "b"}, "[s]\n#h = {}\nh = { X-A = \"b\" }\n"},
	} {
		d, err := Parse([]byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Set(mustPath(t, c.path), c.v); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := string(d.Bytes()); got != c.want {
			t.Errorf("%s:\n%s\nwanted\n%s", c.name, got, c.want)
		}
	}
}

func TestDeleteElement(t *testing.T) {
	d, err := Parse([]byte("# tenants\n[[t]]\nn = 1\n#x = 0\n\n# the second\n[[t]]\nn = 2\n[t.l]\nc = 1\n\n# of s\n[s]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(mustPath(t, "t[1]")); err != nil {
		t.Fatal(err)
	}
	if got := string(d.Bytes()); got != "# tenants\n[[t]]\nn = 1\n#x = 0\n\n# of s\n[s]\n" {
		t.Errorf("got\n%s", got)
	}
}

// A table is set key by key.
func TestSetTable(t *testing.T) {
	d, err := Parse([]byte("[[e]]\nn = 1 # one\ngone = 2\n[e.l]\nc = 1\n\n[[e]]\nn = 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Set(mustPath(t, "e"), []any{map[string]any{"n": int64(7), "l": map[string]any{"c": int64(1), "d": "x"}}}); err != nil {
		t.Fatal(err)
	}
	if got := string(d.Bytes()); got != "[[e]]\nn = 7 # one\n[e.l]\nc = 1\nd = \"x\"\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestRefused(t *testing.T) {
	const doc = "a = 1\n[s]\nb = [1]\n[[e]]\n"
	for _, c := range []struct {
		path string
		v    any
	}{
		{"a.x", "v"}, {"s", "v"}, {"s.b[2]", "v"}, {"e[2]", map[string]any{}}, {"e[0]", "v"}, {"a", struct{}{}}, {"a", "\xff"}, {"e", "v"}, {"s.new[1]", "v"},
	} {
		d, err := Parse([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Set(mustPath(t, c.path), c.v); err == nil {
			t.Errorf("%s = %v was taken:\n%s", c.path, c.v, d.Bytes())
		} else if string(d.Bytes()) != doc {
			t.Errorf("%s = %v was refused and changed the document", c.path, c.v)
		}
	}
	for _, bad := range []string{"", ".", "a.", ".a", "a..b", "[0]", "a[", "a[x]", "a[-1]", "a b", "a]", `a."`, "a[0]b", strings.Repeat("a.", 40) + "a"} {
		if p, err := ParsePath(bad); err == nil {
			t.Errorf("path %q was taken as %v", bad, p)
		}
	}
	for _, bad := range []string{"a", "a = ", "a = 1\na = 2", "a = " + strings.Repeat("[", 1<<20), strings.Repeat(" ", MaxBytes+1)} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("a document of %d bytes was taken", len(bad))
		}
	}
}

func FuzzEdit(f *testing.F) {
	f.Add([]byte("[s]\n#a = 1\nb = [1, 2]\n"), "s.a", "v")
	f.Add([]byte("a.b = {c = 1}\r\n[[e]]\r\n[e.f]\r\n"), "e[0].f.g", "v")
	f.Add([]byte("x = '''\n[y]\n'''"), "x", "")
	f.Fuzz(func(t *testing.T, doc []byte, path, v string) {
		d, err := Parse(doc)
		if err != nil {
			return
		}
		if !bytes.Equal(d.Bytes(), doc) {
			t.Fatal("reading changed the document")
		}
		p, err := ParsePath(path)
		if err != nil {
			return
		}
		if back, err := ParsePath(p.String()); err != nil || !slices.Equal(back, p) {
			t.Fatalf("path %q became %q", path, p)
		}
		if d.Set(p, v) == nil {
			if got, ok := d.Get(p); !ok || got != v {
				t.Fatalf("set to %q, and got %v", v, got)
			}
			if d.Delete(p) == nil && p[len(p)-1].isKey() && d.Has(p) {
				t.Fatal("removed, and there")
			}
		}
	})
}
