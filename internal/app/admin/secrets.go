package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// Secrets is a page of the secrets of a project, sorted by name.
type Secrets struct {
	Secrets []SecretEntry `json:"secrets" doc:"the secrets of this page, without their values"`
	Total   int           `json:"total" doc:"number of secrets on all pages"`
	Next    string        `json:"next,omitempty" doc:"the cursor of the next page"`
}

// SecretEntry is a secret without its value.
type SecretEntry struct {
	Name    string    `json:"name" doc:"the secret's name"`
	Project string    `json:"project" doc:"the project that can use the secret"`
	Changed time.Time `json:"changed" doc:"when its value was set last"`
	By      string    `json:"by" doc:"who set it"`
	// What the configuration that is in use says.
	Servers  []string `json:"servers,omitempty" doc:"the servers whose settings refer to the secret"`
	Settings []string `json:"settings,omitempty" doc:"the paths of other settings that refer to it"`
}

// SecretRequest has the value of a secret.
type SecretRequest struct {
	Value string `json:"value" doc:"the value: text in UTF-8 of 1 byte to 64 KiB"`
}

// KeptSecret is a secret that has just been set.
type KeptSecret struct {
	SecretEntry
	Note string `json:"note,omitempty" doc:"a sentence if dragoman forgets the secret when it ends"`
}

// Resealed is the response of /secrets/rotate-key.
type Resealed struct {
	Values int    `json:"values" doc:"number of values that were sealed with the new key: secrets, and what the API keys are checked with"`
	Note   string `json:"note,omitempty" doc:"a sentence if dragoman forgets everything when it ends"`
}

