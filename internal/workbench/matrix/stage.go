package matrix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// Timeouts of a stage. A stage that works needs much less time.
const (
	openWithin = 30 * time.Second
	endWithin  = 10 * time.Second
)

// stage is the set-up for one pair: the server, Dragoman (unless direct is true), and the
// fake.Where that tells the client how to connect.
type stage struct {
	program []string  // the command line of dragoman
	direct  bool      // the client connects to the server without Dragoman
	env     []string  // environment variables for Dragoman, in addition to those of this process
	capture io.Writer // receives the messages of the client; nil for none
	where   fake.Where
	output  tail   // Dragoman's output
	report  string // a file to which stdio servers append the violations that they see; "" for other servers
	ends    []func()
}

// setStage starts all processes that a pair needs. The caller must call strike when the
// conversation is over.
func setStage(ctx context.Context, o *Options, p Pair, direct bool) (*stage, error) {
	s := &stage{program: o.Program, direct: direct}
	if o.Env != nil && !direct {
		s.env = o.Env(p)
	}
	if o.Capture != nil && !direct {
		s.capture = o.Capture(p)
	}
	if err := s.set(ctx, p); err != nil {
		s.strike()
		return nil, err
	}
	return s, nil
}

func (s *stage) set(ctx context.Context, p Pair) error {
	at, err := s.server(p)
	if err != nil || s.direct {
		s.where = at
		return err
	}
	return s.through(ctx, at, p.ClientTransport)
}

// through lets the client reach the server at a fake.Where through Dragoman.
func (s *stage) through(ctx context.Context, at fake.Where, t Transport) error {
	run := append(s.program[:len(s.program):len(s.program)], "run")
	if t != Stdio {
		run = append(run, "--listen", "127.0.0.1:0")
	}
	if at.Command != nil {
		run = append(append(run, "--"), at.Command...)
	} else {
		run = append(run, at.URL)
	}
	return s.start(ctx, run, t)
}

// start lets the client reach a Dragoman with this command line.
func (s *stage) start(ctx context.Context, run []string, t Transport) (err error) {
	if t == Stdio {
		s.where = fake.Where{Command: run, Env: s.env}
		return nil
	}
	s.where, err = s.bridge(ctx, run, t)
	return err
}

// server starts the server of a pair and returns its fake.Where. A stdio server is started by its
// client, so its fake.Where contains only the command line.
func (s *stage) server(p Pair) (fake.Where, error) {
	profile := "strict-" + p.Server.String()
	var set []string
	options := fake.Options{}
	if unresumable(p.Server, p.ServerTransport) == "" {
		// The server breaks the stream of the tool wait, so that the client must resume the stream.
		options.Set = map[string]string{"drop": dropAfter}
		set = append(set, "--set", "drop="+dropAfter)
	}
	if p.ServerTransport == Stdio {
		dir, err := os.MkdirTemp("", "dragoman-matrix-")
		if err != nil {
			return fake.Where{}, err
		}
		s.ends = append(s.ends, func() { _ = os.RemoveAll(dir) })
		s.report = filepath.Join(dir, "violations")
		set = append(set, "--report", s.report)
		return fake.Where{Command: append(append(s.program[:len(s.program):len(s.program)], "fake", profile), set...)}, nil
	}
	server, err := fake.NewServer(profile, options)
	if err != nil {
		return fake.Where{}, err
	}
	s.ends = append(s.ends, func() { _ = server.Close() })
	return s.listen(server.Handler(), p.ServerTransport)
}

var endpoint = pattern.Later(`(?:is at|connect to) (http://\S+)/mcp`)

// bridge starts Dragoman as an HTTP server and returns the fake.Where of Dragoman's endpoint.
func (s *stage) bridge(ctx context.Context, run []string, t Transport) (fake.Where, error) {
	cmd := exec.Command(run[0], run[1:]...)
	cmd.WaitDelay = endWithin
	cmd.Env = append(os.Environ(), s.env...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fake.Where{}, err
	}
	if err := cmd.Start(); err != nil {
		return fake.Where{}, fmt.Errorf("start dragoman: %w", err)
	}
	found := make(chan string, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(found)
		lines := bufio.NewScanner(stderr)
		once := false
		for lines.Scan() {
			_, _ = s.output.Write(append(lines.Bytes(), '\n'))
			if m := endpoint().FindStringSubmatch(lines.Text()); m != nil && !once {
				once = true
				found <- m[1]
			}
		}
		_, _ = io.Copy(io.Discard, stderr)
	})
	s.ends = append(s.ends, func() {
		interrupt(cmd.Process)
		kill := time.AfterFunc(endWithin, func() { _ = cmd.Process.Kill() })
		reading.Wait()
		_ = cmd.Wait()
		kill.Stop()
	})
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	select {
	case base, ok := <-found:
		if !ok {
			return fake.Where{}, fmt.Errorf("dragoman has ended: %s", s.output.String())
		}
		if t == SSE {
			return fake.Where{URL: base + "/sse"}, nil
		}
		return fake.Where{URL: base + "/mcp"}, nil
	case <-ctx.Done():
		return fake.Where{}, errors.New("dragoman did not report its address in time")
	}
}

// open opens the conversation of a pair.
func (s *stage) open(ctx context.Context, p Pair, with fake.ClientOptions) (*talk, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openWithin, fmt.Errorf("the connection did not open within %s", openWithin))
	defer cancel()
	with.Stderr, with.Capture = &s.output, s.capture
	c, err := fake.OpenClient(ctx, "strict-"+p.Client.String(), s.where, with)
	if err != nil {
		return nil, fmt.Errorf("no conversation: %w", err)
	}
	return &talk{Pair: p, c: c, direct: s.direct}, nil
}

// strike ends the processes of the stage in the reverse order of their start.
func (s *stage) strike() {
	for i := len(s.ends) - 1; i >= 0; i-- {
		s.ends[i]()
	}
	s.ends = nil
}

// reported returns the violations that stdio servers wrote when they exited. Dragoman may have
// started several servers. Before reading the report, reported ends all running processes. It does
// not remove the folder of the report; strike does.
func (s *stage) reported() []string {
	if s.report == "" {
		return nil
	}
	for len(s.ends) > 1 {
		last := len(s.ends) - 1
		s.ends[last]()
		s.ends = s.ends[:last]
	}
	raw, err := os.ReadFile(s.report)
	if err != nil {
		return nil // no violation was reported
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// tail keeps the end of the text that is written to it. It is safe for concurrent use.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const maxTail = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - maxTail; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
