package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Rules are the rules of a project that are in use, in the order in which they are asked. Those of default for its servers
// that the project uses come last.
type Rules struct {
	Project string      `json:"project" doc:"the project's name"`
	Home    string      `json:"home" enum:"file,store" doc:"where the project's own rules are changed: file: in the configuration file; store: here"`
	File    string      `json:"file,omitempty" doc:"the full path of the configuration file; left out if there is none, or if the project lives in the store"`
	Rules   []RuleEntry `json:"rules" doc:"the rules that are in use"`
	Text    string      `json:"text,omitempty" doc:"the project's own list as it is written in the store; left out if the project lives in the file"`
	ETag    string      `json:"etag,omitempty" doc:"the version of the project's text, for If-Match; left out if the project lives in the file"`
	Problem string      `json:"problem,omitempty" doc:"why what is written isn't in use; left out if it is"`
}

// RuleEntry is one rule, and where it stands.
type RuleEntry struct {
	RulePlace
	Match    []string `json:"match" doc:"patterns of items: SERVER/TOOL, SERVER/prompt:NAME or SERVER/resource:URI"`
	Who      *RuleWho `json:"who,omitempty" doc:"for whom the rule is; left out if it's for everybody"`
	Do       string   `json:"do,omitempty" enum:"allow,deny,confirm" doc:"what becomes of the use of an item; left out if the rule says how clients see items"`
	As       *RuleAs  `json:"as,omitempty" doc:"how clients see an item"`
	Warnings []string `json:"warnings,omitempty" doc:"what isn't right with the rule although it's in use, such as a name that nobody has, as sentences"`
}

// RulePlace says where something stands that decides.
type RulePlace struct {
	Project string `json:"project" doc:"the project that says so"`
	Number  int    `json:"number,omitempty" doc:"the rule's place in the project's list, from 1; left out for another setting"`
	Path    string `json:"path" doc:"the path of the setting, such as dragoman.policy[2]; in a project of the store without what is above its text"`
	File    string `json:"file,omitempty" doc:"the full path of the configuration file; left out for a project of the store"`
	Line    int    `json:"line,omitempty" doc:"the line in the file; left out if the file has changed since it was read"`
}

// RuleWho says for whom a rule is. One that fits is enough.
type RuleWho struct {
	Keys   []string `json:"keys,omitempty" doc:"names of API keys"`
	People []string `json:"people,omitempty" doc:"names of people"`
	Roles  []string `json:"roles,omitempty" doc:"roles, each of which includes the greater ones"`
	Hidden bool     `json:"hidden,omitempty" doc:"true: the rule is one of default, and also for keys or people whose names only admins see"`
}

// RuleAs says how clients see an item. What is left out is as the server has it.
type RuleAs struct {
	Name        string          `json:"name,omitempty" doc:"the item's name"`
	Title       string          `json:"title,omitempty" doc:"its title"`
	Description string          `json:"description,omitempty" doc:"its description"`
	Annotations map[string]bool `json:"annotations,omitempty" doc:"a tool's hints"`
}

// KeptRules is the answer to new rules.
type KeptRules struct {
	Rules
	Written  bool     `json:"written" doc:"whether they were written; with check they aren't"`
	Added    int      `json:"added" doc:"how many of the new rules the project didn't have; a changed rule is one that is added and one that is removed"`
	Removed  int      `json:"removed" doc:"how many of the rules before it no longer has"`
	Warnings []string `json:"warnings" doc:"what isn't right in the project's text, although it can be used; with check also what isn't right with the rules"`
	Note     string   `json:"note,omitempty" doc:"a sentence if dragoman forgets the rules when it ends"`
}

// RuleUses says who may use an item.
type RuleUses struct {
	Item string    `json:"item" doc:"the item, as rules write it"`
	Note string    `json:"note,omitempty" doc:"a sentence if the server lists no such item"`
	Who  []RuleUse `json:"who" doc:"the project's keys and people, the roles, and whoever needs no key"`
}

