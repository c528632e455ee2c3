package handshake

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Link is the connection to a server, as a handshake uses it. One goroutine calls the methods of a
// Link, one at a time. A method must not keep params or rules after it returns.
type Link interface {
	// Exchange sends one request and waits for its answer, a Result or a Failure. params is a
	// JSON object, or nil for none.
	//
	// Over HTTP, an error status or an answer that is not MCP is a *transport.StatusError. The Msg
	// of this error is set if the body is JSON-RPC. An answer that could not be scanned is a
	// *jsonrpc.Error. context.DeadlineExceeded means that no answer has come. On a pipe the answer
	// may still come; see LateAnswers. Any other error means that the link has ended or could not
	// be opened. If such an error wraps transport.ErrNotSent, the server has received nothing.
	//
	// If ctx ends, Exchange sends no cancellation. A legacy server that has not been
	// initialized does not expect one, and initialize must not be cancelled (2025-11-25
	// §Cancellation, "Behavior Requirements").
	Exchange(ctx context.Context, method string, params []byte, rules *transport.Rules) (*jsonrpc.Message, error)
	// Post sends a notification. params may be nil. Post returns the same errors as Exchange.
	Post(ctx context.Context, method string, params []byte, rules *transport.Rules) error
}

// LateAnswers is implemented by a Link such as a pipe. On such a Link, an answer may arrive after
// the ctx of Exchange has ended. A server that starts slowly may be modern, so a late answer to the
// probe still counts.
type LateAnswers interface {
	// OnLate sets f as the receiver of late answers. Before Open returns, Open calls OnLate with
	// nil, which removes the receiver. The goroutine that reads the link calls f before it reads
	// the next message, so f must not block. After OnLate has returned, the previous f may still be
	// running, but is not called again.
	OnLate(f func(answer *jsonrpc.Message))
}

// UnaskedAnswers is implemented by a Link on which unsolicited results may come, such as a
// pipe. Some servers send their manifest when they start.
type UnaskedAnswers interface {
	// OnUnasked sets f as the receiver of unsolicited results, including the first few that arrived
	// before the call. Before Open returns, Open calls OnUnasked with nil, which removes the
	// receiver. The rules for f are the same as in LateAnswers.
	OnUnasked(f func(answer *jsonrpc.Message))
}

