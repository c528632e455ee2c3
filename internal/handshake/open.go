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
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// state is where a handshake stands; it names what is sent next.
type state string

const (
	probing      state = "probe"       // server/discover
	initializing state = "initialize"  // initialize
	announcing   state = "initialized" // notifications/initialized
	opened       state = "open"
)

// opening is one run of the state machine. All of it belongs to the goroutine
// that called Open, except what stands below mu.
type opening struct {
	link   Link
	offer  Offer
	caller context.Context // of Open, without its time-outs
	begun  time.Time
	limit  time.Duration // of a probe
	state  state
	trace  Trace

	// What has been tried.
	probes  int
	told    bool // the probe was answered, so asking again tells nothing new
	shaky   bool // the era rests on something that was no answer
	silent  bool // a probe was met with silence
	waited  int  // for a server that is not ready
	version mcp.Revision
	retried bool   // a second version was offered
	plain   bool   // initialize goes out with the standard's parameters, whatever the dialect
	refusal *Error // of initialize, while a probe after it may still help
	unsent  string // why the last message could not leave, as got says it

	// What was found.
	revision mcp.Revision
	hello    mcp.ServerInfo
	rules    transport.Rules
	dialect  *dialect.Profile
	tools    *jsonrpc.Message
	findings []Finding

	mu     sync.Mutex
	late   *jsonrpc.Message // the probe's answer, when it came after its time
	stop   context.CancelFunc
	pushed *manifest     // that came unasked
	push   chan struct{} // closed when it is there
}

// Open leads the handshake with a server until its revision is settled and, in
// the legacy era, until notifications/initialized is sent. The error is always an
// *Error. Open may be called again on the same Link only where the Link is still
// good: after nothing that ended it.
func Open(ctx context.Context, l Link, offer Offer) (*Outcome, error) {
	o := &opening{link: l, offer: offer, caller: ctx, begun: time.Now(), push: make(chan struct{})}
	o.consider()
	var whole time.Duration
	o.limit, whole = offer.timeouts()
	ctx, cancel := context.WithTimeout(ctx, whole)
	defer cancel()
	if late, ok := l.(LateAnswers); ok {
		late.OnLate(o.heard)
		defer late.OnLate(nil)
	}
	if unasked, ok := l.(UnaskedAnswers); ok {
		unasked.OnUnasked(o.heardUnasked)
		defer unasked.OnUnasked(nil)
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
		o.find(FoundEraChanged, "it spoke "+offer.Known.String()+" before and speaks "+o.revision.String()+" now")
	}
	return &Outcome{
		Revision: o.revision, Hello: o.hello, Rules: o.rules, Trace: o.trace, Findings: o.findings,
		Dialect: o.dialect, Tools: o.tools,
		remember: !o.shaky && offer.Pin == mcp.Unknown,
	}, nil
}

// step does what the state is there for and returns the next one. No state is
// entered more often than its counters allow, so the machine ends.
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

// maxFinding bounds a finding's text, in bytes.
const maxFinding = 400

// find adds a finding. There are never more than one per kind.
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
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// replyKind says what came of an exchange.
type replyKind uint8

const (
	answered   replyKind = iota // msg is a Result or a Failure
	refused                     // an HTTP status; msg is its body where that is a Failure
	silence                     // nothing in time
	unreadable                  // an answer that is no message
	ended                       // the link is over, or never was
	halted                      // the caller has given up
)

// reply is what came back for one message.
type reply struct {
	kind   replyKind
	msg    *jsonrpc.Message
	status *transport.StatusError
	err    error
	took   time.Duration
}

// exchange sends a request and tells apart what comes of it. limit bounds it, 0
// leaves that to ctx.
func (o *opening) exchange(ctx context.Context, limit time.Duration, method string, params []byte, rules *transport.Rules) reply {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	begun := time.Now()
	msg, err := o.link.Exchange(ctx, method, params, rules)
	return o.sort(msg, err, time.Since(begun))
}

func (o *opening) sort(msg *jsonrpc.Message, err error, took time.Duration) reply {
	r := reply{msg: msg, err: err, took: took}
	var broken *jsonrpc.Error
	switch {
	case err == nil && msg != nil && (msg.Kind == jsonrpc.Result || msg.Kind == jsonrpc.Failure):
		r.kind = answered
	case err == nil:
		r.kind, r.err = unreadable, errors.New("no answer in the answer")
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
	return r
}

// got says in a few words what came back.
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
		return "silence for " + r.took.Round(time.Millisecond).String()
	case unreadable:
		return "an answer that cannot be read (" + excerpt.Line(r.err.Error(), maxSaid) + ")"
	case halted:
		return "nothing until it was called off"
	case ended:
		if errors.Is(r.err, transport.ErrNotSent) {
			return unsent(r.err)
		}
	}
	return "the end of the connection (" + excerpt.Line(r.err.Error(), maxSaid) + ")"
}

// unsent says in a few words why a message could not leave.
func unsent(err error) string {
	said := "could not send: "
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		// The address is the caller's own; what is left is the reason.
		said, err = "could not connect: ", op.Err
		var call *os.SyscallError
		if errors.As(err, &call) {
			err = call.Err
		}
	}
	return said + excerpt.Line(strings.TrimPrefix(err.Error(), transport.ErrNotSent.Error()+": "), maxSaid)
}

// barred returns the cause of a status that speaks for the way to the server and
// not for its era, "" for any other.
func (r *reply) barred() Cause {
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

// passing reports a status that may be gone the next time and is therefore no
// evidence of anything.
func (r *reply) passing() bool {
	return r.kind == refused && (r.status.Status == http.StatusRequestTimeout || r.status.Status >= 500)
}

// giveUp returns the cause when nobody waits any more, "" otherwise.
func (o *opening) giveUp(ctx context.Context, r *reply) Cause {
	switch {
	case r.kind == halted && errors.Is(o.caller.Err(), context.DeadlineExceeded):
		return CauseTimeout
	case r.kind == halted:
		return CauseCancelled
	case r.kind == silence && ctx.Err() != nil:
		return CauseTimeout
	}
	return ""
}
