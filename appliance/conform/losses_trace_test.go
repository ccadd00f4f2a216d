package conform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"hearth/engine/infer"
	"hearth/web/wire"
)

// slot is a place in a JSON value: a member of an object or an element of a list.
type slot struct {
	in  any
	key string
	at  int
}

func (s slot) get() any {
	if o, ok := s.in.(map[string]any); ok {
		return o[s.key]
	}
	return s.in.([]any)[s.at]
}

func (s slot) set(v any) {
	if o, ok := s.in.(map[string]any); ok {
		o[s.key] = v
		return
	}
	s.in.([]any)[s.at] = v
}

// steps are the parts of a field's path.
func steps(path string) []string { return strings.Split(strings.ReplaceAll(path, "[]", ".[]"), ".") }

// slots finds what path names in v: members, the last element of a list, or the
// elements of a type.
func slots(v any, path []string) (out []slot) {
	switch x := v.(type) {
	case map[string]any:
		if in, ok := x[path[0]]; ok && len(path) > 1 {
			return slots(in, path[1:])
		} else if ok {
			return []slot{{in: x, key: path[0]}}
		}
	case []any:
		switch {
		case path[0] != "[]":
			return nil
		case len(path) == 1 && len(x) > 0:
			return []slot{{in: x, at: len(x) - 1}}
		case len(path) == 2:
			for i, e := range x {
				if o, _ := e.(map[string]any); o["type"] == path[1] {
					out = append(out, slot{in: x, at: i})
				}
			}
		}
		for i := 0; i < len(x) && out == nil && len(path) > 1; i++ {
			for ; i < len(x); i++ {
				out = append(out, slots(x[i], path[1:])...)
			}
		}
	}
	return out
}

// noted counts the uses of the field's feature; -1 for what is no request.
func (in *inbound) noted(f *wire.Field, body []byte) (n int) {
	r, _, err := in.decode(nil, body)
	if err != nil {
		return -1
	}
	for _, u := range r.Uses {
		if u.Feature == f.Feature {
			n++
		}
	}
	return n
}

// without is the request less the field: of the places that its path names, the
// first that makes a difference to what is noted, or all. place tells which; nil
// where that is no request.
func (in *inbound) without(f *wire.Field, with []byte) (body []byte, place int) {
	count := len(slots(parse(with), steps(f.Path)))
	before := in.noted(f, with)
	for i := range count {
		body := remove(with, f.Path, i)
		if n := in.noted(f, body); n >= 0 && n < before {
			return body, i
		}
	}
	if count == 0 {
		return nil, -1
	}
	return remove(with, f.Path, -1), -1
}

// remove takes out what path names in place i, or in all if i is negative.
func remove(body []byte, path string, i int) []byte {
	v := parse(body)
	for k, s := range slots(v, steps(path)) {
		switch o, ok := s.in.(map[string]any); {
		case i >= 0 && k != i:
		case ok:
			delete(o, s.key)
		default:
			s.set(removed{})
		}
	}
	out, _ := json.Marshal(sweep(v))
	return out
}

// removed stands for an element that is to go.
type removed struct{}

func sweep(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k := range x {
			x[k] = sweep(x[k])
		}
	case []any:
		x = slices.DeleteFunc(x, func(e any) bool { return e == removed{} })
		for i := range x {
			x[i] = sweep(x[i])
		}
		return x
	}
	return v
}

// strings finds the texts in what a slot holds.
func (s slot) strings() (out []slot) {
	switch x := s.get().(type) {
	case string:
		return []slot{s}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			out = append(out, slot{in: x, key: k}.strings()...)
		}
	case []any:
		for i := range x {
			out = append(out, slot{in: x, at: i}.strings()...)
		}
	}
	return out
}

// canary is a word that no encoder writes of itself; canary64 is base64 for it,
// and valid as text too.
const canary, canary64 = "canaryzqzqzq", "Y2FuYXJ5enF6cXpx"

// canaries are bodies that have the canary in one text of the field, as far as
// the decoder still notes the same of them.
func (in *inbound) canaries(f *wire.Field, with []byte, place int) (out [][]byte) {
	uses := in.uses(with)
	for i := range slots(parse(with), steps(f.Path)) {
		for k := 0; place < 0 || i == place; k++ {
			v := parse(with)
			texts := slots(v, steps(f.Path))[i].strings()
			if k >= len(texts) {
				break
			}
			for _, is := range likenesses(texts[k].get().(string)) {
				texts[k].set(is)
				if body, _ := json.Marshal(v); in.uses(body) == uses {
					out = append(out, body)
					break
				}
			}
		}
	}
	return out
}

