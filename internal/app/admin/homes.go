package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Projects is a page of the projects, sorted by project.
type Projects struct {
	Projects []ProjectEntry `json:"projects" doc:"the projects of this page in which you have a role"`
	Total    int            `json:"total" doc:"number of projects on all pages"`
	Next     string         `json:"next,omitempty" doc:"the cursor of the next page"`
}

// ProjectEntry says what a project is and where it lives.
type ProjectEntry struct {
	Name    string     `json:"name" doc:"the project's name"`
	Title   string     `json:"title,omitempty" doc:"what people call it"`
	Home    string     `json:"home" enum:"file,store" doc:"file: the configuration file declares it, and it's changed there; store: it's changed here"`
	File    string     `json:"file,omitempty" doc:"the full path of the configuration file; left out if there is none, or if the project lives in the store"`
	Path    string     `json:"path" doc:"the path of the project's endpoint for clients, such as /p/shop/mcp"`
	Servers int        `json:"servers" doc:"number of servers in use"`
	Tools   *ToolsCost `json:"tools,omitempty" doc:"what its tools cost clients; left out if it isn't in use"`
	Keys    int        `json:"keys" doc:"number of its API keys"`
	Secrets int        `json:"secrets" doc:"number of its secrets"`
	People  int        `json:"people" doc:"number of people who have a role in it"`
	ETag    string     `json:"etag,omitempty" doc:"the version of the text, for If-Match; left out if the project lives in the file"`
	Changed *time.Time `json:"changed,omitempty" doc:"when the text was changed last; left out if the project lives in the file"`
	By      string     `json:"by,omitempty" doc:"who changed it last"`
	Problem string     `json:"problem,omitempty" doc:"why the project isn't in use, or why an earlier text is, as sentences; left out if all is well"`
}

// KeptProject is a project that was just added or changed.
type KeptProject struct {
	ProjectEntry
	Warnings []string `json:"warnings" doc:"what isn't right in the text, although it can be used, such as a secret that nobody has set"`
	Note     string   `json:"note,omitempty" doc:"a sentence if dragoman forgets the project when it ends"`
}

// RemovedProject is a project that was just removed, with what has ended with it.
type RemovedProject struct {
	ProjectEntry
	EndedKeys    int `json:"endedKeys" doc:"number of API keys that were revoked with it"`
	EndedSecrets int `json:"endedSecrets" doc:"number of secrets that were removed with it"`
	EndedPeople  int `json:"endedPeople" doc:"number of people whose roles in it have ended"`
}

// Homes knows where the projects live, and brings those of the store into use.
type Homes interface {
	// InFile returns the names of the projects that the configuration file declares, without default.
	InFile() []string
	// Parse reads the text of a project of the store. secrets is used instead of the project's own; nil
	// means those.
	Parse(project, text string, secrets config.Secrets) (config.Project, config.Problems)
	// Use brings the projects of the store into use as they are now.
	Use(ctx context.Context)
	// Problems returns the projects that aren't in use as the file has them, in its order, and those that
	// aren't as the store has them, sorted by project.
	Problems() (file, store []ProjectProblem)
}

const yamlType = "application/yaml" // RFC 9512

