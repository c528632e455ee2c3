package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Bounds of Access.
const (
	linkLife    = 10 * time.Minute
	sessionLife = 12 * time.Hour
	mostLinks   = 64
	mostBrowser = 64 // browser sessions
)

// LinkQuery is the query parameter of /console/ that contains the token of a one-time link.
const LinkQuery = "link"

// Access decides who may use the parts of the admin API and of the console that show messages or
// change something. On this machine, a request can prove that it comes from the user who runs this
// process. The proof is either the session of a browser that has opened a one-time link, or the key of
// the process, which only this user can read (see WriteKey). MCP endpoints accept neither proof. Whoever
// else may come in has an API key or a session; see VisitorsFrom. A request of another machine must have
// come over https, and never is the local user's.
//
// Browsers send a cookie to every port of its host, so a cookie for 127.0.0.1 would reach every
// program on this machine that can make the user open a page. There are two kinds of sessions that
// do not: a cookie for a host name that only this process and the browser know (see Name), and a
// password, which browsers send only to the host and port that asked for it (RFC 7617 §2.2).
//
// All state is in memory, and its size is limited. Only the sessions of people are in the store, so that they
// outlive the process. Create an Access with NewAccess. It is safe for concurrent use.
type Access struct {
	local  bool
	key    string
	name   string
	public publicHost  // see UsePublicURL
	named  atomic.Bool // see UseName
	cross  *http.CrossOriginProtection
	// roles returns the roles that a principal has now in a project.
	roles func(who *identity.Principal, project string) []identity.Role
	// visitor returns whose API key a request has; see VisitorsFrom.
	visitor func(*http.Request) (*identity.Principal, error)
	// roster knows the people who were invited; see Options.Roster. It may be nil.
	roster *access.Roster
	login  *login // see LoginAt; nil if people need an invitation

	mu       sync.Mutex
	links    []ticket // oldest first
	sessions []ticket // oldest first
}

// ticket is a secret with an expiry time. Access stores only the hash of the secret.
type ticket struct {
	who      *identity.Principal // who has the link, or whose session it is
	hash     [sha256.Size]byte
	until    time.Time
	password bool // the secret of a session is a password and not the value of a cookie
	remote   bool // the session began at an address that other machines can reach
	// secret is what a request has, which isn't kept, or the session of a person that a link opens.
	secret string
	ends   time.Time // when that session ends

	// Of a session, how its user recognises it; see Browser.
	id, name, address string
	began, seen       time.Time
}

// NewAccess returns an Access with a new random key. local must be true only if the listener cannot
// be reached from other machines. If local is false, Check refuses what hasn't come over https.
func NewAccess(local bool) *Access {
	return &Access{local: local, key: secret(), name: newName(), cross: http.NewCrossOriginProtection(), roles: localRoles, visitor: noVisitors}
}

func noVisitors(*http.Request) (*identity.Principal, error) { return nil, nil }

// localRoles gives every role to the local user, and none to anybody else.
func localRoles(who *identity.Principal, _ string) []identity.Role {
	if who == identity.Local {
		return []identity.Role{identity.Caller, identity.Admin}
	}
	return nil
}

// RolesFrom makes f say which roles a principal has in a project. Without it the local user has them all,
// and nobody else has any. RolesFrom must be called before the Access is used.
func (a *Access) RolesFrom(f func(who *identity.Principal, project string) []identity.Role) {
	a.roles = f
}

// VisitorsFrom makes f say whose API key a request has. f returns nil without an error if the request has none,
// and a *httpdoor.Denied if it is to be refused. Without f, nobody has one. VisitorsFrom must be called before
// the Access is used.
func (a *Access) VisitorsFrom(f func(*http.Request) (*identity.Principal, error)) { a.visitor = f }

// secret returns a new random secret of 256 bits, in characters that are safe in a URL.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // rand.Read never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Denied is the reason why a request was refused. It contains neither a secret nor text from the
// request.
type Denied struct {
	Status int    // the HTTP status
	Kind   string // the value for Problem.Type
	Detail string // one or two sentences: the cause, and often what the user can do

	retryAfter time.Duration // when to try again, for status 429
	nobody     bool          // the request has no credential that is meant for us
}

