package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// RunRequest is the body of a request to start a run. Exactly one of Tool, Prompt and Resource must
// be set.
type RunRequest struct {
	Endpoint  string          `json:"endpoint,omitempty" enum:"project,search" doc:"for /api/v1/runs: the endpoint of all servers, or the one at which clients search their tools; the default is project"`
	Tool      string          `json:"tool,omitempty" doc:"the name of a tool, as the server calls it, or at /api/v1/runs as clients do"`
	Prompt    string          `json:"prompt,omitempty" doc:"the name of a prompt, as the server calls it, or at /api/v1/runs as clients do"`
	Resource  string          `json:"resource,omitempty" doc:"the URI of a resource to read"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"an object that goes to the server byte for byte"`
	Timeout   int             `json:"timeout,omitempty" doc:"seconds until the run is cancelled, 1 to 3600; the default is 300"`
	Revision  string          `json:"revision,omitempty" doc:"the revision of the run's client; the default is 2025-11-25"`
	// Capabilities is a pointer, because a client may have none.
	Capabilities *[]string `json:"capabilities,omitempty" doc:"what the run's client can do, for which you answer: elicitation.form, elicitation.url, sampling and roots; the default is both kinds of elicitation"`
	Unchecked    bool      `json:"unchecked,omitempty" doc:"whether to send the arguments without checking them against the tool's schema"`
}

// Run is a call that the API makes as a client of a server, and the result of the call.
type Run struct {
	ID           string     `json:"id" doc:"the id of the run, for /api/v1/runs/ID"`
	Endpoint     string     `json:"endpoint" enum:"server,project,search" doc:"where the run's client is: the endpoint of the server, that of all servers, or the one at which clients search their tools"`
	Server       string     `json:"server" doc:"the server's name; empty if it isn't known which server has the item"`
	Method       string     `json:"method" doc:"tools/call, prompts/get or resources/read"`
	Name         string     `json:"name" doc:"the name of the tool or prompt, or the resource's URI, as the client calls it"`
	Item         string     `json:"item" doc:"the name that the server gives the tool or prompt, or the resource's URI"`
	State        string     `json:"state" enum:"running,waiting,succeeded,tool_error,failed,cancelled,timeout" doc:"waiting: the server has asked a question"`
	Started      time.Time  `json:"started" doc:"when the run started"`
	Ends         time.Time  `json:"ends" doc:"when the timeout ends the run"`
	Ended        *time.Time `json:"ended,omitempty" doc:"when the run ended; left out until then"`
	Seconds      float64    `json:"seconds" doc:"how many seconds the run took, or has been running so far"`
	Revision     string     `json:"revision" doc:"the revision of the run's client"`
	Capabilities []string   `json:"capabilities" doc:"what the run's client can do"`
	TraceID      string     `json:"traceId" doc:"the W3C trace id of the call, which /api/v1/calls?q= accepts"`
	// Arguments is the JSON that Dragoman sends to the server, but with masked secrets.
	Arguments     json.RawMessage `json:"arguments,omitempty" doc:"the arguments of the call, with masked secrets; left out if they are larger than 64 KiB"`
	ArgumentBytes int             `json:"argumentBytes,omitempty" doc:"the length of the arguments"`
	Secret        bool            `json:"secret,omitempty" doc:"whether the arguments have a secret, which is masked"`
	Progress      *Progress       `json:"progress,omitempty" doc:"the last progress notification of the server"`
	Questions     []Question      `json:"questions,omitempty" doc:"the server's questions that the user hasn't answered"`
	Result        json.RawMessage `json:"result,omitempty" doc:"the result of the server"`
	ResultBytes   int             `json:"resultBytes,omitempty" doc:"the length of the whole result in bytes"`
	Logs          []RunLog        `json:"logs,omitempty" doc:"the server's last log messages during the run, at most 100, the oldest first"`
	Messages      []RunMessage    `json:"messages,omitempty" doc:"what the client has sent and got, its handshake first; at most 64 messages and 256 KiB"`
	Missed        int             `json:"missed,omitempty" doc:"number of messages that weren't kept"`
	Omitted       []Omitted       `json:"omitted,omitempty" doc:"parts that weren't kept, because the result is larger than 1 MiB"`
	Error         *RunError       `json:"error,omitempty" doc:"why the run has no result"`
}

