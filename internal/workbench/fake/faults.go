package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// usual is the default revision of the profiles of the kinds Dialect and Fault.
const usual = "2025-06-18"

// faultServers returns the profiles of strict servers with one fault each.
func faultServers() []Profile {
	fault := func(name, about string, makeTwist func(s *settings) (twist, error), more ...Setting) Profile {
		return Fault.twisted(name, usual, about, makeTwist, more...)
	}
	always := func(t twist) func(*settings) (twist, error) { return func(*settings) (twist, error) { return t, nil } }
	return []Profile{
		fault("bad-schema", "A server with several tools whose schemas are invalid.", always(twist{tools: badSchemas()})),
		Fault.twisted("broadcasts", "2024-11-05", "A server that sends messages meant for one HTTP session to all sessions, as some wrappers of programs do.", always(twist{say: sayToAll})),
		fault("crash-at=", "A server that crashes at a step: start, initialize, initialized, list, call, read or a method name, as in crash-at=call.", crashAt),
		fault("endless-cursor", "A server whose lists never end.", endlessLists,
			Setting{"cursors", "new", "new: a different cursor each time; same: always the same cursor"}),
		fault("flood", "A server that sends many log messages before each tool result.", flooding,
			Setting{"count", "10000", "log messages before each answer; 0 for no end"}),
		fault("half-line", "A server that crashes in the middle of the answer to its first tool call.", always(twist{say: sayHalf})),
		fault("id-zero-errors", "A server that answers notifications with errors that have the id 0.", always(twist{receive: answerNotes})),
		fault("never-answers", "A server that reads everything and answers nothing.", always(twist{receive: func(*arrival, func()) {}})),
		fault("slow-start", "A server that waits before it reads anything.", slowStart,
			Setting{"ms", "3000", "how long, in milliseconds"}),
		fault("stdout-noise", "A server that prints text that is not a message to stdout.", always(twist{open: openNoisily, say: sayNoisily})),
		fault("wrong-id-type", `A server that answers the request 1 with the id "1", and "1" with 1.`, always(twist{say: sayOtherID})),
	}
}

// twisted returns the profile of the kind k of a strict server of one revision with one deviation.
func (k Kind) twisted(name, revision, about string, makeTwist func(s *settings) (twist, error), more ...Setting) Profile {
	return Profile{
		Name: name, Kind: k, Side: ServerSide, Settings: revised(revision, more...), About: about,
		server: func(s *settings) (*part, error) {
			t, err := makeTwist(s)
			if err != nil {
				return nil, err
			}
			return twistedPart(s, t)
		},
	}
}

// steps maps the step names that crash-at accepts to the methods of each step.
var steps = map[string][]string{
	"initialize":  {mcp.MethodInitialize, mcp.MethodDiscover},
	"initialized": {mcp.NoteInitialized},
	"list":        {mcp.MethodListTools, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListPrompts},
	"call":        {mcp.MethodCallTool},
	"read":        {mcp.MethodReadResource},
}

func crashAt(s *settings) (twist, error) {
	if s.parameter == "start" {
		return twist{open: func(_ context.Context, c *conversation) {
			if c != nil {
				c.s.die()
			}
		}, receive: func(h *arrival, _ func()) { h.c.s.die() }}, nil
	}
	methods, ok := steps[s.parameter]
	if !ok {
		methods = []string{s.parameter}
		if s.parameter != mcp.MethodPing && !strings.Contains(s.parameter, "/") {
			return twist{}, fmt.Errorf("crash-at must be start, initialize, initialized, list, call, read or the name of a method, as in crash-at=call, but is %q", s.parameter)
		}
	}
	return twist{receive: func(h *arrival, next func()) {
		if h.m != nil && slices.Contains(methods, h.m.Method) {
			h.c.s.die()
			return
		}
		next()
	}}, nil
}

func endlessLists(s *settings) (twist, error) {
	how, err := s.oneOf("cursors", "new", "same")
	return twist{endless: how}, err
}

func flooding(s *settings) (twist, error) {
	n, err := s.number("count", 0, 10_000_000)
	return twist{call: func(x *exchange) error {
		for i := 1; n == 0 || i <= n; i++ {
			if x.ctx.Err() != nil {
				return x.ctx.Err()
			}
			x.notify(mcp.NoteMessage, `{"level":"info","logger":"flood","data":`+quote("message "+strconv.Itoa(i))+`}`)
		}
		return nil
	}}, err
}

