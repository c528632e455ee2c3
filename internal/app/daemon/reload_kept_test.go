//go:build unix

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// keptKinds are kinds of configuration changes. sessions says whether the servers keep their
// sessions. open says whether the streams of clients at a server's own endpoint stay open.
var keptKinds = []struct {
	name           string
	sessions, open bool
	before, after  func(r *reloading) string
}{
	{"a comment", true, true, nil, func(r *reloading) string { return r.text("", "old", "new") + "# more\n" }},
	{"order", true, true, nil, func(r *reloading) string { return r.text("", "new", "old") }},
	{"a server more", true, true, nil, func(r *reloading) string { return r.text("", "old", "new", "extra") }},
	{"timeouts", true, true, nil, func(r *reloading) string { return r.with("{callTimeout: 50s}", "old", "new") }},
	{"settings", false, false, nil, func(r *reloading) string { return r.text(`, headers: {X-Version: "2"}`, "old", "new") }},
	{"fewer items are shown", true, false, nil, shownBut("nothing")},
	{"the same items are shown", true, true, shownBut("nothing"), func(r *reloading) string { return shownBut("nothing")(r) + "# more\n" }},
	{"a server more, and the same items are shown", true, true, shownBut("nothing"), func(r *reloading) string {
		return strings.Replace(shownBut("nothing")(r), "mcpServers:\n", fmt.Sprintf("mcpServers:\n  extra: {url: %q}\n", r.urls["extra"]), 1)
	}},
	{"more items are shown", true, false, shownBut("nothing"), func(r *reloading) string { return r.text("", "old", "new") }},
}

func shownBut(tool string) func(r *reloading) string {
	return func(r *reloading) string { return r.with("{expose: {tools: {deny: ["+tool+"]}}}", "old", "new") }
}

// TestReloadKeeps checks what a configuration change keeps. If a change does not concern a server,
// the server keeps its sessions, a listen at the server's own endpoint continues, and legacy
// clients there get no list_changed. If the change replaces the endpoint, legacy clients get
// list_changed for all lists, and a listen gets it for those that it has asked for, and continues.
// In both cases, clients still get updates of the resources to which they have subscribed, at this
// endpoint and at the merged endpoint. A client without subscriptions gets no update.
func TestReloadKeeps(t *testing.T) {
	t.Parallel()
	for _, kind := range keptKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := serveReloading(t)
			changes := 0
			settle := func() {
				t.Helper()
				// Wait until Dragoman has read the lists, because a change would cancel a list
				// request that is still running.
				await(t, "the lists of both servers are read", 20*time.Second, func() bool {
					a := r.modern("/mcp", "1", "tools/list", "", "")
					return strings.Contains(a.body, "old__elicit") && strings.Contains(a.body, "new__elicit") && r.quiet()
				})
			}
			change := func(text string) {
				t.Helper()
				r.write(t, text)
				changes++
				await(t, "the change is read", 10*time.Second, func() bool {
					log := r.log.String()
					return strings.Count(log, "configuration applied")+strings.Count(log, "configuration is unchanged") >= changes
				})
			}
			settle()
			if kind.before != nil {
				change(kind.before(r))
				settle()
			}
			var all []*keptEndpoint
			for _, name := range []string{"old", "new"} {
				all = append(all, r.keptEndpoint(t, name))
			}
			joined := r.subscribed(t, "/mcp")
			merged := r.listening(t, "/mcp", `{"toolsListChanged":true}`)
			r.touch(t, "/s/old/mcp", "fake://text", joined)
			idle := r.open("GET", "/mcp", "", "Mcp-Session-Id", r.initialize("/mcp", "2025-11-25", "{}"), "MCP-Protocol-Version", "2025-11-25")
			change(kind.after(r))
			r.touch(t, "/s/old/mcp", "fake://text", joined)
			for len(idle.next) > 0 {
				if m := idle.event(); m == nil || m.Method == mcp.NoteResourceUpdated {
					t.Errorf("a client without subscriptions got %v", m)
				}
			}
			if !kind.open || kind.name == "a server more" {
				wantListTold(t, "the merged endpoint", merged)
			}
			for _, e := range all {
				if kind.open {
					if told := r.touch(t, e.path, "fake://blob", e.events, e.listen); len(told) > 0 {
						t.Errorf("%s: the clients got %v", e.name, told)
					}
				} else {
					e.wantReplaced(t)
					r.touch(t, e.path, "fake://blob", e.events, e.listen)
					r.touch(t, e.path, "fake://text", e.events, e.listen)
				}
				r.call(e.path, "echo", "{}")
				if after := r.sessionsOf(t, e.name); kind.sessions != slices.Contains(after, e.sessions[0]) {
					t.Errorf("%s: the sessions changed from %v to %v", e.name, e.sessions, after)
				}
			}
			settle()
		})
	}
}

