package config

import (
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Snapshot is a complete configuration with defaults filled in. It is not modified after
// Parse, Load or Default returns it.
type Snapshot struct {
	File      string // path of the file; "" for Default
	Empty     bool   // the file has no content except blanks and comments
	Listen    string // host:port that serve listens on
	Identity  Identity
	Revisions Revisions
	// InheritEnv are the patterns of Server.InheritEnv for servers that have no patterns of their
	// own.
	InheritEnv []string
	Separator  string // the text between a server's prefix and the name of a tool or prompt
	Limits     Limits
	// EnvFile is the path of a file with environment variables for references, "" for none. A
	// variable of the process takes precedence over one of the file.
	EnvFile string
	// PublicURL is the URL at which clients reach "/" through a reverse proxy. It has no slash
	// at the end. "" means that there is none.
	PublicURL string
	Hosts     []string // Host headers to accept in addition to the loopback names
	Origins   []string // additional Origin headers to accept
	Log       Log
	// Record says whether the serve process keeps the messages of calls in memory; see
	// Recording.
	Record   Recording
	Console  bool               // serve has the console, if only this machine can reach Listen; the default is true
	Servers  []Server           // all servers in file order, including disabled ones
	Dialects []*dialect.Profile // the dialects that the file defines, in file order

	// AllowUnauthenticatedNetworkAccess permits a Listen address that other machines can
	// reach, although clients do not authenticate. See CheckListen.
	AllowUnauthenticatedNetworkAccess bool
}

// Equal reports whether s and t have the same settings. It ignores comments and the order of keys
// in the file.
func (s *Snapshot) Equal(t *Snapshot) bool { return reflect.DeepEqual(s, t) }

// Server returns the server with the given name.
func (s *Snapshot) Server(name string) (Server, bool) {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return s.Servers[i], true
		}
	}
	return Server{}, false
}

// Identity is how serve describes itself to clients.
type Identity struct {
	Name         string // the name of the server; the default is "dragoman"
	Title        string // the title; "" for none
	Version      string // the version; "" means the version of the program
	Instructions Instructions
}

// Instructions are the instructions for the model that serve sends to clients. At most one of Text,
// File and Command is set. The code that uses the Snapshot reads the file or runs the command.
type Instructions struct {
	Text    string
	File    string   // absolute, or relative to the working directory
	Command []string // a command that prints the text to stdout
	// Keep is how long the output of Command is used. Zero means a minute.
	Keep    time.Duration
	Join    Join
	Outside bool // Text has values from outside the file
}

// Join says how Dragoman's own instructions are combined with the instructions of the servers.
type Join uint8

// The ways to combine instructions.
const (
	OwnFirst Join = iota
	UpstreamsFirst
	OwnOnly
	UpstreamsOnly
)

var joins = []string{"own-first", "upstreams-first", "own-only", "upstreams-only"}

func (j Join) String() string { return nameOf(joins, int(j)) }

// Revisions says which protocol revisions clients may use.
type Revisions struct {
	Accept []mcp.Revision // newest first
	// Refuse makes Dragoman answer a client that asks for another revision with an error. Otherwise
	// Dragoman offers the client one of the revisions in Accept.
	Refuse bool
}

// Limits bound what clients and servers may use. In a Snapshot, all limits are positive.
type Limits struct {
	Body                int           // max bytes of a client's message
	Message             int           // max bytes of a server's message
	Call                time.Duration // idle timeout of a call
	CallMax             time.Duration // max total time of a call
	Start               time.Duration // timeout for a server to start and initialize
	ManifestClient      time.Duration // see ManifestClient of downstream.Endpoint
	InitializePerSecond int           // max initialize requests per second of one client
	InFlight            int           // max bytes of all messages in memory
}

// Log holds the log settings.
type Log struct {
	Level slog.Level // the lowest level that is logged; the default is Info
	JSON  bool
	Calls bool // one record for each call at level info; otherwise at level debug
}

// Recording says whether the serve process keeps the messages of calls in memory.
type Recording uint8

// The values of Recording. RecordAuto means RecordMemory if only this machine can reach the
// serve process. Otherwise it means RecordOff.
const (
	RecordAuto Recording = iota
	RecordMemory
	RecordOff
)

var recordings = []string{"memory", "off"}

// On reports whether messages are kept. local says that only this machine can reach the serve
// process.
func (r Recording) On(local bool) bool { return r == RecordMemory || r == RecordAuto && local }

// Kind says which transport Dragoman uses for a server.
type Kind uint8

// A Kind says how Dragoman reaches a server. For KindAuto, Dragoman detects the transport of a
// URL.
const (
	KindAuto Kind = iota
	KindStdio
	KindHTTP // Streamable HTTP
	KindSSE  // HTTP+SSE of 2024-11-05
)

var kinds = []string{"auto", "stdio", "http", "sse"}

func (k Kind) String() string { return nameOf(kinds, int(k)) }

// Isolation says which clients share a session with a server.
type Isolation uint8

