package upstream

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestChangesAreHeardWhileAListenIsReplaced checks that the new listen is open before the old one
// ends. Each change is delivered once, whether it occurs before the server has read the new
// listen, after the server has acknowledged the new listen, or after the old listen has ended.
func TestChangesAreHeardWhileAListenIsReplaced(t *testing.T) {
	var mu sync.Mutex
	var ids []string // ids of the listens that the server has acknowledged
	var acknowledge chan struct{}
	h := &program{modern: true}
	h.on = func(l *process, m *jsonrpc.Message) []byte {
		if m.Method != mcp.MethodListen {
			return nil
		}
		<-acknowledge
		mu.Lock()
		ids = append(ids, string(m.ID))
		mu.Unlock()
		ack := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, m.Param("notifications").Of(m.Raw))
		_ = l.pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteAcknowledged, []byte(ack)))
		return silent
	}
	change := func(uri string, listens ...int) {
		mu.Lock()
		defer mu.Unlock()
		for _, i := range listens {
			params := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"uri":%q}`, ids[i], uri)
			_ = h.all()[0].pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteResourceUpdated, []byte(params)))
		}
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		acknowledge = make(chan struct{}, 1)
		if _, err := u.Hello(t.Context(), modernClient); err != nil {
			t.Fatal(err)
		}
		var heard []string
		a := u.Subscribe(modernClient, func(m *jsonrpc.Message) {
			uri, _ := jsonrpc.Text(m.Raw, m.Param("uri"))
			mu.Lock()
			heard = append(heard, uri)
			mu.Unlock()
		}, nil)
		watch := func(uris ...string) {
			want := mcp.SubscriptionFilter{URIs: map[string]bool{}}
			for _, uri := range uris {
				want.URIs[uri] = true
			}
			u.work.Go(func() { _, _ = a.Watch(u.life, want) })
			synctest.Wait()
		}
		watch("x:1", "x:2")
		acknowledge <- struct{}{}
		synctest.Wait()
		change("x:1", 0)
		watch("x:1")
		change("x:1", 0) // the server has not read the new listen yet
		synctest.Wait()
		change("x:1", 0)
		synctest.Wait()
		acknowledge <- struct{}{}
		synctest.Wait()
		change("x:1", 0, 1)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		change("x:1", 1)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(heard, " "); got != "x:1 x:1 x:1 x:1 x:1" {
			t.Errorf("got %s", got)
		}
	})
}

// TestListensOfTheGoSDK checks a server that has one listen for each resource and session, like
// servers with the official Go SDK 1.8.0: the newest listen replaces the others, and the end of any
// listen ends all notifications of its resources and lists. A correct server is checked in the same
// way. The subscriptions of one client change many times, and another client gets each change of its
// resource once.
func TestListensOfTheGoSDK(t *testing.T) {
	for name, correct := range map[string]bool{"correct": true, "one listen for each resource": false} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			open := map[string]map[string]bool{} // the resources of each open listen, by its id
			newest := map[string]string{}        // the id of the newest listen of each resource
			most := 0
			h := &program{modern: true}
			h.on = func(l *process, m *jsonrpc.Message) []byte {
				if m.Method != mcp.MethodListen {
					return nil
				}
				mu.Lock()
				defer mu.Unlock()
				id := string(m.ID)
				want, _ := mcp.ParseSubscriptionFilter(m.Raw, m.Param("notifications"))
				open[id] = want.URIs
				most = max(most, len(open))
				for uri := range want.URIs {
					newest[uri] = id
				}
				ack := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, id, m.Param("notifications").Of(m.Raw))
				_ = l.pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteAcknowledged, []byte(ack)))
				return silent
			}
			h.heard = func(m *jsonrpc.Message) {
				if m.Method != mcp.NoteCancelled {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				id := string(m.Param("requestId").Of(m.Raw))
				for uri := range open[id] {
					delete(newest, uri)
				}
				delete(open, id)
			}
			change := func(uri string) {
				mu.Lock()
				defer mu.Unlock()
				for id, uris := range open {
					if correct && uris[uri] || !correct && newest[uri] == id {
						params := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"uri":%q}`, id, uri)
						_ = h.all()[0].pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteResourceUpdated, []byte(params)))
					}
				}
			}
			bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
				if _, err := u.Hello(t.Context(), modernClient); err != nil {
					t.Fatal(err)
				}
				var heard atomic.Int32
				a := u.Subscribe(modernClient, func(*jsonrpc.Message) { heard.Add(1) }, nil)
				b := u.Subscribe(info(mcp.R20260728, "", "{}", 2), func(*jsonrpc.Message) {}, nil)
				watch := func(w *Subscriber, uri string) {
					_, _ = w.Watch(t.Context(), mcp.SubscriptionFilter{URIs: map[string]bool{uri: true}})
				}
				watch(a, "x:mine")
				for i := range 20 {
					watch(b, fmt.Sprint("x:", i))
					if i%5 == 0 {
						watch(b, fmt.Sprint("x:again", i)) // before the last listen has been replaced
					}
					time.Sleep(10 * time.Second)
					change("x:mine")
					synctest.Wait()
					if n := heard.Swap(0); n != 1 {
						t.Fatalf("change %d arrived %d times", i, n)
					}
				}
				a.Close()
				b.Close()
				time.Sleep(10 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if len(open) != 0 || most > enoughKept+mostListens {
					t.Errorf("%d listens are open at the end, and there were %d at once", len(open), most)
				}
			})
		})
	}
}

