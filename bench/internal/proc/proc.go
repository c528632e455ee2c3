// Package proc starts the processes of a measurement, and asks the operating
// system what they cost.
//
// CPU time is user plus system of all threads of one process, ended ones
// included, children not: the clock that the kernel keeps for every process
// (clock_getcpuclockid(3)), which counts nanoseconds where /proc/PID/stat counts
// hundredths of a second. Memory is the resident set. Both exist on Linux only;
// elsewhere the functions fail and nothing can be measured.
package proc

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	stopWait = 5 * time.Second // from SIGTERM to SIGKILL
	keepSize = 1 << 10         // bytes of stderr that are kept, of its beginning and of its end
)

// Process is a child that runs until Stop.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  ends
	done  chan struct{} // closed once the process was waited for
	err   error         // of Wait; read after done
}

// Start runs path with args. Its stdin is a pipe that stays open until Stop, so
// that a child of ours can notice when we are gone; its stdout is dropped, of its
// stderr the beginning and the end are kept. env is added to our own.
func Start(env []string, path string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.said
	p.cmd.WaitDelay = time.Second // a grandchild may hold stderr open
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// PID is the operating system's number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Await returns once addr accepts a connection, or fails with what the process
// said when it ended or the time was up.
func (p *Process) Await(addr string, limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			return p.Explain(errors.New("does not listen on " + addr))
		}
		select {
		case <-p.done:
			return p.Explain(fmt.Errorf("ended at once: %v", p.err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Explain adds to err what the process said on stderr.
func (p *Process) Explain(err error) error {
	if said := strings.Fields(p.said.String()); len(said) > 0 {
		return fmt.Errorf("%w; its stderr: %s", err, strings.Join(said, " "))
	}
	return err
}

// Stop ends the process and waits for it. Stopping twice is fine.
func (p *Process) Stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopWait):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// ends keeps the beginning and the end of what is written to it: a crash has its
// reason at the beginning, a slow death at the end. Safe for concurrent use.
type ends struct {
	mu          sync.Mutex
	first, last []byte
	dropped     bool // between first and last
}

func (e *ends) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rest := b
	if room := min(keepSize-len(e.first), len(b)); room > 0 {
		e.first, rest = append(e.first, b[:room]...), b[room:]
	}
	e.last = append(e.last, rest...)
	if cut := len(e.last) - keepSize; cut > 0 {
		e.last = append(e.last[:0], e.last[cut:]...)
		e.dropped = true
	}
	return len(b), nil
}

func (e *ends) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dropped {
		return string(e.first) + " [...] " + string(e.last)
	}
	return string(e.first) + string(e.last)
}

// FreeAddr is a loopback address where nobody listens at the moment.
func FreeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
