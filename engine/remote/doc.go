// Package remote puts an infer.Backend into a process of its own.
//
// A worker process opens the backend and calls Serve on its end of a
// socketpair; the gateway has a Client on the other end, which is an
// infer.Backend too. A Supervisor starts the worker, watches it, replaces it,
// and is the infer.Backend that the rest of the program holds.
//
// The two ends speak frames (frame.go), whose payloads are Go values written
// field by field (codec.go, message.go). The gateway does not trust the worker,
// which runs foreign model files: every length is checked against what is
// there, sizes are bounded, and anything out of order ends the worker.
//
// What a connection carries, by direction:
//
//	gateway → worker   hello, ping, call, cancel, credit
//	worker → gateway   hello, beat, batch, result, failed
//
// A call opens a stream, numbered upwards by the gateway. A generate call is
// answered by batches, which hold whatever events of any streams were ready at
// once (about one batch a step), and ends with an end item in a batch; any
// other call by one result. Flow control is per stream: the worker may have
// Window bytes of events on the way, and gets credit as the consumer reads. A
// consumer that does not read stops its own stream only, after its events have
// been joined into fewer and Window more bytes of them are kept.
//
// Life is shown by beats from the worker, which carry its Health with the step
// counter: a worker that beats but makes no step while work waits is replaced
// like a dead one.
package remote

import "time"

// Version of the protocol. Both ends come from one build; the version, the
// build and a digest of the message types are compared all the same.
const Version = 1

// Bounds. A request body has at most 20 MiB, of which images and text are
// carried as they are; embeddings of 2,048 inputs are about 32 MiB.
const (
	maxPayload  = 64 << 20  // one frame
	maxBatch    = 256 << 10 // a batch is sent when it holds this much
	maxStreams  = 16 << 10  // open at once
	maxReason   = 4 << 10   // text of an error
	maxQueued   = 128 << 20 // frames that wait to be written
	windowBytes = 64 << 10  // events of a stream on their way
)

// Periods, with the relations that they need.
const (
	// DefaultBeat is how often each end shows life.
	DefaultBeat = 250 * time.Millisecond
	// DefaultSilence is after how long without a beat a worker is lost. A
	// machine whose processors are all busy delays a beat by up to a second.
	DefaultSilence = 3 * time.Second
	// minDoubt is after how long without a beat a worker is no longer called
	// ready: half of DefaultSilence.
	minDoubt = DefaultSilence / 2
	// DefaultStall is how long a worker may make no step while work waits: a
	// step with a full chunk of a prompt takes seconds on a small machine.
	DefaultStall = 60 * time.Second
	// DefaultStart is how long a worker may take to open its model.
	DefaultStart = 10 * time.Minute
	// DefaultSettled is after how long of life a worker's loss is met with the
	// shortest pause again.
	DefaultSettled = 10 * time.Second
)
