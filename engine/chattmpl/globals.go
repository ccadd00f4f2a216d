package chattmpl

import (
	"fmt"
	"strings"
	"time"
)

// globals are the functions a template may call by name.
var globals map[string]*function

func init() {
	globals = map[string]*function{
		"range":           {"range", globalRange},
		"namespace":       {"namespace", globalNamespace},
		"dict":            {"dict", globalDict},
		"raise_exception": {"raise_exception", globalRaise},
		"strftime_now":    {"strftime_now", globalStrftime},
		"joiner":          {"joiner", globalJoiner},
	}
}

func globalRange(ev *eval, a args) value {
	p := ev.bind("range", a, "start", "stop", "step")
	from, to := int64(0), ev.intArg("range", p[0], 0)
	if p[1] != nil {
		from, to = to, ev.intArg("range", p[1], 0)
	}
	step := ev.intArg("range", p[2], 1)
	if p[0] == nil || step == 0 {
		ev.fail("range wants bounds and a step that is not zero")
	}
	var items []value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if len(items) >= maxRange {
			ev.fail("range is longer than %d", maxRange)
		}
		ev.charge(16)
		items = append(items, i)
		if step > 0 && i > to-step || step < 0 && i < to-step {
			break // the next would be past the end, or past 64 bits
		}
	}
	return &list{items: items}
}

func (ev *eval) dictFrom(a args) *dict {
	d := newDict(len(a.kw))
	ev.charge(64 * len(a.kw))
	if len(a.pos) > 1 {
		ev.fail("dict wants at most one mapping")
	}
	if len(a.pos) == 1 {
		switch from := a.pos[0].(type) {
		case *dict:
			ev.charge(64 * len(from.keys))
			for i, k := range from.keys {
				d.set(k, from.vals[i])
			}
			d.user = from.user
		default:
			for _, e := range ev.iterate(from) {
				pair := ev.iterate(e)
				ev.charge(64)
				if len(pair) != 2 || !d.set(pair[0], pair[1]) {
					ev.fail("dict wants pairs")
				}
			}
		}
	}
	for _, k := range a.kw {
		d.set(own(k.name), k.v)
	}
	return d
}

func globalNamespace(ev *eval, a args) value { return &namespace{vars: ev.dictFrom(a)} }
func globalDict(ev *eval, a args) value      { return ev.dictFrom(a) }

// globalRaise refuses the conversation in the template's words. What those
// words quote of the request is left out: errors carry no content.
func globalRaise(ev *eval, a args) value {
	p := ev.bind("raise_exception", a, "message")
	var b strings.Builder
	if p[0] != nil {
		ev.str(p[0]).runs(func(s string, user bool) {
			if user {
				s = "…"
			}
			b.WriteString(s)
		})
	}
	msg := b.String()
	if len(msg) > maxRaiseBytes {
		msg = strings.ToValidUTF8(msg[:maxRaiseBytes], "") + "…"
	}
	panic(&fault{msg: msg, raised: true})
}

// globalJoiner gives a function that returns nothing the first time and its
// separator afterwards.
func globalJoiner(ev *eval, a args) value {
	p := ev.bind("joiner", a, "sep")
	sep := value(own(", "))
	if p[0] != nil {
		sep = p[0]
	}
	used := false
	return &function{"joiner", func(ev *eval, a args) value {
		if !used {
			used = true
			return text{}
		}
		return sep
	}}
}

func globalStrftime(ev *eval, a args) value {
	p := ev.bind("strftime_now", a, "format")
	f := ev.textArg("strftime_now", p[0])
	ev.charge(16 * len(f.s))
	return mapRuns(ev, f, func(s string) string { return strftime(s, ev.now) })
}

// strftime formats t by the C directives, in the C locale.
func strftime(f string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(f); i++ {
		if f[i] != '%' || i+1 == len(f) {
			b.WriteByte(f[i])
			continue
		}
		i++
		plain := f[i] == '-' && i+1 < len(f)
		if plain {
			i++
		}
		s, ok := directive(f[i], t)
		switch {
		case !ok && plain:
			s = "%-" + string(f[i])
		case !ok:
			s = "%" + string(f[i])
		case plain:
			if s = strings.TrimLeft(s, "0 "); s == "" {
				s = "0"
			}
		}
		b.WriteString(s)
	}
	return b.String()
}

var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06", 'e': "_2",
	'F': "2006-01-02", 'h': "Jan", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'R': "15:04", 'S': "05",
	'T': "15:04:05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006",
}

func directive(c byte, t time.Time) (string, bool) {
	if l, ok := layouts[c]; ok {
		return t.Format(l), true
	}
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 'w':
		return fmt.Sprint(int(t.Weekday())), true
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1), true
	case 's':
		return fmt.Sprint(t.Unix()), true
	case 'z', 'Z':
		return "", true // datetime.now() has no zone
	}
	return "", false
}
