package daemon

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/runtime"
	"github.com/dragoman-mcp/dragoman/internal/telemetry"
)

// ConnectOptions are the options of Connect.
type ConnectOptions struct {
	Server   config.Server
	Log      *slog.Logger
	Progress func(server, step string) // the same as RunOptions.Progress
	// runtime.ConnectOptions describes the following fields.
	Answer  func(context.Context, runtime.Question) runtime.Answer
	Pages   bool
	Roots   []string
	Refused func(method string)
	Version string
}

// Session is a session with a server, for commands. It includes its log.
type Session struct {
	*runtime.Session
	shown *telemetry.Log // logs the events of the session
	flush func()         // flushes the log
}

// Connect opens a session with a server. If it fails, the error is the reason.
func Connect(ctx context.Context, o ConnectOptions) (*Session, error) {
	limited, flush := limitLog(orDiscard(o.Log))
	o.Server.Name = nameOf(o.Server)
	events := &event.Publisher{}
	s := &Session{shown: telemetry.NewLog(events, telemetry.LogOptions{Log: limited, Step: o.Progress}), flush: flush}
	var err error
	s.Session, err = runtime.Connect(ctx, runtime.ConnectOptions{
		Server: o.Server, Log: limited, Events: events, Answer: o.Answer, Pages: o.Pages, Roots: o.Roots, Refused: o.Refused, Version: o.Version,
	})
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// Close ends the session and stops the server. It waits until both have ended.
func (s *Session) Close() error {
	s.Session.Close()
	s.end()
	return nil
}

func (s *Session) end() {
	s.shown.Close()
	s.flush()
}
