package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
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
// change something. A request must prove that it comes from the user who runs this process. The
// proof is either the cookie of a browser that has opened a one-time link, or the key of the
// process, which only this user can read (see WriteKey). MCP endpoints accept neither proof.
//
// All state is in memory, and its size is limited. Create an Access with NewAccess. It is safe for
// concurrent use.
type Access struct {
	local bool
	key   string
	cross *http.CrossOriginProtection

	mu       sync.Mutex
	links    []ticket // oldest first
	sessions []ticket // oldest first
}

// ticket is a secret with an expiry time. Access stores only the hash of the secret.
type ticket struct {
	hash  [sha256.Size]byte
	until time.Time
}

// NewAccess returns an Access with a new random key. local must be true only if the listener cannot
// be reached from other machines. If local is false, Check refuses every request.
func NewAccess(local bool) *Access {
	return &Access{local: local, key: secret(), cross: http.NewCrossOriginProtection()}
}

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
}

func (d *Denied) Error() string { return d.Detail }

// Problem returns the body of the response to a refused request. path is the path of the request.
func (d *Denied) Problem(path string) Problem {
	title := "Only the user of this process may do this"
	if d.Status == http.StatusUnauthorized {
		title = "The request has no valid key or session"
	}
	return Problem{Type: d.Kind, Title: title, Status: d.Status, Detail: d.Detail, Instance: path}
}

// Check returns nil if the sender of a request may see messages and change something. Otherwise it
// returns a *Denied. The request needs the cookie of a session, or the header "Authorization: Bearer
// KEY". Even with a valid cookie or key, Check refuses the requests that CheckOrigin refuses.
func (a *Access) Check(r *http.Request) error {
	if err := a.CheckOrigin(r); err != nil {
		return err
	}
	if given := r.Header["Authorization"]; len(given) > 0 {
		scheme, key, _ := strings.Cut(given[0], " ")
		if len(given) == 1 && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(key), []byte(a.key)) == 1 {
			return nil
		}
		return &Denied{http.StatusUnauthorized, "wrong-key", "The key is not the key of this process. Each start of `dragoman serve` makes a new key."}
	}
	if !a.SignedIn(r) {
		return &Denied{http.StatusUnauthorized, "no-access", "Run `dragoman console" + Flag(r) + "` for a link that opens the console, or send the key of this process as a bearer token."}
	}
	return nil
}

// CheckOrigin makes the checks of Check that need neither cookie nor key. It returns a *Denied if
// other machines can reach the listener, if a proxy forwarded the request, if its Host is not this
// machine, or if a page of another site sent the request.
func (a *Access) CheckOrigin(r *http.Request) error {
	switch {
	case !a.local:
		return &Denied{http.StatusForbidden, "local-only", "Dragoman listens on an address that other machines can reach, so it refuses this request. Listen on 127.0.0.1 instead."}
	case forwarded(r):
		return &Denied{http.StatusForbidden, "local-only", "A proxy forwarded the request. Send it directly, without a proxy."}
	case foreignPage(r), a.cross.Check(r) != nil:
		return &Denied{http.StatusForbidden, "foreign-page", "A page of another site sent the request."}
	}
	return nil
}

// SignedIn reports whether a request has the cookie of a session that is still valid.
func (a *Access) SignedIn(r *http.Request) bool {
	given, now := sessionsOf(r), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sessions {
		if slices.Contains(given, s.hash) && now.Before(s.until) {
			return true
		}
	}
	return false
}

// mostCookies is the maximum number of session cookies that are checked in one request. A program
// on another port of this host can set many cookies with this name and a longer path, which the
// browser sends first. Browsers keep fewer cookies than this for one host.
const mostCookies = 256

// sessionsOf returns the hashes of the session cookies of a request. There may be several cookies
// with this name, because another program on this host can also set one.
func sessionsOf(r *http.Request) (hashes [][sha256.Size]byte) {
	for _, c := range r.CookiesNamed(cookieName(r)) {
		if len(hashes) == mostCookies {
			break
		}
		hashes = append(hashes, sha256.Sum256([]byte(c.Value)))
	}
	return hashes
}

