package issuers

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"strings"
	"sync"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// How long keys are kept, and how often they are fetched.
const (
	shortestLife = 5 * time.Minute // whatever the answer says
	longestLife  = 24 * time.Hour
	lastGood     = 24 * time.Hour  // how long keys serve that can't be fetched again
	againAfter   = time.Minute     // between two fetches, whoever wants them
	firstAgain   = 5 * time.Second // the same while there are no keys at all
	fetchTime    = 15 * time.Second
	staleWait    = 3 * time.Second // how long requests wait for fresh keys if there are old ones
	maxKeys      = 100
	leastRSA     = 2048 // bits
)

// fits reports whether a key may have made a signature: an issuer's RSA key never checks an ECDSA signature, nor
// one key the signatures of an algorithm that it isn't for.
func fits(k *jose.JSONWebKey, h header) bool {
	if h.kid != "" && k.KeyID != h.kid || k.Algorithm != "" && k.Algorithm != string(h.alg) {
		return false
	}
	switch p := k.Key.(type) {
	case *rsa.PublicKey:
		return (strings.HasPrefix(string(h.alg), "RS") || strings.HasPrefix(string(h.alg), "PS")) && p.N.BitLen() >= leastRSA
	case *ecdsa.PublicKey:
		return h.alg == jose.ES256 && p.Curve == elliptic.P256() || h.alg == jose.ES384 && p.Curve == elliptic.P384()
	case ed25519.PublicKey:
		return h.alg == jose.EdDSA
	}
	return false
}

// keySet has the keys of an issuer.
type keySet struct {
	fetch func(context.Context) ([]jose.JSONWebKey, time.Duration, error)
	tell  func(error) // is called after each fetch, with nil if it worked

	life    context.Context // ends with close
	end     context.CancelFunc
	running work.Group

	mu      sync.Mutex
	keys    []jose.JSONWebKey
	fetched time.Time     // when keys were fetched
	fresh   time.Time     // until when they need not be fetched again
	asked   time.Time     // when the last fetch began
	flight  chan struct{} // closed when the running fetch has ended; nil if none runs
}

func newKeySet(fetch func(context.Context) ([]jose.JSONWebKey, time.Duration, error), tell func(error)) *keySet {
	s := &keySet{fetch: fetch, tell: tell}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

func (s *keySet) close() {
	s.end()
	s.running.Wait()
}

// errNoKeys says that an issuer's keys are needed, but can't be had now.
var errNoKeys = errors.New("the keys of the issuer cannot be fetched now")

var (
	errNoJWS  = errors.New("it has no signature that can be read")
	errSigner = errors.New("no key of the issuer has made its signature")
)

// verify returns the claims of a JWT that a key of the set has signed. The error is errNoJWS, errSigner or that of find.
func (s *keySet) verify(ctx context.Context, text string) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return nil, errNoJWS
	}
	head := &signed.Signatures[0].Header
	keys, err := s.find(ctx, header{jose.SignatureAlgorithm(head.Algorithm), head.KeyID})
	if err != nil {
		return nil, err
	}
	const most = 8 // without a key id, each of these may be the one
	for _, k := range keys[:min(len(keys), most)] {
		if payload, err := signed.Verify(k.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSigner
}

// find returns the keys that may have made a signature. If there is none, or if the keys are old, it fetches them
// again, unless that was done within the last minute; all who wait share one fetch. The error is errNoKeys if
// there are no keys at all, or that of ctx.
func (s *keySet) find(ctx context.Context, h header) ([]jose.JSONWebKey, error) {
	now := time.Now()
	fitting, old := s.look(h, now)
	if len(fitting) > 0 && !old {
		return fitting, nil
	}
	flight, began := s.reload(now)
	if flight != nil {
		patience := fetchTime
		if len(fitting) > 0 {
			patience = staleWait
		}
		late := time.NewTimer(began.Add(patience).Sub(now))
		defer late.Stop()
		select {
		case <-flight:
		case <-late.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		fitting, _ = s.look(h, time.Now())
	}
	if len(fitting) == 0 && s.empty(time.Now()) {
		return nil, errNoKeys
	}
	return fitting, nil
}

// look returns the keys that may have made a signature, and whether they should be fetched again.
func (s *keySet) look(h header, now time.Time) (fitting []jose.JSONWebKey, old bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.fetched) >= lastGood && !now.Before(s.fresh) {
		return nil, true
	}
	for i := range s.keys {
		if fits(&s.keys[i], h) {
			fitting = append(fitting, s.keys[i])
		}
	}
	return fitting, !now.Before(s.fresh)
}

func (s *keySet) empty(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys) == 0 || now.Sub(s.fetched) >= lastGood && !now.Before(s.fresh)
}

// reload returns a channel that is closed when the running fetch has ended, and when that has begun. If none runs,
// reload begins one, unless the last one was only just now: then the channel is nil.
func (s *keySet) reload(now time.Time) (done <-chan struct{}, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := againAfter
	if len(s.keys) == 0 {
		pause = firstAgain
	}
	if s.flight != nil || !s.asked.IsZero() && now.Sub(s.asked) < pause {
		return s.flight, s.asked
	}
	flight := make(chan struct{})
	if !s.running.Go(func() { s.run(flight) }) {
		return nil, now // we're closing
	}
	s.flight, s.asked = flight, now
	return flight, now
}

// run fetches the keys. It isn't bound to the request that has wanted them, since others wait, too.
func (s *keySet) run(done chan struct{}) {
	ctx, cancel := context.WithTimeout(s.life, fetchTime)
	defer cancel()
	keys, keep, err := s.fetch(ctx)
	now := time.Now()
	s.mu.Lock()
	if err == nil {
		s.keys, s.fetched, s.fresh = keys, now, now.Add(keep)
	}
	s.flight = nil
	s.mu.Unlock()
	close(done)
	if s.life.Err() == nil {
		s.tell(err)
	}
}
