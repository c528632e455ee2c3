package admin

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
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
	Mine         bool       `json:"mine" doc:"whether it acts for you"`
}

// APIKeyDetails is an API key with what it is used for at the moment.
type APIKeyDetails struct {
	APIKey
	Now   KeyUse `json:"now" doc:"what would end if the key were revoked"`
	Twins int    `json:"twins" doc:"number of other keys with the same name that you may see"`
}

// KeyUse is what an API key is used for at the moment, as far as this process knows.
type KeyUse struct {
	Sessions int `json:"sessions" doc:"number of sessions of MCP clients"`
	Streams  int `json:"streams" doc:"number of open subscriptions of clients without a session"`
	Calls    int `json:"calls" doc:"number of other requests that are running"`
}

// RevokedKey is an API key that was revoked.
type RevokedKey struct {
	APIKey
	Ends KeyUse `json:"ends" doc:"what ends with the key within five seconds"`
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
	Hint    string `json:"hint,omitempty" doc:"the hint of the secret that shall be replaced: if the key has another one by now, nothing changes"`
}

// NewAPIKey is an API key with its text.
type NewAPIKey struct {
	APIKey
	Text string `json:"text" doc:"the key itself, which nobody can get a second time"`
	Note string `json:"note,omitempty" doc:"what to know about the key: that dragoman forgets it when it ends, or that a pattern matches no server"`
}

var keyRoutes = []route{
	{
		method: http.MethodGet, path: "/keys", house: true, people: true, least: identity.Viewer, name: "keys", summary: "The project's API keys, without their secrets: all for an operator, and those that act for you for anybody else",
		query: pageParameters, answer: APIKeys{}, problems: []int{400, 409}, read: func(a *API, r *http.Request) (any, *Problem) { return a.readKeys(r) },
	},
	{
		method: http.MethodPost, path: "/keys", house: true, people: true, least: identity.Viewer, name: "makeKey",
		summary: "Make an API key for the project; only this answer has its text. An admin makes any; whoever has signed in makes keys that act for them, for at most 90 days",
		body:    APIKeyRequest{}, answer: NewAPIKey{}, status: http.StatusCreated, problems: slices.Concat([]int{400, 413, 415, 422}, houseProblems),
		read: withBody(maxKeyBody, func(a *API, r *http.Request, q APIKeyRequest) (NewAPIKey, *Problem) {
			return byWhom(&a.keyAPI.house, r, func(who *identity.Principal) (NewAPIKey, *Problem) { return a.MakeKeyFor(r.Context(), who, q) })
		}),
	},
	{
		method: http.MethodGet, path: "/keys/{id}", house: true, people: true, least: identity.Viewer, name: "key", summary: "An API key that you may see, and what it is used for at the moment",
		answer: APIKeyDetails{}, problems: []int{404, 409}, read: func(a *API, r *http.Request) (any, *Problem) {
			return result(byWhom(&a.keyAPI.house, r, func(who *identity.Principal) (APIKeyDetails, *Problem) {
				if bad := a.looksAtKeys(r, who); bad != nil {
					return APIKeyDetails{}, bad
				}
				return a.KeyFor(r.Context(), who, r.PathValue("id"))
			}))
		},
	},
	{
		method: http.MethodPost, path: "/keys/{id}/rotate", house: true, people: true, least: identity.Viewer, name: "rotateKey",
		summary: "Give an API key another secret, and a life that begins now; only this answer has its text. For an admin, or whoever has signed in and has the key",
		body:    APIKeyRotation{}, answer: NewAPIKey{}, problems: slices.Concat([]int{400, 404, 413, 415, 422}, houseProblems),
		read: withBody(maxKeyBody, func(a *API, r *http.Request, q APIKeyRotation) (NewAPIKey, *Problem) {
			return byWhom(&a.keyAPI.house, r, func(who *identity.Principal) (NewAPIKey, *Problem) {
				return a.RotateKeyFor(r.Context(), who, r.PathValue("id"), q)
			})
		}),
	},
	{
		method: http.MethodDelete, path: "/keys/{id}", house: true, people: true, least: identity.Viewer, name: "revokeKey", summary: "Revoke an API key. For an admin, or whoever has signed in and has the key",
		answer: RevokedKey{}, problems: slices.Concat([]int{404}, houseProblems), read: func(a *API, r *http.Request) (any, *Problem) {
			return result(byWhom(&a.keyAPI.house, r, func(who *identity.Principal) (RevokedKey, *Problem) {
				return a.RevokeKeyFor(r.Context(), who, r.PathValue("id"))
			}))
		},
	},
	lookRoute,
}

