package console

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestTraffic checks the counts of a minute, of an hour and since the start.
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, p := newTraffic(), &event.Publisher{}
		defer tr.tap(p, func() {})()
		for i := range 10 {
			outcome := event.OK
			switch i {
			case 3:
				outcome = mcp.Failed
			case 4:
				outcome = event.ToolError // not a failed call
			}
			call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20260728, outcome, uint64(i+1))
		}
		call(p, "Cursor", "1", mcp.R20250618, "", mcp.Unknown, event.Refused, 11)
		p.Publish(event.Event{Kind: event.Call, Project: "shop", Method: "tools/call", Server: "orders", Outcome: event.OK, Call: 12, Client: &mcp.ClientInfo{Info: []byte(`{"name":"shopper"}`)}})
		p.Publish(event.Event{Kind: event.Loss, Project: "shop", Server: "orders", Name: "image"})
		s := tr.sums(time.Now(), nil)
		c := s.Clients[0]
		if len(s.Clients) != 1 || c.Title() != "Cursor 1" || c.Transport() != "HTTP" || c.Calls != 11 || c.Failed != 2 || c.Through != 10 || c.All != 11 || c.Servers[0] != (nameCount{"files", 10}) {
			t.Errorf("%+v", c)
		}
		if len(s.Servers) != 1 || len(s.Losses) != 0 {
			t.Errorf("something of another project is shown: %+v %+v", s.Servers, s.Losses)
		}
		if n := s.Servers["files"]; n.Calls != 10 || n.Failed != 1 {
			t.Errorf("%+v", n)
		}
		if n := s.Lanes[0][1]; n.Through != 10 || n.Failed != 1 || s.Lanes[0][0].Through+s.Lanes[1][0].Through+s.Lanes[1][1].Through != 0 {
			t.Errorf("%+v", s.Lanes)
		}
		if m := s.Hour[len(s.Hour)-1]; m.translated != 10 || m.relayed != 0 || m.other != 1 || m.failed != 2 || m.p95(1) < 40*time.Millisecond || m.p95(1) > 54*time.Millisecond || m.p95(0) != 0 {
			t.Errorf("%+v %v", m, m.p95(1))
		}
		time.Sleep(65 * time.Second)
		s = tr.sums(time.Now(), nil)
		if s.Clients[0].Calls != 0 || s.Clients[0].All != 11 || s.Servers["files"].Calls != 0 || s.Lanes[0][1].Calls != 0 {
			t.Errorf("after a minute: %+v %+v", s.Clients[0], s.Lanes)
		}
		time.Sleep(time.Hour)
		s = tr.sums(time.Now(), nil)
		for _, m := range s.Hour {
			if m.translated+m.failed != 0 {
				t.Errorf("after an hour: %+v", m)
			}
		}
		if len(present(s)) != 0 {
			t.Error("a client without calls is present")
		}
	})
}

// TestCancelledCalls checks that a cancelled call does not count as failed, and that the end of a
// subscription does not count in any rate.
func TestCancelledCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, p := newTraffic(), &event.Publisher{}
		defer tr.tap(p, func() {})()
		for i := range 3 {
			call(p, "Cursor", "1", mcp.R20260728, "files", mcp.R20260728, event.OK, uint64(i+1))
		}
		call(p, "Cursor", "1", mcp.R20260728, "files", mcp.R20260728, event.Cancelled, 4)
		for i, outcome := range []mcp.Outcome{event.Cancelled, event.OK} {
			p.Publish(event.Event{
				Kind: event.Call, Method: mcp.MethodListen, Server: "files", From: mcp.R20260728, To: mcp.R20260728, Outcome: outcome, Took: time.Hour, Call: uint64(i + 5),
				Client: &mcp.ClientInfo{Revision: mcp.R20260728, Info: []byte(`{"name":"Cursor","version":"1"}`), Remote: "127.0.0.1"},
			})
		}
		s := tr.sums(time.Now(), nil)
		if c := s.Clients[0]; c.Calls != 4 || c.Failed != 0 || c.All != 6 || c.Bad != 0 || c.Word() != "working" {
			t.Errorf("%+v", c)
		}
		if n := s.Servers["files"]; n.Calls != 4 || n.Failed != 0 || n.All != 6 || n.Bad != 0 {
			t.Errorf("%+v", n)
		}
		if n := s.Lanes[1][1]; n.Through != 4 || n.Failed != 0 {
			t.Errorf("%+v", s.Lanes)
		}
		if m := s.Hour[len(s.Hour)-1]; m.relayed != 4 || m.other != 0 || m.failed != 0 || m.p95(0) > time.Second {
			t.Errorf("%+v %v", m, m.p95(0))
		}
		if text := subtitle(&admin.Report{}, s); !strings.Contains(text, "Error rate in the last hour: 0% (0 of 4 calls).") {
			t.Error(text)
		}
		// A subscription that Dragoman refuses is a failed call.
		p.Publish(event.Event{Kind: event.Call, Method: mcp.MethodListen, Server: "files", From: mcp.R20260728, Outcome: mcp.Failed, Call: 7})
		if n := tr.sums(time.Now(), nil).Servers["files"]; n.Failed != 1 || n.Bad != 1 {
			t.Errorf("a failed subscription: %+v", n)
		}
	})
}

