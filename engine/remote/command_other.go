//go:build !linux

package remote

import (
	"context"
	"errors"
	"net"
)

// WorkerFD is the descriptor of the connection in a worker.
const WorkerFD = 3

// Command starts worker processes, which only Linux offers the means for here.
type Command struct {
	Path   string
	Image  *Image
	Args   []string
	Env    []string
	Dir    string
	Stderr func(line string)
}

// ErrNoWorkers says that this system cannot have worker processes.
var errNoWorkers = errors.New("cannot start a worker: worker processes need Linux")

// Launch implements Launcher.
func (c *Command) Launch(context.Context) (Process, error) { return nil, errNoWorkers }

// Inherited is the worker's end of the connection.
func Inherited() (net.Conn, error) { return nil, errNoWorkers }

// RunOnce runs the command to its end.
func (c *Command) RunOnce(context.Context) ([]byte, error) { return nil, errNoWorkers }
