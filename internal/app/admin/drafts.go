package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// DraftRequest names the source of the servers in a draft. Either Text or Client must be set, but not
// both.
type DraftRequest struct {
	Text    string `json:"text,omitempty" doc:"a command, a URL, or a snippet with mcpServers in JSON, YAML or TOML; at most 1 MiB"`
	Client  string `json:"client,omitempty" doc:"the id of a client on this machine, such as cursor"`
	File    string `json:"file,omitempty" doc:"the path of the client's file, if the client has several files; /client-files lists the files"`
	Project string `json:"project,omitempty" doc:"the project of the configuration file that gets the servers; left out for default. Servers of a project in the store are in its text; see /projects"`
}

// Draft contains servers that the user can add to the configuration. A draft exists only in memory,
// and expires 30 minutes after its last use.
type Draft struct {
	ID      string        `json:"id" doc:"the draft's id, for /api/v1/drafts/ID"`
	Form    string        `json:"form" doc:"the form of the text, such as a command or JSON; for a file, the client that it belongs to"`
	File    string        `json:"file,omitempty" doc:"the file that the servers come from"`
	Notes   []string      `json:"notes" doc:"notes about the text or the file as a whole"`
	Servers []DraftServer `json:"servers" doc:"the servers that the text or the file contains"`
	Secrets string        `json:"secrets" enum:"envFile,shown" doc:"where the values of secrets go; envFile: into the file that dragoman.envFile names; shown: only into the answer of the route keep"`
	Expires time.Time     `json:"expires" doc:"when the draft expires: 30 minutes after its last use"`
	Preview Preview       `json:"preview" doc:"what the route keep would change in the configuration"`
}

// DraftServer is one server of a draft. Its strings contain no secrets.
type DraftServer struct {
	Key      string          `json:"key" doc:"the server's key in the draft"`
	Name     string          `json:"name" doc:"the name that the server would get"`
	Original string          `json:"original" doc:"the server's name in the text or the file"`
	Status   string          `json:"status" enum:"new,same,different,skipped" doc:"same: the configuration has the server; different: it has another one with the original name"`
	Use      bool            `json:"use" doc:"whether the server is currently chosen"`
	Why      string          `json:"why,omitempty" doc:"why the server is skipped"`
	Command  []string        `json:"command,omitempty" doc:"the program that would be started, without a shell, and all arguments; an argument with invisible characters contains escapes such as \\n or \\u202e, and its backslashes are doubled"`
	URL      string          `json:"url,omitempty" doc:"the server's URL, with secrets masked; left out if the server is a command"`
	Folder   string          `json:"folder,omitempty" doc:"the working directory of the command"`
	Sets     []string        `json:"sets" doc:"the variables or headers that the server gets"`
	Notes    []string        `json:"notes" doc:"the server's settings that aren't imported"`
	Secrets  []DraftSecret   `json:"secrets" doc:"the literal secrets that variables have replaced"`
	Needs    []DraftVariable `json:"needs" doc:"the variables to which the server refers"`
	Trial    *Trial          `json:"trial,omitempty" doc:"the last trial of the server; left out before the first trial"`
}

// DraftSecret describes a secret that the source of a draft contained as literal text. It does not
// contain the value of the secret.
type DraftSecret struct {
	Variable string `json:"variable" doc:"the name of the variable that replaces the secret, as ${NAME}"`
	Place    string `json:"place" doc:"the setting that had the secret, such as env.TOKEN"`
}

// DraftVariable is a variable to which a server refers.
type DraftVariable struct {
	Name  string `json:"name" doc:"the variable's name"`
	About string `json:"about,omitempty" doc:"a description of the value; only if we chose the variable's name"`
	From  string `json:"from" enum:"process,envFile,secret,draft,missing" doc:"where the value of the variable comes from"`
}

