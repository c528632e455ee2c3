package handshake

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Link is what a handshake speaks over. Its methods are called by one goroutine,
// one at a time, and keep neither params nor rules.
type Link interface {
	// Exchange sends one request and waits for its answer, a Result or a Failure.
	// params is a JSON object, or nil for none.
	//
	// On HTTP an answer that is no success, or no MCP, is a
	// *transport.StatusError, its Msg set when the body is JSON-RPC. An answer
	// that could not be scanned is a *jsonrpc.Error. context.DeadlineExceeded
	// means silence; on a pipe the answer may still come, see LateAnswers. Any
	// other error means that the link has ended or never came to be; one that
	// wraps transport.ErrNotSent says that the server saw nothing.
	//
	// An Exchange whose ctx ends sends nothing about it: a legacy server that has
	// not been initialized expects no cancellation, and initialize must not be
	// cancelled (2025-11-25 §Cancellation, "Behavior Requirements").
	Exchange(ctx context.Context, method string, params []byte, rules *transport.Rules) (*jsonrpc.Message, error)
	// Post sends a notification. params may be nil. Its errors are those of
	// Exchange.
	Post(ctx context.Context, method string, params []byte, rules *transport.Rules) error
}

// LateAnswers is implemented by a Link on which the answer to an Exchange may
// come after its ctx has ended: a pipe. A slow start is not an era, so a late
// answer to the probe still counts.
type LateAnswers interface {
	// OnLate says who is handed late answers; nil, as when Open returns, nobody.
	// f is called by whoever reads the link, before the next message is read and
	// handed on, and does not block. After OnLate has returned, the f of before
	// may still be running but is not called again.
	OnLate(f func(answer *jsonrpc.Message))
}

// UnaskedAnswers is implemented by a Link on which results may come that answer
// nothing: a pipe. Some servers push what they have as soon as they run.
type UnaskedAnswers interface {
	// OnUnasked says who is handed them, the first few that came before included;
	// nil, as when Open returns, nobody. f is called as that of LateAnswers is.
	OnUnasked(f func(answer *jsonrpc.Message))
}

// Offer is what a handshake starts from. The zero value negotiates on a pipe for
// a client that declares nothing.
type Offer struct {
	// ClientInfo is an Implementation object, Capabilities a ClientCapabilities
	// object, both as the revision that will be spoken wants them: they are sent
	// as they are, in _meta and in initialize. Nil means a bare "dragoman", and
	// no capabilities.
	ClientInfo, Capabilities []byte

	// Pin is the revision that the operator chose; Unknown negotiates.
	Pin mcp.Revision
	// Known is what an earlier Outcome of the same server said and Remember
	// allowed to keep. It is tried first: a legacy one is offered at initialize
	// without a probe. Contrary evidence overrules it within the same Open.
	Known mcp.Revision
	// SkipProbe is set after ErrDiedOnProbe, for this and all later connections
	// to the same configuration, and over HTTP+SSE, which no modern server has.
	SkipProbe bool
	// InitializeFirst is set where a server is known to leave server/discover
	// unanswered: initialize is sent first, and the probe only when that is refused.
	InitializeFirst bool

	// Dialect is the one that the operator chose; nil finds out.
	Dialect *dialect.Profile
	// Dialects are those that are looked for where none is chosen, in their order; nil
	// means the built-in ones.
	Dialects []*dialect.Profile

	// HTTP says that the Link is Streamable HTTP. It is false for pipes, HTTP+SSE
	// among them.
	HTTP bool

	// ProbeTimeout is how long the answer to server/discover is waited for before
	// initialize is tried. Zero means 3 s on a pipe and 10 s on HTTP. It is never
	// more than half of Timeout, except where Pin leaves nothing else to try.
	ProbeTimeout time.Duration
	// Timeout bounds the handshake as a whole. Zero means 30 s.
	Timeout time.Duration
	// Wait blocks for d or until ctx ends, whose error it then returns. Nil waits
	// for a timer.
	Wait func(ctx context.Context, d time.Duration) error
}

const (
	pipeProbeTimeout = 3 * time.Second
	httpProbeTimeout = 10 * time.Second
	wholeTimeout     = 30 * time.Second
)

// timeouts returns the limits of a probe and of the whole. A probe that has the
// whole time has no limit of its own, or the two would race for which ends it.
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

// Outcome is an open conversation. It is not written to after Open.
type Outcome struct {
	Revision mcp.Revision
	// Hello is what the server said of itself. Its Capabilities are {} when the
	// server sent none, and nil when a modern server would not answer discover
	// (the finding "undiscovered"): then nothing is known of them.
	Hello mcp.ServerInfo
	// Rules are those of Revision, with the version as the server spells it.
	Rules    transport.Rules
	Trace    Trace
	Findings []Finding

	// Dialect is what is to be known of the server beside its revision, nil for MCP as
	// it is written.
	Dialect *dialect.Profile
	// Tools is the answer to tools/list of a server that gave its tools with the
	// opening, in the words of MCP; nil for all others.
	Tools *jsonrpc.Message

	remember bool
}

// NotReady reports whether an answer says that the server has not yet taken in
// notifications/initialized; see the function of that name.
func (o *Outcome) NotReady(m *jsonrpc.Message) bool {
	if m == nil || m.Kind != jsonrpc.Failure {
		return false
	}
	f := readFailure(m)
	return f.gated || o.Dialect != nil && f.shows(o.Dialect.Errors.NotReady)
}

// Remember reports whether Revision may be given as Known to later connections.
// It is false where the era rests on a time-out, on 408 or 5xx, on a link that
// broke, or on the operator's Pin.
func (o *Outcome) Remember() bool { return o.remember }

// Finding is an oddity of a server that was tolerated.
type Finding struct {
	Code string // one of the words below
	Text string // a sentence for people, at most 400 bytes
}

// The codes of findings.
const (
	FoundUnknownVersion     = "unknown_version"     // initialize answered a version that we do not know
	FoundNoVersion          = "no_version"          // initialize answered no version
	FoundNoCapabilities     = "no_capabilities"     // no capabilities object
	FoundNoServerInfo       = "no_server_info"      // no identity
	FoundOddInstructions    = "odd_instructions"    // instructions are no string
	FoundLongInstructions   = "long_instructions"   // instructions were cut, see MaxInstructions
	FoundUndiscovered       = "undiscovered"        // modern by its error, but it refuses discover
	FoundLateProbe          = "late_probe"          // the probe was answered after its time
	FoundSilentProbe        = "silent_probe"        // the probe was never answered
	FoundStrictVersion      = "strict_version"      // refused the version that we offered first
	FoundOtherVersion       = "other_version"       // not the version that the operator pinned
	FoundNotReady           = "not_ready"           // initialize had to be repeated
	FoundInitializedRefused = "initialized_refused" // notifications/initialized was answered with an error
	FoundEraChanged         = "era_changed"         // not the era that was remembered
	FoundDialect            = "dialect"             // it speaks a dialect that was not configured
	FoundNoManifest         = "no_manifest"         // the dialect has a manifest, and there was none
	FoundNamelessTools      = "nameless_tools"      // tools of a manifest without a name were left out
)

// RulesFor returns what HTTP does for a revision, from the feature table. A
// revision without Streamable HTTP, and Unknown, which stands for the time before
// initialize is answered, get the shape of the first that has it: whoever speaks
// 2024-11-05 over Streamable HTTP holds its sessions as 2025-03-26 does.
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
