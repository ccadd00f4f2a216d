// Package decodetest reads what package otlp writes with the protocol's own
// generated code. It is a module of its own, so that the product does not
// depend on that.
package decodetest

import (
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"hearth/appliance/otlp"
)

// noUnknown fails if a message holds fields that the protocol does not have.
func noUnknown(t *testing.T, m protoreflect.Message) {
	t.Helper()
	if len(m.GetUnknown()) > 0 {
		t.Errorf("%s holds unknown fields", m.Descriptor().FullName())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				noUnknown(t, v.List().Get(i).Message())
			}
		default:
			noUnknown(t, v.Message())
		}
		return true
	})
}

func TestDecode(t *testing.T) {
	start, end := time.Unix(1_700_000_000, 5), time.Unix(1_700_000_001, 6)
	in := []otlp.Span{
		{
			Trace: [16]byte{1, 15: 2}, ID: [8]byte{3}, Parent: [8]byte{4}, State: "a=b", Sampled: true, Name: "chat m", Kind: otlp.Server, Start: start, End: end,
			Attrs: []otlp.Attr{otlp.String("s", "v"), otlp.String("empty", ""), otlp.Int("i", -7), otlp.Float("f", 1.5), otlp.Bool("t", true), otlp.Bool("n", false),
				otlp.Strings("l", "x", "")},
			Events: []otlp.Event{{At: end, Name: "e", Attrs: []otlp.Attr{otlp.Int("k", 1)}}}, Failed: true, Message: "no",
		},
		{Trace: [16]byte{1}, ID: [8]byte{5}, Name: "root", Kind: otlp.Internal, Start: start, End: end},
	}
	b := otlp.Encode(nil, &otlp.Resource{Attrs: []otlp.Attr{otlp.String("service.name", "hearth")}, Library: "lib", Version: "1"}, in)
	var out collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	noUnknown(t, out.ProtoReflect())
	rs := out.ResourceSpans[0]
	if rs.Resource.Attributes[0].Key != "service.name" || rs.Resource.Attributes[0].Value.GetStringValue() != "hearth" ||
		rs.ScopeSpans[0].Scope.Name != "lib" || rs.ScopeSpans[0].Scope.Version != "1" || len(rs.ScopeSpans[0].Spans) != 2 {
		t.Fatalf("got %v", rs)
	}
	s, root := rs.ScopeSpans[0].Spans[0], rs.ScopeSpans[0].Spans[1]
	if string(s.TraceId) != string(in[0].Trace[:]) || string(s.SpanId) != string(in[0].ID[:]) || string(s.ParentSpanId) != string(in[0].Parent[:]) ||
		s.TraceState != "a=b" || s.Name != "chat m" || s.Kind != trace.Span_SPAN_KIND_SERVER || s.Flags != 1 ||
		s.StartTimeUnixNano != uint64(start.UnixNano()) || s.EndTimeUnixNano != uint64(end.UnixNano()) {
		t.Errorf("got %v", s)
	}
	if s.Status.Code != trace.Status_STATUS_CODE_ERROR || s.Status.Message != "no" || len(s.Events) != 1 || s.Events[0].Name != "e" ||
		s.Events[0].TimeUnixNano != uint64(end.UnixNano()) || s.Events[0].Attributes[0].Value.GetIntValue() != 1 {
		t.Errorf("got %v", s)
	}
	a := s.Attributes
	if len(a) != 7 || a[0].Value.GetStringValue() != "v" || a[1].Value.Value == nil || a[2].Value.GetIntValue() != -7 || a[3].Value.GetDoubleValue() != 1.5 ||
		!a[4].Value.GetBoolValue() || a[5].Value.Value == nil || len(a[6].Value.GetArrayValue().Values) != 2 || a[6].Value.GetArrayValue().Values[1].Value == nil {
		t.Errorf("attributes %v", a)
	}
	if len(root.ParentSpanId) != 0 || root.Status != nil || root.Kind != trace.Span_SPAN_KIND_INTERNAL {
		t.Errorf("got %v", root)
	}
}