// TestSteps checks that the page of events shows a step as running only until the handshake or the
// end of the step, and that it shows why a server ended.
func TestSteps(t *testing.T) {
	t.Parallel()
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	class := func() string {
		found := tr.newest(func(e *keptEvent) bool { return e.Kind == event.Lifecycle })
		return rowOf(&found[0]).Class
	}
	start := event.Event{Kind: event.Lifecycle, Server: "files", Detail: "starting node"}
	for _, end := range []event.Event{{Kind: event.Lifecycle, Server: "files"}, {Kind: event.Handshake, Server: "files", Outcome: event.OK, To: mcp.R20251125}} {
		p.Publish(start)
		if class() != "busy" {
			t.Error("a step that runs is not shown as running")
		}
		p.Publish(end)
		if class() != "idle" {
			t.Errorf("after %v the step still runs", end.Kind)
		}
	}
	p.Publish(event.Event{Kind: event.Lifecycle, Server: "files", Outcome: mcp.Failed, Detail: `server "files" was killed`})
	if found := tr.newest(func(*keptEvent) bool { return true }); class() != "bad" || len(found) != 4 {
		t.Errorf("%s, %+v", class(), found)
	}
}

// TestOpenings checks that the page of events distinguishes a handshake with a client from a
// handshake with a server, whether or not the peer has a name.
func TestOpenings(t *testing.T) {
	t.Parallel()
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	for want, e := range map[string]event.Event{
		"unnamed: Dragoman refused initialize.":            {Method: "initialize", Name: "unnamed", Outcome: event.UnsupportedVersion, Opening: &event.Opening{Client: "unnamed"}},
		": Dragoman refused server/discover.":              {Method: "server/discover", Outcome: event.Malformed, Opening: &event.Opening{}},
		": initialize: the server has exited":              {Outcome: mcp.Failed, Detail: "     1 ms  initialize -> the server has exited\n"},
		"files: initialize: the server uses another thing": {Server: "files", Outcome: mcp.Failed, Detail: "     1 ms  initialize -> the server uses another thing\n"},
	} {
		e.Kind = event.Handshake
		p.Publish(e)
		found := tr.newest(func(*keptEvent) bool { return true })
		row := rowOf(&found[0])
		if got := row.What + row.Server + ": " + row.Detail; got != want || row.Class != "bad" {
			t.Errorf("%s %q, want %q", row.Class, got, want)
		}
	}
}

