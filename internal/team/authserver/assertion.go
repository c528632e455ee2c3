package authserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// proofKey is how a client authenticates that signs an assertion with its key (RFC 7523 §2.2, OpenID Connect Core §9).
const proofKey = "private_key_jwt"

const (
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	mostLife      = time.Hour   // of an assertion
	leeway        = time.Minute // for clocks
	mostKeys      = 20
	mostSeen      = 10_000 // assertions that we remember
)

// algorithms are those of keys that have a private part.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512, jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// parseKeys reads a set of public keys.
func parseKeys(body []byte) ([]jose.JSONWebKey, error) {
	keys, err := oauth.ReadKeys(body)
	if len(keys) > mostKeys {
		return nil, errors.New("there are too many keys")
	}
	return keys, err
}

// checkKeys returns an error if a client that signs can't have these keys. origin is that of its document.
func checkKeys(m *metadata, origin string) error {
	if m.Keys != nil {
		_, err := parseKeys(m.Keys)
		return err
	}
	u, err := url.Parse(m.KeysURL)
	if err != nil || !isDocument(m.KeysURL) || transport.Origin(u) != origin {
		return errors.New("its keys are neither in it nor at an https URL of its origin")
	}
	return nil
}

// keysOf returns the keys of a client. They are fetched again if again is true, at most once in leastFetch.
func (d *documents) keysOf(ctx context.Context, c *Client, again bool) ([]jose.JSONWebKey, error) {
	if c.Keys != nil {
		return parseKeys(c.Keys)
	}
	now := time.Now()
	d.mu.Lock()
	have, ok := d.keys[c.KeysURL]
	d.mu.Unlock()
	if ok && (now.Before(have.until) && !again || now.Sub(have.at) < leastFetch) {
		return have.keys, have.err
	}
	keys, life, err := d.getKeys(ctx, c.KeysURL)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil || len(d.keys) >= mostDocuments {
		d.keys = map[string]keptKeys{}
	}
	d.keys[c.KeysURL] = keptKeys{keys, err, now, now.Add(life)}
	return keys, err
}

// leastFetch is how long a set of keys is used at least, whatever key an assertion names.
const leastFetch = time.Minute

type keptKeys struct {
	keys      []jose.JSONWebKey
	err       error
	at, until time.Time
}

func (d *documents) getKeys(ctx context.Context, at string) ([]jose.JSONWebKey, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, leastFetch, err
	}
	a, err := d.fetch.Do(ctx, req)
	if err == nil && a.Status != http.StatusOK {
		err = errors.New("their host does not answer with 200")
	}
	if err != nil {
		return nil, leastFetch, err
	}
	keys, err := parseKeys(a.Body)
	return keys, a.Keep(leastKept, mostKept), err
}

// signed returns nil if a client has signed an assertion for us, which nobody has used yet.
func (s *Server) signed(r *http.Request, c *Client, kind, assertion string) error {
	t, err := jwt.ParseSigned(assertion, algorithms)
	if kind != assertionType || err != nil || len(assertion) > mostBody || len(t.Headers) != 1 {
		return unknownClient("the client has to send a client_assertion that its key has signed")
	}
	var claims jwt.Claims
	for _, again := range []bool{false, true} { // the second time with keys that have just come
		keys, err := s.documents.keysOf(r.Context(), c, again)
		if err != nil {
			return &problem{"temporarily_unavailable", "the keys of the client cannot be fetched; try again later", http.StatusServiceUnavailable}
		}
		if ok := slices.ContainsFunc(keys, func(k jose.JSONWebKey) bool {
			return (t.Headers[0].KeyID == "" || k.KeyID == t.Headers[0].KeyID) && t.Claims(k.Key, &claims) == nil
		}); ok {
			return s.judge(r, c, &claims)
		}
	}
	return unknownClient("no key of the client has signed the client_assertion")
}

// judge returns nil if the claims of an assertion are those of a client at our token endpoint now (RFC 7523 §3).
func (s *Server) judge(r *http.Request, c *Client, x *jwt.Claims) error {
	issuer, now := s.Issuer(r), time.Now()
	ours := slices.ContainsFunc(x.Audience, func(a string) bool { return a == issuer || a == issuer+pathToken })
	switch {
	case x.Issuer != c.ID || x.Subject != c.ID || !ours:
		return unknownClient("the client_assertion is not from this client, or not for us")
	case x.Expiry == nil || x.ID == "" || now.After(x.Expiry.Time().Add(leeway)) || x.Expiry.Time().After(now.Add(mostLife+leeway)), x.NotBefore != nil && x.NotBefore.Time().After(now.Add(leeway)):
		return unknownClient("the client_assertion needs a jti and an exp within the next hour, and may not have expired")
	case !s.seen.first(c.ID+"\x00"+x.ID, x.Expiry.Time().Add(leeway), now):
		return unknownClient("the client_assertion was used before")
	}
	return nil
}

// seen remembers assertions until they expire, in this process. It forgets the oldest half when there are too many.
type seen struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]time.Time
}

// first reports whether something is seen for the first time.
func (s *seen) first(text string, until, now time.Time) bool {
	key := sha256.Sum256([]byte(text))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.all[key]; there {
		return false
	}
	if s.all == nil || len(s.all) >= mostSeen {
		kept := map[[sha256.Size]byte]time.Time{}
		for k, end := range s.all {
			if now.Before(end) && len(kept) < mostSeen/2 {
				kept[k] = end
			}
		}
		s.all = kept
	}
	s.all[key] = until
	return true
}
