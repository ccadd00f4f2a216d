package web

import (
	"errors"
	"fmt"
	"time"
)

// Limits bound everything that a peer can make the server hold, and for how
// long. All of them live here, each with its reason; check holds the relations
// between them at start-up. A zero field takes its default.
type Limits struct {
	// HeaderBytes bounds the head of a request. The library's default of 1 MiB
	// is what its own maintainers call too high; no client here needs 16 KiB.
	HeaderBytes int
	// HeaderValues bounds the header values of a request. Bytes alone do not
	// bound memory: HTTP/2 spells a value of its table in one byte.
	HeaderValues int
	// HeaderTime is how long a head (and a TLS handshake) may take.
	HeaderTime time.Duration
	// IdleTime is how long a connection may wait between requests.
	IdleTime time.Duration
	// BodyBytes bounds a request body: a context of a million tokens is 5 MiB.
	BodyBytes int64
	// BodiesBytes bounds all bodies that are being held at one time.
	BodiesBytes int64
	// BodyTime is how long a body may take in all, BodyStall how long it may
	// bring nothing.
	BodyTime  time.Duration
	BodyStall time.Duration
	// WriteTime is how long one write may wait for a peer that does not read.
	WriteTime time.Duration
	// Heartbeat is the longest silence of a stream: proxies cut after 30 to
	// 60 s, and the ecosystem expects a sign every 15 s.
	Heartbeat time.Duration
	// Streams bounds the concurrent streams of an HTTP/2 connection.
	Streams int
	// Conns bounds open connections, ConnsPerAddress those of one peer. Peers
	// on loopback are not counted by address: a local proxy is one address.
	Conns           int
	ConnsPerAddress int
	// LingerBytes, LingerTime and Lingerers bound how much of a refused body is
	// read and dropped, so that a client which is still sending sees the
	// refusal and not a reset.
	LingerBytes int64
	LingerTime  time.Duration
	Lingerers   int
}

// maxHeartbeat is the silence that clients and proxies bear for certain.
const maxHeartbeat = 15 * time.Second

// DefaultLimits returns the limits in force where none are configured.
func DefaultLimits() Limits {
	return Limits{
		HeaderBytes:     16 << 10,
		HeaderValues:    100,
		HeaderTime:      10 * time.Second,
		IdleTime:        120 * time.Second,
		BodyBytes:       20 << 20,
		BodiesBytes:     256 << 20,
		BodyTime:        60 * time.Second,
		BodyStall:       15 * time.Second,
		WriteTime:       30 * time.Second,
		Heartbeat:       10 * time.Second,
		Streams:         100,
		Conns:           16_384,
		ConnsPerAddress: 64,
		LingerBytes:     128 << 20,
		LingerTime:      3 * time.Second,
		Lingerers:       64,
	}
}

// withDefaults fills what is zero.
func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	fill(&l.HeaderBytes, d.HeaderBytes)
	fill(&l.HeaderValues, d.HeaderValues)
	fill(&l.HeaderTime, d.HeaderTime)
	fill(&l.IdleTime, d.IdleTime)
	fill(&l.BodyBytes, d.BodyBytes)
	fill(&l.BodiesBytes, max(d.BodiesBytes, l.BodyBytes))
	fill(&l.BodyTime, d.BodyTime)
	fill(&l.BodyStall, min(d.BodyStall, l.BodyTime))
	fill(&l.WriteTime, d.WriteTime)
	fill(&l.Heartbeat, d.Heartbeat)
	fill(&l.Streams, d.Streams)
	fill(&l.Conns, d.Conns)
	fill(&l.ConnsPerAddress, min(d.ConnsPerAddress, l.Conns))
	fill(&l.LingerBytes, max(d.LingerBytes, l.BodyBytes))
	fill(&l.LingerTime, min(d.LingerTime, l.BodyTime))
	fill(&l.Lingerers, d.Lingerers)
	return l
}

func fill[T comparable](dst *T, def T) {
	var zero T
	if *dst == zero {
		*dst = def
	}
}

// check reports every relation that does not hold.
func (l Limits) check() error {
	var faults []error
	hold := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	hold(l.HeaderBytes >= 4<<10 && l.HeaderBytes <= 1<<20, "header bytes: got %d, wanted 4 KiB to 1 MiB", l.HeaderBytes)
	hold(l.HeaderValues >= 20, "header values: got %d, wanted 20 or more, which the SDKs send", l.HeaderValues)
	hold(l.HeaderTime > 0 && l.HeaderTime < l.IdleTime, "header time: got %s, wanted less than the idle time, %s", l.HeaderTime, l.IdleTime)
	hold(l.BodyBytes > 0 && l.BodyBytes <= l.BodiesBytes, "body bytes: got %d, wanted at most the bytes of all bodies, %d", l.BodyBytes, l.BodiesBytes)
	hold(l.BodyStall > 0 && l.BodyStall <= l.BodyTime, "body stall: got %s, wanted at most the body time, %s", l.BodyStall, l.BodyTime)
	hold(l.Heartbeat > 0 && l.Heartbeat <= maxHeartbeat, "heartbeat: got %s, wanted at most %s", l.Heartbeat, maxHeartbeat)
	hold(l.WriteTime > 0, "write time: got %s, wanted more than nothing", l.WriteTime)
	hold(l.Streams > 0 && l.Streams <= 1000, "streams: got %d, wanted 1 to 1000", l.Streams)
	hold(l.ConnsPerAddress > 0 && l.ConnsPerAddress <= l.Conns, "connections of one address: got %d, wanted at most all, %d", l.ConnsPerAddress, l.Conns)
	hold(l.LingerBytes >= l.BodyBytes, "linger bytes: got %d, wanted at least the body bytes, %d", l.LingerBytes, l.BodyBytes)
	hold(l.LingerTime > 0 && l.LingerTime <= l.BodyTime, "linger time: got %s, wanted at most the body time, %s", l.LingerTime, l.BodyTime)
	hold(l.Lingerers > 0, "lingerers: wanted 1 or more")
	if len(faults) > 0 {
		return fmt.Errorf("cannot use the web limits: %w", errors.Join(faults...))
	}
	return nil
}