// uses is all that is noted of a request.
func (in *inbound) uses(body []byte) string {
	r, _, err := in.decode(nil, body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(r.Uses)
}

// likenesses are texts with the canary that may pass where s passes.
func likenesses(s string) []string {
	if head, _, ok := strings.Cut(s, ";base64,"); ok {
		return []string{head + ";base64," + canary64}
	}
	if scheme, _, ok := strings.Cut(s, "://"); ok {
		return []string{scheme + "://example.org/" + canary}
	}
	return []string{canary, canary64}
}

func parse(body []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	_ = d.Decode(&v)
	return v
}

// encode writes a request for a target from its typed fields, or for the engine
// here the fields themselves.
func (in *inbound) encode(out *outbound, body []byte) (string, error) {
	r, _, err := in.decode(nil, body)
	if err != nil {
		return "", err
	}
	r.Wire, r.ID, r.Tenant = nil, "req_1", "t"
	if out.client == nil {
		r.Uses, r.Hints = nil, infer.Hints{}
		b, err := json.Marshal(r)
		return string(b), err
	}
	o, err := out.client.EncodeRequest(r, wire.Target{Model: "up", MaxOutput: 64})
	if err != nil {
		return "", err
	}
	return o.Path + " " + fmt.Sprint(o.Header) + " " + string(o.Body), nil
}

// classAt is the class of one use at a target.
func classAt(u infer.Use, out *outbound) infer.Class {
	if u.Feature == infer.FeatureUnknown || u.Own {
		return infer.Dropped
	}
	return out.class(u.Feature)
}

// hold checks one field at one target. It is false where an excuse was needed.
func (in *inbound) hold(t *testing.T, name string, f *wire.Field, u infer.Use, out *outbound, e *example) bool {
	t.Helper()
	class := classAt(u, out)
	if !slices.Contains([]infer.Class{infer.Carried, infer.Transformed, infer.Emulated, infer.Dropped}, class) {
		t.Errorf("%s: %s has class %q", name, f.Feature, class)
		return true
	}
	lost := infer.Losses([]infer.Use{u}, out.class)
	if want := class == infer.Dropped || class == infer.Emulated; want != (len(lost) == 1) || want && lost[0].Class != class {
		t.Errorf("%s: %s has class %s, listed as lost: %v", name, f.Feature, class, lost)
	}
	if want := class == infer.Dropped && !f.Feature.Hint(); want != (len(lost) == 1 && lost[0].Refusable()) {
		t.Errorf("%s: %s has class %s, refusable: %v", name, f.Feature, class, !want)
	}
	switch {
	case out.client != nil && e.kind == infer.Completion && !strings.Contains(out.client.Dialect(), "completions"): // it takes conversations only
	case class == infer.Dropped:
		in.gone(t, name, f, out, e)
	case e.without != nil:
		return in.there(t, name, f, class, out, e)
	}
	return true
}

// gone holds that a dropped field leaves no trace in what is sent: it is the same
// without the field, or at least none of the field's texts are in it. The engine
// here is handed what it has no use for; it reads none of it.
func (in *inbound) gone(t *testing.T, name string, f *wire.Field, out *outbound, e *example) {
	t.Helper()
	if out.client == nil || f.Feature == infer.FeaturePrefill { // the turn stands, but ends
		return
	}
	for _, body := range e.canaries {
		if a, err := in.encode(out, body); err == nil && (strings.Contains(a, canary) || strings.Contains(a, canary64)) {
			t.Errorf("%s: %s is dropped, yet its text is sent:\n%.300s\n%.500s", name, f.Feature, body, a)
		}
	}
	if e.without == nil || len(e.canaries) > 0 {
		return
	}
	a, errA := in.encode(out, e.with)
	b, errB := in.encode(out, e.without)
	if errA == nil && errB == nil && a != b {
		t.Errorf("%s: %s is dropped, yet it shows:\n%.400s\n%.400s", name, f.Feature, a, b)
	}
}

// there holds that a field which is had shows in what is sent. What is emulated
// need not: it is reported in any case. It is false where nothing shows with an
// excuse.
func (in *inbound) there(t *testing.T, name string, f *wire.Field, class infer.Class, out *outbound, e *example) bool {
	t.Helper()
	a, err := in.encode(out, e.with)
	if err != nil {
		if class != infer.Emulated {
			t.Errorf("%s: %s is %s, yet refused: %v", name, f.Feature, class, err)
		}
		return true
	}
	b, err := in.encode(out, e.without)
	if err != nil || class == infer.Emulated || a != b {
		return true
	}
	if excused[name] == "" {
		t.Errorf("%s: %s is %s, yet nothing of it is sent: %.300s", name, f.Feature, class, a)
	}
	return false
}