// The isolations: one session per principal and capability set, one for everybody, or
// one per call.
const (
	IsolateAuto Isolation = iota
	IsolateShared
	IsolateCall
)

var isolations = []string{"auto", "shared", "call"}

func (i Isolation) String() string { return nameOf(isolations, int(i)) }

// Field is an HTTP header sent to a server.
type Field struct {
	Name  string
	Value Secret
}

// Server is one upstream server. A stdio server has a Command. Every other server has a URL.
type Server struct {
	Name    string
	Command string
	Args    []string // the arguments may contain text from ${VAR}; do not log them, see Describe
	Env     map[string]Secret
	Dir     string // working directory; "" for a temporary one made for the server
	// InheritEnv are patterns in which * stands for any text. The command gets the environment
	// variables of Dragoman with matching names. Every command also gets a few basic
	// variables. See Inherits.
	InheritEnv []string
	URL        string // the URL may contain credentials; do not log it, see Describe
	Header     []Field
	Kind       Kind
	// CAFile is a PEM file of certificate authorities. For URL, Dragoman trusts them in addition to
	// the authorities of the system. "" means none.
	CAFile string

	// Given means that the server comes from the command line and not from a file. Then hints
	// name flags instead of settings.
	Given bool
	// Unusable is the problem that prevents the start of the server or the connection to it. The
	// problem affects only this server. Nil means that the server can be used.
	Unusable *Problem

	Disabled bool
	Prefix   string // the prefix of the server's names; the default is Name
	// Unprefixed means that the server's items keep their own names. Prefix is then "".
	Unprefixed bool
	Isolation  Isolation
	Revision   mcp.Revision     // the only revision to use; with Unknown, Dragoman detects it
	Dialect    string           // the only dialect to use; with "", Dragoman detects it
	Profile    *dialect.Profile // the profile of Dialect; nil if Dialect is "" or needs more than a profile
	Lazy       bool             // start on first use
	Expose     Expose

	CallTimeout time.Duration // the same as Limits.Call, for this server
	CallMax     time.Duration // the same as Limits.CallMax, for this server
	// StartTimeout is the same as Limits.Start, and Message the same as Limits.Message.
	StartTimeout time.Duration
	Message      int
	// Ping is the interval at which idle sessions of a legacy server are pinged. 0 means never.
	Ping time.Duration

	// Fingerprint changes when a setting changes that requires a restart of the server. It is
	// derived from secrets, so it may be compared but must not be logged.
	Fingerprint string

	shownArgs []string // Args with *** for values from outside the file
	shownURL  string
	outside   []Secret // values in Args and URL that come from outside the file
	// unset has the settings that refer to an environment variable that is not set. It maps the
	// path of a setting to the name of the variable. The settings themselves are empty.
	unset map[string]string
}

// Describe returns a description that is safe to show: the program's name, or the URL
// without credentials, query and values from outside the file.
func (s Server) Describe() string {
	if s.Command != "" {
		return filepath.Base(s.Command)
	}
	if s.shownURL != "" {
		return s.shownURL
	}
	return maskURL(s.URL)
}

// CommandLine returns the command and its arguments for people, with secrets and values from
// outside the file masked. It returns nil for a server with a URL.
func (s Server) CommandLine() []string {
	if s.Command == "" {
		return nil
	}
	return append([]string{s.Command}, excerpt.Arguments(s.argsForPeople(), mask)...)
}

// argsForPeople returns the arguments with values from outside the file masked.
func (s *Server) argsForPeople() []string {
	if s.shownArgs != nil {
		return s.shownArgs
	}
	return s.Args
}

// LogValue implements slog.LogValuer. It logs nothing that could contain a secret.
func (s Server) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", s.Name), slog.String("kind", s.Kind.String()))
}

// Expose selects the features of a server that clients see. The zero value exposes all.
type Expose struct {
	Tools, Prompts, Resources Filter // resources by URI; tools and prompts by the server's own name
}

// Equal reports whether e and f select the same names with the same patterns.
func (e Expose) Equal(f Expose) bool {
	return e.Tools.equal(f.Tools) && e.Prompts.equal(f.Prompts) && e.Resources.equal(f.Resources)
}

// IsZero reports whether all features are exposed.
func (e Expose) IsZero() bool {
	for _, f := range []Filter{e.Tools, e.Prompts, e.Resources} {
		if len(f.Allow) > 0 || len(f.Deny) > 0 {
			return false
		}
	}
	return true
}

// Filter selects names. In a pattern, * matches any text.
type Filter struct {
	Allow []string // empty allows all
	Deny  []string // takes precedence over Allow
}

// Allows reports whether the filter lets name pass.
func (f Filter) Allows(name string) bool {
	return !matchesAny(f.Deny, name) && (len(f.Allow) == 0 || matchesAny(f.Allow, name))
}

func (f Filter) equal(g Filter) bool {
	return slices.Equal(f.Allow, g.Allow) && slices.Equal(f.Deny, g.Deny)
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}
