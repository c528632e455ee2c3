package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// setRules answers PUT /rules.
func (a *ruleAPI) setRules(w http.ResponseWriter, r *http.Request) *Problem {
	check := r.URL.Query().Get("check") == "true"
	if check {
		a.readLists(r.Context())
	}
	out, bad := a.putRules(r, check, func(string, policy.Rules) (string, *Problem) { return readText(r) })
	if bad == nil {
		sendRules(w, r, out.ETag, out)
	}
	return bad
}

// putRules replaces the project's own rules by what change makes of them, or only says what that would do. What it
// does with rules of the file is only that.
func (a *ruleAPI) putRules(r *http.Request, check bool, change func(list string, rules policy.Rules) (string, *Problem)) (out KeptRules, bad *Problem) {
	who, bad := a.sender(r)
	if bad != nil {
		return out, bad
	}
	name := a.project.name()
	x, there, bad := a.projects.named(r.Context(), name)
	switch {
	case bad != nil:
		return out, bad
	case a.projects.inFile(name) && check:
		return a.checkInFile(r.Context(), who, change)
	case a.projects.inFile(name):
		return out, a.projects.livesInFile(name)
	case !there:
		return out, noProject(name)
	}
	if bad := precondition(versionsOf(r), &x, there); bad != nil {
		return out, bad
	}
	before, _ := a.projects.homes.Parse(name, x.Text, nil)
	n, bad := newRules(&x, before.Config, change)
	if bad != nil {
		return out, bad
	}
	out.Warnings = []string{}
	if check {
		out.Warnings, bad = a.projects.check(n)
	} else {
		var kept KeptProject
		kept, bad = a.projects.keep(r, who.Subject, n, &x)
		out.Written, out.Warnings, out.Note = true, kept.Warnings, kept.Note
	}
	if bad != nil {
		if bad.Type == "project" {
			bad = noRules(bad.Detail)
		}
		return out, bad
	}
	after, _ := a.projects.homes.Parse(name, n.text, nil)
	out.Added, out.Removed = ruleChanges(before.Config, after.Config)
	if !out.Written {
		out.Warnings = append(out.Warnings, a.ruleWarnings(after.Config, a.knownTo(who))...)
		out.Effect, bad = a.effect(r.Context(), who, after.Config.Policy)
	}
	out.Rules = a.RulesFor(r.Context(), who)
	return out, bad
}

// checkInFile says what other rules would do in a project that lives in the configuration file.
func (a *ruleAPI) checkInFile(ctx context.Context, who *identity.Principal, change func(string, policy.Rules) (string, *Problem)) (out KeptRules, bad *Problem) {
	s := a.project.Current()
	if s == nil {
		return out, conflict("not-in-use", "The project is not in use", "Mend the configuration file first; `dragoman config check` says what is wrong.")
	}
	text, bad := change(rulesAsWritten(s), s.Policy)
	if bad == nil {
		bad = isList(text)
	}
	if bad != nil {
		return out, bad
	}
	rules, problems := config.ParseRules([]byte(text), s)
	warnings, wrong := sentences(problems, 0)
	if len(wrong) > 0 {
		return out, noRules(firstOf(wrong))
	}
	then := *s
	then.Policy = rules
	out.Warnings = append(warnings, a.ruleWarnings(&then, a.knownTo(who))...)
	out.Added, out.Removed = ruleChanges(s, &then)
	out.Effect, bad = a.effect(ctx, who, rules)
	out.Rules = a.RulesFor(ctx, who)
	return out, bad
}

// isList returns a problem if a text is no list of rules. It's read alone, so that the problem has its line.
func isList(text string) *Problem {
	items, problems := config.ListText([]byte(text))
	_, wrong := sentences(problems, 0)
	switch {
	case len(wrong) > 0:
		return noRules(firstOf(wrong))
	case items < 0:
		return noRules("There is nothing in the text. To remove all rules, write [].")
	}
	return nil
}

// newRules returns the text of the project x with what change makes of its rules.
func newRules(x *store.Project, s *config.Snapshot, change func(string, policy.Rules) (string, *Problem)) (n newText, bad *Problem) {
	var rules policy.Rules
	if s != nil {
		rules = s.Policy
	}
	list, _ := clientfile.EntryText("project.yaml", []byte(x.Text), []string{"policy"})
	text, bad := change(list, rules)
	if bad == nil {
		bad = isList(text)
	}
	if bad != nil {
		return n, bad
	}
	if items, _ := config.ListText([]byte(text)); items == 0 && strings.HasSuffix(strings.TrimSpace(text), "]") {
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
