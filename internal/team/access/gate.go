package access

import (
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Gate says who has sent a request. Create one with [NewGate]. It is safe for concurrent use.
type Gate struct {
	open bool
	own  string // see Own
	keys atomic.Pointer[Keys]
	// people are those in force; see Roster.Refresh.
	people atomic.Pointer[People]
	tries  *Tries
	told   *Tries // of tokens that were refused, and are no guesses
	// grants are those of our authorization server; nil if there is none. See NewLedger.
	grants atomic.Pointer[Grants]

	kinds      []kind      // see Accept
	assertions []assertion // the same
	resources  *Resources  // see Protect; nil if OAuth is off
	denied     Denials
}

// NewGate returns a gate without keys. If open is true, who has no credential is the local user, which
// is only right if nobody else can reach the address.
func NewGate(open bool) *Gate {
	g := &Gate{open: open, tries: NewTries(triesPerMinute, time.Minute), told: NewTries(triesPerMinute, time.Minute)}
	g.keys.Store(&Keys{})
	g.people.Store(&People{})
	return g
}

// Denials hears of a credential that was refused: in which request, why, and whose it is if that's known.
type Denials func(r *http.Request, why string, who *identity.Principal)

// Tell makes the gate call f for each credential that it refuses, but not for those of an address that has sent too
// many wrong ones, nor for tokens that have only expired. f must be quick. Tell must be called before the gate is used.
func (g *Gate) Tell(f Denials) { g.denied = f }

func (g *Gate) tell(r *http.Request, why string, who *identity.Principal) {
	if g.denied != nil {
		g.denied(r, why, who)
	}
}

// Use makes k the keys in force.
func (g *Gate) Use(k *Keys) { g.keys.Store(k) }

// Keys returns the keys in force.
func (g *Gate) Keys() *Keys { return g.keys.Load() }

// Open reports whether the gate lets in who has no credential.
func (g *Gate) Open() bool { return g.open }

// Own lets in who sends the key of this process as the local user: only the user who started it can read
// that key. Own must be called before the gate is used, and only if nobody else can reach the address.
func (g *Gate) Own(key string) { g.own = key }

// What clients are told if OAuth is off, and of a wrong key in any case. These have no resource_metadata: a client
// that got one would open a browser, also if it's a script with an old key.
const (
	challengeNone  = `Bearer realm="dragoman"`
	challengeWrong = `Bearer error="invalid_token", error_description="This key is unknown, expired or revoked."`
)

var (
	errNoKey    = &httpdoor.Denied{Challenge: challengeNone, Reason: "this endpoint needs an API key: send it as \"Authorization: Bearer KEY\" or in the header X-API-Key"}
	errWrongKey = &httpdoor.Denied{Challenge: challengeWrong, Reason: "this API key is unknown, expired or revoked; ask for a new one"}
	errNothing  = &httpdoor.Denied{Reason: "this endpoint needs an access token or an API key, as \"Authorization: Bearer TOKEN\""}
	errNoRole   = &httpdoor.Denied{Challenge: challengeWrong, Reason: "the person whom this API key acts for may not use it any more; ask an admin of the project"}
	errQuery    = &httpdoor.Denied{Challenge: challengeWrong, Reason: "an API key must not stand in the URL, where logs keep it: send it in a header, and have this one replaced"}
	errTwice    = &httpdoor.Denied{Status: http.StatusBadRequest, Reason: "the request has several credentials: send one, in one header"}
	errShape    = &httpdoor.Denied{Status: http.StatusBadRequest, Reason: "the header Authorization is malformed: send \"Bearer\", a space and the API key or the token"}
)

// Principal returns who has sent a request, or a *httpdoor.Denied. It looks at nothing that the request
// asks for, so a stranger learns nothing of it. A key in the URL is removed from r, whatever comes of it,
// so that nothing can log it.
//
// An address with many wrong keys gets 429. A right key is accepted even then: it can't be guessed, and
// its owner may share the address with a program whose key has expired.
func (g *Gate) Principal(r *http.Request) (*identity.Principal, error) {
	c, err := g.credential(r)
	switch {
	case err != nil:
		return nil, err
	case c.text == "" && !g.open:
		return nil, g.nothing(r)
	case c.text == "":
		return identity.Local, nil
	case g.isOwn(c):
		return identity.Local, nil
	case g.open && !looksLikeKey(c.text):
		return identity.Local, nil // meant for a server, or left over
	}
	return g.find(r, c)
}

// nothing returns what somebody is told who has no credential.
func (g *Gate) nothing(r *http.Request) error {
	if challenge := g.resources.Challenge(r, "", "", nil); challenge != "" {
		d := *errNothing
		d.Challenge = challenge
		return &d
	}
	return errNoKey
}

// Visitor returns whose API key or access token a request has, or a *httpdoor.Denied, by the rules of Principal. It
// returns nil without an error if the request has none: unlike Principal, it takes nobody for the local user,
// however open the gate is. A bearer token that isn't an API key, and can't be an access token, is left to who asks,
// since it may be the key of this process; that is only where the gate has one, see Own.
func (g *Gate) Visitor(r *http.Request) (*identity.Principal, error) {
	c, err := g.credential(r)
	if err != nil || c.text == "" || g.own != "" && !looksLikeKey(c.text) && (g.open || g.isOwn(c) || !strings.Contains(c.text, ".")) {
		return nil, err
	}
	return g.find(r, c)
}

// isOwn reports whether a credential is the key of this process.
func (g *Gate) isOwn(c credential) bool {
	return g.own != "" && subtle.ConstantTimeCompare([]byte(c.text), []byte(g.own)) == 1
}

// credential is a text that may be an API key or a token, and the header in which it came.
type credential struct{ header, text string }

// credential returns the only credential of a request. Its text is "" if there is none.
func (g *Gate) credential(r *http.Request) (c credential, err error) {
	if hasKey(r.URL.RawQuery) {
		r.URL.RawQuery = ""
		r.RequestURI = r.URL.RequestURI()
		return c, g.wrong(r, errQuery)
	}
	bearer, header := r.Header["Authorization"], r.Header["X-Api-Key"]
	count := len(bearer) + len(header)
	for i := range g.assertions {
		if values := r.Header[g.assertions[i].header]; len(values) > 0 {
			count += len(values)
			c = credential{g.assertions[i].header, values[0]}
		}
	}
	switch {
	case count > 1:
		return credential{}, errTwice
	case len(header) == 1:
		c = credential{"X-Api-Key", header[0]}
	case len(bearer) == 1:
		scheme, value, _ := strings.Cut(bearer[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return c, nil
		}
		if c = (credential{"Authorization", strings.TrimLeft(value, " ")}); c.text == "" && !g.open {
			return c, errShape
		}
	}
	return c, nil
}

// find returns who has a credential, in answer to r.
func (g *Gate) find(r *http.Request, c credential) (*identity.Principal, error) {
	if !looksLikeKey(c.text) {
		if t := g.tokens(c); t != nil {
			return g.holder(r, t, c)
		}
	}
	keys, now := g.keys.Load(), time.Now()
	x := keys.find(c.text, now)
	switch {
	case x == nil:
		return nil, g.wrong(r, errWrongKey)
	case g.people.Load().bars(&x.Key):
		g.tell(r, "a key of somebody without a role", &x.who)
		return nil, errNoRole // it is a right key, so nobody has guessed it
	}
	keys.note(x, now)
	return &x.who, nil
}

// Holder returns who comes with the key that has an id, or the *httpdoor.Denied that Principal returns for it. It's for
// those who may know that without having the key, and is no use of it.
func (g *Gate) Holder(id string) (*identity.Principal, error) {
	keys := g.keys.Load()
	at, _ := ParseID(id)
	x := keys.byID[at]
	switch {
	case x == nil, !x.InForce(time.Now()):
		return nil, errWrongKey
	case g.people.Load().bars(&x.Key):
		return nil, errNoRole
	}
	return &x.who, nil
}

// wrong counts a wrong credential. It returns why, or that the address has sent too many.
func (g *Gate) wrong(r *http.Request, why *httpdoor.Denied) error {
	if wait := g.tries.Take(httpdoor.Remote(r), time.Now()); wait > 0 {
		return &httpdoor.Denied{
			Status: http.StatusTooManyRequests, RetryAfter: wait,
			Reason: "too many wrong credentials came from this address; a valid one is accepted nevertheless",
		}
	}
	switch {
	case why == errQuery:
		g.tell(r, "a key in the URL", nil)
	case why.Code != "":
		g.tell(r, wrongToken+why.Reason, nil)
	default:
		g.tell(r, "a wrong credential", nil)
	}
	return why
}

// hasKey reports whether a query contains a key, encoded or not. The query needn't be well formed: a log
// keeps it in any case.
func hasKey(query string) bool {
	if hasMark(query) {
		return true
	}
	if !strings.Contains(query, "%") {
		return false
	}
	plain := make([]byte, 0, len(query))
	for i := 0; i < len(query); i++ {
		if query[i] == '%' && i+2 < len(query) {
			if b, err := strconv.ParseUint(query[i+1:i+3], 16, 8); err == nil {
				plain, i = append(plain, byte(b)), i+2
				continue
			}
		}
		plain = append(plain, query[i])
	}
	return hasMark(string(plain))
}

func hasMark(text string) bool {
	return strings.Contains(text, mark) || strings.Contains(text, accessMark) || strings.Contains(text, refreshMark)
}
