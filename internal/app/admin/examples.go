package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Example is a run that somebody has kept, to run it again and to compare the results.
type Example struct {
	ID           string          `json:"id" doc:"the id of the example; its first characters suffice in commands"`
	Name         string          `json:"name" doc:"what people call it"`
	Endpoint     string          `json:"endpoint" enum:"server,project,search" doc:"see endpoint of Run"`
	Server       string          `json:"server" doc:"see server of Run"`
	Method       string          `json:"method" doc:"tools/call, prompts/get or resources/read"`
	Use          string          `json:"use" doc:"the name of the tool or prompt, or the resource's URI, as the client calls it"`
	Item         string          `json:"item" doc:"the name that the server gives it"`
	Revision     string          `json:"revision" doc:"the revision of the client"`
	Capabilities []string        `json:"capabilities" doc:"what the client can do"`
	Arguments    json.RawMessage `json:"arguments,omitempty" doc:"the arguments; a secret of the configuration is never kept, and is ${secret} here"`
	Secret       bool            `json:"secret,omitempty" doc:"whether a secret is missing in the arguments, so that the example can only be run after somebody has filled it in"`
	State        string          `json:"state" enum:"succeeded,tool_error,failed" doc:"how the run has ended"`
	Made         time.Time       `json:"made" doc:"when the example was kept"`
	By           string          `json:"by" doc:"who kept it"`
}

// ExampleDetails is an example with its result.
type ExampleDetails struct {
	Example
	Result json.RawMessage `json:"result,omitempty" doc:"the result of the run, with masked secrets, or its error; left out if it was larger than 64 KiB"`
}

// Examples are the examples of a project.
type Examples struct {
	Examples []Example `json:"examples" doc:"the examples, sorted by name, without their results"`
}

// ExampleRequest says which run to keep.
type ExampleRequest struct {
	Run  string `json:"run" doc:"the id of a run that has ended"`
	Name string `json:"name,omitempty" doc:"what to call the example, at most 100 characters; the default is the name of the tool, prompt or resource"`
}

// maxExampleName is the maximum length of an example's name in characters.
const maxExampleName = 100

// missingSecret stands in the arguments of an example for a secret.
const missingSecret = "${secret}"

var exampleRoutes = []route{
	{
		method: http.MethodGet, path: "/examples", least: identity.Viewer, name: "examples", summary: "The runs that were kept as examples, without their results",
		answer: Examples{}, problems: houseProblems, read: func(a *API, _ *http.Request) (any, *Problem) { return result(a.KeptExamples()) },
	},
	{
		method: http.MethodGet, path: "/examples/{id}", least: identity.Viewer, name: "example", summary: "A kept example with its result",
		answer: ExampleDetails{}, problems: slices.Concat([]int{404}, houseProblems),
		read: func(a *API, r *http.Request) (any, *Problem) {
			return result(a.KeptExample(r.Context(), r.PathValue("id")))
		},
	},
	{
		method: http.MethodPost, path: "/examples", least: identity.Operator, name: "keepExample", summary: "Keep a run that has ended as an example, with its arguments and its result",
		body: ExampleRequest{}, answer: Example{}, status: http.StatusCreated, problems: slices.Concat([]int{400, 404, 413, 415, 422}, houseProblems),
		read: withBody(maxRunBody, func(a *API, r *http.Request, q ExampleRequest) (Example, *Problem) { return a.KeepExample(r, q) }),
	},
	{
		method: http.MethodPost, path: "/examples/{id}/runs", least: identity.Operator, name: "runExample", summary: "Run a kept example again, as the same client",
		answer: Run{}, status: http.StatusAccepted, problems: slices.Concat([]int{404, 422, 429}, houseProblems),
		read: func(a *API, r *http.Request) (any, *Problem) {
			return result(a.RunExample(r.Context(), a.runBy(r), r.PathValue("id")))
		},
	},
	{
		method: http.MethodDelete, path: "/examples/{id}", least: identity.Operator, name: "removeExample", summary: "Remove a kept example",
		answer: Example{}, problems: slices.Concat([]int{404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.RemoveExample(r, r.PathValue("id"))) },
	},
}

// exampleAPI keeps the examples of a project.
type exampleAPI struct {
	house
	runner *runAPI
}

// KeptExamples answers GET /examples.
func (a *exampleAPI) KeptExamples() (Examples, *Problem) {
	if bad := a.closed(); bad != nil {
		return Examples{}, bad
	}
	out := Examples{Examples: []Example{}}
	for _, x := range a.safe.Store().Snapshot().Examples(a.project.name()) {
		if e, ok := a.example(&x); ok {
			out.Examples = append(out.Examples, e)
		}
	}
	return out, nil
}

func (a *exampleAPI) example(x *store.Example) (e Example, ok bool) {
	ok = json.Unmarshal([]byte(x.Request), &e) == nil
	e.ID, e.Name, e.Made, e.By = x.ID, x.Name, x.Made.UTC(), a.nameOf(x.Actor)
	return e, ok
}

// KeptExample answers GET /examples/{id}.
func (a *exampleAPI) KeptExample(ctx context.Context, id string) (out ExampleDetails, bad *Problem) {
	if out.Example, bad = a.find(id); bad != nil {
		return out, bad
	}
	text, err := a.safe.Store().ExampleResult(ctx, a.project.name(), out.ID)
	if err != nil {
		return out, a.problem(err)
	}
	if text != "" {
		out.Result = json.RawMessage(text)
	}
	return out, nil
}

