package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// mostRecentRuns is the maximum number of runs that the page of a tool lists.
const mostRecentRuns = 5

// runForm is a form with which a user runs a tool.
type runForm struct {
	*form.Form
	ID        string // the prefix of the ids of the form's controls
	Path      string // the path to which the browser posts the form
	Name      string // the name of the tool
	Timeout   string // the timeout of the run, in seconds
	Revisions []choice
	// Destructive is true if the server says that the tool is destructive. The user must then
	// confirm the run. Confirmed is true if the user has confirmed the run.
	Destructive, Confirmed bool
	Unconfirmed            bool // the run was not started, because the user did not confirm it
	Problem                string
	Skip                   bool // the page offers a run without a check of the arguments
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

// runFormOf returns an empty form for a run of the tool t.
func runFormOf(t *admin.ToolDetail) *runForm {
	f := &runForm{Form: argumentsForm(t), ID: "run", Path: pathOf("servers", t.Server, "tools", t.Name), Name: t.Name, Timeout: "300", Destructive: t.Effect == "destructive"}
	f.choose("")
	return f
}

// choose sets the list of revisions that the run can use, and selects one of them. If revision is
// "", choose selects the newest legacy revision.
func (f *runForm) choose(revision string) {
	f.Revisions = nil
	for _, date := range mcp.Dates(mcp.Revisions(mcp.Handshake)) {
		selected := date == revision || revision == "" && date == mcp.LatestLegacy.String()
		f.Revisions = append(f.Revisions, choice{date, date, selected})
	}
}

// read reads the form as a browser sent it. If ok is true, q is the request for the run. If ok is
// false, the page must show the form again.
func (f *runForm) read(t *admin.ToolDetail, sent url.Values) (q admin.RunRequest, ok bool) {
	f.Timeout, f.Confirmed = strings.TrimSpace(sent.Get("timeout")), sent.Get("confirm") != ""
	f.choose(sent.Get("revision"))
	arguments, readable := f.Read(sent)
	ok = readable
	if f.switched(sent.Get("do"), arguments, ok, func() *form.Form { return argumentsForm(t) }) {
		return q, false
	}
	q = admin.RunRequest{Tool: t.Name, Arguments: arguments, Revision: sent.Get("revision"), Unchecked: sent.Get("unchecked") != ""}
	if f.Timeout != "" {
		n, err := strconv.Atoi(f.Timeout)
		if err != nil || n < 1 {
			f.Problem, ok = "The timeout must be a number of seconds from 1 to 3600.", false
		}
		q.Timeout = n
	}
	if f.Destructive && !f.Confirmed {
		if f.Unconfirmed = true; ok {
			f.Problem, ok = "The tool was not run. Confirm below that it may destroy data.", false
		}
	}
	if !ok && !q.Unchecked {
		schema, _ := inputSchema(t)
		f.Skip = reportRest(f.Form, schema, arguments) && readable
	}
	return q, ok
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

// startRun handles the form that runs a tool.
func (p *toolPages) startRun(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	t, bad := p.source.FindTool(r.PathValue("name"), r.PathValue("tool"))
	if bad != nil {
		p.frame.fail(w, r, p.noTool(r.PathValue("name"), r.PathValue("tool")))
		return
	}
	f, status := runFormOf(&t), http.StatusOK
	q, ok := f.read(&t, r.PostForm)
	if do := r.PostForm.Get("do"); ok && do != "json" && do != "form" {
		run, bad := p.source.StartRun(r.Context(), admin.ByConsole(r, stateOf(r).viewer.who), t.Server, q)
		if bad == nil {
			http.Redirect(w, r, pathOf("runs", run.ID), http.StatusSeeOther)
			return
		}
		f.Problem, status = reportTo(f.Form, bad, "/arguments"), bad.Status
		f.Skip = bad.Type == "arguments"
	}
	if len(f.Errors) > 0 || f.Unconfirmed || f.Problem != "" {
		status = max(status, http.StatusUnprocessableEntity)
	}
	p.frame.again(w, r, p.toolPage(), func(r *http.Request) (*View, error) { return p.toolWith(r, f, status) })
}

// fillFrom sets the arguments and the revision of the form to those of an earlier run of the same
// tool. It does nothing if the run was of another tool.
func (f *runForm) fillFrom(run *admin.Run, t *admin.ToolDetail) {
	if run.Server == t.Server && run.Name == t.Name && len(run.Arguments) > 0 {
		if f.choose(run.Revision); !f.Fill(run.Arguments) {
			f.Why = "The object has members that the schema does not list, so it cannot be shown as fields."
		}
	}
}
