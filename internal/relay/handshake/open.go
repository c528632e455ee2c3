package handshake

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// state is a state of the handshake. Its value is used as Error.Step.
type state string

const (
	probing      state = "probe"       // sends server/discover
	initializing state = "initialize"  // sends initialize
	announcing   state = "initialized" // sends notifications/initialized
	opened       state = "open"
)

// opening is one run of the state machine. mu protects the fields after it. Only the goroutine that
// called Open uses the fields before mu.
type opening struct {
	link    Link
	offer   Offer
	caller  context.Context // the ctx that was passed to Open, without the timeouts
	begun   time.Time
	limit   time.Duration // timeout of a probe
	whole   time.Duration // timeout of the whole handshake
	timedUp bool          // true if the timeout of the whole handshake has expired
	state   state
	trace   Trace
	bytes   Step // the params and the answer for the next step of the trace
	watched int  // the number of calls of Offer.Watch

	// The following fields record what was tried.
	probes        int
	probeAnswered bool // the probe had a clear answer, so another probe would have the same result
	eraUncertain  bool // no answer has shown the era clearly
	silent        bool // the probe got no answer
	waited        int  // the number of waits because the server was not ready
	version       mcp.Revision
	retried       bool     // a second version was offered after the first was refused
	plain         bool     // initialize is sent with standard parameters, even if there is a dialect
	refusal       *Error   // the error of the refused initialize, kept while a probe may still help
	unsent        string   // why the last message could not be sent, as returned by reply.got
	answer        string   // the message of the last answer if the answer is an error, else ""
	theirs        []string // the versions that the server supports, if it has listed them

	// The following fields record what was found.
	revision mcp.Revision
	hello    mcp.ServerInfo
	rules    transport.Rules
	dialect  *dialect.Profile
	tools    *jsonrpc.Message
	findings []Finding

	mu      sync.Mutex
	late    *jsonrpc.Message // the answer to the probe, if the answer came after the timeout
	stop    context.CancelFunc
	pushed  *manifest     // the unsolicited manifest
	push    chan struct{} // closed when pushed is set
	status  string        // the name in the first status line; see StatusLines
	mute    *time.Timer   // ends the wait for an answer after a status line; nil before the line
	overdue bool          // mute has fired: no answer came for a while after the status line
}

// Open performs the handshake with a server. If Open succeeds, the revision is known, and Open has
// sent notifications/initialized to a server that expects this notification. The error is always an
// *Error. Open may be called again on the same Link if the Link has not ended.
func Open(ctx context.Context, l Link, offer Offer) (*Outcome, error) {
	o := &opening{link: l, offer: offer, caller: ctx, begun: time.Now(), push: make(chan struct{})}
	o.applyDialect()
	o.limit, o.whole = offer.timeouts()
	ctx, cancel := context.WithTimeout(ctx, o.whole)
	defer cancel()
	if late, ok := l.(LateAnswers); ok {
		late.OnLate(o.receiveLate)
		defer late.OnLate(nil)
	}
	if unasked, ok := l.(UnaskedAnswers); ok {
		unasked.OnUnasked(o.receiveUnasked)
		defer unasked.OnUnasked(nil)
	}
	if lines, ok := l.(StatusLines); ok && o.offer.Dialects != nil {
		lines.OnStatus(o.receiveStatus)
		defer o.stopStatus(lines)
	}
	switch {
	case offer.Pin.Legacy():
		o.version, o.state = offer.Pin, initializing
	case offer.Pin.Modern():
		o.state = probing
	case offer.Known.Legacy():
		o.version, o.state = offer.Known, initializing
	case o.offer.SkipProbe, offer.InitializeFirst:
		o.state = initializing
	default:
		o.state = probing
	}
	for o.state != opened {
		next, err := o.step(ctx)
		if err != nil {
			err.Trace = o.trace
			return nil, err
		}
		o.state = next
	}
	if offer.Known != mcp.Unknown && offer.Known.Modern() != o.revision.Modern() {
		o.find(FoundEraChanged, "the server used "+offer.Known.String()+" before and now uses "+o.revision.String())
	}
	return &Outcome{
		Revision: o.revision, Hello: o.hello, Rules: o.rules, Trace: o.trace, Findings: o.findings,
		Dialect: o.dialect, Tools: o.tools,
		remember: !o.eraUncertain && offer.Pin == mcp.Unknown,
	}, nil
}

// step does the work of the current state and returns the next state. Counters limit how often each
// state is entered, so the state machine always ends.
func (o *opening) step(ctx context.Context) (state, *Error) {
	switch o.state {
	case probing:
		return o.probe(ctx)
	case initializing:
		return o.initialize(ctx)
	default:
		return o.announce(ctx)
	}
}

// maxFinding is the maximum length in bytes of the text of a finding.
const maxFinding = 400

// find adds a finding, unless there is already a finding with the same code.
func (o *opening) find(code, text string) {
	for _, f := range o.findings {
		if f.Code == code {
			return
		}
	}
	o.findings = append(o.findings, Finding{Code: code, Text: excerpt.Line(text, maxFinding)})
}

// wait blocks for d or until ctx ends.
func (o *opening) wait(ctx context.Context, d time.Duration) error {
	return wait(ctx, d, o.offer.Wait)
}