// Progress is the progress that the server reported last.
type Progress struct {
	Progress float64  `json:"progress" doc:"the progress so far, in a unit that the server chooses"`
	Total    *float64 `json:"total,omitempty" doc:"what progress is at the end; left out if the server doesn't say"`
	Message  string   `json:"message,omitempty" doc:"what the server is doing, in its own words; at most 200 bytes"`
}

// RunError is the reason why a run has no result.
type RunError struct {
	Code    int64            `json:"code,omitempty" doc:"the code of the JSON-RPC error"`
	Message string           `json:"message" doc:"what went wrong"`
	Failure *failure.Failure `json:"failure,omitempty" doc:"the failure that caused the error, if one was reported"`
	Data    json.RawMessage  `json:"data,omitempty" doc:"the JSON-RPC error's data; left out if larger than 64 KiB"`
}

// RunLog is a log message that the server sent during a run.
type RunLog struct {
	Time   time.Time `json:"time" doc:"when the log message arrived"`
	Level  string    `json:"level" doc:"the level as the server states it, such as info or warning"`
	Logger string    `json:"logger,omitempty" doc:"the name of the logger that the server states"`
	Text   string    `json:"text" doc:"the log message, at most 4 KiB; as JSON if it isn't a string"`
}

// Runs is one page of the list of runs. The newest run is first.
type Runs struct {
	Runs  []Run  `json:"runs" doc:"the runs of this page, the newest first"`
	Total int    `json:"total" doc:"number of runs on all pages"`
	Next  string `json:"next,omitempty" doc:"the cursor of the next page"`
}

// The states of a run.
const (
	runRunning   = "running"
	runWaiting   = "waiting"
	runSucceeded = "succeeded"
	runToolError = "tool_error"
	runFailed    = "failed"
	runCancelled = "cancelled"
	runTimeout   = "timeout"
)

// The events of /api/v1/runs/{id}/stream.
const (
	EventProgress = "progress" // a progress notification; the data is a Progress
	EventLog      = "log"      // a log message; the data is a RunLog
	EventQuestion = "question" // a new question from the server; the data is a Question
	EventAnswered = "answered" // a question that was answered or withdrawn; the data is the Question
	EventResult   = "result"   // the end of the run; the data is the Run
)

// Limits of runs.
const (
	mostRuns        = 16        // runs that may run at the same time
	keptRuns        = 100       // ended runs in the list of runs
	keptResults     = 16 << 20  // bytes of the results of all runs
	keptResult      = 1 << 20   // bytes of one result
	maxRunBody      = 1 << 20   // bytes of a request
	mostQuestions   = 32        // open questions in one run
	keptArguments   = 64 << 10  // bytes of the arguments that one run keeps
	keptLogs        = 100       // log messages that one run keeps
	keptLogBytes    = 64 << 10  // bytes of the log messages that one run keeps
	runEvents       = 500       // events that one run keeps for its stream
	runEventBytes   = 512 << 10 // bytes of the events that one run keeps
	maxRunText      = 4 << 10   // bytes of a text from the server
	maxRunSchema    = 64 << 10  // bytes of the schema of a question
	usualRunTimeout = 300 * time.Second
	mostRunTimeout  = time.Hour
	mostRunStreams  = 64
)

var (
	errRunCancelled = errors.New("the run was cancelled")
	errRunTimeout   = errors.New("the run has reached its timeout")
	errRunBarred    = errors.New("whoever has started the run may not use the project any more")
)

// run is one run. Its mutex guards the fields below the mutex.
type run struct {
	number uint64
	by     RunBy
	cancel context.CancelCauseFunc
	events *Ring[runEvent]

	mu        sync.Mutex
	show      Run
	questions []*runQuestion // the open questions
	asked     int
	logBytes  int              // the number of bytes in show.Logs
	wireBytes int              // the number of bytes in show.Messages
	visitor   *runtime.Visitor // nil before the visitor is connected
	// maskedResult is the result with masked secrets. The secrets are those of the configuration
	// maskedWith.
	maskedResult json.RawMessage
	maskedWith   *config.Snapshot
}

type runEvent struct {
	name string
	data []byte
}

