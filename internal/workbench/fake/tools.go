package fake

import (
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// tool is one tool of a server. run returns the members of the result. The errors of run are a
// toolError, an inputRequired, a *jsonrpc.Error or the context's error.
type tool struct {
	name   string
	about  string
	of     feature
	args   shape
	input  string // the inputSchema as JSON; "" means that the server builds it from args
	output string // the outputSchema, in revisions that have this member
	writes bool   // the tool changes something, so it does not have a readOnlyHint
	waits  bool   // the tool runs concurrently with other requests
	long   bool   // the server counts cancelled calls of the tool, and may close their HTTP streams early
	absent bool   // the tool is in the list only after the tool "grow" has added it
	meta   string // _meta of a tool that is only in the list of clients that show pages
	task   support
	run    func(x *exchange, args jsonrpc.Span) (string, error)
}

func coreTools() []tool {
	return []tool{
		{name: "add", about: "Adds two numbers.", of: always, args: shape{need("a", aNumber), need("b", aNumber)}, run: add,
			output: `{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`},
		{name: "cancelled", about: "Returns the number of cancelled calls of the tool wait.", of: always, run: cancelled},
		{name: "count", about: "Returns how many times it was called in this session. Without sessions, the count is for this process.", of: always, writes: true, run: count},
		{name: "echo", about: "Returns its argument text.", of: always, args: shape{need("text", aString)}, run: echo},
		{name: "fail", about: "Returns a tool error (isError).", of: always, run: func(*exchange, jsonrpc.Span) (string, error) { return "", toolError("failed as asked") }},
		{name: "grow", about: "Adds the tool grown to the list, or removes it if it is in the list.", of: always, writes: true, run: grow},
		{name: "grown", about: "Is in the list only after a call of grow.", of: always, absent: true, run: func(*exchange, jsonrpc.Span) (string, error) { return textResult("grown"), nil }},
		{name: "headers", about: "Returns the header that repeats its argument.", of: mirrored, run: headers,
			args: shape{{name: "region", kind: aString, header: "Region"}}},
		{name: "log", about: "Logs a text at four log levels.", of: always, args: shape{need("text", aString)}, run: logText},
		{name: "media", about: "Returns every kind of content.", of: always, run: media},
		{name: "refuse", about: "Answers with a JSON-RPC error.", of: always, run: func(*exchange, jsonrpc.Span) (string, error) {
			return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "refused as asked", Data: []byte(`{"why":"asked"}`)}
		}},
		{name: "touch", about: "Sends a notification that a resource was updated.", of: always, args: shape{need("uri", aString)}, writes: true, run: touch},
		{name: "violations", about: "Returns the client's violations of the revision, one on each line.", of: always, run: violations},
		{name: "wait", about: "Waits before it answers, and reports progress if the client requests it.", of: always, waits: true, long: true, run: wait,
			args: shape{may("steps", anInteger), may("ms", anInteger)}},
	}
}

// available returns the tools that are currently listed.
func (s *Server) available() []*tool {
	s.mu.Lock()
	grown := s.state.grown
	s.mu.Unlock()
	var all []*tool
	for i := range s.tools {
		if !s.tools[i].absent || grown {
			all = append(all, &s.tools[i])
		}
	}
	return all
}

func listTools(x *exchange) (string, error) {
	var entries []string
	for _, t := range x.c.s.available() {
		if t.meta == "" || x.showsPages() {
			entries = append(entries, t.entry(x.c.ed))
		}
	}
	return x.page("tools", entries)
}

// entry returns the tool's entry in tools/list.
func (t *tool) entry(ed *edition) string {
	out := `{"name":` + quote(t.name) + ed.title(strings.ToUpper(t.name[:1])+t.name[1:]) + `,"description":` + quote(t.about) + `,"inputSchema":`
	if t.input != "" {
		out += t.input
	} else {
		out += t.args.schema(ed.has(mirrored))
	}
	if t.output != "" && ed.has(structured) {
		out += `,"outputSchema":` + t.output
	}
	if !t.writes && ed.has(toolHints) {
		out += `,"annotations":{"readOnlyHint":true}`
	}
	if t.task != "" && ed.has(experimentalTask) {
		out += `,"execution":{"taskSupport":` + quote(string(t.task)) + `}`
	}
	if t.meta != "" {
		out += `,"_meta":` + t.meta
	}
	return out + "}"
}

// tool returns the tool with the given name, or nil.
func (s *Server) tool(name string) *tool {
	for _, t := range s.available() {
		if t.name == name {
			return t
		}
	}
	return nil
}

func callTool(x *exchange) (string, error) {
	args := x.m.Param("arguments")
	if x.tool == nil {
		name, _ := jsonrpc.Text(x.m.Raw, x.m.Param("name"))
		return "", refusal(jsonrpc.CodeInvalidParams, "unknown tool %s", clip(name))
	}
	if wrong := x.tool.args.check(x.m.Raw, args, "arguments"); wrong != "" {
		if x.c.ed.has(inputErrors) {
			return "", toolError(wrong)
		}
		return "", refusal(jsonrpc.CodeInvalidParams, "%s", wrong)
	}
	if err := x.fitsTask(); err != nil {
		return "", err
	}
	if err := x.resume(); err != nil {
		return "", err
	}
	return x.tool.run(x, args)
}

