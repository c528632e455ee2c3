package issuers

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Issuer is an issuer of tokens that count here.
type Issuer struct {
	Issuer   string // its identifier, an http or https URL; tokens have it byte for byte
	Audience []string
	// Claim is the claim that must have one of Audience if a token has no aud, for issuers that give none. If it is
	// "", Audience are values of aud that count at every endpoint, beside our own URLs.
	Claim  string
	Scopes []string // what clients are told to ask for
	// RolesClaim is the claim whose values Roles maps; see claims.texts. Who has none of them has no role.
	RolesClaim string
	Roles      map[string][]Grant
	Header     string // where the tokens are, in canonical form; Authorization, unless a proxy adds them
	Keys       string // the URL of its JWK set; "" if its metadata says where that is
	// Client is who we are when we ask the issuer about opaque tokens. If its ID is "", we don't ask.
	Client Client
}

// Client is an OAuth client with a secret.
type Client struct {
	ID     string
	Secret secret.Text
}

// Grant is a role in a project.
type Grant struct {
	Project string
	Role    identity.Role
}

// Options are the options of New.
type Options struct {
	Issuers []Issuer
	// Reach returns what makes the requests to an issuer, and Find reads the issuer's metadata.
	Reach func(ctx context.Context, issuer string) (oauth.Doer, error)
	Find  func(ctx context.Context, d oauth.Doer, issuer string) (*oauth.Issuer, error)
	Log   *slog.Logger
}

// Set says who has a token of one of its issuers. Create one with New. It is safe for concurrent use.
type Set struct {
	all   []*issuer
	known remembered
	seats seats
}

// issuer is an issuer with its keys.
type issuer struct {
	Issuer
	keys  *keySet
	reach *reach
	asks  *asks // about opaque tokens; nil if we don't ask
}

// New returns a set. It asks no issuer for anything before it has a token of it.
func New(o Options) *Set {
	s := &Set{known: remembered{all: map[sum]*bearer{}}, seats: seats{all: map[string]*bearer{}}}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, c := range o.Issuers {
		if c.Header == "" {
			c.Header = authorization
		}
		x := &issuer{Issuer: c, reach: &reach{issuer: c.Issuer, keys: c.Keys, o: &o}}
		x.keys = newKeySet(x.reach.fetchKeys, tellOf(o.Log, c.Issuer))
		if c.Client.ID != "" {
			x.asks = newAsks(x, o.Log)
		}
		s.all = append(s.all, x)
	}
	return s
}

const authorization = "Authorization"

// tellOf returns what says in a log that the keys of an issuer can't be fetched, once until they can.
func tellOf(log *slog.Logger, issuer string) func(error) {
	return onceUntilMended(func(err error) {
		log.Warn("the keys of an issuer cannot be fetched", "issuer", issuer, "cause", err.Error())
	}, func() {
		log.Info("the keys of an issuer can be fetched again", "issuer", issuer)
	})
}

// Close ends the requests to issuers that run.
func (s *Set) Close() {
	for _, x := range s.all {
		x.keys.close()
		if x.asks != nil {
			x.asks.close()
		}
	}
}

// Headers returns the headers, other than Authorization, in which proxies send tokens.
func (s *Set) Headers() (all []string) {
	for _, x := range s.all {
		if x.Header != authorization && !slices.Contains(all, x.Header) {
			all = append(all, x.Header)
		}
	}
	return all
}

// SignIn returns the issuers at which clients get tokens, and the scopes that they're told to ask for. It leaves
// out those whose tokens a proxy sends.
func (s *Set) SignIn() (servers, scopes []string) {
	for _, x := range s.all {
		if x.Header != authorization {
			continue
		}
		servers = append(servers, x.Issuer.Issuer)
		for _, scope := range x.Scopes {
			if !slices.Contains(scopes, scope) {
				scopes = append(scopes, scope)
			}
		}
	}
	return servers, scopes
}

// maxToken is the longest token that we look at, in bytes.
const maxToken = 16 << 10

// Why a token lets nobody in. The texts are fixed, so that an answer says nothing about who has the token.
var (
	errMalformed = &httpdoor.Denied{Code: codeInvalid, Guessed: true, Reason: "this access token is malformed, or comes from an issuer that is not accepted here"}
	errForged    = &httpdoor.Denied{Code: codeInvalid, Guessed: true, Reason: "the signature of this access token is not one of its issuer"}
	errInactive  = &httpdoor.Denied{Code: codeInvalid, Guessed: true, Reason: "this access token is unknown to its issuer, expired or revoked"}
	errExpired   = &httpdoor.Denied{Code: codeInvalid, Usual: true, Reason: "this access token has expired"}
	errEarly     = &httpdoor.Denied{Code: codeInvalid, Reason: "this access token is not valid yet; compare the clocks"}
	errForeign   = &httpdoor.Denied{Code: codeInvalid, Reason: "this is not an access token"}
	errNobody    = &httpdoor.Denied{Code: codeInvalid, Reason: "this access token does not say whose it is, or until when it is valid"}
	errAudience  = &httpdoor.Denied{Code: codeInvalid, Reason: "this access token was issued for another audience"}
	errBound     = &httpdoor.Denied{Code: codeInvalid, Reason: "this access token is bound to a key, so it is not accepted as a bearer token"}
	errWeather   = &httpdoor.Denied{Status: http.StatusServiceUnavailable, RetryAfter: 10 * time.Second, Reason: "the issuer of this access token cannot be reached now; try again later"}
)

