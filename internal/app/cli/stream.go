package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// rejoinPause is the pause before an attempt to reconnect a broken stream of events. rejoinTries is
// the maximum number of failed attempts in a row.
const (
	rejoinPause = time.Second
	rejoinTries = 5
)

// printError is an error that occurred while an event was printed.
type printError struct{ err error }

func (e *printError) Error() string { return e.err.Error() }

// taking returns the function take of a stream that decodes each event with the given name and prints it.
func taking[T any](event string, print func(*T) error) func(name string, data []byte) error {
	return func(name string, data []byte) error {
		if name != event {
			return nil
		}
		var x T
		if err := json.Unmarshal(data, &x); err != nil {
			return fmt.Errorf("cannot read an event: %w", err)
		}
		if err := print(&x); err != nil {
			return &printError{err}
		}
		return nil
	}
}

// stream is a stream of events of a serve process.
type stream struct {
	from  *running
	path  string
	query url.Values
	take  func(name string, data []byte) error // gets each event

	began    bool
	failures int    // in a row
	last     string // the id of the last event received; "" if there is none yet
}

// follow passes on the events of a stream until ctx ends or the serve process stops. If the connection
// breaks or s.take returns an error, it reconnects and continues after the last event. It returns an
// error if the first connection fails, after rejoinTries failures in a row, or if s.take returns a
// *printError.
func (s *stream) follow(ctx context.Context, w *world) error {
	for {
		ended, err := s.read(ctx, w)
		var written *printError
		switch {
		case ended:
			if !w.quiet {
				w.status.Printf("serve at %s has stopped", s.from.address)
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &written):
			return written.err
		case !s.began || s.failures >= rejoinTries:
			return err
		}
		s.failures++
		if err := work.Sleep(ctx, rejoinPause); err != nil {
			return err
		}
	}
}

// read opens one connection and reads its events. ended is true if the serve process is stopping.
func (s *stream) read(ctx context.Context, w *world) (ended bool, err error) {
	header := []string{"Accept", "text/event-stream"}
	if s.last != "" {
		header = append(header, "Last-Event-ID", s.last)
	}
	resp, err := s.from.get(ctx, s.path, s.query, header...)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	s.began, s.failures = true, 0
	in := eventstream.NewReader(resp.Body, eventstream.Limits{})
	for {
		e, err := in.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = &absentError{"the connection to `dragoman serve` at " + s.from.address + " ended", ""}
			}
			return false, err
		}
		if e.Name == admin.EventEnd {
			return true, nil
		}
		if e.HasID {
			s.last = e.ID
		}
		s.failures = 0
		if e.Name == admin.EventMissing {
			var x admin.Missing
			if json.Unmarshal(e.Data, &x) == nil {
				w.tellMissing([]admin.Missing{x}, "what it has is missing until it answers again")
			}
			continue
		}
		if err := s.take(e.Name, e.Data); err != nil {
			return false, err
		}
	}
}
