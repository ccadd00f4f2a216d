package chattmpl

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"hearth/engine/infer"
)

// hostile are templates that want more than they get.
var hostile = map[string]string{
	"loops":          `{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor %}{% endfor %}`,
	"output":         `{% for a in range(100000) %}{{ 'x' * 100000 }}{% endfor %}`,
	"doubling":       `{% set ns = namespace(s='x') %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
	"list doubling":  `{% set ns = namespace(s=[1]) %}{% for a in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
	"repeat":         `{{ 'x' * 9223372036854775807 }}`,
	"repeat list":    `{{ ([1] * 9223372036854775807)|length }}`,
	"replace":        `{% set s = 'a' * 100000 %}{% for i in range(100000) %}{% set t = s|replace('a', 'bb') %}{% endfor %}`,
	"join":           `{% set s = 'a' * 100000 %}{% for i in range(100000) %}{% set t = s|join(s) %}{% endfor %}`,
	"slices":         `{% set s = ('a' ~ messages[0].content) * 100000 %}{% for i in range(100000) %}{% set t = s[1:] %}{% endfor %}`,
	"reversed":       `{% set s = 'é' * 100000 %}{% for i in range(100000) %}{% set t = s[::-1] %}{% endfor %}`,
	"find":           `{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set t = s.find('b') %}{% endfor %}`,
	"compare":        `{% set s = 'a' * 1000000 %}{% set r = s ~ 'b' %}{% for i in range(100000) %}{% set t = s < r or s == r %}{% endfor %}`,
	"macros":         `{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}`,
	"two macros":     `{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}`,
	"recursive loop": `{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}`,
	"nested lists":   `{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}`,
	"nested json":    `{% set ns = namespace(l=[]) %}{% for i in range(100000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l|tojson }}`,
	"wide json":      `{% set ns = namespace(l=['xxxxxxxx']) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}`,
	"wide equal":     `{% set ns = namespace(l=['x'], m=['x']) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}`,
	"indent":         `{{ ([[[[[[[[1]]]]]]]])|tojson(indent=100000000) }}`,
	"format width":   `{{ '%99999999999d' % 1 }}`,
	"center":         `{{ 'x'.center(99999999999) }}`,
	"zfill":          `{{ 'x'.zfill(99999999999) }}`,
	"batch":          `{{ [1]|batch(99999999999, 0)|list|length }}`,
	"slice filter":   `{{ [1]|slice(99999999999)|list|length }}`,
	"round":          `{{ 1.5|round(999999999) }}`,
	"sort":           `{% set l = range(100000)|list %}{% for i in range(100000) %}{% set t = l|sort(reverse=true) %}{% endfor %}`,
	"unique":         `{% set l = range(100000)|list %}{% for i in range(100000) %}{% set t = l|unique|list %}{% endfor %}`,
	"dict key":       `{% set ns = namespace(t=(1,)) %}{% for i in range(64) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}{{ {ns.t: 1}|length }}`,
	"vars":           `{% for i in range(100000) %}{% for j in range(100) %}{% set a = 1 %}{% set b = 2 %}{{ nosuchvariable }}{% endfor %}{% endfor %}`,
	"power":          `{{ 10 ** 999999999 }}`,
	"strip":          `{% set s = ' ' * 1000000 %}{% for i in range(100000) %}{% set t = s.strip() %}{% endfor %}`,
	"split":          `{% set s = 'a ' * 100000 %}{% for i in range(100000) %}{% set t = s.split() %}{% endfor %}`,
	"upper":          `{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set t = s|upper %}{% endfor %}`,
	"strftime":       `{% for i in range(100000) %}{{ strftime_now('%A' * 10000) }}{% endfor %}`,
	"attributes":     `{% set p = 'a.' * 100000 %}{% for i in range(100000) %}{{ {}|map(attribute=p)|list }}{{ [{}]|sum(attribute=p) }}{% endfor %}`,
	"format":         `{% set s = '{}' * 100000 %}{% for i in range(100000) %}{{ s.format(1) }}{% endfor %}`,
	"percent":        `{% set s = '%%' * 1000000 %}{% for i in range(100000) %}{% set t = s % () %}{% endfor %}`,
	"captures":       `{% for i in range(100000) %}{% set x %}{{ 'x' * 100000 }}{% endset %}{% endfor %}`,
	"splitlines":     `{% set s = '\n' * 1000000 %}{% for i in range(100000) %}{% set t = s|indent(1000, blank=true) %}{% endfor %}`,
	"kwargs":         `{% macro f() %}{{ kwargs }}{% endmacro %}{% set d = dict(range(10000)|map('string')|batch(2)) %}{% for i in range(100000) %}{% set t = f(**d) %}{% endfor %}`,
}

func TestHostileTemplates(t *testing.T) {
	in := Input{Messages: []infer.Message{say(infer.RoleUser, "ж")}}
	for name, src := range hostile {
		tm, err := Compile(src)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lim := limitsFor(&in)
		if !testing.Verbose() {
			lim.steps, lim.alloc, lim.output = lim.steps/40, lim.alloc/40, lim.output/40 // the accounting is the same
		}
		tm.lim = &lim
		start := cpuTime()
		_, err = tm.Render(in)
		took := cpuTime() - start
		if err == nil || infer.AsError(err).Code != infer.CodeInvalid {
			t.Errorf("%s: got error %v", name, err)
		}
		if testing.Verbose() {
			t.Logf("%-14s %6.0f ms  %.90v", name, took.Seconds()*1000, err)
		}
	}
}

// A bound is met exactly: what needs n passes at n and fails one below.
func TestRenderLimits(t *testing.T) {
	src := `{% macro f(n) %}{% if n %}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(5) }}{% for m in messages %}{{ m.content + '!' }}{% endfor %}`
	in := Input{Messages: []infer.Message{say(infer.RoleUser, "hello")}}
	tm, err := Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string]func(*limits) *int{
		"steps": func(l *limits) *int { return &l.steps }, "output": func(l *limits) *int { return &l.output },
		"alloc": func(l *limits) *int { return &l.alloc }, "calls": func(l *limits) *int { return &l.calls },
	} {
		need := 0
		for ; need < 10000; need++ {
			lim := limitsFor(&in)
			*field(&lim) = need
			tm.lim = &lim
			if _, err := tm.Render(in); err == nil {
				break
			}
		}
		if need == 0 || need == 10000 {
			t.Errorf("%s: needs %d", name, need)
		}
		if want := map[string]int{"output": 6, "calls": 6}[name]; want != 0 && need != want {
			t.Errorf("%s: needs %d, want %d", name, need, want)
		}
	}
}

