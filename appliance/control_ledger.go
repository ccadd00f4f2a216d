package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"hearth/appliance/config"
	"hearth/appliance/invoice"
	"hearth/engine/infer"
	"hearth/store"
	"hearth/web/admin"
)

// exportQuery asks for rows in a format.
type exportQuery struct {
	store.Filter
	Format store.Format `json:"format,omitempty"` // "jsonl" or "csv"; empty: jsonl
}

// positionQuery may ask for the hash of one record.
type positionQuery struct {
	Seq uint64 `json:"seq,omitempty"`
}

// ledgerPosition is where the ledger stands, for whoever wants to hold it to that
// later.
type ledgerPosition struct {
	store.Position
	Hash    string       `json:"hash,omitempty"` // of the record that was asked for
	Last    *ledgerProof `json:"last_check,omitempty"`
	Blocked string       `json:"blocked,omitempty"` // why no new work is taken
}

// ledgerProof is the last check of the whole ledger, kept over restarts.
type ledgerProof struct {
	Seq     uint64        `json:"seq"` // it went up to this record
	Head    string        `json:"head"`
	At      time.Time     `json:"at"`
	By      string        `json:"by"`
	Records uint64        `json:"records"`
	Faults  int           `json:"faults"`
	Took    time.Duration `json:"took_ns"`
}

var (
	opLedgerExport = streamOperation[exportQuery]{
		operation: operation[exportQuery, none]{
			name: "ledger/export", place: "GET /ledger/export", access: admin.ReadTenant,
			summary: "the rows of requests that have ended, oldest first, as JSON lines or CSV",
			tenant:  func(q *exportQuery) *string { return &q.Tenant },
		},
		stream: exportLedger,
	}
	opLedgerPosition = operation[positionQuery, ledgerPosition]{
		name: "ledger/position", place: "GET /ledger/position", access: admin.Read,
		summary: "the last record and its hash, and how far the ledger has been proven; seq gives the hash of one record",
		run:     ledgerPositionNow,
	}
	opLedgerReconcile = operation[reconcileInput, reconciled]{
		name: "ledger/reconcile", place: "POST /ledger/reconcile", access: admin.Read,
		summary: "compare the ledger with a provider's export of usage or cost",
		run:     reconcileLedger,
	}
	opLedgerReconcileApply = operation[reconcileApply, reconcileApplied]{
		name: "ledger/reconcile/apply", place: "POST /ledger/reconcile/apply", access: admin.Operate,
		summary: "correct what was charged at its hold by what the export says it cost",
		run:     applyReconciled,
	}
)

// exportLedger streams rows.
func exportLedger(ctx context.Context, c *control, q exportQuery, w admin.Writer) error {
	day := time.Now().UTC().Format("20060102")
	switch q.Format {
	case store.CSV:
		w.Begin("text/csv; charset=utf-8", "hearth-ledger-"+day+".csv")
	case store.JSONL, "":
		q.Format = store.JSONL
		w.Begin("application/x-ndjson", "hearth-ledger-"+day+".jsonl")
	default:
		return infer.Invalid("format", "cannot export as %.32q, wanted %s or %s", q.Format, store.JSONL, store.CSV)
	}
	_, err := c.store.Export(ctx, w, q.Format, q.Filter)
	return err
}

// proofs keeps the last check.
const proofs, proofKey = "ledger-checks", "last"

// checkLedger proves the whole ledger and keeps the result.
func checkLedger(ctx context.Context, c *control, _ none) (store.Report, error) {
	r, err := c.store.Check(ctx)
	if err != nil {
		return r, err
	}
	p := ledgerProof{Seq: r.Last, Head: r.Head, At: time.Now().UTC(), By: store.Actor(ctx), Records: r.Records, Faults: len(r.Faults) + r.More, Took: r.Took}
	if b, err := json.Marshal(p); err == nil && c.store.Err() == nil {
		_ = c.store.Blobs(proofs).Put(ctx, proofKey, b) // the report is what was asked for
	}
	return r, nil
}

// lastProof is the last check; nil: none.
func lastProof(ctx context.Context, s *store.Store) *ledgerProof {
	b, err := s.Blobs(proofs).Get(ctx, proofKey)
	p := &ledgerProof{}
	if err != nil || json.Unmarshal(b.Value, p) != nil {
		return nil
	}
	return p
}

func ledgerPositionNow(ctx context.Context, c *control, q positionQuery) (ledgerPosition, error) {
	var p ledgerPosition
	var err error
	if p.Position, err = c.store.Position(ctx); err != nil {
		return p, err
	}
	if q.Seq != 0 {
		if p.Hash, err = c.store.HashAt(ctx, q.Seq); err != nil {
			return p, err
		}
	}
	p.Last = lastProof(ctx, c.store)
	if err := c.store.Err(); err != nil {
		p.Blocked = infer.AsError(err).Message
	}
	return p, nil
}

// reconcileInput is an export with what says how to read it.
type reconcileInput struct {
	Invoice  string `json:"invoice"`            // the text of the export
	Map      string `json:"map,omitempty"`      // TOML: which column means what; empty: by the columns
	Provider string `json:"provider,omitempty"` // name of the upstream, or kind of provider; empty: told by the format
	Format   string `json:"format,omitempty"`   // "csv" or "json"; empty: look
	// Tolerance is the part by which amounts may differ, in percent; ToleranceUSD
	// what costs of a day and model may differ by, in dollars; empty: 0 and 0.01.
	Tolerance    float64   `json:"tolerance_percent,omitempty"`
	ToleranceUSD string    `json:"tolerance_usd,omitempty"`
	Since        time.Time `json:"since,omitzero"` // default: what the export covers
	Until        time.Time `json:"until,omitzero"`
}

