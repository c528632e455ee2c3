package codex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	events "github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
)

const methodInitialize = "initialize"

// greeting is one handshake with a worker. A worker has at most one handshake at a time.
//
// A greeting offers version 1 or version 2 of the params of initialize. If the last worker did not
// answer version 2, the greeting offers version 1 at once. Otherwise it first offers version 2. If
// the worker refuses version 2 or does not answer in time, the greeting offers version 1 on the
// same pipe. If the worker refuses client_info, which is the second spelling of clientInfo, the
// greeting offers version 1 again without client_info. It also accepts a late answer to an earlier
// offer.
type greeting struct {
	b     *bridge
	begun time.Time
	cause string // why the greeting offered version 1; "" if it did not
	class string // the cause as one word; see Server.Handshakes

	mu    sync.Mutex
	trace handshake.Trace
	sent  string        // the last offer, while it has no answer; else ""
	at    time.Duration // when sent was sent, since begun
}

// steps returns the steps so far. The last step may be an offer that has no answer yet.
func (g *greeting) steps() handshake.Trace {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := slices.Clone(g.trace)
	if now := time.Since(g.begun); g.sent != "" && len(t) < maxSteps {
		t = append(t, handshake.Step{At: now, Sent: g.sent, Got: "no answer for " + (now - g.at).Round(time.Millisecond).String(), Reason: "Codex has not answered yet"})
	}
	return t
}

// greet performs the handshake and returns the worker's result. The error is a sentence for
// users.
func (b *bridge) greet(ctx context.Context, info []byte) (*jsonrpc.Message, error) {
	g := &greeting{b: b, begun: time.Now()}
	b.greeting.Store(g)
	b.server.set(HandshakePending)
	m, version, err := g.run(ctx, info)
	attrs := []slog.Attr{slog.String("server", b.server.o.Server)}
	if g.cause != "" {
		attrs = append(attrs, slog.String("fallback", b.server.o.Clean(g.cause)))
	}
	if err != nil {
		b.server.negotiated("", b.server.o.Clean(err.Error()), cmp.Or(g.class, "refused"))
		b.server.set(HandshakeFailed)
		attrs = append(attrs, slog.String("reason", string(HandshakeFailed)), slog.String("cause", b.server.o.Clean(err.Error())))
		b.server.o.Log.LogAttrs(ctx, slog.LevelWarn, "handshake with codex worker failed", attrs...)
		return nil, err
	}
	if b.server.o.Initialized {
		if err := b.worker.post(ctx, "initialized"); err != nil {
			return nil, err
		}
		g.note("initialized", "nothing, as expected", "the profile requires it")
	}
	b.server.negotiated(version, b.server.o.Clean(g.cause), g.class)
	b.server.opened()
	attrs = append(attrs, slog.String("reason", string(HandshakeComplete)), slog.String("version", version), slog.Duration("took", time.Since(g.begun)))
	b.server.o.Log.LogAttrs(ctx, slog.LevelInfo, "codex worker is ready", attrs...)
	return m, nil
}

// offered is an offer and the worker's answer to that offer.
type offered struct {
	offer offer
	m     *jsonrpc.Message
}

// offer is one variant of the params of initialize.
type offer int

const (
	offerTwo offer = iota
	offerOne
	offerOnly // version 1 without client_info
)

func (o offer) String() string {
	return [...]string{"initialize v2", "initialize v1", "initialize v1 with clientInfo only"}[o]
}

func (o offer) version() string {
	if o == offerTwo {
		return "2"
	}
	return "1"
}

func (o offer) params(info []byte) []byte {
	return [...]func([]byte) []byte{versionTwo, versionOne, clientInfoOnly}[o](info)
}

