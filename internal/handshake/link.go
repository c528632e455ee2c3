package handshake

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Link is the connection that a handshake uses. One goroutine calls its methods, one at
// a time. They must not keep params or rules.
type Link interface {
	// Exchange sends one request and waits for its answer, a Result or a Failure.
	// params is a JSON object, or nil for none.
	//
	// Over HTTP an error status or an answer that is not MCP is a
	// *transport.StatusError; its Msg is set if the body is JSON-RPC. An answer that
	// could not be scanned is a *jsonrpc.Error. context.DeadlineExceeded means no
	// answer; on a pipe it may still come, see LateAnswers. Any other error means that
	// the link has ended or could not be opened. One that wraps transport.ErrNotSent
	// says that the server received nothing.
	//
	// If its ctx ends, Exchange sends no cancellation: a legacy server that has not
	// been initialized expects none, and initialize must not be cancelled (2025-11-25
	// §Cancellation, "Behavior Requirements").
	Exchange(ctx context.Context, method string, params []byte, rules *transport.Rules) (*jsonrpc.Message, error)
	// Post sends a notification. params may be nil. The errors are those of Exchange.
	Post(ctx context.Context, method string, params []byte, rules *transport.Rules) error
}

// LateAnswers is implemented by a Link on which the answer to an Exchange may come
// after its ctx has ended: a pipe. A slow start does not determine the era, so a late
// answer to the probe still counts.
type LateAnswers interface {
	// OnLate sets the receiver of late answers. Nil, as when Open returns, means none.
	// The reader of the link calls f before it reads the next message; f must not
	// block. After OnLate has returned, the previous f may still be running but is not
	// called again.
	OnLate(f func(answer *jsonrpc.Message))
}

// UnaskedAnswers is implemented by a Link on which unsolicited results may come: a
// pipe. Some servers send their manifest when they start.
type UnaskedAnswers interface {
	// OnUnasked sets the receiver of such results, including the first few that came
	// earlier. Nil, as when Open returns, means none. f is called as in LateAnswers.
	OnUnasked(f func(answer *jsonrpc.Message))
}

// Offer is the input of a handshake. The zero value negotiates on a pipe for a client
// without capabilities.
type Offer struct {
	// ClientInfo is an Implementation object, Capabilities a ClientCapabilities object.
	// They are sent unchanged, in _meta and in initialize, so they must be valid for
	// the revision. Nil means a bare "dragoman", and no capabilities.
	ClientInfo, Capabilities []byte

	// Pin is the only allowed revision. Unknown negotiates.
	Pin mcp.Revision
	// Known is the revision of an earlier Outcome of the same server, if Remember
	// allowed to keep it. It is tried first: a legacy one is offered at initialize
	// without a probe. Contrary evidence overrides it within the same Open.
	Known mcp.Revision
	// SkipProbe is set after ErrDiedOnProbe, for all later connections to the same
	// configuration, and over HTTP+SSE, which no modern server has.
	SkipProbe bool
	// InitializeFirst is set if a server is known not to answer server/discover:
	// initialize is sent first, and the probe only if that is refused.
	InitializeFirst bool

	// Dialect is the configured dialect; nil detects it.
	Dialect *dialect.Profile
	// Dialects are tried, in order, if none is configured. Nil means the built-in ones.
	Dialects []*dialect.Profile

	// HTTP says that the Link is Streamable HTTP. It is false for pipes, including
	// HTTP+SSE.
	HTTP bool

	// ProbeTimeout is the timeout of server/discover before initialize is tried. Zero
	// means 3 s on a pipe and 10 s over HTTP. It is at most half of Timeout, unless Pin
	// leaves nothing else to try.
	ProbeTimeout time.Duration
	// Timeout limits the whole handshake. Zero means 30 s.
	Timeout time.Duration
	// Wait blocks for d or until ctx ends, and then returns its error. Nil uses a
	// timer.
	Wait func(ctx context.Context, d time.Duration) error
}

const (
	pipeProbeTimeout = 3 * time.Second
	httpProbeTimeout = 10 * time.Second
	wholeTimeout     = 30 * time.Second
)

// timeouts returns the timeouts of a probe and of the whole handshake. A probe that may
// use all the time has no timeout of its own, so that the two do not race.
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
	// Hello is what the server declared. Its Capabilities are {} if the server sent
	// none. They are nil if a modern server refused discover (the finding
	// "undiscovered"): then nothing is known of them.
	Hello mcp.ServerInfo
	// Rules are those of Revision, with the version as the server wrote it.
	Rules    transport.Rules
	Trace    Trace
	Findings []Finding

	// Dialect describes how the server deviates from its revision, nil if it does not.
	Dialect *dialect.Profile
	// Tools is the answer to tools/list of a server that sent its tools during the
	// handshake, converted to MCP. It is nil for all others.
	Tools *jsonrpc.Message

	remember bool
}

// NotReady reports whether an answer says that the server has not yet processed
// notifications/initialized; see the function NotReady.
func (o *Outcome) NotReady(m *jsonrpc.Message) bool {
	if m == nil || m.Kind != jsonrpc.Failure {
		return false
	}
	f := readFailure(m)
	return f.gated || o.Dialect != nil && f.hasSign(o.Dialect.Errors.NotReady)
}

// Remember reports whether Revision may be given as Known to later connections. It is
// false if the era was derived from a timeout, from 408 or 5xx, from a broken link, or
// from Pin.
func (o *Outcome) Remember() bool { return o.remember }

// Finding is a tolerated deviation of a server.
type Finding struct {
	Code string // one of the codes below
	Text string // a sentence for people, at most 400 bytes
}

// The codes of findings.
const (
	FoundUnknownVersion     = "unknown_version"     // initialize answered a version that we do not know
	FoundNoVersion          = "no_version"          // initialize answered no version
	FoundNoCapabilities     = "no_capabilities"     // no capabilities object
	FoundNoServerInfo       = "no_server_info"      // no identity
	FoundOddInstructions    = "odd_instructions"    // instructions are not a string
	FoundLongInstructions   = "long_instructions"   // instructions were cut, see MaxInstructions
	FoundUndiscovered       = "undiscovered"        // modern by its error, but it refuses discover
	FoundLateProbe          = "late_probe"          // the probe was answered after its timeout
	FoundSilentProbe        = "silent_probe"        // the probe was never answered
	FoundStrictVersion      = "strict_version"      // refused the version offered first
	FoundOtherVersion       = "other_version"       // not the pinned version
	FoundNotReady           = "not_ready"           // initialize had to be retried
	FoundInitializedRefused = "initialized_refused" // notifications/initialized was answered with an error
	FoundEraChanged         = "era_changed"         // another era than the remembered one
	FoundDialect            = "dialect"             // it speaks a dialect that was not configured
	FoundNoManifest         = "no_manifest"         // the dialect has a manifest, and there was none
	FoundNamelessTools      = "nameless_tools"      // tools of a manifest without a name were left out
)

// RulesFor returns the HTTP rules for a revision, from the feature table. Unknown
// (before initialize is answered) and a revision without Streamable HTTP get the rules
// of the first revision that has it: servers that speak 2024-11-05 over Streamable HTTP
// use sessions as 2025-03-26 does.
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