var runRoutes = []route{
	{
		method: http.MethodPost, path: "/servers/{name}/runs", least: identity.Operator, name: "startRun",
		summary: "Call a tool, get a prompt or read a resource, as a client does",
		body:    RunRequest{}, answer: Run{}, status: http.StatusAccepted, problems: []int{400, 404, 413, 415, 422, 429},
		read: withBody(maxRunBody, func(a *API, r *http.Request, q RunRequest) (Run, *Problem) {
			return a.StartRun(r.Context(), a.runBy(r), r.PathValue("name"), q)
		}),
	},
	{
		method: http.MethodPost, path: "/runs", least: identity.Operator, name: "startProjectRun",
		summary: "Call a tool, get a prompt or read a resource, as a client of the project's endpoint does",
		body:    RunRequest{}, answer: Run{}, status: http.StatusAccepted, problems: []int{400, 413, 415, 422, 429},
		read: withBody(maxRunBody, func(a *API, r *http.Request, q RunRequest) (Run, *Problem) { return a.startProjectRun(r, q) }),
	},
	{
		method: http.MethodGet, path: "/runs", least: identity.Viewer, name: "runs", summary: "The runs, the newest first, without their results",
		query: pageParameters, answer: Runs{}, problems: []int{400}, read: (*API).readRuns,
	},
	{
		method: http.MethodGet, path: "/runs/{id}", least: identity.Viewer, name: "run", summary: "One run: its state, progress, open questions and result",
		answer: Run{}, problems: []int{404}, read: byPath("id", (*API).readRun),
	},
	{
		method: http.MethodGet, path: "/runs/{id}/result", least: identity.Viewer, name: "runResult", summary: "The result of a run, byte for byte as the server sent it",
		kind: "application/json", problems: []int{404, 409}, write: (*API).writeRunResult,
	},
	{
		method: http.MethodDelete, path: "/runs/{id}", least: identity.Operator, name: "cancelRun", summary: "Cancel a run",
		answer: Run{}, status: http.StatusAccepted, problems: []int{404}, read: byPath("id", (*API).CancelRun),
	},
	{
		method: http.MethodGet, path: "/runs/{id}/stream", least: identity.Viewer, name: "runStream", summary: "A run's events from its beginning, as server-sent events",
		events:   []streamed{{EventProgress, Progress{}}, {EventLog, RunLog{}}, {EventQuestion, Question{}}, {EventAnswered, Question{}}, {EventResult, Run{}}},
		problems: []int{404, 503}, write: (*API).writeRunStream,
	},
	{
		method: http.MethodPost, path: "/runs/{id}/answers", least: identity.Operator, name: "answerRun", summary: "Answer a question of the server",
		body: RunAnswer{}, answer: Run{}, problems: []int{400, 404, 409, 413, 415, 422},
		read: withBody(maxRunBody, func(a *API, r *http.Request, q RunAnswer) (Run, *Problem) {
			return a.AnswerRun(r.Context(), a.runBy(r), r.PathValue("id"), q)
		}),
	},
}

// readBody decodes the JSON body of a request into the value that to points to. It returns a problem
// if the body is invalid, or if the body has more bytes than the limit most.
func readBody(r *http.Request, most int64, to any) *Problem {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return &Problem{Type: "content-type", Title: "The Content-Type is not application/json", Status: http.StatusUnsupportedMediaType, Detail: "Send Content-Type: application/json."}
	}
	in := json.NewDecoder(http.MaxBytesReader(nil, r.Body, most))
	in.DisallowUnknownFields()
	err := in.Decode(to)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &Problem{Type: "too-large", Title: "The body is too large", Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("Send at most %d bytes.", most)}
	case err != nil:
		return &Problem{Type: "body", Title: "The body is invalid", Status: http.StatusBadRequest, Detail: excerpt.Line(err.Error(), maxTitle)}
	case in.More():
		return &Problem{Type: "body", Title: "The body is invalid", Status: http.StatusBadRequest, Detail: "Send one JSON object."}
	}
	return nil
}

func badBody(detail string) *Problem {
	return &Problem{Type: "body", Title: "The body is invalid", Status: http.StatusBadRequest, Detail: detail}
}

