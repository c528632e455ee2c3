package cli

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/workbench/tape"
)

// Backend contains the functions that the commands call. Daemon returns the backend of the real
// program. Tests use other backends. All functions must be set.
type Backend struct {
	Run     func(context.Context, daemon.RunOptions) error
	Serve   func(context.Context, daemon.ServeOptions) error
	Connect func(context.Context, daemon.ConnectOptions) (Session, error)
	Record  func(context.Context, daemon.RecordOptions) (exitCode int, err error)
	Replay  func(context.Context, daemon.ReplayOptions) ([]tape.Difference, error)
}

// Daemon returns the backend of the real program. Its functions open the stdin and stdout of the
// process themselves, so no other code may use them.
func Daemon() Backend {
	return Backend{
		Run:   daemon.Run,
		Serve: daemon.Serve,
		Connect: func(ctx context.Context, o daemon.ConnectOptions) (Session, error) {
			s, err := daemon.Connect(ctx, o)
			if err != nil {
				return nil, err // an interface value that contains a nil *daemon.Session would not be nil
			}
			return s, nil
		},
		Record: daemon.Record,
		Replay: daemon.Replay,
	}
}

// Session is a session with a server. *daemon.Session implements it.
type Session interface {
	// List returns a list of the server. kind is "tools", "resources", "prompts" or "templates".
	List(ctx context.Context, kind string) (runtime.List, error)
	// Call calls a tool and returns the raw result. args is a JSON object.
	Call(ctx context.Context, tool string, args []byte, onProgress func(progress, total float64, message string)) ([]byte, error)
	// Request sends a request other than tools/call and returns the raw result. params is a JSON
	// object.
	Request(ctx context.Context, method string, params []byte) ([]byte, error)
	// Describe returns the description that the server gives of itself.
	Describe(ctx context.Context) (runtime.Description, error)
	Close() error
}
