package admin

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// setRules answers PUT /rules.
func (a *ruleAPI) setRules(w http.ResponseWriter, r *http.Request) *Problem {
	who, bad := a.changer(r)
	if bad != nil {
		return bad
	}
	name := a.project.name()
	x, there, bad := a.projects.named(r.Context(), name)
	switch {
	case bad != nil:
		return bad
	case a.projects.inFile(name):
		return a.projects.livesInFile(name)
	case !there:
		return noProject(name)
	}
	if bad := precondition(versionsOf(r), &x, there); bad != nil {
		return bad
	}
	n, bad := newRules(r, &x)
	if bad != nil {
		return bad
	}
	out := KeptRules{Warnings: []string{}}
	if r.URL.Query().Get("check") == "true" {
		out.Warnings, bad = a.projects.check(n)
	} else {
		var kept KeptProject
		kept, bad = a.projects.keep(r, who, n, &x)
		out.Written, out.Warnings, out.Note = true, kept.Warnings, kept.Note
	}
	if bad != nil {
		if bad.Type == "project" {
			bad = noRules(bad.Detail)
		}
		return bad
	}
	before, _ := a.projects.homes.Parse(name, x.Text, nil)
	after, _ := a.projects.homes.Parse(name, n.text, nil)
	out.Added, out.Removed = ruleChanges(before.Config, after.Config)
	if !out.Written {
		known := a.known()
		known.Secret = !a.knowsAll(r)
		out.Warnings = append(out.Warnings, a.ruleWarnings(after.Config, known)...)
	}
	out.Rules = a.readRules(r)
	sendRules(w, r, out.ETag, out)
	return nil
}

// newRules reads the rules that a request has, and returns the text of the project x with them. The rules are read
// alone before, so that a problem has their line.
func newRules(r *http.Request, x *store.Project) (n newText, bad *Problem) {
	text, bad := readText(r)
	if bad != nil {
		return n, bad
	}
	items, problems := config.ListText([]byte(text))
	_, wrong := sentences(problems, 0)
	switch {
	case len(wrong) > 0:
		return n, noRules(firstOf(wrong))
	case items < 0:
		return n, noRules("There is nothing in the text. To remove all rules, write [].")
	case items == 0 && strings.HasSuffix(strings.TrimSpace(text), "]"):
		text = ""
	}
	after, err := clientfile.SetEntryText("project.yaml", []byte(x.Text), []string{"policy"}, text)
	if err != nil {
		return n, noRules("They can't be put into the project's text: " + excerpt.Line(excerpt.MaskSecrets(err.Error()), maxDraftText) + ". Change the text as a whole with `dragoman projects edit " + x.Name + "`.")
	}
	return newText{name: x.Name, text: string(after), above: above(string(after), text)}, nil
}

func noRules(why string) *Problem {
	return &Problem{Type: "rules", Title: "These rules can't be used", Status: http.StatusUnprocessableEntity, Detail: why}
}

// ruleChanges returns how many rules a project has that it didn't have before, and the other way round. A
// configuration that can't be read is nil.
func ruleChanges(before, after *config.Snapshot) (added, removed int) {
	count := map[string]int{}
	for by, s := range map[int]*config.Snapshot{-1: before, 1: after} {
		for i := 0; s != nil && i < len(s.Policy); i++ {
			key, _ := json.Marshal(showRule(&s.Policy[i]))
			count[string(key)] += by
		}
	}
	for _, n := range count {
		added, removed = added+max(n, 0), removed+max(-n, 0)
	}
	return added, removed
}

// sendRules sends an answer with the version of the rules, if they have one.
func sendRules(w http.ResponseWriter, r *http.Request, tag string, answer any) {
	if tag != "" {
		w.Header().Set("ETag", tag)
	}
	writeStatus(w, r, http.StatusOK, answer)
}

// above returns how many lines of a project's text stand above the first line of its rules.
func above(text, rules string) int {
	blank, first := 0, ""
	for line := range strings.Lines(rules) {
		if first = strings.TrimSpace(line); first != "" {
			break
		}
		blank++
	}
	n, inside := 0, false
	for line := range strings.Lines(text) {
		if inside && strings.TrimSpace(line) == first {
			return n - blank
		}
		inside = inside || strings.HasPrefix(line, "policy:")
		n++
	}
	return 0
}
