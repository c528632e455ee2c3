package codex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	events "github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/handshake"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

const methodInitialize = "initialize"

// greeting is one handshake with a worker. A worker has at most one handshake at a time.
//
// It first offers version 2. If the worker refuses its params or does not answer, it offers
// version 1 on the same pipe. A late answer to the first offer still counts.
type greeting struct {
	b     *bridge
	begun time.Time
	trace handshake.Trace
	cause string // why version 1 was offered; "" if it was not
}

// greet performs the handshake and returns the worker's result. The error is a sentence for
// users.
func (b *bridge) greet(ctx context.Context, info []byte) (*jsonrpc.Message, error) {
	g := &greeting{b: b, begun: time.Now()}
	b.server.set(HandshakePending)
	m, version, err := g.run(ctx, info)
	if b.server.o.Events.Wants(events.Handshake) {
		e := events.Event{
			Kind: events.Handshake, Level: slog.LevelDebug, Server: b.server.o.Server, Outcome: events.OK,
			Detail: b.server.o.Clean(g.trace.String()),
		}
		if err != nil {
			e.Outcome = mcp.Failed
		}
		b.server.o.Events.Publish(e)
	}
	attrs := []slog.Attr{slog.String("server", b.server.o.Server)}
	if g.cause != "" {
		attrs = append(attrs, slog.String("fallback", b.server.o.Clean(g.cause)))
	}
	if err != nil {
		b.server.set(HandshakeFailed)
		attrs = append(attrs, slog.String("reason", string(HandshakeFailed)), slog.String("cause", b.server.o.Clean(err.Error())))
		b.server.o.Log.LogAttrs(ctx, slog.LevelWarn, "codex worker refused the handshake", attrs...)
		return nil, err
	}
	if b.server.o.Initialized {
		if err := b.worker.post(ctx, "initialized"); err != nil {
			return nil, err
		}
		g.note("initialized", "nothing, as expected", "the profile requires it")
	}
	b.server.opened()
	attrs = append(attrs, slog.String("reason", string(HandshakeComplete)), slog.String("version", version), slog.Duration("took", time.Since(g.begun)))
	b.server.o.Log.LogAttrs(ctx, slog.LevelInfo, "codex worker is ready", attrs...)
	return m, nil
}

// offered is the worker's answer to one of the two offers.
type offered struct {
	version int
	m       *jsonrpc.Message
}

func (g *greeting) run(ctx context.Context, info []byte) (m *jsonrpc.Message, version string, err error) {
	var open []*exchange
	defer func() {
		for _, x := range open {
			g.b.worker.drop(x)
		}
	}()
	answers := make(chan offered, 2) // in order of arrival
	offer := func(version int) error {
		params := versionOne(info)
		if version == 2 {
			params = versionTwo(info)
		}
		x, err := g.b.worker.begin(ctx, methodInitialize, params, func(m *jsonrpc.Message) { answers <- offered{version, m} })
		if err == nil {
			open = append(open, x)
		}
		return err
	}
	wait := g.b.server.o.Silence
	timer := time.NewTimer(wait)
	defer timer.Stop()
	both := g.b.server.silentOnV2.Load() // true if both versions have been offered
	silent := both
	if both {
		g.cause = "Codex did not answer version 2 before"
		timer.Stop()
		err = offer(1)
	} else {
		err = offer(2)
	}
	for err == nil {
		select {
		case a := <-answers:
			g.drain()
			sent, m := "initialize v"+strconv.Itoa(a.version), a.m
			if m.Kind == jsonrpc.Result {
				g.b.server.silentOnV2.Store(silent && a.version == 1)
				g.note(sent, describe(m), "Codex speaks version "+strconv.Itoa(a.version))
				return m, "v" + strconv.Itoa(a.version), g.check(m)
			}
			e := failureOf(m)
			switch {
			case already(e):
				g.note(sent, said(e), "Codex sent a notification that it is ready, without an answer to initialize")
				return nil, "v2", nil
			case a.version == 1:
				g.note(sent, said(e), "there is no other version to try")
				return nil, "", problem(fmt.Sprintf("Codex refused both versions of its handshake: version 2 with %s, version 1 with %s", g.cause, said(e)))
			case both:
				g.note(sent, said(e)+", late", "version 1 has been offered")
				g.cause, silent = said(e), false
			case fallsBack(e) || dialect.HasSign(g.b.server.o.WrongParams, strconv.FormatInt(e.Code, 10), strings.ToLower(e.Message)):
				g.cause = said(e)
				g.note(sent, g.cause, "trying version 1 on the same pipe")
				both = true
				err = offer(1)
			default:
				g.note(sent, said(e), "the error is unrelated to the version")
				return nil, "", problem("Codex refused the handshake: " + said(e))
			}
		case name := <-g.b.events:
			// The timeout starts again whenever the worker writes a status line.
			g.noteEvent(name)
			if !both {
				timer.Reset(wait)
			}
		case <-timer.C:
			if both {
				continue
			}
			g.cause = "silence for " + wait.String()
			g.note("initialize v2", "no answer for "+wait.String(), "trying version 1 on the same pipe")
			both, silent = true, true
			err = offer(1)
		case <-g.b.worker.gone:
			g.note(methodInitialize, "the end of stdout", "Codex has exited")
			return nil, "", problem(fmt.Sprintf("Codex ended during its handshake: %v", g.b.worker.err))
		case <-ctx.Done():
			g.note(methodInitialize, "no answer", "timeout")
			return nil, "", problem("Codex did not answer its handshake")
		}
	}
	g.note(methodInitialize, "nothing: Codex does not read its stdin", "Codex has exited")
	return nil, "", problem(fmt.Sprintf("Codex does not read its stdin, so the handshake failed: %v", err))
}

func (g *greeting) note(sent, got, reason string) {
	if len(g.trace) < 16 {
		g.trace = append(g.trace, handshake.Step{At: time.Since(g.begun), Sent: sent, Got: got, Reason: reason})
	}
}

// noteEvent records a status line that a wrapper prints while it starts.
func (g *greeting) noteEvent(name string) {
	g.note("", `the line {"event":"`+excerpt.Line(name, 40)+`"}`, "Codex is running")
}

// drain records the lines that arrived before an answer.
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

// schemaWords occur in errors about unknown or missing members.
var schemaWords = []string{
	"unknown field", "missing field", "unknown variant", "unexpected", "invalid type", "invalid param", "invalid request",
	"additional propert", "unrecognized", "schema", "validation", "protocolversion", "protocol_version", "protocol version", "deserialize",
}

// fallsBack reports whether version 1 should be offered because the error is about a member that
// only version 2 has.
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

// versionTwo returns the params of version 2. The result contains the new members in both spellings.
func versionTwo(info []byte) []byte {
	b := append([]byte(`{"protocolVersion":"v2","protocol_version":"v2","clientInfo":`), info...)
	b = append(append(b, `,"client_info":`...), info...)
	return append(b, `,"capabilities":{}}`...)
}

// versionOne returns the params of version 1. Members that version 1 lacks are omitted instead
// of null.
func versionOne(info []byte) []byte {
	return append(append([]byte(`{"clientInfo":`), info...), '}')
}

// said returns the text for an error of the worker.
func said(e *jsonrpc.Error) string {
	s := strconv.FormatInt(e.Code, 10)
	if e.Message != "" {
		s += " " + excerpt.Quote(e.Message, 200)
	}
	return s
}

// describe lists the members of a result.
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