func (d *Denied) Error() string { return d.Detail }

// Problem returns the body of the response to a refused request. path is the path of the request.
func (d *Denied) Problem(path string) Problem {
	title := "Only the user of this process may do this"
	switch {
	case d.Status == http.StatusUnauthorized:
		title = "The request has no valid key or session"
	case d.Kind == kindCredential:
		title = "The credentials of the request are not accepted"
	case d.Kind == kindRole:
		title = "Your role does not allow this"
	}
	return Problem{Type: d.Kind, Title: title, Status: d.Status, Detail: d.Detail, Instance: path, RetryAfter: d.retryAfter}
}

// kindCredential is the Kind of a Denied for an API key that is malformed, wrong, or one of too many.
const kindCredential = "credential"

// kindRole is the Kind of a Denied for a principal that lacks a role.
const kindRole = "role"

// Check returns who sent a request, for the routes that show messages or change something. The request
// needs an API key, a session, or the header "Authorization: Bearer KEY" with the key of this process, which
// only the local user has. If it has none of them, or if CheckOrigin refuses it, the error is a *Denied. Check
// doesn't look at roles; see May.
func (a *Access) Check(r *http.Request) (*identity.Principal, error) {
	if who, ok := r.Context().Value(admittedKey{}).(*identity.Principal); ok && who != nil {
		return who, nil
	}
	if err := a.CheckOrigin(r); err != nil {
		return nil, err
	}
	// An API key comes first, so that one in the URL or a second credential is refused whatever else there is.
	switch who, err := a.visitor(r); {
	case err != nil:
		return nil, deniedVisitor(err)
	case who != nil && who != identity.Local:
		return who, nil
	}
	here := a.here(r)
	if here && a.hasKey(r) {
		return identity.Local, nil
	}
	_, _, basic := r.BasicAuth()
	given := len(r.Header["Authorization"]) > 0
	if !given || basic {
		if who := a.SignedIn(r); who != nil {
			return who, nil
		}
	}
	denied := &Denied{Status: http.StatusUnauthorized, Kind: "no-access", nobody: true}
	switch {
	case !here:
		denied.Detail = "Send an API key as a bearer token or in the header X-API-Key. An admin makes one with `dragoman keys add NAME --role ROLE`."
	case given:
		denied.Kind, denied.Detail = "wrong-key", "The key is not the key of this process. Each start of `dragoman serve` makes a new key."
	default:
		denied.Detail = "Run `dragoman console" + Flag(r) + "` for a link that opens the console, or send the key of this process, or an API key with a role, as a bearer token."
	}
	return nil, denied
}

// admittedKey is the key of Admitted in the context of a request.
type admittedKey struct{}

// Admitted returns a request of who, whose session and origin the console has checked. Check returns who for it,
// whatever its Host is by then, and its changes are recorded as made with the console.
func (a *Access) Admitted(r *http.Request, who *identity.Principal) *http.Request {
	via := identity.Console
	if who.Seat != who.Subject {
		via += " " + who.Seat
	}
	return r.WithContext(store.Through(context.WithValue(r.Context(), admittedKey{}, who), via))
}

// deniedVisitor returns the *Denied for an error of the visitors.
func deniedVisitor(err error) *Denied {
	out := &Denied{Status: http.StatusUnauthorized, Kind: kindCredential}
	var d *httpdoor.Denied
	if errors.As(err, &d) {
		out.Status, out.Detail, out.retryAfter = cmp.Or(d.Status, out.Status), sentence(d.Reason, ""), d.RetryAfter
	}
	return out
}

// May returns nil if who has a role in a project that includes least, and a *Denied otherwise.
func (a *Access) May(who *identity.Principal, project string, least identity.Role) error {
	if who != nil && slices.ContainsFunc(a.roles(who, project), func(r identity.Role) bool { return r.Includes(least) }) {
		return nil
	}
	return &Denied{Status: http.StatusForbidden, Kind: kindRole, Detail: "This needs the role " + least.String() + " in the project " + project + ", which you don't have. Ask an admin for it."}
}