var secretRoutes = []route{
	{
		method: http.MethodGet, path: "/secrets", house: true, least: identity.Operator, name: "secrets", summary: "The project's secrets and what uses them, without their values",
		query: pageParameters, answer: Secrets{}, problems: []int{400, 409}, read: func(a *API, r *http.Request) (any, *Problem) { return a.readSecrets(r) },
	},
	{
		method: http.MethodPut, path: "/secrets/{name}", house: true, least: identity.Admin, name: "setSecret", summary: "Seal a value and keep it, in place of the one before; no route returns it",
		body: SecretRequest{}, answer: KeptSecret{}, problems: slices.Concat([]int{400, 413, 415, 422}, houseProblems),
		read: withBody(maxSecretBody, func(a *API, r *http.Request, q SecretRequest) (KeptSecret, *Problem) {
			by, bad := a.secretAPI.changer(r)
			if bad != nil {
				return KeptSecret{}, bad
			}
			return a.SetSecret(r.Context(), by, r.PathValue("name"), q)
		}),
	},
	{
		method: http.MethodDelete, path: "/secrets/{name}", house: true, least: identity.Admin, name: "removeSecret", summary: "Remove a secret",
		answer: SecretEntry{}, problems: slices.Concat([]int{404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) {
			by, bad := a.secretAPI.changer(r)
			if bad != nil {
				return nil, bad
			}
			return result(a.RemoveSecret(r.Context(), by, r.PathValue("name")))
		},
	},
	{
		method: http.MethodPost, path: "/secrets/rotate-key", process: true, least: identity.Admin, name: "rotateVaultKey", summary: "Make a new key for the vault, and seal everything again with it, for all projects at once",
		answer: Resealed{}, problems: houseProblems, read: func(a *API, r *http.Request) (any, *Problem) { return result(a.reseal(r)) },
	},
}

// maxSecretBody is the maximum size in bytes of a request with a value, each byte of which may be
// escaped.
const maxSecretBody = 6*vault.MaxValue + 1<<10

// secretAPI keeps the secrets of a project.
type secretAPI struct{ house }

// CheckSecret returns what is wrong with the name or the value of a secret, as a sentence without a full
// stop, or "". The sentence has no part of the value.
func CheckSecret(name, value string) string {
	switch {
	case name == "rotate-key":
		return "a secret can't be named rotate-key, which is a command"
	case name == "" || len(name) > 64 || strings.Trim(name, secretName) != "" || strings.ContainsRune("-.", rune(name[0])):
		return "a secret's name has 1 to 64 letters, digits, dashes, dots and underscores of ASCII, and begins with none of dash and dot"
	case value == "":
		return "the value is empty"
	case len(value) > vault.MaxValue:
		return fmt.Sprintf("the value has %d bytes, and a secret has %d at most", len(value), vault.MaxValue)
	case !utf8.ValidString(value) || strings.ContainsAny(value, "\x00\ufffd"): // Go reads bad UTF-8 in JSON as U+FFFD
		return "the value is not text in UTF-8, or has a NUL character"
	}
	return ""
}

const secretName = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

// OwnSecrets returns the secrets of the project without their values, sorted by name, also while the database can't be
// read.
func (a *secretAPI) OwnSecrets() (all []SecretEntry, bad *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	for _, x := range a.safe.Store().Snapshot().Secrets() {
		if x.Project == a.project.name() {
			all = append(all, a.showSecret(&x))
		}
	}
	return all, nil
}

// readSecrets answers GET /secrets.
func (a *secretAPI) readSecrets(r *http.Request) (any, *Problem) {
	all, bad := a.OwnSecrets()
	if bad != nil {
		return nil, bad
	}
	p, bad := pageOf(r, all, func(x *SecretEntry) string { return x.Name })
	if bad != nil {
		return nil, bad
	}
	return Secrets{Secrets: p.items, Total: len(all), Next: p.next}, nil
}

// SetSecret seals a value and keeps it for by, the subject of a principal, in place of the one before. No problem has a
// part of the value.
func (a *secretAPI) SetSecret(ctx context.Context, by, name string, q SecretRequest) (KeptSecret, *Problem) {
	if bad := a.closed(); bad != nil {
		return KeptSecret{}, bad
	}
	if wrong := CheckSecret(name, q.Value); wrong != "" {
		return KeptSecret{}, &Problem{Type: "secret", Title: "There can be no such secret", Status: http.StatusUnprocessableEntity, Detail: sentence(wrong, "")}
	}
	if err := a.safe.SetSecret(ctx, by, a.project.name(), name, []byte(q.Value)); err != nil {
		return KeptSecret{}, a.problem(err)
	}
	out := KeptSecret{SecretEntry: SecretEntry{Name: name, Project: a.project.name(), Changed: time.Now().UTC(), By: by}, Note: a.note()}
	if x, ok := a.safe.Store().Snapshot().Secret(a.project.name(), name); ok {
		out.SecretEntry = a.showSecret(&x)
	}
	return out, nil
}

// RemoveSecret removes a secret for by, the subject of a principal, and returns what it was.
func (a *secretAPI) RemoveSecret(ctx context.Context, by, name string) (SecretEntry, *Problem) {
	if bad := a.closed(); bad != nil {
		return SecretEntry{}, bad
	}
	project := a.project.name()
	x, there := a.safe.Store().Snapshot().Secret(project, name)
	if there {
		err := a.safe.Store().Write(ctx, by, func(t *store.Tx) (err error) {
			there, err = t.RemoveSecret(project, name)
			return err
		})
		if err != nil {
			return SecretEntry{}, a.problem(err)
		}
	}
	if !there {
		return SecretEntry{}, &Problem{Type: "no-such-secret", Title: "No such secret", Status: http.StatusNotFound, Detail: "No secret of this project has this name. GET " + apiRoot + "/secrets lists them."}
	}
	return a.showSecret(&x), nil
}

// reseal answers POST /secrets/rotate-key.
func (a *secretAPI) reseal(r *http.Request) (Resealed, *Problem) {
	who, bad := a.changer(r)
	if bad != nil {
		return Resealed{}, bad
	}
	n, err := a.safe.RotateKey(r.Context(), who)
	if err != nil {
		return Resealed{}, a.problem(err)
	}
	return Resealed{n, a.note()}, nil
}

func (a *secretAPI) showSecret(x *store.Secret) SecretEntry {
	out := SecretEntry{Name: x.Name, Project: x.Project, Changed: x.Changed.UTC(), By: a.nameOf(x.Actor)}
	if a.project.Project != nil {
		if now := a.project.Current(); now != nil {
			out.Servers, out.Settings = now.SecretUses(x.Name)
		}
	}
	return out
}