// reconciled is a report with its verdict.
type reconciled struct {
	invoice.Report
	OK bool `json:"ok"` // nothing differs by more than is tolerated
	// Closable is how many requests of unknown outcome the export tells the cost
	// of: what ledger/reconcile/apply would correct.
	Closable int `json:"closable"`
}

// reconcileApply is the same with a reason for the audit trail.
type reconcileApply struct {
	reconcileInput
	Reason string `json:"reason"`
}

// reconcileApplied lists what was corrected.
type reconcileApplied struct {
	Corrected []store.Row `json:"corrected"`
	Failed    []string    `json:"failed,omitempty"` // request id: why not
}

func (in *reconcileInput) options() (invoice.Options, *invoice.Mapping, error) {
	o := invoice.Options{Provider: in.Provider, Tolerance: in.Tolerance / 100, Since: in.Since, Until: in.Until}
	if in.Invoice == "" {
		return o, nil, infer.Invalid("invoice", "is empty, wanted the text of a provider's export")
	}
	if !(in.Tolerance >= 0 && in.Tolerance <= 100) {
		return o, nil, infer.Invalid("tolerance_percent", "cannot be %v, wanted 0 to 100", in.Tolerance)
	}
	if in.ToleranceUSD == "" {
		in.ToleranceUSD = "0.01"
	}
	var err error
	if o.ToleranceNano, err = config.ParseUSD(in.ToleranceUSD); err != nil {
		return o, nil, infer.Invalid("tolerance_usd", "%v", err)
	}
	if in.Map == "" {
		return o, nil, nil
	}
	if len(in.Map) > maxMappingBytes {
		return o, nil, infer.Invalid("map", "has %d bytes, at most %d are read", len(in.Map), maxMappingBytes)
	}
	m, err := invoice.ReadMapping([]byte(in.Map))
	if err != nil {
		return o, nil, infer.Invalid("map", "%v", err)
	}
	return o, m, nil
}

func reconcileLedger(ctx context.Context, c *control, in reconcileInput) (reconciled, error) {
	o, m, err := in.options()
	if err != nil {
		return reconciled{}, err
	}
	r, err := reconcile(ctx, strings.NewReader(in.Invoice), in.Format, m, o, func(ctx context.Context, w io.Writer, f store.Filter) error {
		_, err := c.store.Export(ctx, w, store.JSONL, f)
		return err
	})
	if err != nil {
		return reconciled{}, asInvalid("invoice", err)
	}
	out := reconciled{Report: *r, OK: r.OK()}
	for _, q := range r.Candidates {
		if q.TheirsNano != nil {
			out.Closable++
		}
	}
	return out, nil
}

// asInvalid makes a fault of what was given out of an error that has no code.
func asInvalid(field string, err error) error {
	var e *infer.Error
	if errors.As(err, &e) || errors.Is(err, context.Canceled) {
		return err
	}
	return infer.Invalid(field, "%v", err)
}

// reconcile reads an export and compares it with the rows of its days, which
// export writes as JSON lines.
func reconcile(ctx context.Context, in io.Reader, format string, m *invoice.Mapping, o invoice.Options, export func(context.Context, io.Writer, store.Filter) error) (*invoice.Report, error) {
	x, err := invoice.Open(in, format, m)
	if err != nil {
		return nil, err
	}
	b := invoice.NewBook(x.Mapping, o)
	for {
		l, err := x.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = b.Line(l)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
	}
	if err := eachRow(ctx, b, export); err != nil {
		return nil, err
	}
	return b.Report(x), nil
}

// eachRow gives the book the rows of its days, as they come out of the store.
func eachRow(ctx context.Context, b *invoice.Book, export func(context.Context, io.Writer, store.Filter) error) error {
	since, until := b.Span()
	if since.IsZero() {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	defer r.Close()
	go func() { w.CloseWithError(export(ctx, w, store.Filter{Since: since, Until: until})) }()
	d := json.NewDecoder(r)
	for {
		var row store.Row
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read the ledger: %w", err)
		}
		if err := b.Row(&row); err != nil {
			return err
		}
	}
}

// applyReconciled closes the requests of unknown outcome whose cost the export
// tells. Each is a correction of its own, with its own record.
func applyReconciled(ctx context.Context, c *control, in reconcileApply) (reconcileApplied, error) {
	out := reconcileApplied{Corrected: []store.Row{}}
	if in.Reason == "" {
		return out, infer.Invalid("reason", "is empty, wanted a text for the audit trail")
	}
	r, err := reconcileLedger(ctx, c, in.reconcileInput)
	if err != nil {
		return out, err
	}
	for _, q := range r.Candidates {
		if q.TheirsNano == nil {
			continue
		}
		row, err := c.store.Correct(ctx, store.Correction{RequestID: q.RequestID, ChargeNano: *q.TheirsNano, Reason: in.Reason, Actor: store.Actor(ctx)})
		if err != nil {
			out.Failed = append(out.Failed, q.RequestID+": "+infer.AsError(err).Message)
			continue
		}
		out.Corrected = append(out.Corrected, row)
	}
	return out, nil
}
