package appliance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hearth/appliance/config"
	"hearth/appliance/config/linediff"
)

// changedKey is one key whose value differs between two configurations, every
// default filled in. Elements of arrays of tables go by their names.
type changedKey struct {
	Path    string `json:"path"`          // as tenant[default].limits.concurrency
	Old     any    `json:"old,omitempty"` // absent: it was not there
	New     any    `json:"new,omitempty"` // absent: it is gone
	Restart bool   `json:"restart,omitempty"`
}

// words tells the change in a line.
func (c changedKey) words() string {
	switch {
	case c.Old == nil:
		return "added"
	case c.New == nil:
		return "removed"
	}
	return fmt.Sprintf("%s → %s", config.Literal(c.Old), config.Literal(c.New))
}

// maxChanged bounds the list that is told; the text difference has the rest.
const maxChanged = 500

// changedKeys lists what differs, in the order of paths.
func changedKeys(old, new *config.Config) []changedKey {
	out := []changedKey{}
	compareTrees("", old.Tree(), new.Tree(), &out)
	return out
}

func compareTrees(at string, a, b any, out *[]changedKey) {
	if len(*out) >= maxChanged {
		return
	}
	if ma, ok := a.(map[string]any); ok {
		if mb, ok := b.(map[string]any); ok {
			keys := slices.Collect(maps.Keys(ma))
			for k := range mb {
				if _, both := ma[k]; !both {
					keys = append(keys, k)
				}
			}
			slices.Sort(keys)
			for _, k := range keys {
				compareTrees(joinKey(at, k), ma[k], mb[k], out)
			}
			return
		}
	}
	la, oka := a.([]any)
	lb, okb := b.([]any)
	if oka && okb && (config.Named(la) || config.Named(lb)) {
		compareNamed(at, la, lb, out)
		return
	}
	if fmt.Sprintf("%#v", a) != fmt.Sprintf("%#v", b) {
		*out = append(*out, changedKey{Path: at, Old: a, New: b})
	}
}

func joinKey(at, k string) string {
	if at == "" {
		return k
	}
	return at + "." + k
}

// compareNamed matches the elements of an array of tables by their names.
func compareNamed(at string, a, b []any, out *[]changedKey) {
	na, nb := config.ElementNames(a), config.ElementNames(b)
	placeA, placeB := places(na), places(nb)
	var kept []string
	for i, n := range na {
		path := at + "[" + n + "]"
		if j, ok := placeB[n]; ok {
			kept = append(kept, n)
			compareTrees(path, a[i], b[j], out)
		} else {
			*out = append(*out, changedKey{Path: path, Old: a[i]})
		}
	}
	for j, n := range nb {
		if _, ok := placeA[n]; !ok {
			*out = append(*out, changedKey{Path: at + "[" + n + "]", New: b[j]})
		}
	}
	order := slices.DeleteFunc(slices.Clone(nb), func(n string) bool { _, ok := placeA[n]; return !ok })
	if !slices.Equal(kept, order) {
		*out = append(*out, changedKey{Path: at, Old: "in the order " + strings.Join(kept, ", "), New: "in the order " + strings.Join(order, ", ")})
	}
}

// places says where each name stands.
func places(names []string) map[string]int {
	at := make(map[string]int, len(names))
	for i, n := range names {
		at[n] = i
	}
	return at
}

// pathsOf lists the paths of changes, at most n.
func pathsOf(changed []changedKey, n int) []string {
	var out []string
	for _, c := range changed[:min(n, len(changed))] {
		out = append(out, c.Path)
	}
	return out
}

// maxDiffBytes bounds a text difference that is told.
const maxDiffBytes = 256 << 10

func textDiff(nameA, nameB string, a, b []byte, most int) string {
	d := linediff.Unified(nameA, nameB, string(a), string(b))
	if len(d) > most {
		d = clipText(d, most) + "\n(the rest is left out)\n"
	}
	return d
}