// TestClientSentence checks the heading of the overview. The heading counts the connected clients by the
// states that the page of clients shows.
func TestClientSentence(t *testing.T) {
	t.Parallel()
	working, gone := clientSum{rate: rate{Calls: 3}}, clientSum{}
	idle := clientSum{Sessions: []runtime.ClientReport{{ClientReport: downstream.ClientReport{Session: true}}}}
	some, bad := clientSum{rate: rate{Calls: 3, Failed: 1}}, clientSum{rate: rate{Calls: 3, Failed: 3}}
	for want, clients := range map[string][]clientSum{
		"The client is working.":                                               {working},
		"The client is idle.":                                                  {gone, idle},
		"No client has called in the last minute.":                             {gone, gone},
		"Some calls of the client failed in the last minute.":                  {some},
		"All calls of the client failed in the last minute.":                   {bad},
		"Both clients are idle.":                                               {idle, idle},
		"Both clients had failing calls in the last minute.":                   {bad, some},
		"All three clients are working.":                                       {working, working, working},
		"Three clients are connected; one is idle.":                            {working, gone, idle, working},
		"Two clients are connected; one had failing calls.":                    {working, bad},
		"Four clients are connected; one is idle and two had failing calls.":   {idle, working, bad, some},
		"Three clients are connected; two are idle and one had failing calls.": {idle, idle, bad},
	} {
		if got := clientSentence(clients); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// TestNamesWithSecrets checks that the console masks a secret in the name of a client, and cuts a
// long name.
func TestNamesWithSecrets(t *testing.T) {
	t.Parallel()
	tr := newTraffic()
	long := strings.Repeat("x", 1<<20)
	got := tr.nameLocked([]byte(`{"name":"Bearer abcdefghijk123","version":"ghp_0123456789abcdefghijABCDEFGHIJ"}`))
	if got != (named{"Bearer ***", "***"}) {
		t.Errorf("%+v", got)
	}
	if got := tr.nameLocked([]byte(`{"name":"` + long + `","version":"` + long + `"}`)); len(got.name) > 128 || len(got.version) > 64 || len(tr.infos) != 1 {
		t.Errorf("%d and %d bytes, %d descriptions are kept", len(got.name), len(got.version), len(tr.infos))
	}
}

// TestTrafficIsBounded checks that peers cannot fill the memory.
func TestTrafficIsBounded(t *testing.T) {
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	for i := range 3000 {
		p.Publish(event.Event{Kind: event.Loss, Server: "files", Name: fmt.Sprint("loss ", i), Detail: "x", Call: uint64(2*i + 1)})
		p.Publish(event.Event{Kind: event.Lifecycle, Server: fmt.Sprint("server ", i), Detail: "starting"})
		call(p, fmt.Sprint("client ", i), "1", mcp.R20250618, fmt.Sprint("server ", i), mcp.R20250618, event.OK, uint64(2*i))
	}
	if len(tr.clients) != mostClients || len(tr.servers) != mostServers || len(tr.losses) != mostLosses || len(tr.pending) > mostPending || len(tr.waiting) > mostPending ||
		len(tr.infos) > mostInfos || len(tr.events.kept) != mostEvents || len(tr.events.last) > mostServers+1 {
		t.Errorf("%d clients, %d servers, %d losses, %d %d pending, %d infos, %d events, %d %d", len(tr.clients), len(tr.servers), len(tr.losses), len(tr.pending), len(tr.waiting), len(tr.infos), len(tr.events.kept), len(tr.events.last), mostServers)
	}
	s := tr.sums(time.Now(), nil)
	seen := map[int]bool{}
	for _, c := range s.Clients {
		if seen[c.Number] {
			t.Errorf("two clients have the number %d", c.Number)
		}
		seen[c.Number] = true
	}
	if s.Calls != 3000 || s.Lost != 3000 {
		t.Errorf("%d calls, %d losses", s.Calls, s.Lost)
	}
}

// TestLossOfLongCall checks that a loss of a long call is counted for the call's client, although many
// other calls with losses have ended since the loss.
func TestLossOfLongCall(t *testing.T) {
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	lose := func(name string, call uint64) {
		p.Publish(event.Event{Kind: event.Loss, Server: "files", Name: name, Detail: "x", Call: call})
	}
	lose("long", 1)
	for i := range uint64(3 * mostPending) {
		lose("short", i+2)
		call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20250618, event.OK, i+2)
	}
	call(p, "Claude", "1", mcp.R20250618, "files", mcp.R20250618, event.OK, 1)
	if l := tr.losses[lossKey{"files", "tool", "long", "x"}]; l.clients["Claude"] != 1 {
		t.Errorf("%+v", l)
	}
	p.Publish(event.Event{Kind: event.Loss, Name: "schema", Detail: "x", Call: 1e6})
	p.Publish(event.Event{Kind: event.Call, Call: 1e6, Method: mcp.MethodListTools, Outcome: event.OK})
	if tr.losses[lossKey{"", mcp.MethodListTools, "schema", "x"}] == nil {
		t.Error("the loss does not name its list")
	}
	if len(tr.pending) != 0 || len(tr.waiting) != 0 {
		t.Errorf("%d calls with losses and %d calls waiting", len(tr.pending), len(tr.waiting))
	}
}

// TestConnected checks that the console shows a client with its transport before its first
// call.
func TestConnected(t *testing.T) {
	tr := newTraffic()
	now := time.Now()
	report := runtime.ClientReport{ClientReport: downstream.ClientReport{
		ID: "1", Revision: mcp.R20241105, Info: []byte(`{"name":"old","version":"0"}`), Transport: "sse", Remote: "127.0.0.1", Session: true, Since: now.Add(-3 * time.Hour), Last: now.Add(-2 * time.Hour),
	}}
	silent := runtime.ClientReport{ClientReport: downstream.ClientReport{ID: "2", Transport: "http", Session: true}}
	s := tr.sums(now, []runtime.ClientReport{report, silent})
	if len(s.Clients) != 1 || s.Clients[0].Title() != "old 0" || s.Clients[0].Transport() != "HTTP+SSE" || len(s.Clients[0].Sessions) != 1 || len(present(s)) != 1 || s.Clients[0].SessionCount() != "1" {
		t.Errorf("%+v", s.Clients)
	}
	modern := report
	modern.ID, modern.Revision, modern.Transport, modern.Session = "3", mcp.R20260728, "http", false
	if s := tr.sums(now, []runtime.ClientReport{modern}); len(s.Clients) != 2 || s.Clients[1].SessionCount() != "–" || s.Clients[0].SessionCount() != "0" {
		t.Errorf("a client without sessions: %+v", s.Clients)
	}
	delete(tr.clients, clientKey{"old", "0", mcp.R20260728, "HTTP"})
	if s := tr.sums(now, nil); len(present(s)) != 0 || len(s.Clients) != 1 || s.Clients[0].Transport() != "HTTP+SSE" {
		t.Errorf("after it has gone: %+v", s.Clients)
	}
}

// BenchmarkNote measures the cost of the console for each call.
func BenchmarkNote(b *testing.B) {
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	e := event.Event{
		Kind: event.Call, Method: "tools/call", Name: "tool", Server: "files", From: mcp.R20250618, To: mcp.R20250618, Outcome: event.OK, Took: time.Millisecond, Call: 1,
		Client: &mcp.ClientInfo{Revision: mcp.R20250618, Info: []byte(`{"name":"a client","version":"1.2.3"}`), Capabilities: []byte(`{}`), Remote: "127.0.0.1"},
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Publish(e)
	}
}

// BenchmarkNotes measures the same from many goroutines at a time.
func BenchmarkNotes(b *testing.B) {
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		e := event.Event{
			Kind: event.Call, Method: "tools/call", Name: "tool", Server: "files", From: mcp.R20250618, To: mcp.R20250618, Outcome: event.OK, Took: time.Millisecond,
			Client: &mcp.ClientInfo{Revision: mcp.R20250618, Info: []byte(`{"name":"a client","version":"1.2.3"}`), Capabilities: []byte(`{}`), Remote: "127.0.0.1"},
		}
		for pb.Next() {
			e.Call = p.NextCall()
			p.Publish(e)
		}
	})
}

