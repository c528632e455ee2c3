package fake

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// pipeWire is the connection to a server on stdio, with one message per line (§stdio of all
// revisions).
type pipeWire struct {
	c     *Client
	cmd   *exec.Cmd // the process; nil for a server that the caller has started
	in    io.WriteCloser
	out   io.ReadCloser
	reads sync.WaitGroup

	writing sync.Mutex // held while a line is written
}

func (c *Client) spawn(at Where) (wire, error) {
	p := &pipeWire{c: c}
	var err error
	if p.cmd, p.in, p.out, err = startChild(at, c.o.Stderr); err != nil {
		return nil, err
	}
	p.reads.Go(p.read)
	return p, nil
}

// startChild starts the server at.Command as a child process.
func startChild(at Where, stderr io.Writer) (cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser, err error) {
	cmd = exec.Command(at.Command[0], at.Command[1:]...)
	cmd.Env = append(os.Environ(), at.Env...)
	cmd.Stderr = stderr
	// After the child exits, one of its own children may keep stderr open. WaitDelay bounds the
	// wait for the end of stderr.
	cmd.WaitDelay = clientPatience
	if in, err = cmd.StdinPipe(); err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("cannot start the server: %w", err)
	}
	return cmd, in, out, nil
}

func (c *Client) join(out io.ReadCloser, in io.WriteCloser) wire {
	p := &pipeWire{c: c, in: in, out: out}
	p.reads.Go(p.read)
	return p
}

func (p *pipeWire) read() {
	lines := newLines(p.out)
	for lines.Scan() {
		p.c.receive(bytes.Clone(lines.Bytes()), origin{})
	}
	err := lines.Err()
	if err == nil {
		err = io.EOF
	}
	p.c.endWith(fmt.Errorf("the server's output ended: %w", err))
	_, _ = io.Copy(io.Discard, p.out) // read the rest of the output, so that the child can exit
}

// newLines returns a scanner for lines of bounded length.
func newLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage+2)
	return lines
}

func (p *pipeWire) send(_ context.Context, msg []byte, _ *pendingRequest) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.in.Write(append(msg[:len(msg):len(msg)], '\n'))
	return err
}

func (p *pipeWire) cancel(*pendingRequest) bool { return false }

// close closes the server's stdin and waits until the server closes its stdout and exits. When ctx
// ends, close kills a child that is still running.
func (p *pipeWire) close(ctx context.Context) error {
	_ = p.in.Close()
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-ended:
		case <-ctx.Done():
			if p.cmd != nil {
				_ = p.cmd.Process.Kill()
			}
			_ = p.out.Close() // a process that the child started may still hold the write end open
		}
	})
	p.reads.Wait()
	var err error
	if p.cmd != nil {
		err = p.cmd.Wait()
	}
	_ = p.out.Close()
	close(ended)
	wait.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() != nil {
		return fmt.Errorf("the server did not exit within %s after its stdin was closed", clientPatience.Round(time.Second))
	}
	return nil
}
