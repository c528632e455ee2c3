package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
)

// This file is about the client of a run: at which endpoint it is, which revision it speaks, what it can do, and what it
// has sent and got.

// The endpoints at which the client of a run can be.
const (
	AtServer  = "server"  // that of one server
	AtProject = "project" // that of all servers of the project
	AtSearch  = "search"  // the one at which clients search their tools
)

// The capabilities that the client of a run can have.
const (
	CanForm     = "elicitation.form"
	CanURL      = "elicitation.url"
	CanSampling = "sampling"
	CanRoots    = "roots"
)

// RunCapabilities are the capabilities that the client of a run can have. A person answers the server's requests.
var RunCapabilities = []string{CanForm, CanURL, CanSampling, CanRoots}

// usualCapabilities are those of the client if the request names none.
var usualCapabilities = []string{CanForm, CanURL}

// RunMessage is a message on the wire of a run's client.
type RunMessage struct {
	Sent  bool   `json:"sent" doc:"whether the client has sent the message; otherwise it has got it"`
	Text  string `json:"text" doc:"the message, with masked secrets"`
	Bytes int    `json:"bytes" doc:"the length of the whole message"`
	Cut   bool   `json:"cut,omitempty" doc:"whether the text is only the beginning of a message larger than 64 KiB"`
}

// These bound what a run keeps of the wire of its client.
const (
	keptMessages     = 64       // messages
	keptMessage      = 64 << 10 // bytes of one
	keptMessageBytes = 192 << 10
)

// visitorInfo is the beginning of the client information (clientInfo) that a run sends to a server.
const visitorInfo = `{"name":"dragoman console","version":`

// client is the client of a run.
type client struct {
	at           string // see runtime.Project.Visit
	revision     mcp.Revision
	capabilities []string
	own          string // the name that the server gives the tool or the prompt, or the URI of the resource
	level        string // of the log messages that the client wants
}

// clientOf returns the client that makes the run x, and sets what the run says of it. server is "" for the endpoint of the
// project that q names.
func (a *runAPI) clientOf(ctx context.Context, x *run, server string, q *RunRequest) (c client, bad *Problem) {
	c = client{at: server, revision: mcp.LatestLegacy, own: x.show.Name, capabilities: usualCapabilities}
	x.show.Endpoint, x.show.Server = AtServer, server
	switch {
	case server != "" && q.Endpoint != "" && q.Endpoint != AtServer:
		return c, badBody(`"endpoint" is for runs at the project's endpoints; send it to /api/v1/runs.`)
	case server == "":
		if x.show.Endpoint = cmp.Or(q.Endpoint, AtProject); x.show.Endpoint != AtProject && x.show.Endpoint != AtSearch {
			return c, badBody(`"endpoint" must be "project" or "search".`)
		}
		if x.show.Endpoint == AtSearch {
			c.at = runtime.SearchEndpoint
		}
		x.show.Server, c.own = a.offeredAs(ctx, x.show.Method, x.show.Name)
	}
	if bad := c.choose(q.Revision, q.Capabilities); bad != nil {
		return c, bad
	}
	if a.modern(x.show.Server) {
		// A modern server sends log messages only if the request sets a log level. A legacy server
		// has one log level for all clients, so a run must not change it.
		c.level = "info"
	}
	x.show.Revision, x.show.Capabilities, x.show.Item = c.revision.String(), slices.Clone(c.capabilities), c.own
	return c, nil
}

// choose sets the revision and the capabilities of the client to those of a request, if it has some.
func (c *client) choose(revision string, capabilities *[]string) *Problem {
	if revision != "" {
		rev, ok := mcp.ParseRevision(revision)
		if !ok {
			return badBody(`"revision" must be one of ` + strings.Join(mcp.Dates(mcp.Revisions()), ", ") + ".")
		}
		c.revision = rev
	}
	if capabilities != nil {
		c.capabilities = *capabilities
		for _, one := range c.capabilities {
			if !slices.Contains(RunCapabilities, one) {
				return badBody(`"capabilities" may have ` + strings.Join(RunCapabilities, ", ") + ", and nothing else.")
			}
		}
	}
	return nil
}

