package console

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	terminal "github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// Adder tries new servers and adds them to the configuration. *admin.API implements Adder. The
// results contain no secrets, except in Kept.Lines.
type Adder interface {
	ClientFiles() admin.ClientFiles
	NewDraft(admin.DraftRequest) (admin.Draft, *admin.Problem)
	Draft(id string) (admin.Draft, *admin.Problem)
	DropDraft(id string) (admin.Draft, *admin.Problem)
	ChangeDraft(id string, q admin.DraftChange) (admin.Draft, *admin.Problem)
	KeepDraft(r *http.Request, id string, q admin.KeepRequest) (admin.Kept, *admin.Problem)
	Editor
}

// addView has the values of the page that adds servers.
type addView struct {
	Way     string // "paste", "import" or "hand"
	Text    string // the pasted text, if it could not be read
	Problem string // why the last action failed; "" if the action succeeded
	Hand    handForm
	Files   []fileRow
	Nothing string // the names of the clients without servers

	Draft    *admin.Draft // nil at the beginning
	Servers  []triedView
	Needs    []admin.DraftVariable // the variables of the chosen servers that have no value
	Secrets  []admin.DraftVariable // the variables of the chosen servers whose values are in the draft
	Preview  *admin.Preview
	Untested bool
	Running  bool
	Summary  string
	Save     string // the label of the button that saves the servers
	Doubtful bool   // the test of a chosen server did not connect, so saving is not the next step
	Left     string // text about the servers that the user has not chosen; "" if there are none
	Key      string
	Sure     string      // see sureWords
	Own      bool        // the servers go into the text of a project, so there are no files of clients
	Kept     *admin.Kept // the result of saving; not nil if the user still has to set variables, or if Dragoman does not use the file yet
}

// handForm has the values of the form for manual setup.
type handForm struct{ Name, Command, Env string }

// fileRow describes a configuration file of an MCP client, as a row on the page.
type fileRow struct {
	admin.ClientFile
	Button string // "Import 4 (1 new)"
	States string // "1 new, 2 same"
}

// triedView describes a server of a draft and the result of its test.
type triedView struct {
	admin.DraftServer
	Class, Word string
	Line        string // the command of the server, with shell quoting; "" for a server with a URL
	Counts      string
	Steps       []stepView
	Connected   string // a sentence about the connection; "" if the test has not opened one
	Live        string // text that changes when the state of the test changes
}

// addWords are what somebody types who runs a program that isn't in the configuration, or puts one there; see sure.
const addWords = "run it"

// addPage is the page that adds servers.
type addPage struct {
	frame *frame
	adder Adder // may be nil; see Options.Add
}

func (p *addPage) register(f *frame) {
	f.handleSure("POST /servers/add", identity.Admin, addWords, p.changeDraft)
	if p.adder == nil && f.project != event.DefaultProject {
		// A draft changes the configuration file. The servers of another project are added to its text.
		f.handle("GET /servers/add", identity.Admin, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, pathOf("projects", f.project), http.StatusSeeOther)
		})
	} else {
		f.add(p.page())
	}
	if p.adder == nil && f.project == event.DefaultProject {
		return
	}
	f.finders = append(f.finders, func(r *http.Request) []paletteItem {
		if !may(r, identity.Admin) {
			return nil
		}
		return []paletteItem{{"Add a server", "page", addPath("")}}
	})
}

func (p *addPage) page() Page {
	return Page{Path: "/servers/add", Least: identity.Admin, Template: "add.html", View: func(r *http.Request) (*View, error) {
		v := &addView{Way: r.URL.Query().Get("way")}
		return p.view(r, v, r.URL.Query().Get("draft"))
	}}
}

// addPath returns the path of the page that adds servers. draft is the id of a draft, or "" for a
// page without a draft.
func addPath(draft string) string {
	if draft == "" {
		return pathOf("servers") + "/add"
	}
	return pathOf("servers") + "/add?" + url.Values{"draft": {draft}}.Encode()
}

