package remote

import (
	"context"
	"net"
)

// Launcher starts workers. Command is the one that starts processes; tests
// have others.
type Launcher interface {
	// Launch starts a worker. ctx bounds the start, not the worker's life.
	Launch(ctx context.Context) (Process, error)
}

// Process is a worker that was started.
type Process interface {
	// Conn is the gateway's end of the connection, which Dial shakes hands on.
	Conn() net.Conn
	// Kill ends the worker at once, however it is stuck.
	Kill() error
	// Wait returns when the worker is gone and all it held is given back; it
	// says how it ended.
	Wait() error
}
