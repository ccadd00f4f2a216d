package host

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"hearth/engine"
	"hearth/engine/worker/report"
)

// Everything in a Spec reaches the worker.
func TestSpec(t *testing.T) {
	var s Spec
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString("v" + v.Type().Field(i).Name)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("a field of kind %s", f.Kind())
		}
	}
	arg, err := s.Argument()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseSpec(arg)
	if err != nil || got != s {
		t.Errorf("got %+v, %v", got, err)
	}
	o := s.Options("b")
	if o.Device != "vDevice" || o.KVType != "vKVType" || o.KVBytes != s.KVBytes || o.Build != "b" || !o.NoPrefixCache || o.Context != s.Context {
		t.Errorf("got %+v", o)
	}
	if _, err := ParseSpec("{"); err == nil || !strings.Contains(err.Error(), "cannot read the options") {
		t.Errorf("got %v", err)
	}
}

// What goes wrong before the model is looked at is told as it is.
func TestPrepareFails(t *testing.T) {
	fault := report.Faultf(report.NoDriver, "", "none")
	k := Kind{Prepare: func(*engine.Options) error { return errors.New("raw") }, Explain: func(error) error { return fault }}
	if _, err := k.engine(context.Background(), engine.Options{Path: "/no/such/file"}); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
	k = Kind{}
	if _, err := k.engine(context.Background(), engine.Options{Path: "/no/such/file"}); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("got %v", err)
	}
}