// TestVeryManyConnected connects thousands of clients with different names. It checks that they
// do not replace a client that was active later, and that each page shows the same clients under
// the same numbers.
func TestVeryManyConnected(t *testing.T) {
	t.Parallel()
	tr, p := newTraffic(), &event.Publisher{}
	defer tr.tap(p, func() {})()
	call(p, "innocent", "1", mcp.R20250618, "files", mcp.R20250618, event.OK, 1)
	now := time.Now()
	var connected []runtime.ClientReport
	for i := range 5000 {
		connected = append(connected, runtime.ClientReport{ClientReport: downstream.ClientReport{
			Revision: mcp.R20250618, Info: fmt.Appendf(nil, `{"name":"flood %d"}`, i), Remote: "127.0.0.1", Session: true, Since: now, Last: now.Add(-time.Duration(i+1) * time.Minute),
		}})
	}
	first := tr.sums(now, connected)
	again := tr.sums(now, connected)
	if len(first.Clients) != mostClients || len(again.Clients) != mostClients {
		t.Fatalf("%d and %d clients", len(first.Clients), len(again.Clients))
	}
	found := false
	for i, c := range first.Clients {
		found = found || c.name == "innocent" && c.All == 1
		if x := again.Clients[i]; x.clientKey != c.clientKey || x.Number != c.Number {
			t.Fatalf("the client %s with the number %d became %s with the number %d", c.Title(), c.Number, x.Title(), x.Number)
		}
	}
	if !found {
		t.Error("the client that has made a call is missing")
	}
	if connected[0].Last != now.Add(-time.Minute) {
		t.Error("the list of the caller was changed")
	}
}

