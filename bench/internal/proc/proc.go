// Package proc starts the processes of a measurement, and reads their CPU time and memory.
//
// The CPU time of a process is the user and system time of all its threads, including threads that
// have ended, but without its child processes. The CPU time is read from the CPU clock of the
// process (clock_getcpuclockid(3)), which counts nanoseconds, because /proc/PID/stat counts only
// hundredths of a second. The memory is the resident set. CPU time and memory are available only on
// Linux. On other systems the functions return errors, and no measurement is possible.
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
	keepSize = 1 << 10         // the number of bytes that ends keeps from the beginning of stderr, and also from its end
)

// Process is a child process that runs until Stop is called.
type Process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  ends
	done  chan struct{} // closed when Wait has returned
	err   error         // the error of Wait; may be read after done is closed
}

// Start runs path with args. The stdin of the child is a pipe that stays open until Stop is called,
// so that a server that bench starts notices when bench has exited. The stdout of the child is
// discarded. The beginning and the end of its stderr are kept for Explain. The environment of the
// child is env added to that of bench.
func Start(env []string, path string, args ...string) (*Process, error) {
	p, err := prepare(env, path, args)
	if err != nil {
		return nil, err
	}
	return p, p.start()
}

// StartPiped is like Start, but the caller talks to the child through its stdin and stdout.
func StartPiped(env []string, path string, args ...string) (*Process, io.Writer, io.Reader, error) {
	p, err := prepare(env, path, args)
	if err != nil {
		return nil, nil, nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return p, p.stdin, stdout, p.start()
}

func prepare(env []string, path string, args []string) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.said
	p.cmd.WaitDelay = time.Second // a process that the child started may keep stderr open
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	return p, err
}

func (p *Process) start() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Await waits until addr accepts a connection. If the process exits first, or after the time limit,
// Await returns an error that contains the stderr of the process.
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

// Stop terminates the process and waits until it has exited. Stop may be called more than once.
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
// crash may be in either part. It is safe for concurrent use.
type ends struct {
	mu          sync.Mutex
	first, last []byte
	dropped     bool // whether Write has dropped text between first and last
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
