package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/form"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// KeyDesk makes, shows and revokes the API keys of a project. *admin.API implements KeyDesk, and decides who may see and
// do what: an operator sees all keys, an admin changes them, and anybody else has those that act for them.
type KeyDesk interface {
	KeysFor(context.Context, *identity.Principal) ([]admin.APIKey, *admin.Problem)
	KeysMark(*identity.Principal) string
	KeyFor(ctx context.Context, who *identity.Principal, id string) (admin.APIKeyDetails, *admin.Problem)
	MakeKeyFor(context.Context, *identity.Principal, admin.APIKeyRequest) (admin.NewAPIKey, *admin.Problem)
	RotateKeyFor(ctx context.Context, who *identity.Principal, id string, q admin.APIKeyRotation) (admin.NewAPIKey, *admin.Problem)
	RevokeKeyFor(ctx context.Context, who *identity.Principal, id string) (admin.RevokedKey, *admin.Problem)
	// LookFor is a client with the rights of the key that only lists. It sends requests, and is an act in the audit.
	LookFor(ctx context.Context, who *identity.Principal, id string, q admin.KeyLookRequest) (admin.KeyLook, *admin.Problem)
}

// accessWords are what somebody types who changes who may come in; see sure.
const accessWords = "change access"

// keyPages are the list of API keys, the form for a new one, and the page of each. The text of a key is in one response
// only: a form that is sent again doesn't get it.
type keyPages struct {
	frame  *frame
	source interface {
		KeyDesk
		PeopleFor(*identity.Principal) ([]admin.Person, *admin.Problem)
	}
	forms forms
}

func (p *keyPages) register(f *frame) {
	f.add(Page{Path: "/keys", Least: identity.Caller, Personal: true, Template: "keys.html", Sheet: "second.css", Nav: "Keys", Group: accesses, Key: "K", View: p.list})
	f.add(p.newPage())
	f.add(p.keyPage())
	who := allowed{least: identity.Caller, personal: true, sure: accessWords}
	f.register("POST /keys/new", who, p.make)
	f.register("POST /keys/{id}", who, p.act)
	p.registerLook(f)
}

func (p *keyPages) newPage() Page {
	return Page{
		Path: "/keys/new", Least: identity.Caller, Personal: true, Template: "newkey.html", Sheet: "second.css",
		View: func(r *http.Request) (*View, error) {
			v := &newKey{Name: r.URL.Query().Get("name"), Role: identity.Caller.String(), Life: "90d"}
			if x := stateOf(r).viewer; x.caller && strings.HasPrefix(x.subject(), store.PersonSubject) {
				v.Owner = "mine" // the local user is nobody for whom a key could act
			}
			return p.blank(r, v)
		},
	}
}

func (p *keyPages) keyPage() Page {
	return Page{Path: "/keys/{id}", Least: identity.Caller, Personal: true, Template: "key.html", Sheet: "second.css", View: func(r *http.Request) (*View, error) { return p.key(r, &keyView{}) }}
}

var allKeys = Crumb{"Show all keys", pathOf("keys")}

// keyRow is a key in a list, or on its page.
type keyRow struct{ admin.APIKey }

// Path returns the path of the key's page.
func (k keyRow) Path() string { return pathOf("keys", k.ID) }

// Class and Word are the state label.
func (k keyRow) Class() string { c, _ := k.state(); return c }
func (k keyRow) Word() string  { _, w := k.state(); return w }

func (k keyRow) state() (class, word string) {
	switch {
	case k.Expired:
		return "off", "expired"
	case len(k.Warnings()) > 0:
		return "warn", "in force"
	}
	return "ok", "in force"
}

// Scope says which servers and tools the key is for.
func (k keyRow) Scope() string {
	switch {
	case k.Role != identity.Caller.String():
		return "the API"
	case len(k.Servers)+len(k.Tools) == 0:
		return "all servers"
	}
	return strings.Join(slices.Concat(k.Servers, k.Tools), ", ")
}

// unusedFor is how long a key isn't used before the page says so, and newFor how long one may be new.
const (
	unusedFor = 90 * 24 * time.Hour
	newFor    = 7 * 24 * time.Hour
)

