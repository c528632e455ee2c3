package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Prompts is a page of a project's own prompts, sorted by name.
type Prompts struct {
	Prompts []PromptEntry `json:"prompts" doc:"the prompts of this page, without their texts"`
	Total   int           `json:"total" doc:"number of prompts on all pages"`
	Next    string        `json:"next,omitempty" doc:"the cursor of the next page"`
}

// PromptEntry is a prompt without its text.
type PromptEntry struct {
	Name        string    `json:"name" doc:"the prompt's name, under which clients see it"`
	Project     string    `json:"project" doc:"the project that has the prompt"`
	Description string    `json:"description,omitempty" doc:"what the published version says it's for; without one, the newest"`
	Newest      int64     `json:"newest" doc:"the number of the last version; the first is 1"`
	Published   int64     `json:"published" doc:"the version that clients get; 0 if none is published"`
	Active      bool      `json:"active" doc:"whether the published version is part of the instructions"`
	Tokens      int       `json:"tokens" doc:"about how many tokens the published version's text needs in a model's context; 0 if none is published"`
	Changed     time.Time `json:"changed" doc:"when the last version was made"`
	By          string    `json:"by" doc:"who made it"`
}

// PromptDetails is a prompt with some of its versions.
type PromptDetails struct {
	PromptEntry
	Versions []PromptVersion `json:"versions" doc:"versions of the prompt, the newest first"`
}

// PromptVersion is one version of a prompt.
type PromptVersion struct {
	Version     int64            `json:"version" doc:"the version's number"`
	Description string           `json:"description,omitempty" doc:"what it's for"`
	Text        string           `json:"text" doc:"the text, in which {{name}} is an argument"`
	Arguments   []PromptArgument `json:"arguments" doc:"the arguments of the text"`
	Tokens      int              `json:"tokens" doc:"about how many tokens the text needs in a model's context, without the values of its arguments"`
	Made        time.Time        `json:"made" doc:"when the version was made"`
	By          string           `json:"by" doc:"who made it"`
}

// PromptArgument is an argument of a prompt.
type PromptArgument struct {
	Name        string   `json:"name" doc:"the argument's name: small letters, digits and _"`
	Description string   `json:"description,omitempty" doc:"what to write there"`
	Values      []string `json:"values,omitempty" doc:"what clients suggest for it; other values are accepted, too"`
}

// PromptRequest is what the next version of a prompt shall be.
type PromptRequest struct {
	Name        string           `json:"name" doc:"the prompt's name: small letters, digits, - and _"`
	Description string           `json:"description,omitempty" doc:"what it's for"`
	Text        string           `json:"text" doc:"the text; each {{name}} in it is an argument"`
	Arguments   []PromptArgument `json:"arguments,omitempty" doc:"the arguments of the text, each once"`
}

// PromptPublication says which version of a prompt is published.
type PromptPublication struct {
	Version int64 `json:"version,omitempty" doc:"the version's number; without it, the newest"`
}

// KeptPrompt is a prompt that has just been changed.
type KeptPrompt struct {
	PromptEntry
	Note string `json:"note,omitempty" doc:"a sentence if dragoman forgets the prompt when it ends"`
}