func slowStart(s *settings) (twist, error) {
	ms, err := s.number("ms", 0, 600_000)
	return twist{open: func(ctx context.Context, _ *conversation) {
		_ = work.Sleep(ctx, time.Duration(ms)*time.Millisecond)
	}}, err
}

// sayToAll also sends a message for one HTTP session to the other sessions, on their GET
// streams.
func sayToAll(c *conversation, _ *jsonrpc.Message, msg []byte) []byte {
	if c.pipe != nil {
		return msg
	}
	var others []outlet
	c.s.mu.Lock()
	for _, other := range c.s.state.sessions {
		if other != c {
			others = append(others, other.out)
		}
	}
	c.s.mu.Unlock()
	for _, out := range others {
		out.send(msg)
	}
	return msg
}

// sayHalf sends half of the response to a tool call, and then crashes the server.
func sayHalf(c *conversation, m *jsonrpc.Message, msg []byte) []byte {
	if m == nil || m.Method != mcp.MethodCallTool {
		return msg
	}
	half := msg[:len(msg)/2]
	c.s.die()
	if c.pipe == nil {
		return half
	}
	c.s.capture.write(response, half)
	c.pipe.raw(slices.Clone(half))
	return nil
}

func answerNotes(h *arrival, next func()) {
	next()
	if h.m != nil && h.m.Kind == jsonrpc.Notification {
		h.c.send(h.out, h.m, jsonrpc.AppendError(nil, "0", refusal(jsonrpc.CodeMethodNotFound, "Method not found: %s", clip(h.m.Method))))
	}
}

// openNoisily prints text to stdout, as some servers do when they start.
func openNoisily(_ context.Context, c *conversation) {
	if c != nil {
		c.pipe.raw([]byte("Fake server running on stdio\n\n\x1b[32minfo\x1b[0m: ready\n" + `{"level":"info","msg":"listening"}` + "\n"))
	}
}

func sayNoisily(c *conversation, _ *jsonrpc.Message, msg []byte) []byte {
	if c.pipe != nil {
		c.pipe.raw([]byte("DEBUG: about to say something\n"))
	}
	return msg
}

// sayOtherID changes the type of the id in a response: a number becomes a string, and a string that
// contains a number becomes a number.
func sayOtherID(_ *conversation, _ *jsonrpc.Message, msg []byte) []byte {
	m, err := jsonrpc.Scan(msg, jsonrpc.Limits{})
	if err != nil || m.Kind == jsonrpc.Request || m.ID == "" {
		return msg
	}
	id := `"` + string(m.ID) + `"`
	if text, ok := jsonrpc.Text(m.Raw, m.IDAt); ok {
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return msg
		}
		id = text
	}
	var e jsonrpc.Edits
	e.Replace(jsonrpc.NoReason, m.IDAt, []byte(id))
	return jsonrpc.Splice(nil, msg, &e)
}

// badSchemas returns tools with invalid schemas. The schema of each tool violates one rule
// (2026-07-28 §Base, "JSON Schema Usage"; §Streamable HTTP, "Schema Extension").
func badSchemas() []tool {
	ran := func(*exchange, jsonrpc.Span) (string, error) { return textResult("ran"), nil }
	bad := func(name, about, schema string) tool {
		return tool{name: "schema_" + name, about: about, of: always, input: schema, run: ran}
	}
	return []tool{
		bad("dialect", "Its schema uses draft 4, in which exclusiveMinimum is a boolean.",
			`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`),
		bad("empty", "Its schema is empty and has no type.", `{}`),
		bad("header", "Its schema mirrors a number in a header with an invalid name.",
			`{"type":"object","properties":{"ratio":{"type":"number","x-mcp-header":"not a name"}}}`),
		bad("invalid", "Its schema is invalid: it has an unknown type, and required is not a list.",
			`{"type":"object","properties":{"a":{"type":"strin"}},"required":"a"}`),
		bad("ref", "Its schema contains an external reference.", `{"type":"object","properties":{"a":{"$ref":"https://fake.invalid/schema.json"}}}`),
	}
}
