package fake

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// OAuthProfile describes one server that wants a sign-in.
type OAuthProfile struct {
	Name, About string
	odd         oddity
}

// oddity is how a server differs from one that does everything right.
type oddity struct {
	issuer         string // what the server's metadata says after the origin, or a whole URL
	resource       string // the resource that the resource metadata names; "" is the server's URL
	withoutS256    bool   // the metadata doesn't list S256
	unregistrable  bool   // there is no way to register
	noLoopback     bool   // registration refuses redirect URIs on loopback
	issUnsaid      bool   // iss is promised and missing
	bareChallenge  bool   // a 401 doesn't name the metadata
	nothingKnown   bool   // no metadata anywhere, as in 2025-03-26
	everyPath      bool   // unknown well-known paths answer 200 with a page
	twice          bool   // the metadata names the token endpoint twice
	huge           bool   // the metadata has a megabyte
	moved          bool   // the metadata is at another origin
	slow           bool   // tokens take the time of the setting ms
	broken         bool   // refreshes are answered by a page with status 502, as often as the setting times says
	forgets        bool   // every client is forgotten once it has a token
	moves          bool   // the issuer is another one after the first token
	neverEnough    bool   // every token has too few scopes
	stepUp         bool   // calls of tools need a further scope
	once           bool   // a refresh token works once, and its second use ends the sign-in
	keepsRefresh   bool   // a refresh brings no new refresh token
	losesAudience  bool   // a refresh ignores resource, so that the new token is for nothing
	refusesRefresh bool   // the grant is over after the first refresh
}

// OAuthProfiles returns the profiles of servers that want a sign-in: the one that does everything
// right, those that are right and unusual, and those with one fault each.
func OAuthProfiles() []OAuthProfile {
	return []OAuthProfile{
		{"ok", "Does everything right.", oddity{}},
		{"step-up", "Wants a further scope for calls of tools.", oddity{stepUp: true}},
		{"no-metadata", "Has no metadata, only the paths of 2025-03-26.", oddity{bareChallenge: true, nothingKnown: true}},
		{"no-rotation", "Keeps the refresh token when it is used.", oddity{keepsRefresh: true}},
		{"slow-token", "Takes its time for every token.", oddity{slow: true}},

		{"bare-challenge", "Answers 401 without saying where the metadata is.", oddity{bareChallenge: true}},
		{"changed-issuer", "Moves to another authorization server after the first sign-in.", oddity{moves: true}},
		{"duplicate-members", "Names its token endpoint twice.", oddity{twice: true}},
		{"endless-scope", "Never finds the scopes of a token sufficient.", oddity{neverEnough: true}},
		{"every-path", "Answers unknown well-known paths with a page and 200.", oddity{everyPath: true}},
		{"forgets-clients", "Forgets each client after its first token, as after a restart.", oddity{forgets: true}},
		{"html-errors", "Answers refreshes with a page and 502 for a while.", oddity{broken: true}},
		{"huge-metadata", "Has a megabyte of metadata.", oddity{huge: true}},
		{"iss-missing", "Promises iss in its answers and leaves it out.", oddity{issUnsaid: true}},
		{"issuer-slash", "Has an issuer that differs by a slash.", oddity{issuer: "/"}},
		{"moved-metadata", "Redirects to metadata at another origin.", oddity{moved: true}},
		{"no-grace", "Ends the sign-in when a refresh token is used twice.", oddity{once: true}},
		{"no-loopback", "Registers no client with a redirect URI on loopback.", oddity{noLoopback: true}},
		{"no-pkce", "Doesn't say that it has PKCE.", oddity{withoutS256: true}},
		{"no-registration", "Has no way to register a client.", oddity{unregistrable: true}},
		{"no-second-refresh", "Ends every sign-in after its first refresh.", oddity{refusesRefresh: true}},
		{"refresh-drops-resource", "Ignores resource when a token is refreshed.", oddity{losesAudience: true}},
		{"resource-mismatch", "Says that it is another resource.", oddity{resource: "https://other.example/mcp"}},
		{"wrong-issuer", "Has the metadata of another issuer.", oddity{issuer: "https://other.example"}},
	}
}

// OAuthSettings returns the settings that all these profiles have.
func OAuthSettings() []Setting {
	return revised(usual,
		Setting{"life", "3600", "how many seconds an access token is good for"},
		Setting{"ms", "3000", "with slow-token: how long a token takes, in milliseconds"},
		Setting{"times", "2", "with html-errors: how many refreshes fail"},
		Setting{"consent", "page", "page: a person has to press a button; none: the browser goes on by itself"},
		Setting{"documents", "no", "yes: a client may be the URL of its document, which isn't fetched"},
	)
}

// OAuth is an MCP server and its authorization server at one origin. It is strict on both sides: it
// refuses what OAuth 2.1 or MCP forbids, and records it with the violations. Its codes and tokens are
// numbered, so that a log can be read and a test can search for them; never put it on a network. Its
// methods are safe for concurrent use.
type OAuth struct {
	odd       oddity
	life      time.Duration
	delay     time.Duration
	consent   bool
	documents bool
	resource  *Server // the MCP server behind the door

	mu sync.Mutex
	s  oauthState
}

// oauthState is what changes. OAuth.mu guards it.
type oauthState struct {
	last     int // the number of the last code, token, client and request
	clients  map[string]*oauthClient
	requests map[string]*oauthRequest // by the id in the page, or by the user code of a device
	codes    map[string]*oauthRequest // by the code, or by the device code
	access   map[string]*oauthToken
	refresh  map[string]*oauthToken
	counts   map[string]int
	failing  int // refreshes that will still fail
	moved    bool
}