// runAPI calls tools, gets prompts and reads resources, as a client of a server does.
type runAPI struct {
	project project
	access  *Access
	version string
	streams *Streams
	runs    runs
	safe    *store.Safe // see Options.Safe
}

// StartRun starts a run at the endpoint of a server and returns it, as POST /api/v1/servers/{name}/runs does. For the
// server "", it's at an endpoint of the project, as with POST /api/v1/runs. It does
// not wait until the run has ended. The server gets the arguments byte for byte. The run is a call of by:
// the rules, the limits and the audit see them. ctx limits only the time to check the arguments, not the
// run. The returned problem is nil after success.
func (a *runAPI) StartRun(ctx context.Context, by RunBy, server string, q RunRequest) (Run, *Problem) {
	x, bad := a.newRun(by, server)
	if bad != nil {
		return Run{}, bad
	}
	given := 0
	for _, c := range []struct{ method, name string }{{mcp.MethodCallTool, q.Tool}, {mcp.MethodGetPrompt, q.Prompt}, {mcp.MethodReadResource, q.Resource}} {
		if c.name != "" {
			given++
			x.show.Method, x.show.Name = c.method, c.name
		}
	}
	if given != 1 {
		return Run{}, badBody(`Send exactly one of "tool", "prompt" and "resource".`)
	}
	if len(q.Arguments) > 0 && (jsonrpc.Valid(q.Arguments, jsonrpc.Limits{Bytes: maxRunBody}) != nil || jsonrpc.KindOf(q.Arguments, jsonrpc.Whole(q.Arguments)) != '{') {
		return Run{}, badBody(`"arguments" must be a JSON object.`)
	}
	timeout := usualRunTimeout
	if q.Timeout != 0 {
		if timeout = time.Duration(q.Timeout) * time.Second; q.Timeout < 1 || timeout > mostRunTimeout {
			return Run{}, badBody(`"timeout" must be a number of seconds from 1 to 3600.`)
		}
	}
	c, bad := a.clientOf(ctx, x, server, &q)
	if bad != nil {
		return Run{}, bad
	}
	if q.Tool != "" && !q.Unchecked && x.show.Server != "" {
		if bad := a.checkArguments(ctx, x.show.Server, c.own, q.Arguments); bad != nil {
			return Run{}, bad
		}
	}
	var trace [24]byte
	_, _ = rand.Read(trace[:]) // rand.Read never fails
	x.show.TraceID = hex.EncodeToString(trace[:16])
	parent := "00-" + x.show.TraceID + "-" + hex.EncodeToString(trace[16:]) + "-01"
	now := time.Now()
	x.show.State = runRunning
	x.show.Started, x.show.Ends = now.UTC(), now.Add(timeout).UTC()
	life, cancel := context.WithCancelCause(context.Background())
	x.cancel = cancel
	life, stop := context.WithTimeoutCause(life, timeout, errRunTimeout)
	clean := a.project.Clean(x.show.Server)
	if x.show.ArgumentBytes = len(q.Arguments); len(q.Arguments) > 0 && len(q.Arguments) <= keptArguments {
		x.show.Arguments = cleanJSON(clean, q.Arguments)
		x.show.Secret = !bytes.Equal(x.show.Arguments, q.Arguments)
	}
	if bad := a.runs.add(x); bad != nil {
		stop()
		cancel(nil)
		return Run{}, bad
	}
	sent := c.through(q)
	params := paramsOf(&sent, parent)
	if !a.runs.work.Go(func() {
		defer cancel(nil)
		defer stop()
		x.perform(life, a, &c, params, clean)
		a.runs.trim()
	}) {
		stop()
		cancel(nil)
		x.end(runCancelled, nil, nil, &RunError{Message: "Dragoman is stopping"})
	}
	return x.snapshot(true), nil
}

// RunBy says who starts a run; see identity.Principal.Run. A run of nobody is refused.
type RunBy struct {
	Who    *identity.Principal
	Remote string // their address
}

// ByConsole returns who starts a run on a page of the console. who has sent r.
func ByConsole(r *http.Request, who *identity.Principal) RunBy {
	return RunBy{who.Running(identity.Console), httpdoor.Remote(r)}
}

