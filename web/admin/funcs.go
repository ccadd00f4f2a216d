package admin

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// funcs are what templates format with. Numbers come as json.Number, times as
// RFC 3339; what is absent is shown as a dash.
func (p *pages) funcs() template.FuncMap {
	return template.FuncMap{
		"asset": func(name string) (string, error) {
			if p.files[name] == nil {
				return "", fmt.Errorf("no asset is named %s", name)
			}
			return p.folder + name, nil
		},
		"usd": usd, "num": num, "bytes": sizeText, "ns": nsText, "ms": msText, "secs": secsText,
		"when": when, "date": dateText, "until": untilText, "pct": pct, "share": share, "short": short,
		"join": join, "list": list, "dict": dict, "json": jsonText, "default": orDefault, "add": add,
		"has": has, "chart": chartOf, "spark": spark, "bar": bar, "lines": lines, "difflines": diffLines, "firstline": firstLine, "furtherlines": furtherLines, "dollars": dollars, "host": hostOf, "time": timeAttr,
		"age": ageText, "clock": clockText, "backwards": backwards, "rate": rate, "cut": clipText, "span": goSpan, "graph": graph, "points": points,
		"fullest": fullest, "quantity": quantityName, "upper": strings.ToUpper, "hertz": hertz, "count": countText, "recent": recent, "most": most, "negative": negative,
	}
}

const dash = "–"

// number reads what templates are given; false for nothing.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case nil:
		return 0, false
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, true
	case string:
		f, err := strconv.ParseFloat(n, 64)
		return f, err == nil
	}
	return 0, false
}

// usd is nano-dollars as dollars: cents where there are whole ones, else as many
// digits as it takes to tell it from nothing.
func usd(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	d := n / 1e9
	switch a := math.Abs(d); {
	case a == 0 || a >= 0.995:
		return sign(d) + "$" + group(strconv.FormatFloat(a, 'f', 2, 64))
	case a >= 0.01:
		return sign(d) + "$" + strconv.FormatFloat(a, 'f', 4, 64)
	default:
		return sign(d) + "$" + strings.TrimRight(strconv.FormatFloat(a, 'f', 9, 64), "0")
	}
}

// dollars is nano-dollars as a form takes them.
func dollars(v any) string {
	n, ok := number(v)
	if !ok {
		return ""
	}
	s := strconv.FormatFloat(n/1e9, 'f', 9, 64)
	whole, rest, _ := strings.Cut(s, ".")
	rest = strings.TrimRight(rest, "0")
	for len(rest) < 2 {
		rest += "0"
	}
	return whole + "." + rest
}

// hostOf is the HOST:PORT of an address.
func hostOf(v any) string {
	u, err := url.Parse(fmt.Sprint(v))
	if err != nil || u.Host == "" {
		return "localhost:8443"
	}
	return u.Host
}

func sign(f float64) string {
	if f < 0 {
		return "−"
	}
	return ""
}

// num is a count with thin groups of three, or a figure with few decimals.
func num(v any) string {
	n, ok := number(v)
	switch {
	case !ok:
		return dash
	case n == math.Trunc(n) && math.Abs(n) < 1e15:
		return sign(n) + group(strconv.FormatFloat(math.Abs(n), 'f', 0, 64))
	case math.Abs(n) >= 100:
		return sign(n) + group(strconv.FormatFloat(math.Abs(n), 'f', 0, 64))
	case math.Abs(n) >= 10:
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

// group sets thousands apart.
func group(s string) string {
	whole, rest, dot := strings.Cut(s, ".")
	var b strings.Builder
	for i, c := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(c)
	}
	if dot {
		b.WriteString("." + rest)
	}
	return b.String()
}

func sizeText(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if math.Abs(n) < 1024 {
			if u == "B" || n >= 100 {
				return strconv.FormatFloat(n, 'f', 0, 64) + " " + u
			}
			return strconv.FormatFloat(n, 'f', 1, 64) + " " + u
		}
		n /= 1024
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " TiB"
}

func nsText(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	return spanText(time.Duration(n))
}

func msText(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	return spanText(time.Duration(n * 1e6))
}

func secsText(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	return spanText(time.Duration(n * 1e9))
}

// spanText is a time span as people say it, with two units at most.
func spanText(d time.Duration) string {
	switch a := d.Abs(); {
	case a == 0:
		return "0"
	case a < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case a < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	case a < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case a < time.Minute:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
	case a < time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60), " 0 s")
	case a < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60), " 0 min")
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// moment reads a time; false for none.
func moment(v any) (time.Time, bool) {
	switch t := v.(type) {
	case time.Time:
		return t, !t.IsZero()
	case string:
		at, err := time.Parse(time.RFC3339Nano, t)
		return at, err == nil && !at.IsZero()
	}
	return time.Time{}, false
}

// when is a <time> element in UTC.
func when(v any) template.HTML {
	at, ok := moment(v)
	if !ok {
		return dash
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339) + `">` + at.Format("2006-01-02 15:04:05") + `</time>`)
}

func dateText(v any) template.HTML {
	at, ok := moment(v)
	if !ok {
		return dash
	}
	return template.HTML(`<time datetime="` + at.UTC().Format(time.RFC3339) + `">` + at.UTC().Format("2006-01-02") + `</time>`)
}