// Choice selects the servers of a draft to use, and sets options. Missing members change nothing.
type Choice struct {
	Servers []ChosenServer    `json:"servers,omitempty" doc:"the servers of the draft to use; all others are ignored"`
	Secrets string            `json:"secrets,omitempty" enum:"envFile,shown" doc:"where the values of secrets go; see the member secrets of Draft"`
	Values  map[string]string `json:"values,omitempty" doc:"values for the variables of the draft that have no value"`
}

// DraftChange is the body of a request to change a draft.
type DraftChange struct {
	Do string `json:"do" enum:"choose,try,cancel" doc:"choose: only apply the choice; try: also start each chosen server once, read its lists, and stop it; cancel: cancel the trials and ignore the choice"`
	Choice
}

// ChosenServer selects one server of a draft.
type ChosenServer struct {
	Key  string `json:"key" doc:"the key of the server in the draft"`
	Name string `json:"name,omitempty" doc:"a name to use instead of the server's name in the draft"`
}

// ClientFiles lists the configuration files of the clients on this machine.
type ClientFiles struct {
	Files []ClientFile `json:"files" doc:"the files of all known clients; a client without a file has the path that a new one would get"`
}

// ClientFile is a configuration file in which a client stores its servers.
type ClientFile struct {
	Client  string             `json:"client" doc:"the client's id, such as cursor"`
	Title   string             `json:"title" doc:"the client's display name"`
	File    string             `json:"file" doc:"the file's path"`
	Exists  bool               `json:"exists" doc:"whether the file exists"`
	Problem string             `json:"problem,omitempty" doc:"why the file can't be read"`
	Servers []ClientFileServer `json:"servers" doc:"the servers in the file, except servers of other projects"`
	Others  int                `json:"inOtherProjects" doc:"number of servers in the file that Claude Code uses only in other projects"`
}

// ClientFileServer is one server in a ClientFile.
type ClientFileServer struct {
	Name   string `json:"name" doc:"the name that the server would get in the configuration"`
	Status string `json:"status" enum:"new,same,different,skipped" doc:"new: the configuration doesn't have the server; same: it does; different: it has another server with this name; skipped: the server can't be added"`
	Why    string `json:"why,omitempty" doc:"why the server is skipped"`
}

// These are the values of Draft.Secrets.
const (
	secretsInFile = "envFile"
	secretsShown  = "shown"
)

// Bounds of drafts.
const (
	draftLife    = 30 * time.Minute
	mostDrafts   = 16
	maxDraftBody = 3 << 20 // bytes of a request body; enough for a text of 1 MiB with JSON escapes
	maxDraftText = 400     // bytes of a text in a response
	maxValue     = 64 << 10
)

// drafts holds the drafts of an API. It is safe for concurrent use.
type drafts struct {
	work    work.Group
	trying  chan struct{} // limits how many trials run at the same time
	keeping chan struct{} // lets only one request at a time write the configuration
	key     [32]byte      // for the hashes of previews; see hashOf

	mu  sync.Mutex // guards all, and the drafts in it with their servers and trials
	all []*draft   // oldest first
}

// draft is one draft.
type draft struct {
	id      string
	form    string
	project string // the project of the file that gets the servers; "" is default
	file    string // "" for pasted text
	used    time.Time
	notes   []string
	servers []*draftServer
	secrets string
	values  map[string]string // the values of variables: secrets from the source, and values that the user entered
}

// draftServer is one server of a draft.
type draftServer struct {
	key    string
	name   string
	from   string // the comment to write above the server in the configuration file; "" for none
	status intake.Status
	why    string
	use    bool
	server clientfile.Server
	found  []intake.Secret
	trial  *Trial // nil before the first trial
	cancel context.CancelFunc
}

