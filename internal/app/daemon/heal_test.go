//go:build unix

package daemon

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestT15_OneSessionDiesInAFederation uses four servers behind one endpoint. One server loses its
// session, and another loses its process. Dragoman opens only these two again. The client keeps its
// session and sees all tools.
func TestT15_OneSessionDiesInAFederation(t *testing.T) {
	t.Parallel()
	pipe, newPipe := child(t, "pipe", "legacy"), child(t, "newpipe", "modern")
	web, other := newWeb(t, false), newWeb(t, false)
	r := serve(t, snapshot(pipe, newPipe, web.as(t, "web"), other.as(t, "other")))
	session := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-11-25", "{}")}
	opened := func() []int {
		return []int{pipe.count("start"), newPipe.count("start"), web.count("initialize"), other.count("initialize")}
	}
	want := func(what string, n ...int) {
		t.Helper()
		if got := opened(); !slices.Equal(got, n) {
			t.Errorf("%s: the servers were opened %v times, want %v", what, got, n)
		}
	}
	tools := func() []string {
		t.Helper()
		return namesOf(r.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, session...).message(t))
	}
	call := func(tool string) answer {
		t.Helper()
		return r.post("/mcp", toolCall("1", tool, `{"v":1}`), session...)
	}
	for _, server := range []string{"pipe", "newpipe", "web", "other"} {
		call(server+"__echo").wantText(t, `{"v":1}`)
	}
	all := tools()
	want("at first", 1, 1, 1, 1)

	call("web__count").wantText(t, "2")
	web.forget()
	call("web__count").wantText(t, "1")
	if n := web.count("call count"); n != 2 {
		t.Errorf("two calls ran %d times", n)
	}
	call("other__count").wantText(t, "2")
	want("after a lost session", 1, 1, 2, 1)

	call("pipe__crash").wantFault(t, "exited", "unknown")
	sameNames(t, tools(), all)
	call("pipe__echo").wantText(t, `{"v":1}`)
	call("web__count").wantText(t, "2")
	call("other__count").wantText(t, "3")
	call("newpipe__echo").wantText(t, `{"v":1}`)
	want("after a crash", 2, 1, 2, 1)
	sameNames(t, tools(), all)
}