// maxKeyBody is the maximum size in bytes of a request about a key. It suffices for the patterns that a
// key can have.
const maxKeyBody = 64 << 10

// keyAPI makes, shows and revokes the API keys of a project.
type keyAPI struct {
	house
	calls *calls.Ring
}

// readKeys answers GET /keys.
func (a *keyAPI) readKeys(r *http.Request) (any, *Problem) {
	who, bad := a.sender(r)
	if bad == nil {
		bad = a.looksAtKeys(r, who)
	}
	if bad != nil {
		return nil, bad
	}
	all := a.keysOf(who)
	p, bad := pageOf(r, all, func(k *store.Key) string {
		return k.Name + "\x00" + k.Made.UTC().Format("2006-01-02T15:04:05.000000000") + "\x00" + k.ID
	})
	if bad != nil {
		return nil, bad
	}
	return APIKeys{Keys: a.showKeys(r.Context(), who, p.items), Total: len(all), Next: p.next}, nil
}

// looksAtKeys returns a problem if who, who has sent r, sees no keys at all: a key or a token of the API with less than the role operator
// would get an empty list, which says that there are none.
func (a *keyAPI) looksAtKeys(r *http.Request, who *identity.Principal) *Problem {
	if s := a.access.SignedIn(r); s != nil && s.Seat == who.Seat || a.is(who, a.project.name(), identity.Operator) {
		return nil
	}
	return &Problem{
		Type: kindRole, Title: "Your role does not allow this", Status: http.StatusForbidden,
		Detail: "Without the role operator in the project " + a.project.name() + ", people see only keys that act for them, signed in to the console. Ask an operator.",
	}
}

// KeysFor returns the project's keys that who may see, sorted by name and then by time. An operator sees all, and
// anybody else those that act for them.
func (a *keyAPI) KeysFor(ctx context.Context, who *identity.Principal) ([]APIKey, *Problem) {
	if bad := a.closed(); bad != nil {
		return nil, bad
	}
	return a.showKeys(ctx, who, a.keysOf(who)), nil
}

