package fake

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// nearlyClients returns the profiles of the non-standard clients. Play can simulate them, but
// OpenClient cannot. Tests can also use these clients through OpenManifest and Post.
func nearlyClients() []Profile {
	return []Profile{
		{Name: "bare-http-client", Kind: Dialect, Side: ClientSide, script: &script{check: checkBare, play: playBare},
			Settings: append([]Setting{
				{"version", "2025-06-18", "its MCP-Protocol-Version; none leaves the header out"},
				{"tool", "echo", "the tool that it calls"},
				{"arguments", `{"text":"hello"}`, "the tool's arguments, a JSON object"},
				{"times", "3", "how often it calls the tool"},
			}, playSettings...),
			About: `A client that opens no session and calls tools with a POST, always with the id "1".`},
		{Name: "manifest-client", Kind: Dialect, Side: ClientSide, script: &script{piped: true, play: playManifest}, Settings: playSettings,
			About: "A client that sends initialize without params, reads the tools from the result and ends with shutdown."},
	}
}

// ManifestTool is a tool that a manifest client has read from a manifest.
type ManifestTool struct {
	Name, Description string
	Schema            string // the schema as JSON
	Confirm, Undo     bool
}

// ManifestClient is the client of the profile manifest-client. It sends one request at a time over
// a pipe. Request ids start at 1. Only one goroutine may use a ManifestClient.
type ManifestClient struct {
	Tools []ManifestTool
	// Skipped lists lines that were not the response to the current request. It has at most
	// maxViolations lines, and each line is shortened.
	Skipped []string

	in     io.Reader
	lines  *bufio.Scanner // of in
	out    io.WriteCloser
	id     int64
	tape   *capture
	broken error // the reason why no more requests can be sent
}

// OpenManifest opens a conversation with a server. in is the server's output, and out is the
// server's input. Like a real manifest client, OpenManifest fails if a tool has no name or no
// description, or if an object has the same member in two spellings.
func OpenManifest(in io.Reader, out io.WriteCloser) (*ManifestClient, error) {
	c := newManifest(in, out, nil)
	if err := c.open(); err != nil {
		return nil, err
	}
	return c, nil
}

func newManifest(in io.Reader, out io.WriteCloser, tape *capture) *ManifestClient {
	return &ManifestClient{in: in, lines: newLines(in), out: out, tape: tape}
}

// open sends initialize and reads the tools from the result. The error lists all faults of the
// result.
func (c *ManifestClient) open() error {
	m, err := c.request("initialize", "")
	if err != nil {
		return err
	}
	if m.Kind != jsonrpc.Result {
		return fmt.Errorf("initialize was refused: %s", clip(string(m.Raw)))
	}
	err = oneOf(m.Raw, m.Result, "server_info", "serverInfo")
	tools := m.ResultMember("tools")
	if !tools.IsZero() && jsonrpc.KindOf(m.Raw, tools) != '[' {
		return errors.Join(err, errors.New("the member tools is not an array"))
	}
	for at := range jsonrpc.Elements(m.Raw, tools) {
		t, wrong := readTool(m.Raw, at)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("tools[%d]: %w", len(c.Tools), wrong))
		}
		c.Tools = append(c.Tools, t)
	}
	return err
}

// needs reports whether the tool has required arguments.
func (t *ManifestTool) needs() bool {
	raw := []byte(t.Schema)
	for range jsonrpc.Elements(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "required")) {
		return true
	}
	return false
}

// oneOf returns an error if obj has both the member name and the member alias, which is another
// spelling of name.
func oneOf(raw []byte, obj jsonrpc.Span, name, alias string) error {
	if !jsonrpc.Find(raw, obj, name).IsZero() && !jsonrpc.Find(raw, obj, alias).IsZero() {
		return fmt.Errorf("duplicate field %s: %s", name, obj.Of(raw))
	}
	return nil
}