// view returns the page and sets the remaining values of v. id is the ID of a draft, or "" for a
// page without a draft.
func (p *addPage) view(r *http.Request, v *addView, id string) (*View, error) {
	if p.adder == nil {
		return nil, notFound("There is no page at this address", "This console cannot add servers.", Crumb{"Show all servers", pathOf("servers")})
	}
	v.Own = p.frame.project != event.DefaultProject
	if (v.Way != "import" || v.Own) && v.Way != "hand" {
		v.Way = "paste"
	}
	v.Sure = sureWords(r, addWords)
	view := &View{Title: "Add a server", Crumbs: []Crumb{{"Servers", pathOf("servers")}}, Data: v}
	if v.Kept != nil {
		return view, nil
	}
	if id == "" {
		p.clientFiles(v)
		return view, nil
	}
	d, bad := p.adder.Draft(id)
	if bad != nil {
		v.Problem = cmp.Or(v.Problem, bad.Error())
		p.clientFiles(v)
		return view, nil
	}
	view.Stream = addPath(id)
	v.Draft = &d
	v.read(&d)
	v.Preview, v.Untested = &d.Preview, len(d.Preview.Untested) > 0
	v.Key += d.Preview.Hash + d.Preview.Why
	if v.Running {
		view.Waiting, view.Moving = "testing", true
	}
	return view, nil
}

// clientFiles lists the configuration files of the MCP clients on this machine, with their servers.
func (p *addPage) clientFiles(v *addView) {
	var without []string
	for _, f := range p.adder.ClientFiles().Files {
		count := map[string]int{}
		for _, s := range f.Servers {
			count[s.Status]++
		}
		row := fileRow{ClientFile: f}
		for _, state := range []string{"new", "same", "different", "skipped"} {
			if n := count[state]; n > 0 {
				row.States += ", " + number(n) + " " + state
			}
		}
		row.States = strings.TrimPrefix(row.States, ", ")
		switch {
		case f.Problem != "":
		case len(f.Servers) == count["skipped"]:
			if !slices.Contains(without, f.Title) {
				without = append(without, f.Title)
			}
			continue
		default:
			row.Button = "Import " + number(len(f.Servers)-count["skipped"])
		}
		v.Files = append(v.Files, row)
	}
	without = slices.DeleteFunc(without, func(title string) bool {
		return slices.ContainsFunc(v.Files, func(f fileRow) bool { return f.Title == title })
	})
	v.Nothing = strings.Join(without, ", ")
}

// read sets the values of v that come from the draft d.
func (v *addView) read(d *admin.Draft) {
	seen := map[string]bool{}
	var connected, failed, chosen int
	var left []string
	for _, s := range d.Servers {
		x := triedView{DraftServer: s, Class: "idle", Word: "not tested"}
		if s.Command != nil {
			x.Line = terminal.ShellLine(s.Command...)
		}
		for _, n := range s.Needs {
			if s.Use && !seen[n.Name] {
				seen[n.Name] = true
				switch n.From {
				case "missing":
					v.Needs = append(v.Needs, n)
				case "draft":
					v.Secrets = append(v.Secrets, n)
				}
			}
		}
		if t := s.Trial; t != nil {
			x.tried(t)
			v.Running = v.Running || t.Ended == nil
			if t.State == "connected" {
				connected++
			} else if t.State == "failed" {
				failed++
			}
		}
		if s.Status == "skipped" {
			x.Class, x.Word = "off", "cannot be added"
		}
		if s.Status == "same" {
			x.Class, x.Word = "off", "configured already"
		}
		if s.Use {
			chosen++
			v.Doubtful = v.Doubtful || s.Trial != nil && s.Trial.State != "connected"
		} else if s.Status != "skipped" && s.Status != "same" {
			left = append(left, s.Name)
		}
		x.Live = x.Word + s.Name
		v.Key += x.Live
		v.Servers = append(v.Servers, x)
	}
	v.Save = "Save " + plural(chosen, "server")
	if v.Doubtful {
		v.Save += " anyway"
	}
	if len(left) > 0 && len(left) <= 5 {
		v.Left = strings.Join(left, ", ") + " not saved"
	} else if len(left) > 0 {
		v.Left = plural(len(left), "server") + " not saved"
	}
	v.Summary = plural(len(d.Servers), "server") + " from " + d.Form
	if connected+failed > 0 {
		v.Summary = number(connected) + " connected, " + number(failed) + " failed"
	}
}

