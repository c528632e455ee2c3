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

// taking returns a function for followStream that decodes each event with the given name and prints it.
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

// followStream calls the function take with each event of a stream until ctx ends or the serve
// process stops. If the connection breaks or take returns an error, followStream reconnects and
// continues after the last event. It returns an error if the first connection fails, after
// rejoinTries failures in a row, or if take returns a *printError.
func (a *app) followStream(ctx context.Context, s *running, path string, query url.Values, take func(name string, data []byte) error) error {
	last, began := "", false
	for failures := 0; ; {
		ended, err := followOnce(ctx, s, path, query, &last, func(name string, data []byte) error {
			failures = 0
			return take(name, data)
		}, func() { began, failures = true, 0 })
		var written *printError
		switch {
		case ended:
			if !a.quiet {
				a.status.Printf("serve at %s has stopped", s.address)
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &written):
			return written.err
		case !began || failures >= rejoinTries:
			return err
		}
		failures++
		if err := work.Sleep(ctx, rejoinPause); err != nil {
			return err
		}
	}
}

// followOnce opens one connection and reads its events. *last is the id of the last event received,
// or "" if there is none yet. followOnce calls the function opened when the serve process has
// accepted the request. ended is true if the serve process is stopping.
func followOnce(ctx context.Context, s *running, path string, query url.Values, last *string, take func(name string, data []byte) error, opened func()) (ended bool, err error) {
	header := []string{"Accept", "text/event-stream"}
	if *last != "" {
		header = append(header, "Last-Event-ID", *last)
	}
	resp, err := s.get(ctx, path, query, header...)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	opened()
	in := eventstream.NewReader(resp.Body, eventstream.Limits{})
	for {
		e, err := in.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = s.absent("the connection to `dragoman serve` at " + s.address + " ended")
			}
			return false, err
		}
		if e.Name == admin.EventEnd {
			return true, nil
		}
		if e.HasID {
			*last = e.ID
		}
		if err := take(e.Name, e.Data); err != nil {
			return false, err
		}
	}
}
