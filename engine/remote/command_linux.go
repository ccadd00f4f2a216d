package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// WorkerFD is the descriptor of the connection in a worker.
const WorkerFD = 3

// workerOOMScore is added to a worker's badness, of 1000, when memory is out.
const workerOOMScore = "500"

// maxStderrLine bounds a line that a worker writes; the rest is cut.
const maxStderrLine = 8 << 10

// Command starts a worker process with a socketpair as its descriptor 3. The
// worker is killed by the kernel when this process ends, and has its own
// process group, so that an interrupt from the terminal leaves it to us.
type Command struct {
	// Path of the program; "" is this program itself by /proc/self/exe, which
	// stays the same build when the file has been replaced on disk.
	Path string
	Args []string // without the program's name
	Env  []string // nil: this process's own
	Dir  string
	// Stderr gets each line that the worker writes to its standard error or
	// output; nil drops them. Calls do not overlap.
	Stderr func(line string)
}

// Launch implements Launcher.
func (c *Command) Launch(context.Context) (Process, error) {
	path := c.Path
	if path == "" {
		path = "/proc/self/exe"
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("cannot start a worker: %w", err)
		}
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot start a worker: socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "worker")
	defer theirs.Close()
	conn, err := connOf(fds[0])
	if err != nil {
		return nil, fmt.Errorf("cannot start a worker: %w", err)
	}
	cmd := exec.Command(path, c.Args...)
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	r, w, err := os.Pipe()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot start a worker: %w", err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	p := &process{conn: conn, cmd: cmd, gone: make(chan struct{})}
	started := make(chan error, 1)
	go p.run(started)
	err = <-started
	w.Close()
	if err != nil {
		r.Close()
		conn.Close()
		return nil, fmt.Errorf("cannot start a worker: %w", err)
	}
	p.lines.Go(func() { copyLines(r, c.Stderr) })
	return p, nil
}

// connOf makes a connection of a socket, which it takes over.
func connOf(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "worker")
	defer f.Close() // FileConn has a copy
	return net.FileConn(f)
}

// Inherited is the worker's end: descriptor 3.
func Inherited() (net.Conn, error) {
	if _, err := unix.FcntlInt(WorkerFD, unix.F_GETFD, 0); err != nil {
		return nil, fmt.Errorf("cannot be a worker: descriptor %d: %w", WorkerFD, err)
	}
	unix.CloseOnExec(WorkerFD)
	conn, err := connOf(WorkerFD)
	if err != nil {
		return nil, fmt.Errorf("cannot be a worker: descriptor %d: %w", WorkerFD, err)
	}
	return conn, nil
}

// process is a running Command.
type process struct {
	conn  net.Conn
	cmd   *exec.Cmd
	lines sync.WaitGroup // the reader of its output
	gone  chan struct{}  // closed when it was reaped
	err   error          // how it ended, after gone
}

// run starts the process and waits for it on one thread: the kernel sends the
// parent-death signal when the thread that forked ends, not the process.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err == nil {
		// Out of memory, the kernel should take the worker, not the gateway.
		// Raising the score needs no privilege; where it fails, nothing is lost.
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.cmd.Process.Pid), []byte(workerOOMScore), 0)
	}
	started <- err
	if err != nil {
		return
	}
	p.err = p.cmd.Wait()
	close(p.gone)
}

func (p *process) Conn() net.Conn { return p.conn }

func (p *process) Kill() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func (p *process) Wait() error {
	<-p.gone
	p.conn.Close()
	p.lines.Wait()
	return p.err
}

// PID is the process id.
func (p *process) PID() int { return p.cmd.Process.Pid }

// copyLines reads lines until the other end is closed.
func copyLines(r *os.File, f func(string)) {
	defer r.Close()
	b := bufio.NewReaderSize(r, maxStderrLine)
	for {
		line, more, err := b.ReadLine()
		if len(line) > 0 && f != nil {
			f(string(line))
		}
		for more && err == nil {
			_, more, err = b.ReadLine()
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && f != nil {
				f(fmt.Sprintf("cannot read the worker's output: %v", err))
			}
			return
		}
	}
}