// TestDemoFailures checks that a failed call of the demo counts as a call, but as no failure: the demo
// fails on purpose. A failed call of another client of the same server counts.
func TestDemoFailures(t *testing.T) {
	t.Parallel()
	x, p := newTraffic("demo-legacy-client"), &event.Publisher{}
	defer x.tap(p, func() {})()
	call(p, "demo-legacy-client", "1", mcp.R20250618, "files", mcp.R20250618, mcp.Failed, 1)
	call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20250618, mcp.Failed, 2)
	s := x.sums(time.Now(), nil)
	failed := uint32(0)
	for _, m := range s.Hour {
		failed += m.failed
	}
	if len(s.Clients) != 2 || s.Clients[0].Class() != "ok" || s.Clients[1].Class() != "bad" || s.Servers["files"].rate.Failed != 1 || s.Servers["files"].Bad != 1 || s.Lanes[0][0].Failed != 1 || failed != 1 || s.Calls != 2 {
		t.Errorf("got %+v, %d failed calls in the last hour", s, failed)
	}
}

// TestLossNamesServerAndTool checks that the losses of a call name its server and its tool. The event of
// a loss in the answer to a client has neither; the event of the call has both.
func TestLossNamesServerAndTool(t *testing.T) {
	t.Parallel()
	x, p := newTraffic(), &event.Publisher{}
	defer x.tap(p, func() {})()
	lose := func(number uint64) {
		p.Publish(event.Event{Kind: event.Loss, Name: "structuredContent", Detail: "objects only", Call: number})
	}
	lose(1) // during the call
	call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20260728, event.OK, 1)
	call(p, "Cursor", "1", mcp.R20250618, "files", mcp.R20260728, event.OK, 2)
	lose(2) // in the answer to the client
	p.Publish(event.Event{Kind: event.Loss, Name: "ping", Detail: "outside of calls"})
	s := x.sums(time.Now(), nil)
	if len(s.Losses) != 2 || s.Losses[0].Server != "files" || s.Losses[0].Item != "tool" || s.Losses[0].Count != 2 || s.Losses[0].Clients[0] != (nameCount{"Cursor", 2}) || s.Losses[1].Server != "" || s.Lost != 3 || s.Clients[0].Lost != 2 {
		t.Errorf("got %+v", s.Losses)
	}
	found := x.newest(func(e *keptEvent) bool { return e.Kind == event.Loss && e.Call > 0 })
	if len(found) != 2 || found[0].Server != "files" || found[1].Item != "tool" {
		t.Errorf("got %+v", found)
	}
}

// TestRepeatedEvents checks that what repeats is one row with a count, at the place of its newest event.
func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	x, p := newTraffic(), &event.Publisher{}
	defer x.tap(p, func() {})()
	for i := range 3 {
		p.Publish(event.Event{Kind: event.Handshake, Server: "files", Outcome: mcp.Failed, Took: time.Duration(i), Detail: "1 ms  initialize -> an end"})
		p.Publish(event.Event{Kind: event.Refusal, Server: "files", Method: "ping", Detail: "x", Call: uint64(i)})
	}
	p.Publish(event.Event{Kind: event.Refusal, Server: "other", Method: "ping", Detail: "x"})
	rows := groupedEvents(x.newest(func(*keptEvent) bool { return true }))
	if len(rows) != 3 || rows[0].Server != "other" || rows[0].Count != 1 || rows[1].What != "ping" || rows[1].Count != 3 || rows[2].Count != 3 || rows[2].First.After(rows[2].Time) {
		t.Errorf("got %+v", rows)
	}
}
