package config

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// Snapshot is a complete configuration with defaults filled in. It is not modified after
// Parse, Load or Default returns it.
type Snapshot struct {
	File      string // path of the file; "" for Default
	Empty     bool   // whether the file has only blanks and comments
	Listen    string // host:port on which the serve command listens
	Identity  Identity
	Revisions Revisions
	// InheritEnv is the default for Server.InheritEnv.
	InheritEnv []string
	Separator  string // the text between a server's prefix and the name of a tool or prompt
	Limits     Limits
	// EnvFile is the path of a file with environment variables for references; "" for none. If a
	// variable in the environment of the process is not empty, it takes precedence over the same
	// variable in this file.
	EnvFile string
	// Database is where the serve command keeps what must last: the path of a file, or a URL that begins
	// with postgres:// or postgresql://, and may have a password. "" means the file in the user's data
	// folder.
	Database string
	// VaultKey says where the key is that seals what the database keeps secret: "keyring" for the keyring of
	// the operating system, "env:" and the name of a variable of the process, or "" for the file vault.key
	// beside the database.
	VaultKey string
	// PublicURL is the URL at which clients reach the path "/" through a reverse proxy, without a
	// slash at the end; "" for none.
	PublicURL string
	// SealKeys is the path of the file with the keys that replicas share; "" for none.
	SealKeys string
	// Cluster makes the process one of several replicas. The zero value means that it's alone.
	Cluster Cluster
	// TLS is what serve shows at an address that other machines can reach. At a loopback address it isn't used.
	TLS     TLS
	Hosts   []string // Host headers to accept in addition to the loopback names
	Origins []string // additional Origin headers to accept
	Log     Log
	Traces  Traces
	// Record says whether the serve process keeps the messages of calls in memory; see
	// Recording.
	Record   Recording
	Audit    Audit
	Console  bool               // whether the console is on; without effect if other machines can reach Listen
	Servers  []Server           // all servers in file order, including disabled ones
	Dialects []*dialect.Profile // the dialects that the file defines, in file order

	// AllowUnauthenticatedNetworkAccess lets clients on other machines in without an API key, if they can
	// reach Listen. Otherwise they need one.
	AllowUnauthenticatedNetworkAccess bool
	Access                            Access
	Egress                            Egress

	Projects []Project // in file order, without default; empty in the configuration of a project
	Expose   Expose    // what clients of a project see of all its servers; zero for default
	// Policy says who may use which items. House is that of default, and holds for the servers of default that
	// a project uses; nil for default itself.
	Policy, House policy.Rules
	// HouseTraffic is Limits.Traffic of default, of which what is per server holds for the servers of default that a
	// project uses; nil for default itself.
	HouseTraffic []limits.Limit
	// Pins says what a changed definition of a tool, a prompt or a template means. Zero leaves it to serve: it's
	// warn where clients need no key, and else hold.
	Pins pins.Mode
	// Questions says whether the questions that clients can't show wait for people at the console. A project doesn't
	// have what default has.
	Questions bool
	Tools     Tools

	secrets      Secrets // looked up the secrets; for Where
	readsSecrets bool
	secretUses   map[string][]string // see SecretUses
	content      [sha256.Size]byte   // the hash of the file, for Watch; zero if no file was loaded
}

// Cluster says how a replica and the others reach each other. If Listen is "", the process is alone.
type Cluster struct {
	Listen    string // where it listens for other replicas
	Advertise string // the address where they reach it; a port of 0 means that of Listen
	Name      string // what people and balancers call it; "" means a name after the machine
	// DrainGrace is how long a replica that stops still serves everybody, until the balancer has noticed.
	DrainGrace time.Duration
}

// TLS names two PEM files: one with a certificate, followed by those of its issuers, and one with its key. Both
// paths are "" if there is no certificate.
type TLS struct{ Cert, Key string }

// Egress says what requests to addresses that a server or a client names may reach.
type Egress struct {
	Allow []string // hosts, in lower case, that may be nearer than the server that names them
}

// Equal reports whether s and t have the same content. Comments and formatting in the files do not
// matter.
func (s *Snapshot) Equal(t *Snapshot) bool { return reflect.DeepEqual(s.unplaced(), t.unplaced()) }

// Digest returns a text that is the same for two snapshots with the same content, but for what replicas have for
// themselves: their addresses, and where their files are. Credentials aren't in it.
func (s *Snapshot) Digest() string {
	x := *s
	x.Listen, x.Cluster, x.TLS, x.EnvFile, x.Database, x.VaultKey, x.SealKeys, x.Log = "", Cluster{}, TLS{}, "", "", "", "", Log{}
	sum := sha256.Sum256(x.AppendYAML(nil))
	return hex.EncodeToString(sum[:6])
}

