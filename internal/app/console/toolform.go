package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// mostRecentRuns is the maximum number of runs that the page of a tool lists.
const mostRecentRuns = 5

// runForm is a form with which a user runs a tool, gets a prompt or reads a resource, as a client of their choice does.
type runForm struct {
	*form.Form
	item         playItem
	ID           string // the prefix of the ids of the form's controls
	Timeout      string // the timeout of the run, in seconds
	Endpoints    []choice
	Revisions    []choice
	Capabilities []choice
	// Destructive is true if the server says that the tool is destructive. The user must then
	// confirm the run. Confirmed is true if the user has confirmed the run.
	Destructive, Confirmed bool
	Unconfirmed            bool // the run was not started, because the user did not confirm it
	Problem                string
	Skip                   bool   // the page offers a run without a check of the arguments
	Number                 string // see forms
}

// Server, Kind and Name say what is run, as [playItem] does.
func (f *runForm) Server() string { return f.item.Server }
func (f *runForm) Kind() string   { return f.item.Kind }
func (f *runForm) Name() string   { return f.item.Name }

// Verb returns what the button of the form says.
func (f *runForm) Verb() string {
	return map[string]string{kindTool: "Run", kindPrompt: "Get", kindResource: "Read"}[f.item.Kind]
}

// argumentsForm returns the form for the arguments of a tool.
func argumentsForm(t *admin.ToolDetail) *form.Form {
	schema, ok := inputSchema(t)
	if !ok {
		return &form.Form{Whole: true, Text: "{}", Why: "The definition of the tool cannot be read."}
	}
	return form.Make(schema, form.Options{ID: "a"})
}

// inputSchema returns the schema of a tool's arguments, or nil if the tool has no schema. ok is
// false if the definition of the tool cannot be read.
func inputSchema(t *admin.ToolDetail) (schema []byte, ok bool) {
	definition := []byte(t.Definition)
	if jsonrpc.Valid(definition, jsonrpc.Limits{}) != nil {
		return nil, false
	}
	return jsonrpc.ValueOf(definition).Get("inputSchema").Raw(), true
}

// reportRest checks value against schema, and adds all errors to the form. Normally the API does
// this check. But if the form is not valid, the console does not call the API. value is nil if the
// form could not be read. found is true if the check found errors.
func reportRest(f *form.Form, schema, value []byte) (found bool) {
	if value == nil || len(schema) == 0 {
		return false
	}
	all := admin.FaultsOf(schema, value)
	for _, e := range all {
		f.Report(e.Pointer, e.Detail)
	}
	return len(all) > 0
}

// runFormOf returns an empty form for a run of an item.
func runFormOf(x playItem) *runForm {
	f := &runForm{Form: x.fresh(), item: x, ID: "run", Timeout: "300", Destructive: x.Destructive, Number: formNumber()}
	f.choose(x.usual(), mcp.LatestLegacy.String(), []string{admin.CanForm, admin.CanURL})
	return f
}

// choose sets the lists of what the client of the run can be, and selects an endpoint, a revision and capabilities.
func (f *runForm) choose(at, revision string, can []string) {
	f.Endpoints = nil
	for _, x := range []choice{{Value: admin.AtServer, Title: "this server"}, {Value: admin.AtProject, Title: "all servers"}, {Value: admin.AtSearch, Title: "search"}} {
		if x.Value == admin.AtServer && f.item.Server == "" || x.Value != admin.AtServer && f.item.Offered == "" {
			continue
		}
		x.Selected = x.Value == at
		f.Endpoints = append(f.Endpoints, x)
	}
	f.Revisions, f.Capabilities = clientChoices(revision, can)
}

// clientChoices returns the lists of what a client can be.
func clientChoices(revision string, can []string) (revisions, capabilities []choice) {
	for _, date := range mcp.Dates(mcp.Revisions()) {
		revisions = append(revisions, choice{date, date, date == revision})
	}
	for _, x := range []choice{{Value: admin.CanForm, Title: "forms"}, {Value: admin.CanURL, Title: "links"}, {Value: admin.CanSampling, Title: "sampling"}, {Value: admin.CanRoots, Title: "folders"}} {
		x.Selected = slices.Contains(can, x.Value)
		capabilities = append(capabilities, x)
	}
	return revisions, capabilities
}

