package store

import (
	"encoding/binary"
	"time"
)

// The outcomes in their stored order; append only.
var outcomes = [...]Outcome{OutcomeOpen, OutcomeComplete, OutcomePartial, OutcomeCancelled,
	OutcomeError, OutcomeUnknown, OutcomeRefused}

func outcomeCode(o Outcome) (byte, bool) {
	for i, v := range outcomes {
		if v == o {
			return byte(i), true
		}
	}
	return 0, false
}

// appendRow writes a row without its RequestID, Seq and Budgets, which the
// record has.
func appendRow(b []byte, r *Row) []byte {
	b = appendString(b, r.TraceID)
	b = appendString(b, r.Tenant)
	b = appendString(b, r.KeyID)
	b = appendString(b, r.Operation)
	b = appendString(b, r.Model)
	b = appendString(b, r.Route)
	b = appendString(b, r.Class)
	b = appendBool(b, r.Stream)
	b = appendTime(b, r.Started)
	b = appendString(b, r.Contract)
	b = appendString(b, r.Price.Version)
	for _, v := range [...]int64{r.Price.Input, r.Price.Cached, r.Price.CacheWrite,
		r.Price.Output, r.HoldNano} {
		b = binary.AppendVarint(b, v)
	}
	code, ok := outcomeCode(r.Outcome)
	if !ok {
		panic("BUG: a row with outcome " + string(r.Outcome))
	}
	b = append(b, code)
	if r.Outcome == OutcomeOpen {
		return b
	}
	b = binary.AppendUvarint(b, r.HoldSeq)
	b = binary.AppendVarint(b, r.ChargeNano)
	b = binary.AppendVarint(b, r.OverdraftNano)
	b = appendString(b, r.Finish)
	b = appendString(b, r.ErrorCode)
	b = appendString(b, r.Backend)
	for _, v := range [...]int64{r.Usage.FreshInput, r.Usage.CachedInput, r.Usage.CacheWrite,
		r.Usage.Output, r.Usage.Reasoning} {
		b = binary.AppendVarint(b, v)
	}
	b = appendBool(b, r.Usage.Estimated)
	b = binary.AppendVarint(b, int64(r.TTFT))
	b = appendTime(b, r.Ended)
	b = binary.AppendUvarint(b, uint64(len(r.Attempts)))
	for i := range r.Attempts {
		b = appendAttempt(b, &r.Attempts[i])
	}
	return b
}

func appendAttempt(b []byte, a *Attempt) []byte {
	b = appendString(b, a.Backend)
	b = appendString(b, a.Model)
	b = appendTime(b, a.Started)
	b = binary.AppendVarint(b, int64(a.Took))
	code, ok := outcomeCode(a.Outcome)
	if !ok {
		panic("BUG: an attempt with outcome " + string(a.Outcome))
	}
	b = append(b, code)
	return appendString(b, a.ErrorCode)
}

func (d *decoder) outcome() Outcome {
	c := d.byte()
	if int(c) >= len(outcomes) {
		d.fail("unknown outcome %d", c)
		return OutcomeUnknown
	}
	return outcomes[c]
}

func decodeRow(d *decoder) *Row {
	r := &Row{}
	r.TraceID, r.Tenant, r.KeyID = d.string(), d.string(), d.string()
	r.Operation, r.Model, r.Route, r.Class = d.string(), d.string(), d.string(), d.string()
	r.Stream = d.bool()
	r.Started = d.time()
	r.Contract = d.string()
	p := &r.Price
	p.Version = d.string()
	p.Input, p.Cached, p.CacheWrite, p.Output = d.varint(), d.varint(), d.varint(), d.varint()
	r.HoldNano = d.varint()
	r.Outcome = d.outcome()
	if r.Outcome == OutcomeOpen || d.err != nil {
		return r
	}
	r.HoldSeq = d.uvarint()
	r.ChargeNano, r.OverdraftNano = d.varint(), d.varint()
	r.Finish, r.ErrorCode, r.Backend = d.string(), d.string(), d.string()
	u := &r.Usage
	u.FreshInput, u.CachedInput, u.CacheWrite = d.varint(), d.varint(), d.varint()
	u.Output, u.Reasoning = d.varint(), d.varint()
	u.Estimated = d.bool()
	r.TTFT = time.Duration(d.varint())
	r.Ended = d.time()
	if n := d.count(maxAttempts); n > 0 && d.err == nil {
		r.Attempts = make([]Attempt, n)
		for i := range r.Attempts {
			a := &r.Attempts[i]
			a.Backend, a.Model = d.string(), d.string()
			a.Started = d.time()
			a.Took = time.Duration(d.varint())
			a.Outcome = d.outcome()
			a.ErrorCode = d.string()
		}
	}
	return r
}
