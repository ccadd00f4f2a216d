package invoice

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Export is an export that is being read.
type Export struct {
	Mapping *Mapping
	Lines   int // that were used
	Skipped int // of something else than models
	next    func() (map[string]string, error)
	first   map[string]string
}

var errEmpty = errors.New("the export has no lines")

// Open begins to read an export. format is "csv", "json" or empty to find out;
// a nil mapping is found by the columns.
func Open(r io.Reader, format string, m *Mapping) (*Export, error) {
	in := &bounded{r: r}
	b := bufio.NewReaderSize(in, 64<<10)
	if bom, _ := b.Peek(3); string(bom) == "\xef\xbb\xbf" {
		_, _ = b.Discard(3)
	}
	if format == "" {
		format = "csv"
		if c, err := firstByte(b); errors.Is(err, io.EOF) {
			return nil, errEmpty
		} else if err != nil {
			return nil, fmt.Errorf("cannot read the export: %w", err)
		} else if c == '{' || c == '[' {
			format = "json"
		}
	}
	x := &Export{}
	var rows func() (map[string]string, error)
	var err error
	switch format {
	case "csv":
		rows, err = csvRows(b)
	case "json":
		rows, err = jsonRows(b)
	default:
		return nil, fmt.Errorf("cannot read format %.20q: want csv or json", format)
	}
	x.next = func() (map[string]string, error) {
		in.n = 0
		return rows()
	}
	if err == nil {
		x.first, err = x.next()
	}
	if errors.Is(err, io.EOF) {
		return nil, errEmpty
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the export: %w", err)
	}
	columns := slices.Sorted(maps.Keys(x.first))
	if m == nil {
		if m, err = Detect(columns); err != nil {
			return nil, err
		}
	} else if format == "csv" {
		for _, c := range m.columns() {
			if !slices.Contains(columns, c) {
				return nil, fmt.Errorf("the export has no column %.60q, which the mapping names", c)
			}
		}
	}
	x.Mapping = m
	return x, nil
}

func firstByte(b *bufio.Reader) (byte, error) {
	for {
		c, err := b.ReadByte()
		if err != nil {
			return 0, err
		}
		if c > ' ' {
			return c, b.UnreadByte()
		}
	}
}

// Next gives the next line; io.EOF after the last.
func (x *Export) Next() (Line, error) {
	for {
		row := x.first
		if x.first = nil; row == nil {
			var err error
			if row, err = x.next(); errors.Is(err, io.EOF) {
				return Line{}, io.EOF
			} else if err != nil {
				return Line{}, fmt.Errorf("cannot read the export after line %d: %w", x.Lines+x.Skipped, err)
			}
		}
		l, use, err := x.Mapping.line(row)
		if err != nil {
			return Line{}, fmt.Errorf("line %d of the export: %w", x.Lines+x.Skipped+1, err)
		}
		if !use {
			x.Skipped++
			continue
		}
		x.Lines++
		return l, nil
	}
}

// line turns a row into a line; false: it is about something else.
func (m *Mapping) line(row map[string]string) (Line, bool, error) {
	if m.Only != "" && !strings.Contains(strings.ToLower(row[m.Only]), strings.ToLower(m.OnlyValue)) {
		return Line{}, false, nil
	}
	l := Line{Model: row[m.Model], RequestID: row[m.RequestID], Sums: Sums{}}
	var err error
	if l.At, err = instant(row[m.Time]); err != nil {
		return l, false, fmt.Errorf("column %s: %w", m.Time, err)
	}
	number := func(measure Measure, column string, scale int64) {
		if v := strings.TrimSpace(row[column]); v != "" && err == nil {
			var n int64
			if n, err = scaled(v, scale); err != nil {
				err = fmt.Errorf("column %s: %w", column, err)
			}
			l.Sums[measure] += n
		}
	}
	for measure, column := range m.direct() {
		number(measure, column, 1)
	}
	if m.Tokens != "" {
		if measure, ok := bucket(row[m.TokenType]); ok {
			number(measure, m.Tokens, tokensUnit(row[m.TokensUnit]))
		}
	}
	if m.Cost != "" {
		number(Cost, m.Cost, costUnits[m.CostUnit])
	}
	if c := row[m.Currency]; m.Currency != "" && c != "" && !strings.EqualFold(c, "usd") {
		return l, false, fmt.Errorf("cannot compare amounts in %.10q: want USD", c)
	}
	if m.tidy != nil {
		l.Model = m.tidy(l.Model)
	}
	return l, true, err
}