// hasKey reports whether a request has the key of this process.
func (a *Access) hasKey(r *http.Request) bool {
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return false
	}
	scheme, key, _ := strings.Cut(given[0], " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(key), []byte(a.key)) == 1
}

// CheckOrigin makes the checks of Check that need neither key nor session. It returns a *Denied if a page of
// another site sent the request, or if it neither comes directly from this machine nor has come over https.
func (a *Access) CheckOrigin(r *http.Request) error {
	switch {
	case !a.here(r) && !a.secure(r):
		return &Denied{Status: http.StatusForbidden, Kind: "local-only", Detail: a.insecure(r)}
	case foreignPage(r), a.cross.Check(r) != nil:
		return &Denied{Status: http.StatusForbidden, Kind: "foreign-page", Detail: "A page of another site sent the request."}
	}
	return nil
}

// here reports whether a request comes directly from this machine.
func (a *Access) here(r *http.Request) bool {
	return a.local && !forwarded(r) && (httpdoor.IsLocal(r.Host) || a.AtName(r))
}

// SignedIn returns whose session a request belongs to, or nil if it has none that is still valid.
func (a *Access) SignedIn(r *http.Request) *identity.Principal {
	who, _ := a.session(r)
	return who
}

// ours returns whose session in memory one of the secrets of a request is, or nil if there is none.
func (a *Access) ours(given []ticket, now time.Time) (*identity.Principal, Browser) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.sessions {
		if s := &a.sessions[i]; now.Before(s.until) && s.among(given) {
			return s.who, s.browser()
		}
	}
	return nil, Browser{}
}

// among reports whether a list has the secret of the ticket, of the same kind.
func (t ticket) among(given []ticket) bool {
	return slices.ContainsFunc(given, func(g ticket) bool { return g.hash == t.hash && g.password == t.password && g.remote == t.remote })
}

// given returns the secrets of sessions that a request has. Each kind counts only at the hosts for
// which we make it, because at any other host other programs could have got it from the browser.
func (a *Access) given(r *http.Request) (all []ticket) {
	remote := a.Remote(r)
	if remote || a.AtName(r) {
		for _, c := range r.CookiesNamed(a.cookieName(r)) {
			if len(all) == mostCookies {
				break
			}
			all = append(all, ticket{hash: sha256.Sum256([]byte(c.Value)), secret: c.Value, remote: remote})
		}
	} else if user, password, ok := r.BasicAuth(); ok && user == PasswordUser && len(r.Header["Authorization"]) == 1 && isAddress(r.Host) {
		all = append(all, ticket{hash: sha256.Sum256([]byte(password)), secret: password, password: true})
	}
	return all
}

// mostCookies is the maximum number of session cookies that are checked in one request.
const mostCookies = 256

// Key returns the key of this process.
func (a *Access) Key() string { return a.key }

// Link returns a new link that opens the console once for the local user; see LinkFor.
func (a *Access) Link(base string) string { return a.LinkFor(identity.Local, base) }

// LinkFor returns a new link that opens the console once for who, within ten minutes. base is the URL of the
// listener without a path, for example "http://127.0.0.1:7300". At most 64 links are valid at the
// same time. If there are already 64, the oldest link becomes invalid.
func (a *Access) LinkFor(who *identity.Principal, base string) string {
	token := secret()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.links = added(a.links, ticket{who: who, hash: sha256.Sum256([]byte(token))}, linkLife, mostLinks)
	return base + "/console/?" + LinkQuery + "=" + token
}

// Waits reports whether a link with this token would still work. It does not use up the link.
func (a *Access) Waits(token string) bool {
	hash, now := sha256.Sum256([]byte(token)), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.links, func(l ticket) bool { return l.hash == hash && now.Before(l.until) })
}