// offeredAs returns which server has what clients see under a name at the project's endpoint, and its name there. Both
// are for the masks and the pages: the endpoint itself finds the server of a call.
func (a *runAPI) offeredAs(ctx context.Context, method, name string) (server, own string) {
	kinds := map[string][]catalog.Kind{mcp.MethodCallTool: {catalog.KindTool}, mcp.MethodGetPrompt: {catalog.KindPrompt}, mcp.MethodReadResource: {catalog.KindResource, catalog.KindTemplate}}[method]
	lists := a.project.Lists()
	if lists == nil {
		return "", name
	}
	for _, kind := range kinds {
		for x := range lists.All(kind) {
			if x.Offered == name || kind == catalog.KindResource && x.Name == name {
				return x.Server, x.Name
			}
		}
	}
	return "", name
}

// declared returns the capabilities object of the client.
func (c *client) declared() []byte {
	out := []byte{'{'}
	add := func(text string) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	form, url := slices.Contains(c.capabilities, CanForm), slices.Contains(c.capabilities, CanURL)
	var modes []string
	if form {
		modes = append(modes, `"form":{}`)
	}
	if url {
		modes = append(modes, `"url":{}`)
	}
	switch {
	case len(modes) > 0 && c.revision.Can(mcp.URLElicitation):
		add(`"elicitation":{` + strings.Join(modes, ",") + `}`)
	case form: // before there were links, the empty object means forms
		add(`"elicitation":{}`)
	}
	for _, one := range []string{CanSampling, CanRoots} {
		if slices.Contains(c.capabilities, one) {
			add(`"` + one + `":{}`)
		}
	}
	return append(out, '}')
}

// through returns the request for the tool that searches, in place of one for a tool that clients of this endpoint don't list.
func (c *client) through(q RunRequest) RunRequest {
	if c.at != runtime.SearchEndpoint || q.Tool == "" || finder.Ours(q.Tool) {
		return q
	}
	inner := append(jsonrpc.AppendQuote([]byte(`{"name":`), q.Tool), `,"arguments":`...)
	q.Arguments = append(append(inner, cmp.Or(string(q.Arguments), "{}")...), '}')
	q.Tool = finder.Call
	return q
}

// visit opens the client's connection. The run x keeps its messages, and hears what the server sends.
func (c *client) visit(ctx context.Context, a *runAPI, x *run, clean func(string) string) (*runtime.Visitor, error) {
	return a.project.Visit(ctx, c.at, runtime.VisitOptions{
		Who: x.by.Who, Remote: x.by.Remote, Revision: c.revision, Level: c.level,
		Info: append(jsonrpc.AppendQuote([]byte(visitorInfo), a.version), '}'), Capabilities: c.declared(),
		Heard: func(m *jsonrpc.Message) { x.hear(m, clean) },
		Wire:  func(sent bool, raw []byte) { x.keepMessage(sent, raw, clean) },
	})
}