// Warnings says what an admin should look at. It says only what is known: until when the key is good, and the minute in
// which it was last used. Nobody keeps what for.
func (k keyRow) Warnings() (all []string) {
	if k.Expired {
		return nil
	}
	if k.Expires == nil {
		all = append(all, "never expires")
	}
	now := time.Now()
	switch {
	case k.Used == nil && k.Role != identity.Caller.String() && now.Sub(k.Made) > newFor:
		all = append(all, "has the role "+k.Role+", and was never used")
	case k.Used == nil && now.Sub(k.Made) > unusedFor:
		all = append(all, "was never used")
	case k.Used != nil && now.Sub(*k.Used) > unusedFor:
		all = append(all, "not used for "+plural(int(now.Sub(*k.Used).Hours()/24), "day"))
	}
	return all
}

// keyList has the values of the list.
type keyList struct {
	Q                    url.Values
	Search               string
	All, Warned          int
	Every                bool // the viewer sees all keys of the project
	Owners, Roles, State []choice
	Rows                 []keyRow
	Pager                pager
	Key                  string
}

func (p *keyPages) list(r *http.Request) (*View, error) {
	who, q := stateOf(r).viewer.who, r.URL.Query()
	l := &keyList{Q: q, Search: q.Get("q"), Every: may(r, identity.Operator), Key: p.source.KeysMark(who)}
	view := &View{Title: "Keys", Data: l}
	if stateOf(r).feed {
		return view, nil // only the mark is live, so we needn't read the database again and again
	}
	all, bad := p.source.KeysFor(r.Context(), who)
	if bad != nil {
		return nil, problemError(bad, Crumb{})
	}
	l.All = len(all)
	l.Owners = choices(q.Get("owner"), "any owner", "mine", "mine", "people", "of people", "nobody", "of nobody")
	l.Roles = choices(q.Get("role"), "any role", "caller", "caller", "viewer", "viewer", "operator", "operator", "admin", "admin")
	l.State = choices(q.Get("state"), "any state", "force", "in force", "look", "to look at", "expired", "expired")
	rows := make([]keyRow, 0, len(all))
	for _, x := range all {
		k := keyRow{x}
		warned := len(k.Warnings()) > 0
		if warned {
			l.Warned++
		}
		if k.fits(q, warned) {
			rows = append(rows, k)
		}
	}
	sorted(rows, q, "name", keyColumns)
	l.Rows, l.Pager = paged(rows, q)
	return view, nil
}

// fits reports whether the list shows a key with a filter.
func (k keyRow) fits(q url.Values, warned bool) bool {
	switch owner := q.Get("owner"); {
	case owner == "mine" && !k.Mine, owner == "people" && k.Owner == "", owner == "nobody" && k.Owner != "":
		return false
	}
	switch state := q.Get("state"); {
	case state == "force" && k.Expired, state == "look" && !warned, state == "expired" && !k.Expired:
		return false
	}
	return (q.Get("role") == "" || q.Get("role") == k.Role) && matches(q.Get("q"), k.Name, k.ID, k.Hint, k.Owner, k.Scope())
}

var keyColumns = map[string]func(a, b keyRow) int{
	"name":    func(a, b keyRow) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
	"owner":   func(a, b keyRow) int { return strings.Compare(strings.ToLower(a.Owner), strings.ToLower(b.Owner)) },
	"role":    func(a, b keyRow) int { return strings.Compare(a.Role, b.Role) },
	"used":    func(a, b keyRow) int { return nilTimes(a.Used, b.Used, false) },
	"expires": func(a, b keyRow) int { return nilTimes(a.Expires, b.Expires, true) },
	"refused": func(a, b keyRow) int { return cmp.Compare(a.Refused, b.Refused) },
}

// nilTimes compares times, of which nil is before all others, or after them if last is true.
func nilTimes(a, b *time.Time, last bool) int {
	switch {
	case a != nil && b != nil:
		return a.Compare(*b)
	case (a == nil) == (b == nil):
		return 0
	case (a == nil) != last:
		return -1
	}
	return 1
}

// newKey has the values of the form for a new key, and of the page with a key that was just made or rotated.
type newKey struct {
	Name, Owner, Role, Servers, Tools, Life string
	Owners, Roles                           []choice
	Own                                     bool // the viewer makes only keys that act for them
	Number, Sure                            string
	Problem                                 string
	Errors                                  []form.Error

	Made  *admin.NewAPIKey // nil if the page has the form
	Until *time.Time       // until when the secret before works
}

