package downstream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// TestClients checks that Endpoint.Clients has a client of either era while its conversation is
// open.
func TestClients(t *testing.T) {
	for hello, want := range map[string]mcp.Revision{hello25: mcp.R20251125, hello26: mcp.R20260728} {
		e := &Endpoint{Handler: &fakeHandler{}}
		visit(t, e, func(w *pipetest.Wire) {
			w.Say(hello)
			w.Heard()
			time.Sleep(time.Minute)
			w.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
			synctest.Wait()
			all := e.Clients()
			if len(all) != 1 || all[0].Revision != want || !all[0].Session || all[0].Requests != 1 || all[0].Last.Sub(all[0].Since) < time.Minute || all[0].ID == "" {
				t.Errorf("%s: %+v", want, all)
			}
		})
		if all := e.Clients(); len(all) != 0 {
			t.Errorf("after the end: %+v", all)
		}
	}
}

// TestVisitors checks that an endpoint counts requests without a conversation by client. It keeps
// at most maxVisitors clients, and removes a client that has sent nothing for visitorLife.
func TestVisitors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Endpoint{}
		client := func(name, caps string) *mcp.ClientInfo {
			return &mcp.ClientInfo{Revision: mcp.R20260728, Who: identity.Local, Remote: "127.0.0.1", Info: []byte(`{"name":"` + name + `"}`), Capabilities: []byte(caps)}
		}
		e.visitors.note(client("one", "{}"))
		time.Sleep(time.Second)
		e.visitors.note(client("one", `{"elicitation":{}}`))
		time.Sleep(time.Second)
		e.visitors.note(client(strings.Repeat("long", maxKept), "{"+strings.Repeat(" ", maxKept)+"}"))
		all := e.Clients()
		if len(all) != 2 || all[0].Requests != 2 || string(all[0].Info) != `{"name":"one"}` || string(all[0].Capabilities) != `{"elicitation":{}}` || all[0].Session || all[0].Transport != "http" || all[0].Last.Sub(all[0].Since) != time.Second {
			t.Errorf("%+v", all)
		}
		if all[1].Info != nil || len(all[1].Capabilities) > maxKept || all[0].ID == all[1].ID {
			t.Errorf("a long name: %+v", all[1])
		}
		for i := range 2 * maxVisitors {
			time.Sleep(time.Millisecond)
			e.visitors.note(client(fmt.Sprintf("many %d", i), "{}"))
		}
		if all = e.Clients(); len(all) != maxVisitors || string(all[len(all)-1].Info) != fmt.Sprintf(`{"name":"many %d"}`, 2*maxVisitors-1) {
			t.Errorf("%d visitors, the last %s", len(all), all[len(all)-1].Info)
		}
		time.Sleep(visitorLife + time.Second)
		if all = e.Clients(); len(all) != 0 {
			t.Errorf("%d are left", len(all))
		}
	})
}