func (g *greeting) run(ctx context.Context, info []byte) (m *jsonrpc.Message, version string, err error) {
	var open []*exchange
	defer func() {
		for _, x := range open {
			g.b.worker.drop(x)
		}
	}()
	answers := make(chan offered, 3) // in order of arrival
	send := func(o offer) error {
		x, err := g.b.worker.begin(ctx, methodInitialize, o.params(info), func(m *jsonrpc.Message) { answers <- offered{o, m} })
		if err == nil {
			open = append(open, x)
			g.mu.Lock()
			g.sent, g.at = o.String(), time.Since(g.begun)
			g.mu.Unlock()
		}
		return err
	}
	wait := g.b.server.o.Silence
	timer := time.NewTimer(wait)
	defer timer.Stop()
	both := g.b.server.silentOnV2.Load() // true if version 1 has been offered
	silent := both
	if both {
		g.cause, g.class = "Codex did not answer version 2 before", "silence"
		timer.Stop()
		err = send(offerOne)
	} else {
		err = send(offerTwo)
	}
	only := false // version 1 has been offered without client_info
	for err == nil {
		select {
		case a := <-answers:
			g.drain()
			sent, m := a.offer.String(), a.m
			if m.Kind == jsonrpc.Result {
				g.b.server.silentOnV2.Store(silent && a.offer != offerTwo)
				g.note(sent, describe(m), "Codex speaks version "+a.offer.version())
				return m, "v" + a.offer.version(), g.check(m)
			}
			e := failureOf(m)
			switch {
			case already(e):
				g.note(sent, answerText(m), "Codex sent a notification that it is ready, without an answer to initialize")
				return nil, "v2", nil
			case a.offer == offerOne && !only && refusesMirror(e):
				g.note(sent, answerText(m), "trying clientInfo alone on the same pipe")
				only = true
				err = send(offerOnly)
			case a.offer != offerTwo:
				g.note(sent, answerText(m), "there is no other version to try")
				return nil, "", problem(fmt.Sprintf("Codex refused both versions of its handshake: version 2 with %s, version 1 with %s", g.cause, answerText(m)))
			case both:
				g.note(sent, answerText(m)+", late", "version 1 has been offered")
				g.cause, g.class, silent = answerText(m), classOf(e), false
			case fallsBack(e) || dialect.HasSign(g.b.server.o.WrongParams, strconv.FormatInt(e.Code, 10), strings.ToLower(e.Message)):
				g.cause, g.class = answerText(m), classOf(e)
				g.note(sent, g.cause, "trying version 1 on the same pipe")
				both = true
				err = send(offerOne)
			default:
				g.note(sent, answerText(m), "the error is unrelated to the version")
				return nil, "", problem("Codex refused the handshake: " + answerText(m))
			}
		case name := <-g.b.events:
			// Until version 1 is offered, each status line from the worker restarts the timeout.
			g.noteEvent(name)
			if !both {
				timer.Reset(wait)
			}
		case <-timer.C:
			if both {
				continue
			}
			g.cause, g.class = "silence for "+wait.String(), "silence"
			g.note(offerTwo.String(), "no answer for "+wait.String(), "trying version 1 on the same pipe")
			both, silent = true, true
			err = send(offerOne)
		case <-g.b.worker.gone:
			g.class = "exited"
			g.note(methodInitialize, "the end of stdout", "Codex has exited")
			return nil, "", problem(fmt.Sprintf("Codex ended during its handshake: %v", g.b.worker.err))
		case <-ctx.Done():
			g.note(methodInitialize, "no answer", "timeout")
			return nil, "", problem("Codex did not answer the handshake")
		}
	}
	g.note(methodInitialize, "nothing: Codex does not read its stdin", "Codex has exited")
	return nil, "", problem(fmt.Sprintf("Codex does not read its stdin, so the handshake failed: %v", err))
}

// maxSteps bounds the trace, because a wrapper may print any number of status lines.
const maxSteps = 16

// note adds a step to the trace, and publishes the step.
func (g *greeting) note(sent, got, reason string) {
	o := &g.b.server.o
	got, reason = o.Clean(got), o.Clean(reason)
	g.mu.Lock()
	full := len(g.trace) >= maxSteps
	if !full {
		g.trace = append(g.trace, handshake.Step{At: time.Since(g.begun), Sent: sent, Got: got, Reason: reason})
	}
	if sent != "" {
		g.sent = ""
	}
	n := len(g.trace)
	g.mu.Unlock()
	if !full && o.Events.Wants(events.Step) {
		o.Events.Publish(events.Event{Kind: events.Step, Level: slog.LevelDebug, Server: o.Server, Step: &events.HandshakeStep{
			N: n, Sent: sent, Got: got, Reason: reason,
		}})
	}
}

