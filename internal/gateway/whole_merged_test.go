package gateway_test

import (
	"fmt"
	"strings"
	"testing"

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

// TestT21_ManyResourcesAreOneListen: a modern server sees one listen for all that
// a client watches, not one for each.
func TestT21_ManyResourcesAreOneListen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &farServer{modern: true, caps: `{"resources":{"subscribe":true,"listChanged":true}}`}
		n := build(t, s).client()
		uris := make([]string, 1000)
		for i := range uris {
			uris[i] = fmt.Sprintf(`"x://%03d"`, i)
		}
		n.say(modernRequest(`"s"`, "subscriptions/listen", `"notifications":{"resourcesListChanged":true,"resourceSubscriptions":[`+strings.Join(uris, ",")+`]}`, `{}`))
		ack := n.next()
		if got := string(jsonrpc.Find(ack.Raw, ack.Param("notifications"), "resourceSubscriptions").Of(ack.Raw)); got != "["+strings.Join(uris, ",")+"]" {
			t.Errorf("acknowledged %.300s", ack.Raw)
		}
		listens := s.link(t, 0).got(mcp.MethodListen)
		if len(listens) > 2 {
			t.Errorf("the server got %d listens", len(listens))
		}
		n.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`)
		n.rest()
		if ends := s.link(t, 0).got(mcp.NoteCancelled); len(ends) != len(s.link(t, 0).got(mcp.MethodListen)) {
			t.Errorf("%d listens were ended", len(ends))
		}
	})
}
