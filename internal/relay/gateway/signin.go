package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// This file is about calls for which somebody has to sign in to the server first. Such a call has failed
// before the server executed it: its credentials are missing, or the server has refused them. So the
// person is asked to open a link, in the way in which their client can show one, and when they have
// signed in, the call is sent (again).

// Signer signs people in to servers. It is safe for concurrent use.
type Signer interface {
	// CanSignIn reports whether people can sign in to a server. It must not block.
	CanSignIn(server string) bool
	// SignedIn reports whether a principal has a credential for a server, as far as this process knows. It must
	// not block.
	SignedIn(who *identity.Principal, server string) bool
	// SignIn begins to sign a principal in to a server, or joins the sign-in that is under way for the same
	// credentials. It doesn't wait for the person. If the principal has signed in meanwhile, Done is closed.
	// The error says why nobody can be asked, and the client gets what it says as a failure.Source.
	SignIn(ctx context.Context, who *identity.Principal, server string) (*SigningIn, error)
}

// SigningIn is a sign-in that a person has to complete.
type SigningIn struct {
	Link    string        // what the person has to open in a browser
	Expires time.Time     // when the link ends
	Hold    time.Duration // how long a call waits for the person; 0 means 50 s
	Done    <-chan struct{}
	// Err says why the person is not signed in. It is called after Done is closed.
	Err func() error
	// Browse opens the link in a browser on this machine, once, however often it is called. It is nil if
	// there is none, or if the person may sit elsewhere.
	Browse func()
}

// id is short, because clients carry it.
func (a *SigningIn) id() string {
	sum := sha256.Sum256([]byte(a.Link))
	return string(sum[:16])
}

func (a *SigningIn) browse() {
	if a.Browse != nil {
		a.Browse()
	}
}

// SignIn asks people to sign in. All gateways of a project share one.
type SignIn struct {
	Signer Signer
	// AtHandshake begins a sign-in when a client that has one server connects, and not only when it calls
	// something: Dragoman then runs for this client alone, and can open a browser.
	AtHandshake bool
	// Info is the Implementation object of Dragoman, for clients of a server that can't say who it is yet.
	Info []byte
	// Signed is called after a person has signed in. scope is the credential scope at the server. It may
	// be called more than once. If it is nil, only the server learns of it.
	Signed func(server, scope string)

	mu       sync.Mutex
	declined map[signInKey]time.Time           // who doesn't want to be asked until then
	asked    map[string]*shown                 // the links that clients have got, by SigningIn.id
	handed   map[signInKey]bool                // who has got a list with nothing but the tool sign_in
	greeted  map[uint64]mcp.SubscriptionFilter // the lists of whose changes a conversation was told that it hears
}

// shown is a link that clients have got.
type shown struct {
	*SigningIn
	to map[string]shownTo // by client; see SignIn.first
}

// shownTo is a link at one client.
type shownTo struct {
	last time.Time     // when the client's last call got it
	gone chan struct{} // closed when the client has given up that call
}

// signInKey identifies a person and a server.
type signInKey struct{ server, subject string }

// These constants are the times of the ask.
const (
	defaultHold  = 50 * time.Second // clients wait for a call for 60 s or longer
	waitProgress = 10 * time.Second // between two notifications about a call that waits
	declinedFor  = 5 * time.Minute  // how long nobody is asked again
	helloLimit   = 8 * time.Second  // how long a handshake waits for a person; some clients give up after 10 s
	maxSignIns   = 1000             // in each of the maps of a SignIn but greeted
	maxShown     = 64               // clients that we remember to have a link
	maxGreeted   = 1 << 14
)

// needed returns the error of a call that was not executed because somebody has to sign in first, or
// nil.
func (s *SignIn) needed(err error) *mcp.Error {
	if s == nil || err == nil {
		return nil // before e, which is on the heap
	}
	var e *mcp.Error
	if !errors.As(err, &e) || e.Failure == nil || e.Failure.Class != failure.NeedsSignIn || e.Outcome != mcp.NotSent || !s.Signer.CanSignIn(e.Upstream) {
		return nil
	}
	return e
}

// CanSignIn reports whether people can sign in to a server. s may be nil.
func (s *SignIn) CanSignIn(server string) bool { return s != nil && s.Signer.CanSignIn(server) }

// signed tells the server, and those who want to know, that the client's person has signed in.
func (s *SignIn) signed(u Upstream, f *mcp.ClientInfo) {
	scope := u.Scope(f)
	u.Renewed(scope)
	if s.Signed != nil {
		s.Signed(u.Name(), scope)
	}
}