// RuleUse says whether somebody may use an item.
type RuleUse struct {
	Kind string `json:"kind" enum:"key,person,role,local" doc:"what Name is; role: whoever comes with nothing but these roles; local: whoever needs no key"`
	Name string `json:"name" doc:"the name of the key or the person, or the roles, such as caller and viewer: only a caller uses the endpoints"`
	ID   string `json:"id,omitempty" doc:"the id of the key or the person"`
	RuleDecision
}

// RuleDecision says what decides about the use of an item.
type RuleDecision struct {
	Do    string     `json:"do" enum:"allow,deny,confirm" doc:"deny: the item isn't there; confirm: a person is asked before each use"`
	By    string     `json:"by,omitempty" enum:"rule,expose,credential,list" doc:"what decides: a rule, a setting expose, what the key or the role is for, or the server's list; left out if nothing speaks against it"`
	Match string     `json:"match,omitempty" doc:"the pattern of the rule that matches"`
	Place *RulePlace `json:"place,omitempty" doc:"where the rule or the setting stands"`
	Why   string     `json:"why" doc:"the same as a phrase"`
}

// RuleView is what somebody sees.
type RuleView struct {
	Kind   string     `json:"kind" enum:"key,person" doc:"what Name is"`
	Name   string     `json:"name" doc:"the name of the key or the person"`
	ID     string     `json:"id" doc:"its id"`
	Items  []RuleItem `json:"items" doc:"all tools, prompts, resources and templates that the lists have, also those that are denied, sorted by server and item"`
	Unread []string   `json:"unread" doc:"the servers whose tools haven't been read yet"`
}

// RuleItem is an item with what decides about it.
type RuleItem struct {
	Server  string `json:"server" doc:"the server's name"`
	Item    string `json:"item" doc:"TOOL, prompt:NAME or resource:URI, as rules write it"`
	Offered string `json:"offered" doc:"the name or the URI that clients see at the endpoint of all servers"`
	RuleDecision
}

var ruleRoutes = []route{
	{
		method: http.MethodGet, path: "/rules", house: true, least: identity.Viewer, name: "rules", summary: "The rules that are in use, each with the place where it stands, and with what isn't right",
		answer: Rules{}, write: func(a *API, w http.ResponseWriter, r *http.Request) *Problem {
			x := a.readRules(r)
			sendRules(w, r, x.ETag, x)
			return nil
		},
	},
	{
		method: http.MethodPut, path: "/rules", house: true, least: identity.Operator, name: "setRules", matches: true,
		summary: "Replace all rules of a project of the store by a list like that under `policy` in the configuration; that needs the version of its text in `If-Match`",
		query:   []parameter{{"check", "boolean", "true: write nothing, and say what is wrong"}},
		body:    yamlText(""), answer: KeptRules{}, problems: slices.Concat([]int{404, 412, 413, 415, 422, 428}, houseProblems), write: func(a *API, w http.ResponseWriter, r *http.Request) *Problem { return a.setRules(w, r) },
	},
	{
		method: http.MethodGet, path: "/rules/who", house: true, least: identity.Admin, name: "rulesWho", summary: "Who may use an item, and what decides that",
		query: []parameter{{"item", "string", "SERVER/TOOL, SERVER/prompt:NAME or SERVER/resource:URI"}}, answer: RuleUses{}, problems: []int{404, 409},
		read: func(a *API, r *http.Request) (any, *Problem) { return result(a.readRulesWho(r)) },
	},
	{
		method: http.MethodGet, path: "/rules/for", house: true, least: identity.Admin, name: "rulesFor", summary: "What an API key or a person may use, and what decides that",
		query: []parameter{{"name", "string", "the name or the id of a key or a person"}}, answer: RuleView{}, problems: []int{404, 409},
		read: func(a *API, r *http.Request) (any, *Problem) { return result(a.readRulesFor(r)) },
	},
}

// ruleAPI shows and changes the rules of a project, and says what they decide.
type ruleAPI struct {
	house
	projects *projectAPI
	open     bool // programs on this machine need no key
}