// timeAttr is a time as date fields of browsers want it.
func timeAttr(v any) string {
	at, ok := moment(v)
	if !ok {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04")
}

// untilText is how far a time is from now, in words.
func untilText(now, v any) string {
	at, ok := moment(v)
	from, _ := moment(now)
	if !ok {
		return dash
	}
	if d := at.Sub(from); d < 0 {
		return spanText(-d) + " ago"
	} else {
		return "in " + spanText(d)
	}
}

// ageText is how long ago a time was, in words of one unit.
func ageText(now, v any) string {
	at, ok := moment(v)
	from, _ := moment(now)
	if !ok {
		return dash
	}
	d := from.Sub(at)
	switch {
	case d < -time.Minute:
		return untilText(now, v)
	case d < 2*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return fmt.Sprintf("%d days ago", int(d.Hours()/24))
}

// goSpan is a span as Go writes it ("24h0m0s"), in words.
func goSpan(v any) string {
	s, _ := v.(string)
	d, err := time.ParseDuration(s)
	if err != nil {
		return s
	}
	if d >= time.Hour && d%time.Hour == 0 {
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	if d >= time.Minute && d < time.Hour && d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return spanText(d)
}

// fullest is the model whose cache is used the most, an empty one where there is
// none.
func fullest(models any) map[string]any {
	l, _ := models.([]any)
	most, at := -1.0, map[string]any{}
	for _, e := range l {
		m, _ := e.(map[string]any)
		if use, ok := number(m["kv_use"]); ok && use > most {
			most, at = use, m
		}
	}
	return at
}

func quantityName(name string) string {
	switch name {
	case "ttft":
		return "Time to the first token"
	case "tpot":
		return "Time per output token after the first"
	case "e2e":
		return "Time from end to end"
	}
	return name
}

// countText is a large number in few digits: 1.5 billion is "1.5 B".
func countText(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	for _, u := range []struct {
		from float64
		name string
	}{{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}} {
		if n >= u.from {
			return strconv.FormatFloat(n/u.from, 'g', 3, 64) + u.name
		}
	}
	return num(v)
}

// recent says that a time was within the last two minutes.
func recent(now, v any) bool {
	at, ok := moment(v)
	from, _ := moment(now)
	return ok && from.Sub(at) < 2*time.Minute
}

func most(a, b any) float64 {
	x, _ := number(a)
	y, _ := number(b)
	return max(x, y)
}

func negative(v any) bool {
	n, ok := number(v)
	return ok && n < 0
}

func hertz(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	if n >= 1e9 {
		return strconv.FormatFloat(n/1e9, 'f', 2, 64) + " GHz"
	}
	return strconv.FormatFloat(n/1e6, 'f', 0, 64) + " MHz"
}

// clockText is the time of day to the millisecond, with the date for machines.
func clockText(v any) template.HTML {
	at, ok := moment(v)
	if !ok {
		return dash
	}
	at = at.UTC()
	return template.HTML(`<time datetime="` + at.Format(time.RFC3339Nano) + `">` + at.Format("01-02 15:04:05.000") + `</time>`)
}

// backwards is a list from its end.
func backwards(v any) []any {
	l, _ := v.([]any)
	l = slices.Clone(l)
	slices.Reverse(l)
	return l
}

// rate is a part of a whole in percent, a dash where there is no whole.
func rate(part, whole any) string {
	p, _ := number(part)
	w, _ := number(whole)
	if w <= 0 {
		return dash
	}
	return share(p / w)
}

// clipText is a text of at most n bytes.
func clipText(n int, v any) string {
	s := fmt.Sprint(v)
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// pct is a share of a whole in percent, 0 to 100, for widths.
func pct(part, whole any) string {
	p, _ := number(part)
	w, _ := number(whole)
	if w <= 0 || p <= 0 {
		return "0"
	}
	return strconv.FormatFloat(min(100, p/w*100), 'f', 1, 64)
}

// share is a fraction of one in percent, as text.
func share(v any) string {
	n, ok := number(v)
	if !ok {
		return dash
	}
	return strconv.FormatFloat(n*100, 'f', 1, 64) + " %"
}

// short is the beginning of a digest.
func short(v any) string {
	s, _ := v.(string)
	s = strings.TrimPrefix(s, "sha256:")
	return clip(s, 12)
}

func join(v any, sep string) string {
	var parts []string
	switch l := v.(type) {
	case []any:
		for _, e := range l {
			parts = append(parts, fmt.Sprint(e))
		}
	case []string:
		parts = l
	}
	if len(parts) == 0 {
		return dash
	}
	return strings.Join(parts, sep)
}

// lines is a list as the text of a field with an element a line.
func lines(v any) string {
	if s := join(v, "\n"); s != dash {
		return s
	}
	return ""
}

func list(v ...any) []any { return v }

// dict makes a map from names and values, for templates with several inputs.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict takes pairs")
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m, nil
}

func jsonText(v any) (string, error) {
	b, err := json.MarshalIndent(v, "", "  ")
	return string(b), err
}

// orDefault is v, or d where v is nothing.
func orDefault(d, v any) any {
	if v == nil || v == "" {
		return d
	}
	return v
}

func add(a, b any) float64 {
	x, _ := number(a)
	y, _ := number(b)
	return x + y
}

// has says whether a list holds v.
func has(l any, v any) bool {
	switch l := l.(type) {
	case []any:
		for _, e := range l {
			if fmt.Sprint(e) == fmt.Sprint(v) {
				return true
			}
		}
	case []string:
		for _, e := range l {
			if e == fmt.Sprint(v) {
				return true
			}
		}
	}
	return false
}

// squeezed is b by gzip, nil where that saves nothing.
func squeezed(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = w.Write(b)
	_ = w.Close()
	if out.Len() >= len(b) {
		return nil
	}
	return out.Bytes()
}
