package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"hearth/engine/infer"
)

func TestBlobs(t *testing.T) {
	s := open(t, Options{})
	ctx := context.Background()
	b := s.Blobs("certs")
	_, err := b.Get(ctx, "a")
	if wantCode(t, err, infer.CodeNotFound); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("get: %v", err)
	}
	for i := range 5 {
		if err := b.Put(ctx, fmt.Sprint("dir/", i), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Put(ctx, "dir/2", nil); err != nil { // replaced, empty
		t.Fatal(err)
	}
	if v, err := b.Get(ctx, "dir/2"); err != nil || len(v.Value) != 0 || v.Modified.IsZero() {
		t.Errorf("%+v, %v", v, err)
	}
	if err := b.PutNew(ctx, "dir/1", []byte("x")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("putnew: %v", err)
	}
	if err := b.PutNew(ctx, "other", []byte("x")); err != nil {
		t.Error(err)
	}
	list := func(prefix, after string, limit int) string {
		l, err := b.List(ctx, prefix, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, v := range l {
			out = append(out, v.Key)
		}
		return strings.Join(out, " ")
	}
	for got, want := range map[string]string{
		list("dir/", "", 0):      "dir/0 dir/1 dir/2 dir/3 dir/4",
		list("dir/", "dir/1", 2): "dir/2 dir/3",
		list("", "dir/4", 0):     "other",
		list("none", "", 0):      "",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := b.Delete(ctx, "dir/0"); err != nil {
		t.Error(err)
	}
	if err := b.Delete(ctx, "dir/0"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("delete: %v", err)
	}
	wantCode(t, b.Put(ctx, "", nil), infer.CodeInvalid)
	wantCode(t, b.Put(ctx, strings.Repeat("k", 1025), nil), infer.CodeInvalid)
	wantCode(t, b.Put(ctx, "big", make([]byte, MaxBlobBytes+1)), infer.CodeTooLarge)
	if err := b.Put(ctx, "big", make([]byte, MaxBlobBytes)); err != nil {
		t.Error(err)
	}
	if _, err := s.Blobs("certs2").Get(ctx, "other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("buckets are not apart: %v", err)
	}
}
