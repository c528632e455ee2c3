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

// pipeRoad is a child on standard streams: one message, one line (§stdio of all
// revisions).
type pipeRoad struct {
	c     *Client
	cmd   *exec.Cmd // nil for a server that somebody else has started
	in    io.WriteCloser
	out   io.ReadCloser
	reads sync.WaitGroup

	writing sync.Mutex // held while a line is written
}

func (c *Client) spawn(at Where) (road, error) {
	p := &pipeRoad{c: c}
	var err error
	if p.cmd, p.in, p.out, err = startChild(at, c.o.Stderr); err != nil {
		return nil, err
	}
	p.reads.Go(p.read)
	return p, nil
}

// startChild starts a server on standard streams.
func startChild(at Where, stderr io.Writer) (cmd *exec.Cmd, in io.WriteCloser, out io.ReadCloser, err error) {
	cmd = exec.Command(at.Command[0], at.Command[1:]...)
	cmd.Env = append(os.Environ(), at.Env...)
	cmd.Stderr = stderr
	// What the child leaves behind may hold its standard error open.
	cmd.WaitDelay = clientPatience
	if in, err = cmd.StdinPipe(); err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("start the server: %w", err)
	}
	return cmd, in, out, nil
}

func (c *Client) join(out io.ReadCloser, in io.WriteCloser) road {
	p := &pipeRoad{c: c, in: in, out: out}
	p.reads.Go(p.read)
	return p
}

func (p *pipeRoad) read() {
	lines := newLines(p.out)
	for lines.Scan() {
		p.c.receive(bytes.Clone(lines.Bytes()), lane{})
	}
	err := lines.Err()
	if err == nil {
		err = io.EOF
	}
	p.c.over(fmt.Errorf("the server's output ended: %w", err))
	_, _ = io.Copy(io.Discard, p.out) // so that it can still end
}

// newLines reads lines of bounded length.
func newLines(r io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	return lines
}

func (p *pipeRoad) send(_ context.Context, msg []byte, _ *flight) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err := p.in.Write(append(msg[:len(msg):len(msg)], '\n'))
	return err
}

func (p *pipeRoad) cancel(*flight) bool { return false }

// close ends the input and waits; a child that stays is killed.
func (p *pipeRoad) close(ctx context.Context) error {
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
			_ = p.out.Close() // a grandchild may hold the other end
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
		return fmt.Errorf("the server did not end within %s of its input's end", clientPatience.Round(time.Second))
	}
	return nil
}