func wait(ctx context.Context, d time.Duration, by func(context.Context, time.Duration) error) error {
	if by != nil {
		return by(ctx, d)
	}
	return work.Sleep(ctx, d)
}

// replyKind is the kind of outcome of an exchange.
type replyKind uint8

const (
	answered   replyKind = iota // the server answered; msg is a Result or a Failure
	refused                     // the server answered with an HTTP error status; msg is the body if the body is a Failure
	silence                     // the server did not answer before the timeout
	unreadable                  // the answer is not a valid message
	ended                       // the link has ended, or could not be opened
	halted                      // the caller's ctx ended
)

// reply is the outcome of sending one message.
type reply struct {
	kind   replyKind
	msg    *jsonrpc.Message
	status *transport.StatusError
	err    error
	took   time.Duration
}

// exchange sends a request and classifies the outcome. limit is the timeout of the exchange. If
// limit is 0, only ctx limits the exchange.
func (o *opening) exchange(ctx context.Context, limit time.Duration, method string, params []byte, rules *transport.Rules) reply {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	o.keepSent(params)
	o.watch(Progress{Sent: method, Bytes: o.bytes.Params, Size: o.bytes.ParamsSize})
	begun := time.Now()
	msg, err := o.link.Exchange(ctx, method, params, rules)
	return o.classify(msg, err, time.Since(begun))
}

func (o *opening) classify(msg *jsonrpc.Message, err error, took time.Duration) reply {
	r := reply{msg: msg, err: err, took: took}
	var broken *jsonrpc.Error
	switch {
	case err == nil && msg != nil && (msg.Kind == jsonrpc.Result || msg.Kind == jsonrpc.Failure):
		r.kind = answered
	case err == nil:
		r.kind, r.err = unreadable, errors.New("the message is not an answer")
	case errors.As(err, &r.status):
		r.kind, r.msg = refused, nil
		if m := r.status.Msg; m != nil && m.Kind == jsonrpc.Failure {
			r.msg = m
		}
	case errors.As(err, &broken):
		r.kind = unreadable
	case o.caller.Err() != nil:
		r.kind = halted
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		r.kind = silence
	default:
		r.kind = ended
		if errors.Is(err, transport.ErrNotSent) {
			o.unsent = r.got()
		}
	}
	o.answer = ""
	o.keepAnswer(r.msg)
	if r.msg != nil && r.msg.Kind == jsonrpc.Failure {
		f := readFailure(r.msg)
		o.answer = f.text
		if f.versions != nil {
			o.theirs = f.versions
		}
	}
	return r
}

// got returns a short description of the outcome.
func (r *reply) got() string {
	switch r.kind {
	case answered:
		return describe(r.msg)
	case refused:
		s := "HTTP " + strconv.Itoa(r.status.Status)
		if r.msg != nil {
			return s + " with " + describe(r.msg)
		}
		if t := excerpt.Line(r.status.ContentType, 40); t != "" {
			s += " (" + t + ")"
		}
		return s
	case silence:
		return "no response for " + r.took.Round(time.Millisecond).String()
	case unreadable:
		return "an unreadable answer (" + excerpt.Line(r.err.Error(), maxSaid) + ")"
	case halted:
		if errors.Is(r.err, context.DeadlineExceeded) {
			return "no response for " + r.took.Round(time.Millisecond).String()
		}
		return "no response before it was cancelled"
	case ended:
		if errors.Is(r.err, transport.ErrNotSent) {
			return unsent(r.err)
		}
	}
	return "a closed connection (" + excerpt.Line(r.err.Error(), maxSaid) + ")"
}

// unsent returns a short text that says why a message could not be sent.
func unsent(err error) string {
	said := "could not send: "
	if errors.Is(err, syscall.EPIPE) {
		return said + "the pipe to the server is broken"
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		// The user already knows the address, so the text contains only the reason.
		said, err = "could not connect: ", op.Err
		var call *os.SyscallError
		if errors.As(err, &call) {
			err = call.Err
		}
	}
	return said + excerpt.Line(strings.TrimPrefix(err.Error(), transport.ErrNotSent.Error()+": "), maxSaid)
}

// accessCause returns the cause if the outcome is about access to the server: a status, or missing
// credentials. It does not show the server's era. For any other outcome, accessCause returns "".
func (r *reply) accessCause() Cause {
	if errors.Is(r.err, transport.ErrCredentials) {
		return CauseAuth
	}
	if r.kind != refused {
		return ""
	}
	switch r.status.Status {
	case 401, 403, 407:
		return CauseAuth
	case 429:
		return CauseRateLimited
	case 503:
		return CauseUnavailable
	}
	return ""
}

// transient reports whether a status may be temporary. Such a status does not show the server's
// era.
func (r *reply) transient() bool {
	return r.kind == refused && (r.status.Status == http.StatusRequestTimeout || r.status.Status >= 500)
}

// giveUp returns CauseCancelled if the handshake was cancelled, and CauseTimeout if its timeout has
// expired. Otherwise giveUp returns "".
func (o *opening) giveUp(ctx context.Context, r *reply) Cause {
	switch {
	case r.kind == halted && errors.Is(o.caller.Err(), context.DeadlineExceeded),
		r.kind == silence && ctx.Err() != nil:
		o.timedUp = true
		return CauseTimeout
	case r.kind == halted:
		return CauseCancelled
	}
	return ""
}
