package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started; what it writes goes into a file.
type process struct {
	cmd  *exec.Cmd
	out  *os.File
	done chan struct{}
}

func (c *check) start(log string, env []string, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		out.Close()
		return nil, err
	}
	p := &process{cmd, out, make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // most are killed
		out.Close()
	}()
	c.started = append(c.started, p)
	return p, nil
}

// kill ends p at once, as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-p.done
}

// hold and goOn stop a process and let it run on.
func (p *process) hold() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) goOn() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// freeAddr is a loopback address whose port was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// freeAddrs is n different ones.
func freeAddrs(n int) ([]string, error) {
	var out []string
	var open []net.Listener
	defer func() {
		for _, l := range open {
			l.Close()
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		open, out = append(open, l), append(out, l.Addr().String())
	}
	return out, nil
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// until tries f every so often until it gives nil or the time is up.
func until(most time.Duration, f func() error) error {
	end := time.Now().Add(most)
	for {
		err := f()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// startNames runs a DNS server that answers with 127.0.0.1.
func (c *check) startNames() error {
	addrs, err := freeAddrs(2)
	if err != nil {
		return err
	}
	c.dns = addrs[0]
	p, err := c.start(c.work+"/names.log", nil, c.names, "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "",
		"-dnsserver", c.dns, "-management", addrs[1], "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "")
	if err != nil {
		return err
	}
	return until(5*time.Second, func() error {
		if p.ended() {
			return errors.New("the DNS server ended")
		}
		conn, err := net.Dial("tcp", c.dns)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// command runs the hearth program to its end.
func (s *server) command(args ...string) (string, error) {
	out, err := exec.Command(s.c.hearth, append(args, "--data", s.dir)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("hearth %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
