package admin

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Charts are made here, as SVG without script or inline style, so that they
// stand on a page that runs no script and swap with the rest of it.

// Size of a chart in user units; CSS decides how large that is.
const (
	chartW, chartH         = 460.0, 170.0
	padL, padR, padT, padB = 58.0, 6.0, 8.0, 22.0
)

// line is one series of a chart.
type line struct {
	name   string
	values []float64 // NaN: no sample
	each   int       // samples that a value stands for, where there were more
}

// chartOf draws series over time. data is {"times": [RFC 3339], "series":
// [{"name", "values"}]}, values with nulls for gaps; unit is "", "ms", "usd",
// "bytes" or "pct" (values are fractions); "usd" is nano-dollars. A table for those who cannot look
// follows it.
func chartOf(title, unit string, data any) template.HTML {
	times, series := seriesOf(data)
	return drawChart(title, unit, times, series)
}

// drawChart draws lines that have a value for each time.
func drawChart(title, unit string, times []time.Time, series []line) template.HTML {
	esc := template.HTMLEscapeString
	if len(times) < 2 || len(series) == 0 {
		return template.HTML(`<figure class="chart"><figcaption>` + esc(title) + `</figcaption><p class="quiet hollow">No samples yet.</p></figure>`)
	}
	top := 0.0
	for _, s := range series {
		for _, v := range s.values {
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
	}
	top = niceTop(top)
	if unit == "ratio" || unit == "pct" {
		top = min(1, top)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<figure class="chart"><figcaption>%s%s</figcaption><svg viewBox="0 0 %g %g" role="img" aria-label="%s">`,
		esc(title), legend(series), chartW, chartH, esc(summary(title, unit, series)))
	for i := range 5 {
		v := top * float64(i) / 4
		y := padT + (chartH-padT-padB)*(1-float64(i)/4)
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/><text class="tick" x="%g" y="%.1f" text-anchor="end">%s</text>`,
			padL, chartW-padR, y, y, padL-6, y+4, esc(unitText(unit, v)))
	}
	for i := range 4 {
		at := times[(len(times)-1)*i/3]
		x := padL + (chartW-padL-padR)*float64(i)/3
		anchor := []string{"start", "middle", "middle", "end"}[i]
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="%g" text-anchor="%s">%s</text>`, x, chartH-6, anchor, at.UTC().Format("15:04"))
	}
	if len(series) == 1 {
		fmt.Fprintf(&b, `<path class="area" d="%s"/>`, areaOf(series[0].values, len(times), top))
	}
	for i, s := range series {
		fmt.Fprintf(&b, `<path class="series s%d" d="%s"/>`, i%8, pathOf(s.values, len(times), top))
	}
	b.WriteString(`</svg>` + tableTwin(title, unit, times, series) + `</figure>`)
	return template.HTML(b.String())
}

// seriesOf reads what a template passes on.
func seriesOf(data any) ([]time.Time, []line) {
	m, _ := data.(map[string]any)
	rawTimes, _ := m["times"].([]any)
	var times []time.Time
	for _, t := range rawTimes {
		at, ok := moment(t)
		if !ok {
			return nil, nil
		}
		times = append(times, at)
	}
	rawSeries, _ := m["series"].([]any)
	var out []line
	for _, r := range rawSeries {
		s, _ := r.(map[string]any)
		values, _ := s["values"].([]any)
		l := line{name: fmt.Sprint(s["name"])}
		for i := range times {
			v := math.NaN()
			if i < len(values) {
				if n, ok := number(values[i]); ok {
					v = n
				}
			}
			l.values = append(l.values, v)
		}
		out = append(out, l)
	}
	return times, out
}

// pathOf draws a line with gaps where there are no samples.
func pathOf(values []float64, n int, top float64) string {
	b := make([]byte, 0, 12*len(values))
	pen := byte('M')
	for i, v := range values {
		if math.IsNaN(v) {
			pen = 'M'
			continue
		}
		b = appendPoint(b, pen, padL+(chartW-padL-padR)*float64(i)/float64(n-1), padT+(chartH-padT-padB)*(1-min(1, max(0, v/top))))
		pen = 'L'
	}
	return string(b)
}

// appendPoint writes a step of a path with one decimal: there are thousands on a
// page, and strconv takes many times as long.
func appendPoint(b []byte, pen byte, x, y float64) []byte {
	b = append(b, pen)
	for i, v := range [...]float64{x, y} {
		if i > 0 {
			b = append(b, ' ')
		}
		tenths := int64(math.Round(v * 10))
		if tenths < 0 {
			b, tenths = append(b, '-'), -tenths
		}
		b = strconv.AppendInt(b, tenths/10, 10)
		if tenths%10 != 0 {
			b = append(b, '.', byte('0'+tenths%10))
		}
	}
	return b
}

// niceTop is the next of 1, 2, 5 times a power of ten.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5, 10} {
		if v <= f*p {
			return f * p
		}
	}
	return 10 * p
}

func unitText(unit string, v float64) string {
	switch unit {
	case "ms":
		return msText(v)
	case "usd":
		return usd(v)
	case "bytes":
		return sizeText(v)
	case "1/s":
		return num(v) + "/s"
	case "tokens/s":
		return num(v)
	case "usd/h":
		if v == 0 || v >= 0.01 {
			return fmt.Sprintf("$%.2f/h", v)
		}
		return usd(v*1e9) + "/h"
	case "celsius":
		return fmt.Sprintf("%.0f °C", v)
	case "watts":
		return fmt.Sprintf("%.0f W", v)
	case "pct", "ratio":
		return fmt.Sprintf("%.0f %%", v*100)
	}
	return num(v)
}

func legend(series []line) string {
	if len(series) < 2 {
		return ""
	}
	var b strings.Builder
	b.WriteString(` <span class="legend">`)
	for i, s := range series {
		fmt.Fprintf(&b, `<span class="key k%d">%s</span>`, i%8, template.HTMLEscapeString(s.name))
	}
	b.WriteString(`</span>`)
	return b.String()
}

// latest is the last sample of a line.
func latest(l line) float64 {
	for i := len(l.values) - 1; i >= 0; i-- {
		if !math.IsNaN(l.values[i]) {
			return l.values[i]
		}
	}
	return math.NaN()
}

func summary(title, unit string, series []line) string {
	parts := []string{}
	for _, s := range series {
		if v := latest(s); !math.IsNaN(v) {
			parts = append(parts, s.name+" now "+unitText(unit, v))
		}
	}
	return title + ": " + strings.Join(parts, ", ")
}

// tableTwin is a chart as a table, with at most twelve rows.
func tableTwin(title, unit string, times []time.Time, series []line) string {
	esc := template.HTMLEscapeString
	var b strings.Builder
	fmt.Fprintf(&b, `<details><summary>As a table<span class="unseen">: %s</span></summary><div class="wide" tabindex="0" role="region" aria-label="%s, as a table"><table><thead><tr><th scope="col">Time (UTC)</th>`, esc(title), esc(title))
	for _, s := range series {
		fmt.Fprintf(&b, `<th scope="col">%s</th>`, esc(s.name))
	}
	b.WriteString(`</tr></thead><tbody>`)
	step := max(1, (len(times)+11)/12)
	for i := len(times) - 1; i >= 0; i -= step {
		fmt.Fprintf(&b, `<tr><th scope="row">%s</th>`, times[i].UTC().Format("15:04:05"))
		for _, s := range series {
			text := dash
			if !math.IsNaN(s.values[i]) {
				text = unitText(unit, s.values[i])
			}
			fmt.Fprintf(&b, `<td>%s</td>`, esc(text))
		}
		b.WriteString(`</tr>`)
	}
	b.WriteString(`</tbody></table></div></details>`)
	return b.String()
}

// spark is a small line without axes, for beside a figure that says the same.
func spark(values any) template.HTML {
	raw, _ := values.([]any)
	var vs []float64
	top := 0.0
	for _, r := range raw {
		v := math.NaN()
		if n, ok := number(r); ok {
			v = n
			top = max(top, n)
		}
		vs = append(vs, v)
	}
	if len(vs) < 2 {
		return ""
	}
	if top == 0 {
		top = 1
	}
	var b []byte
	pen := byte('M')
	for i, v := range vs {
		if math.IsNaN(v) {
			pen = 'M'
			continue
		}
		b = appendPoint(b, pen, 100*float64(i)/float64(len(vs)-1), 1+22*(1-min(1, max(0, v/top))))
		pen = 'L'
	}
	return template.HTML(`<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true"><path class="series s0" d="` + string(b) + `"/></svg>`)
}

// bar is a share as a bar, of one or two parts of a whole.
func bar(whole any, parts ...any) template.HTML {
	w, _ := number(whole)
	var b strings.Builder
	b.WriteString(`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">`)
	x := 0.0
	for i, p := range parts {
		n, _ := number(p)
		if w <= 0 || n <= 0 {
			continue
		}
		width := min(100-x, n/w*100)
		fmt.Fprintf(&b, `<rect class="part p%d" x="%.1f" width="%.1f" height="8"/>`, i, x, width)
		x += width
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}