// ReadsSecrets reports whether the file refers to secrets, whether or not they were looked up.
func (s *Snapshot) ReadsSecrets() bool { return s.readsSecrets }

// SecretUses returns what refers to a secret of the project: its servers, by their names, and the paths of other
// settings.
func (s *Snapshot) SecretUses(name string) (servers, settings []string) {
	for i := range s.Servers {
		if x := &s.Servers[i]; !x.Shared && slices.Contains(x.secrets, name) {
			servers = append(servers, x.Name)
		}
	}
	return servers, s.secretUses[name]
}

// Server returns the server with the given name. It returns false if there is no such server.
func (s *Snapshot) Server(name string) (Server, bool) {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return s.Servers[i], true
		}
	}
	return Server{}, false
}

// IsRequirements reports whether the arguments of a command are those with which dragoman is the built-in
// requirements server.
func IsRequirements(args []string) bool {
	return len(args) >= 2 && args[0] == "server" && args[1] == "requirements"
}

// Identity is the information about Dragoman that clients get.
type Identity struct {
	Name         string // the server name that clients see; the default is "dragoman"
	Title        string // the title; "" for none
	Version      string // the version; "" means the version of the program
	Instructions Instructions
}

// Instructions are the instructions that Dragoman sends to clients, for their models. At most one of
// Text, File, Command and From is set. Package config does not read the file or run the command.
type Instructions struct {
	Text    string
	From    string   // the name of a requirements server, whose active prompt they are
	File    string   // absolute, or relative to the working directory
	Command []string // a command that prints the text to stdout
	// Keep is how long the output of Command is used before Command runs again. Zero means a minute.
	Keep    time.Duration
	Join    Join
	Outside bool // whether references in Text were replaced
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
	// Refuse makes Dragoman answer initialize with an error if the client asks for a revision that is
	// not in Accept. Otherwise, Dragoman offers this client a legacy revision in Accept.
	Refuse bool
}

// Limits are the limits of sizes, times and rates. In a Snapshot, all limits except Starts and Result are positive, and
// Traffic may be empty.
type Limits struct {
	Body                int           // max bytes of a client's message
	Message             int           // max bytes of a server's message
	Call                time.Duration // idle timeout of a call
	CallMax             time.Duration // max total time of a call
	Start               time.Duration // timeout for a server to start and initialize
	Starts              int           // max servers that start at the same time; 0 means twice the number of processors
	ManifestClient      time.Duration // see ManifestClient of downstream.Endpoint
	InitializePerSecond int           // max initialize requests of one client per second
	InFlight            int           // max bytes of all messages in memory
	Result              int           // max bytes of a tool's result, beyond which it's shortened; 0 means none
	Alone               bool          // each replica counts for itself; only in the default project
	// Traffic says how much clients may send; of each scope, the first that is for them counts.
	Traffic []limits.Limit
}

// Log holds the log settings.
type Log struct {
	Level slog.Level // the lowest level that is logged; the default is Info
	JSON  bool
	Calls bool // whether each call is logged at level info; otherwise at level debug
}

// Traces says where the spans of calls are sent. The zero Traces leaves that to the environment variables of
// OpenTelemetry.
type Traces struct {
	Endpoint string // an http or https URL without a password; "" for none
	Header   []Field
}

// Recording says whether the serve process keeps the messages of calls in memory.
type Recording uint8

// The values of Recording. RecordAuto means RecordMemory if only this machine can reach the
// serve process. Otherwise RecordAuto means RecordOff.
const (
	RecordAuto Recording = iota
	RecordMemory
	RecordOff
)

var recordings = []string{"memory", "off"}

// On reports whether the serve process keeps the messages of calls. local means that only this
// machine can reach the serve process.
func (r Recording) On(local bool) bool { return r == RecordMemory || r == RecordAuto && local }

// Kind says which transport Dragoman uses for a server.
type Kind uint8

// The values of Kind. KindAuto means that Dragoman detects the transport of a server with a URL.
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

