// Package proc starts the processes of a measurement, and reads their CPU time and memory.
//
// The CPU time of a process is the user and system time of all its threads, including ended
// threads, but not of its children. It comes from the kernel's clock of the process
// (clock_getcpuclockid(3)), which counts nanoseconds. /proc/PID/stat counts only hundredths of a
// second. The memory is the resident set. Both values are available only on Linux. On other systems
// the functions fail and nothing can be measured.
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
	stopWait = 5 * time.Second // the time from SIGTERM to SIGKILL
	keepSize = 1 << 10         // how many bytes of the beginning of stderr are kept, and how many of its end
)

// Process is a child that runs until Stop.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  ends
	done  chan struct{} // closed when Wait has returned
	err   error         // the error of Wait; may be read after done is closed
}

// Start runs path with args. The stdin of the process is a pipe that stays open until Stop, so that
// a server of bench notices when bench is gone. stdout is dropped. The beginning and the end of
// stderr are kept. env is added to the environment of this process.
func Start(env []string, path string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.said
	p.cmd.WaitDelay = time.Second // a child of the process may hold stderr open
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

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Await waits until addr accepts a connection. If the process ends or the limit is reached, it
// returns an error with the process's stderr.
func (p *Process) Await(addr string, limit time.Duration) error {
	end := time.Now().Add(limit)
	for {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(end) {
			return p.Explain(errors.New("the process does not listen on " + addr))
		}
		select {
		case <-p.done:
			return p.Explain(fmt.Errorf("the process exited before it listened: %v", p.err))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Explain adds the stderr of the process to err.
func (p *Process) Explain(err error) error {
	if said := strings.Fields(p.said.String()); len(said) > 0 {
		return fmt.Errorf("%w; its stderr: %s", err, strings.Join(said, " "))
	}
	return err
}

// Stop ends the process and waits for it. It may be called more than once.
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

// ends keeps the beginning and the end of the text that is written to it, because the reason for a
// crash may be in either part. Safe for concurrent use.
type ends struct {
	mu          sync.Mutex
	first, last []byte
	dropped     bool // text between first and last was dropped
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

// FreeAddr returns a loopback address at which no process listens now.
func FreeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}