// Error returns what is wrong in a field, and Path the path of the key that was made.
func (v *newKey) Error(id string) string {
	for _, e := range v.Errors {
		if e.ID == id {
			return e.Text
		}
	}
	return ""
}

// Path is described at Error.
func (v *newKey) Path() string { return pathOf("keys", v.Made.ID) }

// blank returns the page with the form, and sets the remaining values of v.
func (p *keyPages) blank(r *http.Request, v *newKey) (*View, error) {
	v.Number, v.Sure, v.Own = formNumber(), sureWords(r, accessWords), !may(r, identity.Admin)
	title := "New key"
	switch {
	case v.Made != nil:
		title = "Your key"
	case !v.Own:
		pairs := []string{"mine", "me"}
		people, _ := p.source.PeopleFor(stateOf(r).viewer.who) // without them, there are the other owners
		for _, x := range people {
			if len(x.Roles) > 0 && store.PersonSubject+x.ID != stateOf(r).viewer.subject() {
				pairs = append(pairs, x.ID, x.Name)
			}
		}
		v.Owners = choices(v.Owner, "nobody but itself", pairs...)
	}
	for _, role := range []identity.Role{identity.Caller, identity.Viewer, identity.Operator, identity.Admin} {
		if !v.Own || stateOf(r).viewer.has(role) {
			v.Roles = append(v.Roles, choice{role.String(), role.String(), v.Role == role.String()})
		}
	}
	view := &View{Title: title, Crumbs: []Crumb{{"Keys", pathOf("keys")}}, Data: v, Stream: pathOf("keys", "new")}
	if v.Problem != "" || v.Errors != nil {
		view.Status = http.StatusUnprocessableEntity
	}
	return view, nil
}

// has reports whether the viewer may do what a key with a role may.
func (v *viewer) has(role identity.Role) bool {
	if role == identity.Caller {
		return v.caller
	}
	return v.role.Includes(role)
}

// request returns what the form asks for, and what is wrong with it.
func (v *newKey) request() (q admin.APIKeyRequest) {
	q = admin.APIKeyRequest{Name: v.Name, Mine: v.Own || v.Owner == "mine", Role: v.Role, Servers: strings.Fields(v.Servers), Tools: filledLines(v.Tools), Life: v.Life}
	if !q.Mine {
		q.Owner = v.Owner
	}
	role, _ := identity.RoleOf(q.Role)
	life, err := access.Life(q.Life)
	v.wrong("k-life", "Life", err)
	// Each on its own, so that each field has what is wrong with it.
	sound := access.Wish{Name: "x", Project: "x", Role: identity.Caller, Life: life}
	name, servers, tools, all := sound, sound, sound, sound
	name.Name, servers.Servers, tools.Tools = q.Name, q.Servers, q.Tools
	v.wrong("k-name", "Name", name.Check())
	v.wrong("k-servers", "Servers", servers.Check())
	v.wrong("k-tools", "Tools", tools.Check())
	if all.Role = role; v.Errors == nil {
		all.Servers, all.Tools = q.Servers, q.Tools
		v.wrong("k-role", "Role", all.Check())
	}
	return q
}