// TestListensThatTheServerEnds checks that a server which ends each listen at once isn't asked all the
// time, and not again if it has acknowledged nothing: the official Go SDK 1.8.0 does that.
func TestListensThatTheServerEnds(t *testing.T) {
	for _, c := range []struct {
		honoured string
		most     int // listens in an hour
	}{{`{}`, 1}, {`{"resourceSubscriptions":["x:1"]}`, 130}} {
		listens := 0
		h := &program{modern: true}
		h.on = func(l *process, m *jsonrpc.Message) []byte {
			if m.Method != mcp.MethodListen {
				return nil
			}
			listens++
			ack := fmt.Sprintf(`{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":%s}`, m.ID, c.honoured)
			_ = l.pipe.Write(jsonrpc.AppendNotification(nil, mcp.NoteAcknowledged, []byte(ack)))
			return jsonrpc.AppendResult(nil, m.ID, []byte(`{"resultType":"complete"}`))
		}
		bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
			if _, err := u.Hello(t.Context(), modernClient); err != nil {
				t.Fatal(err)
			}
			w := u.Subscribe(modernClient, func(*jsonrpc.Message) {}, nil)
			if _, err := w.Watch(t.Context(), mcp.SubscriptionFilter{URIs: map[string]bool{"x:1": true}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			synctest.Wait()
			if listens == 0 || listens > c.most {
				t.Errorf("%s: the server got %d listens in an hour", c.honoured, listens)
			}
		})
	}
}

func TestHearing(t *testing.T) {
	type step struct {
		listen string // the listen on which the notification arrives
		uri    string
		first  bool
	}
	note := func(uri string) *jsonrpc.Message {
		return jsonrpc.NewNotification(mcp.NoteResourceUpdated, fmt.Appendf(nil, `{"uri":%q}`, uri))
	}
	for name, tt := range map[string]struct {
		steps []step
	}{
		"one by both":               {[]step{{"old", "x", true}, {"new", "x", false}}},
		"one by both, new first":    {[]step{{"new", "x", true}, {"old", "x", false}}},
		"the old alone, then both":  {[]step{{"old", "x", true}, {"new", "x", false}, {"old", "x", true}}},
		"two by both":               {[]step{{"old", "x", true}, {"old", "x", true}, {"new", "x", false}, {"new", "x", false}}},
		"two resources":             {[]step{{"old", "x", true}, {"new", "y", true}, {"old", "y", false}, {"new", "x", false}}},
		"the new one after the end": {[]step{{"old", "x", true}, {"end", "", false}, {"new", "x", true}, {"old", "x", false}}},
	} {
		var h listenSet
		listens := map[string]*listening{"old": {}, "new": {}}
		h.open(listens["old"], false)
		h.open(listens["new"], false)
		for i, s := range tt.steps {
			if s.listen == "end" {
				h.close(listens["old"])
			} else if got := h.first(listens[s.listen], note(s.uri)); got != s.first {
				t.Errorf("%s: step %d: first returns %t", name, i, got)
			}
		}
	}
}

func TestHearingIsBounded(t *testing.T) {
	var h listenSet
	var ended []int
	var all []*listening
	for i := range mostListens + 2 {
		all = append(all, &listening{cancel: func(error) { ended = append(ended, i) }})
		h.open(all[i], false)
	}
	if !slices.Equal(ended, []int{0, 1}) || len(h.listens) != mostListens {
		t.Errorf("the listens %v were closed, and %d are open", ended, len(h.listens))
	}
	for i := range mostCounted + 10 {
		m := jsonrpc.NewNotification(mcp.NoteResourceUpdated, fmt.Appendf(nil, `{"uri":"x:%d"}`, i))
		if !h.first(all[mostListens+1], m) {
			t.Fatalf("notification %d is not delivered", i)
		}
	}
	if n := len(h.delivered); n > mostCounted {
		t.Errorf("there are %d counters", n)
	}
}
