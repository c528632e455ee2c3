package fake

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// manifestServers returns the profiles of servers that send their tools in the handshake: the two
// variants of the program LocalCowork, the variant in its design document, and an older variant.
// These servers are not based on a strict server. This file contains all their answers.
func manifestServers() []Profile {
	profile := func(name, about string, k manifestKind) Profile {
		return Profile{
			Name: name, Kind: Dialect, Side: ServerSide, About: about,
			server: func(*settings) (*part, error) {
				s := &manifestServer{manifestKind: k}
				p := &part{ed: editionOf("2024-11-05"), page: 1, twist: twist{receive: s.receive}}
				if k.pushes {
					p.twist.open = s.push
				}
				return p, nil
			},
		}
	}
	python := manifestKind{snake: true, schema: "params_schema", longest: 64 << 10}
	return []Profile{
		profile("manifest-parameters", "A server that sends its tools in the initialize result, with their schemas as parameters.", manifestKind{schema: "parameters"}),
		profile("manifest-python", "A server that sends its tools in the initialize result in snake_case, and crashes on lines over 64 KiB, null arguments and batches.", python),
		profile("manifest-ts", "A server that sends its tools in the initialize result with OpenAPI schemas, and crashes on a call without params.", manifestKind{schema: "inputSchema", nested: true}),
		profile("push-manifest", "A server that pushes its tools without a request and refuses initialize.", manifestKind{schema: "inputSchema", nested: true, pushes: true}),
	}
}

// manifestKind holds the differences between the variants.
type manifestKind struct {
	snake   bool   // the Python variant, whose manifest has server_info and capabilities
	nested  bool   // the flags of a tool are in its member metadata, with names in camelCase
	schema  string // the name of the member of a tool that contains the schema
	pushes  bool   // the server sends the manifest without a request
	longest int    // the maximum length of a line in bytes, including the line end; 0 means no limit
}

type manifestServer struct {
	manifestKind

	mu   sync.Mutex
	seen []string // the methods of all messages, in the order in which they arrived
}

// manifestTool is a tool that all variants have.
type manifestTool struct {
	name, about, schema string
	confirm, undo       bool
}

// manifestTools are the tools of all variants. Their schemas use the keywords of OpenAPI 3.0, such
// as nullable.
var manifestTools = []manifestTool{
	{name: "files.add", about: "Adds two numbers.",
		schema: `{"type":"object","properties":{"a":{"type":"number","minimum":0,"exclusiveMinimum":true},"b":{"type":"number","nullable":true}},"required":["a"]}`},
	{name: "files.bare", about: "Answers with a value that is not a tool result.", schema: `{"type":"object"}`},
	{name: "files.fail", about: "Fails with the given error code.",
		schema: `{"type":"object","properties":{"code":{"type":"integer"}},"required":["code"]}`},
	{name: "files.move", about: "Moves a file.", confirm: true, undo: true,
		schema: `{"type":"object","properties":{"source":{"type":"string"},"destination":{"type":"string"}},"required":["source","destination"]}`},
	{name: "files.seen", about: "Returns the methods that the server has received.", schema: `{"type":"object"}`},
}

// list returns the tools as a JSON array, with the member names of this variant.
func (s *manifestServer) list() string {
	var all []string
	for _, t := range manifestTools {
		confirm, undo := strconv.FormatBool(t.confirm), strconv.FormatBool(t.undo)
		flags := `"confirmation_required":` + confirm + `,"undo_supported":` + undo
		if s.nested {
			flags = `"metadata":{"confirmationRequired":` + confirm + `,"undoSupported":` + undo + `}`
		}
		all = append(all, `{"name":`+quote(t.name)+`,"description":`+quote(t.about)+`,`+quote(s.schema)+`:`+t.schema+`,`+flags+`}`)
	}
	return `[` + strings.Join(all, ",") + `]`
}