// Offer is the input of a handshake. The zero value means a pipe, any revision, and a client
// without capabilities.
type Offer struct {
	// ClientInfo is an Implementation object, and Capabilities is a ClientCapabilities object.
	// Both are sent unchanged, in _meta and in initialize, so they must be valid for the
	// revision. Nil means the name "dragoman" without details, and no capabilities.
	ClientInfo, Capabilities []byte

	// Pin is the only allowed revision. Unknown allows all revisions.
	Pin mcp.Revision
	// Known is the revision of an earlier Outcome of the same server, if its Remember was true.
	// Open tries this revision first. If it is a legacy revision, Open sends initialize without a
	// probe. If the server no longer speaks the revision, Open continues with the revision that the
	// server does speak.
	Known mcp.Revision
	// SkipProbe omits the probe. It must be set after ErrDiedOnProbe, for all later connections
	// with the same configuration. It is also set over HTTP+SSE, which modern servers do not
	// use.
	SkipProbe bool
	// InitializeFirst sends initialize first, and the probe only if initialize is refused. It
	// is for servers that are known not to answer server/discover.
	InitializeFirst bool

	// Dialect is the configured dialect. Nil means that Open detects the dialect.
	Dialect *dialect.Profile
	// Dialects are the dialects that Open can detect, in the order in which they are tried. Nil
	// means the built-in dialects.
	Dialects []*dialect.Profile

	// Watch is called as the handshake happens: before a message is sent, and when its outcome is
	// known. It must not block. Nil means that nobody watches.
	Watch func(Progress)

	// HTTP says that the Link is Streamable HTTP. It is false for pipes and for HTTP+SSE.
	HTTP bool

	// ProbeTimeout is the timeout of server/discover. When it expires, Open tries initialize. Zero
	// means 3 s on a pipe and 10 s over HTTP. It is at most half of Timeout, unless Pin rules out
	// initialize.
	ProbeTimeout time.Duration
	// Timeout limits the whole handshake. Zero means 30 s.
	Timeout time.Duration
	// Wait blocks for d. If ctx ends before that, Wait returns the error of ctx. Nil uses a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

const (
	pipeProbeTimeout = 3 * time.Second
	httpProbeTimeout = 10 * time.Second
	wholeTimeout     = 30 * time.Second
)

// timeouts returns the timeouts of a probe and of the whole handshake. If Pin is modern, the probe
// may use all the time. Its own timeout is then 0, which means none, because two equal timeouts
// would expire at the same time.
func (o *Offer) timeouts() (probe, whole time.Duration) {
	probe, whole = o.ProbeTimeout, o.Timeout
	if whole <= 0 {
		whole = wholeTimeout
	}
	if probe <= 0 {
		probe = pipeProbeTimeout
		if o.HTTP {
			probe = httpProbeTimeout
		}
	}
	if o.Pin.Modern() {
		return 0, whole
	}
	return min(probe, whole/2), whole
}

// Outcome is the result of a successful handshake. It is immutable after Open.
type Outcome struct {
	Revision mcp.Revision
	// Hello is what the server declared. Its Capabilities are {} if the server sent none. If a
	// modern server refused server/discover (the finding "undiscovered"), the capabilities are
	// unknown, and Capabilities is nil.
	Hello mcp.ServerInfo
	// Rules are the HTTP rules of Revision, with the version in the server's spelling.
	Rules    transport.Rules
	Trace    Trace
	Findings []Finding

	// Dialect describes how the server differs from its revision, and is nil if the server
	// follows its revision.
	Dialect *dialect.Profile
	// Tools is the tool list of a server that sent its tools during the handshake. It has the form
	// of an answer to tools/list. It is nil for all other servers.
	Tools *jsonrpc.Message

	remember bool
}

// NotReady does the same as the function NotReady, and also knows the dialect's signs for such an
// answer.
func (o *Outcome) NotReady(m *jsonrpc.Message) bool {
	if m == nil || m.Kind != jsonrpc.Failure {
		return false
	}
	f := readFailure(m)
	return f.gated || o.Dialect != nil && f.hasSign(o.Dialect.Errors.NotReady)
}

// Remember reports whether Revision may be passed as Known to later connections. It is false if
// the era follows from a timeout, from status 408 or 5xx, from a broken link, or from Pin.
func (o *Outcome) Remember() bool { return o.remember }

// Finding is a deviation of a server that Dragoman tolerates.
type Finding struct {
	Code string // one of the Found constants below
	Text string // a sentence for people, at most 400 bytes
}

// These are the codes of findings.
const (
	FoundUnknownVersion     = "unknown_version"     // the server answered initialize with an unknown version
	FoundNoVersion          = "no_version"          // the server answered initialize without a version
	FoundNoCapabilities     = "no_capabilities"     // the server sent no capabilities object
	FoundNoServerInfo       = "no_server_info"      // the server did not say its name
	FoundOddInstructions    = "odd_instructions"    // the instructions are not a string
	FoundLongInstructions   = "long_instructions"   // the instructions were cut; see MaxInstructions
	FoundUndiscovered       = "undiscovered"        // the error shows that the server is modern, but the server refuses server/discover
	FoundLateProbe          = "late_probe"          // the probe was answered after its timeout
	FoundSilentProbe        = "silent_probe"        // the probe was not answered
	FoundStrictVersion      = "strict_version"      // the server refused the version that was offered first
	FoundOtherVersion       = "other_version"       // the server's version is not the pinned one
	FoundNotReady           = "not_ready"           // initialize had to be retried
	FoundInitializedRefused = "initialized_refused" // notifications/initialized was answered with an error
	FoundEraChanged         = "era_changed"         // the era differs from the remembered one
	FoundDialect            = "dialect"             // the server speaks a dialect that was not configured
	FoundNoManifest         = "no_manifest"         // the dialect requires a manifest, but there was none
	FoundNamelessTools      = "nameless_tools"      // tools without a name in a manifest were left out
)

// RulesFor returns the HTTP rules for a revision, from the feature table. The revision is Unknown
// until the server has answered initialize. For Unknown, and for a revision without Streamable
// HTTP, RulesFor returns the rules of the first revision with Streamable HTTP. Servers of
// 2024-11-05 that use Streamable HTTP have sessions as in 2025-03-26.
func RulesFor(r mcp.Revision) transport.Rules {
	if !r.Can(mcp.StreamableHTTP) {
		r = mcp.Assumed
	}
	rules := transport.Rules{
		Sessions:        r.Can(mcp.HTTPSessions),
		MirrorHeaders:   r.Can(mcp.MirroredHeaders),
		Resumable:       r.Can(mcp.Resumption),
		CloseIsCancel:   r.Can(mcp.HangUpCancels),
		RequestsOnSSE:   r.Can(mcp.AskedMidCall),
		ResponsesByPost: r.Can(mcp.AskedMidCall),
	}
	if r.Can(mcp.VersionHeader) {
		rules.Version = r.String()
	}
	return rules
}
