package gateway

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// noSecrets is a filter that hides resources whose URI contains the word secret.
type noSecrets struct{}

func (noSecrets) Shows(_ catalog.Kind, _, name string) bool { return !strings.Contains(name, "secret") }

// TestSubscriptionsMove replaces a gateway with another one. The new gateway subscribes each client
// to the same resources again. If a resource is now hidden or its server no longer exists, the
// gateway publishes a Loss event. Each client keeps its own subscriptions.
func TestSubscriptionsMove(t *testing.T) {
	stood := map[string][]*fakeStanding{}
	server := func(name string, uris ...string) *fake {
		u := &fake{name: name, hello: mcp.ServerInfo{Capabilities: []byte(`{"resources":{"subscribe":true}}`)}, lists: map[string][]string{}}
		for _, uri := range uris {
			u.lists[mcp.MethodListResources] = append(u.lists[mcp.MethodListResources], `{"uri":"`+uri+`","name":"n"}`)
		}
		u.stood = func(w *fakeStanding) { stood[name] = append(stood[name], w) }
		return u
	}
	a, gone := server("a", "a:1", "a:2", "a:secret"), server("gone", "g:1")
	var lost []string
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(e event.Event) { lost = append(lost, e.Server+" "+e.Name) })
	before := &Merged{Bridge: &bridge.Bridge{Events: events}, Upstreams: []Upstream{a, gone}}
	defer before.Close()
	clients := []*mcp.ClientInfo{{Revision: mcp.R20251125, Conversation: 1}, {Revision: mcp.R20251125, Conversation: 2}}
	subscribe := func(g *Merged, f *mcp.ClientInfo, uri string) error {
		m := jsonrpc.NewRequest("1", mcp.MethodSubscribe, []byte(`{"uri":"`+uri+`"}`))
		_, err := g.Call(t.Context(), mcp.NewCall(m, m.Param(mcp.KeyMeta), f), &recordingCaller{})
		return err
	}
	for i, uris := range [][]string{{"a:1", "a:secret", "g:1"}, {"a:2"}} {
		defer before.Subscribe(clients[i], &recordingCaller{})()
		for _, uri := range uris {
			if err := subscribe(before, clients[i], uri); err != nil {
				t.Fatal(err)
			}
		}
	}
	after := &Merged{Bridge: before.Bridge, Upstreams: []Upstream{a}, Expose: noSecrets{}}
	defer after.Close()
	clear(stood)
	for _, f := range clients {
		defer after.Subscribe(f, &recordingCaller{})()
		after.Resume(f, before.TakeWatched(f))
	}
	for i, want := range []string{"a:1", "a:2"} {
		if got := slices.Sorted(maps.Keys(stood["a"][i].want.URIs)); !slices.Equal(got, []string{want}) {
			t.Errorf("client %d watches %q", i, got)
		}
	}
	slices.Sort(lost)
	if want := []string{"a resources/subscribe", "gone resources/subscribe"}; !slices.Equal(lost, want) {
		t.Errorf("lost %q", lost)
	}
	if err := subscribe(before, clients[0], "a:2"); err == nil {
		t.Error("the old gateway accepts a subscription that has no effect")
	}
	if err := subscribe(after, clients[0], "a:2"); err != nil {
		t.Error(err)
	}
	// A client that has disconnected before Resume gets no subscriptions.
	after.Resume(&mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 3}, Watched{"a": {"a:1"}})
}