// Key returns the key of this process.
func (a *Access) Key() string { return a.key }

// Link returns a new link that opens the console once, within ten minutes. base is the URL of the
// listener without a path, for example "http://127.0.0.1:7300". At most 64 links are valid at the
// same time. If there are already 64, the oldest link becomes invalid.
func (a *Access) Link(base string) string {
	token := secret()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.links = added(a.links, token, linkLife, mostLinks)
	return base + "/console/?" + LinkQuery + "=" + token
}

// Enter checks the token of a link. If the token is valid, Enter makes it invalid, sets the cookie
// of a new session and returns true. The session lasts 12 hours. At most 64 sessions exist at the
// same time. If there are already 64, the oldest session ends.
func (a *Access) Enter(w http.ResponseWriter, r *http.Request, token string) bool {
	if !a.use(token) {
		return false
	}
	session := secret()
	a.mu.Lock()
	a.sessions = added(a.sessions, session, sessionLife, mostBrowser)
	a.mu.Unlock()
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: session, Path: "/", MaxAge: int(sessionLife / time.Second),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	return true
}

// Leave ends the browser session of a request, and deletes its cookie. It does nothing if the request
// has no session cookie.
func (a *Access) Leave(w http.ResponseWriter, r *http.Request) {
	given := sessionsOf(r)
	if len(given) == 0 {
		return
	}
	a.mu.Lock()
	a.sessions = slices.DeleteFunc(a.sessions, func(t ticket) bool { return slices.Contains(given, t.hash) })
	a.mu.Unlock()
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
}

// use removes the link with the given token, and reports whether the link was valid.
func (a *Access) use(token string) bool {
	hash, now := sha256.Sum256([]byte(token)), time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, l := range a.links {
		if l.hash == hash {
			a.links = append(a.links[:i], a.links[i+1:]...)
			return now.Before(l.until)
		}
	}
	return false
}

// added returns list with a new ticket, which expires after the duration life. It removes expired
// tickets. If the list then has more tickets than the limit most, it also removes the oldest.
func added(list []ticket, text string, life time.Duration, most int) []ticket {
	now := time.Now()
	kept := make([]ticket, 0, len(list)+1)
	for _, t := range list {
		if now.Before(t.until) {
			kept = append(kept, t)
		}
	}
	kept = append(kept, ticket{sha256.Sum256([]byte(text)), now.Add(life)})
	return kept[max(0, len(kept)-most):]
}

// cookieName returns the name of the session cookie. Browsers send a cookie to all ports of a host.
// The name contains the port, because otherwise two Dragoman processes on one machine would
// overwrite each other's cookie.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "80"
	}
	return "dragoman_console_" + port
}

// access reports whether Access.Check allows the request. Before it returns false, it writes the
// error response.
func (a *API) access(w http.ResponseWriter, r *http.Request) bool {
	err := a.opts.Access.Check(r)
	if err == nil {
		return true
	}
	denied, ok := err.(*Denied)
	if !ok {
		denied = &Denied{http.StatusForbidden, "no-access", ""}
	}
	if denied.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="dragoman"`)
	}
	refuse(w, denied.Problem(r.URL.Path))
	return false
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
	case len(r.Header["Authorization"]) == 0:
		refuse(w, (&Denied{http.StatusForbidden, "key-only", "The request has no Authorization header with the key of this process. Run `dragoman console" + Flag(r) + "` to get a link."}).Problem(r.URL.Path))
	case a.opts.ConsoleOff != "":
		refuse(w, Problem{Type: "console-off", Title: "The console is off", Status: http.StatusConflict, Detail: a.opts.ConsoleOff, Instance: r.URL.Path})
	default:
		writeJSON(w, r, ConsoleLink{URL: a.opts.Access.Link("http://" + r.Host), Expires: time.Now().Add(linkLife).UTC().Truncate(time.Second)})
	}
}