func (s *manifestServer) manifest() []byte {
	if s.snake {
		return []byte(`{"server_info":{"name":"files","version":"1.0.0"},"tools":` + s.list() + `,"capabilities":{}}`)
	}
	return []byte(`{"serverInfo":{"name":"files","version":"1.0.0"},"tools":` + s.list() + `}`)
}

// push sends the manifest before the server reads anything. It does nothing over HTTP, where the
// server has no connection before the first request.
func (s *manifestServer) push(_ context.Context, c *conversation) {
	if c != nil {
		c.out.send(jsonrpc.AppendResult(nil, `"init"`, s.manifest()))
	}
}

// receive handles all messages of this server.
func (s *manifestServer) receive(h *arrival, _ func()) {
	c, m := h.c, h.m
	answer := func(b []byte) { c.send(h.out, m, b) }
	if s.longest > 0 && len(h.raw)+1 > s.longest {
		c.s.die() // the line reader of the real server throws an exception here
		return
	}
	if m == nil {
		if s.snake && jsonrpc.IsBatch(h.raw) {
			c.s.die() // the real server calls "get" on a list and crashes
			return
		}
		answer(jsonrpc.AppendError(nil, "0", refusal(jsonrpc.CodeParse, "Invalid JSON")))
		return
	}
	s.mu.Lock()
	if len(s.seen) < 1000 {
		s.seen = append(s.seen, m.Method)
	}
	s.mu.Unlock()
	id := m.ID
	if id == "" && s.snake {
		id = "0"
	}
	switch {
	case m.Method == mcp.MethodInitialize && !s.pushes:
		answer(jsonrpc.AppendResult(nil, id, s.manifest()))
	case m.Method == mcp.MethodListTools:
		answer(jsonrpc.AppendResult(nil, id, []byte(`{"tools":`+s.list()+`}`)))
	case m.Method == mcp.MethodPing:
		answer(jsonrpc.AppendResult(nil, id, []byte(`{"status":"ok"}`)))
	case m.Method == mcp.MethodCallTool:
		s.call(h, id, answer)
	default:
		// These servers also answer notifications with this error. The answer of the TypeScript
		// variant has no id, and the answer of the Python variant has the id 0.
		answer(jsonrpc.AppendError(nil, id, refusal(jsonrpc.CodeMethodNotFound, "Unknown method: %s", clip(m.Method))))
	}
}

func (s *manifestServer) call(h *arrival, id jsonrpc.ID, answer func([]byte)) {
	m := h.m
	args := m.Param("arguments")
	switch {
	case m.Params.IsZero() && !s.snake, s.snake && string(args.Of(m.Raw)) == "null":
		h.c.s.die()
		return
	}
	fail := func(code int64, text string) { answer(jsonrpc.AppendError(nil, id, refusal(code, "%s", text))) }
	say := func(json string) { answer(jsonrpc.AppendResult(nil, id, []byte(`{`+textResult(json)+`}`))) }
	name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
	known := slices.ContainsFunc(manifestTools, func(t manifestTool) bool { return t.name == name })
	switch {
	case !known:
		fail(jsonrpc.CodeMethodNotFound, "Unknown tool: "+clip(name))
	case args.IsZero() && !s.snake:
		fail(jsonrpc.CodeInvalidParams, "Invalid parameters: Required")
	case name == "files.add":
		a, ok := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, args, "a"))
		b, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, args, "b"))
		if !ok {
			fail(jsonrpc.CodeInvalidParams, "Invalid parameters: a")
			return
		}
		say(`{"sum":` + strconv.FormatInt(a+b, 10) + `}`)
	case name == "files.bare":
		answer(jsonrpc.AppendResult(nil, id, []byte(`{"moved":3,"skipped":[]}`)))
	case name == "files.fail":
		code, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, args, "code"))
		fail(code, "failed as requested")
	case name == "files.move":
		say(`{"moved":true}`)
	default:
		s.mu.Lock()
		seen := strings.Join(s.seen, " ")
		s.mu.Unlock()
		say(seen)
	}
}
