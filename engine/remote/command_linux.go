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
	// Image is started in place of Path, if it is not nil.
	Image *Image
	Args  []string // without the program's name
	Env   []string // nil: this process's own
	Dir   string
	// Stderr gets each line that the worker writes to its standard error or
	// output; nil drops them. Calls do not overlap.
	Stderr func(line string)
}

// Launch implements Launcher.
func (c *Command) Launch(context.Context) (Process, error) {
	p, err := c.launch()
	if err != nil && !errors.As(err, new(*StartError)) {
		err = fmt.Errorf("cannot start a worker: %w", err)
	}
	return p, err
}

func (c *Command) launch() (Process, error) {
	path := c.Path
	if path == "" && c.Image == nil {
		path = "/proc/self/exe"
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "worker")
	defer theirs.Close()
	conn, err := connOf(fds[0])
	if err != nil {
		return nil, err
	}
	in, err := nothing()
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer in.Close()
	r, w, err := os.Pipe()
	if err != nil {
		conn.Close()
		return nil, err
	}
	p := &process{conn: conn, gone: make(chan struct{})}
	run := func(path string) error {
		p.cmd = c.command(path, in, w, theirs)
		started := make(chan error, 1)
		go p.run(started)
		return <-started
	}
	if c.Image != nil {
		err = c.Image.start(highest(in, w, theirs), run)
	} else {
		err = run(path)
	}
	w.Close()
	if err != nil {
		r.Close()
		conn.Close()
		return nil, err
	}
	p.lines.Go(func() { copyLines(r, p.keepLast(c.Stderr)) })
	return p, nil
}

// nothing is an input that is at its end; a root without devices has one too.
func nothing() (*os.File, error) {
	if null, err := os.Open(os.DevNull); err == nil {
		return null, nil
	}
	r, w, err := os.Pipe()
	if err == nil {
		w.Close()
	}
	return r, err
}

// command is the process to be, with all its files.
func (c *Command) command(path string, in, out, conn *os.File) *exec.Cmd {
	cmd := exec.Command(path, c.Args...)
	if c.Image != nil {
		cmd.Args[0] = c.Image.Name // a path by descriptor would show as a number
	}
	cmd.Env, cmd.Dir = c.Env, c.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, out
	cmd.ExtraFiles = []*os.File{conn}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

// highest is the greatest descriptor of files.
func highest(files ...*os.File) (n int) {
	for _, f := range files {
		n = max(n, int(f.Fd()))
	}
	return n
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

	mu   sync.Mutex
	last string // line of its output
}

// keepLast remembers the last line that passes.
func (p *process) keepLast(pass func(string)) func(string) {
	return func(line string) {
		p.mu.Lock()
		p.last = line
		p.mu.Unlock()
		if pass != nil {
			pass(line)
		}
	}
}

// exitLoader is how a program ends that the loader of shared libraries refuses;
// what it says then is the reason.
const exitLoader = 127

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
	if x := new(exec.ExitError); errors.As(p.err, &x) && x.ExitCode() == exitLoader && p.last != "" {
		return fmt.Errorf("%w: %s", p.err, p.last)
	}
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
