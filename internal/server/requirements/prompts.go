package requirements

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// activeKey is the member of a prompt's _meta that marks the active prompt.
const activeKey = "io.github.dragoman-mcp/active"

// maxArguments is the maximum number of arguments of a prompt.
const maxArguments = 20

var placeholder = pattern.Later(`\{\{([a-z][a-z0-9_]{0,63})\}\}`)

// placeholders returns the names in double braces in the content of a prompt, each once. These
// names are the arguments of the prompt.
func placeholders(p store.Prompt) []string {
	names := []string{}
	for _, m := range placeholder().FindAllStringSubmatch(p.Content, -1) {
		if !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// acceptable returns an error for a prompt with too many arguments. It also returns an error for an
// active prompt with an argument, because clients cannot send values for arguments of the
// instructions.
func acceptable(p store.Prompt) error {
	names := placeholders(p)
	if len(names) > maxArguments {
		return &store.Error{Code: store.Invalid, Text: fmt.Sprintf("the content has %d arguments, and at most %d are allowed", len(names), maxArguments), Next: "use fewer names in double braces"}
	}
	if p.Active {
		return activatable(p)
	}
	return nil
}

func activatable(p store.Prompt) error {
	if names := placeholders(p); len(names) > 0 {
		return &store.Error{Code: store.Forbidden, Text: fmt.Sprintf("the prompt %s has the argument %s, and instructions cannot have arguments", p.Name, names[0]), Next: "use a prompt without names in double braces"}
	}
	return nil
}

// Activate makes the prompt with this name the active prompt. If name is "", no prompt is active
// afterwards.
func Activate(ctx context.Context, s *store.Store, name string) error {
	return s.Activate(ctx, name, activatable)
}

type nameIn struct {
	Name string `json:"name" jsonschema:"the name of the prompt"`
}

type noIn struct{}

type saveIn struct {
	Name        string `json:"name" jsonschema:"small letters, digits, - and _"`
	Title       string `json:"title,omitempty" jsonschema:"for people"`
	Description string `json:"description,omitempty" jsonschema:"what the prompt is for; part of the instructions if the prompt is active"`
	Content     string `json:"content" jsonschema:"the text; a name in double braces, such as {{story}}, is an argument"`
	Version     int64  `json:"version,omitempty" jsonschema:"the version that you have read, to replace a prompt; leave it out to create one"`
}

type promptsOut struct {
	Prompts []prompt `json:"prompts" jsonschema:"without their contents; the resource of a prompt has it"`
}

func (s *Server) addPromptTools() {
	add(s, tool{
		name: "list_prompts", title: "List the prompts",
		description: "Lists all prompts, and says which one is active.",
	}, func(ctx context.Context, _ *mcp.CallToolRequest, _ noIn) (promptsOut, error) {
		all, err := s.store.Prompts(ctx)
		out := promptsOut{Prompts: []prompt{}}
		for _, p := range all {
			one := promptOf(p)
			one.Content = ""
			out.Prompts = append(out.Prompts, one)
		}
		return out, err
	})
	add(s, tool{
		name: "save_prompt", title: "Create or replace a prompt", writes: true, destroys: true,
		description: "Creates a prompt, or replaces the one with this name and version.",
		restrict: func(p map[string]*jsonschema.Schema) {
			longest(p["title"], store.MaxTitle)
			longest(p["description"], store.MaxSummary)
			longest(p["content"], store.MaxContent)
			longest(p["name"], store.MaxName)
			tools.Range(p["version"], 0, 1<<53)
		},
	}, func(ctx context.Context, req *mcp.CallToolRequest, in saveIn) (prompt, error) {
		who, err := s.writer(req, "")
		if err != nil {
			return prompt{}, err
		}
		p, err := s.store.SavePrompt(ctx, store.Prompt{Editor: who, Name: in.Name, Title: in.Title, Description: in.Description, Content: in.Content, Version: in.Version}, acceptable)
		return promptOf(p), err
	})
	s.addActivePromptTools()
	add(s, tool{
		name: "delete_prompt", title: "Delete a prompt", writes: true, destroys: true,
		description: "Deletes a prompt for good. If it is active, none is active afterwards.",
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in nameIn) (prompt, error) {
		p, err := s.store.Prompt(ctx, in.Name)
		if err == nil {
			err = s.store.DeletePrompt(ctx, in.Name)
		}
		return promptOf(p), err
	})
}

// addActivePromptTools adds the tools that choose the active prompt.
func (s *Server) addActivePromptTools() {
	add(s, tool{
		name: "activate_prompt", title: "Activate a prompt", writes: true, idempotent: true,
		description: "Makes a prompt the active one. Its description and content become the instructions of this server for new sessions. The formerly active prompt stays, but is not active any more.",
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in nameIn) (prompt, error) {
		if in.Name == "" {
			return prompt{}, &store.Error{Code: store.Invalid, Text: "the name is empty", Next: "name a prompt, or use deactivate_prompt"}
		}
		if err := Activate(ctx, s.store, in.Name); err != nil {
			return prompt{}, err
		}
		p, err := s.store.Prompt(ctx, in.Name)
		return promptOf(p), err
	})
	type deactivated struct {
		Name string `json:"name,omitempty" jsonschema:"the prompt that was active"`
	}
	add(s, tool{
		name: "deactivate_prompt", title: "Deactivate the active prompt", writes: true, idempotent: true,
		description: "Leaves no prompt active. New sessions get no instructions.",
	}, func(ctx context.Context, _ *mcp.CallToolRequest, _ noIn) (deactivated, error) {
		was, err := s.store.Active(ctx)
		if err == nil {
			err = Activate(ctx, s.store, "")
		}
		return deactivated{was.Name}, err
	})
}

// loadPrompts gives the current prompts to the SDK. The SDK notifies the clients if the prompts
// have changed. Only one goroutine calls loadPrompts at a time.
func (s *Server) loadPrompts(ctx context.Context) error {
	all, err := s.store.Prompts(ctx)
	if err != nil {
		return err
	}
	now := map[string]store.Prompt{}
	for _, p := range all {
		now[p.Name] = p
		if was, ok := s.feed.prompts[p.Name]; ok && was == p {
			continue
		}
		m := &mcp.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
		for _, name := range placeholders(p) {
			m.Arguments = append(m.Arguments, &mcp.PromptArgument{Name: name, Required: true, Description: argumentText(name)})
		}
		if p.Active {
			m.Meta = mcp.Meta{activeKey: true}
		}
		s.mcp.AddPrompt(m, s.getPrompt)
	}
	var gone []string
	for name := range s.feed.prompts {
		if _, ok := now[name]; !ok {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		s.mcp.RemovePrompts(gone...)
	}
	s.feed.prompts = now
	return nil
}

// kindsOf returns the kinds of items whose ids are possible values of an argument with this name.
func kindsOf(argument string) []store.Kind {
	switch argument {
	case "epic":
		return []store.Kind{store.Epic}
	case "story", "user_story":
		return []store.Kind{store.Story}
	case "criterion", "acceptance_criterion":
		return []store.Kind{store.Criterion}
	case "requirement":
		return []store.Kind{store.Requirement}
	case "id", "item":
		return store.Kinds()
	}
	return nil
}

func argumentText(name string) string {
	switch kinds := kindsOf(name); len(kinds) {
	case 0:
		return ""
	case 1:
		return "an id such as " + store.Prefix(kinds[0]) + "-001; the item is added to the prompt"
	}
	return "the id of an item; the item is added to the prompt"
}

// getPrompt returns a prompt with the values of its arguments filled in. If a value is the id of an
// item, the result also contains the item.
func (s *Server) getPrompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	done, err := s.begin(ctx)
	if err != nil {
		return nil, wrong(err.Error())
	}
	defer done()
	p, err := s.store.Prompt(ctx, req.Params.Name)
	if err != nil {
		return nil, protocol(err)
	}
	values := map[string]string{}
	var missing []string
	for _, name := range placeholders(p) {
		v, ok := req.Params.Arguments[name]
		if !ok {
			missing = append(missing, name)
		}
		values[name] = v
	}
	if len(missing) > 0 {
		return nil, wrong(fmt.Sprintf("the prompt %s needs the argument %s. Add it to arguments.", p.Name, strings.Join(missing, " and ")))
	}
	text := placeholder().ReplaceAllStringFunc(p.Content, func(m string) string { return values[strings.Trim(m, "{}")] })
	res := &mcp.GetPromptResult{
		Description: p.Description,
		Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
	}
	var added []string
	for _, name := range placeholders(p) {
		id, _, err := store.ParseID(values[name])
		if err != nil || slices.Contains(added, id) {
			continue
		}
		d, err := s.store.Details(ctx, id)
		if store.IsCode(err, store.NotFound) {
			continue
		}
		if err != nil {
			return nil, protocol(err)
		}
		added = append(added, id)
		res.Messages = append(res.Messages, &mcp.PromptMessage{Role: "user", Content: &mcp.EmbeddedResource{Resource: document(uriOf(id), detailsOf(d))}})
	}
	return res, nil
}
