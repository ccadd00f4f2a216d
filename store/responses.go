package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// Response is an answer that is kept for later retrieval and as an earlier turn.
// It holds what was said, in clear, and is no part of the ledger's chain: it is
// dropped when it expires, when its caller deletes it, or to make room for a
// newer one of its tenant.
type Response struct {
	Tenant  string
	ID      string
	Created time.Time
	Expires time.Time
	Body    []byte
	Input   []byte
}

// ResponseLimits bound what one tenant may have stored. Zero fields take the
// package's own bounds.
type ResponseLimits struct {
	Count int
	Bytes int64 // bodies and inputs together
}

// Bounds of what is stored.
const (
	MaxResponse       = 32 << 20 // bytes of one response with its input
	maxResponseID     = 128
	maxResponses      = 100_000 // of one tenant
	maxResponsesBytes = 8 << 30 // of one tenant
	responseLayout    = 1
	responsesSweep    = 500 // responses that one transaction drops
)

// Keys: a response lies under tenant 0 id, its place in the order of expiry
// under tenant 0 expiry id, the sums of a tenant under its name.
func responseKey(tenant, id string) []byte {
	return append(append(append(make([]byte, 0, len(tenant)+len(id)+1), tenant...), 0), id...)
}

func responseDueKey(tenant, id string, expires time.Time) []byte {
	b := append(append(make([]byte, 0, len(tenant)+len(id)+9), tenant...), 0)
	return append(binary.BigEndian.AppendUint64(b, uint64(expires.UnixNano())), id...)
}

// splitResponseDue is the inverse of responseDueKey.
func splitResponseDue(k []byte) (tenant, id string, expires time.Time, ok bool) {
	at := bytes.IndexByte(k, 0)
	if at < 0 || len(k) < at+10 {
		return "", "", time.Time{}, false
	}
	return string(k[:at]), string(k[at+9:]), time.Unix(0, int64(binary.BigEndian.Uint64(k[at+1:]))), true
}

func responseName(id string) string { return "stored response " + clip(id, maxResponseID) }

// encode writes a response: layout 1, created, expires, length of the body,
// body, input, sealed under its key.
func (r *Response) encode() []byte {
	b := make([]byte, 0, len(r.Body)+len(r.Input)+48)
	b = append(b, responseLayout)
	b = appendTime(b, r.Created)
	b = appendTime(b, r.Expires)
	b = binary.AppendUvarint(b, uint64(len(r.Body)))
	b = append(b, r.Body...)
	b = binary.AppendUvarint(b, uint64(len(r.Input)))
	b = append(b, r.Input...)
	return seal(responseKey(r.Tenant, r.ID), b)
}

// decodeResponse reads a response. Body and Input alias v.
func decodeResponse(tenant, id string, v []byte) (*Response, error) {
	v, err := unseal(responseName(id), responseKey(tenant, id), v)
	if err != nil {
		return nil, err
	}
	d := &decoder{b: v}
	if layout := d.byte(); layout != responseLayout {
		d.fail("layout is %d, want %d", layout, responseLayout)
	}
	r := &Response{Tenant: tenant, ID: id, Created: d.time(), Expires: d.time()}
	r.Body = d.bytes(d.count(MaxResponse))
	r.Input = d.bytes(d.count(MaxResponse))
	if err := d.end(); err != nil {
		return nil, &DamageError{responseName(id), err}
	}
	return r, nil
}

var errNoResponse = &infer.Error{Code: infer.CodeNotFound, Message: "there is no such response: it does not exist, was not stored, or has expired", Cause: fs.ErrNotExist}

func checkResponseName(tenant, id string) error {
	if !plain(tenant, maxString) || !plain(id, maxResponseID) || bytes.IndexByte([]byte(tenant), 0) >= 0 || bytes.IndexByte([]byte(id), 0) >= 0 {
		return infer.Errorf(infer.CodeInvalid, "cannot use this as the id of a stored response")
	}
	return nil
}

// responseTotals is what a tenant has stored.
type responseTotals struct {
	n     uint64
	bytes uint64
}

func (t responseTotals) encode(tenant string) []byte {
	return seal([]byte(tenant), append(be64(t.n), be64(t.bytes)...))
}

func responseTotalsOf(tx *bolt.Tx, tenant string) (responseTotals, error) {
	v := tx.Bucket(bucketResponseTotals).Get([]byte(tenant))
	if v == nil {
		return responseTotals{}, nil
	}
	return decodeResponseTotals(tenant, v)
}

