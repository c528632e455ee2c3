// Package pipetest provides one end of a pipe for tests. It sends lines, collects the lines
// that arrive, and compares them with patterns.
//
// It is for tests in a testing/synctest bubble. Say and Heard wait until all other goroutines in
// the bubble are blocked. The package imports testing, so only tests may import it.
package pipetest

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Scan parses a message. If the message is not valid, Scan fails the test.
func Scan(t testing.TB, s string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(s), jsonrpc.Limits{Tolerant: true})
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return m
}

// Wire is one end of a pipe in a synctest bubble. It keeps the lines that arrive until Heard
// returns them.
type Wire struct {
	t    *testing.T
	Pipe transport.Pipe

	mu  sync.Mutex
	got []string
	end error
}

// Tap returns a Wire that reads a pipe until the pipe ends.
func Tap(t *testing.T, p transport.Pipe, reading *sync.WaitGroup) *Wire {
	w := &Wire{t: t, Pipe: p}
	reading.Go(func() {
		for {
			m, err := p.Read()
			var batch *transport.Batch
			line := ""
			switch {
			case errors.As(err, &batch):
				line = string(batch.Raw)
			case err != nil:
				w.mu.Lock()
				w.end = err
				w.mu.Unlock()
				return
			default:
				line = string(m.Raw)
			}
			w.mu.Lock()
			w.got = append(w.got, line)
			w.mu.Unlock()
		}
	})
	return w
}

// Say writes lines. After each line, it waits until all other goroutines in the bubble are blocked.
func (w *Wire) Say(lines ...string) {
	w.t.Helper()
	for _, line := range lines {
		if err := w.Pipe.Write([]byte(line)); err != nil {
			w.t.Fatalf("saying %s: %v", line, err)
		}
		synctest.Wait()
	}
}

// Heard waits until all other goroutines in the bubble are blocked. Then it returns the lines that
// have arrived since the last call of Heard or Want.
func (w *Wire) Heard() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.got
	w.got = nil
	return got
}

// Want fails the test unless the lines from Heard match the patterns one by one. … in a pattern
// matches any text.
func (w *Wire) Want(patterns ...string) {
	w.t.Helper()
	got := w.Heard()
	if len(got) != len(patterns) {
		w.t.Fatalf("got %d messages, want %d:\n%s\nwant:\n%s", len(got), len(patterns), strings.Join(got, "\n"), strings.Join(patterns, "\n"))
	}
	for i, p := range patterns {
		if !Like(got[i], p) {
			w.t.Errorf("got  %s\nwant %s", got[i], p)
		}
	}
}

// Like reports whether s matches a pattern. … in the pattern matches any text.
func Like(s, pattern string) bool {
	parts := strings.Split(pattern, "…")
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	if len(parts) == 1 {
		return s == ""
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, last)
}

// Note parses the notification raw. It panics if raw is not valid.
func Note(raw string) *mcp.Note {
	m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{Bytes: len(raw) + 1, Tolerant: true})
	if err != nil {
		panic(err)
	}
	return &mcp.Note{Msg: m}
}