// read reads the form as a browser sent it. If ok is true, q is the request for the run at the endpoint of server, or at
// one of the project for "". If ok is false, the page must show the form again.
func (f *runForm) read(sent url.Values) (server string, q admin.RunRequest, ok bool) {
	f.Timeout, f.Confirmed = strings.TrimSpace(sent.Get("timeout")), sent.Get("confirm") != ""
	at, can := cmp.Or(sent.Get("at"), f.item.usual()), append([]string{}, sent["can"]...)
	f.choose(at, cmp.Or(sent.Get("revision"), mcp.LatestLegacy.String()), can)
	var arguments []byte
	if f.item.Kind == kindResource {
		ok = true
	} else if arguments, ok = f.Read(sent); ok && f.item.check != nil {
		ok = f.item.check(f.Form, arguments)
	}
	readable := ok
	if f.switched(sent.Get("do"), arguments, ok, f.item.fresh) {
		return "", q, false
	}
	q = admin.RunRequest{Arguments: arguments, Revision: sent.Get("revision"), Capabilities: &can, Unchecked: sent.Get("unchecked") != ""}
	name := f.item.Name
	if server = f.item.Server; at != admin.AtServer {
		server, q.Endpoint, name = "", at, f.item.Offered
	}
	switch f.item.Kind {
	case kindTool:
		q.Tool = name
	case kindPrompt:
		q.Prompt = name
	default:
		q.Resource = name
	}
	if f.Timeout != "" {
		n, err := strconv.Atoi(f.Timeout)
		if err != nil || n < 1 {
			f.Problem, ok = "The timeout must be a number of seconds from 1 to 3600.", false
		}
		q.Timeout = n
	}
	if f.item.Kind == kindResource && (name == "" || strings.ContainsAny(name, "{}")) {
		f.Problem, ok = "Nothing was read. Replace each part in braces by a value.", false
	}
	if f.Destructive && !f.Confirmed {
		if f.Unconfirmed = true; ok {
			f.Problem, ok = "The tool was not run. Confirm below that it may destroy data.", false
		}
	}
	if !ok && !q.Unchecked {
		f.Skip = reportRest(f.Form, f.item.schema, arguments) && readable
	}
	return server, q, ok
}

// switched calls switchForm and replaces the form with the result. It reports whether do requests a
// conversion.
func (f *runForm) switched(do string, value []byte, ok bool, fresh func() *form.Form) bool {
	to, changed := switchForm(f.Form, do, value, ok, fresh)
	f.Form = to
	return changed
}

// switchForm converts the form to fields if do is "form", or to JSON text if do is "json". value is
// the value of the form. ok is false if the form contains errors. fresh returns an empty form with
// fields. changed is true if do requests a conversion.
func switchForm(f *form.Form, do string, value []byte, ok bool, fresh func() *form.Form) (to *form.Form, changed bool) {
	switch {
	case do != "json" && do != "form":
		return f, false
	case !ok: // the user has to correct the errors first
		return f, true
	case do == "json":
		f.AsJSON(value)
		f.Text = formatted([]byte(f.Text))
		return f, true
	}
	to = fresh()
	if !to.Fill(value) {
		to.Why = "The object has members that the schema does not list, so it cannot be shown as fields."
	}
	return to, true
}

// reportTo shows the errors in a response of the API beside the fields of the form. prefix is the
// JSON Pointer to the form's values in the request. rest describes the problem if the response does
// not refer to fields.
func reportTo(f *form.Form, bad *admin.Problem, prefix string) (rest string) {
	if len(bad.Errors) == 0 {
		return bad.Error()
	}
	for _, e := range bad.Errors {
		f.Report(strings.TrimPrefix(e.Pointer, prefix), e.Detail)
	}
	return ""
}

// fillFrom sets the values of the form to those of an earlier run.
func (f *runForm) fillFrom(endpoint, revision string, can []string, arguments []byte) {
	f.choose(endpoint, revision, can)
	if len(arguments) > 0 && !f.Fill(arguments) {
		f.Why = "The object has members that the schema does not list, so it cannot be shown as fields."
	}
}
