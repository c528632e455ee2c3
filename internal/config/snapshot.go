package config

import (
	"log/slog"
	"path/filepath"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Snapshot is a whole configuration with its defaults filled in. It is never
// written to once Parse, Load or Default has returned it.
type Snapshot struct {
	File      string // where it was read from; "" for Default
	Empty     bool   // the file says nothing at all: it has no bytes, or blanks and comments only
	Listen    string // host:port of serve
	Identity  Identity
	Revisions Revisions
	Separator string // between a server's prefix and a name
	Limits    Limits
	Hosts     []string // further Host headers to accept, beside the loopback names
	Origins   []string // further Origin headers to accept
	Log       Log
	Servers   []Server           // in the order of the file, disabled ones included
	Dialects  []*dialect.Profile // that the file describes, in its order

	// AllowUnauthenticatedNetworkAccess permits a Listen that other machines can
	// reach, although nobody has to say who they are. See CheckListen.
	AllowUnauthenticatedNetworkAccess bool
}

// Server returns the server of that name.
func (s *Snapshot) Server(name string) (Server, bool) {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return s.Servers[i], true
		}
	}
	return Server{}, false
}

// Identity is what serve says of itself to clients.
type Identity struct {
	Name         string // "dragoman" unless configured
	Title        string // "" for none
	Version      string // "" for the version of the program
	Instructions Instructions
}

// Instructions are what serve tells a client's model. At most one of Text, File
// and Command is set; whoever uses the Snapshot reads the file or runs the
// command.
type Instructions struct {
	Text    string
	File    string   // absolute, or relative to the working directory
	Command []string // its standard output is the text
	Join    Join
}

// Join says how our own instructions and those of the upstreams become one text.
type Join uint8

// The ways to join.
const (
	OwnFirst Join = iota
	UpstreamsFirst
	OwnOnly
	UpstreamsOnly
)

var joins = []string{"own-first", "upstreams-first", "own-only", "upstreams-only"}

func (j Join) String() string { return nameOf(joins, int(j)) }

// Revisions say which revisions clients may speak.
type Revisions struct {
	Accept []mcp.Revision // newest first
	// Refuse answers a client that asks for another revision with an error
	// instead of offering it one of these.
	Refuse bool
}

// Limits bound what peers may do. All are positive in a Snapshot.
type Limits struct {
	Body                int           // bytes of a client's message
	Message             int           // bytes of a server's message
	Call                time.Duration // a call may go without a sign of life
	CallMax             time.Duration // a call may take in all
	Start               time.Duration // a server may take to open
	InitializePerSecond int           // per client
	InFlight            int           // bytes of all messages at once
}

// Log is what to log and how.
type Log struct {
	Level slog.Level // Info unless configured
	JSON  bool
}

// Kind is how a server is reached.
type Kind uint8

// The kinds. KindAuto is a URL whose transport is found out.
const (
	KindAuto Kind = iota
	KindStdio
	KindHTTP // Streamable HTTP
	KindSSE  // HTTP+SSE of 2024-11-05
)

var kinds = []string{"auto", "stdio", "http", "sse"}

func (k Kind) String() string { return nameOf(kinds, int(k)) }

// Isolation is who shares an upstream's session.
type Isolation uint8

// The isolations: a session per principal and capability set, one for everybody,
// or one for each call.
const (
	IsolateAuto Isolation = iota
	IsolateShared
	IsolateCall
)

var isolations = []string{"auto", "shared", "call"}

func (i Isolation) String() string { return nameOf(isolations, int(i)) }

// Field is one HTTP header of requests to a server.
type Field struct {
	Name  string
	Value Secret
}

// Server is one upstream. A stdio server has Command, the others URL.
type Server struct {
	Name    string
	Command string
	Args    []string // may hold text from ${VAR}; never logged, see Describe
	Env     map[string]Secret
	Dir     string // working directory; "" for the one that is made for it
	URL     string // may hold credentials; never logged, see Describe
	Header  []Field
	Kind    Kind

	Disabled  bool
	Prefix    string // of its names; the Name unless configured
	Isolation Isolation
	Revision  mcp.Revision     // the only one to speak; Unknown finds out
	Dialect   string           // the only one to speak; "" finds out
	Profile   *dialect.Profile // of Dialect; nil for none, and for one that is more than a profile
	Lazy      bool             // start when first needed
	Expose    Expose

	CallTimeout time.Duration // as Limits.Call
	CallMax     time.Duration // as Limits.CallMax
	// StartTimeout is as Limits.Start, Message as Limits.Message.
	StartTimeout time.Duration
	Message      int

	// Fingerprint changes whenever something changes for which the server has to
	// be started again. It is derived from secrets: compare it, do not log it.
	Fingerprint string

	shownArgs []string // Args with *** for what came from outside
	shownURL  string
	outside   []Secret // what came from outside in Args and URL
}

// Describe returns what may be shown of how the server is reached: the name of
// its program, or its URL without credentials, query and what came from outside.
func (s Server) Describe() string {
	if s.Command != "" {
		return filepath.Base(s.Command)
	}
	if s.shownURL != "" {
		return s.shownURL
	}
	return maskURL(s.URL)
}

// LogValue is what log/slog prints: nothing that could hold a secret.
func (s Server) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", s.Name), slog.String("kind", s.Kind.String()))
}

// Expose says which of a server's features clients see. The zero value shows all.
type Expose struct {
	Tools, Prompts, Resources Filter // resources by URI, the others by the server's own name
}

// IsZero reports whether everything is shown.
func (e Expose) IsZero() bool {
	for _, f := range []Filter{e.Tools, e.Prompts, e.Resources} {
		if len(f.Allow) > 0 || len(f.Deny) > 0 {
			return false
		}
	}
	return true
}

// Filter chooses names. A pattern is a name in which * stands for any text.
type Filter struct {
	Allow []string // empty allows all
	Deny  []string // wins over Allow
}

// Allows reports whether the filter lets name through.
func (f Filter) Allows(name string) bool {
	return !matchesAny(f.Deny, name) && (len(f.Allow) == 0 || matchesAny(f.Allow, name))
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