var promptRoutes = []route{
	{
		method: http.MethodGet, path: "/prompts", house: true, least: identity.Viewer, name: "prompts", summary: "The project's own prompts, without their texts",
		query: pageParameters, answer: Prompts{}, problems: []int{400, 409}, read: func(a *API, r *http.Request) (any, *Problem) { return a.readPrompts(r) },
	},
	{
		method: http.MethodGet, path: "/prompts/{name}", house: true, least: identity.Viewer, name: "prompt", summary: "A prompt with its versions, the newest first",
		query: []parameter{
			{"limit", "integer", "how many versions to return, 1 to 50; the default is 10"},
			{"before", "integer", "only versions older than the one with this number"},
		},
		answer: PromptDetails{}, problems: slices.Concat([]int{400, 404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.readPrompt(r)) },
	},
	{
		method: http.MethodGet, path: "/prompts/{name}/instructions", house: true, least: identity.Viewer, name: "promptInstructions", summary: "What clients of each revision would get as instructions if a prompt were the active one",
		query:  []parameter{{"version", "integer", "the version's number; the default is the published one, or else the newest"}},
		answer: PromptInstructions{}, problems: slices.Concat([]int{400, 404, 422}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.readInstructions(r)) },
	},
	{
		method: http.MethodPost, path: "/prompts", house: true, least: identity.Operator, name: "addPrompt", summary: "Add a version of a prompt, which nobody gets before it's published; the versions before stay",
		body: PromptRequest{}, answer: KeptPrompt{}, status: http.StatusCreated, problems: slices.Concat([]int{400, 413, 415, 422}, houseProblems),
		read: withBody(maxPromptBody, func(a *API, r *http.Request, q PromptRequest) (KeptPrompt, *Problem) {
			return a.changePrompt(r, func(by string) (KeptPrompt, *Problem) { return a.AddPrompt(r.Context(), by, q) })
		}),
	},
	{
		method: http.MethodPost, path: "/prompts/{name}/publish", house: true, least: identity.Operator, name: "publishPrompt", summary: "Let clients get a version of a prompt, in place of the one before",
		body: PromptPublication{}, answer: KeptPrompt{}, problems: slices.Concat([]int{400, 404, 413, 415, 422}, houseProblems),
		read: withBody(maxPromptBody, func(a *API, r *http.Request, q PromptPublication) (KeptPrompt, *Problem) {
			return a.changePrompt(r, func(by string) (KeptPrompt, *Problem) {
				return a.PublishPrompt(r.Context(), by, r.PathValue("name"), q.Version)
			})
		}),
	},
	{
		method: http.MethodPost, path: "/prompts/{name}/activate", house: true, least: identity.Operator, name: "activatePrompt", summary: "Make a published prompt part of the instructions, in place of the one before",
		answer: KeptPrompt{}, problems: slices.Concat([]int{404, 422}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) {
			return result(a.changePrompt(r, func(by string) (KeptPrompt, *Problem) {
				return a.ActivatePrompt(r.Context(), by, r.PathValue("name"))
			}))
		},
	},
	{
		method: http.MethodPost, path: "/prompts/{name}/off", house: true, least: identity.Operator, name: "putOffPrompt", summary: "Let clients get no version of a prompt any more, and take it out of the instructions; its versions stay",
		answer: KeptPrompt{}, problems: slices.Concat([]int{404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) {
			return result(a.changePrompt(r, func(by string) (KeptPrompt, *Problem) {
				return a.PutOffPrompt(r.Context(), by, r.PathValue("name"))
			}))
		},
	},
}

// maxPromptBody is the maximum size in bytes of a request about a prompt, each byte of which may be escaped.
const maxPromptBody = 6*(prompt.MaxText+prompt.MaxArguments*prompt.MaxDescription) + prompt.MaxArguments*prompt.MaxValues*prompt.MaxValue

// The number of versions in an answer.
const usualVersions, mostVersions = 10, 50

// promptAPI keeps the prompts of a project.
type promptAPI struct{ house }

// OwnPrompts returns the prompts of the project, sorted by name, also while the database can't be read.
func (a *promptAPI) OwnPrompts() ([]PromptEntry, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	stored := a.safe.Store().Snapshot().Prompts(a.project.name())
	all := make([]PromptEntry, 0, len(stored))
	for i := range stored {
		all = append(all, a.showPrompt(&stored[i]))
	}
	return all, nil
}

// readPrompts answers GET /prompts.
func (a *promptAPI) readPrompts(r *http.Request) (any, *Problem) {
	all, bad := a.OwnPrompts()
	if bad != nil {
		return nil, bad
	}
	p, bad := pageOf(r, all, func(x *PromptEntry) string { return x.Name })
	if bad != nil {
		return nil, bad
	}
	return Prompts{Prompts: p.items, Total: len(all), Next: p.next}, nil
}

// readPrompt answers GET /prompts/{name}.
func (a *promptAPI) readPrompt(r *http.Request) (PromptDetails, *Problem) {
	if bad := a.closed(); bad != nil {
		return PromptDetails{}, bad
	}
	limit, before := usualVersions, int64(0)
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostVersions {
			return PromptDetails{}, badParameter("limit", fmt.Sprintf("Write a number from 1 to %d.", mostVersions))
		}
		limit = n
	}
	if text := r.URL.Query().Get("before"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return PromptDetails{}, badParameter("before", "Write the number of a version.")
		}
		before = n
	}
	return a.FindPrompt(r.Context(), r.PathValue("name"), before, limit)
}