// find returns the example with an id, or whose id begins like this if it's the only one.
func (a *exampleAPI) find(id string) (Example, *Problem) {
	all, bad := a.KeptExamples()
	if bad != nil {
		return Example{}, bad
	}
	var found []Example
	for _, x := range all.Examples {
		if x.ID == id {
			return x, nil
		}
		if len(id) >= 4 && strings.HasPrefix(x.ID, strings.ToUpper(id)) {
			found = append(found, x)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return Example{}, &Problem{Type: "no-such-example", Title: "No such example", Status: http.StatusNotFound, Detail: "The project has no example " + excerpt.Quote(id, maxName) + ", or several whose ids begin like this. `dragoman examples` lists them."}
}

// KeepExample answers POST /examples.
func (a *exampleAPI) KeepExample(r *http.Request, q ExampleRequest) (Example, *Problem) {
	who, bad := a.changer(r)
	if bad != nil {
		return Example{}, bad
	}
	x, bad := a.runner.FindRun(q.Run)
	if bad != nil {
		return Example{}, bad
	}
	name := strings.TrimSpace(q.Name)
	if name == "" {
		name = excerpt.Line(x.Item, maxExampleName)
	}
	switch {
	case x.State != runSucceeded && x.State != runToolError && x.State != runFailed:
		return Example{}, conflict("run-not-over", "The run can't be kept", "Only a run that has ended with a result or an error can be kept as an example. Wait for it, or run it again.")
	case utf8.RuneCountInString(name) > maxExampleName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
		return Example{}, &Problem{Type: "name", Title: "This can't be the name", Status: http.StatusUnprocessableEntity, Detail: fmt.Sprintf("Write a name of at most %d characters on one line.", maxExampleName)}
	case x.ArgumentBytes > keptArguments:
		return Example{}, conflict("too-large", "The run can't be kept", "Its arguments are larger than 64 KiB. Keep a run with smaller ones.")
	}
	e := Example{
		Name: name, Endpoint: x.Endpoint, Server: x.Server, Method: x.Method, Use: x.Name, Item: x.Item, Revision: x.Revision, Capabilities: x.Capabilities,
		Arguments: x.Arguments, Secret: x.Secret, State: x.State,
	}
	if x.Secret {
		e.Arguments = cleanJSON(func(s string) string { return strings.ReplaceAll(s, excerpt.Mask, missingSecret) }, x.Arguments)
	}
	request, err := json.Marshal(e)
	if err != nil {
		return Example{}, a.problem(err)
	}
	kept := store.Example{Project: a.project.name(), ID: rand.Text()[:12], Name: name, Request: string(request), Result: resultText(&x)}
	if err := a.safe.Store().Write(r.Context(), who, func(t *store.Tx) error { return t.KeepExample(&kept) }); err != nil {
		return Example{}, a.problem(err)
	}
	return a.find(kept.ID)
}

// resultText returns what an example keeps of the result of a run, or "".
func resultText(x *Run) string {
	text := x.Result
	if x.Error != nil {
		text, _ = json.Marshal(struct {
			Error *RunError `json:"error"`
		}{x.Error})
	}
	if len(text) > keptArguments || x.Result != nil && len(x.Omitted) > 0 {
		return ""
	}
	return string(text)
}

// ResultOf returns the result of a run in the form in which an example keeps it, or nil if it's too large.
func ResultOf(x *Run) json.RawMessage {
	if text := resultText(x); text != "" {
		return json.RawMessage(text)
	}
	return nil
}

// RunExample answers POST /examples/{id}/runs.
func (a *exampleAPI) RunExample(ctx context.Context, by RunBy, id string) (Run, *Problem) {
	e, bad := a.find(id)
	if bad != nil {
		return Run{}, bad
	}
	if e.Secret {
		return Run{}, &Problem{Type: "secret", Title: "A secret is missing", Status: http.StatusUnprocessableEntity, Detail: "The arguments of this example had a secret, which is never kept. Open it in the playground, write the secret in place of " + missingSecret + ", and run it there."}
	}
	server, q := e.Request()
	return a.runner.StartRun(ctx, by, server, q)
}

// Request returns the request for a run of the example, and the server at whose endpoint it is, or "".
func (e *Example) Request() (server string, q RunRequest) {
	q = RunRequest{Arguments: e.Arguments, Revision: e.Revision, Capabilities: &e.Capabilities}
	switch e.Method {
	case mcp.MethodCallTool:
		q.Tool = e.Use
	case mcp.MethodGetPrompt:
		q.Prompt = e.Use
	default:
		q.Resource = e.Use
	}
	if e.Endpoint != AtServer {
		q.Endpoint = e.Endpoint
		return "", q
	}
	return e.Server, q
}

// RemoveExample answers DELETE /examples/{id}.
func (a *exampleAPI) RemoveExample(r *http.Request, id string) (Example, *Problem) {
	who, bad := a.changer(r)
	if bad != nil {
		return Example{}, bad
	}
	e, bad := a.find(id)
	if bad != nil {
		return Example{}, bad
	}
	err := a.safe.Store().Write(r.Context(), who, func(t *store.Tx) error {
		_, err := t.RemoveExample(a.project.name(), e.ID)
		return err
	})
	if err != nil {
		return Example{}, a.problem(err)
	}
	return e, nil
}