var projectRoutes = []route{
	{
		method: http.MethodGet, path: "/projects", process: true, anywhere: true, least: identity.Viewer, name: "projects", summary: "The projects in which you have a role",
		query: pageParameters, answer: Projects{}, problems: []int{400, 409}, read: func(a *API, r *http.Request) (any, *Problem) { return a.readProjects(r) },
	},
	{
		method: http.MethodGet, path: "/projects/{name}", process: true, named: true, least: identity.Operator, name: "project",
		summary: "The text of a project of the store, as a configuration file would have it under `dragoman.projects.NAME`, with its version in `ETag`",
		kind:    yamlType, problems: []int{404, 409}, write: func(a *API, w http.ResponseWriter, r *http.Request) *Problem { return a.writeProject(w, r) },
	},
	{
		method: http.MethodPut, path: "/projects/{name}", process: true, named: true, least: identity.Operator, name: "setProject",
		summary: "Add a project to the store, or replace the text of one; that needs its version in `If-Match`. Only an admin of `default` may add one, and only an admin of the project what starts a command, reads a file, or sends a secret somewhere",
		body:    yamlText(""), answer: KeptProject{}, problems: slices.Concat([]int{404, 412, 413, 415, 422, 428}, houseProblems), write: func(a *API, w http.ResponseWriter, r *http.Request) *Problem { return a.setProject(w, r) },
	},
	{
		method: http.MethodPost, path: "/projects/{name}/preview", process: true, named: true, least: identity.Operator, name: "previewProject",
		summary: "What a text of a project of the store would change; nothing is kept",
		body:    yamlText(""), answer: ProjectPreview{}, problems: slices.Concat([]int{404, 413, 415, 422}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) {
			text, bad := readText(r)
			if bad != nil {
				return nil, bad
			}
			return result(a.TryProject(r, r.PathValue("name"), text))
		},
	},
	{
		method: http.MethodDelete, path: "/projects/{name}", process: true, named: true, least: identity.Admin, name: "removeProject",
		summary: "Remove a project from the store, with its API keys, its secrets and everybody's roles in it; that needs its version in `If-Match`",
		answer:  RemovedProject{}, problems: slices.Concat([]int{404, 412, 428}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.removeProject(r)) },
	},
}

// yamlText is the type of a body that is the text of a project.
type yamlText string

// projectAPI adds, changes and removes the projects of the store.
type projectAPI struct {
	house
	door  *door
	homes Homes                         // see Options.Homes
	inUse func(string) *runtime.Project // returns a project that is in use, or nil
	file  string                        // see Options.Config
}

// closed returns a problem if there is no store.
func (a *projectAPI) closed() *Problem {
	if a.homes == nil {
		return conflict("no-store", "Nothing is stored here", "This Dragoman has no place to keep projects.")
	}
	return a.house.closed()
}

// readProjects answers GET /projects.
func (a *projectAPI) readProjects(r *http.Request) (any, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	who, _ := a.access.Check(r)
	mine := a.entriesFor(r.Context(), who)
	p, bad := pageOf(r, mine, func(x *ProjectEntry) string { return x.Name + "\x00" + x.Home })
	if bad != nil {
		return nil, bad
	}
	return Projects{Projects: p.items, Total: len(mine), Next: p.next}, nil
}

// entriesFor returns the projects that who may read of.
func (a *projectAPI) entriesFor(ctx context.Context, who *identity.Principal) []ProjectEntry {
	_ = a.safe.Store().Refresh(ctx) // without the database, we show what we know
	return slices.DeleteFunc(a.entries(), func(x ProjectEntry) bool { return !a.door.sees(who, x.Name) })
}

// entries returns all projects, sorted by name and home.
func (a *projectAPI) entries() (all []ProjectEntry) {
	of := a.count()
	problems, _ := a.homes.Problems()
	for _, name := range append(a.homes.InFile(), event.DefaultProject) {
		all = append(all, a.counted(ProjectEntry{Name: name, Home: "file", File: a.file, Problem: problemOf(name, problems)}, of))
	}
	for _, x := range a.safe.Store().Snapshot().Projects() {
		all = append(all, a.entry(&x, of))
	}
	slices.SortFunc(all, func(x, y ProjectEntry) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.Home, y.Home))
	})
	return all
}

// entry returns what we say of a project of the store.
func (a *projectAPI) entry(x *store.Project, of holdings) ProjectEntry {
	changed := x.Changed.UTC()
	_, problems := a.homes.Problems()
	return a.counted(ProjectEntry{Name: x.Name, Home: "store", ETag: tagOf(x.Version), Changed: &changed, By: x.Actor, Problem: problemOf(x.Name, problems)}, of)
}

// problemOf returns why a project isn't in use as its home has it, or "".
func problemOf(project string, problems []ProjectProblem) string {
	for _, b := range problems {
		if b.Project == project {
			return b.Problem
		}
	}
	return ""
}