// runBy returns who starts a run with a request to the API.
func (a *runAPI) runBy(r *http.Request) RunBy {
	who, err := a.access.Check(r)
	if err != nil {
		return RunBy{}
	}
	return RunBy{who.Running(cameBy(r, who)), httpdoor.Remote(r)}
}

func unknownSender() *Problem {
	return &Problem{Type: "no-access", Title: "Nobody knows who sent this request", Status: http.StatusUnauthorized}
}

// newRun returns a run of somebody on a server, or at an endpoint of the project for "".
func (a *runAPI) newRun(by RunBy, server string) (*run, *Problem) {
	if by.Who == nil {
		return nil, unknownSender()
	}
	if server != "" {
		if bad := a.project.noServer(server); bad != nil {
			return nil, bad
		}
	}
	return &run{events: NewRing[runEvent](runEvents, runEventBytes), by: by}, nil
}

// checkArguments checks arguments against the schema of a tool. If the server does not list the
// tool, or if the schema cannot be used, it checks nothing and leaves the check to the server.
func (a *runAPI) checkArguments(ctx context.Context, server, name string, arguments []byte) *Problem {
	x, bad := a.project.findTool(ctx, server, name)
	if bad != nil {
		return nil
	}
	whole := jsonrpc.Whole(x.JSON)
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	return unfit(jsonrpc.Find(x.JSON, whole, "inputSchema").Of(x.JSON), arguments, "/arguments", "arguments", "The arguments do not fit the schema of the tool")
}

// unfit returns a problem if value does not match raw, which is a JSON Schema from a server. It
// returns nil if value matches, or if the schema cannot be used.
func unfit(raw, value []byte, pointer, what, title string) *Problem {
	c, err := schema.Compile(raw)
	if err != nil {
		return nil
	}
	all, err := c.Check(value)
	if err != nil || len(all) == 0 {
		return nil
	}
	p := &Problem{Type: what, Title: title, Status: http.StatusUnprocessableEntity, Errors: faultsOf(all, pointer)}
	p.Detail = strings.TrimPrefix(p.Errors[0].Pointer, pointer+"/") + " " + p.Errors[0].Detail + "."
	return p
}

// FaultsOf returns the errors in value according to raw, which is a JSON Schema from a server. The
// pointers of the errors are relative to value. FaultsOf returns nil if value matches the schema, or
// if the schema cannot be used.
func FaultsOf(raw, value []byte) []ValueError {
	c, err := schema.Compile(raw)
	if err != nil {
		return nil
	}
	all, err := c.Check(value)
	if err != nil {
		return nil
	}
	return faultsOf(all, "")
}

// faultsOf converts the problems in a value to ValueErrors. pointer is the JSON pointer of the value.
func faultsOf(all []schema.Problem, pointer string) (out []ValueError) {
	for _, x := range all {
		path := x.Path
		if x.Name != "" {
			path = append(slices.Clone(path), x.Name)
		}
		at := pointer
		for _, step := range path {
			at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(excerpt.Cut(step, maxName))
		}
		out = append(out, ValueError{Pointer: at, Detail: x.Text})
	}
	return out
}

// paramsOf returns the params of the MCP request for q, with the arguments byte for byte. parent is
// the traceparent of the request.
func paramsOf(q *RunRequest, parent string) []byte {
	var out []byte
	switch {
	case q.Resource != "":
		out = jsonrpc.AppendQuote([]byte(`{"uri":`), q.Resource)
	case q.Prompt != "":
		out = jsonrpc.AppendQuote([]byte(`{"name":`), q.Prompt)
	default:
		out = jsonrpc.AppendQuote([]byte(`{"name":`), q.Tool)
	}
	if len(q.Arguments) > 0 && q.Resource == "" {
		out = append(append(out, `,"arguments":`...), q.Arguments...)
	}
	out = append(out, `,"_meta":{"progressToken":1,"traceparent":"`...)
	return append(append(out, parent...), `"}}`...)
}