// keptEndpoint is the endpoint of one server, with the open streams of a legacy client (events) and
// of a modern client (listen).
type keptEndpoint struct {
	name, path     string
	events, listen *stream
	sessions       []string // Dragoman's sessions with the server
}

func (r *reloading) keptEndpoint(t *testing.T, name string) *keptEndpoint {
	t.Helper()
	e := &keptEndpoint{name: name, path: "/s/" + name + "/mcp"}
	e.events = r.subscribed(t, e.path)
	e.listen = r.listening(t, e.path, `{"toolsListChanged":true,"resourceSubscriptions":["fake://text","fake://blob"]}`)
	r.touch(t, e.path, "fake://text", e.events, e.listen)
	e.sessions = r.sessionsOf(t, name)
	return e
}

// listening opens a listen as a modern client, and reads its acknowledgement.
func (r *reloading) listening(t *testing.T, path, filter string) *stream {
	t.Helper()
	s := r.open("POST", path, modernBody(`"l"`, mcp.MethodListen, `"notifications":`+filter), modernHeader(mcp.MethodListen, "")...)
	if m := s.event(); m == nil || m.Method != mcp.NoteAcknowledged {
		t.Fatalf("the first message of the listen is %v", m)
	}
	return s
}

// wantListTold fails the test unless the client of a listen for the tools hears that they may be others, and of
// no other list. The listen goes on.
func wantListTold(t *testing.T, name string, listen *stream) {
	t.Helper()
	for m := listen.event(); m == nil || m.Method != mcp.NoteToolsChanged; m = listen.event() {
		if m == nil || m.Method != mcp.NoteResourceUpdated {
			t.Fatalf("%s: the listen got %v", name, m)
		}
	}
}

// subscribed opens a session as a legacy client, subscribes to two resources, and returns the
// standing stream of the session.
func (r *reloading) subscribed(t *testing.T, path string) *stream {
	t.Helper()
	in := []string{"Mcp-Session-Id", r.initialize(path, "2025-11-25", "{}"), "MCP-Protocol-Version", "2025-11-25"}
	for _, uri := range []string{"fake://text", "fake://blob"} {
		if a := r.post(path, `{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`, in...); a.code(t) != 0 {
			t.Fatalf("%s: %s", uri, a.body)
		}
	}
	return r.open("GET", path, "", in...)
}

// wantReplaced fails the test unless the clients get the messages that say that the endpoint was
// replaced.
func (e *keptEndpoint) wantReplaced(t *testing.T) {
	t.Helper()
	wantListTold(t, e.name, e.listen)
	told := map[string]bool{}
	for len(told) < 3 {
		m := e.events.event()
		if m != nil && m.Method == mcp.NoteResourceUpdated {
			continue // the resource was updated more than once
		}
		if m == nil || !strings.HasSuffix(m.Method, "/list_changed") {
			t.Fatalf("%s: after %v the client got %v", e.name, told, m)
		}
		told[m.Method] = true
	}
}

// quiet reports whether no request is running at any server.
func (r *reloading) quiet() bool {
	status, _ := r.status()
	for _, server := range status.Servers {
		for _, s := range server.Sessions {
			if s.Running > 0 {
				return false
			}
		}
	}
	return true
}

// touch makes the server send updates of a resource until each stream has got an update. It returns
// the methods of the other notifications that arrived on the streams.
func (r *reloading) touch(t *testing.T, path, uri string, streams ...*stream) (others []string) {
	t.Helper()
	heard := map[*stream]bool{}
	await(t, "the update is heard", 20*time.Second, func() bool {
		r.call(path, "touch", `{"uri":"`+uri+`"}`)
		for _, s := range streams {
			for len(s.next) > 0 {
				switch m := s.event(); {
				case m == nil, m.Kind != jsonrpc.Notification:
					t.Fatalf("a stream has ended with %v", m)
				case m.Method != mcp.NoteResourceUpdated:
					others = append(others, m.Method)
				case strings.Contains(string(m.Raw), uri):
					heard[s] = true
				}
			}
		}
		return len(heard) == len(streams)
	})
	return others
}

// sessionsOf returns the start times of Dragoman's sessions with a server. The test uses them as
// names of the sessions.
func (r *reloading) sessionsOf(t *testing.T, name string) (all []string) {
	t.Helper()
	status, _ := r.status()
	for _, s := range serverIn(t, status, name).Sessions {
		all = append(all, fmt.Sprint(s.Opened))
	}
	if len(all) == 0 {
		t.Fatalf("%s has no session", name)
	}
	return all
}