// The values of Isolation.
const (
	IsolateAuto   Isolation = iota // separate sessions for each principal and capability set
	IsolateShared                  // one session for all clients
	IsolateCall                    // a new session for each call
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
	Dir     string // the working directory; "" for a temporary folder that Dragoman creates
	// InheritEnv are patterns for names of environment variables, in which * matches any text. The
	// command gets the variables of Dragoman's environment that match a pattern. Every command also
	// gets a few basic variables. See Inherits.
	InheritEnv []string
	URL        string // the URL may contain credentials; do not log it, see Describe
	Header     []Field
	Kind       Kind
	// CAFile is the path of a PEM file with certificate authorities; "" for none. For connections to
	// URL, Dragoman trusts them in addition to the authorities of the system.
	CAFile string
	// SignIn says how Dragoman gets credentials for URL. It's zero for a command.
	SignIn SignIn

	// Given means that the server comes from the command line and not from a file. For such a server,
	// hints suggest flags instead of settings.
	Given bool
	// Unusable is the problem that prevents the start of the server or the connection to it. The
	// problem affects only this server. Nil means that the server can be used.
	Unusable *Problem

	Disabled bool
	// Shared means that the server is one of default, which a project uses. In the configuration of a
	// project, a shared server has only Name, Expose, and perhaps Prefix and Unusable; Bind adds the rest.
	Shared bool
	Prefix string // the prefix of the server's tool and prompt names; the default is Name
	// Unprefixed means that the server's items keep their own names. Prefix is then "".
	Unprefixed bool
	Isolation  Isolation
	Revision   mcp.Revision     // the only revision to use; Unknown means that Dragoman detects the revision
	Dialect    string           // the only dialect to use; "" means that Dragoman detects the dialect
	Profile    *dialect.Profile // the profile of Dialect; nil if Dialect is ""
	Lazy       bool             // whether Dragoman starts the server only on first use
	Expose     Expose
	Also       []Expose // clients see only what all of these let pass, too
	Hint       string   // what the server is for, for clients that search tools; "" leaves it to what the server says
	// TrustAnnotations means that what the server says of its tools counts: whether they only read.
	TrustAnnotations bool

	CallTimeout time.Duration // the same as Limits.Call, for this server
	CallMax     time.Duration // the same as Limits.CallMax, for this server
	// StartTimeout is the same as Limits.Start, and Message is the same as Limits.Message, for this
	// server. If neither is set, StartTimeout is RunnerStart for a package runner.
	StartTimeout time.Duration
	Message      int
	// Ping is the interval at which Dragoman pings idle sessions of a legacy server. 0 means never.
	Ping time.Duration

	// Fingerprint is a hash of all settings that a running server cannot adopt without a restart. The
	// settings include secrets, so do not log the fingerprint.
	Fingerprint string

	secrets   []string          // the names of the secrets that references name
	vaultKey  string            // the variable with the vault's key, which no server inherits; "" for none
	shownArgs []string          // Args with *** in place of each reference
	shownEnv  map[string]string // Env, the same
	shownURL  string
	outside   []Secret // the values that replaced references in Args, Env, Header and URL
	// unset has the settings that refer to an environment variable that is not set. It maps the path
	// of such a setting to the name of the variable. The value of such a setting is empty.
	unset map[string]string
}

// Describe returns a description that is safe to show. This is the name of the program, or the URL in
// which the credentials, the query and the values of references are masked.
func (s Server) Describe() string {
	if s.Command != "" {
		return filepath.Base(s.Command)
	}
	if s.shownURL != "" {
		return s.shownURL
	}
	return maskURL(s.URL)
}

// CommandLine returns the command and its arguments for people. In the arguments, secrets and the
// values of references are masked. CommandLine returns nil for a server with a URL.
func (s Server) CommandLine() []string {
	if s.Command == "" {
		return nil
	}
	return append([]string{s.Command}, excerpt.Arguments(s.argsForPeople(), mask)...)
}

// EnvForPeople returns the value of a variable in Env for people. Secrets and the values of references
// are masked.
func (s *Server) EnvForPeople(name string) string {
	value, ok := s.shownEnv[name]
	if !ok || secretVariable(name) {
		return mask
	}
	return excerpt.MaskSecrets(value)
}

// argsForPeople returns the arguments with *** in place of each reference.
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

// Expose selects the tools, prompts and resources of a server that clients see. The zero value
// selects all of them.
type Expose struct {
	// Tools and Prompts match the names without the server's prefix. Resources matches URIs
	// and URI templates.
	Tools, Prompts, Resources Filter
}

// Equal reports whether e and f select the same names with the same patterns.
func (e Expose) Equal(f Expose) bool {
	return e.Tools.equal(f.Tools) && e.Prompts.equal(f.Prompts) && e.Resources.equal(f.Resources)
}

// IsZero reports whether e has no patterns, so that clients see everything.
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