// noteEvent records a status line that a wrapper around Codex prints while the wrapper starts.
func (g *greeting) noteEvent(name string) {
	g.note("", `the line {"event":"`+excerpt.Line(name, 40)+`"}`, "Codex is running")
}

// drain records the status lines that arrived before an answer to initialize.
func (g *greeting) drain() {
	for {
		select {
		case name := <-g.b.events:
			g.noteEvent(name)
		default:
			return
		}
	}
}

// check returns an error if the answer comes from an MCP server, since MCP servers answer
// initialize too.
func (g *greeting) check(m *jsonrpc.Message) error {
	keys := [...]string{"userAgent", "protocolVersion", "serverInfo"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, keys[:], at[:])
	if at[0].IsZero() && !at[1].IsZero() && !at[2].IsZero() {
		return errors.New("the Codex app-server answers initialize like an MCP server; remove the dialect from the configuration of the server")
	}
	return nil
}

// already reports whether an error says that the worker is initialized already. This happens if the
// worker accepted the first offer but did not answer it.
func already(e *jsonrpc.Error) bool {
	return strings.Contains(strings.ToLower(e.Message), "already initialized")
}

// schemaWords has phrases that occur in errors about unknown or missing members.
var schemaWords = []string{
	"unknown field", "missing field", "unknown variant", "unexpected", "invalid type", "invalid param", "invalid request",
	"additional propert", "unrecognized", "schema", "validation", "protocolversion", "protocol_version", "protocol version", "deserialize",
}

// fallsBack reports whether an error probably means that the worker does not support the params of
// version 2. If so, the greeting offers version 1.
func fallsBack(e *jsonrpc.Error) bool {
	if e.Code == jsonrpc.CodeInvalidParams || e.Code == jsonrpc.CodeInvalidRequest {
		return true
	}
	low := strings.ToLower(e.Message)
	for _, w := range schemaWords {
		if strings.Contains(low, w) {
			return true
		}
	}
	return false
}

// classOf returns the class of an error after which the greeting offers version 1: the code of the
// error, or "schema".
func classOf(e *jsonrpc.Error) string {
	switch e.Code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest:
		return strconv.FormatInt(e.Code, 10)
	}
	return "schema"
}

// versionTwo returns the params of version 2. Each member is in both spellings, camelCase and
// snake_case.
func versionTwo(info []byte) []byte {
	b := append([]byte(`{"protocolVersion":"v2","protocol_version":"v2","clientInfo":`), info...)
	b = append(append(b, `,"client_info":`...), info...)
	return append(b, `,"capabilities":{}}`...)
}

// versionOne returns the params of version 1, with clientInfo in both spellings. It omits the
// members that only version 2 has, because even a null member may be refused.
func versionOne(info []byte) []byte {
	b := append([]byte(`{"clientInfo":`), info...)
	return append(append(append(b, `,"client_info":`...), info...), '}')
}

// clientInfoOnly returns the params of version 1 for a worker that refuses client_info.
func clientInfoOnly(info []byte) []byte {
	return append(append([]byte(`{"clientInfo":`), info...), '}')
}

// refusesMirror reports whether an error after an offer of version 1 is about client_info. Most
// workers ignore this member, but strict workers refuse it.
func refusesMirror(e *jsonrpc.Error) bool {
	low := strings.ToLower(e.Message)
	return strings.Contains(low, "client_info") || strings.Contains(low, "additional propert")
}

// answerText returns the code and the message of an error from the worker as text. If the code is a
// string, it is quoted.
func answerText(m *jsonrpc.Message) string {
	e := failureOf(m)
	s := strconv.FormatInt(e.Code, 10)
	if name, ok := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code")); ok {
		s = excerpt.Quote(name, 40)
	}
	if e.Message != "" {
		s += " " + excerpt.Quote(e.Message, 200)
	}
	return s
}

// describe returns text that lists the first members of a result.
func describe(m *jsonrpc.Message) string {
	var names []string
	for x := range jsonrpc.Members(m.Raw, m.Result) {
		if len(names) == 6 {
			names = append(names, "…")
			break
		}
		name, _ := jsonrpc.Text(m.Raw, x.Key)
		names = append(names, excerpt.Word(name, 40))
	}
	if names == nil {
		return "an empty result"
	}
	return "a result with " + strings.Join(names, ", ")
}