// readRules answers GET /rules.
func (a *ruleAPI) readRules(r *http.Request) Rules {
	out := Rules{Project: a.project.name(), Home: "file", File: a.projects.file, Rules: []RuleEntry{}}
	if x, ok, bad := a.projects.named(r.Context(), out.Project); bad == nil && ok && !a.projects.inFile(out.Project) {
		out.Home, out.File, out.ETag = "store", "", tagOf(x.Version)
		out.Text, _ = clientfile.EntryText("project.yaml", []byte(x.Text), []string{"policy"})
		_, problems := a.projects.homes.Problems()
		out.Problem = problemOf(x.Name, problems)
	}
	s := a.project.Current()
	if s == nil {
		return out
	}
	places := a.places()
	warnings := map[int][]string{}
	known := a.known()
	known.Secret = !a.knowsAll(r)
	for _, w := range a.project.RuleWarnings(s, known) {
		warnings[w.Number] = append(warnings[w.Number], sentence(w.Text, w.Next))
	}
	for i := range s.Policy {
		x := showRule(&s.Policy[i])
		x.RulePlace, x.Warnings = places.rule(out.Project, i+1), warnings[i+1]
		out.Rules = append(out.Rules, x)
	}
	for i := range s.House {
		if slices.ContainsFunc(s.Servers, func(c config.Server) bool { return c.Shared && s.House[i].MayMatch(c.Name) }) {
			x := showRule(&s.House[i])
			x.RulePlace = places.rule(event.DefaultProject, i+1)
			if known.Secret && out.Project != event.DefaultProject {
				x.hide()
			}
			out.Rules = append(out.Rules, x)
		}
	}
	return out
}

// knowsAll reports whether the sender of a request may know the names of the project's keys and people.
func (a *ruleAPI) knowsAll(r *http.Request) bool {
	who, err := a.access.Check(r)
	return err == nil && (a.access.May(who, a.project.name(), identity.Admin) == nil || a.access.May(who, event.DefaultProject, identity.Admin) == nil)
}

// RuleWarnings returns what isn't right with the project's own rules, as sentences, without the names of keys and people
// that no rule has.
func (a *ruleAPI) RuleWarnings() (lines []string) {
	known := a.known()
	known.Secret = true
	return a.ruleWarnings(a.project.Current(), known)
}

func (a *ruleAPI) ruleWarnings(s *config.Snapshot, known runtime.Known) (lines []string) {
	for _, w := range a.project.RuleWarnings(s, known) {
		lines = append(lines, sentence(fmt.Sprintf("rule %d: %s", w.Number, w.Text), w.Next))
	}
	return lines
}

// known returns which names rules of the project can mean. Those of default are for its servers in other projects, too.
func (a *ruleAPI) known() (k runtime.Known) {
	if a.closed() != nil {
		return k
	}
	here := a.project.name()
	for _, x := range a.safe.Store().Snapshot().Keys() {
		if here == event.DefaultProject || x.Project == here {
			k.Keys = append(k.Keys, x.Name)
		}
	}
	for _, x := range a.roster.People().All() {
		if here == event.DefaultProject || len(x.Roles[here]) > 0 {
			k.People = append(k.People, x.Name)
		}
	}
	if s := a.project.House(); s != nil {
		k.Foreign = len(s.Access.Issuers) > 0
	}
	return k
}

// rulePlaces knows where settings stand.
type rulePlaces struct {
	api   *ruleAPI
	where map[string]int
}

func (a *ruleAPI) places() rulePlaces {
	p := rulePlaces{api: a}
	if s := a.project.House(); s != nil {
		p.where = s.Where()
	}
	return p
}

func (p rulePlaces) rule(project string, number int) RulePlace {
	out := p.of(project, "policy["+strconv.Itoa(number-1)+"]")
	out.Number = number
	return out
}

func (p rulePlaces) of(project, path string) RulePlace {
	out := RulePlace{Project: project, Path: path}
	projects := p.api.projects
	switch {
	case project == event.DefaultProject:
		out.Path = "dragoman." + path
	case projects.homes == nil || !projects.inFile(project):
		return out
	default:
		out.Path = "dragoman.projects." + project + "." + path
	}
	out.File, out.Line = projects.file, p.where[out.Path]
	return out
}