// tried sets the values of x that come from the test t.
func (x *triedView) tried(t *admin.Trial) {
	switch t.State {
	case "waiting":
		x.Class, x.Word = "held", "waiting"
	case "running":
		x.Class, x.Word = "busy", "testing"
	case "connected":
		x.Class, x.Word = "ok", "connected"
	case "failed":
		x.Class, x.Word = "bad", "failed"
	case "cancelled":
		x.Class, x.Word = "off", "cancelled"
	}
	var counts []string
	for _, n := range []struct {
		n    *int
		what string
	}{{t.Tools, "tool"}, {t.Resources, "resource"}, {t.Templates, "resource template"}, {t.Prompts, "prompt"}} {
		if n.n != nil {
			counts = append(counts, plural(*n.n, n.what))
		}
	}
	x.Counts = strings.Join(counts, " · ")
	x.Steps = stepsOf(t.Steps)
	if t.State != "connected" {
		return
	}
	x.Connected = "Connected over " + transportName(t.Transport) + "."
	if t.Era == "legacy" {
		x.Connected += " 2026-07-28 clients are translated. All others are relayed."
	} else if t.Era == "modern" {
		x.Connected += " 2026-07-28 clients are relayed. Legacy clients are translated."
	}
}

// diffLine is a line of the diff of the configuration file.
type diffLine struct{ Sign, Text, Class string }

// DiffLines returns the lines of the diff of the configuration file.
func (v *addView) DiffLines() []diffLine { return diffLines(v.Preview.Diff) }

// diffLines returns the lines of a unified diff.
func diffLines(diff string) (out []diffLine) {
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		x := diffLine{Sign: " ", Text: line}
		switch {
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "@@"), strings.HasPrefix(line, `\ `):
			x.Class = "faint"
		case strings.HasPrefix(line, "+"):
			x.Sign, x.Text, x.Class = "+", line[1:], "add"
		case strings.HasPrefix(line, "-"):
			x.Sign, x.Text, x.Class = "−", line[1:], "del"
		case line != "":
			x.Text = line[1:]
		}
		out = append(out, x)
	}
	return out
}

// stepsOf converts the steps of a handshake for display.
func stepsOf(all []admin.HandshakeStep) (out []stepView) {
	begun := int64(0) // when the previous step ended, in ms since the handshake began
	for _, s := range all {
		x := stepView{
			At: spanText(time.Duration(begun) * time.Millisecond), Sent: s.Sent, Got: upper(s.Got), Why: upper(s.Reason),
			Params: s.Params, Answer: s.Answer, ParamsSize: s.ParamsBytes, AnswerSize: s.AnswerBytes, Class: "no",
		}
		begun = s.AtMS
		if strings.HasPrefix(s.Got, "a result") || strings.HasPrefix(s.Got, "no answer, as expected") {
			x.Class = "ok"
		}
		if x.ParamsSize+x.AnswerSize > 0 {
			x.Sizes = "params sent: " + bytesText(x.ParamsSize) + ", answer: " + bytesText(x.AnswerSize)
		}
		out = append(out, x)
	}
	return out
}

// choiceOf reads the chosen servers, names and values from a form of the page that adds servers.
func choiceOf(r *http.Request) admin.Choice {
	q := admin.Choice{Servers: []admin.ChosenServer{}, Secrets: r.PostForm.Get("secrets"), Values: map[string]string{}}
	for _, key := range r.PostForm["use"] {
		q.Servers = append(q.Servers, admin.ChosenServer{Key: key, Name: strings.TrimSpace(r.PostForm.Get("name-" + key))})
	}
	for name, values := range r.PostForm {
		if variable, ok := strings.CutPrefix(name, "value-"); ok && values[0] != "" {
			q.Values[variable] = values[0]
		}
	}
	return q
}

// maxEcho is the maximum length, in bytes, of text that the form shows again if the text cannot be
// read. If the text is longer, the form is empty.
const maxEcho = 64 << 10

