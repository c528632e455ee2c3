package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestN14_ListensOfOnePrincipalAreBounded checks that a principal that opens too many listens, at
// all endpoints together, gets an error with a reason. Other principals are not affected. When a
// listen ends, the principal may open another one.
func TestN14_ListensOfOnePrincipalAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _, _ := notifyingServer("u", mcp.SubscriptionFilter{Tools: true})
		relay, quota := &bridge.Bridge{}, &ListenQuota{}
		one, other := &Merged{Bridge: relay, Listens: quota, Upstreams: []Upstream{u}}, &Single{Bridge: relay, Listens: quota, Upstream: u}
		host := func(n int) callee {
			if n%2 == 0 {
				return one
			}
			return other
		}
		listen := func(n int, who mcp.ClientInfo) *listens {
			return startListenAt(t, host(n), who, fmt.Sprint(n), `{"toolsListChanged":true}`)
		}
		anna, bert, nobody := mcp.ClientInfo{Who: identity.Named("anna"), Remote: "10.0.0.1"}, mcp.ClientInfo{Who: identity.Named("bert"), Remote: "10.0.0.1"}, mcp.ClientInfo{Remote: "10.0.0.1"}
		var all []*listens
		for n := range maxListens {
			all = append(all, listen(n, anna))
		}
		for n := range 2 {
			l := listen(maxListens+n, anna)
			<-l.done
			var e *mcp.Error
			if !errors.As(l.err, &e) || !e.TooMany || e.RetryAfter <= 0 || e.Outcome != mcp.NotSent || !e.Retryable {
				t.Errorf("a listen beyond the bound got %v, %v", l.reply, l.err)
			}
		}
		for name, who := range map[string]mcp.ClientInfo{"another": bert, "nobody": nobody} {
			l := listen(0, who)
			if got := l.ear.all(); len(got) != 1 || !strings.Contains(got[0], mcp.NoteAcknowledged) {
				t.Errorf("the listen of %s got %q", name, got)
			}
			all = append(all, l)
		}
		if got := quota.ByParty(); len(got) != 3 || got["principal anna"] != maxListens || got["remote 10.0.0.1"] != 1 {
			t.Errorf("the open listens are %v", got)
		}
		all[5].cancel()
		<-all[5].done
		again := listen(500, anna)
		if got := again.ear.all(); len(got) != 1 {
			t.Errorf("a listen after one has ended: %q, %v", got, again.err)
		}
		one.Drain()
		other.Drain()
		for _, l := range append(all, again) {
			<-l.done
		}
		if got := quota.ByParty(); len(got) != 0 {
			t.Errorf("the open listens at the end are %v", got)
		}
	})
}

// TestG02_OddNamesAreSaidAndSettled checks items with odd names. If two items have the same name,
// only the first is listed. An item without a name is left out. A name that clients would refuse is
// replaced. Each case is logged once.
func TestG02_OddNamesAreSaidAndSettled(t *testing.T) {
	long := strings.Repeat("x", 300)
	u := &fake{name: "u", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true},"resources":{"listChanged":true}}`)}, lists: map[string][]string{
		mcp.MethodListTools: {
			`{"name":"a","description":"first"}`, `{"name":"b"}`, `{"name":"a","description":"second"}`,
			`{"name":"` + long + `"}`, "{\"name\":\"\u202eevil\"}", "{\"name\":\"z\u200dw\"}", `{"name":""}`, `{"name":7}`,
		},
		mcp.MethodListResources: {`{"uri":"r:1","name":"mine"}`},
	}}
	v := &fake{name: "v", hello: u.hello, lists: map[string][]string{mcp.MethodListResources: {`{"uri":"r:1","name":"theirs"}`}}}
	var lost, renamed []string
	events := &event.Publisher{}
	events.Tap(event.Of(event.Loss), func(e event.Event) { lost = append(lost, e.Server+" "+e.Name+" "+e.Detail) })
	events.Tap(event.Of(event.Rename), func(e event.Event) {
		renamed = append(renamed, e.Server+" "+e.Method+" "+e.Name+": "+e.Detail)
	})
	g := &Merged{Bridge: &bridge.Bridge{Events: events}, Upstreams: []Upstream{u, v}}
	defer g.Close()
	tools := func() string { return listing(t, g, mcp.MethodListTools) }
	first := tools()
	for range 3 {
		g.Changed("u", "tools")
		if again := tools(); again != first {
			t.Errorf("the list has changed:\n%s\n%s", first, again)
		}
	}
	if !strings.Contains(first, "first") || strings.Contains(first, "second") || strings.Contains(first, "\u202e") || strings.Contains(first, "\u200d") {
		t.Errorf("the tools are %s", first)
	}
	resources := listing(t, g, mcp.MethodListResources)
	if !strings.Contains(resources, "mine") || strings.Contains(resources, "theirs") {
		t.Errorf("the resources are %s", resources)
	}
	want := []string{`u tools/list "a" is left out: the server lists this name twice`, `u tools/list "" is left out: the item has no name`, `v resources/list "r:1" is left out: server "u" has an item`}
	if len(lost) != len(want) {
		t.Errorf("the losses are %q", lost)
	}
	for _, w := range want {
		if !strings.Contains(strings.Join(lost, "\n"), w) {
			t.Errorf("the loss %s is missing in %q", w, lost)
		}
	}
	if len(renamed) != 3 {
		t.Errorf("the renamed items are %q", renamed)
	}
	n := 0
	for _, l := range g.Lists() {
		n += len(l.Rejected)
	}
	if n != len(lost)+1+len(renamed) { // the report contains both items without a name, but lost contains only one
		t.Errorf("%d items are in the report: %+v", n, g.Lists())
	}
}

func listing(t *testing.T, g *Merged, method string) string {
	t.Helper()
	reply, err := g.Call(t.Context(), modern(t, method, `{}`), &recordingCaller{})
	if err != nil || reply.Msg.Kind != jsonrpc.Result {
		t.Fatalf("%s: %v", method, err)
	}
	return string(reply.Msg.Raw)
}

// TestListsTellWhatIsStale checks that the last good list is shown while the server is unreachable,
// and that the report marks this list as stale.
func TestListsTellWhatIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := false
		u := &fake{name: "u", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}}
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{u}}
		defer g.Close()
		u.list = func(context.Context, string) ([][]byte, error) {
			if fails {
				return nil, errors.New("away")
			}
			return items(`{"name":"a"}`), nil
		}
		report := func() catalog.ListReport {
			all := g.Lists()
			if len(all) != 1 {
				t.Fatalf("the report at first is %+v", all)
			}
			return all[0]
		}
		if l := listing(t, g, mcp.MethodListTools); !strings.Contains(l, "u__a") {
			t.Fatal(l)
		}
		if r := report(); r.Stale || r.Items != 1 || r.Failed != "" || r.Read.IsZero() || r.CutOff {
			t.Errorf("the report after reading is %+v", r)
		}
		fails = true
		g.Changed("u", "tools")
		if r := report(); !r.Stale {
			t.Errorf("the report after a change is %+v", r)
		}
		if l := listing(t, g, mcp.MethodListTools); !strings.Contains(l, "u__a") {
			t.Errorf("the last good list is gone: %s", l)
		}
		if r := report(); !r.Stale || r.Failed == "" || r.Items != 1 {
			t.Errorf("the report after a failure is %+v", r)
		}
		fails = false
		g.Changed("u", "tools")
		listing(t, g, mcp.MethodListTools)
		if r := report(); r.Stale || r.Failed != "" {
			t.Errorf("the report after another reading is %+v", r)
		}
	})
}
