package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TestUnlistedResourceIsTheOnlyServersThatHasAny: what a tool links to need not be
// listed. Where several servers have resources nothing is guessed.
func TestUnlistedResourceIsTheOnlyServersThatHasAny(t *testing.T) {
	for name, test := range map[string]struct {
		caps []string
		want int // the server that is asked, -1 for none
	}{
		"one":  {[]string{`{"tools":{}}`, `{"resources":{}}`}, 1},
		"two":  {[]string{`{"resources":{}}`, `{"resources":{}}`}, -1},
		"none": {[]string{`{"tools":{}}`, `{"prompts":{}}`}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var all []*farServer
				for _, c := range test.caps {
					all = append(all, &farServer{caps: c})
				}
				n := build(t, all...).client()
				n.say(modernRequest("1", "resources/read", `"uri":"x://unlisted"`, `{}`))
				m := n.answerTo("1")
				if test.want < 0 {
					n.wants(m, `"code":-32602`)
				} else if m.Kind != jsonrpc.Result {
					t.Errorf("got %s", m.Raw)
				}
				for i, s := range all {
					if got := len(s.link(t, 0).got(mcp.MethodReadResource)); (got == 1) != (i == test.want) {
						t.Errorf("server %d was asked %d times", i, got)
					}
				}
			})
		})
	}
}

// TestJoinedCapabilitiesAreThoseOfTheServers: nothing is claimed that no server
// does, and no empty text is given for instructions.
func TestJoinedCapabilitiesAreThoseOfTheServers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w := build(t, &farServer{modern: true, caps: `{"resources":{}}`}, &farServer{caps: `{"prompts":{}}`})
		n := w.client()
		n.say(modernRequest("1", "server/discover", "", `{}`))
		m := n.answerTo("1")
		caps := m.ResultMember("capabilities")
		if got := string(caps.Of(m.Raw)); got != `{"prompts":{"listChanged":true},"resources":{"listChanged":true}}` {
			t.Errorf("capabilities %s", got)
		}
		if strings.Contains(string(m.Raw), "instructions") {
			t.Errorf("got %s", m.Raw)
		}
	})
}

// manyURIs are n resources from first on, as a JSON array.
func manyURIs(first, n int) string {
	uris := make([]string, n)
	for i := range uris {
		uris[i] = fmt.Sprintf(`"x://%05d"`, first+i)
	}
	return "[" + strings.Join(uris, ",") + "]"
}

func listenRequest(id, uris string) string {
	return modernRequest(id, "subscriptions/listen", `"notifications":{"resourcesListChanged":true,"resourceSubscriptions":`+uris+`}`, `{}`)
}

func updated(meta, uri string) string {
	return `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{` + meta + `"uri":"` + uri + `"}}`
}

// TestT21_TenThousandResources: a listen for 10,000 resources is refused in one
// piece, with the number that would do, before a server hears of it; ten listens
// for 1,000 each watch them all. A modern server has never more than two listens
// open for all of them, one on its way out, and each update reaches the one listen
// that asked for it.
func TestT21_TenThousandResources(t *testing.T) {
	for era, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(era, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &farServer{modern: modern, caps: `{"resources":{"subscribe":true,"listChanged":true}}`}
				n := build(t, s).client()
				n.say(modernRequest(`"open"`, "resources/list", "", `{}`))
				n.answerTo(`"open"`)
				l := s.link(t, 0)
				before := len(l.got(""))
				n.say(listenRequest(`"all"`, manyURIs(0, 10_000)))
				m := n.next()
				n.wants(m, `"code":-32602`)
				n.wants(m, `at most 1000 resources`)
				if now := len(l.got("")); now != before {
					t.Errorf("the server got %d messages for a listen that is refused", now-before)
				}
				for i := range 10 {
					uris := manyURIs(i*1000, 1000)
					n.say(listenRequest(fmt.Sprint(i), uris))
					ack := n.next()
					if got := string(jsonrpc.Find(ack.Raw, ack.Param("notifications"), "resourceSubscriptions").Of(ack.Raw)); ack.Method != mcp.NoteAcknowledged || got != uris {
						t.Fatalf("listen %d: %.300s", i, ack.Raw)
					}
				}
				synctest.Wait() // until the server has heard which listens have ended
				meta := ""
				if listens := l.got(mcp.MethodListen); modern {
					last := listens[len(listens)-1]
					if ends := l.got(mcp.NoteCancelled); len(listens)-len(ends) > 2 {
						t.Errorf("%d listens, of which %d were ended", len(listens), len(ends))
					}
					meta = `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(last.ID) + `},`
				} else if subs := l.got(mcp.MethodSubscribe); len(subs) != 10_000 {
					t.Errorf("subscribed %d times", len(subs))
				}
				for _, at := range []int{0, 999, 1000, 9999} {
					l.say(updated(meta, fmt.Sprintf("x://%05d", at)))
					got := n.rest()
					if len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf(`"x://%05d"`, at)) || !strings.Contains(got[0], fmt.Sprintf(`subscriptionId":%d`, at/1000)) {
						t.Errorf("of resource %d was heard %q", at, got)
					}
				}
				l.say(updated(meta, "x://10000"))
				if got := n.rest(); len(got) != 0 {
					t.Errorf("of what nobody watches was heard %.300q", got)
				}
				for i := range 10 {
					n.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if modern {
					if listens, ends := l.got(mcp.MethodListen), l.got(mcp.NoteCancelled); len(listens) != len(ends) {
						t.Errorf("of %d listens %d were ended", len(listens), len(ends))
					}
				} else if ends := l.got(mcp.MethodUnsubscribe); len(ends) != 10_000 {
					t.Errorf("unsubscribed %d times", len(ends))
				}
			})
		})
	}
}

