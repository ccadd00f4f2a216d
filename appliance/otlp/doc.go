// Package otlp sends spans by the OpenTelemetry protocol over HTTP, as protobuf
// (OTLP 1.x, opentelemetry-proto trace/v1 and collector/trace/v1). It encodes
// them itself: the SDK with its exporter would add more than seven megabytes to
// a binary of twenty-seven, for what are three messages and one POST.
//
// Sending never holds up who makes the spans: they go into a bounded queue, and
// what does not fit is dropped and counted.
package otlp
