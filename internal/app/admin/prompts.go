package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
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
		method: http.MethodPost, path: "/prompts", house: true, least: identity.Operator, name: "addPrompt", summary: "Add a version of a prompt, which nobody gets before it's published; the versions before stay",
		body: PromptRequest{}, answer: KeptPrompt{}, status: http.StatusCreated, problems: slices.Concat([]int{400, 413, 415, 422}, houseProblems),
		read: withBody(maxPromptBody, func(a *API, r *http.Request, q PromptRequest) (KeptPrompt, *Problem) { return a.addPrompt(r, q) }),
	},
	{
		method: http.MethodPost, path: "/prompts/{name}/publish", house: true, least: identity.Operator, name: "publishPrompt", summary: "Let clients get a version of a prompt, in place of the one before",
		body: PromptPublication{}, answer: KeptPrompt{}, problems: slices.Concat([]int{400, 404, 413, 415, 422}, houseProblems),
		read: withBody(maxPromptBody, func(a *API, r *http.Request, q PromptPublication) (KeptPrompt, *Problem) {
			return a.publishPrompt(r, q)
		}),
	},
	{
		method: http.MethodPost, path: "/prompts/{name}/activate", house: true, least: identity.Operator, name: "activatePrompt", summary: "Make a published prompt part of the instructions, in place of the one before",
		answer: KeptPrompt{}, problems: slices.Concat([]int{404, 422}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.activatePrompt(r)) },
	},
	{
		method: http.MethodPost, path: "/prompts/{name}/off", house: true, least: identity.Operator, name: "putOffPrompt", summary: "Let clients get no version of a prompt any more, and take it out of the instructions; its versions stay",
		answer: KeptPrompt{}, problems: slices.Concat([]int{404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.putOffPrompt(r)) },
	},
}

// maxPromptBody is the maximum size in bytes of a request about a prompt, each byte of which may be escaped.
const maxPromptBody = 6*(prompt.MaxText+prompt.MaxArguments*prompt.MaxDescription) + prompt.MaxArguments*prompt.MaxValues*prompt.MaxValue

// The number of versions in an answer.
const usualVersions, mostVersions = 10, 50

// promptAPI keeps the prompts of a project.
type promptAPI struct{ house }

// readPrompts answers GET /prompts.
func (a *promptAPI) readPrompts(r *http.Request) (any, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	all := a.safe.Store().Snapshot().Prompts(a.project.name())
	p, bad := pageOf(r, all, func(x *store.Prompt) string { return x.Name })
	if bad != nil {
		return nil, bad
	}
	out := Prompts{Prompts: make([]PromptEntry, 0, len(p.items)), Total: len(all), Next: p.next}
	for i := range p.items {
		out.Prompts = append(out.Prompts, a.showPrompt(&p.items[i]))
	}
	return out, nil
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
	x, bad := a.prompt(r.PathValue("name"))
	if bad != nil {
		return PromptDetails{}, bad
	}
	list, err := a.safe.Store().PromptVersions(r.Context(), x.Project, x.Name, before, limit)
	if err != nil {
		return PromptDetails{}, a.problem(err)
	}
	out := PromptDetails{PromptEntry: a.showPrompt(&x), Versions: []PromptVersion{}}
	for _, v := range list {
		one := PromptVersion{Version: v.Version, Description: v.Description, Text: v.Text, Arguments: []PromptArgument{}, Made: v.Made.UTC(), By: a.nameOf(v.Actor)}
		for _, arg := range v.Arguments {
			one.Arguments = append(one.Arguments, PromptArgument(arg))
		}
		out.Versions = append(out.Versions, one)
	}
	return out, nil
}

// addPrompt answers POST /prompts.
func (a *promptAPI) addPrompt(r *http.Request, q PromptRequest) (KeptPrompt, *Problem) {
	p := prompt.Prompt{Name: q.Name, Description: q.Description, Text: q.Text, Arguments: []prompt.Argument{}}
	for _, arg := range q.Arguments {
		p.Arguments = append(p.Arguments, prompt.Argument(arg))
	}
	if err := p.Check(); err != nil {
		return KeptPrompt{}, a.promptProblem(err)
	}
	return a.changePrompt(r, p.Name, func(t *store.Tx) error {
		_, err := t.AddPrompt(a.project.name(), &p)
		return err
	})
}

// publishPrompt answers POST /prompts/{name}/publish.
func (a *promptAPI) publishPrompt(r *http.Request, q PromptPublication) (KeptPrompt, *Problem) {
	name := r.PathValue("name")
	return a.changePrompt(r, name, func(t *store.Tx) error {
		version, err := t.PublishPrompt(a.project.name(), name, q.Version, (*prompt.Prompt).CheckActive)
		if version != 0 || err != nil {
			return err
		}
		x, bad := a.prompt(name)
		if bad != nil {
			return bad
		}
		return &Problem{Type: "no-such-version", Title: "No such version", Status: http.StatusNotFound, Detail: fmt.Sprintf("The prompt %s has no version %d; the newest is %d.", x.Name, q.Version, x.Newest)}
	})
}

// activatePrompt answers POST /prompts/{name}/activate.
func (a *promptAPI) activatePrompt(r *http.Request) (KeptPrompt, *Problem) {
	name := r.PathValue("name")
	return a.changePrompt(r, name, func(t *store.Tx) error {
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

// putOffPrompt answers POST /prompts/{name}/off.
func (a *promptAPI) putOffPrompt(r *http.Request) (KeptPrompt, *Problem) {
	name := r.PathValue("name")
	return a.changePrompt(r, name, func(t *store.Tx) error {
		_, err := t.PutOffPrompt(a.project.name(), name)
		return err
	})
}

// changePrompt makes a change of a prompt for the sender of a request, and returns the prompt as it is then.
func (a *promptAPI) changePrompt(r *http.Request, name string, change func(*store.Tx) error) (KeptPrompt, *Problem) {
	who, bad := a.changer(r)
	if bad != nil {
		return KeptPrompt{}, bad
	}
	if err := a.safe.Store().Write(r.Context(), who, change); err != nil {
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
		return &Problem{Type: "prompt", Title: "This prompt can't be used this way", Status: http.StatusUnprocessableEntity, Detail: sentence(m.Text, m.Next)}
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
	about := x.Last.Description
	if x.Published != 0 {
		about = x.Served.Description
	}
	return PromptEntry{
		Name: x.Name, Project: x.Project, Description: about, Newest: x.Newest, Published: x.Published, Active: x.Active,
		Changed: x.Last.Made.UTC(), By: a.nameOf(x.Last.Actor),
	}
}