func showRule(r *policy.Rule) RuleEntry {
	x := RuleEntry{Match: r.Match}
	if !r.Everybody() {
		x.Who = &RuleWho{Keys: r.Keys, People: r.People}
		for _, role := range r.Roles {
			x.Who.Roles = append(x.Who.Roles, role.String())
		}
	}
	if r.As == nil {
		x.Do = r.Do.String()
		return x
	}
	x.As = &RuleAs{Name: r.As.Name, Title: r.As.Title, Description: r.As.Description}
	for _, h := range r.As.Hints {
		if x.As.Annotations == nil {
			x.As.Annotations = map[string]bool{}
		}
		x.As.Annotations[h.Name] = h.Is
	}
	return x
}

// hide removes what only admins may know of a rule of another project.
func (x *RuleEntry) hide() {
	if x.File != "" {
		x.File = filepath.Base(x.File)
	}
	if x.Who != nil {
		x.Who = &RuleWho{Roles: x.Who.Roles, Hidden: len(x.Who.Keys)+len(x.Who.People) > 0}
	}
}

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
	if bad := precondition(r, &x, there); bad != nil {
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

// decide returns what decides about an item for somebody.
func (a *ruleAPI) decide(places rulePlaces, who runtime.Asker, kind catalog.Kind, item ruledItem) RuleDecision {
	d := a.project.Decide(who, kind, item.server, item.name)
	out := RuleDecision{Do: d.Do.String(), By: string(d.By), Match: d.Match}
	switch d.By {
	case runtime.ByRule:
		place := places.rule(d.Of, d.Rule.Number)
		out.Place, out.Why = &place, "rule "+strconv.Itoa(d.Rule.Number)
		if d.Of != a.project.name() {
			out.Why += " of " + d.Of
		}
		out.Why += ", " + d.Match
	case runtime.ByExpose:
		place := places.of(d.Of, d.Path)
		out.Place, out.Why = &place, place.Path
	case runtime.ByCredential:
		out.Why = "what the key is for"
		if !who.In {
			out.Why = "may call nothing"
		}
	default:
		out.Why = "no rule"
	}
	if out.Do != policy.Deny.String() && item.hidden != "" {
		out = RuleDecision{Do: policy.Deny.String(), By: "list", Why: item.hidden}
	}
	return out
}

// ruledItem is an item of a server, and why no client sees it, if the server's list says so.
type ruledItem struct{ server, name, hidden string }

// readRulesWho answers GET /rules/who.
func (a *ruleAPI) readRulesWho(r *http.Request) (out RuleUses, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	text := r.URL.Query().Get("item")
	server, rest, ok := strings.Cut(text, "/")
	if !ok || rest == "" || server == "" {
		why := excerpt.Quote(text, maxName) + " names nothing of a server. Write SERVER/TOOL, SERVER/prompt:NAME or SERVER/resource:URI."
		if near := a.offered(text); near != "" {
			why += " Did you mean " + excerpt.Line(near, maxName) + "?"
		}
		return out, badParameter("item", why)
	}
	if server != policy.ProjectPrompts {
		if bad := a.project.noServer(server); bad != nil {
			return out, bad
		}
	}
	kind, item := catalog.KindTool, ruledItem{server: server}
	out.Item = text
	switch what, name := policy.Item(rest); what {
	case "prompt":
		kind, item.name = catalog.KindPrompt, name
	case "resource":
		kind, item.name = catalog.KindResource, name
	default:
		item.name = name
		out.Item = server + "/" + policy.Tool(name)
	}
	a.project.refresh(r.Context(), server, map[catalog.Kind]string{catalog.KindTool: mcp.MethodListTools, catalog.KindPrompt: mcp.MethodListPrompts, catalog.KindResource: mcp.MethodListResources}[kind])
	if out.Note, item.hidden = a.listed(kind, &item); strings.Contains(item.name, "*") && !a.has(kind, &item) {
		return out, badParameter("item", excerpt.Quote(text, maxName)+" is a pattern. Write the name of one item; `dragoman rules for NAME` lists all that somebody may use.")
	}
	places := a.places()
	add := func(kindOf, name, id string, who runtime.Asker) {
		out.Who = append(out.Who, RuleUse{kindOf, name, id, a.decide(places, who, kind, item)})
	}
	keys, err := a.desk.Keys(r.Context())
	if err != nil {
		return out, a.problem(err)
	}
	for _, k := range a.keysHere() {
		if who := keys.Principal(k.ID); who != nil {
			add("key", k.Name, k.ID, a.withKey(&k, who))
		}
	}
	for _, p := range a.roster.People().All() {
		if len(p.Roles[a.project.name()]) > 0 {
			add("person", p.Name, p.ID, a.asker(&p))
		}
	}
	for _, role := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
		name := role.String()
		if role != identity.Caller { // which alone doesn't open the endpoints
			name = identity.Caller.String() + " and " + name
		}
		add("role", name, "", runtime.Asker{Caller: policy.Caller{Roles: []identity.Role{identity.Caller, role}}, In: true})
	}
	if a.open {
		add("local", "local", "", a.project.Asker(identity.Local))
	}
	return out, nil
}