// changeDraft handles the forms of the page that adds servers.
func (p *addPage) changeDraft(w http.ResponseWriter, r *http.Request) {
	if p.adder == nil {
		p.frame.fail(w, r, notFound("There is no page at this address", "This console cannot add servers.", Crumb{"Show all servers", pathOf("servers")}))
		return
	}
	v := &addView{}
	err := r.ParseForm()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		v.Problem = "The text is larger than 1 MiB. Paste only the entry of the server."
		p.again(w, r, v, "", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		v.Problem = "The form cannot be read."
		p.again(w, r, v, "", http.StatusBadRequest)
		return
	}
	id, bad := r.PostForm.Get("draft"), (*admin.Problem)(nil)
	switch do := r.PostForm.Get("do"); do {
	case "try", "keep":
		if !sure(r, addWords) {
			_, _ = p.adder.ChangeDraft(id, admin.DraftChange{Do: "choose", Choice: choiceOf(r)}) // keeps what was entered
			v.Problem = unsure(addWords)
			p.again(w, r, v, id, http.StatusForbidden)
			return
		}
		if do == "keep" {
			p.keep(w, r, v, id)
			return
		}
		_, bad = p.adder.ChangeDraft(id, admin.DraftChange{Do: do, Choice: choiceOf(r)})
	case "choose", "cancel":
		_, bad = p.adder.ChangeDraft(id, admin.DraftChange{Do: do, Choice: choiceOf(r)})
	case "drop":
		_, _ = p.adder.DropDraft(id)
		id = ""
	case "import":
		id, bad = p.newDraft(admin.DraftRequest{Client: r.PostForm.Get("client"), File: r.PostForm.Get("file")})
		v.Way = "import"
	case "hand":
		v.Hand = handForm{strings.TrimSpace(r.PostForm.Get("name")), strings.TrimSpace(r.PostForm.Get("command")), r.PostForm.Get("env")}
		v.Way = "hand"
		if id, bad = p.newDraft(admin.DraftRequest{Text: v.Hand.text()}); bad == nil && v.Hand.Name != "" {
			_, bad = p.adder.ChangeDraft(id, admin.DraftChange{Do: "choose", Choice: admin.Choice{Servers: []admin.ChosenServer{{Key: "s1", Name: v.Hand.Name}}}})
		}
	default:
		text := r.PostForm.Get("text")
		if id, bad = p.newDraft(admin.DraftRequest{Text: cmp.Or(text, " ")}); bad != nil && len(text) <= maxEcho {
			v.Text = text
		}
	}
	if bad != nil {
		v.Problem = bad.Error()
		p.again(w, r, v, id, bad.Status)
		return
	}
	http.Redirect(w, r, addPath(id), http.StatusSeeOther)
}

// newDraft creates a draft and returns its ID.
func (p *addPage) newDraft(q admin.DraftRequest) (id string, bad *admin.Problem) {
	d, bad := p.adder.NewDraft(q)
	return d.ID, bad
}

// keep saves the servers of a draft. It saves nothing if the change of the file would differ from
// the change that the page showed.
func (p *addPage) keep(w http.ResponseWriter, r *http.Request, v *addView, id string) {
	kept, bad := p.adder.KeepDraft(r, id, admin.KeepRequest{Choice: choiceOf(r), Hash: r.PostForm.Get("hash")})
	switch {
	case bad != nil:
		v.Problem = bad.Error()
		p.again(w, r, v, id, bad.Status)
	case len(kept.Lines) > 0 || !kept.Applied:
		v.Kept = &kept
		p.again(w, r, v, "", http.StatusOK)
	case len(kept.Servers) == 1:
		say(w, excerpt.Quote(kept.Servers[0], 64)+" is saved in "+kept.File+".")
		http.Redirect(w, r, pathOf("servers", kept.Servers[0]), http.StatusSeeOther)
	default:
		say(w, plural(len(kept.Servers), "server")+" are saved in "+kept.File+".")
		http.Redirect(w, r, pathOf("servers"), http.StatusSeeOther)
	}
}

// again responds to a form with the same page, with the values of v.
func (p *addPage) again(w http.ResponseWriter, r *http.Request, v *addView, draft string, status int) {
	r2 := *r
	r2.URL = &url.URL{Path: addPath("")}
	if draft != "" {
		r2.URL.RawQuery = url.Values{"draft": {draft}}.Encode()
	}
	p.frame.again(w, &r2, p.page(), func(r *http.Request) (*View, error) {
		view, err := p.view(r, v, draft)
		if view != nil {
			view.Status = status
		}
		return view, err
	})
}

// text converts the form to text that the parser for pasted text can read.
func (h handForm) text() string {
	if strings.Contains(h.Command, "://") {
		headers := map[string]string{}
		for line := range strings.Lines(h.Env) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
			}
		}
		entry := map[string]any{"url": h.Command}
		if len(headers) > 0 {
			entry["headers"] = headers
		}
		if h.Name != "" {
			entry["name"] = h.Name
		}
		b, _ := json.Marshal(entry) // cannot fail: entry contains only strings
		return string(b)
	}
	var out strings.Builder
	for line := range strings.Lines(h.Env) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		out.WriteString("export " + strings.TrimSpace(name) + "='" + strings.ReplaceAll(value, "'", `'\''`) + "'\n")
	}
	return out.String() + h.Command
}