func decodeResponseTotals(tenant string, v []byte) (t responseTotals, err error) {
	v, err = unseal("the sums of stored responses", []byte(tenant), v)
	if err == nil && len(v) != 16 {
		err = &DamageError{"the sums of stored responses", errShort}
	}
	if err != nil {
		return t, err
	}
	return responseTotals{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, nil
}

// PutResponse stores or replaces a response, durably. If the tenant has no room
// left, its responses that would expire first make it.
func (s *Store) PutResponse(ctx context.Context, r Response, lim ResponseLimits) error {
	if err := checkResponseName(r.Tenant, r.ID); err != nil {
		return err
	}
	if lim.Count <= 0 || lim.Count > maxResponses {
		lim.Count = maxResponses
	}
	if lim.Bytes <= 0 || lim.Bytes > maxResponsesBytes {
		lim.Bytes = maxResponsesBytes
	}
	r.Created, r.Expires = stamp(r.Created), stamp(r.Expires)
	data := r.encode()
	if len(r.Body)+len(r.Input) > MaxResponse || int64(len(data)) > lim.Bytes {
		return infer.Errorf(infer.CodeTooLarge, "cannot store the response: with its input it has %d bytes", len(r.Body)+len(r.Input))
	}
	return s.do(ctx, newOp(opOther, func(w *writer) error {
		t, err := responseTotalsOf(w.tx, r.Tenant)
		if err != nil {
			return readError(err)
		}
		w.dropResponse(r.Tenant, r.ID, &t)
		due := w.tx.Bucket(bucketResponsesDue)
		for t.n >= uint64(lim.Count) || t.bytes+uint64(len(data)) > uint64(lim.Bytes) {
			prefix := append([]byte(r.Tenant), 0)
			k, _ := due.Cursor().Seek(prefix)
			if !bytes.HasPrefix(k, prefix) {
				break
			}
			k = bytes.Clone(k)
			if tenant, id, _, ok := splitResponseDue(k); ok {
				w.dropResponse(tenant, id, &t)
			}
			w.mark(due.Delete(k))
		}
		w.mark(w.tx.Bucket(bucketResponses).Put(responseKey(r.Tenant, r.ID), data))
		w.mark(due.Put(responseDueKey(r.Tenant, r.ID, r.Expires), be64(uint64(len(data)))))
		t.n, t.bytes = t.n+1, t.bytes+uint64(len(data))
		w.mark(w.tx.Bucket(bucketResponseTotals).Put([]byte(r.Tenant), t.encode(r.Tenant)))
		return nil
	}))
}

// dropResponse removes a response, if it is there, and what it counts. One that
// is damaged goes too; its place in the list is left for whoever comes by there.
func (w *writer) dropResponse(tenant, id string, t *responseTotals) {
	key := responseKey(tenant, id)
	v := w.tx.Bucket(bucketResponses).Get(key)
	if v == nil {
		return
	}
	size := uint64(len(v))
	if old, err := decodeResponse(tenant, id, v); err == nil {
		w.mark(w.tx.Bucket(bucketResponsesDue).Delete(responseDueKey(tenant, id, old.Expires)))
	}
	w.mark(w.tx.Bucket(bucketResponses).Delete(key))
	t.n, t.bytes = t.n-min(t.n, 1), t.bytes-min(t.bytes, size)
}

func (w *writer) putResponseTotals(tenant string, t responseTotals) {
	b := w.tx.Bucket(bucketResponseTotals)
	if t.n == 0 {
		w.mark(b.Delete([]byte(tenant)))
		return
	}
	w.mark(b.Put([]byte(tenant), t.encode(tenant)))
}

// Response finds a response of a tenant; CodeNotFound wrapping fs.ErrNotExist
// if there is none, or if it has expired.
func (s *Store) Response(ctx context.Context, tenant, id string) (*Response, error) {
	if checkResponseName(tenant, id) != nil {
		return nil, errNoResponse
	}
	var r *Response
	err := s.view(ctx, func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketResponses).Get(responseKey(tenant, id))
		if v == nil {
			return errNoResponse
		}
		var err error
		if r, err = decodeResponse(tenant, id, bytes.Clone(v)); err != nil {
			return err
		}
		if !r.Expires.After(s.now()) {
			return errNoResponse
		}
		return nil
	})
	if err != nil {
		return nil, readError(err)
	}
	return r, nil
}

