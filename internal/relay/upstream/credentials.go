package upstream

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// Credentials authorise the requests of principals to one HTTP server. Implementations are safe for
// concurrent use.
//
// A client sees an error of Sign or Refused as the failure of its call. If the error is a
// failure.Source, the client gets the sentence that it sets, and otherwise a general one. The text of
// the error is logged, so it must not contain a secret.
type Credentials interface {
	// Scope returns the credential scope of a principal. Different scopes never share sessions,
	// subscriptions or lists. All principals without credentials of their own have the scope "", and
	// so have Dragoman's own requests to a server that nobody has called yet. Scope is called several
	// times for each call.
	Scope(who *identity.Principal) string
	// Sign returns the headers to add to one HTTP request in a scope, which may be none. They replace
	// configured headers with the same names. The generation grows whenever the credentials of a scope
	// are replaced. Sign is called each time that a request is about to be sent, and may block until
	// ctx ends. If it returns an error, the request is not sent.
	Sign(ctx context.Context, scope, method, url string) (h []transport.HeaderField, generation uint64, err error)
	// Refused is called when the server has answered a request that Sign has signed with 401, or with 403
	// and a challenge that asks for more scopes, with the challenges of the response. The requests of a scope and generation that were under way together
	// share one call and its results. If again is true, each of them is signed and sent again. If err is
	// not nil, it is the outcome of each. With neither, the client gets the server's refusal. ctx ends
	// after 30 s, and when the server is removed; it doesn't depend on any of the requests.
	Refused(ctx context.Context, scope string, generation uint64, challenges []string) (again bool, err error)
}

// Nonces are Credentials whose proofs must hold the server's latest nonce.
type Nonces interface {
	// Nonce is called with each nonce that the server sends in a scope, before Refused is. It must not block.
	Nonce(scope, url, nonce string)
}

// Extended are Credentials that Dragoman gets by an extension of MCP, which it declares to the server.
type Extended interface {
	Extension() string // "" for none
}

// extension returns the extension to declare to the server, or "".
func (c *core) extension() string {
	if x, ok := c.spec.Credentials.(Extended); ok {
		return x.Extension()
	}
	return ""
}

// scopeOf returns the credential scope of a client. Clients without their own credentials share the
// scope "". So does whatever is read for all of them, which names no principal: it must not be read with
// the credentials of the local user.
func (c *core) scopeOf(f *mcp.ClientInfo) string {
	if c.spec.Credentials == nil || f == nil || f.Who == nil || c.spec.piped() {
		return ""
	}
	return c.spec.Credentials.Scope(f.Who)
}

// Renewed says that a scope has got credentials, or has lost them, because somebody has signed in or out.
// The next call of the scope opens the server without a pause, and the subscriptions of clients whose scope
// has changed move with them. Renewed does not wait for the server.
func (u *Upstream) Renewed(scope string) {
	u.update(func(st *state) {
		if l := st.pools.links[scope]; l != nil {
			l.notBefore, l.lastErr = time.Time{}, nil
		}
		st.lists.forgetTools(scope)
		if scope == "" && st.health.status.State == Broken {
			u.healer.healLater(st, 0)
		}
	})
	u.hub.rescope()
}

// signer returns the signer for the requests of a client's scope. It returns nil if the server has no
// Credentials.
func (d *dialer) signer(f *mcp.ClientInfo) httplink.Signer {
	if d.spec.Credentials == nil {
		return nil
	}
	return &signer{d, d.scopeOf(f)}
}

// signer signs the requests of one scope.
type signer struct {
	d     *dialer
	scope string
}

// Sign implements httplink.Signer.
func (s *signer) Sign(ctx context.Context, method, url string) ([]transport.HeaderField, httplink.Mark, error) {
	mark := httplink.Mark{Turn: s.d.refusals.turns.Load()}
	h, generation, err := s.d.spec.Credentials.Sign(ctx, s.scope, method, url)
	mark.Generation = generation
	return h, mark, err
}

// Nonce implements httplink.NonceSigner.
func (s *signer) Nonce(url, nonce string) {
	if n, ok := s.d.spec.Credentials.(Nonces); ok {
		n.Nonce(s.scope, url, nonce)
	}
}

// refusals are the questions to Credentials.Refused: one for all requests of a scope that were signed
// before it was answered.
type refusals struct {
	turns  atomic.Uint64 // number of answered questions
	mu     sync.Mutex
	newest map[string]*refusal // by scope
}

// refusal is one question.
type refusal struct {
	generation uint64
	turn       uint64        // its number among the answered questions; 0 until it is answered
	done       chan struct{} // closed when again and err are set
	again      bool
	err        error
}

// refusedTime is the timeout of Credentials.Refused.
const refusedTime = 30 * time.Second

// maxRefusals is how many questions are kept before those that are answered are forgotten.
const maxRefusals = 256

// Refused implements httplink.Signer.
func (s *signer) Refused(ctx context.Context, mark httplink.Mark, challenges []string) (again bool, err error) {
	q, ask := s.d.refusals.join(s.scope, mark)
	switch {
	case q == nil:
		return true, nil
	case ask && !s.d.work.Go(func() { s.ask(q, challenges) }):
		s.d.refusals.answer(q, false, errStopped)
	}
	select {
	case <-q.done:
		return q.again, q.err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// ask runs in a goroutine of the upstream, so that the caller that asks first may leave without
// taking the answer from the others.
func (s *signer) ask(q *refusal, challenges []string) {
	ctx, stop := context.WithTimeout(s.d.life, refusedTime)
	defer stop()
	again, err := s.d.spec.Credentials.Refused(ctx, s.scope, q.generation, challenges)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = errors.New("the credentials could not be renewed in time")
	}
	s.d.refusals.answer(q, again, err)
}

// join returns the question about a refused request, and whether the caller must ask it. It returns
// nil if credentials newer than those of the request are known.
func (r *refusals) join(scope string, mark httplink.Mark) (q *refusal, ask bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q = r.newest[scope]; q != nil && (q.turn == 0 || q.turn > mark.Turn) {
		switch {
		case q.generation == mark.Generation:
			return q, false
		case q.generation > mark.Generation:
			return nil, false
		}
	}
	if r.newest == nil {
		r.newest = make(map[string]*refusal)
	}
	if len(r.newest) >= maxRefusals {
		// Whoever still needs one of these asks again.
		for scope, q := range r.newest {
			if q.turn != 0 {
				delete(r.newest, scope)
			}
		}
	}
	q = &refusal{generation: mark.Generation, done: make(chan struct{})}
	r.newest[scope] = q
	return q, true
}

func (r *refusals) answer(q *refusal, again bool, err error) {
	r.mu.Lock()
	q.again, q.err = again && err == nil, err
	q.turn = r.turns.Add(1)
	r.mu.Unlock()
	close(q.done)
}