func (x *exchange) text(args jsonrpc.Span, name string) string {
	s, _ := jsonrpc.Text(x.m.Raw, jsonrpc.Find(x.m.Raw, args, name))
	return s
}

func echo(x *exchange, args jsonrpc.Span) (string, error) {
	// Return the original bytes, escapes included, so that tests can compare them.
	at := jsonrpc.Find(x.m.Raw, args, "text")
	return `"content":[{"type":"text","text":` + string(at.Of(x.m.Raw)) + `}]`, nil
}

func add(x *exchange, args jsonrpc.Span) (string, error) {
	a, errA := strconv.ParseFloat(string(jsonrpc.Find(x.m.Raw, args, "a").Of(x.m.Raw)), 64)
	b, errB := strconv.ParseFloat(string(jsonrpc.Find(x.m.Raw, args, "b").Of(x.m.Raw)), 64)
	if errA != nil || errB != nil {
		return "", toolError("the numbers are too large")
	}
	sum := strconv.FormatFloat(a+b, 'g', -1, 64)
	if strings.HasSuffix(sum, "Inf") {
		return "", toolError("the sum is too large")
	}
	out := textResult(sum)
	if x.c.ed.has(structured) {
		out += `,"structuredContent":{"sum":` + sum + `}`
	}
	return out, nil
}

func count(x *exchange, _ jsonrpc.Span) (string, error) {
	x.c.s.mu.Lock()
	n := &x.c.s.state.calls
	if x.c.ed.has(handshake) {
		n = &x.c.calls
	}
	*n++
	now := *n
	x.c.s.mu.Unlock()
	return textResult(strconv.Itoa(now)), nil
}

func cancelled(x *exchange, _ jsonrpc.Span) (string, error) {
	x.c.s.mu.Lock()
	n := x.c.s.state.cancelled
	x.c.s.mu.Unlock()
	return textResult(strconv.Itoa(n)), nil
}

func violations(x *exchange, _ jsonrpc.Span) (string, error) {
	return textResult(strings.Join(x.c.s.Violations(), "\n")), nil
}

func media(x *exchange, _ jsonrpc.Span) (string, error) {
	return `"content":[` + strings.Join(x.c.ed.blocks(), ",") + `]`, nil
}

func headers(x *exchange, _ jsonrpc.Span) (string, error) {
	if x.header == nil {
		return textResult("no headers here"), nil
	}
	got := x.header.Values(mcp.HeaderParam + "Region")
	if len(got) == 0 {
		return textResult("no header"), nil
	}
	return textResult(strings.Join(got, "\n")), nil
}

func logText(x *exchange, args jsonrpc.Span) (string, error) {
	for _, name := range []string{"debug", "info", "warning", "error"} {
		if l, _ := mcp.ParseLogLevel(name); x.level != 0 && l >= x.level {
			x.notify(mcp.NoteMessage, `{"level":`+quote(name)+`,"logger":"fake","data":`+quote(x.text(args, "text"))+`}`)
		}
	}
	return textResult("logged"), nil
}

// Limits of the tool "wait".
const (
	maxSteps = 1000
	maxPause = time.Minute
)

func wait(x *exchange, args jsonrpc.Span) (string, error) {
	steps, ok1 := x.integer(args, "steps", 3, maxSteps)
	ms, ok2 := x.integer(args, "ms", 10, int(maxPause/time.Millisecond))
	if !ok1 || !ok2 {
		return "", toolError("steps must be from 0 to 1000, and ms must be from 0 to 60000")
	}
	for i := 1; i <= steps; i++ {
		if work.Sleep(x.ctx, time.Duration(ms)*time.Millisecond) != nil || x.ctx.Err() != nil {
			return "", x.ctx.Err()
		}
		x.progress(i, steps)
	}
	return textResult("waited"), nil
}

// integer returns an integer argument, or the parameter missing if the argument is absent. It
// returns false if the argument is present but is not an integer between 0 and the parameter most.
func (x *exchange) integer(args jsonrpc.Span, name string, missing, most int) (int, bool) {
	at := jsonrpc.Find(x.m.Raw, args, name)
	if at.IsZero() {
		return missing, true
	}
	n, ok := jsonrpc.Int(x.m.Raw, at)
	return int(n), ok && n >= 0 && n <= int64(most)
}

// progress reports a step if the client asked for progress.
func (x *exchange) progress(step, of int) {
	if x.token == nil {
		return
	}
	words := ""
	if x.c.ed.has(progressWords) {
		words = `,"message":` + quote("step "+strconv.Itoa(step)+" of "+strconv.Itoa(of))
	}
	x.notify(mcp.NoteProgress, `{"progressToken":`+string(x.token)+`,"progress":`+strconv.Itoa(step)+`,"total":`+strconv.Itoa(of)+words+`}`)
}