// KeysMark returns a text that changes when one of these keys does. It doesn't read the database.
func (a *keyAPI) KeysMark(who *identity.Principal) string {
	if a.closed() != nil {
		return ""
	}
	h := fnv.New64a()
	for _, k := range a.keysOf(who) {
		_, _ = fmt.Fprintln(h, k.ID, k.Hint, k.Until.Unix(), k.OldUntil.Unix()) // never fails
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// keysOf returns what KeysFor is about.
func (a *keyAPI) keysOf(who *identity.Principal) []store.Key {
	all := a.is(who, a.project.name(), identity.Operator)
	return slices.DeleteFunc(a.safe.Store().Snapshot().Keys(), func(k store.Key) bool {
		return k.Project != a.project.name() || !all && !mine(who, &k)
	})
}

// mine reports whether a key acts for who.
func mine(who *identity.Principal, k *store.Key) bool {
	return who != nil && k.Owner != "" && k.Owner == who.Subject
}

// showKeys returns keys as who may see them, with when they were last used.
func (a *keyAPI) showKeys(ctx context.Context, who *identity.Principal, keys []store.Key) []APIKey {
	out := make([]APIKey, 0, len(keys))
	uses, refused := a.desk.Uses(ctx), map[string]uint64{}
	for _, x := range a.project.Refusals() {
		if x.Per == limits.Key {
			refused[x.ID] += x.Times
		}
	}
	for i := range keys {
		x := a.showKey(who, &keys[i])
		x.Refused = refused[access.KeySubject+x.ID]
		if at, ok := uses[x.ID]; ok {
			x.Used = &at
		}
		out = append(out, x)
	}
	return out
}

// KeyFor returns a key that who may see.
func (a *keyAPI) KeyFor(ctx context.Context, who *identity.Principal, id string) (APIKeyDetails, *Problem) {
	if bad := a.closed(); bad != nil {
		return APIKeyDetails{}, bad
	}
	all := a.keysOf(who)
	i := slices.IndexFunc(all, func(k store.Key) bool { return k.ID == id })
	if i < 0 {
		return APIKeyDetails{}, noKey()
	}
	return APIKeyDetails{a.showKeys(ctx, who, all[i:i+1])[0], a.useOf(id), twins(all, &all[i])}, nil
}

// twins returns how many other keys have the name of a key.
func twins(all []store.Key, k *store.Key) (n int) {
	for i := range all {
		if all[i].Name == k.Name && all[i].ID != k.ID {
			n++
		}
	}
	return n
}

// useOf returns what a key is used for at the moment.
func (a *keyAPI) useOf(id string) (out KeyUse) {
	if a.project.Project == nil {
		return out
	}
	seat := access.KeySubject + id
	for _, c := range a.project.ClientReports() {
		if c.Session && c.Who != nil && c.Who.Seat == seat {
			out.Sessions++
		}
	}
	for _, c := range a.calls.All() {
		switch {
		case !c.Running() || c.Client.Who == nil || c.Client.Who.Seat != seat:
		case c.Method == mcp.MethodListen:
			out.Streams++
		default:
			out.Calls++
		}
	}
	return out
}

// MakeKeyFor makes a key: for an admin any, and for a person who has signed in one that acts for them.
func (a *keyAPI) MakeKeyFor(ctx context.Context, who *identity.Principal, q APIKeyRequest) (NewAPIKey, *Problem) {
	if bad := a.closed(); bad != nil {
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
	if !a.is(who, a.project.name(), identity.Admin) {
		if bad := a.own(who, &w); bad != nil {
			return NewAPIKey{}, bad
		}
	}
	text, k, err := a.desk.Make(ctx, who.Subject, w)
	if err != nil {
		return NewAPIKey{}, a.problem(err)
	}
	notes := []string{a.note(), a.unmatched(&w), a.idle(&k)}
	if n := twins(a.keysOf(who), &k); n > 0 {
		notes = append(notes, "Another key has this name, so tell them apart by their ids.")
	}
	return NewAPIKey{APIKey: a.showKey(who, &k), Text: text, Note: strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), " ")}, nil
}

// idle returns a sentence if a key acts for a person who lacks its role.
func (a *keyAPI) idle(k *store.Key) string {
	p, ok := a.roster.People().Find(strings.TrimPrefix(k.Owner, store.PersonSubject))
	if !ok || slices.ContainsFunc(p.Roles[k.Project], func(has identity.Role) bool { return has.Includes(k.Role) }) {
		return ""
	}
	return excerpt.Line(p.Name, maxName) + " doesn't have the role " + k.Role.String() + " in the project, and the key never does more than its owner may."
}

// own returns a problem if who, who is no admin, can't have such a key. It has to act for them, can't do more than
// they may, and doesn't last longer than a key of which nobody has said how long.
func (a *keyAPI) own(who *identity.Principal, w *access.Wish) *Problem {
	switch {
	case !a.signedIn(who) || w.Owner != who.Subject:
		return a.onlyOwn()
	case w.Role != 0 && a.access.May(who, w.Project, w.Role) != nil:
		return &Problem{
			Type: "key-role", Title: "You can't give this role", Status: http.StatusForbidden,
			Detail: "You don't have the role " + w.Role.String() + " in the project " + w.Project + ", so a key that acts for you can't have it. Choose a role that you have.",
		}
	}
	return ownLife(w.Life)
}

// ownLife returns a problem if only an admin may make a key live so long.
func ownLife(life time.Duration) *Problem {
	if life > 0 && life <= access.DefaultLife {
		return nil
	}
	return &Problem{
		Type: "key-life", Title: "You can't give a key such a long life", Status: http.StatusForbidden,
		Detail: "Without the role admin, a key can be good for at most 90 days from now. Choose a shorter life, and rotate the key before it ends.",
	}
}

func (a *keyAPI) onlyOwn() *Problem {
	return &Problem{
		Type: kindRole, Title: "Your role does not allow this", Status: http.StatusForbidden,
		Detail: "Without the role admin in the project " + a.project.name() + ", people make, rotate and revoke only keys that act for them, signed in to the console. Ask an admin.",
	}
}

// signedIn reports whether who is a session of a person, and no key or token that acts for one.
func (h *house) signedIn(who *identity.Principal) bool {
	_, ok := h.roster.People().SessionOf(who)
	return ok
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
	case sender == nil:
		return "", a.onlyOwn()
	case q.Mine:
		return sender.Subject, nil
	case q.Owner == "":
		return "", nil
	case !a.is(sender, a.project.name(), identity.Admin) && a.nameOf(sender.Subject) != q.Owner && sender.Subject != store.PersonSubject+q.Owner:
		return "", a.onlyOwn() // whether there is such a person isn't theirs to know
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

// RotateKeyFor gives a key another secret, for an admin or the person whose key it is.
func (a *keyAPI) RotateKeyFor(ctx context.Context, who *identity.Principal, id string, q APIKeyRotation) (NewAPIKey, *Problem) {
	k, bad := a.acting(who, id)
	if bad != nil {
		return NewAPIKey{}, bad
	}
	if !mine(who, &k) && !a.mayHold(who, &k) {
		return NewAPIKey{}, notAll() // whoever gets the new secret acts for the owner
	}
	life, err := access.Life(q.Life)
	var overlap time.Duration
	if err == nil && q.Overlap != "" {
		overlap, err = access.Duration(q.Overlap)
	}
	if err != nil {
		return NewAPIKey{}, a.problem(err)
	}
	if !a.is(who, a.project.name(), identity.Admin) {
		if bad := ownLife(life); bad != nil {
			return NewAPIKey{}, bad
		}
	}
	text, k, err := a.desk.Rotate(ctx, who.Subject, k.ID, q.Hint, overlap, life)
	if err != nil {
		return NewAPIKey{}, a.problem(err)
	}
	return NewAPIKey{APIKey: a.showKey(who, &k), Text: text, Note: a.note()}, nil
}

// mayHold reports whether who may get the text of a key that acts for somebody else: only who may make such a key.
func (a *keyAPI) mayHold(who *identity.Principal, k *store.Key) bool {
	if k.Owner == "" || a.access.May(who, event.DefaultProject, identity.Admin) == nil {
		return true
	}
	p, bad := a.person(strings.TrimPrefix(k.Owner, store.PersonSubject))
	return bad == nil && strings.HasPrefix(k.Owner, store.PersonSubject) && a.decides(who, &p)
}

// RevokeKeyFor revokes a key, for an admin or the person whose key it is.
func (a *keyAPI) RevokeKeyFor(ctx context.Context, who *identity.Principal, id string) (RevokedKey, *Problem) {
	k, bad := a.acting(who, id)
	if bad != nil {
		return RevokedKey{}, bad
	}
	out := RevokedKey{a.showKey(who, &k), a.useOf(k.ID)}
	if err := a.desk.Revoke(ctx, who.Subject, k.ID); err != nil {
		return RevokedKey{}, a.problem(err)
	}
	return out, nil
}

// acting returns a key that who may rotate and revoke. A key of another project, or one that who may not see, is as
// one that does not exist.
func (a *keyAPI) acting(who *identity.Principal, id string) (store.Key, *Problem) {
	if bad := a.closed(); bad != nil {
		return store.Key{}, bad
	}
	k, ok := a.safe.Store().Snapshot().Key(id)
	switch {
	case !ok || k.Project != a.project.name() || !mine(who, &k) && !a.is(who, k.Project, identity.Operator):
		return store.Key{}, noKey()
	case a.is(who, k.Project, identity.Admin) || mine(who, &k) && a.signedIn(who):
		return k, nil
	}
	return store.Key{}, a.onlyOwn()
}

func noKey() *Problem {
	return &Problem{Type: "no-such-key", Title: "No such key", Status: http.StatusNotFound, Detail: "No key of this project has this id. GET " + apiRoot + "/keys lists them."}
}

// showKey returns a key as who may see it.
func (a *keyAPI) showKey(who *identity.Principal, k *store.Key) APIKey {
	out := APIKey{
		Mine: mine(who, k),
		ID:   k.ID, Name: k.Name, Hint: k.Hint, Project: k.Project, Owner: a.nameOf(k.Owner), Role: k.Role.String(),
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