func readTool(raw []byte, at jsonrpc.Span) (t ManifestTool, err error) {
	either := func(name, alias string) jsonrpc.Span {
		err = errors.Join(err, oneOf(raw, at, name, alias))
		if v := jsonrpc.Find(raw, at, name); !v.IsZero() {
			return v
		}
		return jsonrpc.Find(raw, at, alias)
	}
	flag := func(v jsonrpc.Span) bool {
		text := string(v.Of(raw))
		if text != "" && text != "true" && text != "false" {
			err = errors.Join(err, fmt.Errorf("%s is not a boolean", text))
		}
		return text == "true"
	}
	var ok, also bool
	t.Name, ok = jsonrpc.Text(raw, jsonrpc.Find(raw, at, "name"))
	t.Description, also = jsonrpc.Text(raw, jsonrpc.Find(raw, at, "description"))
	if !ok || !also {
		err = errors.New("a tool has no name or no description")
	}
	t.Schema = string(either("params_schema", "inputSchema").Of(raw))
	t.Confirm = flag(either("confirmation_required", "confirmationRequired"))
	t.Undo = flag(either("undo_supported", "undoSupported"))
	return t, err
}

// Call calls a tool and returns the response, which may be a JSON-RPC error. args is a JSON object.
func (c *ManifestClient) Call(name, args string) (*jsonrpc.Message, error) {
	return c.request("tools/call", `{"name":`+quote(name)+`,"arguments":`+args+`}`)
}

// request sends a request and reads lines until the response arrives. It adds all other lines to
// Skipped.
func (c *ManifestClient) request(method, params string) (*jsonrpc.Message, error) {
	c.id++
	id := strconv.FormatInt(c.id, 10)
	line := `{"jsonrpc":"2.0","id":` + id + `,"method":` + quote(method)
	if params != "" {
		line += `,"params":` + params
	}
	if err := c.write(line + "}"); err != nil {
		c.broken = fmt.Errorf("write %s: %w", method, err)
		return nil, c.broken
	}
	for {
		if !c.lines.Scan() {
			err := cmp.Or(c.lines.Err(), io.EOF)
			c.broken = fmt.Errorf("read the answer to %s: %w", method, err)
			return nil, c.broken
		}
		line := bytes.Clone(c.lines.Bytes())
		c.tape.write(response, line)
		m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1, Depth: 256})
		if err == nil && (m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure) && string(m.ID) == id {
			return m, nil
		}
		if len(c.Skipped) < maxViolations {
			c.Skipped = append(c.Skipped, clip(string(line)))
		}
	}
}

func (c *ManifestClient) write(line string) error {
	c.tape.write(request, []byte(line))
	_, err := io.WriteString(c.out, line+"\n")
	return err
}

// Shutdown sends the notification shutdown. It does not close the pipe, because a real manifest
// client waits until the server closes the pipe.
func (c *ManifestClient) Shutdown() error {
	return c.write(`{"jsonrpc":"2.0","method":"shutdown","params":null}`)
}

// BareCall is a call of a tool as the client of the profile bare-http-client makes it, with one POST.
type BareCall struct {
	URL     string
	Version string // the value of MCP-Protocol-Version; "" omits the header
	Tool    string
	Args    string // a JSON object
	Meta    string // the members of _meta as JSON without the braces; "" omits _meta
}

// Post makes the call, and returns the messages in the response in order.
func (b BareCall) Post(ctx context.Context, client *http.Client) ([]*jsonrpc.Message, error) {
	return b.post(ctx, client, nil)
}

func (b BareCall) post(ctx context.Context, client *http.Client, tape *capture) ([]*jsonrpc.Message, error) {
	body := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":` + quote(b.Tool) + `,"arguments":` + b.Args
	if b.Meta != "" {
		body += `,"_meta":{` + b.Meta + `}`
	}
	body += "}}"
	tape.write(request, []byte(body))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if b.Version != "" {
		req.Header.Set("MCP-Protocol-Version", b.Version)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	res.Body = io.NopCloser(io.LimitReader(res.Body, maxMessage))
	var all []*jsonrpc.Message
	for ev, err := range rawlink.Messages(res, maxMessage) {
		if err != nil {
			return nil, err
		}
		if ev.Data == nil {
			continue // an event without data is no message
		}
		tape.write(response, ev.Data)
		m, err := jsonrpc.Scan(ev.Data, jsonrpc.Limits{Bytes: len(ev.Data) + 1})
		if err != nil {
			return nil, fmt.Errorf("status %d: %w: %s", res.StatusCode, err, clip(string(ev.Data)))
		}
		all = append(all, m)
	}
	return all, nil
}