// holdings are the numbers of keys and people of projects, by name.
type holdings struct{ keys, people map[string]int }

// count counts the keys and people of all projects at once: there may be thousands of each.
func (a *projectAPI) count() holdings {
	of, now := holdings{map[string]int{}, map[string]int{}}, a.safe.Store().Snapshot()
	for _, k := range now.Keys() {
		of.keys[k.Project]++
	}
	for _, p := range now.People() {
		for project, roles := range p.Roles {
			if len(roles) > 0 {
				of.people[project]++
			}
		}
	}
	return of
}

// counted adds to an entry what has the project's name, whichever home it has.
func (a *projectAPI) counted(x ProjectEntry, of holdings) ProjectEntry {
	x.Path = pathIn(x.Name, "/mcp")
	x.Keys, x.People = of.keys[x.Name], of.people[x.Name]
	x.Secrets = len(a.safe.Store().Snapshot().Sealed(x.Name))
	if p := a.inUse(x.Name); p != nil && p.Current() != nil {
		s := p.Current()
		x.Tools = toolsOf(project{p})
		x.Title = s.Identity.Title
		for i := range s.Servers {
			if !s.Servers[i].Disabled {
				x.Servers++
			}
		}
	}
	return x
}

// stored returns the project of the store that the path of a request names, as the database has it now.
func (a *projectAPI) stored(r *http.Request) (x store.Project, ok bool, bad *Problem) {
	return a.named(r.Context(), r.PathValue("name"))
}

// named does the same for the project with a name.
func (a *projectAPI) named(ctx context.Context, name string) (x store.Project, ok bool, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return x, false, bad
	}
	_ = a.safe.Store().Refresh(ctx)
	x, ok = a.safe.Store().Snapshot().Project(name)
	return x, ok, nil
}

// inFile reports whether the configuration file declares a project.
func (a *projectAPI) inFile(name string) bool {
	return name == event.DefaultProject || slices.Contains(a.homes.InFile(), name)
}

// livesInFile is the problem of a request for the text of a project of the configuration file.
func (a *projectAPI) livesInFile(name string) *Problem {
	where := a.file
	if where == "" {
		where = "the configuration file"
	}
	return conflict("in-file", "The project lives in the configuration file", "The project "+excerpt.Quote(name, maxName)+" lives in "+where+"; edit it there.")
}

// writeProject answers GET /projects/{name}.
func (a *projectAPI) writeProject(w http.ResponseWriter, r *http.Request) *Problem {
	x, ok, bad := a.stored(r)
	switch name := r.PathValue("name"); {
	case bad != nil:
		return bad
	case !ok && a.inFile(name):
		return a.livesInFile(name)
	case !ok:
		return noProject(name)
	}
	h := w.Header()
	h.Set("ETag", tagOf(x.Version))
	h.Set("Content-Type", yamlType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, x.Text)
	return nil
}

// setProject answers PUT /projects/{name}.
func (a *projectAPI) setProject(w http.ResponseWriter, r *http.Request) *Problem {
	out, added, bad := a.put(r, r.PathValue("name"), versionsOf(r), func() (string, *Problem) { return readText(r) })
	if bad != nil {
		return bad
	}
	w.Header().Set("ETag", out.ETag)
	writeStatus(w, r, map[bool]int{true: http.StatusCreated, false: http.StatusOK}[added], out)
	return nil
}

// put adds a project to the store, or replaces the text of one that has a version that the sender of r knows.
func (a *projectAPI) put(r *http.Request, name string, known versions, read func() (string, *Problem)) (out KeptProject, added bool, bad *Problem) {
	x, there, bad := a.named(r.Context(), name)
	if bad != nil {
		return out, false, bad
	}
	who, bad := a.changer(r)
	if bad != nil {
		return out, false, bad
	}
	if a.inFile(name) {
		return out, false, a.livesInFile(name)
	}
	if bad := precondition(known, &x, there); bad != nil {
		return out, false, bad
	}
	if p := config.CheckProject(name); p != nil {
		return out, false, cannotBe(sentence(p.Text, p.Hint))
	}
	text, bad := read()
	if bad == nil {
		out, bad = a.keep(r, who, newText{name: name, text: text}, &x)
	}
	return out, !there, bad
}

