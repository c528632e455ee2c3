package cli

import (
	"context"
	"io"
	"log/slog"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/tape"
)

// Backend is what the commands call. All of it is set.
type Backend struct {
	Run     func(context.Context, RunOptions) error
	Serve   func(context.Context, ServeOptions) error
	Connect func(context.Context, ConnectOptions) (Session, error)
	Record  func(context.Context, RecordOptions) (exitCode int, err error)
	Replay  func(context.Context, ReplayOptions) ([]tape.Difference, error)
}

// RunOptions are those of one server that is offered under its own names.
type RunOptions struct {
	Server config.Server
	Listen string // "" means standard input and output
	Log    *slog.Logger
	// Progress hears what is being done while a person waits; an empty step says
	// that it is over. It may be called by any goroutine.
	Progress func(server, step string)
	// Trace hears how the handshakes with the server went. Nil when nobody wants to
	// know.
	Trace   func(server, trace string)
	Stdin   io.Reader
	Stdout  io.Writer
	Ready   func(url string) // called once when it listens; not on stdio
	Version string
}

// ServeOptions are those of many servers behind one endpoint.
type ServeOptions struct {
	ConfigPath string // to watch; "" when there is no file
	Config     *config.Snapshot
	Listen     string // in place of the configuration's; "" leaves that
	Stdio      bool   // serve a client on standard input and output as well
	Log        *slog.Logger
	Progress   func(server, step string)  // as in RunOptions
	Trace      func(server, trace string) // as in RunOptions
	Stdin      io.Reader
	Stdout     io.Writer
	Ready      func(Endpoints) // called once when it listens
	Dump       io.Writer       // where SIGUSR1 writes how everything is
	Version    string
}

// Endpoints are where serve can be reached. An empty one does not exist.
type Endpoints struct {
	MCP     string // the URL to give to clients
	Console string // the URL to open in a browser
}

// RecordOptions are those of a conversation that is written down.
type RecordOptions struct {
	Server config.Server
	Listen string    // where the client of a server at a URL finds it
	Tape   io.Writer // not closed
	About  string    // prose that the tape begins with
	Log    *slog.Logger
	Stderr io.Writer        // what a child says there
	Ready  func(url string) // called once when it listens; not for a command
}

// ReplayOptions are those of a conversation that is played.
type ReplayOptions struct {
	Tape   *tape.Tape
	Server *config.Server // nil plays the server's side
	Listen string         // "" plays that on standard streams
	tape.Options
	Log    *slog.Logger
	Stderr io.Writer        // as in RecordOptions
	Ready  func(url string) // called once when it listens
}

// ConnectOptions are those of one conversation with a server.
type ConnectOptions struct {
	Server   config.Server
	Log      *slog.Logger
	Progress func(server, step string) // as in RunOptions
	// Answer answers a question of the server: its message, and the schema of the
	// form that it wants filled in. content is the form, JSON, when action is
	// "accept"; other actions are "decline" and "cancel". Nil means that the
	// server is told that nobody can be asked.
	Answer  func(message string, schema []byte) (content []byte, action string)
	Version string
}

// Session is a conversation with a server.
type Session interface {
	// List returns the list of "tools", "resources", "prompts" or "templates".
	List(ctx context.Context, kind string) (List, error)
	// Call calls a tool with args, a JSON object, and returns the raw result.
	Call(ctx context.Context, tool string, args []byte, onProgress func(progress, total float64, message string)) ([]byte, error)
	Close() error
	// Trace tells how the conversation was opened, a line for each step.
	Trace() string
}

// List is a list of all pages.
type List struct {
	Items [][]byte // raw objects
	// Starting and Failed are servers behind a gateway of which nothing is in the list:
	// those that may still come, and those that could not be read. They are a peer's words.
	Starting, Failed []string
	Changes          bool // the server tells of changes of the list
}
