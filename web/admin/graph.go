package admin

import (
	"fmt"
	"html/template"
	"math"
	"path"
	"strings"
	"time"
)

// graphPoints is how many points a line of a chart has at most: there are more
// samples than a screen has room for.
const graphPoints = 180

// graph draws lines of an answer of telemetry/series, {"step_ms", "end",
// "series": [{"name", "label", "unit", "points"}]}: those whose names match one
// of the patterns (as path.Match has them), in that order.
func graph(title string, data any, patterns ...string) template.HTML {
	m, _ := data.(map[string]any)
	lines, unit := linesOf(m, title, patterns)
	step, _ := number(m["step_ms"])
	end, _ := moment(m["end"])
	n, each := 0, 1
	for _, l := range lines {
		n, each = max(n, len(l.values)), max(each, l.each)
	}
	step *= float64(each)
	var times []time.Time
	for i := range n {
		times = append(times, end.Add(-time.Duration(float64(n-1-i)*step)*time.Millisecond))
	}
	if n > 0 && !anySample(lines) {
		times = nil
	}
	return drawChart(title, unit, times, lines)
}

// points are the values of one line of the same answer, for a spark.
func points(data any, name string) any {
	m, _ := data.(map[string]any)
	lines, _ := linesOf(m, "", []string{name})
	if len(lines) == 0 {
		return nil
	}
	out := make([]any, len(lines[0].values))
	for i, v := range lines[0].values {
		if !math.IsNaN(v) {
			out[i] = v
		}
	}
	return out
}

func anySample(lines []line) bool {
	for _, l := range lines {
		if !math.IsNaN(latest(l)) {
			return true
		}
	}
	return false
}

func linesOf(m map[string]any, title string, patterns []string) (lines []line, unit string) {
	raw, _ := m["series"].([]any)
	for _, p := range patterns {
		for _, r := range raw {
			s, _ := r.(map[string]any)
			name, _ := s["name"].(string)
			if ok, err := path.Match(p, name); err != nil || !ok {
				continue
			}
			label := strings.TrimPrefix(fmt.Sprint(s["label"]), title+", ")
			label = strings.TrimSuffix(label, ": "+strings.ToLower(title))
			unit, _ = s["unit"].(string)
			values, each := thinned(s["points"])
			lines = append(lines, line{label, values, each})
		}
	}
	return lines, unit
}

// thinned is a list of samples as the means of so many neighbours each.
func thinned(v any) (out []float64, each int) {
	raw, _ := v.([]any)
	each = max(1, (len(raw)+graphPoints-1)/graphPoints)
	for at := len(raw) % each; at+each <= len(raw); at += each {
		sum, n := 0.0, 0
		for _, r := range raw[at : at+each] {
			if f, ok := number(r); ok {
				sum, n = sum+f, n+1
			}
		}
		if n == 0 {
			out = append(out, math.NaN())
		} else {
			out = append(out, sum/float64(n))
		}
	}
	return out, each
}

// areaOf is what lies below a line.
func areaOf(values []float64, n int, top float64) string {
	b := make([]byte, 0, 12*len(values))
	begun, last := false, 0.0
	x := func(i int) float64 { return padL + (chartW-padL-padR)*float64(i)/float64(n-1) }
	stop := func() {
		if begun {
			b = append(appendPoint(b, 'L', last, chartH-padB), 'Z')
		}
		begun = false
	}
	for i, v := range values {
		if math.IsNaN(v) {
			stop()
			continue
		}
		if last = x(i); !begun {
			b = appendPoint(b, 'M', last, chartH-padB)
		}
		begun = true
		b = appendPoint(b, 'L', last, padT+(chartH-padT-padB)*(1-min(1, max(0, v/top))))
	}
	stop()
	return string(b)
}