// Enter checks the token of a link. If the token is valid, Enter makes it invalid, sets the cookie
// of a new session and returns true. The session lasts 12 hours. At most 64 sessions exist at the
// same time. If there are already 64, the oldest session ends. Enter returns false, and the token
// stays valid, if the Host of the request is not the console's name, and if it is the local user's link and
// the request has come from another machine.
func (a *Access) Enter(w http.ResponseWriter, r *http.Request, token string) bool {
	remote := a.Remote(r)
	if !remote && !a.AtName(r) {
		return false
	}
	if a.enterAsGuest(w, r, token) {
		return true
	}
	who := a.use(token, remote)
	if who == nil {
		return false
	}
	a.setCookie(w, r, a.begin(a.renew(r, ticket{who: who, remote: remote})), int(sessionLife/time.Second))
	return true
}

// setCookie sets the cookie of a session for so many seconds. It has no Domain, so no other name gets it.
func (a *Access) setCookie(w http.ResponseWriter, r *http.Request, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: a.cookieName(r), Value: value, Path: "/", MaxAge: seconds,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: a.Remote(r),
	})
}

// EnterWithPassword does the same as Enter for browsers that cannot open the console's name: it
// returns the password of the new session. The password belongs to the user PasswordUser, and is
// valid at a loopback address.
func (a *Access) EnterWithPassword(r *http.Request, token string) (password string, ok bool) {
	who := a.use(token, false)
	if who == nil {
		return "", false
	}
	return a.begin(a.renew(r, ticket{who: who, password: true})), true
}

// begin starts a session and returns its secret.
func (a *Access) begin(t ticket) string {
	session := secret()
	t.hash = sha256.Sum256([]byte(session))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions = added(a.sessions, t, sessionLife, mostBrowser)
	return session
}

// Leave ends the browser session of a request, and deletes its cookie. It does nothing if the request
// has no session.
func (a *Access) Leave(w http.ResponseWriter, r *http.Request) {
	given := a.given(r)
	if len(given) == 0 {
		return
	}
	a.end(r.Context(), given)
	if a.Remote(r) || a.AtName(r) {
		a.setCookie(w, r, "", -1)
	}
}

// use removes the link with the given token, and returns whose it was, or nil if it was not valid. If remote
// is true, it leaves a link of the local user alone and returns nil.
func (a *Access) use(token string, remote bool) *identity.Principal {
	hash, now := sha256.Sum256([]byte(token)), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, l := range a.links {
		if l.hash == hash {
			if remote && l.who == identity.Local || l.who == nil {
				return nil
			}
			a.links = append(a.links[:i], a.links[i+1:]...)
			if now.Before(l.until) {
				return l.who
			}
			return nil
		}
	}
	return nil
}

// added returns list with the ticket t, which expires after the duration life. It removes expired
// tickets. If the list then has more tickets than the limit most, it also removes the oldest.
func added(list []ticket, t ticket, life time.Duration, most int) []ticket {
	now := time.Now()
	kept := make([]ticket, 0, len(list)+1)
	for _, old := range list {
		if now.Before(old.until) {
			kept = append(kept, old)
		}
	}
	t.until = now.Add(life)
	kept = append(kept, t)
	return kept[max(0, len(kept)-most):]
}

// ConsoleLink is the response of POST /api/v1/console/link.
type ConsoleLink struct {
	URL     string    `json:"url" doc:"the link to the console, which works only once"`
	Expires time.Time `json:"expires" doc:"when the link expires, 10 minutes after it was made"`
}

// serveConsoleLink answers POST /api/v1/console/link with a new link. It requires the key, because a
// browser session must not be able to create another session.
func (a *API) serveConsoleLink(w http.ResponseWriter, r *http.Request) {
	switch {
	case !a.opts.Access.here(r) || !a.opts.Access.hasKey(r):
		refuse(w, (&Denied{Status: http.StatusForbidden, Kind: "key-only", Detail: "The request has no Authorization header with the key of this process. Run `dragoman console" + Flag(r) + "` to get a link."}).Problem(r.URL.Path))
	case a.opts.ConsoleOff != "":
		refuse(w, Problem{Type: "console-off", Title: "The console is off", Status: http.StatusConflict, Detail: a.opts.ConsoleOff, Instance: r.URL.Path})
	default:
		writeJSON(w, r, ConsoleLink{URL: a.opts.Access.Link("http://" + Address(r)), Expires: time.Now().Add(linkLife).UTC().Truncate(time.Second)})
	}
}
