package console

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
)

// keepsLock guards the fields of keeps but for away.
var keepsLock sync.Mutex

// keeps is what a test's source has in its database: prompts and secrets.
type keeps struct {
	away    string // see StoreAway
	prompts []admin.PromptDetails
	secrets []admin.SecretEntry
	values  map[string]string // of the secrets
	acts    []string          // who has done what
	bad     *admin.Problem    // the answer to the next change
}

// aPrompt returns a prompt with versions of these texts, of which the one with the number published is served.
func aPrompt(name, about string, published int64, texts ...string) admin.PromptDetails {
	x := admin.PromptDetails{PromptEntry: admin.PromptEntry{Name: name, Project: "default", Description: about, Newest: int64(len(texts)), Published: published, Changed: time.Now(), By: "Ada"}}
	for i, text := range texts {
		v := admin.PromptVersion{Version: int64(i + 1), Description: about, Text: text, Tokens: 7, Made: time.Now(), By: "Ada"}
		names, _ := prompt.Names(text)
		for _, n := range names {
			v.Arguments = append(v.Arguments, admin.PromptArgument{Name: n, Description: about, Values: []string{"brief"}})
		}
		x.Versions = append([]admin.PromptVersion{v}, x.Versions...)
	}
	return x
}

// someKept are those of the scene "kept".
func someKept() keeps {
	active := aPrompt("style", "How we write", 1, "Prices are in cents.")
	active.Active = true
	return keeps{
		prompts: []admin.PromptDetails{
			aPrompt("review", "Review a change", 1, "Look at {{change}}.\nBe kind.", "Look at {{change}}, and be {{tone}}.\nBe\u200b kind.", "Look well."), active, aPrompt("terms", "Words", 2, "Say tool.", "Say tool, and not function."),
		},
		secrets: []admin.SecretEntry{
			{Name: "gh", Project: "default", Changed: time.Now(), By: "Ada", Servers: []string{"files"}}, {Name: "unused", Project: "default", Changed: time.Now(), By: "Ada"},
		},
		values: map[string]string{"gh": "canary-old"},
	}
}

func (k *keeps) StoreAway() string { return k.away }

func (k *keeps) OwnPrompts() (all []admin.PromptEntry, _ *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	for _, x := range k.prompts {
		all = append(all, x.PromptEntry)
	}
	return all, nil
}

func (k *keeps) find(name string) *admin.PromptDetails {
	if i := slices.IndexFunc(k.prompts, func(x admin.PromptDetails) bool { return x.Name == name }); i >= 0 {
		return &k.prompts[i]
	}
	return nil
}

func (k *keeps) FindPrompt(_ context.Context, name string, before int64, limit int) (out admin.PromptDetails, _ *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	x := k.find(name)
	if x == nil {
		return out, &admin.Problem{Status: http.StatusNotFound, Title: "No such prompt"}
	}
	out.PromptEntry = x.PromptEntry
	for _, v := range x.Versions {
		switch {
		case k.away != "" && v.Version != x.Published:
		case k.away != "", (before == 0 || v.Version < before) && len(out.Versions) < limit:
			out.Versions = append(out.Versions, v)
		}
	}
	if k.away != "" {
		return out, &admin.Problem{Status: http.StatusServiceUnavailable, Title: "The database cannot be used"}
	}
	return out, nil
}

func (k *keeps) InstructionsWith(_ context.Context, v *admin.PromptVersion) ([]admin.Instructions, []string) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	return []admin.Instructions{{Text: "For 2026-07-28: " + v.Text, Revisions: []string{"2026-07-28"}}, {Text: v.Text, Revisions: []string{"2025-11-25", "2025-06-18"}}}, []string{"search"}
}

// did notes an act, or returns the problem that the test has set.
func (k *keeps) did(what string) *admin.Problem {
	if bad := k.bad; bad != nil {
		k.bad = nil
		return bad
	}
	k.acts = append(k.acts, what)
	return nil
}

func (k *keeps) AddPrompt(_ context.Context, by string, q admin.PromptRequest) (out admin.KeptPrompt, bad *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	p := prompt.Prompt{Name: q.Name, Description: q.Description, Text: q.Text}
	for _, a := range q.Arguments {
		p.Arguments = append(p.Arguments, prompt.Argument(a))
	}
	if m, ok := prompt.MistakeOf(p.Check()); ok {
		return out, &admin.Problem{Status: http.StatusUnprocessableEntity, Detail: m.Text + ".", Errors: []admin.ValueError{{Pointer: "/" + m.Part, Detail: m.Text}}}
	}
	if bad := k.did(by + " wrote " + q.Name); bad != nil {
		return out, bad
	}
	x := k.find(q.Name)
	if x == nil {
		k.prompts = append(k.prompts, admin.PromptDetails{PromptEntry: admin.PromptEntry{Name: q.Name}})
		x = k.find(q.Name)
	}
	x.Newest++
	x.Versions = append([]admin.PromptVersion{{Version: x.Newest, Description: q.Description, Text: q.Text, Arguments: q.Arguments}}, x.Versions...)
	return admin.KeptPrompt{PromptEntry: x.PromptEntry}, nil
}

func (k *keeps) PublishPrompt(_ context.Context, by, name string, version int64) (out admin.KeptPrompt, bad *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	if bad := k.did(by + " published " + name + " " + number(version)); bad != nil {
		return out, bad
	}
	k.find(name).Published = version
	return admin.KeptPrompt{PromptEntry: k.find(name).PromptEntry}, nil
}

func (k *keeps) ActivatePrompt(_ context.Context, by, name string) (out admin.KeptPrompt, bad *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	if bad := k.did(by + " activated " + name); bad != nil {
		return out, bad
	}
	k.find(name).Active = true
	return admin.KeptPrompt{PromptEntry: k.find(name).PromptEntry}, nil
}

func (k *keeps) PutOffPrompt(_ context.Context, by, name string) (out admin.KeptPrompt, bad *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	if bad := k.did(by + " put off " + name); bad != nil {
		return out, bad
	}
	k.find(name).Published, k.find(name).Active = 0, false
	return admin.KeptPrompt{PromptEntry: k.find(name).PromptEntry}, nil
}

func (k *keeps) OwnSecrets() ([]admin.SecretEntry, *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	return slices.Clone(k.secrets), nil
}

func (k *keeps) SetSecret(_ context.Context, by, name string, q admin.SecretRequest) (out admin.KeptSecret, bad *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	if bad := k.did(by + " set " + name); bad != nil {
		return out, bad
	}
	if k.values[name] == "" {
		k.secrets = append(k.secrets, admin.SecretEntry{Name: name, Changed: time.Now(), By: by})
	}
	k.values[name] = q.Value
	return out, nil
}

func (k *keeps) RemoveSecret(_ context.Context, by, name string) (out admin.SecretEntry, bad *admin.Problem) {
	keepsLock.Lock()
	defer keepsLock.Unlock()
	if bad := k.did(by + " removed " + name); bad != nil {
		return out, bad
	}
	k.secrets = slices.DeleteFunc(k.secrets, func(x admin.SecretEntry) bool { return x.Name == name })
	return out, nil
}
