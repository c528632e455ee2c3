package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// APIKeys is a page of the API keys of a project, sorted by name and then by time.
type APIKeys struct {
	Keys  []APIKey `json:"keys" doc:"the keys of this page, without their secrets"`
	Total int      `json:"total" doc:"number of keys on all pages"`
	Next  string   `json:"next,omitempty" doc:"the cursor of the next page"`
}

// APIKey is an API key without its secret.
type APIKey struct {
	ID           string     `json:"id" doc:"the key's id, which is also the second part of its text"`
	Name         string     `json:"name" doc:"what people call the key; several keys may have the same name"`
	Hint         string     `json:"hint" doc:"the last 4 characters of the secret, by which people recognise the key"`
	Project      string     `json:"project" doc:"the project where the key works"`
	Owner        string     `json:"owner,omitempty" doc:"whom the key acts for: the name of a person, or local; left out if it stands for nobody but itself"`
	Role         string     `json:"role" enum:"caller,viewer,operator,admin,none" doc:"what the key may do: caller uses the MCP endpoints; the others are for this API"`
	Servers      []string   `json:"servers" doc:"patterns of the servers that the key may use; empty for all"`
	Tools        []string   `json:"tools" doc:"patterns of the tools, SERVER/TOOL, that the key may use; empty for all"`
	Expires      *time.Time `json:"expires,omitempty" doc:"when the key expires; left out if it doesn't"`
	Expired      bool       `json:"expired" doc:"whether the key has expired"`
	OverlapUntil *time.Time `json:"overlapUntil,omitempty" doc:"until when the secret before the last rotation works too; left out if it doesn't"`
	Used         *time.Time `json:"used,omitempty" doc:"the minute in which the key was last used; left out if it never was"`
	Refused      uint64     `json:"refused,omitempty" doc:"number of calls that limits per key have refused since dragoman started; left out if none"`
	Made         time.Time  `json:"made" doc:"when the key was made"`
	By           string     `json:"by" doc:"who made it"`
}

// APIKeyRequest is what a new API key shall be.
type APIKeyRequest struct {
	Name    string   `json:"name" doc:"what people call the key, 1 to 100 bytes"`
	Mine    bool     `json:"mine,omitempty" doc:"whether the key acts for you; without it, the key stands for nobody but itself"`
	Owner   string   `json:"owner,omitempty" doc:"the name or the id of a person whom the key acts for, in place of mine; it never does more than the person may do"`
	Role    string   `json:"role,omitempty" doc:"caller (the default), viewer, operator or admin"`
	Servers []string `json:"servers,omitempty" doc:"patterns of the servers that the key may use, in which * stands for any text; without any, it may use all"`
	Tools   []string `json:"tools,omitempty" doc:"patterns of the tools, SERVER/TOOL, that the key may use; without any, it may use all, and with some, no prompts and resources"`
	Life    string   `json:"life,omitempty" doc:"how long the key is good: 90d (the default), another number of days, a duration such as 24h, or never"`
}

// APIKeyRotation is how an API key gets another secret.
type APIKeyRotation struct {
	Overlap string `json:"overlap,omitempty" doc:"how long the old secret works too, such as 24h or 7d; without it, not at all"`
	Life    string `json:"life,omitempty" doc:"how long the key is good from now on; see life of APIKeyRequest"`
}

// NewAPIKey is an API key with its text.
type NewAPIKey struct {
	APIKey
	Text string `json:"text" doc:"the key itself, which nobody can get a second time"`
	Note string `json:"note,omitempty" doc:"what to know about the key: that dragoman forgets it when it ends, or that a pattern matches no server"`
}

