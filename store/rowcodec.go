package store

import (
	"encoding/binary"
	"time"
)

// The outcomes in their stored order; append only.
var outcomes = [...]Outcome{OutcomeOpen, OutcomeComplete, OutcomePartial, OutcomeCancelled,
	OutcomeError, OutcomeUnknown, OutcomeRefused, OutcomeAmbiguous}

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
	b = appendString(b, r.Revision)
	b = appendString(b, r.Idempotency)
	b = appendString(b, r.Price.Version)
	for _, v := range [...]int64{r.Price.Input, r.Price.Cached, r.Price.CacheWrite,
		r.Price.CacheWriteHour, r.Price.Output, r.HoldNano} {
		b = binary.AppendVarint(b, v)
	}
	b = append(b, mustOutcome(r.Outcome))
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
		r.Usage.CacheWriteHour, r.Usage.Output, r.Usage.Reasoning} {
		b = binary.AppendVarint(b, v)
	}
	b = appendBool(b, r.Usage.Estimated)
	b = binary.AppendVarint(b, int64(r.TTFT))
	b = appendTime(b, r.Ended)
	b = binary.AppendUvarint(b, uint64(len(r.Attempts)))
	for i := range r.Attempts {
		b = appendAttempt(b, &r.Attempts[i])
	}
	b = appendString(b, string(r.Termination))
	b = appendStrings(b, r.Losses)
	b = appendStrings(b, r.Decisions)
	return appendCorrected(b, r.Corrected)
}

func appendCorrected(b []byte, c *Corrected) []byte {
	if b = appendBool(b, c != nil); c == nil {
		return b
	}
	b = binary.AppendUvarint(b, c.Record)
	b = append(b, mustOutcome(c.Outcome))
	b = binary.AppendVarint(b, c.ChargeNano)
	return binary.AppendVarint(b, c.OverdraftNano)
}

func appendStrings(b []byte, list []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, s := range list {
		b = appendString(b, s)
	}
	return b
}

func mustOutcome(o Outcome) byte {
	code, ok := outcomeCode(o)
	if !ok {
		panic("BUG: a record with outcome " + string(o))
	}
	return code
}

func appendAttempt(b []byte, a *Attempt) []byte {
	b = appendString(b, a.Backend)
	b = appendString(b, a.Model)
	b = appendTime(b, a.Started)
	b = binary.AppendVarint(b, int64(a.Took))
	b = append(b, mustOutcome(a.Outcome))
	b = appendString(b, a.ErrorCode)
	b = appendString(b, a.Provider)
	b = appendString(b, a.UpstreamRequestID)
	b = appendString(b, a.Failure)
	b = binary.AppendUvarint(b, uint64(a.Status))
	return appendBool(b, a.Sent)
}

func (d *decoder) outcome() Outcome {
	c := d.byte()
	if int(c) >= len(outcomes) {
		d.fail("unknown outcome %d", c)
		return OutcomeUnknown
	}
	return outcomes[c]
}

// decodeRow reads a row of a record of that layout. Layout 1 lacks what came
// later.
func decodeRow(d *decoder, layout byte) *Row {
	r := &Row{}
	r.TraceID, r.Tenant, r.KeyID = d.string(), d.string(), d.string()
	r.Operation, r.Model, r.Route, r.Class = d.string(), d.string(), d.string(), d.string()
	r.Stream = d.bool()
	r.Started = d.time()
	r.Contract = d.string()
	if layout > 1 {
		r.Revision, r.Idempotency = d.string(), d.string()
	}
	p := &r.Price
	p.Version = d.string()
	p.Input, p.Cached, p.CacheWrite = d.varint(), d.varint(), d.varint()
	if layout > 1 {
		p.CacheWriteHour = d.varint()
	}
	p.Output = d.varint()
	r.HoldNano = d.varint()
	r.Outcome = d.outcome()
	if r.Outcome == OutcomeOpen || d.err != nil {
		return r
	}
	decodeEnd(d, layout, r)
	return r
}

// decodeEnd reads what only the row of an ended request has.
func decodeEnd(d *decoder, layout byte, r *Row) {
	r.HoldSeq = d.uvarint()
	r.ChargeNano, r.OverdraftNano = d.varint(), d.varint()
	r.Finish, r.ErrorCode, r.Backend = d.string(), d.string(), d.string()
	u := &r.Usage
	u.FreshInput, u.CachedInput, u.CacheWrite = d.varint(), d.varint(), d.varint()
	if layout > 1 {
		u.CacheWriteHour = d.varint()
	}
	u.Output, u.Reasoning = d.varint(), d.varint()
	u.Estimated = d.bool()
	r.TTFT = time.Duration(d.varint())
	r.Ended = d.time()
	if n := d.count(maxAttempts); n > 0 && d.err == nil {
		r.Attempts = make([]Attempt, n)
		for i := range r.Attempts {
			decodeAttempt(d, layout, &r.Attempts[i])
		}
	}
	if layout == 1 {
		return
	}
	r.Termination = Termination(d.string())
	r.Losses, r.Decisions = d.strings(maxMarks), d.strings(maxMarks)
	if d.bool() {
		r.Corrected = &Corrected{Record: d.uvarint(), Outcome: d.outcome(), ChargeNano: d.varint(), OverdraftNano: d.varint()}
	}
}

func decodeAttempt(d *decoder, layout byte, a *Attempt) {
	a.Backend, a.Model = d.string(), d.string()
	a.Started = d.time()
	a.Took = time.Duration(d.varint())
	a.Outcome = d.outcome()
	a.ErrorCode = d.string()
	if layout == 1 {
		a.Sent = true // what layout 1 calls an attempt had begun
		return
	}
	a.Provider, a.UpstreamRequestID, a.Failure = d.string(), d.string(), d.string()
	a.Status = d.count(maxStatus)
	a.Sent = d.bool()
}
