package daemon

import (
	"context"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/app/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// ConnectOptions are the options of Connect.
type ConnectOptions struct {
	Server   config.Server
	Log      *slog.Logger
	Progress func(server, step string) // the same as RunOptions.Progress
	// The following fields are the fields of runtime.ConnectOptions with the same names.
	Answer  func(context.Context, runtime.Question) runtime.Answer
	Pages   bool
	Roots   []string
	Refused func(method string)
	Rules   *config.Snapshot
	Gate    runtime.Gate
	Version string
	// Desk signs the user in at a server of the project; "" means default. Desk may be nil.
	Desk    *Desk
	Project string
}

// Session is a client's session with a server, for commands such as call. It also logs the events
// of the session.
type Session struct {
	*runtime.Session
	shown *telemetry.Log // writes the events of the session to the log
	flush func()         // flushes the log
}

// Connect opens a session with a server. If the server does not start or the handshake fails, the
// error says why.
func Connect(ctx context.Context, o ConnectOptions) (*Session, error) {
	limited, flush := limitLog(orDiscard(o.Log))
	o.Server.Name = nameOf(o.Server)
	events := &event.Publisher{}
	s := &Session{shown: telemetry.NewLog(events, telemetry.LogOptions{Log: limited, Step: o.Progress}), flush: flush}
	var err error
	s.Session, err = runtime.Connect(ctx, runtime.ConnectOptions{
		Server: o.Server, Log: s.shown.InOrder(), Events: events, Answer: o.Answer, Pages: o.Pages, Roots: o.Roots, Refused: o.Refused, Rules: o.Rules, Gate: o.Gate, Version: o.Version,
		Credentials: o.Desk.credentials(o.Project),
	})
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// Close ends the session, stops the server, and waits until the server has ended.
func (s *Session) Close() error {
	s.Session.Close()
	s.end()
	return nil
}

func (s *Session) end() {
	s.shown.Close()
	s.flush()
}