func TestCompileLimits(t *testing.T) {
	nested := func(open, shut string) func(n int) string {
		return func(n int) string { return "{{ " + strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) + " }}" }
	}
	for _, c := range []struct {
		name string
		src  func(n int) string
		most int // about; the exact border is searched near it
	}{
		{"source", func(n int) string { return strings.Repeat("x", n) }, maxSource},
		{"parentheses", nested("(", ")"), maxParseDepth / 2},
		{"lists", nested("[", "]"), maxParseDepth / 2},
		{"minus", nested("-", ""), maxParseDepth},
		{"not", nested("not ", ""), maxParseDepth},
		{"blocks", func(n int) string { return strings.Repeat("{% if 1 %}", n) + strings.Repeat("{% endif %}", n) }, maxParseDepth},
		{"nodes", func(n int) string { return "{{ 1" + strings.Repeat("+1", n) + " }}" }, maxNodes / 2},
	} {
		low, high := c.most-25, c.most+2
		for low+1 < high {
			if mid := (low + high) / 2; compiles(c.src(mid)) {
				low = mid
			} else {
				high = mid
			}
		}
		if !compiles(c.src(low)) || compiles(c.src(low+1)) || low < c.most-20 {
			t.Errorf("%s: the border is at %d, want about %d", c.name, low, c.most)
		}
	}
	// A long chain is no deep one, but evaluating it is.
	tm, err := Compile("{{ 1" + strings.Repeat("+1", maxEvalDepth+1) + " }}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tm.Render(Input{}); err == nil {
		t.Error("an expression of more than maxEvalDepth levels was evaluated")
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func compiles(src string) bool {
	_, err := parse(src)
	return err == nil
}

func TestJSONLimits(t *testing.T) {
	for _, n := range []int{maxJSONDepth, maxJSONDepth + 1} {
		_, err := decodeJSON([]byte(strings.Repeat("[", n) + strings.Repeat("]", n)))
		if (err == nil) != (n == maxJSONDepth) {
			t.Errorf("depth %d: %v", n, err)
		}
		_, err = decodeJSON([]byte(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)))
		if (err == nil) != (n == maxJSONDepth) {
			t.Errorf("depth %d: %v", n, err)
		}
	}
	for _, n := range []int{maxIntegerDigits, maxIntegerDigits + 1} {
		if _, err := decodeJSON([]byte(strings.Repeat("9", n))); (err == nil) != (n == maxIntegerDigits) {
			t.Errorf("%d digits: %v", n, err)
		}
	}
	for _, s := range []string{"", "{", "[1", "1 2", "{1:2}", "nul", `{"a"}`, "[1,]", "\"", "{}}"} {
		if _, err := decodeJSON([]byte(s)); err == nil {
			t.Errorf("%q was decoded", s)
		}
	}
	for _, n := range []int{maxRange, maxRange + 1} {
		tm, _ := parse(fmt.Sprintf("{{ range(%d)|length }}", n))
		if _, err := tm.Render(Input{}); (err == nil) != (n == maxRange) {
			t.Errorf("range of %d: %v", n, err)
		}
	}
}