// perform makes the call of a run, waits until the call has ended, and records its result.
func (x *run) perform(ctx context.Context, a *runAPI, c *client, params []byte, clean func(string) string) {
	v, err := c.visit(ctx, a, x, clean)
	if err != nil {
		x.fail(ctx, err, clean)
		return
	}
	defer v.Close()
	x.mu.Lock()
	x.visitor = v
	x.mu.Unlock()
	answer, err := v.Call(ctx, x.show.Method, params)
	switch {
	case err != nil:
		x.fail(ctx, err, clean)
	case answer.Kind == jsonrpc.Failure:
		e := &jsonrpc.Error{Data: jsonrpc.Find(answer.Raw, answer.Error, "data").Of(answer.Raw)}
		e.Code, _ = jsonrpc.Int(answer.Raw, jsonrpc.Find(answer.Raw, answer.Error, "code"))
		e.Message, _ = jsonrpc.Text(answer.Raw, jsonrpc.Find(answer.Raw, answer.Error, "message"))
		x.fail(ctx, e, clean)
	default:
		result, state := answer.Result.Of(answer.Raw), runSucceeded
		if jsonrpc.KindOf(answer.Raw, answer.ResultMember("isError")) == 't' {
			state = runToolError
		}
		kept, omitted := keepResult(result)
		// Clone the result, because a slice of the message would keep the whole message in memory.
		x.end(state, bytes.Clone(kept), omitted, nil, len(result))
	}
}

// modern reports whether a server is known to be modern.
func (a *runAPI) modern(server string) bool {
	return slices.ContainsFunc(a.project.Statuses(), func(s upstream.Status) bool { return s.Name == server && s.Revision.Modern() })
}

// fail records the end of a run that has no result because of err.
func (x *run) fail(ctx context.Context, err error, clean func(string) string) {
	state, out := runFailed, &RunError{Message: excerpt.Lines(cleanHead(err.Error(), clean), maxRunText)}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		out.Code, out.Message = wire.Code, excerpt.Lines(cleanHead(wire.Message, clean), maxRunText)
		if data := wire.Data; len(data) > 0 && len(data) <= maxRunSchema {
			out.Data = bytes.Clone(cleanJSON(clean, data))
			out.Failure = failure.Parse(jsonrpc.Find(data, jsonrpc.Whole(data), "failure").Of(data))
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errRunTimeout):
		state, out = runTimeout, &RunError{Message: "the run has reached its timeout and was cancelled; the server may have executed the call"}
	case errors.Is(cause, errRunBarred):
		state, out = runCancelled, &RunError{Message: "the run was cancelled, because whoever has started it may not use the project any more: the key was revoked or has expired, or they have lost their role; the server may have executed the call"}
	case ctx.Err() != nil:
		state, out = runCancelled, &RunError{Message: "the run was cancelled; the server may have executed the call"}
	}
	x.end(state, nil, nil, out)
}

// end records the end of a run. size is the length of the whole result in bytes.
func (x *run) end(state string, result []byte, omitted []Omitted, e *RunError, size ...int) {
	now := time.Now().UTC()
	x.mu.Lock()
	x.show.State, x.show.Ended, x.show.Result, x.show.Omitted, x.show.Error = state, &now, result, omitted, e
	x.show.Seconds = now.Sub(x.show.Started).Seconds()
	if len(size) > 0 {
		x.show.ResultBytes = size[0]
	}
	x.questions, x.show.Questions = nil, nil
	x.mu.Unlock()
	x.publish(EventResult, x.snapshot(false))
	x.events.End()
}

// publish adds an event to the stream of the run.
func (x *run) publish(name string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		return // cannot happen, because all raw JSON in data is valid
	}
	x.events.Add(runEvent{name, b}, len(b))
}

// snapshot returns a copy of the run. If result is false, the copy has no result, no arguments and no
// log messages.
func (x *run) snapshot(result bool) Run {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := x.show
	out.Questions, out.Logs = slices.Clone(x.show.Questions), slices.Clone(x.show.Logs)
	out.Messages = slices.Clone(x.show.Messages)
	if out.Ended == nil {
		out.Seconds = time.Since(out.Started).Seconds()
	}
	if !result {
		out.Result, out.Arguments, out.Logs, out.Messages, out.Missed = nil, nil, nil, nil, 0
	}
	return out
}

func (x *run) over() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.show.Ended != nil
}

