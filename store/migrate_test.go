package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// unpack writes testdata/NAME.db.gz to a folder of its own.
func unpack(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	db, err := io.ReadAll(io.LimitReader(z, 1<<24))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(tempDir(t), "h.db")
	if err := os.WriteFile(path, db, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSchema1IsMigrated opens a database that a build of schema 1 left open:
// with a base, every kind of record, a hold that runs, a key and a blob. All is
// found as it was; the old records are read in place, and new ones follow.
func TestSchema1IsMigrated(t *testing.T) {
	var want struct {
		Rows       []Row     `json:"rows"`
		Balances   []Balance `json:"balances"`
		Credential string    `json:"credential"`
	}
	b, err := os.ReadFile("testdata/schema-1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	path := unpack(t, "schema-1")
	s := openAt(t, path, Options{})
	if r := s.Recovery(); r.Migrated != 1 || r.Clean || r.Orphans != 1 || r.Nano != 700 {
		t.Errorf("recovery: %+v", r)
	}
	for _, old := range want.Rows {
		d, err := s.Show(context.Background(), old.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		got := d.Row
		if old.Outcome == OutcomeOpen {
			if got.Outcome != OutcomeUnknown || got.ChargeNano != old.HoldNano || got.Seq <= old.Seq {
				t.Errorf("the open request ended as %+v", got)
			}
			continue
		}
		for i := range old.Attempts {
			old.Attempts[i].Sent = true
		}
		if !reflect.DeepEqual(got, old) {
			t.Errorf("got  %+v\nwant %+v", got, old)
		}
	}
	for _, b := range want.Balances { // now with the orphan's charge
		wantBalance(t, s, b.Budget, b.Window, b.SpentNano+b.HeldNano, 0)
	}
	if k, ok := s.Verify(want.Credential); !ok || k.Name != "laptop" || k.Tools != nil {
		t.Errorf("the key: %+v, %v", k, ok)
	}
	if v, err := s.Blobs("setup").Get(context.Background(), "done"); err != nil || string(v.Value) != "yes" {
		t.Errorf("the blob: %q, %v", v.Value, err)
	}
	mustHold(t, s, hold("new", 5, Charge{"tenant/acme/day", "2026-03-01", 1 << 40}))
	if _, err := s.Settle("new", used(5)); err != nil {
		t.Error(err)
	}
	checkOK(t, s)
	if _, err := s.Rebuild(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := s.Compact(context.Background(), s.now()); err != nil { // the base then has none or new layouts
		t.Error(err)
	}
	if _, err := os.Stat(path + ".schema-1"); err != nil {
		t.Errorf("the copy from before: %v", err)
	}
}