var draftRoutes = []route{
	{
		method: http.MethodGet, path: "/client-files", least: identity.Admin, process: true, name: "clientFiles", summary: "The clients' files on this machine, with their servers",
		answer: ClientFiles{}, read: func(a *API, _ *http.Request) (any, *Problem) { return a.ClientFiles(), nil },
	},
	{
		method: http.MethodPost, path: "/drafts", least: identity.Admin, process: true, name: "newDraft", summary: "Read servers from a text or from a client's file, without starting anything",
		body: DraftRequest{}, answer: Draft{}, status: http.StatusCreated, problems: []int{400, 404, 413, 415, 422},
		read: withBody(maxDraftBody, func(a *API, _ *http.Request, q DraftRequest) (Draft, *Problem) { return a.NewDraft(q) }),
	},
	{
		method: http.MethodGet, path: "/drafts/{id}", least: identity.Admin, process: true, name: "draft", summary: "A draft, with its trials' results and what would change in the configuration",
		answer: Draft{}, problems: []int{404}, read: byPath("id", (*API).Draft),
	},
	{
		method: http.MethodPost, path: "/drafts/{id}", least: identity.Admin, process: true, name: "changeDraft", summary: "Choose a draft's servers, try them, or cancel their trials; four trials run at a time, and no client sees the servers",
		body: DraftChange{}, answer: Draft{}, problems: []int{400, 404, 409, 413, 415, 422},
		read: withBody(maxDraftBody, func(a *API, r *http.Request, q DraftChange) (Draft, *Problem) {
			return a.ChangeDraft(r.PathValue("id"), q)
		}),
	},
	{
		method: http.MethodDelete, path: "/drafts/{id}", least: identity.Admin, process: true, name: "dropDraft", summary: "End a draft and its trials",
		answer: Draft{}, problems: []int{404}, read: byPath("id", (*API).DropDraft),
	},
	{
		method: http.MethodPost, path: "/drafts/{id}/keep", least: identity.Admin, process: true, name: "keepDraft",
		summary: "Add the chosen servers to the configuration, as previewed, and apply it; each must have been tried",
		body:    KeepRequest{}, answer: Kept{}, problems: []int{400, 404, 409, 413, 415, 422},
		read: withBody(maxDraftBody, func(a *API, r *http.Request, q KeepRequest) (Kept, *Problem) {
			return a.KeepDraft(r, r.PathValue("id"), q)
		}),
	},
}

// draftAPI tries new servers, adds them to the configuration, and changes those that are there.
type draftAPI struct {
	project project
	config  string // see Options.Config
	env     func(string) (string, bool)
	secrets config.Secrets                        // may be nil; see Options.Secrets
	reload  func(context.Context) (string, error) // may be nil; see Options.Reload
	log     *slog.Logger
	home    *textHome // the project of the store whose text drafts change; nil for the configuration file
	drafts  drafts
}

// ourAddresses returns the addresses that this Dragoman process may listen on.
func (a *draftAPI) ourAddresses() []string {
	out := []string{config.Default().Listen}
	if s := a.project.Current(); s != nil && s.Listen != out[0] {
		out = append(out, s.Listen)
	}
	return out
}

// ClientFiles reads the configuration files of the clients on this machine, and returns them with
// their servers.
func (a *draftAPI) ClientFiles() ClientFiles {
	out := ClientFiles{Files: []ClientFile{}}
	if a.home != nil { // whoever has a role in a project may not read files of the machine
		return out
	}
	m, t := intake.Machine(a.env), a.target()
	for _, c := range clientfile.Clients() {
		found := false
		for _, p := range m.Places(c) {
			src, err := intake.Read(m, p, false, a.ourAddresses())
			if src == nil && err == nil {
				continue
			}
			found = true
			f := ClientFile{Client: c.ID, Title: c.Title, File: p.Path, Exists: true, Servers: []ClientFileServer{}}
			if err != nil {
				f.Problem = excerpt.Line(excerpt.MaskSecrets(strings.TrimPrefix(err.Error(), p.Path+": ")), maxDraftText)
				out.Files = append(out.Files, f)
				continue
			}
			f.Others = src.Elsewhere()
			compare := intake.NewComparison(t.path, t.old, t.env(a.env, nil))
			for _, s := range src.File.Servers {
				x := compare.Compare(s, s.Name, src)
				f.Servers = append(f.Servers, ClientFileServer{x.Name, string(x.Status), excerpt.Line(excerpt.MaskSecrets(x.Why), maxDraftText)})
			}
			out.Files = append(out.Files, f)
		}
		if p, ok := m.Target(c, false); !found && ok {
			out.Files = append(out.Files, ClientFile{Client: c.ID, Title: c.Title, File: p.Path, Servers: []ClientFileServer{}})
		}
	}
	return out
}

