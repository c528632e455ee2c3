package main

import (
	"context"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const (
	// firstSessions is the number of sessions that growth opens before it first reads the memory
	// of a process. So the result does not include memory that the process allocates only once.
	// They are so many that Dragoman gives the memory of their idle connections back to the system.
	firstSessions = 300
	// enoughSessions is the number of sessions that a result needs. If a server refuses a
	// session after it has opened at least this number, growth does not fail. Then the report
	// mentions the refusal.
	enoughSessions = 1000
)

// idleEnv makes the garbage collector run often in every server, so that the resident memory
// contains little garbage.
var idleEnv = []string{"GOGC=10"}

// measureIdle measures how the memory of a new process grows with the number of idle legacy
// sessions. It measures a plain HTTP server, and Dragoman in front of a legacy upstream.
func (s *stage) measureIdle(ctx context.Context, r *report.Report) error {
	kinds := []struct {
		server, kind string
		open         func(addr string, n int, keep *[]*load.Client) error
	}{
		{"bare", report.Connected, openConnected},
		{"dragoman", report.Connected, openConnected},
		{"bare", report.Streaming, openStreaming},
		{"dragoman", report.Streaming, openStreaming},
	}
	for _, k := range kinds {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if k.server == "dragoman" && (s.dragoman == "" || !s.wants(report.HTTP)) {
			continue
		}
		say("idle: %s, %d sessions, %s", k.server, s.idle, k.kind)
		binary, args := s.self, func(addr string) []string { return []string{"bare", "-until-eof", "-listen", addr} }
		if k.server == "dragoman" {
			c := &contestant{Who: report.Who{Path: report.HTTP}, client: words.Legacy, upstream: words.Legacy}
			binary = s.dragoman
			_, args, _ = s.arguments(c) // arguments can fail only for "dragoman serve", which needs files
		}
		row := report.Idle{Server: k.server, Kind: k.kind}
		if err := s.growth(ctx, &row, binary, args, k.open); err != nil {
			s.fail(k.server+", idle with "+k.kind, err)
			continue
		}
		r.Idles = append(r.Idles, row)
	}
	return nil
}

// growth starts one server, opens s.idle sessions and sets the result fields of row.
func (s *stage) growth(ctx context.Context, row *report.Idle, binary string, args func(string) []string, open func(string, int, *[]*load.Client) error) error {
	p, addr, err := s.launch(idleEnv, binary, args)
	if p != nil {
		defer p.Stop()
	}
	if err != nil {
		return err
	}
	var clients []*load.Client
	defer func() {
		for _, c := range clients {
			c.Close()
		}
	}()
	resident := func() (int64, error) {
		select {
		case <-time.After(s.settle):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		all, _, err := proc.Resident(p.PID())
		return all, err
	}
	for i := range firstSessions {
		if err := open(addr, i, &clients); err != nil {
			return p.Explain(err)
		}
	}
	before, err := resident()
	if err != nil {
		return err
	}
	for row.Sessions < s.idle {
		if err := open(addr, firstSessions+row.Sessions, &clients); err != nil {
			if row.Sessions < enoughSessions {
				return p.Explain(fmt.Errorf("session %d: %w", row.Sessions, err))
			}
			row.Note = fmt.Sprintf("the server refused the next session: %.80v", err)
			break
		}
		row.Sessions++
	}
	after, err := resident()
	if err != nil {
		return err
	}
	row.Bytes = float64(after-before) / float64(row.Sessions)
	return nil
}

// openConnected opens a session and keeps its connection open.
func openConnected(addr string, n int, keep *[]*load.Client) error {
	c := load.Dial(addr, words.Legacy, n%load.MaxClients)
	c.Name = "idle" // so that clients that call have a share of their own of the sessions
	*keep = append(*keep, c)
	return c.Open()
}

// openStreaming opens a session and a second connection with its event stream.
func openStreaming(addr string, n int, keep *[]*load.Client) error {
	if err := openConnected(addr, n, keep); err != nil {
		return err
	}
	all := *keep
	listener := load.Dial(addr, words.Legacy, n%load.MaxClients)
	*keep = append(all, listener)
	listener.Share(all[len(all)-1])
	ok, err := listener.Listen()
	if err == nil && !ok {
		err = fmt.Errorf("GET: the server does not offer a stream")
	}
	return err
}
