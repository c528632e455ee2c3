package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// row is a client of the table. column is a server.
type row struct {
	sdk, revision, transport string // revision "" means that the SDK chooses
}

func (r row) String() string {
	rev := r.revision
	if rev == "" {
		rev = "default"
	}
	return r.sdk + " " + rev + " " + r.transport
}

type column struct {
	sdk, era, transport string
	// pin makes Dragoman use only era, because the SDK has no setting for it.
	pin bool
}

func (c column) String() string { return c.sdk + " " + c.era + " " + c.transport }

// start starts the server. It returns the place of the server, and a function that stops it.
func (c column) start(wit *witness) (at place, end func()) {
	if c.transport == pipe {
		return place{transport: pipe, command: func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), envServer+"="+c.sdk+" "+c.era, envWitness+"="+wit.http.URL)
			return cmd
		}}, func() {}
	}
	h, endSessions := sdks[c.sdk].serveHTTP(c.era, c.transport, wit)
	s := httptest.NewServer(h)
	return place{transport: c.transport, url: s.URL}, func() {
		endSessions()
		s.CloseClientConnections()
		s.Close()
	}
}

// server returns the configuration with which Dragoman reaches the server at a place.
func (c column) server(at place, wit *witness) (config.Server, error) {
	s := config.Server{Name: "interop", URL: at.url}
	switch {
	case at.command != nil:
		s.Command = os.Args[0]
		s.Env = map[string]config.Secret{
			envServer: config.NewSecret(c.sdk + " " + c.era), envWitness: config.NewSecret(wit.http.URL),
		}
	case c.transport == events:
		s.Kind = config.KindSSE
	default:
		s.Kind = config.KindHTTP
	}
	if c.pin {
		s.Revision, _ = mcp.ParseRevision(c.era)
	}
	s, problem := config.Complete(s)
	if problem != nil {
		return s, errors.New(problem.String())
	}
	return s, nil
}

// bridge starts Dragoman in front of the server, for a client of the row. end stops Dragoman
// and returns its error.
func bridge(r row, s config.Server, log io.Writer) (at place, end func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	o := daemon.RunOptions{Server: s, Version: "interop", Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	o.Trace = func(_, trace string) { fmt.Fprintln(log, trace) }
	var pipes []io.Closer
	ready := make(chan string, 1)
	at.transport = r.transport
	if r.transport == pipe {
		fromClient, toUs := io.Pipe()
		fromUs, toClient := io.Pipe()
		at.in, at.out = fromUs, toUs
		o.Stdin, o.Stdout = fromClient, toClient
		pipes = []io.Closer{toUs, fromUs, fromClient, toClient}
		ready <- ""
	} else {
		o.Listen = "127.0.0.1:0"
		o.Ready = func(url string) { ready <- url }
	}
	done := make(chan error, 1)
	go func() { done <- daemon.Run(ctx, o) }() // end waits for this goroutine
	end = func() error {
		for _, p := range pipes {
			_ = p.Close()
		}
		began := time.Now()
		cancel()
		select {
		case err := <-done:
			if took := time.Since(began); err == nil && took > 9*time.Second {
				return fmt.Errorf("Dragoman needed %v to end", took)
			}
			return err
		case <-time.After(30 * time.Second):
			return errors.New("Dragoman does not end")
		}
	}
	select {
	case url := <-ready:
		if r.transport == events {
			url = strings.TrimSuffix(url, "/mcp") + "/sse"
		}
		at.url = url
		return at, end, nil
	case err := <-done:
		cancel()
		return at, nil, fmt.Errorf("Dragoman did not start: %w", err)
	}
}

// outcome has the error of each step that was taken.
type outcome map[string]error

func (o outcome) failed() (names []string) {
	for i := range steps {
		if o[steps[i].name] != nil {
			names = append(names, steps[i].name)
		}
	}
	if o["end"] != nil {
		names = append(names, "end")
	}
	return names
}

// trials counts the trials, so that the events of each trial have their own names.
var trials atomic.Int64

// take connects a client and a server, through Dragoman or directly. It runs the steps in
// only, or all steps. If the connection fails, every step fails.
func take(wit *witness, r row, c column, direct bool, log io.Writer, only ...string) outcome {
	return takeAnd(wit, r, c, direct, log, nil, only...)
}

// takeAnd does the same as take, and calls last with the client before the client is closed.
func takeAnd(wit *witness, r row, c column, direct bool, log io.Writer, last func(client), only ...string) outcome {
	out := make(outcome)
	t := &trial{wit: wit, key: fmt.Sprintf("%d %v %v", trials.Add(1), r, c), row: r, col: c, direct: direct}
	chosen := func(s *step) bool {
		return s.applies(r, c) && (len(only) == 0 || slices.Contains(only, s.name))
	}
	fail := func(err error) outcome {
		for i := range steps {
			if chosen(&steps[i]) {
				out[steps[i].name] = err
			}
		}
		return out
	}
	at, end := c.start(wit)
	defer end()
	if !direct {
		s, err := c.server(at, wit)
		if err != nil {
			return fail(err)
		}
		var stop func() error
		if at, stop, err = bridge(r, s, log); err != nil {
			return fail(err)
		}
		defer func() {
			if err := stop(); err != nil {
				out["end"] = err
			}
		}()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*stepLimit)
	defer cancel()
	var err error
	if t.client, err = sdks[r.sdk].connect(ctx, at, r.revision); err != nil {
		return fail(fmt.Errorf("connect: %w", err))
	}
	defer func() { _ = t.client.close() }()
	for i := range steps {
		s := &steps[i]
		if !chosen(s) {
			continue
		}
		limit := stepLimit
		if l := limitOf(r, c, s.name); l != nil && l.silent {
			if limit = silentLimit; !direct {
				out[s.name] = errSilent
				continue
			}
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("no end within %v", limit))
		out[s.name] = s.run(ctx, t)
		cancel()
	}
	if last != nil {
		last(t.client)
	}
	return out
}
