package admin

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// ProjectDetails is what a person sees of one project.
type ProjectDetails struct {
	ProjectEntry
	Members []Person // for admins: sorted by name, with their roles in the project alone
	Shared  []string // the servers of default that it uses
	Calls   uint64   // how many calls have ended since Dragoman started; of those that are counted
	Text    string   // its text, if it lives in the store and the person may read it
	Reads   bool     // the person may read the text
	Writes  bool     // the person may change it
	Removes bool     // the person may remove the project
}

// ProjectPreview says what a new text would change.
type ProjectPreview struct {
	Changes  []SettingChange `json:"changes" doc:"the settings that would change, sorted by path"`
	Warnings []string        `json:"warnings" doc:"what isn't right in the text, although it can be used"`
	Grows    bool            `json:"grows" doc:"whether it starts a command, reads a file or sends something to an address where the text before doesn't, which takes an admin"`
}

// SettingChange is a setting with its values before and after. Secrets are masked.
type SettingChange struct {
	Path   string `json:"path" doc:"the setting"`
	Was    string `json:"was,omitempty" doc:"its value before; left out if it was the default"`
	Became string `json:"became,omitempty" doc:"its value after; left out if it will be the default"`
}

// ProjectsFor returns the projects that who may read of, sorted by name.
func (a *projectAPI) ProjectsFor(ctx context.Context, who *identity.Principal) ([]ProjectEntry, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	return a.entriesFor(ctx, who), nil
}

// MayAddProjects reports whether who may add a project.
func (a *projectAPI) MayAddProjects(who *identity.Principal) bool {
	return a.closed() == nil && a.access.May(who, a.project.name(), identity.Admin) == nil
}

// adds reports whether the sender of a request may add a project.
func (a *projectAPI) adds(r *http.Request) bool {
	who, bad := a.sender(r)
	return bad == nil && a.MayAddProjects(who)
}

// ProjectFor returns a project that who may read of.
func (a *projectAPI) ProjectFor(ctx context.Context, who *identity.Principal, name string) (out ProjectDetails, bad *Problem) {
	all, bad := a.ProjectsFor(ctx, who)
	if bad != nil {
		return out, bad
	}
	i := slices.IndexFunc(all, func(x ProjectEntry) bool { return x.Name == name })
	if i < 0 {
		return out, noProject(name)
	}
	out.ProjectEntry = all[i]
	if out.Home == "store" {
		out.Reads = a.mayEdit(who, name, identity.Operator)
		out.Writes, out.Removes = out.Reads, a.mayEdit(who, name, identity.Admin)
	}
	if x, ok := a.safe.Store().Snapshot().Project(name); ok && out.Reads {
		out.Text, out.ETag = x.Text, tagOf(x.Version)
	}
	shown := a.mayEdit(who, name, identity.Admin) // as with GET /people
	for _, p := range a.roster.People().All() {
		if roles := p.Roles[name]; len(roles) > 0 && shown {
			m := Person{ID: p.ID, Name: p.Name, Roles: []PersonRoles{{Project: name}}}
			for _, role := range roles {
				m.Roles[0].Roles = append(m.Roles[0].Roles, role.String())
			}
			out.Members = append(out.Members, m)
		}
	}
	slices.SortFunc(out.Members, func(x, y Person) int { return strings.Compare(strings.ToLower(x.Name), strings.ToLower(y.Name)) })
	if p := a.inUse(name); p != nil && p.Current() != nil {
		for i := range p.Current().Servers {
			if x := &p.Current().Servers[i]; x.Shared {
				out.Shared = append(out.Shared, x.Name)
			}
		}
		for _, n := range p.Calls().Counts() {
			out.Calls += uint64(n.Ended)
		}
	}
	return out, nil
}

// ProjectSum says how a project does, as a row of all of them.
type ProjectSum struct {
	Name, Title      string
	Servers, Clients int
	Calls            uint64 // how many have ended since Dragoman started; of those that are counted
	Failed           int    // servers that can't be used
	Held             int    // changed definitions about which nobody has decided
	Asked            int    // questions that wait for a person
	Problem          string // why the project isn't in use as its home has it; "" if it is
}

