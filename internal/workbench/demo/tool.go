package demo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// maxText is the maximum length of a text argument in characters.
const maxText = 1000

// toolError is the text of a tool's result that has isError. Invalid arguments are tool errors too
// (2025-11-25 §Tools, "Error Handling").
type toolError string

func (e toolError) Error() string { return string(e) }

func refusal(code int64, format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// tool is one tool. input and output are its JSON Schemas.
type tool struct {
	name, title, about string
	input, output      string // output may be ""
	writes             bool   // true if the tool changes something
	step
}

type toolbox []tool

// list returns the member "tools" of a result. titled is true if the client's revision has
// titles and hints.
func (b toolbox) list(titled bool) string {
	out := `"tools":[`
	for i, t := range b {
		if i > 0 {
			out += ","
		}
		out += `{"name":` + quote(t.name)
		if titled {
			out += `,"title":` + quote(t.title)
		}
		out += `,"description":` + quote(t.about) + `,"inputSchema":` + t.input
		if titled && t.output != "" {
			out += `,"outputSchema":` + t.output
		}
		if titled && t.writes {
			out += `,"annotations":{"readOnlyHint":false,"destructiveHint":false,"openWorldHint":false}`
		} else if titled {
			out += `,"annotations":{"readOnlyHint":true,"openWorldHint":false}`
		}
		out += "}"
	}
	return out + "]"
}

// pick returns the step of the requested tool, and stores the arguments of the call in c.
func (b toolbox) pick(c *call) (step, *jsonrpc.Error) {
	name, ok := jsonrpc.Text(c.m.Raw, c.m.Param("name"))
	if !ok {
		return step{}, refusal(jsonrpc.CodeInvalidParams, "params.name must be a string")
	}
	c.args = c.m.Param("arguments")
	if k := jsonrpc.KindOf(c.m.Raw, c.args); k != 0 && k != '{' {
		return step{}, refusal(jsonrpc.CodeInvalidParams, "params.arguments must be an object")
	}
	for _, t := range b {
		if t.name == name {
			return t.step, nil
		}
	}
	return step{}, refusal(jsonrpc.CodeInvalidParams, "unknown tool: %.64s", name)
}

// text returns an argument that must be a string of 1 to maxText characters.
func (c *call) text(name string) (string, error) {
	s, ok := jsonrpc.Text(c.m.Raw, jsonrpc.Find(c.m.Raw, c.args, name))
	if !ok || s == "" || utf8.RuneCountInString(s) > maxText {
		return "", toolError(fmt.Sprintf("The argument %q must be a string of 1 to %d characters.", name, maxText))
	}
	return s, nil
}

// number returns an argument that must be a number.
func (c *call) number(name string) (float64, error) {
	at := jsonrpc.Find(c.m.Raw, c.args, name)
	f, err := strconv.ParseFloat(string(at.Of(c.m.Raw)), 64)
	if jsonrpc.KindOf(c.m.Raw, at) != '0' || err != nil {
		return 0, toolError(fmt.Sprintf("The argument %q must be a number that fits into a 64-bit floating-point number.", name))
	}
	return f, nil
}

// integer returns an argument that must be an integer from low to high. If the argument is absent,
// integer returns usual, the default value. The argument is required if usual is less than low.
func (c *call) integer(name string, low, high, usual int) (int, error) {
	at := jsonrpc.Find(c.m.Raw, c.args, name)
	if at.IsZero() && usual >= low {
		return usual, nil
	}
	n, ok := jsonrpc.Int(c.m.Raw, at)
	if !ok || n < int64(low) || n > int64(high) {
		return 0, toolError(fmt.Sprintf("The argument %q must be an integer from %d to %d.", name, low, high))
	}
	return int(n), nil
}

// steps waits n times. If the client asked for progress, steps sends a progress notification after
// each pause.
func (l *line) steps(ctx context.Context, c *call, n int, pause time.Duration, say func(i int) string) error {
	for i := 1; i <= n; i++ {
		if work.Sleep(ctx, pause) != nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if c.token.IsZero() {
			continue
		}
		params := fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":%d`, c.token.Of(c.m.Raw), i, n)
		if c.rev.Can(mcp.ProgressMessages) {
			params += `,"message":` + quote(say(i))
		}
		l.notify(mcp.NoteProgress, params+"}")
	}
	return nil
}

// readURI returns params.uri.
func (c *call) readURI() (string, error) {
	uri, ok := jsonrpc.Text(c.m.Raw, c.m.Param("uri"))
	if !ok {
		return "", refusal(jsonrpc.CodeInvalidParams, "params.uri must be a string")
	}
	return uri, nil
}

func (c *call) missing(uri string) error {
	e := refusal(jsonrpc.CodeInvalidParams, "unknown resource: %.200s", uri)
	if c.rev.Can(mcp.ResourceNotFoundCode) {
		e.Code = mcp.CodeResourceNotFound
	}
	e.Data = []byte(`{"uri":` + quote(uri) + `}`)
	return e
}

// showsForms reports whether client capabilities include form elicitation. An empty object
// means form elicitation only (2025-11-25 §Elicitation, "Capabilities").
func showsForms(raw []byte, caps jsonrpc.Span) bool {
	e := jsonrpc.Find(raw, caps, "elicitation")
	return jsonrpc.KindOf(raw, e) == '{' &&
		(!jsonrpc.Find(raw, e, "form").IsZero() || jsonrpc.Find(raw, e, "url").IsZero())
}

// given returns the user's action in an ElicitResult, and the value of one field.
func given(raw []byte, result jsonrpc.Span, field string) (action string, value jsonrpc.Span, err error) {
	action, _ = jsonrpc.Text(raw, jsonrpc.Find(raw, result, "action"))
	switch action {
	case "accept", "decline", "cancel":
		return action, jsonrpc.Find(raw, jsonrpc.Find(raw, result, "content"), field), nil
	}
	return "", jsonrpc.Span{}, errors.New("the action in the answer must be accept, decline or cancel")
}

// paged returns an error if the request has a cursor, because each list has only one page.
func paged(c *call) *jsonrpc.Error {
	if m := mcp.LookupMethod(c.m.Method); m != nil && m.ListKey != "" && !c.m.Param("cursor").IsZero() {
		return refusal(jsonrpc.CodeInvalidParams, "params.cursor is not valid: this list has only one page")
	}
	return nil
}

func quote(s string) string { return string(jsonrpc.AppendQuote(nil, s)) }

// text returns the member "content" of a tool's result.
func text(s string) string { return `"content":[{"type":"text","text":` + quote(s) + `}]` }

// contents returns the member "contents" of a result that contains one text resource.
func contents(uri, s string) string {
	return `"contents":[{"uri":` + quote(uri) + `,"mimeType":"text/plain","text":` + quote(s) + `}]`
}

func decimal(f float64) string {
	if f > -1e15 && f < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// fixed returns a step whose result is always the same.
func fixed(members string) step {
	return step{run: func(context.Context, *call) (string, error) { return members, nil }}
}