// keysHere returns the project's keys, sorted by name.
func (a *ruleAPI) keysHere() []store.Key {
	all := slices.DeleteFunc(a.safe.Store().Snapshot().Keys(), func(k store.Key) bool { return k.Project != a.project.name() })
	slices.SortStableFunc(all, func(x, y store.Key) int { return strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) })
	return all
}

// withKey returns how the project knows whoever comes with a key. If it has expired, nobody does.
func (a *ruleAPI) withKey(k *store.Key, who *identity.Principal) runtime.Asker {
	x := a.project.Asker(who)
	x.In = x.In && (k.Until.IsZero() || time.Now().Before(k.Until))
	return x
}

// asker returns how the project knows a person whose clients come with all that the person may do.
func (a *ruleAPI) asker(p *store.Person) runtime.Asker {
	c := a.roster.People().Caller(p, a.project.name())
	return runtime.Asker{Caller: c, In: slices.Contains(c.Roles, identity.Caller)}
}

// listed returns a sentence if a server lists no such tool or prompt, and why no client sees it if that's so.
func (a *ruleAPI) listed(kind catalog.Kind, item *ruledItem) (note, hidden string) {
	lists := a.project.Lists()
	if lists == nil {
		return "", ""
	}
	var names []string
	for x := range lists.All(kind) {
		if x.Server != item.server {
			continue
		}
		if x.Name == item.name {
			return "", leftOut(x)
		}
		names = append(names, x.Name)
	}
	own := item.server == policy.ProjectPrompts
	if kind == catalog.KindResource && !own || len(names) == 0 && !own { // a server may have resources that it doesn't list
		return "", ""
	}
	if note = "The server lists no such item."; own {
		note = "The project has no such prompt."
	}
	if near := config.Suggest(item.name, names); near != "" {
		note += " Did you mean " + excerpt.Quote(near, maxName) + "?"
	}
	return note, ""
}

// has reports whether a server lists an item, or a template if it's a resource.
func (a *ruleAPI) has(kind catalog.Kind, item *ruledItem) bool {
	return a.listedItem(func(of catalog.Kind, x *catalog.Item) bool {
		return (of == kind || of == catalog.KindTemplate && kind == catalog.KindResource) && x.Server == item.server && x.Name == item.name
	}) != ""
}

// offered returns how rules write the item that clients see under a name at the endpoint of all servers, or "".
func (a *ruleAPI) offered(name string) string {
	return a.listedItem(func(_ catalog.Kind, x *catalog.Item) bool { return x.Offered == name })
}

// listedItem returns how rules write the first item of all lists that is meant, or "".
func (a *ruleAPI) listedItem(meant func(catalog.Kind, *catalog.Item) bool) string {
	lists := a.project.Lists()
	if lists == nil {
		return ""
	}
	for _, kind := range []catalog.Kind{catalog.KindTool, catalog.KindPrompt, catalog.KindResource, catalog.KindTemplate} {
		for x := range lists.All(kind) {
			if meant(kind, x) {
				return x.Server + "/" + ruleName(kind, x.Name)
			}
		}
	}
	return ""
}

