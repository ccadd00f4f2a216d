package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"hearth/engine/infer"
)

// responsesStore opens a store whose clock the test turns.
func responsesStore(t *testing.T) (*Store, *time.Time) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	s, err := Open(filepath.Join(t.TempDir(), "db"), Options{Now: func() time.Time { return now }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		rep, err := s.Check(context.Background())
		if err != nil || len(rep.Faults) > 0 {
			t.Errorf("the store is not whole at the end: %v %v", err, rep.Faults)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, &now
}

func stored(tenant, id string, now time.Time, keep time.Duration) Response {
	return Response{Tenant: tenant, ID: id, Created: now, Expires: now.Add(keep),
		Body: []byte(`{"id":"` + id + `"}`), Input: []byte(`[{"text":"` + strings.Repeat("x", 100) + `"}]`)}
}

func has(t *testing.T, s *Store, tenant, id string, want bool) {
	t.Helper()
	r, err := s.Response(context.Background(), tenant, id)
	switch {
	case want && err != nil:
		t.Errorf("%s of %s: %v", id, tenant, err)
	case want && string(r.Body) != `{"id":"`+id+`"}`:
		t.Errorf("%s of %s: got %s", id, tenant, r.Body)
	case !want && (!errors.Is(err, fs.ErrNotExist) || infer.AsError(err).Code != infer.CodeNotFound):
		t.Errorf("%s of %s: got %v, want not found", id, tenant, err)
	}
}

func TestResponses(t *testing.T) {
	ctx := context.Background()
	s, now := responsesStore(t)
	put := func(r Response, lim ResponseLimits) {
		t.Helper()
		if err := s.PutResponse(ctx, r, lim); err != nil {
			t.Fatal(err)
		}
	}
	put(stored("a", "resp_1", *now, time.Hour), ResponseLimits{})
	put(stored("a", "resp_2", *now, 2*time.Hour), ResponseLimits{})
	put(stored("a", "resp_2", *now, 3*time.Hour), ResponseLimits{}) // replaced
	put(stored("ab", "resp_3", *now, time.Hour), ResponseLimits{})
	has(t, s, "a", "resp_1", true)
	has(t, s, "ab", "resp_1", false) // another tenant's
	has(t, s, "a", "resp_3", false)
	has(t, s, "a", "", false)
	has(t, s, "a\x00resp_1", "x", false)
	if n, size, err := s.ResponsesStored(ctx, "a"); n != 2 || size == 0 || err != nil {
		t.Errorf("got %d responses of %d bytes, %v", n, size, err)
	}
	if err := s.DeleteResponse(ctx, "ab", "resp_1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("deleting another tenant's: %v", err)
	}
	*now = now.Add(90 * time.Minute)
	has(t, s, "a", "resp_1", false) // expired, not swept
	if n, err := s.SweepResponses(ctx); n != 2 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	has(t, s, "a", "resp_2", true)
	if err := s.DeleteResponse(ctx, "a", "resp_2"); err != nil {
		t.Error(err)
	}
	has(t, s, "a", "resp_2", false)
	if n, size, _ := s.ResponsesStored(ctx, "a"); n != 0 || size != 0 {
		t.Errorf("%d responses of %d bytes are left", n, size)
	}
}

// A tenant that is full loses what would expire first, and never another's.
func TestResponsesMakeRoom(t *testing.T) {
	ctx := context.Background()
	s, now := responsesStore(t)
	one := stored("a", "resp_0", *now, time.Hour)
	size := int64(len(one.encode()))
	if err := s.PutResponse(ctx, stored("b", "resp_b", *now, time.Minute), ResponseLimits{}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		r := stored("a", fmt.Sprintf("resp_%d", i), *now, time.Hour+time.Duration(i)*time.Second)
		if err := s.PutResponse(ctx, r, ResponseLimits{Bytes: 4*size + size/2}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		has(t, s, "a", fmt.Sprintf("resp_%d", i), i >= 6)
	}
	if err := s.PutResponse(ctx, stored("a", "resp_x", *now, time.Hour), ResponseLimits{Count: 1}); err != nil {
		t.Fatal(err)
	}
	has(t, s, "a", "resp_9", false)
	has(t, s, "a", "resp_x", true)
	has(t, s, "b", "resp_b", true)
	big := stored("a", "resp_big", *now, time.Hour)
	if err := s.PutResponse(ctx, big, ResponseLimits{Bytes: 10}); infer.AsError(err).Code != infer.CodeTooLarge {
		t.Errorf("larger than all the room: %v", err)
	}
}

// A sweep reaches every tenant, more than one transaction's worth.
func TestResponsesSweepMany(t *testing.T) {
	ctx := context.Background()
	s, now := responsesStore(t)
	done := make(chan error)
	for k := range 8 {
		go func() {
			for i := range 150 {
				keep := time.Minute
				if i%2 == 0 {
					keep = time.Hour
				}
				if err := s.PutResponse(ctx, stored(fmt.Sprint("t", k), fmt.Sprint("resp_", i), time.Unix(1_700_000_000, 0), keep), ResponseLimits{}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	*now = now.Add(2 * time.Minute)
	if n, err := s.SweepResponses(ctx); n != 600 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
}

// A flipped bit is noticed when the response is read, and does not keep it from
// being dropped.
func TestResponsesDamage(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(1_700_000_000, 0)
	s, err := Open(filepath.Join(t.TempDir(), "db"), Options{Now: func() time.Time { return now }, BallastBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.PutResponse(ctx, stored("a", "resp_1", now, time.Hour), ResponseLimits{}); err != nil {
		t.Fatal(err)
	}
	err = s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketResponses)
		v := append([]byte(nil), b.Get(responseKey("a", "resp_1"))...)
		v[len(v)/2] ^= 1
		return b.Put(responseKey("a", "resp_1"), v)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Response(ctx, "a", "resp_1"); infer.AsError(err).Code != infer.CodeInternal {
		t.Errorf("a damaged response: %v", err)
	}
	if rep, err := s.Check(ctx); err != nil || len(rep.Faults) == 0 {
		t.Errorf("the check did not notice: %v", err)
	}
	now = now.Add(2 * time.Hour)
	if n, err := s.SweepResponses(ctx); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if rep, err := s.Check(ctx); err != nil || len(rep.Faults) > 0 {
		t.Errorf("after the sweep: %v %v", err, rep.Faults)
	}
}

func FuzzDecodeResponse(f *testing.F) {
	r := stored("a", "resp_1", time.Unix(1, 2), time.Hour)
	f.Add(r.encode())
	f.Fuzz(func(t *testing.T, v []byte) {
		sealed := seal(responseKey("a", "resp_1"), v)
		for _, in := range [][]byte{v, sealed} {
			got, err := decodeResponse("a", "resp_1", in)
			if err != nil {
				continue
			}
			if again := got.encode(); string(again) != string(in) {
				t.Fatalf("%x became %x", in, again)
			}
		}
	})
}