// TestT21_TheSameIDOfTwoUsers: two clients listen under one id on one server, which
// tells of a change before it has said that it listens for the second. Each hears
// first that it is listened to, then of its own resource, under its own id.
func TestT21_TheSameIDOfTwoUsers(t *testing.T) {
	for era, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(era, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &farServer{modern: modern, caps: `{"resources":{"subscribe":true,"listChanged":true}}`}
				s.on = func(l *farLink, m *jsonrpc.Message) {
					tell := func(meta string) {
						l.say(updated(meta, "x:anna"))
						l.say(updated(meta, "x:bert"))
					}
					switch {
					case m.Method == mcp.MethodListen:
						meta := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(m.ID) + `},`
						l.acknowledge(m)
						tell(meta)
					case m.Method == mcp.MethodSubscribe:
						tell("")
						l.answer(m, `{}`)
						tell("")
					case m.Kind == jsonrpc.Request:
						l.answer(m, `{}`)
					}
				}
				w := build(t, s)
				for _, who := range []string{"anna", "bert"} {
					n := w.clientOf(who)
					n.say(listenRequest(`"s"`, `["x:`+who+`"]`))
					ack, update := n.next(), n.next()
					for i, m := range []*jsonrpc.Message{ack, update} {
						if want := []string{mcp.NoteAcknowledged, mcp.NoteResourceUpdated}[i]; m.Method != want {
							t.Errorf("%s: message %d is %s", who, i, m.Raw)
						}
						n.wants(m, `"io.modelcontextprotocol/subscriptionId":"s"`)
						n.wants(m, "x:"+who)
					}
					for _, more := range n.rest() {
						if !strings.Contains(more, "x:"+who) {
							t.Errorf("%s heard %s", who, more)
						}
					}
				}
			})
		})
	}
}

// TestN05_SubscriptionsOfALegacyClientAreBounded: as those of a listen are. A resource
// that is watched already costs nothing, one that is given up makes room, and another
// client has its own.
func TestN05_SubscriptionsOfALegacyClientAreBounded(t *testing.T) {
	for era, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(era, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &farServer{modern: modern, caps: `{"resources":{"subscribe":true}}`}
				w := build(t, s)
				n, other := w.legacy(`{}`), w.legacy(`{}`)
				ask := func(n *near, id, method string, uri int) *jsonrpc.Message {
					n.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"resources/%s","params":{"uri":"x://%d"}}`, id, method, uri))
					return n.answerTo(id)
				}
				for i := range 1000 {
					if m := ask(n, fmt.Sprint(i), "subscribe", i); m.Kind != jsonrpc.Result {
						t.Fatalf("resource %d: %s", i, m.Raw)
					}
				}
				n.wants(ask(n, "2000", "subscribe", 1000), "at most 1000 resources")
				if m := ask(other, "1", "subscribe", 1000); m.Kind != jsonrpc.Result {
					t.Errorf("another client: %s", m.Raw)
				}
				if m := ask(n, "2001", "subscribe", 5); m.Kind != jsonrpc.Result {
					t.Errorf("one that is watched: %s", m.Raw)
				}
				ask(n, "2002", "unsubscribe", 7)
				if m := ask(n, "2003", "subscribe", 1000); m.Kind != jsonrpc.Result {
					t.Errorf("after one was given up: %s", m.Raw)
				}
			})
		})
	}
}