const (
	codeInvalid = "invalid_token"
	codeScope   = "insufficient_scope"
)

// Principal returns who has a token that was in a header of a request, for the target. The error is a
// *httpdoor.Denied, or that of ctx. A token whose issuer stands by it is remembered, so its signature isn't checked
// again.
func (s *Set) Principal(ctx context.Context, inHeader, text string, at httpdoor.Target) (*identity.Principal, error) {
	if len(text) > maxToken {
		return nil, errMalformed
	}
	hash := sumOf(text)
	b, old := s.known.get(hash, time.Now())
	if old || b == nil || b.header != inHeader {
		var err error
		if b, err = s.check(ctx, inHeader, text, b != nil && b.seated.Load()); err != nil {
			return nil, err
		}
		s.known.put(hash, b)
	}
	switch {
	case !b.places.cover(at):
		return nil, errAudience
	case b.short != nil:
		return nil, b.short
	}
	// Only now: another service of the issuer has tokens of the same person, with other roles, and may show them here.
	if !b.seated.Load() {
		s.seats.put(b)
		b.seated.Store(true)
	}
	return &b.who, nil
}

// Roles returns the roles that somebody whom Principal has returned has in a project: those of the seat's newest
// token.
func (s *Set) Roles(who *identity.Principal, project string) []identity.Role {
	if b := s.seats.get(who.Seat); b != nil {
		return b.roles[project]
	}
	return nil
}

// check looks at a token that isn't remembered, or has to be looked at again.
func (s *Set) check(ctx context.Context, inHeader, text string, again bool) (*bearer, error) {
	head, rest, _ := strings.Cut(text, ".")
	body, _, _ := strings.Cut(rest, ".")
	if _, isJWT := decoded(head, readObject); !isJWT { // opaque tokens may have dots, too
		for _, x := range s.all {
			if x.asks != nil && x.Header == inHeader {
				return x.asks.about(ctx, text, again)
			}
		}
		return nil, errMalformed
	}
	unproved, ok := decoded(body, readClaims)
	if _, fits := decoded(head, readHeader); !fits || !ok {
		return nil, errMalformed
	}
	for _, x := range s.all {
		if x.Issuer.Issuer != unproved.issuer || x.Header != inHeader {
			continue
		}
		c, err := x.verify(ctx, text)
		if err != nil {
			return nil, err
		}
		return x.judge(c, time.Now())
	}
	return nil, errMalformed
}

// decoded reads a part of a JWT.
func decoded[T any](part string, read func([]byte) (T, bool)) (x T, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil {
		return x, false
	}
	return read(b)
}

// verify checks the signature of a JWT, and returns what was signed.
func (x *issuer) verify(ctx context.Context, text string) (*claims, error) {
	payload, err := x.keys.verify(ctx, text)
	switch {
	case err == errNoKeys:
		return nil, errWeather
	case err == errNoJWS:
		return nil, errMalformed
	case err == errSigner:
		return nil, errForged
	case err != nil:
		return nil, err
	}
	c, ok := readClaims(payload)
	if !ok || c.issuer != x.Issuer.Issuer {
		return nil, errMalformed
	}
	return c, nil
}

// judge returns whose a token with these claims is, of which its issuer has made sure.
func (x *issuer) judge(c *claims, now time.Time) (*bearer, error) {
	switch {
	case c.foreign():
		return nil, errForeign
	case c.has("cnf"):
		return nil, errBound
	case c.subject == "", len(c.subject) > maxText, c.expires.IsZero():
		return nil, errNobody
	case !now.Before(c.expires.Add(leeway)):
		return nil, errExpired
	case now.Add(leeway).Before(c.before), now.Add(leeway).Before(c.issued):
		return nil, errEarly
	}
	b := &bearer{header: x.Header, places: x.placesOf(c), roles: x.rolesOf(c), issued: c.issued, until: now.Add(min(rememberFor, c.expires.Sub(now)))}
	if !b.places.all && len(b.places.of) == 0 {
		return nil, errAudience
	}
	client := c.client()
	b.who = identity.Principal{
		Subject: "p:" + personID(x.Issuer.Issuer, c.subject),
		Seat:    "t:" + hashed(x.Issuer.Issuer, c.subject, client),
		Name:    nameOf(c), Via: "token", Until: c.expires,
	}
	if scopes, said := c.scopes(); said && slices.ContainsFunc(x.Scopes, func(want string) bool { return !hasScope(scopes, want) }) {
		b.short = &httpdoor.Denied{Status: http.StatusForbidden, Code: codeScope, Scopes: x.Scopes, Reason: "this access token lacks a scope"}
	}
	return b, nil
}