// NewDraft creates a draft with the servers from a text or from the file of a client. It does not
// start the servers.
func (a *draftAPI) NewDraft(q DraftRequest) (Draft, *Problem) {
	if (q.Text == "") == (q.Client == "") {
		return Draft{}, badBody(`Send exactly one of "text" and "client".`)
	}
	d := &draft{project: q.Project, secrets: secretsInFile, values: map[string]string{}}
	if d.project == event.DefaultProject {
		d.project = ""
	}
	if a.home != nil {
		if d.project = a.home.project.name(); q.Client != "" {
			return Draft{}, badBody("A project of the store gets no servers from files of clients. Paste them.")
		}
	}
	var servers []clientfile.Server
	var src *intake.Source
	var unsure []string
	if q.Client != "" {
		var bad *Problem
		if src, bad = a.readClientFile(q); bad != nil {
			return Draft{}, bad
		}
		d.form, d.file, servers = src.Place.Client.Title, src.Place.Path, src.File.Servers
		for _, n := range src.File.Notes {
			d.notes = append(d.notes, n.String())
		}
		if n := src.Elsewhere(); n > 0 {
			d.notes = append(d.notes, fmt.Sprintf("The file has %s for other projects. `dragoman import --from claude-code --all-projects` imports these.", number(n, "server")))
		}
	} else {
		m := intake.Machine(a.env)
		p, err := intake.Paste(q.Text, clientfile.Options{OS: m.OS, Addresses: a.ourAddresses()})
		var e *intake.PasteError
		if errors.As(err, &e) {
			bad := &Problem{Type: "text", Title: "The text cannot be read", Status: http.StatusUnprocessableEntity, Detail: sentence(e.Error(), e.Hint)}
			if len(q.Text) > intake.MaxPaste {
				bad.Status = http.StatusRequestEntityTooLarge
			}
			return Draft{}, bad
		}
		d.form, servers, d.notes, unsure = p.Form, p.Servers, p.Notes, p.Unsure
	}
	t := a.target()
	if t.project = d.project; intake.ServersOf(t.old, t.project) == nil {
		return Draft{}, notInFile(t.project)
	}
	a.fill(d, t, servers, src)
	for i, s := range servers[:len(d.servers)] {
		if slices.Contains(unsure, s.Name) {
			d.servers[i].use = false
		}
	}
	a.drafts.mu.Lock()
	defer a.drafts.mu.Unlock()
	a.drafts.addLocked(d)
	return a.showLocked(d, t), nil
}

// notInFile says that the servers of a project can't be added to the configuration file.
func notInFile(project string) *Problem {
	return &Problem{
		Type: "no-such-project", Title: "The configuration file has no such project", Status: http.StatusNotFound,
		Detail: "The configuration file has no project " + excerpt.Quote(project, maxName) + ", or one with errors. The servers of a project in the store are in its text: PUT " + apiRoot + "/projects/NAME.",
	}
}

// sentence turns text into a sentence. If hint is not "", it adds hint as a second sentence.
func sentence(text, hint string) string {
	upper := func(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }
	out := upper(text) + "."
	if hint != "" {
		out += " " + upper(hint) + "."
	}
	out = strings.ReplaceAll(out, "?.", "?")
	return excerpt.Line(excerpt.MaskSecrets(out), maxDraftText)
}