// FindPrompt returns a prompt with at most so many versions before one; 0 is the newest. It reads the database. If
// that can't be read, it returns a problem, and with it the prompt with the version that clients get, if there is one.
func (a *promptAPI) FindPrompt(ctx context.Context, name string, before int64, limit int) (out PromptDetails, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	x, bad := a.prompt(name)
	if bad != nil {
		return out, bad
	}
	out = PromptDetails{PromptEntry: a.showPrompt(&x), Versions: []PromptVersion{}}
	list, err := a.safe.Store().PromptVersions(ctx, x.Project, x.Name, before, limit)
	if err != nil {
		if bad = a.problem(err); x.Published != 0 {
			list = []store.PromptVersion{x.Served}
		}
	}
	for _, v := range list {
		one := PromptVersion{Version: v.Version, Description: v.Description, Text: v.Text, Arguments: []PromptArgument{}, Tokens: tokens.Text(v.Text), Made: v.Made.UTC(), By: a.nameOf(v.Actor)}
		for _, arg := range v.Arguments {
			one.Arguments = append(one.Arguments, PromptArgument(arg))
		}
		out.Versions = append(out.Versions, one)
	}
	return out, bad
}

// changePrompt answers a request to change a prompt: change gets the subject of its sender.
func (a *promptAPI) changePrompt(r *http.Request, change func(by string) (KeptPrompt, *Problem)) (KeptPrompt, *Problem) {
	by, bad := a.changer(r)
	if bad != nil {
		return KeptPrompt{}, bad
	}
	return change(by)
}

// AddPrompt adds a version of a prompt for by, the subject of a principal. Nobody gets it before it's published.
func (a *promptAPI) AddPrompt(ctx context.Context, by string, q PromptRequest) (KeptPrompt, *Problem) {
	p := prompt.Prompt{Name: q.Name, Description: q.Description, Text: q.Text, Arguments: []prompt.Argument{}}
	for _, arg := range q.Arguments {
		p.Arguments = append(p.Arguments, prompt.Argument(arg))
	}
	if err := p.Check(); err != nil {
		return KeptPrompt{}, a.promptProblem(err)
	}
	return a.writePrompt(ctx, by, p.Name, func(t *store.Tx) error {
		_, err := t.AddPrompt(a.project.name(), &p)
		return err
	})
}

// PublishPrompt lets clients get a version of a prompt in place of the one before; 0 is the newest.
func (a *promptAPI) PublishPrompt(ctx context.Context, by, name string, version int64) (KeptPrompt, *Problem) {
	return a.writePrompt(ctx, by, name, func(t *store.Tx) error {
		published, err := t.PublishPrompt(a.project.name(), name, version, (*prompt.Prompt).CheckActive)
		if published != 0 || err != nil {
			return err
		}
		x, bad := a.prompt(name)
		if bad != nil {
			return bad
		}
		return noVersion(x.Name, version, x.Newest)
	})
}

// ActivatePrompt makes the published version of a prompt part of the instructions, in place of the prompt before.
func (a *promptAPI) ActivatePrompt(ctx context.Context, by, name string) (KeptPrompt, *Problem) {
	return a.writePrompt(ctx, by, name, func(t *store.Tx) error {
		version, err := t.ActivatePrompt(a.project.name(), name, (*prompt.Prompt).CheckActive)
		if version != 0 || err != nil {
			return err
		}
		if _, bad := a.prompt(name); bad != nil {
			return bad
		}
		return conflict("not-published", "The prompt can't be active", "No version of "+name+" is published. Publish one first.")
	})
}

// PutOffPrompt lets clients get no version of a prompt any more.
func (a *promptAPI) PutOffPrompt(ctx context.Context, by, name string) (KeptPrompt, *Problem) {
	return a.writePrompt(ctx, by, name, func(t *store.Tx) error {
		_, err := t.PutOffPrompt(a.project.name(), name)
		return err
	})
}

// PromptInstructions is what clients would get as instructions with another active prompt.
type PromptInstructions struct {
	Name    string         `json:"name" doc:"the prompt's name"`
	Version int64          `json:"version" doc:"its version"`
	Texts   []Instructions `json:"texts" doc:"an entry for each different text"`
	Unread  []string       `json:"unread" doc:"the servers whose part isn't known yet"`
}

// Instructions are what clients of some revisions get as instructions.
type Instructions struct {
	Text      string   `json:"text" doc:"the whole text"`
	Revisions []string `json:"revisions" doc:"the revisions whose clients get it"`
	Tokens    int      `json:"tokens" doc:"about how many tokens it needs in a model's context"`
}