// newText is what the text of a project shall be.
type newText struct {
	name, text string
	above      int // how many lines above what the sender has written aren't theirs
}

// keep keeps a text in place of that of x, which has no version if there is no such project.
func (a *projectAPI) keep(r *http.Request, who string, n newText, x *store.Project) (out KeptProject, bad *Problem) {
	name, text := n.name, n.text
	warnings, bad := a.check(n)
	if bad == nil {
		bad = a.mayWrite(r, name, x, text)
	}
	if bad != nil {
		return out, bad
	}
	version, changes := int64(0), a.changes(name, x.Text, text)
	sum, err := a.desk.SignProject(r.Context(), who, name, text)
	if err != nil {
		return out, a.problem(err)
	}
	err = a.safe.Store().Write(r.Context(), who, func(t *store.Tx) (err error) {
		if x.Version == 0 {
			version, err = t.AddProject(name, text, sum, changes)
		} else {
			version, err = t.ChangeProject(name, text, sum, x.Version, changes)
		}
		return err
	})
	if err != nil {
		return out, a.problem(err)
	}
	if version == 0 { // somebody was faster
		x, there, _ := a.named(r.Context(), name)
		return out, outdated(&x, there)
	}
	a.homes.Use(r.Context())
	out = KeptProject{ProjectEntry: a.entry(&store.Project{Name: name, Version: version, Changed: time.Now(), Actor: who}, a.count()), Warnings: warnings, Note: a.note()}
	if x, _ := a.safe.Store().Snapshot().Project(name); x.Version == version {
		out.ProjectEntry = a.entry(&x, a.count())
	}
	return out, nil
}

// removeProject answers DELETE /projects/{name}.
func (a *projectAPI) removeProject(r *http.Request) (out RemovedProject, bad *Problem) {
	return a.remove(r, r.PathValue("name"), versionsOf(r))
}

// remove removes a project of the store that has a version that the sender of r knows.
func (a *projectAPI) remove(r *http.Request, name string, known versions) (out RemovedProject, bad *Problem) {
	x, there, bad := a.named(r.Context(), name)
	if bad != nil {
		return out, bad
	}
	who, bad := a.changer(r)
	if bad != nil {
		return out, bad
	}
	switch {
	case !there && a.inFile(name):
		return out, a.livesInFile(name)
	case !there:
		return out, noProject(name)
	}
	if bad := precondition(known, &x, there); bad != nil {
		return out, bad
	}
	out.ProjectEntry = a.entry(&x, a.count())
	gone, removed, changes := store.Gone{}, false, a.changes(name, x.Text, "")
	err := a.safe.Store().Write(r.Context(), who, func(t *store.Tx) (err error) {
		gone, removed, err = t.RemoveProject(name, x.Version, a.inFile(name), changes)
		return err
	})
	if err != nil {
		return out, a.problem(err)
	}
	if !removed {
		x, there, _ := a.named(r.Context(), name)
		return out, outdated(&x, there)
	}
	a.homes.Use(r.Context())
	out.EndedKeys, out.EndedSecrets, out.EndedPeople = gone.Keys, gone.Secrets, gone.People
	return out, nil
}

// changes returns the settings in which two texts of a project differ, for the acts. "" has the defaults.
func (a *projectAPI) changes(name, before, after string) store.Settings {
	was, became := a.settingsOf(name, before), a.settingsOf(name, after)
	for path, value := range was {
		if has, ok := became[path]; ok && has == value {
			delete(was, path)
			delete(became, path)
		}
	}
	return store.Settings{Was: was, Became: became}
}