// readClientFile reads the configuration file of a client. It only reads paths at which this client
// is known to store its configuration.
func (a *draftAPI) readClientFile(q DraftRequest) (*intake.Source, *Problem) {
	none := &Problem{Type: "no-such-file", Title: "The client does not have this file", Status: http.StatusNotFound, Detail: "GET " + apiRoot + "/client-files lists the files of the clients on this machine."}
	c, ok := clientfile.ByID(q.Client)
	if !ok {
		return nil, none
	}
	m := intake.Machine(a.env)
	for _, p := range m.Places(c) {
		if q.File != "" && p.Path != q.File {
			continue
		}
		src, err := intake.Read(m, p, false, a.ourAddresses())
		switch {
		case err != nil:
			return nil, &Problem{Type: "text", Title: "The file cannot be read", Status: http.StatusUnprocessableEntity, Detail: excerpt.Line(excerpt.MaskSecrets(err.Error()), maxDraftText)}
		case src != nil:
			return src, nil
		}
	}
	return nil, none
}

// fill adds servers to a new draft. It compares the servers with the configuration, and moves their
// secrets into the values of the draft.
func (a *draftAPI) fill(d *draft, t *target, servers []clientfile.Server, src *intake.Source) {
	env := t.env(a.env, nil)
	compare := intake.NewComparison(t.path, t.own(), env)
	names := map[string]bool{}
	for _, s := range t.own().Servers {
		names[s.Name] = true
	}
	for i, s := range servers[:min(len(servers), intake.MaxServer)] {
		c := compare.Compare(s, s.Name, src)
		x := &draftServer{key: fmt.Sprintf("s%d", i+1), name: c.Name, status: c.Status, why: c.Why}
		if src != nil {
			x.from = "from " + src.Of(&s)
		}
		if c.Status == intake.New || c.Status == intake.Different {
			x.use = c.Status == intake.New || src == nil
			for n := 2; c.Status == intake.Different && names[x.name]; n++ {
				x.name = clientfile.Name(fmt.Sprintf("%s-%d", c.Name, n))
			}
			names[x.name] = true
		}
		x.server, x.found = intake.Take(s, x.name, func(name, value string) string { return d.variable(name, value, env) })
		d.servers = append(d.servers, x)
	}
}

// variable returns the name of the variable for a secret. It appends a number to name if the variable
// name already has a different value.
func (d *draft) variable(name, value string, env intake.Env) string {
	try := name
	for n := 2; n < 10_000; n++ {
		known, ok := env(try)
		if !ok || known == "" {
			known, ok = d.values[try]
		}
		if value == "" && !ok || value == "" && known != "" && try == name || ok && known == value {
			return try // value is "" for a placeholder, which usually refers to a variable that is already set
		}
		if !ok {
			d.values[try] = value
			return try
		}
		try = fmt.Sprintf("%s_%d", name, n)
	}
	return try
}

// addLocked adds a draft. It ends the oldest draft if there are too many.
func (s *drafts) addLocked(d *draft) {
	var b [12]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails
	d.id, d.used = base64.RawURLEncoding.EncodeToString(b[:]), time.Now()
	if s.all = append(s.all, d); len(s.all) > mostDrafts {
		s.dropLocked(s.all[0])
	}
}

// findLocked returns a draft, which then expires 30 minutes from now.
func (s *drafts) findLocked(id string) (found *draft, bad *Problem) {
	now := time.Now()
	for _, d := range slices.Clone(s.all) {
		if now.Sub(d.used) > draftLife {
			s.dropLocked(d)
		} else if d.id == id {
			found, d.used = d, now
		}
	}
	if found == nil {
		return nil, &Problem{Type: "no-such-draft", Title: "No such draft", Status: http.StatusNotFound, Detail: "A draft ends 30 minutes after its last use, and when Dragoman stops. Paste the text or choose the file again."}
	}
	return found, nil
}

// dropLocked removes a draft with its values, which may be secrets, and cancels its trials.
func (s *drafts) dropLocked(d *draft) {
	s.all = slices.DeleteFunc(s.all, func(x *draft) bool { return x == d })
	d.values = map[string]string{}
	d.cancelTrials()
}