// readInstructions answers GET /prompts/{name}/instructions.
func (a *promptAPI) readInstructions(r *http.Request) (out PromptInstructions, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return out, bad
	}
	version := int64(0)
	if text := r.URL.Query().Get("version"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return out, badParameter("version", "Write the number of a version.")
		}
		version = n
	}
	x, bad := a.prompt(r.PathValue("name"))
	if bad != nil {
		return out, bad
	}
	if version == 0 {
		version = cmp.Or(x.Published, x.Newest)
	}
	found, bad := a.FindPrompt(r.Context(), x.Name, version+1, 1)
	switch {
	case bad != nil:
		return out, bad
	case len(found.Versions) == 0 || found.Versions[0].Version != version:
		return out, noVersion(x.Name, version, x.Newest)
	case len(found.Versions[0].Arguments) > 0:
		return out, &Problem{Type: "prompt", Title: "This prompt can't be used this way", Status: http.StatusUnprocessableEntity, Detail: "Version " + strconv.FormatInt(version, 10) + " has arguments, and clients send none for instructions. Write a version without arguments."}
	}
	out = PromptInstructions{Name: x.Name, Version: version, Unread: []string{}}
	texts, unread := a.InstructionsWith(r.Context(), &found.Versions[0])
	out.Texts, out.Unread = texts, append(out.Unread, unread...)
	return out, nil
}

func noVersion(name string, version, newest int64) *Problem {
	return &Problem{Type: "no-such-version", Title: "No such version", Status: http.StatusNotFound, Detail: fmt.Sprintf("The prompt %s has no version %d; the newest is %d.", name, version, newest)}
}

// InstructionsWith returns what clients of each revision would get as instructions from the project's endpoint if a
// prompt were the active one with this version: an entry for each different text. unread has the names of servers
// whose part isn't known yet. It sends nothing to servers.
func (a *promptAPI) InstructionsWith(ctx context.Context, v *PromptVersion) (all []Instructions, unread []string) {
	active := prompt.Prompt{Description: v.Description, Text: v.Text}
	for _, revision := range mcp.Revisions() {
		text := active.Instructions()
		if a.project.Project != nil {
			text, unread = a.project.InstructionsWith(ctx, revision, &active)
		}
		i := slices.IndexFunc(all, func(x Instructions) bool { return x.Text == text })
		if i < 0 {
			i = len(all)
			all = append(all, Instructions{Text: text, Tokens: tokens.Text(text)})
		}
		all[i].Revisions = append(all[i].Revisions, revision.String())
	}
	return all, unread
}

// writePrompt makes a change of a prompt, and returns the prompt as it is then.
func (a *promptAPI) writePrompt(ctx context.Context, by, name string, change func(*store.Tx) error) (KeptPrompt, *Problem) {
	if bad := a.closed(); bad != nil {
		return KeptPrompt{}, bad
	}
	if err := a.safe.Store().Write(ctx, by, change); err != nil {
		return KeptPrompt{}, a.promptProblem(err)
	}
	x, bad := a.prompt(name)
	if bad != nil {
		return KeptPrompt{}, bad
	}
	return KeptPrompt{a.showPrompt(&x), a.note()}, nil
}

// promptProblem returns the problem for an error of a change.
func (a *promptAPI) promptProblem(err error) *Problem {
	var bad *Problem
	if m, ok := prompt.MistakeOf(err); ok {
		out := &Problem{Type: "prompt", Title: "This prompt can't be used this way", Status: http.StatusUnprocessableEntity, Detail: sentence(m.Text, m.Next)}
		if m.Part != "" {
			out.Errors = []ValueError{{"/" + m.Part, m.Text}}
		}
		return out
	} else if errors.As(err, &bad) {
		return bad
	}
	return a.problem(err)
}

// prompt returns a prompt of the project. The problem, if there is none, says which name was perhaps meant.
func (a *promptAPI) prompt(name string) (store.Prompt, *Problem) {
	now := a.safe.Store().Snapshot()
	if x, ok := now.Prompt(a.project.name(), name); ok {
		return x, nil
	}
	bad := &Problem{Type: "no-such-prompt", Title: "No such prompt", Status: http.StatusNotFound, Detail: "The project has no prompt " + excerpt.Quote(name, maxName) + " of its own."}
	var names []string
	for _, x := range now.Prompts(a.project.name()) {
		names = append(names, x.Name)
	}
	if near := config.Suggest(name, names); near != "" {
		bad.Detail += " Did you mean " + excerpt.Quote(near, maxName) + "?"
	}
	return store.Prompt{}, bad
}

func (a *promptAPI) showPrompt(x *store.Prompt) PromptEntry {
	about, cost := x.Last.Description, 0
	if x.Published != 0 {
		about, cost = x.Served.Description, tokens.Text(x.Served.Text)
	}
	return PromptEntry{
		Name: x.Name, Project: x.Project, Description: about, Newest: x.Newest, Published: x.Published, Active: x.Active, Tokens: cost,
		Changed: x.Last.Made.UTC(), By: a.nameOf(x.Last.Actor),
	}
}
