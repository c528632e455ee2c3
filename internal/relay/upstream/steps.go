package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// LevelBytes is the log level at which the log also contains the messages of handshakes, with
// secrets masked.
const LevelBytes = slog.LevelDebug - 4

// maxStderrLine is the maximum length in bytes of a logged line of stderr.
const maxStderrLine = 500

// These are the purposes of sessions that Dragoman opens without a request from a client.
const (
	purposeKeepOpen = "keep open" // the server is kept open, or an operator starts it
	purposeInherit  = "inherit"   // see inherit
	purposeCheckEra = "check era" // see checkEra
)

// purposeOf returns the purpose of a session for the log: the method of the request that needs the
// session, or the purpose in ctx. If there is neither, the session is needed for a client's
// initialize.
func purposeOf(ctx context.Context, need mcp.Need) string {
	return cmp.Or(need.Method, mcp.PurposeOf(ctx), mcp.MethodInitialize)
}

// stepLog publishes each step of a handshake when it happens. It also publishes the first
// tools/list of the session.
type stepLog struct {
	*core
	purpose string // why the session is opened; see purposeOf
	n       atomic.Int64
	// listed says that the first tools/list was published.
	listed atomic.Bool
}

// watch returns the function for handshake.Offer.Watch, or nil if no subscriber of events wants the
// steps.
func (l *stepLog) watch() func(handshake.Progress) {
	if !l.enabled() {
		return nil
	}
	return func(p handshake.Progress) { l.write(p.Sent, p.Got, p.Reason, p.Bytes, p.Size) }
}

func (l *stepLog) enabled() bool {
	return l != nil && l.opts.Events.Wants(event.Step)
}

// write publishes one step. If a message is being sent, the parameter got is "". Another goroutine
// writes the log, so a slow terminal does not delay a handshake. The parameter message is the
// beginning of the sent or received message, and size is the size of the whole message in bytes.
func (l *stepLog) write(sent, got, reason string, message []byte, size int) {
	clean := l.opts.Clean
	e := &event.HandshakeStep{N: int(l.n.Add(1)), Sent: sent, Got: clean(got), Reason: clean(reason), For: l.purpose}
	if len(message) > 0 && l.opts.Log.Enabled(context.Background(), LevelBytes) {
		e.Bytes = shownBytes(message, size, clean)
	}
	l.opts.Events.Publish(event.Event{Kind: event.Step, Level: slog.LevelDebug, Server: l.spec.Name, Step: e})
}

// shownBytes returns the beginning of a message for the log, with secrets masked. The result has at
// most handshake.MaxShown bytes.
func shownBytes(message []byte, size int, clean func(string) string) string {
	if len(message) > handshake.MaxShown {
		message = message[:handshake.MaxShown]
	}
	text := excerpt.MaskHead(message, size, clean)
	if size > len(message) {
		text += "…"
	}
	return excerpt.Line(text, handshake.MaxShown)
}

// list publishes that Dragoman sends the first tools/list of a session. The returned function
// publishes the answer.
func (l *stepLog) list(method string) func(*mcp.Reply, error) {
	if method != mcp.MethodListTools || !l.enabled() || l.listed.Swap(true) {
		return func(*mcp.Reply, error) {}
	}
	l.write(method, "", "", nil, 0)
	return func(r *mcp.Reply, err error) {
		switch {
		case err != nil:
			l.write(method, "no answer: "+excerpt.Line(err.Error(), 200), "the tools are not known", nil, 0)
		case r.Code() != 0:
			l.write(method, "error "+strconv.FormatInt(r.Code(), 10), "the tools are not known", r.Msg.Raw, len(r.Msg.Raw))
		default:
			n := 0
			for range jsonrpc.Elements(r.Msg.Raw, r.Msg.ResultMember("tools")) {
				n++
			}
			got, reason := strconv.Itoa(n)+" tools", "the list is complete"
			if n == 1 {
				got = "1 tool"
			}
			if jsonrpc.KindOf(r.Msg.Raw, r.Msg.ResultMember("nextCursor")) == '"' {
				reason = "there are more pages"
			}
			l.write(method, got, reason, r.Msg.Raw, len(r.Msg.Raw))
		}
	}
}

// stderr returns the function to call with each line that the server's processes write to stderr.
func (c *core) stderr() func([]byte) {
	if !c.opts.Events.Wants(event.Stderr) {
		return c.opts.Stderr
	}
	return func(line []byte) {
		if c.opts.Stderr != nil {
			c.opts.Stderr(line)
		}
		// Mask secrets before the line is truncated, because a part of a secret would not be
		// recognised.
		text := excerpt.Line(excerpt.MaskSecrets(c.opts.Clean(stdio.Printable(line))), maxStderrLine)
		c.opts.Events.Publish(event.Event{Kind: event.Stderr, Level: slog.LevelDebug, Server: c.spec.Name, Detail: text})
	}
}