var keyRoutes = []route{
	{
		method: http.MethodGet, path: "/keys", house: true, least: identity.Admin, name: "keys", summary: "The project's API keys, without their secrets",
		query: pageParameters, answer: APIKeys{}, problems: []int{400, 409}, read: func(a *API, r *http.Request) (any, *Problem) { return a.readKeys(r) },
	},
	{
		method: http.MethodPost, path: "/keys", house: true, least: identity.Admin, name: "makeKey", summary: "Make an API key for the project; only this answer has its text",
		body: APIKeyRequest{}, answer: NewAPIKey{}, status: http.StatusCreated, problems: slices.Concat([]int{400, 413, 415, 422}, houseProblems),
		read: withBody(maxKeyBody, func(a *API, r *http.Request, q APIKeyRequest) (NewAPIKey, *Problem) { return a.makeKey(r, q) }),
	},
	{
		method: http.MethodPost, path: "/keys/{id}/rotate", house: true, least: identity.Admin, name: "rotateKey", summary: "Give an API key another secret, and a life that begins now; only this answer has its text",
		body: APIKeyRotation{}, answer: NewAPIKey{}, problems: slices.Concat([]int{400, 404, 413, 415, 422}, houseProblems),
		read: withBody(maxKeyBody, func(a *API, r *http.Request, q APIKeyRotation) (NewAPIKey, *Problem) { return a.rotateKey(r, q) }),
	},
	{
		method: http.MethodDelete, path: "/keys/{id}", house: true, least: identity.Admin, name: "revokeKey", summary: "Revoke an API key",
		answer: APIKey{}, problems: slices.Concat([]int{404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) { return result(a.revokeKey(r)) },
	},
}

// maxKeyBody is the maximum size in bytes of a request about a key. It suffices for the patterns that a
// key can have.
const maxKeyBody = 64 << 10

// keyAPI makes, shows and revokes the API keys of a project.
type keyAPI struct{ house }

// readKeys answers GET /keys.
func (a *keyAPI) readKeys(r *http.Request) (any, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	var all []store.Key
	for _, k := range a.safe.Store().Snapshot().Keys() {
		if k.Project == a.project.name() {
			all = append(all, k)
		}
	}
	p, bad := pageOf(r, all, func(k *store.Key) string {
		return k.Name + "\x00" + k.Made.UTC().Format("2006-01-02T15:04:05.000000000") + "\x00" + k.ID
	})
	if bad != nil {
		return nil, bad
	}
	out := APIKeys{Keys: make([]APIKey, 0, len(p.items)), Total: len(all), Next: p.next}
	uses, refused := a.desk.Uses(r.Context()), map[string]uint64{}
	for _, x := range a.project.Refusals() {
		if x.Per == limits.Key {
			refused[x.ID] += x.Times
		}
	}
	for i := range p.items {
		x := a.showKey(&p.items[i])
		x.Refused = refused[access.KeySubject+x.ID]
		if at, ok := uses[x.ID]; ok {
			x.Used = &at
		}
		out.Keys = append(out.Keys, x)
	}
	return out, nil
}

// makeKey answers POST /keys.
func (a *keyAPI) makeKey(r *http.Request, q APIKeyRequest) (NewAPIKey, *Problem) {
	who, bad := a.sender(r)
	if bad != nil {
		return NewAPIKey{}, bad
	}
	owner, bad := a.ownerOf(who, &q)
	if bad != nil {
		return NewAPIKey{}, bad
	}
	life, err := access.Life(q.Life)
	if err != nil {
		return NewAPIKey{}, a.problem(err)
	}
	role, _ := identity.RoleOf(cmp.Or(q.Role, identity.Caller.String())) // the desk refuses none, and says what there is
	w := access.Wish{Name: q.Name, Owner: owner, Project: a.project.name(), Servers: q.Servers, Tools: q.Tools, Role: role, Life: life}
	text, k, err := a.desk.Make(r.Context(), who.Subject, w)
	if err != nil {
		return NewAPIKey{}, a.problem(err)
	}
	return NewAPIKey{APIKey: a.showKey(&k), Text: text, Note: strings.TrimSpace(a.note() + " " + a.unmatched(&w))}, nil
}

// unmatched returns a sentence if a new key names servers that the project doesn't have, which may come later, or be a
// typing error.
func (a *keyAPI) unmatched(w *access.Wish) string {
	var names []string
	if s := a.project.Current(); s != nil {
		for i := range s.Servers {
			names = append(names, s.Servers[i].Name)
		}
	}
	odd := w.Unmatched(names)
	for i := range odd {
		odd[i] = excerpt.Quote(odd[i], maxName)
	}
	switch len(odd) {
	case 0:
		return ""
	case 1:
		return "The project has no server that " + odd[0] + " matches, so this lets the key use nothing until it has one."
	}
	return "The project has no server that one of these matches: " + strings.Join(odd, ", ") + ". They let the key use nothing until it has one."
}

// ownerOf returns the subject that a key shall act for, or "" if it shall act for itself. Another person must
// be in the project, and the sender must be one who decides about that person.
func (a *keyAPI) ownerOf(sender *identity.Principal, q *APIKeyRequest) (string, *Problem) {
	switch {
	case q.Mine && q.Owner != "":
		return "", a.problem(access.Mistake("a key acts either for you or for somebody else"))
	case q.Mine:
		return sender.Subject, nil
	case q.Owner == "":
		return "", nil
	}
	p, bad := a.person(q.Owner)
	switch subject := store.PersonSubject + p.ID; {
	case bad != nil:
		return "", bad
	case subject == sender.Subject:
		return subject, nil
	case len(p.Roles[a.project.name()]) == 0:
		return "", noPerson()
	case !a.decides(sender, &p):
		return "", notAll()
	default:
		return subject, nil
	}
}

// rotateKey answers POST /keys/{id}/rotate.
func (a *keyAPI) rotateKey(r *http.Request, q APIKeyRotation) (NewAPIKey, *Problem) {
	who, bad := a.changer(r)
	if bad != nil {
		return NewAPIKey{}, bad
	}
	k, bad := a.own(r)
	if bad != nil {
		return NewAPIKey{}, bad
	}
	life, err := access.Life(q.Life)
	var overlap time.Duration
	if err == nil && q.Overlap != "" {
		overlap, err = access.Duration(q.Overlap)
	}
	if err != nil {
		return NewAPIKey{}, a.problem(err)
	}
	text, k, err := a.desk.Rotate(r.Context(), who, k.ID, overlap, life)
	if err != nil {
		return NewAPIKey{}, a.problem(err)
	}
	return NewAPIKey{APIKey: a.showKey(&k), Text: text, Note: a.note()}, nil
}

// revokeKey answers DELETE /keys/{id}.
func (a *keyAPI) revokeKey(r *http.Request) (APIKey, *Problem) {
	who, bad := a.changer(r)
	if bad != nil {
		return APIKey{}, bad
	}
	k, bad := a.own(r)
	if bad != nil {
		return APIKey{}, bad
	}
	if err := a.desk.Revoke(r.Context(), who, k.ID); err != nil {
		return APIKey{}, a.problem(err)
	}
	return a.showKey(&k), nil
}

// own returns the key that the path of a request names. A key of another project is as one that does not
// exist.
func (a *keyAPI) own(r *http.Request) (store.Key, *Problem) {
	k, ok := a.safe.Store().Snapshot().Key(r.PathValue("id"))
	if !ok || k.Project != a.project.name() {
		return store.Key{}, noKey()
	}
	return k, nil
}

func noKey() *Problem {
	return &Problem{Type: "no-such-key", Title: "No such key", Status: http.StatusNotFound, Detail: "No key of this project has this id. GET " + apiRoot + "/keys lists them."}
}

// showKey returns a key as people may see it.
func (a *keyAPI) showKey(k *store.Key) APIKey {
	out := APIKey{
		ID: k.ID, Name: k.Name, Hint: k.Hint, Project: k.Project, Owner: a.nameOf(k.Owner), Role: k.Role.String(),
		Servers: append([]string{}, k.Servers...), Tools: append([]string{}, k.Tools...), Made: k.Made.UTC(), By: a.nameOf(k.Actor),
	}
	now := time.Now()
	if !k.Until.IsZero() {
		until := k.Until.UTC()
		out.Expires, out.Expired = &until, !now.Before(until)
	}
	if old := k.OldUntil.UTC().Truncate(time.Second); now.Before(old) && !out.Expired {
		out.OverlapUntil = &old
	}
	return out
}
