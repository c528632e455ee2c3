package admin

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
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
	// Effect is nil if the rules were written.
	Effect *RuleEffect `json:"effect,omitempty" doc:"with check: what the rules would change, and for whom"`
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
			who, _ := a.ruleAPI.access.Check(r)
			x := a.RulesFor(r.Context(), who)
			sendRules(w, r, x.ETag, x)
			return nil
		},
	},
	{
		method: http.MethodPut, path: "/rules", house: true, least: identity.Operator, name: "setRules", matches: true,
		summary: "Replace all rules of a project of the store by a list like that under `policy` in the configuration; that needs the version of its text in `If-Match`. With `check`, say what they would change, also for a project of the file",
		query:   []parameter{{"check", "boolean", "true: write nothing, and say what is wrong, and what they would change for whom"}},
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
	open     bool                         // programs on this machine need no key
	signed   *atomic.Pointer[access.Keys] // see signedKeys
}

// RulesFor returns the project's rules for who, without what only admins may know. It looks into the database first.
func (a *ruleAPI) RulesFor(ctx context.Context, who *identity.Principal) Rules {
	if a.projects.closed() == nil {
		_ = a.safe.Store().Refresh(ctx) // without the database, we show what we know
	}
	out := a.KnownRules(who)
	s := a.project.Current()
	warnings := map[int][]string{}
	for _, w := range a.project.RuleWarnings(s, a.knownTo(who)) {
		warnings[w.Number] = append(warnings[w.Number], sentence(w.Text, w.Next))
	}
	for i := range out.Rules {
		if x := &out.Rules[i]; x.Project == out.Project {
			x.Warnings = warnings[x.Number]
		}
	}
	return out
}

// KnownRules does the same as RulesFor without warnings, and doesn't look into the database. So it takes little time.
func (a *ruleAPI) KnownRules(who *identity.Principal) Rules {
	out := Rules{Project: a.project.name(), Home: "file", File: a.projects.file, Rules: []RuleEntry{}}
	var x store.Project
	stored := false
	if a.projects.closed() == nil && !a.projects.inFile(out.Project) {
		x, stored = a.safe.Store().Snapshot().Project(out.Project)
	}
	if stored {
		out.Home, out.File, out.ETag = "store", "", tagOf(x.Version)
		out.Text, _ = clientfile.EntryText("project.yaml", []byte(x.Text), []string{"policy"})
		_, problems := a.projects.homes.Problems()
		out.Problem = problemOf(x.Name, problems)
	}
	s := a.project.Current()
	if s == nil {
		return out
	}
	places, secret := a.places(), !a.knowsAll(who)
	for i := range s.Policy {
		x := showRule(&s.Policy[i])
		x.RulePlace = places.rule(out.Project, i+1)
		out.Rules = append(out.Rules, x)
	}
	for i := range s.House {
		if slices.ContainsFunc(s.Servers, func(c config.Server) bool { return c.Shared && s.House[i].MayMatch(c.Name) }) {
			x := showRule(&s.House[i])
			x.RulePlace = places.rule(event.DefaultProject, i+1)
			if secret && out.Project != event.DefaultProject {
				x.hide()
			}
			out.Rules = append(out.Rules, x)
		}
	}
	return out
}

// knowsAll reports whether who may know the names of the project's keys and people.
func (a *ruleAPI) knowsAll(who *identity.Principal) bool {
	return a.access.May(who, a.project.name(), identity.Admin) == nil || a.access.May(who, event.DefaultProject, identity.Admin) == nil
}

// knownTo returns which names rules of the project can mean, for warnings to who.
func (a *ruleAPI) knownTo(who *identity.Principal) runtime.Known {
	k := a.known()
	k.Secret = !a.knowsAll(who)
	return k
}

// RuleWarnings returns what isn't right with the project's own rules, limits and tools that are always listed, as
// sentences, without the names of keys and people that none of them has.
func (a *ruleAPI) RuleWarnings() (lines []string) {
	known := a.known()
	known.Secret = true
	lines = a.ruleWarnings(a.project.Current(), known)
	for _, w := range a.project.NameWarnings(a.project.Current(), known) {
		lines = append(lines, sentence("in "+w.Setting+", "+w.Text, w.Next))
	}
	return lines
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
