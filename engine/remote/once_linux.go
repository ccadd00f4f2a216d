package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
)

// maxOnce bounds what a program that runs once may write.
const maxOnce = 4 << 20

// RunOnce starts the command without a connection, waits for its end and gives
// what it wrote to its standard output. It is killed when ctx ends, and with
// this process.
func (c *Command) RunOnce(ctx context.Context) ([]byte, error) {
	in, err := nothing()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, errs := &capped{most: maxOnce}, &capped{most: maxStderrLine}
	run := func(path string) error {
		cmd := exec.CommandContext(ctx, path, c.Args...)
		if c.Image != nil {
			cmd.Args[0] = c.Image.Name
		}
		cmd.Env, cmd.Dir = c.Env, c.Dir
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		ended := make(chan error, 1)
		go func() { // the signal is tied to the thread that forks
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ended <- cmd.Run()
		}()
		return <-ended
	}
	switch {
	case c.Image != nil:
		// Pipes are made by os/exec: far fewer than the descriptors that are spared.
		err = c.Image.start(int(in.Fd()), run)
	case c.Path != "":
		err = run(c.Path)
	default:
		err = run("/proc/self/exe")
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it did not end in time: %w", ctx.Err())
	case out.over:
		return nil, fmt.Errorf("it wrote more than %d bytes", maxOnce)
	case err != nil && errs.kept.Len() > 0:
		return nil, fmt.Errorf("%w: %s", err, lastLine(errs.kept.String()))
	}
	return out.kept.Bytes(), err
}

// lastLine is the last line of text that says something.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// capped keeps the beginning of what is written.
type capped struct {
	kept bytes.Buffer
	most int
	over bool
}

func (c *capped) Write(b []byte) (int, error) {
	room := c.most - c.kept.Len()
	c.over = c.over || len(b) > room
	c.kept.Write(b[:min(room, len(b))])
	return len(b), nil
}

// isExit says that a program was started and ended badly by itself: another
// place to start it from would not help.
func isExit(err error) bool { return errors.As(err, new(*exec.ExitError)) }