// The bounds of what a server keeps.
const (
	maxClients = 1000
	maxTokens  = 10_000
)

// NewOAuth returns the server of a profile. If the profile or a setting is unknown, the error lists the
// known ones.
func NewOAuth(name string, o Options) (*OAuth, error) {
	i := slices.IndexFunc(OAuthProfiles(), func(p OAuthProfile) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("unknown profile %q; use one of %s", name, strings.Join(oauthNames(), ", "))
	}
	set, err := mergeSettings(&Profile{Name: name, Settings: OAuthSettings()}, "", o.Set)
	if err != nil {
		return nil, err
	}
	a := &OAuth{odd: OAuthProfiles()[i].odd, s: oauthState{
		clients: map[string]*oauthClient{}, requests: map[string]*oauthRequest{}, codes: map[string]*oauthRequest{},
		access: map[string]*oauthToken{}, refresh: map[string]*oauthToken{}, counts: map[string]int{},
	}}
	part, err := a.configure(set)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, err)
	}
	a.resource = newServer(part, o)
	return a, nil
}

// configure applies the settings and returns the MCP server behind the door.
func (a *OAuth) configure(set *settings) (*part, error) {
	life, err := set.number("life", 1, 1<<30)
	if err != nil {
		return nil, err
	}
	ms, err := set.number("ms", 0, 600_000)
	if err != nil {
		return nil, err
	}
	times, err := set.number("times", 0, 1_000_000)
	if err != nil {
		return nil, err
	}
	consent, err := set.oneOf("consent", "page", "none")
	if err != nil {
		return nil, err
	}
	documents, err := set.oneOf("documents", "yes", "no")
	if err != nil {
		return nil, err
	}
	a.life, a.consent, a.documents = time.Duration(life)*time.Second, consent == "page", documents == "yes"
	if a.odd.slow {
		a.delay = time.Duration(ms) * time.Millisecond
	}
	if a.odd.broken {
		a.s.failing = times
	}
	return twistedPart(set, twist{tools: []tool{{
		name: "whoami", about: "Returns the person, the client and the scopes of the access token.", of: always, run: a.whoami,
	}}})
}

func oauthNames() (names []string) {
	for _, p := range OAuthProfiles() {
		names = append(names, p.Name)
	}
	return names
}

// Path returns the URL path that clients connect to.
func (a *OAuth) Path() string { return a.resource.Path() }

// Close ends the MCP server and waits for it.
func (a *OAuth) Close() error { return a.resource.Close() }

// Dead returns a channel that is closed when the server has ended.
func (a *OAuth) Dead() <-chan struct{} { return a.resource.Dead() }

// Violations returns what clients did wrong, oldest first, as Server.Violations does.
func (a *OAuth) Violations() []string { return a.resource.Violations() }

// Counts returns how often each thing happened: register, authorize, the grants by name, revoke, and
// the answers 401 and 403 of the MCP server.
func (a *OAuth) Counts() map[string]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.s.counts)
}

// Restart forgets every client, as a server does that keeps registrations in memory. Tokens stay.
func (a *OAuth) Restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.s.clients)
}

// count counts one thing.
func (a *OAuth) count(what string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.s.counts[what]++
}

// next returns a new name, such as code-7. The caller holds a.mu.
func (s *oauthState) next(kind string) string {
	s.last++
	return kind + "-" + strconv.Itoa(s.last)
}

// Handler serves the MCP server, behind a door that wants a token, and the authorization server.
func (a *OAuth) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", a.serveResource)
	mux.HandleFunc("/.well-known/", a.serveKnown)
	mux.HandleFunc("/moved/.well-known/", a.serveKnown)
	mux.HandleFunc("GET /authorize", a.serveAuthorize)
	mux.HandleFunc("POST /authorize", a.serveConsent)
	mux.HandleFunc("POST /register", a.serveRegister)
	mux.HandleFunc("POST /token", a.serveToken)
	mux.HandleFunc("POST /revoke", a.serveRevoke)
	mux.HandleFunc("POST /device_authorization", a.serveDeviceAuthorization)
	mux.HandleFunc("GET /device", a.serveDevice)
	mux.HandleFunc("GET /counts", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, a.Counts()) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wrong := foreign(r); wrong != "" {
			a.resource.violate("HTTP", "%s", wrong)
			http.Error(w, wrong, http.StatusForbidden)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/second/") { // the other authorization server of changed-issuer
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/second")
		}
		mux.ServeHTTP(w, r)
	})
}

// originOf returns the scheme and host under which a client reached this server.
func originOf(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// answer writes a JSON document. Nothing here may be stored (RFC 6749 §5.1).
func answer(w http.ResponseWriter, status int, document any) {
	b, err := json.Marshal(document)
	if err != nil {
		panic(err) // all documents here have a JSON form
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

// page writes a page without scripts.
func page(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=en><title>dragoman fake oauth</title>\n%s\n", body)
}

func (a *OAuth) whoami(x *exchange, _ jsonrpc.Span) (string, error) {
	t := a.bearer(x.header)
	if t == nil {
		return textResult("nobody"), nil
	}
	return textResult(t.person + " by " + t.client + " for " + strings.Join(t.scopes, " ")), nil
}
