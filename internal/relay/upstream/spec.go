package upstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Isolation says which clients may share a session of a legacy server.
type Isolation string

// These are the values of Isolation. The zero value means Auto.
const (
	Auto    Isolation = "auto"   // one pool per principal and capability set
	Shared  Isolation = "shared" // one session for all clients
	PerCall Isolation = "call"   // a new session for every call
)

// Spec describes a server. A Spec must not be modified after it is passed to New.
type Spec struct {
	Name string

	// Command starts a child process on stdio. If it is empty, URL is used.
	Command string
	Args    []string
	Env     map[string]string // environment variables in addition to the inherited ones
	Dir     string
	// Vouched says that the server shall learn who sends each call. It does so if Command starts the program
	// in the file Self, which is this program's own. See [identity.Voucher].
	Vouched bool
	Self    string
	// Inherit reports whether the child inherits a variable of Dragoman's environment that is not a
	// basic variable; see stdio.Environ. If Inherit is nil, the child inherits only basic
	// variables.
	Inherit func(name string) bool

	// Pipe opens a pipe to an in-process server or to a test. If Pipe is not nil, it is called for
	// each session, and Command and URL are not used. The session owns the pipe and closes it.
	Pipe func(ctx context.Context) (transport.Pipe, error)

	// Adapter converts the child's protocol to MCP. It is nil if the child speaks MCP.
	Adapter Adapter
	// AdapterFor returns the adapter for a dialect that a handshake has detected (see
	// handshake.Error), or nil if there is no adapter for the dialect. AdapterFor may be nil.
	AdapterFor func(dialect string) Adapter

	// Unusable is the reason why Dragoman cannot open the server with its configuration. It is nil
	// if the configuration can be used. If Unusable is not nil, the server is in the state Broken
	// from the start, and Dragoman does not try to open it.
	Unusable error

	URL    string
	Shown  string // the part of Command or URL that users may see; if it is "", users see only the name
	Header []Header
	// Given says that the server was configured on the command line and not in a file. Advice to
	// the user then mentions flags.
	Given bool
	// Credentials authorise the requests of each principal to an HTTP server. If it is nil, only Header
	// is used.
	Credentials Credentials
	Kind        string // "http" or "sse"; "" means that the transport is detected
	// CAFile is a PEM file of certificate authorities that are trusted in addition to those of
	// the system, or "". The file is read for each session, so that it can be replaced.
	CAFile string

	// Runner is the package runner that Command uses, such as "npx", which may have to download the package
	// before the server starts. "" means that Command uses none.
	Runner string

	Isolation Isolation
	// OneClient says that only one client uses the server. Dragoman then declares this client's own
	// capabilities to the server.
	OneClient bool
	Pin       mcp.Revision // the only allowed revision; if it is Unknown, the revision is negotiated

	// Dialect is the dialect that the operator has configured. If it is nil, Dragoman detects which
	// of Dialects the server speaks. If Dialects is also nil, Dragoman uses the built-in dialects
	// instead.
	Dialect  *dialect.Profile
	Dialects []*dialect.Profile

	// Message is the maximum length in bytes of one message from the server. 0 means 16 MiB.
	Message int

	// Start is the timeout for opening a session, including the handshake. 0 means 30 s. Idle and
	// Hard are the timeouts of a call; see conn.Options. SetTimes changes all three.
	Start, Idle, Hard time.Duration
	// Silence applies to servers on a pipe. If a call is running and the server sends nothing for
	// this time, Dragoman pings the server. 0 means 5 s.
	Silence time.Duration
	// Ping is the interval at which idle legacy sessions are pinged. 0 means never. SetTimes also
	// changes Ping.
	Ping time.Duration
}

// Times are the timeouts of a server, and the interval of its pings; see Spec.
type Times struct{ Start, Idle, Hard, Ping time.Duration }

// piped reports whether the server is on a pipe and not on HTTP. A server on a pipe has no headers,
// and its transport does not have to be detected.
func (s *Spec) piped() bool { return s.Command != "" || s.Pipe != nil }

// Stepper is implemented by a pipe from Adapter.Adapt that performs a handshake of its own with the
// child. Steps returns the steps so far. Errors and the trace of the server then name these steps, and
// not the messages of MCP that only the adapter has seen.
type Stepper interface{ Steps() handshake.Trace }

// Adapter converts between the protocol of a child and MCP. Its methods are safe for concurrent
// use, since a server may have several children.
type Adapter interface {
	// Admit is called before each start. It may block. If it returns an error, the child is not
	// started. The error must be a sentence.
	Admit(ctx context.Context) error
	// Adapt takes ownership of p, the pipe to a new child. It returns a pipe on which the messages
	// have the form of a legacy revision of MCP. Closing the returned pipe also closes p. Each
	// server request on the returned pipe must have the progress token of its call, even if the
	// client sent no token. With this token, Dragoman can attribute the request, so several clients
	// may share the pipe.
	Adapt(p transport.Pipe) transport.Pipe
	// Environ returns additional environment variables for each child, in the form NAME=VALUE. If
	// the configuration sets a variable of the same name, or the child inherits one, that variable
	// takes precedence.
	Environ() []string
	// Readiness describes the state of the children in one word.
	Readiness() string
	// Negotiated returns the protocol version of the last handshake with a child. cause says why
	// this is not the newest version, or why the handshake failed. Both results may be "".
	Negotiated() (version, cause string)
	// Handshakes counts the handshakes with children, by protocol version and cause. There are only
	// a few different versions and causes.
	Handshakes() map[[2]string]uint64
}

// Header is a configured HTTP header.
type Header struct{ Name, Value string }

// Options connect an upstream to the rest of the program. The zero value is valid.
type Options struct {
	// Info is the Implementation object that Dragoman sends to the server in a session without a
	// client.
	Info []byte
	// Changed is called after a list of the server has changed. kind is "tools", "prompts" or
	// "resources". If any list may have changed, for example after a restart, kind is "". Changed
	// must not block.
	Changed func(kind string)
	// Events receives the events of the server, such as handshakes, the steps of each open, and
	// losses. If it is nil, nothing is published.
	Events *event.Publisher
	// Pinned says that somebody else reports which definitions have changed, so that only tools that come and go are
	// an event. Nil means no.
	Pinned func() bool
	// Exposed says that clients may be on other machines. Errors for clients then do not contain
	// output of the server's process.
	Exposed bool
	// Clean removes secrets from text that comes from the server, its process or the network,
	// before the text is logged or shown. If Clean is nil, the text is not changed.
	Clean func(text string) string
	// Stderr is called with each line on stderr of the server's processes; see
	// stdio.Spec.OnStderr. Several goroutines may call it. It may be nil.
	Stderr func(line []byte)
	// Sessions assigns the request ids of the server's sessions. If it is nil, the ids start at a
	// random number. Tests that compare bytes use a Sessions that starts at 1.
	Sessions *conn.Sessions
	// Starts limits how many servers start at the same time. Nil means no limit.
	Starts *Starts
	// Seats says which of several processes has which sessions with the server, and Home distinguishes servers with the
	// same name there. If Seats is nil, this process has all.
	Seats Seats
	Home  string
	// Own refuses elicitations that lead to Dragoman itself. It may be nil.
	Own *mcp.Own
	Log *slog.Logger
}