// readRuns answers /runs.
func (a *runAPI) readRuns(r *http.Request) (any, *Problem) {
	all := a.runs.newest()
	p, bad := pageOf(r, all, func(x **run) string { return fmt.Sprintf("%020d", ^(*x).number) })
	if bad != nil {
		return nil, bad
	}
	out := Runs{Runs: []Run{}, Total: len(all), Next: p.next}
	for _, x := range p.items {
		out.Runs = append(out.Runs, x.snapshot(false))
	}
	return out, nil
}

// readRun answers GET /runs/{id}.
func (a *runAPI) readRun(id string) (Run, *Problem) {
	x, bad := a.runs.find(id)
	if bad != nil {
		return Run{}, bad
	}
	return x.snapshot(true), nil
}

// writeRunResult answers /runs/{id}/result.
func (a *runAPI) writeRunResult(w http.ResponseWriter, r *http.Request) *Problem {
	x, bad := a.readRun(r.PathValue("id"))
	switch {
	case bad != nil:
		return bad
	case x.Result == nil:
		return &Problem{Type: "no-result", Title: "The run has no result", Status: http.StatusConflict, Detail: "The run has not ended, the run has failed, or the result is too large to keep."}
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(x.Result)
	return nil
}

// CancelRun cancels a run, as DELETE /api/v1/runs/{id} does, and returns it without its result. It
// does not wait until the run has ended. It has no effect on a run that has already ended.
func (a *runAPI) CancelRun(id string) (Run, *Problem) {
	x, bad := a.runs.find(id)
	if bad != nil {
		return Run{}, bad
	}
	x.cancel(errRunCancelled)
	return x.snapshot(false), nil
}

// EndBarred cancels the runs of everybody who may not use their project any more, in all projects.
func (a *API) EndBarred() {
	for _, x := range a.runs.newest() {
		if !x.over() && !a.project.Lets(x.by.Who) {
			x.cancel(errRunBarred)
		}
	}
	for _, x := range a.others.list() {
		x.EndBarred()
	}
}

// FindRun returns the run with the given id. Secrets in the result of the run are masked. The returned
// problem is nil after success.
func (a *runAPI) FindRun(id string) (Run, *Problem) {
	x, bad := a.runs.find(id)
	if bad != nil {
		return Run{}, bad
	}
	out := x.snapshot(true)
	if len(out.Result) > 0 {
		out.Result = x.masked(a.project.Project, out.Result)
	}
	return out, nil
}

// masked returns the result of a run with masked secrets. It caches the masked result until the
// configuration changes, because masking a large result is slow.
func (x *run) masked(rt *runtime.Project, result []byte) json.RawMessage {
	now := rt.Current()
	x.mu.Lock()
	known, shown := x.maskedWith == now, x.maskedResult
	x.mu.Unlock()
	if known && shown != nil {
		return shown
	}
	shown = cleanJSON(rt.Clean(x.show.Server), result) // show.Server never changes, so no lock is needed
	x.mu.Lock()
	x.maskedWith, x.maskedResult = now, shown
	x.mu.Unlock()
	return shown
}

// FindRuns returns up to limit runs without their results, newest first. It selects the runs on the
// given server of the tool or prompt with the given name, or of the resource with this URI. If both
// server and name are "", it selects all runs.
func (a *runAPI) FindRuns(server, name string, limit int) (out []Run) {
	for _, x := range a.runs.newest() {
		if len(out) >= limit {
			break
		}
		if server == "" && name == "" || x.show.Server == server && x.show.Item == name { // Server and Item never change, so no lock is needed
			out = append(out, x.snapshot(false))
		}
	}
	return out
}

// writeRunStream answers /runs/{id}/stream.
func (a *runAPI) writeRunStream(w http.ResponseWriter, r *http.Request) *Problem {
	x, bad := a.runs.find(r.PathValue("id"))
	if bad == nil {
		serveRunEvents(w, r, a.streams, x.events)
	}
	return bad
}

// serveRunEvents sends events as a stream. It begins after the last event that the client has already
// received, or with the oldest event.
func serveRunEvents(w http.ResponseWriter, r *http.Request, streams *Streams, events *Ring[runEvent]) {
	after := uint64(0)
	if id := lastEventID(r); id != "" {
		after = events.After(id)
	}
	streams.Serve(w, r, events.Follow(after, func(e Numbered[runEvent]) (string, []byte) { return e.Item.name, e.Item.data }))
}
