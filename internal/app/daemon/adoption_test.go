//go:build unix

package daemon

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestTC10 kills one of three replicas under load. The ledger of the clients balances: each call has a result, an error,
// or ends with its connection. No session is refused, and no call runs twice.
func TestTC10(t *testing.T) {
	kills := 1
	if longTests() {
		kills = 50
	}
	c := newHerd(t, 3, nil, "")
	time.Sleep(6 * time.Second) // nobody buries others sooner
	stop := c.load(24)
	for i := range kills {
		time.Sleep(time.Second)
		p := c.all[0]
		p.signal(syscall.SIGKILL)
		p.ended()
		c.remove(p)
		c.add(c.start(fmt.Sprint("k", i)))
		time.Sleep(12 * time.Second)
	}
	b := stop()
	c.check(b)
	if b.slowest > patience(13*time.Second) || b.results < b.sent/2 {
		t.Errorf("the slowest call took %s, and %d of %d have a result", b.slowest, b.results, b.sent)
	}
}

// TestTC11 kills the replica of a call that waits for its client, at a server that has asked. Whoever gets the retry knows
// at once that the call is lost.
func TestTC11(t *testing.T) {
	c := newHerd(t, 3, nil, fleetServers(t))
	any := &fleet{t: t, all: []*rig{c.all[0].rig}}
	_, a := any.call("old__elicit", "{}")
	_, task := any.call("old__elicit", "{}")
	p := c.homeOf("/calls?outcome=parked&limit=1")
	c.remove(p)
	others := &fleet{t: t, all: []*rig{c.all[0].rig, c.all[1].rig}}
	if m, _ := others.retry(task, formFilled); !strings.Contains(toolText(m), "Ada") {
		t.Errorf("before: %s", m.Raw)
	}
	p.signal(syscall.SIGKILL)
	p.ended()
	for range others.all {
		began := time.Now()
		m, _ := others.retry(a, formFilled)
		if errorData(m, "cause") != "park_lost" || errorData(m, "outcome") != "unknown" || time.Since(began) > patience(time.Second) {
			t.Errorf("after %s: %s", time.Since(began), m.Raw)
		}
	}
}

// TestTC14 stops the replica of a call that waits for its client. It stays until the client has answered at another one.
func TestTC14(t *testing.T) {
	c := newHerd(t, 3, nil, fleetServers(t))
	any := &fleet{t: t, all: []*rig{c.all[0].rig}}
	_, a := any.call("old__elicit", "{}")
	p := c.homeOf("/calls?outcome=parked&limit=1")
	session := p.initialize("/mcp", "2025-06-18", "{}")
	p.signal(syscall.SIGTERM)
	c.unready(p)
	others := &fleet{t: t, all: []*rig{c.all[0].rig, c.all[1].rig}}
	wait := 4 * time.Second
	if longTests() {
		wait = 40 * time.Second
	}
	time.Sleep(wait)
	for range others.all {
		if a := others.next().post("/mcp", toolCall("2", "s__run", `{"token":"x"}`), "Mcp-Session-Id", session); a.status != 200 || toolText(a.message(t)) != "x" {
			t.Errorf("its session: %d %s", a.status, a.body)
		}
	}
	if m, _ := others.retry(a, formFilled); !strings.Contains(toolText(m), "Ada") {
		t.Errorf("the call that waits: %s", m.Raw)
	}
	p.ended()
	if p.err != nil {
		t.Errorf("the replica ended with %v", p.err)
	}
}

// TestTC33 checks that a process alone has ids as ever.
func TestTC33(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "child", "legacy")))
	if id := r.initialize("/mcp", "2025-11-25", "{}"); len(id) != 32 || strings.Contains(id, ".") {
		t.Errorf("the session is %q", id)
	}
}

// TestTC12 stops replicas under load, and another one comes each time (TC13). No call fails.
func TestTC12(t *testing.T) {
	rounds := 2
	if longTests() {
		rounds = 20
	}
	c := newHerd(t, 3, nil, "")
	stop := c.load(24)
	for i := range rounds {
		fresh := c.start(fmt.Sprint("n", i))
		c.add(fresh)
		time.Sleep(3 * time.Second)
		p := c.all[0]
		p.signal(syscall.SIGTERM)
		c.unready(p)
		p.ended()
		if p.err != nil {
			t.Errorf("a replica ended with %v", p.err)
		}
	}
	time.Sleep(time.Second)
	b := stop()
	c.check(b)
	if b.results != b.sent || b.slowest > patience(5*time.Second) {
		t.Errorf("%d of %d calls have a result, and the slowest took %s", b.results, b.sent, b.slowest)
	}
}

// TestTC15 stops a process for five seconds. Nobody takes it for dead, and nothing fails.
func TestTC15(t *testing.T) {
	if !longTests() {
		t.Skip("takes half a minute, and needs a machine that isn't busy; make cluster-test runs it")
	}
	c := newHerd(t, 3, nil, "")
	time.Sleep(6 * time.Second)
	stop := c.load(24)
	time.Sleep(time.Second)
	p := c.all[0]
	c.remove(p) // its own clients would only wait
	p.signal(syscall.SIGSTOP)
	time.Sleep(5 * time.Second)
	p.signal(syscall.SIGCONT)
	c.add(p)
	time.Sleep(2 * time.Second)
	b := stop()
	c.check(b)
	if b.results != b.sent {
		t.Errorf("%d of %d calls have a result", b.results, b.sent)
	}
	// After a longer time, others go on with what it had, and it doesn't serve that any more.
	stop = c.load(24)
	c.remove(p)
	p.signal(syscall.SIGSTOP)
	time.Sleep(25 * time.Second)
	p.signal(syscall.SIGCONT)
	c.add(p)
	time.Sleep(5 * time.Second)
	c.check(stop())
	if p.log.count("another replica has called this one dead") != 1 {
		t.Error("nobody has called it dead")
	}
}