// TestT16_ServersTokenRotates checks two kinds of rotating tokens. First, a client changes the
// token that it sends. Clients do not authenticate here, so this token does not identify the
// client. The session with the server stays the same. Second, a reload changes the credential of a
// server. Dragoman cannot know whether the new credential belongs to the same user, so it opens a
// new session with the server. The client's session continues. A running call also continues, in
// the old session with the server.
//
// The T16 test in package gateway checks clients that authenticate: a session continues when the
// same principal changes its token.
func TestT16_ServersTokenRotates(t *testing.T) {
	const variable = "DAEMON_TEST_TOKEN"
	t.Setenv(variable, "one")
	web, kept := newWeb(t, false), child(t, "kept", "legacy")
	web.takes("one")
	config := text(kept) + fmt.Sprintf("  web: {url: %q, headers: {Authorization: \"Bearer ${%s}\"}}\n", web.web.URL+"/mcp", variable)
	w := serveFile(t, config)
	session := []string{"Mcp-Session-Id", w.initialize("/mcp", "2025-11-25", "{}")}
	count := func(token string) string {
		t.Helper()
		return toolText(w.post("/mcp", toolCall("1", "web__count", "{}"), append([]string{"Authorization", "Bearer " + token}, session...)...).message(t))
	}
	for i, token := range []string{"a", "b", "b"} {
		if got := count(token); got != fmt.Sprint(i+1) {
			t.Errorf("call %d with the client's token %s: the server's session counts %s", i, token, got)
		}
	}
	if n := web.count("initialize"); n != 1 {
		t.Errorf("the server was opened %d times", n)
	}
	running := w.open("POST", "/mcp", strings.Replace(toolCall(`"running"`, "web__work", "{}"), `"arguments"`, `"_meta":{"progressToken":1},"arguments"`, 1), session...)
	if m := running.event(); m == nil || m.Method != mcp.NoteProgress {
		t.Fatalf("got %v", m)
	}

	web.takes("") // both tokens are valid during the rotation
	t.Setenv(variable, "two")
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.waitLog(t, "configuration applied", 1)
	for i := range 2 {
		if got := count("c"); got != fmt.Sprint(i+1) {
			t.Errorf("call %d after the reload: the server's session counts %s", i, got)
		}
	}
	all := web.of(mcp.MethodCallTool)
	if got := all[len(all)-1].header.Get("Authorization"); got != "Bearer two" {
		t.Errorf("the server got %s", got)
	}
	// The reload has not ended the running call, so the client can cancel it.
	w.post("/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"running"}}`, session...)
	await(t, "the cancellation", 20*time.Second, func() bool { return web.count("cancelled") == 1 })
	if calls, ends := web.entries("call work"), web.entries("cancelled"); ends[0] != calls[0] {
		t.Errorf("the server got the calls %q and the cancellations %q", calls, ends)
	}
	await(t, "the old session is ended", 20*time.Second, func() bool { return web.count("delete session-1") == 1 })
	web.takes("two")
	if got := count("d"); got != "3" {
		t.Errorf("when only the new token is valid: the server's session counts %s", got)
	}
	if n := len(kept.pids(t)); n > 1 {
		t.Errorf("the other server was started %d times", n)
	}
	if strings.Contains(w.log.String(), "Bearer one") || strings.Contains(w.log.String(), "Bearer two") {
		t.Error("a credential is in the log")
	}
}

// TestT18_PagesOnBothEdges uses servers of both eras that list their tools in pages of a hundred.
// Clients of both eras read the merged list in Dragoman's own pages. After a client has read the
// first page, the test adds one server and removes another. The client still gets all tools of the
// server that stays, in order.
func TestT18_PagesOnBothEdges(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			many, gone, came := child(t, "many", era+":1234"), child(t, "gone", "legacy:3"), child(t, "came", "modern:120")
			w := serveFile(t, text(many, gone))
			session := []string{"Mcp-Session-Id", w.initialize("/mcp", "2025-11-25", "{}")}
			clients := map[string]func(path, params string) *jsonrpc.Message{
				"modern": func(path, params string) *jsonrpc.Message {
					return w.modern(path, "1", "tools/list", "", params).message(t)
				},
				"legacy": func(path, params string) *jsonrpc.Message {
					return w.post(path, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+params+`}}`, session...).message(t)
				},
			}
			names := func(u *upstreamUnderTest, n int) (all []string) {
				for i := range n {
					all = append(all, fmt.Sprintf("%s__t%04d", u.Name, i))
				}
				return all
			}
			whole := func(params string) *jsonrpc.Message { return clients["modern"]("/mcp", params) }
			await(t, "all is listed", 20*time.Second, func() bool { return len(walk(t, whole)) == 1237 })
			first := map[string]*jsonrpc.Message{}
			for who, page := range clients {
				sameNames(t, walk(t, func(params string) *jsonrpc.Message { return page("/mcp", params) }), append(names(many, 1234), names(gone, 3)...))
				first[who] = page("/mcp", "")
			}
			w.write(t, text(came, many))
			w.waitLog(t, "configuration applied", 1)
			await(t, "all is listed", 20*time.Second, func() bool { return len(walk(t, whole)) == 1354 })
			for who, page := range clients {
				m := first[who]
				got := append(namesOf(m), walk(t, func(params string) *jsonrpc.Message {
					if params == "" {
						params = `"cursor":` + string(m.ResultMember("nextCursor").Of(m.Raw))
					}
					return page("/mcp", params)
				})...)
				if !slices.Equal(got, names(many, 1234)) {
					t.Errorf("%s: %d names, from %s to %s", who, len(got), got[0], got[len(got)-1])
				}
				sameNames(t, walk(t, func(params string) *jsonrpc.Message { return page("/mcp", params) }), append(names(came, 120), names(many, 1234)...))
			}
			// The endpoint of one server passes the server's own pages and cursors to the client.
			pages := 0
			single := walk(t, func(params string) *jsonrpc.Message {
				pages++
				return clients["modern"]("/s/many/mcp", params)
			})
			if len(single) != 1234 || pages != 13 {
				t.Errorf("%d tools on %d pages", len(single), pages)
			}
			w.call("/mcp", "many__t1233", "{}").wantText(t, "t1233")
			w.call("/mcp", "came__t0119", "{}").wantText(t, "t0119")
		})
	}
}
