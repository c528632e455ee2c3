package handshake

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Link is the connection to a server, as a handshake uses it. One goroutine calls the methods of a
// Link, one at a time. A method must not use params or rules after it returns.
type Link interface {
	// Exchange sends one request and waits for its answer, a Result or a Failure. params is a JSON
	// object, or nil for none.
	//
	// Over HTTP, the error for an error status, or for an answer that is not MCP, is a
	// *transport.StatusError. Its Msg is set if the body is JSON-RPC. The error for an answer that
	// could not be scanned is a *jsonrpc.Error. context.DeadlineExceeded means that no answer came
	// in time. On a pipe, the answer may still come; see LateAnswers. Any other error means that
	// the link has ended or could not be opened. If such an error wraps transport.ErrNotSent, the
	// server has received nothing.
	//
	// If ctx ends, Exchange sends no cancellation. A legacy server that has not been initialized
	// does not expect a cancellation, and initialize must not be cancelled (2025-11-25
	// §Cancellation, "Behavior Requirements").
	Exchange(ctx context.Context, method string, params []byte, rules *transport.Rules) (*jsonrpc.Message, error)
	// Post sends a notification. params may be nil. The errors are the same as those of Exchange.
	Post(ctx context.Context, method string, params []byte, rules *transport.Rules) error
}

// LateAnswers is implemented by a Link on which an answer may arrive after the ctx of Exchange has
// ended, such as a pipe. Open uses a late answer to the probe, because a server that starts slowly
// may be modern.
type LateAnswers interface {
	// OnLate sets f as the receiver of late answers. Before Open returns, Open calls OnLate with
	// nil, which removes the receiver. The goroutine that reads the link calls f before it reads
	// the next message, so f must not block. After OnLate has returned, the previous f may still be
	// running, but is not called again.
	OnLate(f func(answer *jsonrpc.Message))
}

// UnaskedAnswers is implemented by a Link on which unsolicited results may arrive, such as a pipe.
// Some servers send their manifest when they start.
type UnaskedAnswers interface {
	// OnUnasked sets f as the receiver of unsolicited results, including the first few that arrived
	// before the call. Before Open returns, Open calls OnUnasked with nil, which removes the
	// receiver. The rules for f are the same as for LateAnswers.OnLate.
	OnUnasked(f func(answer *jsonrpc.Message))
}

// StatusLines is implemented by a Link on which status lines of a wrapper around Codex may arrive,
// such as a pipe. A status line is {"event":"starting"} or {"event":"ready"}.
type StatusLines interface {
	// OnStatus sets f as the receiver of the names in status lines. If status lines arrived before
	// the call, f gets the first of them. Before Open returns, Open calls OnStatus with nil, which
	// removes the receiver. The rules for f are the same as for LateAnswers.OnLate.
	OnStatus(f func(event string))
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
	// Known is the revision of an earlier Outcome of the same server, if that Outcome's Remember
	// returned true. Open tries this revision first. If Known is a legacy revision, Open sends
	// initialize without a probe. If the server no longer speaks Known, Open chooses a revision
	// that the server speaks.
	Known mcp.Revision
	// SkipProbe omits the probe. It must be set after ErrDiedOnProbe, for all later connections
	// with the same configuration. After ErrRefusedAfterProbe, the server may accept initialize if
	// SkipProbe is set. It is also set for HTTP+SSE, because modern servers do not use
	// HTTP+SSE.
	SkipProbe bool
	// If InitializeFirst is set, Open sends initialize first, and the probe only if the server
	// refuses initialize. It is for servers that are known not to answer server/discover.
	InitializeFirst bool

	// Dialect is the configured dialect. Nil means that Open detects the dialect.
	Dialect *dialect.Profile
	// Dialects are the dialects that Open can detect, in the order in which Open tries them. Nil
	// means the built-in dialects.
	Dialects []*dialect.Profile

	// Watch is called during the handshake: before a message is sent, and when the outcome of the
	// message is known. Watch must not block. It may be nil.
	Watch func(Progress)

	// Inner returns the steps that an adapter behind the Link has performed with the server so far.
	// The server does not get Open's own messages, so the trace and the errors contain these steps
	// instead. Nil means that there is no adapter.
	Inner func() Trace

	// HTTP says that the Link is Streamable HTTP. It is false for pipes and for HTTP+SSE.
	HTTP bool

	// ProbeTimeout is the timeout of server/discover. When it expires, Open tries initialize. Zero
	// means 3 s on a pipe and 10 s over HTTP. A ProbeTimeout that is longer than half of Timeout is
	// shortened. If Pin is modern, only Timeout applies.
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

// timeouts returns the timeouts of a probe and of the whole handshake. If Pin is modern, the
// timeout of the probe is 0. Then only the timeout of the whole handshake limits the probe.
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
	// Hello is what the server declared. Hello.Capabilities is {} if the server sent no
	// capabilities. If a modern server refused server/discover (the finding "undiscovered"), the
	// capabilities are unknown, and Hello.Capabilities is nil.
	Hello mcp.ServerInfo
	// Rules are the HTTP rules for Revision. Rules.Version is spelled as the server spells it.
	Rules    transport.Rules
	Trace    Trace
	Findings []Finding

	// Dialect describes how the server differs from its revision, and is nil if there is no
	// difference.
	Dialect *dialect.Profile
	// Tools is the list of tools that a server sent during the handshake. It has the form of an
	// answer to tools/list. Tools is nil if the server sent no tools during the handshake.
	Tools *jsonrpc.Message

	remember bool
}

// NotReady does the same as the function NotReady, and also uses the signs of the dialect.
func (o *Outcome) NotReady(m *jsonrpc.Message) bool {
	if m == nil || m.Kind != jsonrpc.Failure {
		return false
	}
	f := readFailure(m)
	return f.gated || o.Dialect != nil && f.hasSign(o.Dialect.Errors.NotReady)
}

// Remember reports whether Revision may be passed as Offer.Known to later connections. It returns
// false if Pin was set, or if Open could not determine the era with certainty. Examples are a
// timeout, a status 408 or 5xx, and a broken link.
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
	FoundNoServerInfo       = "no_server_info"      // the server sent no serverInfo
	FoundOddInstructions    = "odd_instructions"    // the server's instructions are not a string
	FoundLongInstructions   = "long_instructions"   // the server's instructions were cut; see MaxInstructions
	FoundUndiscovered       = "undiscovered"        // the server refused server/discover, but with an error that only modern servers send
	FoundLateProbe          = "late_probe"          // the server answered the probe after the timeout of the probe
	FoundSilentProbe        = "silent_probe"        // the server did not answer the probe
	FoundStrictVersion      = "strict_version"      // the server refused the version that was offered first
	FoundOtherVersion       = "other_version"       // the server's version is not the pinned version
	FoundNotReady           = "not_ready"           // the server refused initialize at first, because it was not ready
	FoundInitializedRefused = "initialized_refused" // the server answered notifications/initialized with an error
	FoundEraChanged         = "era_changed"         // the server's era differs from the era of Offer.Known
	FoundDialect            = "dialect"             // the server speaks a dialect that was not configured
	FoundNoManifest         = "no_manifest"         // the dialect requires a manifest, but the server sent none
	FoundNamelessTools      = "nameless_tools"      // the manifest contained tools without a name, which were left out
)

// RulesFor returns the HTTP rules for a revision, from the feature table. The revision is Unknown
// until the server has answered initialize. For Unknown, and for a revision without Streamable
// HTTP, RulesFor returns the rules of 2025-03-26, the first revision with Streamable HTTP. A server
// of 2024-11-05 that uses Streamable HTTP follows the same rules.
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
