package requirements

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// maxSubscriptions is the maximum number of URIs to which clients can subscribe.
const maxSubscriptions = 1000

// feed is the state that the server needs to notify clients of changes.
type feed struct {
	prompts map[string]store.Prompt // the prompts that the SDK has, by name; used by New, and later only by changed

	mu         sync.Mutex
	subscribed map[string]map[*mcp.ServerSession]bool // the sessions that have subscribed to each URI; the SDK keeps the same list
}

// changed notifies clients of changes. If it returns an error, the store calls it again with the same
// changes. If complete is false, it notifies all subscribers, because anything may have changed.
func (s *Server) changed(changes []store.Change, complete bool) error {
	if !complete {
		_ = s.loadPrompts(s.ctx)
		s.addOverview()
		s.notify(func(string) bool { return true })
		return nil
	}
	uris := map[string]bool{}
	prompts, list := false, false
	uris[usersURI] = len(changes) > 0 // each change is somebody's
	for _, c := range changes {
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
		if err := s.loadPrompts(s.ctx); err != nil {
			return err
		}
	}
	if list {
		s.addOverview()
	}
	s.notify(func(uri string) bool { return uris[uri] })
	return nil
}

// notify notifies the subscribers of the URIs that have changed.
func (s *Server) notify(changed func(uri string) bool) {
	for _, uri := range s.subscriptions() {
		if changed(uri) {
			_ = s.mcp.ResourceUpdated(s.ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
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
