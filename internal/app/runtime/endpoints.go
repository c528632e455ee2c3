package runtime

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Endpoints is the set of open endpoints. Each endpoint runs from Add until Remove or Close. Call
// NewEndpoints to create a set. Endpoints is safe for concurrent use.
type Endpoints struct {
	life    context.Context
	end     context.CancelCauseFunc
	running work.Group

	mu       sync.Mutex
	all      map[*Endpoint]context.CancelFunc
	draining bool
	closed   bool
}

// NewEndpoints returns an empty set.
func NewEndpoints() *Endpoints {
	s := &Endpoints{all: make(map[*Endpoint]context.CancelFunc)}
	s.life, s.end = context.WithCancelCause(context.Background())
	return s
}

// Add opens an endpoint.
func (s *Endpoints) Add(e *Endpoint) {
	life, end := context.WithCancel(s.life)
	s.mu.Lock()
	draining := s.draining || s.closed
	s.all[e] = end
	if !s.closed {
		s.running.Go(func() { e.run(life) })
	}
	s.mu.Unlock()
	if draining {
		e.drain()
	}
}

// Remove closes an endpoint and its sessions, and waits until they have ended. Running requests end with
// cause.
func (s *Endpoints) Remove(e *Endpoint, cause error) {
	s.mu.Lock()
	end := s.all[e]
	delete(s.all, e)
	s.mu.Unlock()
	if end != nil {
		end()
	}
	e.close(cause)
}

// List returns the open endpoints in no particular order.
func (s *Endpoints) List() []*Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.all))
}

// Drain refuses new clients, and ends the streams that would otherwise stay open. Running requests
// continue.
func (s *Endpoints) Drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	for _, e := range s.List() {
		e.drain()
	}
}

// HandOver gives the sessions of all endpoints to other processes, each as soon as no request of it runs. It returns when
// none is left that somebody could take, or when ctx ends.
func (s *Endpoints) HandOver(ctx context.Context) {
	var wait sync.WaitGroup
	for _, e := range s.List() {
		wait.Go(func() { e.handOver(ctx) })
	}
	wait.Wait()
}

// Busy returns how many requests for Streamable HTTP run at all endpoints.
func (s *Endpoints) Busy() (n int) {
	for _, e := range s.List() {
		n += e.http.Busy()
	}
	return n
}

// Refuse refuses all further requests for Streamable HTTP; see streamhttp.Server.Refuse.
func (s *Endpoints) Refuse() {
	for _, e := range s.List() {
		e.http.Refuse()
	}
}

// EndSeat ends all that runs for a seat at every endpoint: its sessions, its streams, its
// subscriptions/listen and its requests. seat is what identity.Principal.SeatKey returns. The client is
// told why if cause is an *mcp.Error. EndSeat returns when they have ended. Other seats go on.
//
// The function that names the principals must refuse the seat before EndSeat is called: then nothing
// is left of it, not even a request that was on its way.
func (s *Endpoints) EndSeat(seat string, cause error) {
	var wait sync.WaitGroup
	for _, e := range s.List() {
		wait.Go(func() { e.endSeat(seat, cause) })
	}
	wait.Wait()
}

// Context returns a context that ends when Close is called.
func (s *Endpoints) Context() context.Context { return s.life }

// Close ends all sessions, and waits until no request is running at any endpoint. Clients with
// running requests get an error that says that the gateway is stopping. Close may be called
// again.
func (s *Endpoints) Close() {
	s.end(mcp.ErrShutdown)
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	var wait sync.WaitGroup
	for _, e := range all {
		wait.Go(func() { e.close(mcp.ErrShutdown) })
	}
	wait.Wait()
	s.running.Wait()
}