// filledLines returns the lines of a text that aren't empty. The names of tools may have spaces.
func filledLines(text string) (all []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

func (v *newKey) wrong(id, name string, err error) {
	if err != nil {
		v.Errors = append(v.Errors, form.Error{ID: id, Name: name + ":", Text: err.Error()})
	}
}

// fieldOf returns the field that a problem of the API is about.
var fieldOf = map[string][2]string{"key-role": {"k-role", "Role:"}, "key-life": {"k-life", "Life:"}, "no-such-person": {"k-owner", "Owner:"}}

// refused puts a problem of the API to its field.
func (v *newKey) refused(bad *admin.Problem) {
	if at, ok := fieldOf[bad.Type]; ok {
		v.Errors = append(v.Errors, form.Error{ID: at[0], Name: at[1], Text: strings.TrimSuffix(bad.Error(), ".")})
		return
	}
	v.Problem = bad.Error()
}

// keyTried is what became of a form about a key. It never has a key's text, so that nobody gets that from a form that is
// sent again.
type keyTried struct {
	id  string
	bad *admin.Problem
}

// make handles the form for a new key.
func (p *keyPages) make(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	f, number := r.PostForm, r.PostForm.Get("number")
	v := &newKey{Name: strings.TrimSpace(f.Get("name")), Owner: f.Get("owner"), Role: f.Get("role"), Servers: f.Get("servers"), Tools: f.Get("tools"), Life: strings.TrimSpace(f.Get("life")), Own: !may(r, identity.Admin)}
	show := func(status int) {
		p.frame.again(w, r, p.newPage(), func(r *http.Request) (*View, error) {
			view, err := p.blank(r, v)
			view.Status = status
			return view, err
		})
	}
	if number == "" {
		p.frame.fail(w, r, unreadable(allKeys.Path))
		return
	}
	q := v.request()
	switch {
	case v.Errors != nil:
		show(http.StatusUnprocessableEntity)
		return
	case !sure(r, accessWords):
		v.Problem = unsure(accessWords)
		show(http.StatusForbidden)
		return
	}
	p.once(w, r, number, func(ctx context.Context, who *identity.Principal) (admin.NewAPIKey, *admin.Problem) {
		return p.source.MakeKeyFor(ctx, who, q)
	}, func(bad *admin.Problem) {
		v.refused(bad)
		show(bad.Status)
	})
}

// once makes or rotates a key, and shows it in this response and no other. failed shows the page again with a problem.
func (p *keyPages) once(w http.ResponseWriter, r *http.Request, number string, act func(context.Context, *identity.Principal) (admin.NewAPIKey, *admin.Problem), failed func(*admin.Problem)) {
	var made admin.NewAPIKey
	answer, again := p.forms.once(r, number, func() any {
		who, x := stateOf(r).viewer.who, keyTried{}
		made, x.bad = act(r.Context(), who)
		x.id = made.ID
		return x
	})
	switch x, known := answer.(keyTried); {
	case known && x.bad != nil:
		failed(x.bad)
		p.forms.forget(r, number) // nothing has happened, so the form may be sent again
	case again:
		e := &pageError{Status: http.StatusConflict, Title: "This form was sent before", Text: "It acted once, and the key was shown once, in the answer to the first sending. Whoever hasn't kept it rotates the key, which gives it another secret.", Next: allKeys}
		if known {
			e.Next = Crumb{"Show the key", pathOf("keys", x.id)}
		}
		p.frame.fail(w, r, e)
	default:
		p.frame.again(w, r, p.newPage(), func(r *http.Request) (*View, error) {
			return p.blank(r, &newKey{Made: &made, Until: made.OverlapUntil})
		})
	}
}

// keyView has the values of a key's page.
type keyView struct {
	keyRow
	Now           admin.KeyUse
	Twins         int
	Acts          bool // the viewer may rotate and revoke the key
	Audit         bool // the viewer may see what was done with it
	Long          bool // the viewer may give it a longer life than 90 days
	Gone          bool // somebody has revoked it, while the page was open
	Overlap, Life string
	Number, Sure  string
	Problem       string
	Errors        []form.Error
}

// Ends says what would end with the key.
func (v *keyView) Ends() string { return endsText(v.Now) }

func endsText(n admin.KeyUse) string {
	return plural(n.Sessions, "session") + ", " + plural(n.Streams, "open stream") + " and " + plural(n.Calls, "running call")
}

// Mark changes when what the page says of the key does, except for numbers.
func (v *keyView) Mark() string {
	if v.Gone {
		return "gone"
	}
	return strings.Join([]string{v.ID, v.Hint, v.Word(), v.Owner, strings.Join(v.Warnings(), ";")}, " ")
}

// key returns the page of a key, and sets the remaining values of v.
func (p *keyPages) key(r *http.Request, v *keyView) (*View, error) {
	k, bad := p.source.KeyFor(r.Context(), stateOf(r).viewer.who, r.PathValue("id"))
	switch {
	case bad != nil && stateOf(r).feed:
		return &View{Data: &keyView{Gone: true}}, nil // the page loads again, and says so
	case bad != nil:
		return nil, noKeyHere(bad)
	}
	v.keyRow, v.Now, v.Twins = keyRow{k.APIKey}, k.Now, k.Twins
	v.Overlap, v.Life = cmp.Or(v.Overlap, "24h"), cmp.Or(v.Life, "90d")
	v.Long, v.Audit = may(r, identity.Admin), may(r, identity.Operator)
	v.Acts = v.Long || v.Mine
	v.Number, v.Sure = formNumber(), sureWords(r, accessWords)
	return &View{Title: excerpt.Line(k.Name, 100), Crumbs: []Crumb{{"Keys", pathOf("keys")}}, Data: v, Stream: pathOf("keys", k.ID)}, nil
}

func noKeyHere(bad *admin.Problem) error {
	return &pageError{Status: bad.Status, Title: bad.Title, Text: "Nobody has a key with this id in this project whom you may see, or it was revoked. It may have been in another project.", Next: allKeys}
}

// act handles the forms of a key's page.
func (p *keyPages) act(w http.ResponseWriter, r *http.Request) {
	if !p.frame.parsed(w, r) {
		return
	}
	f, id, number := r.PostForm, r.PathValue("id"), r.PostForm.Get("number")
	v := &keyView{Overlap: strings.TrimSpace(f.Get("overlap")), Life: strings.TrimSpace(f.Get("life"))}
	failed := func(bad *admin.Problem) {
		if bad.Type == "no-such-key" {
			p.frame.fail(w, r, &pageError{Status: http.StatusNotFound, Title: "There is no such key", Text: "Somebody has revoked it meanwhile, or it was never there. Nothing has changed now.", Next: allKeys})
			return
		}
		v.Problem = bad.Error()
		if bad.Type == "key-life" {
			v.Problem, v.Errors = "", append(v.Errors, form.Error{ID: "k-life", Name: "Life:", Text: strings.TrimSuffix(bad.Error(), ".")})
		}
		p.frame.again(w, r, p.keyPage(), func(r *http.Request) (*View, error) {
			view, err := p.key(r, v)
			if view != nil {
				view.Status = bad.Status
			}
			return view, err
		})
	}
	switch do := f.Get("do"); {
	case number == "" || do != "rotate" && do != "revoke":
		p.frame.fail(w, r, unreadable(allKeys.Path))
	case !sure(r, accessWords):
		failed(&admin.Problem{Status: http.StatusForbidden, Detail: unsure(accessWords)})
	case do == "revoke":
		p.revoke(w, r, id, number, failed)
	default:
		if v.read(); v.Errors != nil {
			failed(&admin.Problem{Status: http.StatusUnprocessableEntity})
			return
		}
		q := admin.APIKeyRotation{Overlap: v.Overlap, Life: v.Life, Hint: f.Get("hint")}
		p.once(w, r, number, func(ctx context.Context, who *identity.Principal) (admin.NewAPIKey, *admin.Problem) {
			return p.source.RotateKeyFor(ctx, who, id, q)
		}, failed)
	}
}

// read checks the fields of a rotation.
func (v *keyView) read() {
	if _, err := access.Duration(v.Overlap); err != nil {
		v.Errors = append(v.Errors, form.Error{ID: "k-overlap", Name: "Overlap:", Text: err.Error()})
	}
	if _, err := access.Life(v.Life); err != nil {
		v.Errors = append(v.Errors, form.Error{ID: "k-life", Name: "Life:", Text: err.Error()})
	}
}

// Error returns what is wrong in a field.
func (v *keyView) Error(id string) string { return (&newKey{Errors: v.Errors}).Error(id) }

// revoke revokes a key, and says what ends with it.
func (p *keyPages) revoke(w http.ResponseWriter, r *http.Request, id, number string, failed func(*admin.Problem)) {
	type revoked struct {
		gone admin.RevokedKey
		bad  *admin.Problem
	}
	answer, _ := p.forms.once(r, number, func() any {
		who := stateOf(r).viewer.who
		gone, bad := p.source.RevokeKeyFor(r.Context(), who, id)
		return revoked{gone, bad}
	})
	switch x, known := answer.(revoked); {
	case !known:
		failed(&admin.Problem{Type: "no-such-key"})
	case x.bad != nil:
		failed(x.bad)
		p.forms.forget(r, number)
	default:
		say(w, "The key "+excerpt.Quote(x.gone.Name, 100)+" is revoked. What ends with it within 5 s: "+endsText(x.gone.Ends)+".")
		http.Redirect(w, r, pathOf("keys"), http.StatusSeeOther)
	}
}
