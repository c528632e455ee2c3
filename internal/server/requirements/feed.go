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

// maxSubscriptions is the largest number of URIs to which clients can subscribe.
const maxSubscriptions = 1000

// feed is what the server needs to tell clients about changes.
type feed struct {
	poke    chan struct{}           // has a value after this process has made a change
	prompts map[string]store.Prompt // the prompts that the SDK has; used by New, and then only by follow

	mu         sync.Mutex
	subscribed map[string]map[*mcp.ServerSession]bool // the sessions that subscribe to a URI, as in the SDK
}

// now makes the server look for changes at once.
func (f *feed) now() {
	select {
	case f.poke <- struct{}{}:
	default:
	}
}

// follow tells the clients about changes by this process and by others, until the server closes.
// last is the number of the last change that is known.
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

// news tells the clients about the changes with a number above last, and returns the number of the
// newest change. If the database fails, news returns last, and the next call tries again.
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
		s.feed.now() // there are more
	}
	return last
}

// everything tells the clients that anything may have changed.
func (s *Server) everything(ctx context.Context) {
	_ = s.loadPrompts(ctx)
	s.addOverview()
	for _, uri := range s.subscriptions() {
		_ = s.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
	}
}

// subscriptions returns the URIs with a subscriber, in order.
func (s *Server) subscriptions() []string {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.dropEndedLocked()
	return slices.Sorted(maps.Keys(s.feed.subscribed))
}

// dropEndedLocked drops the subscriptions of sessions that have ended, because the SDK does not
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

// subscribe accepts a subscription to a resource that exists.
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

// unsubscribe ends the subscription of one session, however often the session has subscribed.
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
