package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
)

// findingsView has the values of the page with the findings of a server's examination.
type findingsView struct {
	*admin.Server
	Exam     *admin.Examination // nil if the server has not been examined
	Parts    []part
	Class    string
	Word     string // the result of the examination in a few words, for example "works"
	Step     string
	Elapsed  string
	Offer    string
	Dates    []examDate
	Through  string
	Need     *need // why Dragoman cannot use the server; nil if it can
	Findings []findingView
	Infos    []findingView
	Key      string
}

// examDate says whether clients of the revision Date can use the server without Dragoman.
type examDate struct{ Class, Date, Why string }

// findingView is one finding.
type findingView struct {
	admin.Finding
	Class string
	Lines []evidenceLine
	Open  bool // the page shows the evidence without a click
}

// evidenceLine is a line of the evidence. Sign is "→" for a message from Dragoman, "←" for a
// message from the server, and "·" for an observation.
type evidenceLine struct{ Sign, Text string }

// findingsPage shows the last examination of a server, and starts and cancels examinations.
type findingsPage struct {
	frame  *frame
	source interface {
		StartExam(server string, q admin.ExamRequest) (admin.Examination, *admin.Problem)
		CancelExam(server string) (admin.Examination, *admin.Problem)
		FindExam(server string) (admin.Examination, *admin.Problem)
	}
	changed func() // makes the feeds check the open pages again soon
}

func (p *findingsPage) register(f *frame) {
	f.add(Page{Path: "/servers/{name}/findings", Least: identity.Viewer, Template: "findings.html", View: p.view})
	f.handle("POST /servers/{name}/findings", identity.Operator, p.examine)
}

func (p *findingsPage) view(r *http.Request) (*View, error) {
	s, err := findServer(r)
	if err != nil {
		return nil, err
	}
	v := &findingsView{Server: s, Parts: serverParts(s, "Findings")}
	view := &View{Title: "Findings", Crumbs: []Crumb{{"Servers", pathOf("servers")}, {s.Name, pathOf("servers", s.Name)}}, Data: v}
	x, bad := p.source.FindExam(s.Name)
	if bad != nil {
		return view, nil
	}
	v.Exam = &x
	v.Key = x.State + x.Started.String()
	if x.State == "running" {
		p.changed() // the steps of an examination publish no events
		v.Step, v.Elapsed = x.Step, spanText(time.Since(x.Started).Truncate(time.Second))
		return view, nil
	}
	v.verdict(&x)
	return view, nil
}

// verdict sets the values that show the result of the examination x.
func (v *findingsView) verdict(x *admin.Examination) {
	counts := map[string]int{}
	for _, f := range x.Findings {
		y := findingView{Finding: f, Class: map[string]string{"error": "bad", "warning": "warn"}[f.Level], Open: f.Level == "error"}
		counts[f.Level]++
		if x.Verdict != nil && !x.Verdict.Reached && x.Verdict.Failure != nil && x.Verdict.Failure.Action != "" {
			y.Fix = "" // the action of the failure is more precise than the fix of the finding
		}
		for line := range strings.Lines(f.Evidence) {
			line = strings.TrimRight(line, "\n")
			if line == "" {
				continue
			}
			z := evidenceLine{"·", line}
			for mark, sign := range map[string]string{"> ": "→", "< ": "←", "# ": "·"} {
				if rest, ok := strings.CutPrefix(line, mark); ok {
					z = evidenceLine{sign, rest}
				}
			}
			y.Lines = append(y.Lines, z)
		}
		if f.Level == "info" {
			y.Class = "idle"
			v.Infos = append(v.Infos, y)
		} else {
			v.Findings = append(v.Findings, y)
		}
	}
	if x.Verdict == nil {
		v.Class, v.Word = "off", x.State
		return
	}
	switch d := x.Verdict; {
	case !d.Reached && d.Failure != nil && d.Failure.Class == failure.NotJSON:
		v.Class, v.Word = "bad", "does not speak MCP"
	case !d.Reached:
		v.Class, v.Word = "bad", "does not respond"
	case counts["error"] > 0:
		v.Class, v.Word = "bad", "has "+plural(counts["error"], "error")
	case d.SignIn:
		v.Class, v.Word = "warn", "wants sign-in"
	case counts["warning"] > 0:
		v.Class, v.Word = "warn", "works, with "+plural(counts["warning"], "warning")
	default:
		v.Class, v.Word = "ok", "works"
	}
	v.offer(x.Verdict)
	v.revisions(x.Verdict)
	if f := x.Verdict.Failure; f != nil {
		v.Need = failureNeed(v.Server, f)
	}
}

// offer sets the line with the server's name and what the server offers.
func (v *findingsView) offer(d *admin.ExamVerdict) {
	var parts []string
	if name := strings.TrimSpace(d.Offer.Name + " " + d.Offer.Version); name != "" {
		parts = append(parts, "calls itself "+excerpt.Quote(name, 160))
	}
	if d.Offer.ReadySeconds > 0 {
		parts = append(parts, "ready in "+spanText(time.Duration(d.Offer.ReadySeconds*float64(time.Second))))
	}
	for _, l := range d.Offer.Lists {
		if one := map[string]string{"tools": "tool", "resources": "resource", "resourceTemplates": "resource template", "prompts": "prompt"}[l.Kind]; l.Items > 0 && one != "" {
			parts = append(parts, plural(l.Items, one))
		}
	}
	if d.Tokens > 0 {
		parts = append(parts, tokens.About(d.Tokens)+" of context")
	}
	v.Offer = strings.Join(parts, ", ")
}

// revisions sets which revisions work without Dragoman and which work with Dragoman.
func (v *findingsView) revisions(d *admin.ExamVerdict) {
	var missing []string
	for _, r := range d.Revisions {
		x := examDate{"ok", r.Revision, r.Why}
		if !r.Works {
			x.Class = "bad"
		}
		if !r.Through {
			missing = append(missing, r.Revision)
		}
		v.Dates = append(v.Dates, x)
	}
	switch {
	case !d.Through && d.SignIn:
		v.Dates = nil
	case !d.Through:
		v.Through = "no revision"
	case len(missing) == len(d.Revisions):
		v.Through = "works; the revisions were not tested"
	case len(missing) > 0:
		v.Through = "all revisions but " + strings.Join(missing, ", ")
	default:
		v.Through = "all revisions"
	}
	if d.Through && d.Dialect != "" {
		v.Through += ", in the dialect " + d.Dialect
	}
}

// examine handles the buttons that start or cancel an examination.
func (p *findingsPage) examine(w http.ResponseWriter, r *http.Request) {
	s, err := findServer(r)
	if err != nil {
		p.frame.fail(w, r, err)
		return
	}
	var bad *admin.Problem
	if r.PostFormValue("do") == "cancel" {
		_, bad = p.source.CancelExam(s.Name)
	} else {
		_, bad = p.source.StartExam(s.Name, admin.ExamRequest{Deep: r.PostFormValue("deep") != ""})
	}
	if bad != nil {
		say(w, bad.Error())
	}
	p.changed()
	http.Redirect(w, r, pathOf("servers", s.Name, "findings"), http.StatusSeeOther)
}