// ProjectSums returns how all projects do, for an admin of default, in their order.
func (a *projectAPI) ProjectSums() (all []ProjectSum) {
	if a.closed() != nil {
		return nil
	}
	file, stored := a.homes.Problems()
	problems := map[string]string{}
	for _, p := range slices.Concat(file, stored) {
		problems[p.Project] = p.Problem
	}
	for _, name := range a.door.names() {
		p := a.inUse(name)
		if p == nil || p.Current() == nil {
			continue
		}
		x := ProjectSum{Name: name, Title: p.Current().Identity.Title, Clients: len(p.ClientReports()), Asked: p.Questions().Waiting(), Problem: problems[name]}
		delete(problems, name)
		for _, s := range p.Statuses() {
			if x.Servers++; s.State == upstream.Broken || s.State == upstream.Unresponsive {
				x.Failed++
			}
		}
		for _, n := range p.ChangedDefinitions() {
			x.Held += n
		}
		for _, n := range p.Calls().Counts() {
			x.Calls += uint64(n.Ended)
		}
		all = append(all, x)
	}
	for name, problem := range problems {
		all = append(all, ProjectSum{Name: name, Problem: problem})
	}
	slices.SortStableFunc(all, func(x, y ProjectSum) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// mayEdit reports whether who has a role in a project, or is an admin of default, who could write it into the file.
func (a *projectAPI) mayEdit(who *identity.Principal, name string, least identity.Role) bool {
	return a.access.May(who, name, least) == nil || a.access.May(who, a.project.name(), identity.Admin) == nil
}

// editor returns a problem if the sender of a request may not do to a project what needs the role least. It's the
// same if there is no such project.
func (a *projectAPI) editor(r *http.Request, name string, least identity.Role) *Problem {
	who, bad := a.sender(r)
	switch {
	case bad != nil:
		return bad
	case a.mayEdit(who, name, least):
		return nil
	case a.door.hides(who, name):
		return noProject(name)
	}
	return &Problem{Type: "no-access", Title: "This needs the role " + least.String(), Status: http.StatusForbidden, Detail: "You don't have the role " + least.String() + " in the project " + excerpt.Quote(name, maxName) + "."}
}

// PutProject adds a project to the store, or replaces its text if it still has the version match, as an ETag; "" adds
// one. It's what PUT /projects/{name} does.
func (a *projectAPI) PutProject(r *http.Request, name, text, match string) (out KeptProject, bad *Problem) {
	if bad := a.editor(r, name, identity.Operator); bad != nil {
		return out, bad
	}
	known := versions{match: []string{match}}
	if match == "" {
		known = versions{none: []string{"*"}}
	}
	out, _, bad = a.put(r, name, known, func() (string, *Problem) { return text, nil })
	return out, bad
}

// RemoveProject removes a project from the store that still has the version match. It's what DELETE /projects/{name}
// does.
func (a *projectAPI) RemoveProject(r *http.Request, name, match string) (out RemovedProject, bad *Problem) {
	if bad := a.editor(r, name, identity.Admin); bad != nil {
		return out, bad
	}
	return a.remove(r, name, versions{match: []string{match}})
}

// TryProject returns what a text would change in a project of the store, which it may add, and changes nothing.
func (a *projectAPI) TryProject(r *http.Request, name, text string) (out ProjectPreview, bad *Problem) {
	if bad := a.editor(r, name, identity.Operator); bad != nil {
		return out, bad
	}
	x, there, bad := a.named(r.Context(), name)
	switch {
	case bad != nil:
		return out, bad
	case !there && (a.inFile(name) || !a.adds(r)):
		return out, noProject(name)
	}
	if out.Warnings, bad = a.check(newText{name: name, text: text}); bad != nil {
		return out, bad
	}
	mark := secret()
	out.Changes, out.Grows = changesOf(a.changes(name, x.Text, text)), grows(a.powers(name, x.Text, mark).machine, a.powers(name, text, mark).machine)
	return out, nil
}

// changesOf returns settings that have changed, sorted by path.
func changesOf(x store.Settings) (all []SettingChange) {
	all = []SettingChange{}
	for path, was := range x.Was {
		all = append(all, SettingChange{path, was, x.Became[path]})
	}
	for path, became := range x.Became {
		if _, both := x.Was[path]; !both {
			all = append(all, SettingChange{path, "", became})
		}
	}
	slices.SortFunc(all, func(x, y SettingChange) int { return strings.Compare(x.Path, y.Path) })
	return all
}

// ExportProject returns a project of the store as a configuration file, without its keys and secrets.
func (a *projectAPI) ExportProject(r *http.Request, name string) ([]byte, *Problem) {
	if bad := a.editor(r, name, identity.Operator); bad != nil {
		return nil, bad
	}
	x, there, bad := a.named(r.Context(), name)
	switch {
	case bad != nil:
		return nil, bad
	case !there && a.inFile(name):
		return nil, a.livesInFile(name)
	case !there:
		return nil, noProject(name)
	}
	file, problems := config.ProjectFile(name, []byte(x.Text))
	if err := problems.Err(); err != nil {
		return nil, cannotBe(sentence(err.Error(), ""))
	}
	return file, nil
}
