package requirements

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// maxSubscriptions is the maximum number of URIs to which clients can subscribe.
const maxSubscriptions = 1000

// feed is the state that the server needs to notify clients of changes.
type feed struct {
	poke    chan struct{}           // contains a value if follow must look for changes now
	prompts map[string]store.Prompt // the prompts that the SDK has, by name; used by New, and later only by follow

	mu         sync.Mutex
	subscribed map[string]map[*mcp.ServerSession]bool // the sessions that have subscribed to each URI; the SDK keeps the same list
}

// now makes follow look for changes at once.
func (f *feed) now() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// follow notifies clients of changes by this process and by other processes until the server
// closes. last is the number of the newest change that the clients know already.
func (s *Server) follow(last int64) {
	tick := time.NewTicker(s.o.Poll)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		case <-s.feed.poke:
		}
		last = s.news(s.ctx, last)
	}
}

// news notifies clients of the changes with a number above last. It returns the number of the last
// change that it has handled. If the database fails, news returns last, so that the next call tries
// again.
func (s *Server) news(ctx context.Context, last int64) int64 {
	newest, err := s.store.Last(ctx)
	if err != nil || newest == last {
		return last
	}
	changes, complete, err := s.store.Changes(ctx, last)
	if err != nil {
		return last
	}
	if !complete || newest < last || len(changes) == 0 {
		s.everything(ctx)
		return newest
	}
	uris := map[string]bool{}
	before, prompts, list := last, false, false
	for _, c := range changes {
		last = c.Seq
		if name := store.PromptOf(c.Object); name != "" {
			prompts = true
			uris[collections[promptCollection].uri(name)], uris[instructionsURI] = true, true
			continue
		}
		uris[uriOf(c.Object)] = true
		if _, _, err := store.ParseID(c.Object); err == nil {
			uris[overviewURI] = true
			list = list || c.Action == store.Created
		}
	}
	if prompts {
		if err := s.loadPrompts(ctx); err != nil {
			return before // the next call tries again
		}
	}
	if list {
		s.addOverview()
	}
	for _, uri := range s.subscriptions() {
		if uris[uri] {
			_ = s.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
	}
	if last < newest {
		s.feed.now() // news has not handled all changes
	}
	return last
}

// everything reloads the prompts and notifies all subscribers, because anything may have changed.
func (s *Server) everything(ctx context.Context) {
	_ = s.loadPrompts(ctx)
	s.addOverview()
	for _, uri := range s.subscriptions() {
		_ = s.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
	}
}

// subscriptions returns the URIs that have a subscriber, in order.
func (s *Server) subscriptions() []string {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.dropEndedLocked()
	return slices.Sorted(maps.Keys(s.feed.subscribed))
}

// dropEndedLocked removes the subscriptions of sessions that have ended, because the SDK does not
// call unsubscribe for them. The caller holds feed.mu.
func (s *Server) dropEndedLocked() {
	live := slices.Collect(s.mcp.Sessions())
	for uri, sessions := range s.feed.subscribed {
		maps.DeleteFunc(sessions, func(ss *mcp.ServerSession, _ bool) bool { return !slices.Contains(live, ss) })
		if len(sessions) == 0 {
			delete(s.feed.subscribed, uri)
		}
	}
}

// subscribe adds a subscription. It returns an error if the resource does not exist, or if there
// are too many subscriptions.
func (s *Server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri := req.Params.URI
	if _, err := s.contents(ctx, uri); err != nil {
		return err
	}
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.feed.subscribed[uri] == nil {
		if len(s.feed.subscribed) >= maxSubscriptions {
			s.dropEndedLocked()
		}
		if len(s.feed.subscribed) >= maxSubscriptions {
			return wrong("there are 1000 subscriptions already. Subscribe to " + overviewURI + ", which changes with every item.")
		}
		s.feed.subscribed[uri] = map[*mcp.ServerSession]bool{}
	}
	s.feed.subscribed[uri][req.Session] = true
	return nil
}

// unsubscribe removes the subscription of a session, even if the session has subscribed more than
// once.
func (s *Server) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	uri := req.Params.URI
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	delete(s.feed.subscribed[uri], req.Session)
	if len(s.feed.subscribed[uri]) == 0 {
		delete(s.feed.subscribed, uri)
	}
	return nil
}