// cancelTrials cancels the trials that wait or run.
func (d *draft) cancelTrials() {
	for _, x := range d.servers {
		if x.cancel != nil {
			x.cancel()
		}
	}
}

// close ends all drafts, and waits until their trials have ended.
func (s *drafts) close() {
	s.work.Close()
	s.mu.Lock()
	for _, d := range slices.Clone(s.all) {
		s.dropLocked(d)
	}
	s.mu.Unlock()
	s.work.Wait()
}

// Draft returns a draft.
func (a *draftAPI) Draft(id string) (Draft, *Problem) {
	return a.withDraft(id, func(*draft, *target) *Problem { return nil })
}

// DropDraft deletes a draft and cancels its trials. It returns the draft.
func (a *draftAPI) DropDraft(id string) (Draft, *Problem) {
	return a.withDraft(id, func(d *draft, _ *target) *Problem { a.drafts.dropLocked(d); return nil })
}

// ChangeDraft applies a choice to a draft, and starts or cancels its trials.
func (a *draftAPI) ChangeDraft(id string, q DraftChange) (Draft, *Problem) {
	return a.withDraft(id, func(d *draft, t *target) *Problem {
		switch q.Do {
		case "choose":
			return d.choose(q.Choice)
		case "try":
			if bad := d.choose(q.Choice); bad != nil {
				return bad
			}
			return a.tryLocked(d, t)
		case "cancel":
			d.cancelTrials()
			return nil
		}
		return badBody(`"do" must be "choose", "try" or "cancel".`)
	})
}

// withDraft calls do with a draft while it holds the mutex of the drafts, and returns the draft.
func (a *draftAPI) withDraft(id string, do func(d *draft, t *target) *Problem) (Draft, *Problem) {
	t := a.target()
	a.drafts.mu.Lock()
	defer a.drafts.mu.Unlock()
	d, bad := a.drafts.findLocked(id)
	if bad == nil {
		t.project = d.project
		bad = do(d, t)
	}
	if bad != nil {
		return Draft{}, bad
	}
	return a.showLocked(d, t), nil
}

// choose applies a Choice to the draft. If it returns a problem, it has changed nothing.
func (d *draft) choose(q Choice) *Problem {
	names := map[string]string{}
	for _, c := range q.Servers {
		at := slices.IndexFunc(d.servers, func(x *draftServer) bool { return x.key == c.Key })
		switch {
		case at < 0:
			return badBody("The draft has no server with the key " + excerpt.Quote(c.Key, maxName) + ".")
		case d.servers[at].status == intake.Skipped:
			return badBody("Server " + excerpt.Quote(d.servers[at].name, maxName) + " cannot be used: " + excerpt.Line(excerpt.MaskSecrets(d.servers[at].why), maxDraftText) + ".")
		}
		name := cmp.Or(c.Name, d.servers[at].name)
		if p := config.CheckName(name); p != nil {
			return &Problem{Type: "name", Title: "The name is invalid", Status: http.StatusUnprocessableEntity, Detail: sentence(p.Text, p.Hint)}
		}
		names[c.Key] = name
	}
	if q.Secrets != "" && q.Secrets != secretsInFile && q.Secrets != secretsShown {
		return badBody(`"secrets" must be "envFile" or "shown".`)
	}
	needs := map[string]bool{}
	for _, x := range d.servers {
		for _, name := range intake.References(&x.server) {
			needs[name] = true
		}
	}
	for name, value := range q.Values {
		if !needs[name] {
			return badBody("No server of the draft refers to the variable " + excerpt.Quote(name, maxName) + ".")
		}
		if len(value) > maxValue || strings.ContainsRune(value, 0) {
			return badBody("The value of " + excerpt.Quote(name, maxName) + " is longer than 64 KiB or has a NUL character.")
		}
	}
	for name, value := range q.Values {
		if value != "" {
			d.values[name] = value
		}
	}
	if q.Servers != nil {
		for _, x := range d.servers {
			name, ok := names[x.key]
			if x.use = ok; ok {
				x.name = name
			}
		}
	}
	d.secrets = cmp.Or(q.Secrets, d.secrets)
	return nil
}