// hasScope reports whether a scope is among some. Entra's tokens have the last part alone of a scope such as
// api://dragoman/mcp.
func hasScope(have []string, want string) bool {
	return slices.Contains(have, want) || slices.Contains(have, want[strings.LastIndexByte(want, '/')+1:])
}

// rolesOf returns the roles that claims give, by project.
func (x *issuer) rolesOf(c *claims) map[string][]identity.Role {
	return rolesOf(c.texts(x.RolesClaim), x.Roles)
}

// rolesOf returns the roles that the values of a claim give, by project.
func rolesOf(values []string, grants map[string][]Grant) map[string][]identity.Role {
	roles := map[string][]identity.Role{}
	for _, value := range values {
		for _, g := range grants[value] {
			if !slices.Contains(roles[g.Project], g.Role) {
				roles[g.Project] = append(roles[g.Project], g.Role)
			}
		}
	}
	return roles
}

// personID returns the id of a person whom an issuer calls by a subject. It's the same for each of their tokens
// and sessions.
func personID(issuer, subject string) string { return hashed(issuer, subject) }

func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(p)))) // never fails
		_, _ = h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// nameOf returns what people call the owner of a token, as far as the issuer knows, and "" if it says nothing that
// can be shown.
func nameOf(c *claims) string {
	return displayName(c.text("preferred_username"), c.text("email"), c.text("name"))
}

// displayName returns the first of some texts that can be shown as somebody's name.
func displayName(texts ...string) string {
	const most = 64
	for _, s := range texts {
		s = strings.TrimSpace(s)
		if s != "" && len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return s
		}
	}
	return ""
}

// bearer is a token whose issuer stands by it. It is immutable, but for seated.
type bearer struct {
	who    identity.Principal
	header string
	places places
	roles  map[string][]identity.Role // by project
	issued time.Time                  // zero if the issuer doesn't say
	until  time.Time                  // when it has to be looked at again
	short  error                      // it lacks a scope; nil if it has all
	seated atomic.Bool                // it has let somebody in, so its seat has had its roles
}

// sum is the SHA-256 of a token.
type sum = [sha256.Size]byte

// buffers have room for one token each, because a hash wants bytes.
var buffers = sync.Pool{New: func() any { return new([maxToken]byte) }}

// sumOf returns the sum of a text of at most maxToken bytes. It doesn't allocate, since each request needs it.
func sumOf(text string) sum {
	b := buffers.Get().(*[maxToken]byte)
	h := sha256.Sum256(b[:copy(b[:], text)])
	clear(b[:len(text)])
	buffers.Put(b)
	return h
}

// remembered are the tokens that were accepted. We keep their sums, and not the tokens themselves.
type remembered struct {
	mu  sync.RWMutex
	all map[sum]*bearer
}

const (
	rememberFor = 5 * time.Minute
	mostTokens  = 10_000
)

// get returns the bearer of a token, or nil. old says that the token has to be looked at again.
func (m *remembered) get(h sum, now time.Time) (b *bearer, old bool) {
	m.mu.RLock()
	b = m.all[h]
	m.mu.RUnlock()
	return b, b != nil && !now.Before(b.until)
}

func (m *remembered) put(h sum, b *bearer) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) >= mostTokens {
		for h, old := range m.all {
			if !now.Before(old.until) || len(m.all) > mostTokens*9/10 { // any, if all are good
				delete(m.all, h)
			}
		}
	}
	m.all[h] = b
}

// seats have the newest token of each seat. They outlive the tokens, because a stream or a call outlives the
// token that it began with.
type seats struct {
	mu  sync.RWMutex
	all map[string]*bearer
}

const seatFor = 24 * time.Hour // after its newest token has expired; no session is older

func (s *seats) get(seat string) *bearer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[seat]
}

func (s *seats) put(b *bearer) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.all[b.who.Seat]; old != nil && old.issued.After(b.issued) && now.Before(old.who.Until) {
		return
	}
	if len(s.all) >= mostTokens {
		for seat, old := range s.all {
			if now.After(old.who.Until.Add(seatFor)) || len(s.all) > mostTokens*9/10 {
				delete(s.all, seat)
			}
		}
	}
	s.all[b.who.Seat] = b
}
