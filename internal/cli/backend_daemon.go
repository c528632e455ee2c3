package cli

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/daemon"
	"github.com/dragoman-mcp/dragoman/internal/tape"
)

// Daemon returns the backend that really does it. It uses the standard streams of
// the process by itself, in order to keep others from writing to them; what the
// options say of them is for tests.
func Daemon() Backend {
	return Backend{
		Run: func(ctx context.Context, o RunOptions) error {
			return daemon.Run(ctx, daemon.RunOptions{
				Server: o.Server, Listen: o.Listen, Log: o.Log, Progress: o.Progress, Trace: o.Trace,
				Ready: o.Ready, Version: o.Version,
			})
		},
		Serve: func(ctx context.Context, o ServeOptions) error {
			return daemon.Serve(ctx, daemon.ServeOptions{
				ConfigPath: o.ConfigPath, Config: o.Config, Listen: o.Listen, Stdio: o.Stdio,
				Log: o.Log, Progress: o.Progress, Trace: o.Trace,
				Ready:   func(mcp string) { o.Ready(Endpoints{MCP: mcp}) },
				Version: o.Version, Dump: o.Dump,
			})
		},
		Connect: func(ctx context.Context, o ConnectOptions) (Session, error) {
			s, err := daemon.Connect(ctx, daemon.ConnectOptions{
				Server: o.Server, Log: o.Log, Progress: o.Progress, Answer: o.Answer, Version: o.Version,
			})
			if err != nil {
				return nil, err // and not a *daemon.Session that is nil
			}
			return daemonSession{s}, nil
		},
		Record: func(ctx context.Context, o RecordOptions) (int, error) {
			return daemon.Record(ctx, daemon.RecordOptions{
				Server: o.Server, Listen: o.Listen, Tape: o.Tape, About: o.About, Log: o.Log, Stderr: o.Stderr, Ready: o.Ready,
			})
		},
		Replay: func(ctx context.Context, o ReplayOptions) ([]tape.Difference, error) {
			return daemon.Replay(ctx, daemon.ReplayOptions{
				Tape: o.Tape, Server: o.Server, Listen: o.Listen, Options: o.Options, Log: o.Log, Stderr: o.Stderr, Ready: o.Ready,
			})
		},
	}
}

// daemonSession makes a *daemon.Session what the commands ask for.
type daemonSession struct{ *daemon.Session }

func (s daemonSession) List(ctx context.Context, kind string) (List, error) {
	l, err := s.Session.List(ctx, kind)
	return List(l), err
}
