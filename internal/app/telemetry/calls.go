package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// callDepth bounds the number of calls that wait to be logged.
const callDepth = 1024

// CallLog writes one log record for each call of a client. NewCallLog starts it, and Close stops
// it. A nil *CallLog does nothing.
//
// CallLog subscribes as a tap, because the events in a queue do not contain the name of the client.
// The tap never blocks. If the log is too slow, CallLog drops calls. It later logs how many calls
// it dropped.
type CallLog struct {
	log     *slog.Logger
	level   slog.Level
	clean   func(project, server string) func(text string) string
	untap   func()
	calls   chan loggedCall
	missed  atomic.Int64
	closing chan struct{}
	running work.Group
}

// loggedCall is the event of a call, with the name of the client.
type loggedCall struct {
	event.Event
	client string
}

// NewCallLog returns a CallLog that logs, at the given level, the calls that p publishes. If log
// does not write records of this level, NewCallLog returns nil, so that calls cost nothing. The
// parameter clean is LogOptions.Clean, for the names that servers and clients give.
func NewCallLog(p *event.Publisher, log *slog.Logger, level slog.Level, clean func(project, server string) func(text string) string) *CallLog {
	if !log.Enabled(context.Background(), level) {
		return nil
	}
	l := &CallLog{log: log, level: level, clean: clean, calls: make(chan loggedCall, callDepth), closing: make(chan struct{})}
	l.untap = p.Tap(event.Of(event.Call), l.take)
	l.running.Go(l.run)
	return l
}

// Close logs the calls that were published before Close, and waits until the goroutine of the
// CallLog has ended.
func (l *CallLog) Close() {
	if l == nil {
		return
	}
	l.untap()
	close(l.closing)
	l.running.Close()
	l.running.Wait()
}

// take is the tap. The publisher calls it for each call.
func (l *CallLog) take(e event.Event) {
	name := clientName(e.Client)
	e.Client = nil // Client shares memory with the request, which must not be kept in memory
	select {
	case l.calls <- loggedCall{e, name}:
	default:
		l.missed.Add(1)
	}
}

// clientName returns the name in a client's description of itself, or "".
func clientName(c *mcp.ClientInfo) string {
	if c == nil {
		return ""
	}
	name, _ := jsonrpc.Text(c.Info, jsonrpc.Find(c.Info, jsonrpc.Whole(c.Info), "name"))
	if name == "" {
		return ""
	}
	return excerpt.Name(name)
}

// run logs calls until Close is called.
func (l *CallLog) run() {
	for {
		select {
		case c := <-l.calls:
			l.write(&c)
			continue
		default:
		}
		select {
		case c := <-l.calls:
			l.write(&c)
		case <-l.closing:
			for {
				select {
				case c := <-l.calls:
					l.write(&c)
				default:
					l.logMissed()
					return
				}
			}
		}
	}
}

// logMissed logs how many calls were dropped since its last call.
func (l *CallLog) logMissed() {
	if n := l.missed.Swap(0); n > 0 {
		l.log.Warn("too many calls at once; some were not logged", "code", "calls_not_logged", "missed", n)
	}
}

// subjects maps a method to the log attribute that contains the item's name or URI.
var subjects = map[string]string{
	mcp.MethodCallTool: "tool", mcp.MethodGetPrompt: "prompt", mcp.MethodReadResource: "uri",
	mcp.MethodSubscribe: "uri", mcp.MethodUnsubscribe: "uri",
}

// write logs one call.
func (l *CallLog) write(c *loggedCall) {
	l.logMissed()
	r := slog.NewRecord(c.Time, l.level, "call", 0)
	text := func(key, value string) {
		if value != "" {
			r.AddAttrs(slog.String(key, value))
		}
	}
	clean := cleaner(l.clean, &c.Event)
	r.AddAttrs(projectOf(c.Project, nil)...)
	text("server", c.Server)
	if c.Method != mcp.MethodCallTool {
		text("method", excerpt.Name(clean(c.Method)))
	}
	if key := subjects[c.Method]; key != "" && c.Name != "" {
		text(key, excerpt.Line(clean(c.Name), maxSubject))
	}
	text("took", tookText(c.Took))
	text("outcome", string(c.Outcome))
	if c.Code != 0 {
		r.AddAttrs(slog.Int64("error_code", c.Code))
	}
	text("client", clean(c.client))
	text("principal", c.Who.Key())
	if c.From != mcp.Unknown {
		text("from", c.From.String())
	}
	if c.To != mcp.Unknown {
		text("to", c.To.String())
	}
	_ = l.log.Handler().Handle(context.Background(), r)
}

// maxSubject is the maximum length in bytes of a logged name or URI of a tool, prompt or resource.
const maxSubject = 256

// tookText formats a duration, rounded to a precision that is useful to people.
func tookText(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	case d < 10*time.Second:
		d = d.Round(time.Millisecond)
	default:
		d = d.Round(100 * time.Millisecond)
	}
	return d.String()
}