// settingsOf returns the settings of a text by their paths, with secrets masked.
func (a *projectAPI) settingsOf(name, text string) map[string]string {
	all := map[string]string{}
	p, _ := a.homes.Parse(name, text, nil)
	if p.Config == nil {
		return all
	}
	for _, l := range p.Config.Lines(nil) {
		switch has := all[l.Path]; {
		case l.Key != "" && l.Value == "": // a mapping
		case has != "":
			all[l.Path] = has + ", " + l.Value
		default:
			all[l.Path] = l.Value
		}
	}
	return all
}

// check returns what isn't right in the text of a project, although it can be used. If it can't, check
// returns a problem. A secret that nobody has set is no such problem: it can only be set when there is the
// project.
func (a *projectAPI) check(n newText) (warnings []string, bad *Problem) {
	p, problems := a.homes.Parse(n.name, n.text, nil)
	warnings, wrong := sentences(problems, n.above)
	if p.Config != nil && len(wrong) == 0 {
		return warnings, nil
	}
	return nil, cannotBe(firstOf(wrong))
}

// sentences returns problems as sentences, with lines that are counted from the one after above.
func sentences(problems config.Problems, above int) (warnings, wrong []string) {
	warnings = []string{}
	for _, p := range problems {
		if p.Line > above {
			p.Line -= above
		}
		if line := sentence(p.InText(), ""); p.Warning || p.Secret != "" {
			warnings = append(warnings, line)
		} else {
			wrong = append(wrong, line)
		}
	}
	return warnings, wrong
}

// firstOf returns the first few of the problems of a text.
func firstOf(wrong []string) string {
	const most = 5
	if more := len(wrong) - most; more > 0 {
		wrong = append(wrong[:most], fmt.Sprintf("There are more problems: %d.", more))
	}
	return strings.Join(wrong, " ")
}

func cannotBe(why string) *Problem {
	return &Problem{Type: "project", Title: "There can be no such project", Status: http.StatusUnprocessableEntity, Detail: why}
}

// mayWrite returns a problem if the sender of a request may not make the text of a project of what it was
// before, which x is; without a version, there was none. Whether there is a project, and what it has of default, is up to the admins of default: they could
// write it into the configuration file, too.
func (a *projectAPI) mayWrite(r *http.Request, name string, x *store.Project, after string) *Problem {
	who, err := a.access.Check(r)
	mark := secret()
	var old powers
	if signed, err := a.desk.HasSigned(r.Context(), x); err == nil && signed { // or we'd sign what somebody else has written
		old = a.powers(name, x.Text, mark)
	}
	now := a.powers(name, after, mark)
	why := ""
	for _, x := range []struct {
		needed  bool
		project string
		why     string
	}{
		{x.Version == 0, event.DefaultProject, "Only an admin of the project default may add projects."},
		{grows(old.shared, now.shared), event.DefaultProject, "Only an admin of the project default may let a project use its servers."},
		{grows(old.machine, now.machine), name, "Only an admin of the project may add a server, or change its command, its URL and headers, or what reads a file."},
	} {
		if err == nil && x.needed {
			if err = a.access.May(who, x.project, identity.Admin); err != nil {
				why, err = x.why, a.access.May(who, event.DefaultProject, identity.Admin)
			}
		}
	}
	if err == nil {
		return nil
	}
	var denied *Denied
	if !errors.As(err, &denied) {
		denied = &Denied{Status: http.StatusForbidden, Kind: kindRole}
	}
	bad := denied.Problem(r.URL.Path)
	if denied.Kind == kindRole {
		bad.Detail = why + " Ask one."
	}
	return &bad
}

// powers are what in a project's text needs more than an operator.
type powers struct {
	machine []string // what is started or read on this machine, and with what; and what is connected to, and with what
	shared  []string // the servers of default that the project uses
}

