package gateway

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// listens is a running subscriptions/listen request.
type listens struct {
	ear    *recordingCaller
	cancel context.CancelFunc
	done   chan struct{}
	reply  *mcp.Reply
	err    error
}

func startListen(t *testing.T, g *Merged, id, filter string) *listens {
	t.Helper()
	return startListenAt(t, g, mcp.ClientInfo{Who: identity.Named("alice")}, id, filter)
}

func startListenAt(t *testing.T, g callee, who mcp.ClientInfo, id, filter string) *listens {
	t.Helper()
	l := &listens{ear: &recordingCaller{}, done: make(chan struct{})}
	c := modern(t, mcp.MethodListen, `{"notifications":`+filter+`}`)
	c.Client.Who, c.Client.Remote = who.Who, who.Remote
	c.Msg = message(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"subscriptions/listen","params":{"notifications":`+filter+`}}`)
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	go func() {
		defer close(l.done)
		l.reply, l.err = g.Call(ctx, c, l.ear)
	}()
	synctest.Wait()
	return l
}

type callee interface {
	Call(ctx context.Context, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error)
}

// notifyingServer returns a server. The second result is a function that sends notifications from
// this server. The third result is a function that returns the registered subscribers.
func notifyingServer(name string, honour mcp.SubscriptionFilter) (*fake, func(t *testing.T, raw string), func() []*fakeStanding) {
	u := &fake{name: name, honour: honour}
	var mu sync.Mutex
	var all []*fakeStanding
	u.stood = func(w *fakeStanding) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, w)
	}
	stood := func() []*fakeStanding {
		mu.Lock()
		defer mu.Unlock()
		return append([]*fakeStanding(nil), all...)
	}
	return u, func(t *testing.T, raw string) {
		for _, w := range stood() {
			w.deliver(message(t, raw))
		}
	}, stood
}

const (
	toolsNote = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	ackBegins = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`
)

func TestN01_AcknowledgementComesFirstWithTheIDAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, tell, stood := notifyingServer("u", mcp.SubscriptionFilter{Tools: true})
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{u}}
		text := startListen(t, g, `"1"`, `{"toolsListChanged":true}`)
		number := startListen(t, g, `1`, `{"toolsListChanged":true,"promptsListChanged":true,"later":{"x":1}}`)
		tell(t, toolsNote)
		synctest.Wait()
		for id, l := range map[string]*listens{`"1"`: text, `1`: number} {
			got := l.ear.all()
			if len(got) != 2 || got[0] != ackBegins+id+`},"notifications":{"toolsListChanged":true}}}` || !strings.Contains(got[1], `"io.modelcontextprotocol/subscriptionId":`+id+`}`) {
				t.Errorf("the listen with id %s got %q", id, got)
			}
		}
		text.cancel()
		<-text.done
		if text.err == nil {
			t.Errorf("the cancelled listen got %v", text.reply)
		}
		tell(t, toolsNote)
		synctest.Wait()
		if n := len(text.ear.all()); n != 2 {
			t.Errorf("the cancelled listen has %d messages, want 2", n)
		}
		// N09: the listen that still runs gets its result.
		g.Drain()
		<-number.done
		if number.err != nil || result(t, number.reply) != `{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}` {
			t.Errorf("the result is %v, %v", number.reply, number.err)
		}
		got := number.ear.all()
		if last := got[len(got)-1]; !strings.Contains(last, mcp.NoteCancelled) || !strings.Contains(last, `"requestId":1,`) {
			t.Errorf("the last message is %s, want a cancellation", last)
		}
		for _, w := range stood() {
			if !w.closed {
				t.Error("the listen is still registered with the server")
			}
		}
	})
}

func TestN03_EmptyFilterIsAcknowledgedAndHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, _, _ := notifyingServer("u", mcp.SubscriptionFilter{Tools: true})
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{u}}
		l := startListen(t, g, `1`, `{}`)
		g.announce(mcp.NoteToolsChanged, "a", catalog.Audience{}) // N02: the client did not request notifications
		synctest.Wait()
		if got := l.ear.all(); len(got) != 1 || got[0] != ackBegins+`1},"notifications":{}}}` {
			t.Errorf("the client got %q, want only the acknowledgement", got)
		}
		l.cancel()
		<-l.done
		g.Close()
	})
}

func TestN04_FilterOfTheWrongTypeIsRefused(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"x:%d"`, i)
		}
		return `{"notifications":{"resourceSubscriptions":[` + b.String()[1:] + `]}}`
	}
	g := merged(t, &fake{name: "u"})
	for _, bad := range []string{
		`{}`, `{"notifications":[]}`, `{"notifications":null}`, `{"notifications":{"toolsListChanged":"yes"}}`,
		`{"notifications":{"resourceSubscriptions":"x:1"}}`, `{"notifications":{"resourceSubscriptions":[1]}}`,
		many(maxURIs + 1), // N05: too many URIs
	} {
		if _, err := g.Call(t.Context(), modern(t, mcp.MethodListen, bad), &recordingCaller{}); code(err) != jsonrpc.CodeInvalidParams {
			t.Errorf("%.60s: %v", bad, err)
		}
	}
}

// stalled is a client side that reads one message and then blocks.
type stalled struct {
	recordingCaller
	gate chan struct{}
}

func (s *stalled) Notify(n *mcp.Note) {
	<-s.gate
	s.recordingCaller.Notify(n)
}

func TestNoticesThatWaitAreTakenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, tell, _ := notifyingServer("u", mcp.SubscriptionFilter{Tools: true, URIs: map[string]bool{"x:1": true, "x:2": true}})
		u.lists = map[string][]string{"resources/list": {`{"uri":"x:1"}`, `{"uri":"x:2"}`, `{"uri":"x:3"}`}}
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{u}}
		s := &stalled{gate: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c := modern(t, mcp.MethodListen, `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:1","x:2","x:1","x:3"]}}`)
			_, _ = g.Call(ctx, c, s)
		}()
		synctest.Wait()
		for range 1000 {
			tell(t, toolsNote)
			tell(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1"}}`)
			tell(t, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:2"}}`)
		}
		close(s.gate)
		synctest.Wait()
		got := s.all()
		if len(got) != 4 || !strings.Contains(got[0], `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:1","x:2"]}`) {
			t.Errorf("the client got %d messages, want 4: %q", len(got), got)
		}
		cancel()
		<-done
		g.Close()
	})
}

// hung is a server whose Watch blocks until its context ends.
type hung struct{ *fake }

func (u hung) Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) Subscriber {
	return hungStanding{u.fake.Subscribe(f, deliver, asker)}
}

type hungStanding struct{ Subscriber }

func (w hungStanding) Watch(ctx context.Context, _ mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error) {
	<-ctx.Done()
	return mcp.SubscriptionFilter{}, context.Cause(ctx)
}

func TestListenWaitsForNoServerLongerThanTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, tell, _ := notifyingServer("u", mcp.SubscriptionFilter{Tools: true})
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{hung{&fake{name: "a"}}, hung{&fake{name: "b"}}, u}}
		start := time.Now()
		l := startListen(t, g, `1`, `{"toolsListChanged":true}`)
		time.Sleep(listenGrace)
		synctest.Wait()
		if got := l.ear.all(); len(got) != 1 || !strings.HasPrefix(got[0], ackBegins) {
			t.Errorf("after %v the client got %q, want the acknowledgement", time.Since(start), got)
		}
		tell(t, toolsNote)
		synctest.Wait()
		if n := len(l.ear.all()); n != 2 {
			t.Errorf("the client got %d messages, want 2", n)
		}
		l.cancel()
		<-l.done
		g.Close()
	})
}