// ruleName returns how rules write an item after its server.
func ruleName(kind catalog.Kind, name string) string {
	switch kind {
	case catalog.KindTool:
		return policy.Tool(name)
	case catalog.KindPrompt:
		return policy.Prompt(name)
	}
	return policy.Resource(name)
}

// leftOut returns why no client sees an item, or "".
func leftOut(x *catalog.Item) string {
	if x.Everywhere {
		return x.Hidden
	}
	return ""
}

// readRulesFor answers GET /rules/for.
func (a *ruleAPI) readRulesFor(r *http.Request) (out RuleView, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	out = RuleView{Items: []RuleItem{}, Unread: []string{}}
	who, bad := a.find(r, &out)
	if bad != nil {
		return out, bad
	}
	a.readLists(r.Context())
	lists := a.project.Lists()
	if lists == nil {
		return out, nil
	}
	for _, x := range lists.Of(mcp.MethodListTools) {
		if !x.Have && len(x.Others) == 0 && x.Server != policy.ProjectPrompts {
			out.Unread = append(out.Unread, x.Server)
		}
	}
	places := a.places()
	for _, kind := range []catalog.Kind{catalog.KindTool, catalog.KindPrompt, catalog.KindResource, catalog.KindTemplate} {
		for x := range lists.All(kind) {
			out.Items = append(out.Items, RuleItem{x.Server, ruleName(kind, x.Name), x.Offered, a.decide(places, who, kind, ruledItem{x.Server, x.Name, leftOut(x)})})
		}
	}
	slices.SortStableFunc(out.Items, func(x, y RuleItem) int {
		return strings.Compare(x.Server+"\x00"+x.Item, y.Server+"\x00"+y.Item)
	})
	return out, nil
}

// readLists reads those lists of all servers that aren't fresh. It waits only briefly for them.
func (a *ruleAPI) readLists(ctx context.Context) {
	s := a.project.Current()
	if s == nil {
		return
	}
	var reading sync.WaitGroup
	for i := range s.Servers {
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
			reading.Go(func() { a.project.refresh(ctx, s.Servers[i].Name, method) })
		}
	}
	reading.Wait()
}

// find finds the key or the person that a request names.
func (a *ruleAPI) find(r *http.Request, out *RuleView) (who runtime.Asker, bad *Problem) {
	name := r.URL.Query().Get("name")
	keys, err := a.desk.Keys(r.Context())
	if err != nil {
		return who, a.problem(err)
	}
	found, names := []RuleView{}, map[string]bool{}
	for _, k := range a.keysHere() {
		names[k.Name] = true
		if p := keys.Principal(k.ID); p != nil && (k.ID == name || strings.EqualFold(k.Name, name)) {
			found, who = append(found, RuleView{Kind: "key", Name: k.Name, ID: k.ID}), a.withKey(&k, p)
		}
	}
	for _, p := range a.roster.People().All() {
		if len(p.Roles[a.project.name()]) == 0 {
			continue
		}
		names[p.Name] = true
		if p.ID == name || strings.EqualFold(p.Name, name) {
			found, who = append(found, RuleView{Kind: "person", Name: p.Name, ID: p.ID}), a.asker(&p)
		}
	}
	switch len(found) {
	case 1:
		out.Kind, out.Name, out.ID = found[0].Kind, found[0].Name, found[0].ID
		return who, nil
	case 0:
		bad := &Problem{Type: "no-such-name", Title: "No such key or person", Status: http.StatusNotFound, Detail: "No key and no person of the project has the name or the id " + excerpt.Quote(name, maxName) + "."}
		if near := config.Suggest(name, slices.Sorted(maps.Keys(names))); near != "" {
			bad.Detail += " Did you mean " + excerpt.Quote(near, maxName) + "?"
		}
		return who, bad
	}
	var ids []string
	for _, x := range found {
		ids = append(ids, "the "+x.Kind+" "+x.ID)
	}
	return who, conflict("several", "Several have this name", "Several have the name "+excerpt.Quote(name, maxName)+". Use an id instead: "+strings.Join(ids, ", ")+".")
}