// TestTC16 takes the database away from all replicas for a while. No call fails, and nobody dies.
func TestTC16(t *testing.T) {
	if !longTests() {
		t.Skip("takes minutes, and needs a machine that isn't busy; make cluster-test runs it")
	}
	away := []time.Duration{4 * time.Second, time.Minute}
	database, through := newRelay(t)
	c := newHerd(t, 3, through, "")
	time.Sleep(6 * time.Second)
	stop := c.load(24)
	for _, d := range away {
		database.cut(true)
		time.Sleep(d)
		database.cut(false)
		time.Sleep(6 * time.Second)
	}
	b := stop()
	c.check(b)
	if b.results != b.sent {
		t.Errorf("%d of %d calls have a result", b.results, b.sent)
	}
	for _, p := range c.all {
		if p.log.count("dead") > 0 {
			t.Error("a replica was called dead")
		}
	}
}

// TestTC21 uses ids that aren't somebody's own: all get the same answer, whether their replica lives or not.
func TestTC21(t *testing.T) {
	t.Parallel()
	f := newCluster(t, fleetServers(t))
	id := f.all[0].initialize("/mcp", "2025-11-25", "{}")
	gone := f.all[2].initialize("/mcp", "2025-11-25", "{}")
	if err := f.all[2].stop(); err != nil {
		t.Fatal(err)
	}
	f.all = f.all[:2]
	want := ""
	for _, own := range []string{id, gone} {
		mark, sealed, _ := strings.Cut(own, ".")
		for name, x := range map[string]string{
			"truncated": own[:len(own)-4], "short": mark + ".", "forged": mark + "." + strings.Repeat("A", len(sealed)),
			"changed": own[:len(own)-1] + map[bool]string{true: "A", false: "B"}[own[len(own)-1] != 'A'], "of another replica": "r9-ABCDEFGHIJ234." + sealed,
			"unmarked": sealed, "longer": own + "A",
		} {
			for range f.all {
				a := f.next().post("/mcp", toolCall("1", "new__add", "{}"), "Mcp-Session-Id", x)
				if want == "" {
					want = a.body
				}
				if a.status != 404 || a.body != want {
					t.Errorf("%s: %d %s", name, a.status, a.body)
				}
			}
		}
		// At another endpoint, an id is as good as made up.
		if a := f.next().post("/s/new/mcp", toolCall("1", "add", "{}"), "Mcp-Session-Id", own); a.status != 404 || a.body != want {
			t.Errorf("at another endpoint: %d %s", a.status, a.body)
		}
	}
	for range f.all {
		for _, own := range []string{id, gone} {
			if a := f.next().post("/mcp", toolCall("1", "new__add", `{"a":1,"b":2}`), "Mcp-Session-Id", own); a.status != 200 || toolText(a.message(t)) != "3" {
				t.Errorf("the client's own: %d %s", a.status, a.body)
			}
		}
	}
}

// TestInherits stops the replica of a session. Another one goes on with it: with the client's revision and its
// capabilities, what it has set, and its stream, on which it hears that all lists may have changed.
func TestInherits(t *testing.T) {
	t.Parallel()
	f := newCluster(t, fleetServers(t))
	first := f.all[2]
	id := first.initialize("/s/old/mcp", "2025-06-18", `{"elicitation":{}}`)
	session := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-06-18"}
	if a := first.post("/s/old/mcp", `{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}`, session...); a.code(t) != 0 {
		t.Fatal(a.body)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	f.all = f.all[:2]
	stream := f.next().open("GET", "/s/old/mcp", "", session...)
	got := map[string]int{}
	for range 3 {
		got[stream.event().Method]++
	}
	if len(got) != 3 || got[mcp.NoteToolsChanged] != 1 || got[mcp.NotePromptsChanged] != 1 || got[mcp.NoteResourcesChanged] != 1 {
		t.Errorf("the stream begins with %v", got)
	}
	if a := f.next().post("/s/old/mcp", toolCall("3", "add", `{"a":1,"b":2}`), "Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-03-26"); a.status != 400 {
		t.Errorf("another revision: %d %s", a.status, a.body)
	}
	for i := range 4 {
		if a := f.next().post("/s/old/mcp", toolCall(fmt.Sprint(10+i), "add", `{"a":1,"b":2}`), session...); a.status != 200 || toolText(a.message(t)) != "3" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	// The server asks the client, so the replica knows its capabilities.
	asking := f.next().open("POST", "/s/old/mcp", toolCall("20", "elicit", "{}"), session...)
	ask := asking.event()
	for ask != nil && ask.Method != mcp.MethodElicit {
		ask = asking.event()
	}
	if a := f.next().post("/s/old/mcp", `{"jsonrpc":"2.0","id":`+string(ask.ID)+`,"result":`+formFilled+`}`, session...); a.status != 202 {
		t.Errorf("an answer: %d %s", a.status, a.body)
	}
	if m := asking.event(); !strings.Contains(toolText(m), "Ada") {
		t.Errorf("the answer to an answer: %s", m.Raw)
	}
	if a := f.next().do(t.Context(), "DELETE", "/s/old/mcp", nil, session...); a.status/100 != 2 {
		t.Errorf("DELETE: %d %s", a.status, a.body)
	}
}
