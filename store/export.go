package store

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"hearth/engine/infer"
)

// exporter writes rows in one format.
type exporter struct {
	buf  *bufio.Writer
	json *json.Encoder
	csv  *csv.Writer
}

func newExporter(w io.Writer, format Format) (*exporter, error) {
	e := &exporter{buf: bufio.NewWriterSize(w, 64<<10)}
	switch format {
	case JSONL:
		e.json = json.NewEncoder(e.buf)
		e.json.SetEscapeHTML(false)
		return e, nil
	case CSV:
		e.csv = csv.NewWriter(e.buf)
		return e, e.csv.Write(csvHeader)
	}
	return nil, infer.Invalid("format", "cannot export as %.32q: want jsonl or csv", format)
}

var csvHeader = []string{"seq", "hold_seq", "request_id", "trace_id", "tenant", "key_id", "operation", "model", "route",
	"class", "backend", "stream", "started", "ended", "ttft_ms", "outcome", "finish", "error_code", "attempts",
	"fresh_input", "cached_input", "cache_write", "output", "reasoning", "estimated",
	"price_version", "price_input", "price_cached", "price_cache_write", "price_output",
	"hold_nano_usd", "charge_nano_usd", "overdraft_nano_usd", "budgets", "contract",
	"cache_write_hour", "price_cache_write_hour", "revision", "idempotency", "termination", "losses", "decisions",
	"providers", "deployments", "upstream_models", "upstream_request_ids", "failures", "statuses", "sent",
	"corrected_from_nano_usd", "corrected_from_outcome"}

func (e *exporter) row(r *Row) error {
	if e.json != nil {
		return e.json.Encode(r)
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Format(time.RFC3339Nano)
	}
	var budgets []string
	for _, p := range r.Budgets {
		budgets = append(budgets, p.Budget+"@"+p.Window)
	}
	fields := []string{strconv.FormatUint(r.Seq, 10), strconv.FormatUint(r.HoldSeq, 10), r.RequestID, r.TraceID,
		r.Tenant, r.KeyID, r.Operation, r.Model, r.Route, r.Class, r.Backend, strconv.FormatBool(r.Stream),
		at(r.Started), at(r.Ended), strconv.FormatFloat(float64(r.TTFT)/1e6, 'f', 3, 64), string(r.Outcome),
		r.Finish, r.ErrorCode, strconv.Itoa(len(r.Attempts)),
		n(r.Usage.FreshInput), n(r.Usage.CachedInput), n(r.Usage.CacheWrite), n(r.Usage.Output), n(r.Usage.Reasoning),
		strconv.FormatBool(r.Usage.Estimated), r.Price.Version, n(r.Price.Input), n(r.Price.Cached),
		n(r.Price.CacheWrite), n(r.Price.Output), n(r.HoldNano), n(r.ChargeNano), n(r.OverdraftNano),
		strings.Join(budgets, " "), r.Contract,
		n(r.Usage.CacheWriteHour), n(r.Price.CacheWriteHour), r.Revision, r.Idempotency, string(r.Termination),
		strings.Join(r.Losses, " "), strings.Join(r.Decisions, " ")}
	fields = append(fields, attemptFields(r.Attempts)...)
	if c := r.Corrected; c != nil {
		fields = append(fields, n(c.ChargeNano), string(c.Outcome))
	} else {
		fields = append(fields, "", "")
	}
	for i, f := range fields {
		fields[i] = inert(f)
	}
	return e.csv.Write(fields)
}

// attemptFields has one field for each property, one word in it for each
// attempt; a property that is not known is "-".
func attemptFields(list []Attempt) []string {
	columns := make([][]string, 7)
	for i := range list {
		a := &list[i]
		for j, v := range []string{a.Provider, a.Backend, a.Model, a.UpstreamRequestID, a.Failure, strconv.Itoa(a.Status), strconv.FormatBool(a.Sent)} {
			if v = strings.ReplaceAll(v, " ", "_"); v == "" {
				v = "-"
			}
			columns[j] = append(columns[j], v)
		}
	}
	out := make([]string, len(columns))
	for j := range columns {
		out[j] = strings.Join(columns[j], " ")
	}
	return out
}

// inert keeps spreadsheets from running a field that a caller chose (a model
// name, say) as a formula. A leading minus is only ours, in numbers.
func inert(f string) string {
	if f != "" && strings.ContainsRune("=+@\t\r", rune(f[0])) {
		return "'" + f
	}
	return f
}

func (e *exporter) flush() error {
	if e.csv != nil {
		e.csv.Flush()
		if err := e.csv.Error(); err != nil {
			return err
		}
	}
	return e.buf.Flush()
}