func keyOf(server string, f *mcp.ClientInfo) signInKey {
	if f.Who.Looks() { // what is remembered of it is nothing to the one who has the key
		return signInKey{server, f.Who.Key() + " " + identity.Look}
	}
	return signInKey{server, f.Who.Key()}
}

// decline remembers that a person doesn't want to sign in.
func (s *SignIn) decline(key signInKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declined = put(s.declined, key, time.Now().Add(declinedFor))
}

func (s *SignIn) hasDeclined(key signInKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.declined[key])
}

// first reports whether the call is the client's first to show a link, or those before it have had time enough. The
// others wait, so that five calls at once don't ask five times, until gone is closed: the client has given up the
// call that has asked. Another client of the person shows the link, too, since it may be the first one, restarted.
func (s *SignIn) first(a *SigningIn, f *mcp.ClientInfo) (first bool, gone <-chan struct{}) {
	client := clientOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	link := s.asked[a.id()]
	if link == nil {
		link = &shown{SigningIn: a}
		s.asked = put(s.asked, a.id(), link)
	}
	at, known := link.to[client]
	if known && time.Since(at.last) < a.hold() {
		return false, at.gone
	}
	if !known {
		at.gone = make(chan struct{})
	}
	at.last = time.Now()
	link.to = putIn(link.to, maxShown, client, at)
	return true, at.gone
}

// stays remembers that the client's call which has shown a link waits for the person, so that no other call
// of it shows the link.
func (s *SignIn) stays(a *SigningIn, f *mcp.ClientInfo) {
	client := clientOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	if link := s.asked[a.id()]; link != nil {
		if at, known := link.to[client]; known {
			at.last = time.Now()
			link.to[client] = at
		}
	}
}

// unasked forgets that a link was shown, so that the next call shows it again. If the client has given up the call
// that has asked, those that wait are next.
func (s *SignIn) unasked(a *SigningIn, f *mcp.ClientInfo, gone bool) {
	client := clientOf(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	link := s.asked[a.id()]
	if link == nil {
		return
	}
	if at, known := link.to[client]; known && gone {
		close(at.gone)
	}
	delete(link.to, client)
}

// clientOf tells the clients of one person apart: by their conversations, and those that have none by their
// addresses and names.
func clientOf(f *mcp.ClientInfo) string {
	g := *f
	g.Who = nil
	return g.Party()
}

// failed returns why a sign-in has failed since its link was shown, or nil.
func (s *SignIn) failed(id string) error {
	s.mu.Lock()
	link := s.asked[id]
	s.mu.Unlock()
	if link == nil || !link.over() {
		return nil
	}
	return link.Err()
}

// hand remembers whether a client's list of tools has nothing but the tool sign_in.
func (s *SignIn) hand(key signInKey, handed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !handed {
		delete(s.handed, key)
		return
	}
	s.handed = put(s.handed, key, true)
}

func (s *SignIn) hasHanded(key signInKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handed[key]
}

// put stores a value in a map of at most maxSignIns entries, and returns the map.
func put[K comparable, V any](m map[K]V, key K, v V) map[K]V { return putIn(m, maxSignIns, key, v) }

func putIn[K comparable, V any](m map[K]V, size int, key K, v V) map[K]V {
	if m == nil || len(m) >= size {
		m = make(map[K]V)
	}
	m[key] = v
	return m
}

// greets remembers which lists a legacy client was told to hear of. It must not hear of others.
func (s *SignIn) greets(f *mcp.ClientInfo, h *mcp.ServerInfo) {
	if s == nil || h == nil || f == nil || f.Conversation == 0 || !f.Revision.Legacy() {
		return
	}
	changes := func(list string) bool {
		return jsonrpc.ValueOf(h.Capabilities).Get(list, "listChanged").Kind() == 't'
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted = putIn(s.greeted, maxGreeted, f.Conversation, mcp.SubscriptionFilter{Tools: changes("tools"), Prompts: changes("prompts"), Resources: changes("resources")})
}

// hears returns what greets has remembered. s may be nil.
func (s *SignIn) hears(f *mcp.ClientInfo) mcp.SubscriptionFilter {
	if s == nil {
		return mcp.SubscriptionFilter{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.greeted[f.Conversation]
}

func (a *SigningIn) hold() time.Duration {
	if a.Hold <= 0 {
		return defaultHold
	}
	return a.Hold
}

// over reports whether the sign-in has ended.
func (a *SigningIn) over() bool {
	select {
	case <-a.Done:
		return true
	default:
		return false
	}
}