// tokensUnit is how many tokens one of the unit is.
func tokensUnit(s string) int64 {
	switch s = strings.ToLower(s); {
	case strings.HasPrefix(s, "1k") || strings.Contains(s, "thousand"):
		return 1000
	case strings.HasPrefix(s, "1m") || strings.Contains(s, "million"):
		return 1_000_000
	}
	return 1
}

// csvRows reads the header and gives the rows after it.
func csvRows(r io.Reader) (func() (map[string]string, error), error) {
	c := csv.NewReader(r)
	c.ReuseRecord, c.FieldsPerRecord = true, -1
	rec, err := c.Read()
	if err != nil {
		return nil, err
	}
	if len(rec) > maxColumns {
		return nil, fmt.Errorf("it has %d columns, want at most %d", len(rec), maxColumns)
	}
	header := make([]string, len(rec))
	for i, h := range rec {
		header[i] = strings.TrimSpace(h)
	}
	return func() (map[string]string, error) {
		rec, err := c.Read()
		if err != nil {
			return nil, err
		}
		if len(rec) != len(header) {
			return nil, fmt.Errorf("a line has %d fields, the header %d", len(rec), len(header))
		}
		row := make(map[string]string, len(rec))
		for i, h := range header {
			row[h] = rec[i]
		}
		return row, nil
	}, nil
}

// jsonRows gives the objects of an export: of an array, or of one document after
// the other. The pages of an API hold buckets, and these hold results.
func jsonRows(r *bufio.Reader) (func() (map[string]string, error), error) {
	c, err := firstByte(r)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(r)
	d.UseNumber()
	if c == '[' {
		if _, err := d.Token(); err != nil {
			return nil, err
		}
	}
	var waiting []map[string]string
	return func() (map[string]string, error) {
		for len(waiting) == 0 {
			if c == '[' && !d.More() {
				if _, err := d.Token(); err != nil {
					return nil, err
				}
				return nil, io.EOF
			}
			var v map[string]any
			if err := d.Decode(&v); err != nil {
				return nil, err
			}
			var err error
			if waiting, err = flatten(v); err != nil {
				return nil, err
			}
		}
		row := waiting[0]
		waiting = waiting[1:]
		return row, nil
	}, nil
}

// flatten turns an object into rows. Of a page, or a bucket, each result is a
// row that also has what stands beside it.
func flatten(v map[string]any) ([]map[string]string, error) {
	for _, list := range []string{"data", "results"} {
		items, ok := v[list].([]any)
		if !ok {
			continue
		}
		delete(v, list)
		var out []map[string]string
		for _, it := range items {
			obj, ok := it.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s has something that is no object", list)
			}
			for k, b := range v {
				if _, has := obj[k]; !has && k != "object" {
					obj[k] = b
				}
			}
			rows, err := flatten(obj)
			if err != nil {
				return nil, err
			}
			out = append(out, rows...)
		}
		return out, nil
	}
	row := map[string]string{}
	return []map[string]string{row}, leaves("", v, row, 0)
}

func leaves(path string, v any, row map[string]string, depth int) error {
	if depth > 8 || len(row) > maxColumns {
		return errors.New("an object is too deep or too large")
	}
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			at := k
			if path != "" {
				at = path + "." + k
			}
			if err := leaves(at, e, row, depth+1); err != nil {
				return err
			}
		}
	case string:
		row[path] = x
	case json.Number:
		row[path] = x.String()
	case bool:
		row[path] = fmt.Sprint(x)
	case nil:
		row[path] = ""
	}
	return nil
}

// bounded fails on input that goes on for too long between two rows, so that no
// reader above it can be made to keep more.
type bounded struct {
	r io.Reader
	n int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.n += n; b.n > maxRow {
		return 0, fmt.Errorf("a line or object is longer than %d bytes", maxRow)
	}
	return n, err
}