// powers returns the powers of a text. The references to secrets count, and not the secrets: they are read as
// names behind mark, which nobody can have written into the text, and which can stand in the host of a URL. If
// the text can't be read so, for example with the port of a URL in a secret, it has a power that no other has.
func (a *projectAPI) powers(name, text, mark string) (p powers) {
	project, _ := a.homes.Parse(name, text, func(_, secret string) (config.Secret, bool, error) {
		return config.NewSecret(mark + "." + secret), true, nil
	})
	if project.Config == nil {
		p.machine = append(p.machine, secret())
		project, _ = a.homes.Parse(name, text, nil)
	}
	s := project.Config
	if s == nil {
		return p
	}
	add := func(what ...any) { p.machine = append(p.machine, fmt.Sprintf("%q", what)) }
	for i := range s.Servers {
		x := &s.Servers[i]
		if x.Shared {
			p.shared = append(p.shared, x.Name)
			continue
		}
		if x.Command != "" {
			var env []string
			for _, name := range slices.Sorted(maps.Keys(x.Env)) {
				env = append(env, name+"="+x.Env[name].Reveal())
			}
			add("command", x.Command, x.Args, env, x.InheritEnv, x.Dir)
		}
		var headers []string
		for _, h := range x.Header {
			headers = append(headers, h.Name+": "+h.Value.Reveal())
		}
		if x.URL != "" {
			add("url", x.URL, headers)
		}
		if x.CAFile != "" {
			add("caFile", x.CAFile)
		}
	}
	return p
}

// grows reports whether after has something that before doesn't have.
func grows(before, after []string) bool {
	return slices.ContainsFunc(after, func(x string) bool { return !slices.Contains(before, x) })
}

// tagOf returns the ETag of a version.
func tagOf(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// versions are those that a request may change, and those that it must not.
type versions struct{ match, none []string }

func versionsOf(r *http.Request) versions {
	return versions{r.Header.Values("If-Match"), r.Header.Values("If-None-Match")}
}

// precondition returns a problem if a request must not change x, which there says exists: it doesn't say
// which version it knows, or knows another one (RFC 9110 §13.1, RFC 6585 §3).
func precondition(known versions, x *store.Project, there bool) *Problem {
	match, none := known.match, known.none
	has := func(list []string) bool {
		return slices.ContainsFunc(strings.Split(strings.Join(list, ","), ","), func(tag string) bool {
			tag = strings.TrimSpace(tag)
			return tag == "*" || tag == tagOf(x.Version)
		})
	}
	switch {
	case len(match) > 0 && (!there || !has(match)), there && len(none) > 0 && has(none):
		return outdated(x, there)
	case there && len(match) == 0:
		return &Problem{
			Type: "no-version", Title: "The request doesn't say which version it changes", Status: http.StatusPreconditionRequired, Current: tagOf(x.Version),
			Detail: "The project " + excerpt.Quote(x.Name, maxName) + " exists. Send the ETag of the text that you have read as If-Match, so that you overwrite nobody's change.",
		}
	}
	return nil
}

// outdated is the problem of a request that knows another version than x, which there says exists.
func outdated(x *store.Project, there bool) *Problem {
	out := &Problem{Type: "outdated", Title: "Somebody has changed the project meanwhile", Status: http.StatusPreconditionFailed}
	if !there {
		out.Detail = "It has been removed. Nothing was changed."
		return out
	}
	out.Current = tagOf(x.Version)
	out.Detail = "It now has the version " + out.Current + ", of " + x.Changed.UTC().Format(time.RFC3339) + ". Read it again, and repeat your change. Nothing was changed."
	return out
}

// readText reads the text of a project from the body of a request.
func readText(r *http.Request) (string, *Problem) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch strings.ToLower(strings.TrimSpace(kind)) {
	case yamlType, "application/x-yaml", "text/yaml", "text/x-yaml", "application/json":
	default:
		return "", &Problem{Type: "content-type", Title: "The Content-Type is not " + yamlType, Status: http.StatusUnsupportedMediaType, Detail: "Send the text of the project as it is, with Content-Type: " + yamlType + "."}
	}
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, config.MaxFile))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return "", &Problem{Type: "too-large", Title: "The text is too large", Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The text of a project may have %d bytes at most.", config.MaxFile)}
	case err != nil:
		return "", badBody(excerpt.Line(err.Error(), maxTitle))
	case !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0:
		return "", badBody("The text of a project is UTF-8, without NUL characters.")
	}
	return string(b), nil
}