// showLocked returns the draft for a response, without secrets.
func (a *draftAPI) showLocked(d *draft, t *target) Draft {
	out := Draft{ID: d.id, Form: d.form, File: d.file, Notes: []string{}, Servers: []DraftServer{}, Secrets: d.secrets, Expires: d.used.Add(draftLife).UTC(), Preview: a.plan(d, t).Preview}
	for _, n := range d.notes {
		out.Notes = append(out.Notes, excerpt.Line(excerpt.MaskSecrets(n), maxDraftText))
	}
	for _, x := range d.servers {
		s := DraftServer{
			Key: x.key, Name: x.name, Original: excerpt.Line(x.server.Original, maxName), Status: string(x.status), Use: x.use, Why: excerpt.Line(excerpt.MaskSecrets(x.why), maxDraftText),
			Sets: []string{}, Notes: []string{}, Secrets: []DraftSecret{}, Needs: []DraftVariable{},
		}
		x.describe(&s)
		for _, f := range x.found {
			s.Secrets = append(s.Secrets, DraftSecret{f.Variable, excerpt.Line(f.Place, maxName)})
		}
		for _, name := range intake.References(&x.server) {
			v := DraftVariable{Name: name, From: t.from(name, a.env, d.values)}
			for _, known := range x.server.Variables {
				if known.Name == name {
					v.About = excerpt.Line(excerpt.MaskSecrets(known.About), maxDraftText)
				}
			}
			s.Needs = append(s.Needs, v)
		}
		if x.trial != nil {
			trial := *x.trial
			s.Trial = &trial
		}
		out.Servers = append(out.Servers, s)
	}
	return out
}

// describe sets the fields of s that describe the settings of the server.
func (x *draftServer) describe(s *DraftServer) {
	if x.status != intake.Skipped {
		for _, n := range x.server.Notes {
			s.Notes = append(s.Notes, excerpt.Line(excerpt.MaskSecrets(cmp.Or(n.Key, "The server")+" "+n.Text), maxDraftText))
		}
	}
	e := x.server.Entry
	if e == nil {
		return
	}
	text := func(v *clientfile.Value) string { return excerpt.Line(excerpt.MaskSecrets(v.Text), 4*maxDraftText) }
	if u := e.Get("url"); u != nil {
		s.URL = text(u)
	}
	s.Command, s.Folder = commandOf(e)
	for _, part := range []string{"env", "headers"} {
		if v := e.Get(part); v != nil {
			for _, m := range v.Members {
				s.Sets = append(s.Sets, excerpt.Line(m.Key, maxName))
			}
		}
	}
}

// commandOf returns the command and the working directory of an entry in full, so that the user sees
// exactly what Dragoman would start.
func commandOf(e *clientfile.Value) (command []string, folder string) {
	show := func(v *clientfile.Value) string { return visible(excerpt.MaskSecrets(v.Text)) }
	if dir := e.Get("cwd"); dir != nil {
		folder = show(dir)
	}
	if c := e.Get("command"); c != nil && e.Get("url") == nil {
		command = []string{show(c)}
		if args := e.Get("args"); args != nil {
			for _, i := range args.Items {
				command = append(command, show(i))
			}
		}
	}
	return command, folder
}

// visible replaces each invisible character of a text, such as a line break or a change of the
// writing direction, by an escape. If the text contains an invisible character, or something that
// looks like an escape, visible also doubles each backslash. So two different texts never look the
// same.
func visible(s string) string {
	plain := utf8.ValidString(s)
	for i, r := range s {
		plain = plain && strconv.IsPrint(r) && (r != '\\' || i+1 == len(s) || strings.IndexByte(`abfnrtvxuU\`, s[i+1]) < 0)
	}
	if plain {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}
