package chattmpl

import (
	"math"
	"math/big"
	"strconv"
)

// value is one of: undefined, none, bool, int64, *big.Int (outside int64, from
// JSON only), float64, text, *list, *dict, *namespace, *function, *macro,
// *loopState.
type value any

type none struct{}

// undefined is a variable, key or attribute that is not there.
type undefined struct{ name string }

// list is a Python list or tuple. Lists are never changed once made.
type list struct {
	items  []value
	tuple  bool
	user   bool     // came with the request
	fields []string // names of the items, of a named tuple
}

// dict is an ordered map. Keys are any hashable value.
type dict struct {
	keys  []value
	vals  []value
	index map[string]int // by hashKey
	user  bool           // came with the request
}

func newDict(n int) *dict { return &dict{index: make(map[string]int, n)} }

// set keeps the position of a key that is there already, as Python does.
func (d *dict) set(key, v value) bool {
	h, ok := hashKey(key)
	if !ok {
		return false
	}
	if i, ok := d.index[h]; ok {
		d.vals[i] = v
		return true
	}
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, key)
	d.vals = append(d.vals, v)
	return true
}

func (d *dict) get(key value) (value, bool) {
	h, ok := hashKey(key)
	if !ok {
		return nil, false
	}
	i, ok := d.index[h]
	if !ok {
		return nil, false
	}
	return d.vals[i], true
}

func (d *dict) getString(key string) (value, bool) {
	if i, ok := d.index["s"+key]; ok {
		return d.vals[i], true
	}
	return nil, false
}

// maxKeyParts bounds a tuple that serves as a key: nested tuples may share parts
// and so be far larger than the memory they take.
const maxKeyParts = 64

// hashKey maps equal hashable values to equal strings.
func hashKey(v value) (string, bool) {
	parts := maxKeyParts
	return hashPart(v, &parts)
}

func hashPart(v value, parts *int) (string, bool) {
	if *parts--; *parts < 0 {
		return "", false
	}
	switch v := v.(type) {
	case text:
		return "s" + v.s, true
	case bool:
		if v {
			return "n1", true
		}
		return "n0", true
	case int64:
		return "n" + strconv.FormatInt(v, 10), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return "n" + strconv.FormatInt(int64(v), 10), true
		}
		return "f" + strconv.FormatFloat(v, 'g', -1, 64), true
	case *big.Int:
		return "n" + v.String(), true
	case none:
		return "N", true
	case undefined:
		return "U", true
	case *list:
		if !v.tuple {
			return "", false
		}
		h := "("
		for _, e := range v.items {
			k, ok := hashPart(e, parts)
			if !ok {
				return "", false
			}
			h += strconv.Itoa(len(k)) + ":" + k
		}
		return h, true
	}
	return "", false
}

// namespace is the one mutable object a template has.
type namespace struct {
	vars *dict
}

// function is a built-in callable; bound methods are functions too.
type function struct {
	name string
	call func(ev *eval, a args) value
}

// args are the evaluated arguments of a call.
type args struct {
	pos []value
	kw  []keyword
}

type keyword struct {
	name string
	v    value
}

func isNone(v value) bool      { _, ok := v.(none); return ok }
func isUndefined(v value) bool { _, ok := v.(undefined); return ok }

// truth is Python's bool().
func truth(v value) bool {
	switch v := v.(type) {
	case undefined, none:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case text:
		return v.s != ""
	case *list:
		return len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	}
	return true
}

// typeName is Python's name of the type, for messages.
func typeName(v value) string {
	switch v := v.(type) {
	case undefined:
		return "Undefined"
	case none:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case text:
		return "str"
	case *list:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loopState:
		return "LoopContext"
	}
	return "function"
}

// number gives v as a float64 and, where it is integral, as an int64.
func number(v value) (i int64, f float64, isInt, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, true, true
		}
		return 0, 0, true, true
	case int64:
		return v, float64(v), true, true
	case float64:
		return 0, v, false, true
	case *big.Int:
		f, _ = new(big.Float).SetInt(v).Float64()
		return 0, f, false, true
	}
	return 0, 0, false, false
}