// keepMessage keeps a message on the wire of the client, if there is room.
func (x *run) keepMessage(sent bool, raw []byte, clean func(string) string) {
	x.mu.Lock()
	full := len(x.show.Messages) >= keptMessages || x.wireBytes >= keptMessageBytes
	if full {
		x.show.Missed++
	}
	x.mu.Unlock()
	if full {
		return
	}
	m := RunMessage{Sent: sent, Bytes: len(raw), Cut: len(raw) > keptMessage}
	if m.Cut {
		m.Text = excerpt.Cut(cleanHead(string(raw), clean), keptMessage)
	} else {
		m.Text = string(bytes.Clone(cleanJSON(clean, raw)))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.show.Messages = append(x.show.Messages, m)
	x.wireBytes += len(m.Text)
}

// What a person fills in who answers in place of a client: a model's reply, and the client's folders.
const (
	samplingForm = `{"type":"object","properties":{"text":{"type":"string","title":"Reply","description":"what the model of the client says","minLength":1,"maxLength":65536},` +
		`"model":{"type":"string","title":"Model","description":"the name of the model that the server is told","default":"a person at the console","maxLength":100}},"required":["text"]}`
	rootsForm = `{"type":"object","properties":{"roots":{"type":"array","title":"Folders","description":"one file:// address on each line","items":{"type":"string","pattern":"^file://"},"maxItems":100}},"required":["roots"]}`
)

// requestOf returns the question that a server request is for a person. Its Kind is "" if nobody can answer it.
func requestOf(m *jsonrpc.Message, clean func(string) string) (q Question) {
	text := func(key string) string {
		s, _ := jsonrpc.Text(m.Raw, m.Param(key))
		return cleanHead(s, clean)
	}
	q.Since = time.Now().UTC()
	switch m.Method {
	case mcp.MethodElicit:
		q.Message = excerpt.Lines(text("message"), maxRunText)
		form := m.Param("requestedSchema")
		if mode, _ := jsonrpc.Text(m.Raw, m.Param("mode")); mode == "url" {
			if q.URL, _ = jsonrpc.Text(m.Raw, m.Param("url")); q.URL != "" {
				q.Kind, q.URL = QuestionLink, excerpt.Cut(q.URL, maxRunText)
			}
		} else if !form.IsZero() && form.End-form.Start <= maxRunSchema {
			q.Kind, q.Schema = QuestionForm, bytes.Clone(cleanJSON(clean, form.Of(m.Raw)))
		}
	case mcp.MethodSample:
		q.Kind, q.Schema = QuestionSampling, json.RawMessage(samplingForm)
		var lines []string
		if s := text("systemPrompt"); s != "" {
			lines = append(lines, "system: "+s)
		}
		for one := range m.At(m.Param("messages")).Elements() {
			role, _ := one.Get("role").Text()
			said, ok := one.Get("content", "text").Text()
			if !ok {
				said = string(one.Get("content").Raw())
			}
			lines = append(lines, excerpt.Line(role, maxName)+": "+cleanHead(said, clean))
		}
		q.Message = excerpt.Lines("The server asks the client's model to reply.\n"+strings.Join(lines, "\n"), maxRunText)
	case mcp.MethodListRoots:
		q.Kind, q.Schema, q.Message = QuestionRoots, json.RawMessage(rootsForm), "The server asks which folders the client has opened."
	}
	return q
}

// resultFor returns the result for a question that was answered with content, or nil if only an error can say that.
func resultFor(q *Question, action string, content []byte) []byte {
	switch {
	case q.Kind == QuestionForm || q.Kind == QuestionLink:
		result := jsonrpc.AppendQuote([]byte(`{"action":`), action)
		if action == "accept" && q.Kind == QuestionForm {
			result = append(append(result, `,"content":`...), content...)
		}
		return append(result, '}')
	case action != "accept":
		return nil
	case q.Kind == QuestionRoots:
		result := []byte(`{"roots":[`)
		for one := range jsonrpc.ValueOf(content).Get("roots").Elements() {
			if result[len(result)-1] != '[' {
				result = append(result, ',')
			}
			result = append(append(append(result, `{"uri":`...), one.Raw()...), '}')
		}
		return append(result, "]}"...)
	}
	v := jsonrpc.ValueOf(content)
	model := v.Get("model").Raw()
	if len(model) == 0 {
		model = []byte(`"a person at the console"`)
	}
	result := append([]byte(`{"role":"assistant","content":{"type":"text","text":`), v.Get("text").Raw()...)
	return append(append(append(result, `},"model":`...), model...), `,"stopReason":"endTurn"}`...)
}

// refusal is what a server hears whose request a person has declined (§Sampling, "Error Handling").
func refusal(q *Question) *jsonrpc.Error {
	what := "the request"
	if q.Kind == QuestionSampling {
		what = "the sampling request"
	}
	return &jsonrpc.Error{Code: -1, Message: "the user rejected " + what}
}

// startProjectRun answers POST /runs.
func (a *runAPI) startProjectRun(r *http.Request, q RunRequest) (Run, *Problem) {
	return a.StartRun(r.Context(), a.runBy(r), "", q)
}