// DeleteResponse removes a response; CodeNotFound if there is none.
func (s *Store) DeleteResponse(ctx context.Context, tenant, id string) error {
	if checkResponseName(tenant, id) != nil {
		return errNoResponse
	}
	return s.do(ctx, newOp(opOther, func(w *writer) error {
		t, err := responseTotalsOf(w.tx, tenant)
		if err != nil {
			return readError(err)
		}
		if w.tx.Bucket(bucketResponses).Get(responseKey(tenant, id)) == nil {
			return errNoResponse
		}
		w.dropResponse(tenant, id, &t)
		w.putResponseTotals(tenant, t)
		return nil
	}))
}

// SweepResponses drops responses that have expired, and gives their number.
func (s *Store) SweepResponses(ctx context.Context) (int, error) {
	total := 0
	for {
		n := 0
		err := s.do(ctx, newOp(opOther, func(w *writer) (err error) {
			n, err = w.sweepResponses()
			return err
		}))
		if total += n; err != nil || n < responsesSweep {
			return total, err
		}
	}
}

// sweepResponses drops some expired responses, tenant by tenant.
func (w *writer) sweepResponses() (int, error) {
	var gone [][]byte
	c := w.tx.Bucket(bucketResponsesDue).Cursor()
	for k, _ := c.First(); k != nil && len(gone) < responsesSweep; {
		tenant, _, expires, ok := splitResponseDue(k)
		if !ok || !expires.After(w.now) {
			gone = append(gone, bytes.Clone(k))
			k, _ = c.Next()
			continue
		}
		k, _ = c.Seek(append([]byte(tenant), 1)) // the next tenant
	}
	for _, k := range gone {
		w.mark(w.tx.Bucket(bucketResponsesDue).Delete(k))
		tenant, id, _, ok := splitResponseDue(k)
		if !ok {
			continue
		}
		t, err := responseTotalsOf(w.tx, tenant)
		if err != nil {
			w.mark(err)
			return 0, nil
		}
		w.dropResponse(tenant, id, &t)
		w.putResponseTotals(tenant, t)
	}
	return len(gone), nil
}

// ResponsesStored is how much a tenant has stored.
func (s *Store) ResponsesStored(ctx context.Context, tenant string) (n int, size int64, err error) {
	err = s.view(ctx, func(tx *bolt.Tx) error {
		t, err := responseTotalsOf(tx, tenant)
		n, size = int(t.n), int64(t.bytes)
		return err
	})
	return n, size, readError(err)
}

// responses compares the responses with the list that orders them and with
// the sums of each tenant.
func (c *checker) responses(tx *bolt.Tx) {
	due := tx.Bucket(bucketResponsesDue)
	sums := map[string]responseTotals{}
	n, listed := 0, 0
	err := tx.Bucket(bucketResponses).ForEach(func(k, v []byte) error {
		n++
		tenant, id, ok := bytes.Cut(k, []byte{0})
		if !ok {
			c.fault(0, "", "a stored response lies under a key of %d bytes", len(k))
			return nil
		}
		r, err := decodeResponse(string(tenant), string(id), v)
		if err != nil {
			c.fault(0, "", "%v", err)
			return nil
		}
		if got := due.Get(responseDueKey(r.Tenant, r.ID, r.Expires)); len(got) != 8 || binary.BigEndian.Uint64(got) != uint64(len(v)) {
			c.fault(0, "", "%s is not listed with its size", responseName(r.ID))
		}
		t := sums[r.Tenant]
		sums[r.Tenant] = responseTotals{t.n + 1, t.bytes + uint64(len(v))}
		return nil
	})
	err = errors.Join(err, due.ForEach(func(_, _ []byte) error { listed++; return nil }))
	err = errors.Join(err, tx.Bucket(bucketResponseTotals).ForEach(func(k, v []byte) error {
		t, err := decodeResponseTotals(string(k), v)
		if err == nil && t != sums[string(k)] {
			err = fmt.Errorf("the sums of a tenant's stored responses are off")
		}
		delete(sums, string(k))
		return err
	}))
	if err != nil || n != listed || len(sums) != 0 {
		c.fault(0, "", "%d stored responses are listed, there are %d (%v)", listed, n, err)
	}
}
