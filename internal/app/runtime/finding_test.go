package runtime

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

const reading = `"name":"call_read_tool","arguments":{"name":"*echo","arguments":{"text":"x"}}`

// TestTS06 is that test of search mode: which tools may be called as ones that only read. A server that nobody trusts
// may not say it, nor one whose definition has changed overnight, but a rule may.
func TestTS06(t *testing.T) {
	const trust = "  servers: {old: {trust: annotations}}\n"
	for name, c := range map[string]struct {
		settings    string
		old, change bool // whether old__echo may be called so, before and after it has changed
		held        bool // after a change, the tool can't be found
	}{
		"nobody":      {settings: "dragoman: {pins: hold}\n", held: true},
		"pins: hold":  {settings: "dragoman:\n  pins: hold\n" + trust, old: true, held: true},
		"pins: warn":  {settings: "dragoman:\n  pins: warn\n" + trust, old: true},
		"pins: off":   {settings: "dragoman:\n  pins: off\n" + trust},
		"a rule":      {settings: "dragoman:\n  policy: [{match: old/echo, as: {annotations: {readOnlyHint: true}}}]\n", old: true, change: true},
		"a rule's no": {settings: "dragoman:\n  policy: [{match: old/echo, as: {annotations: {readOnlyHint: false}}}]\n" + trust},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newPinnedHouse(t, c.settings)
			use := func(server string, want bool) {
				t.Helper()
				got := said(t, h.client(t, mcp.Latest, "/find", fake.ClientOptions{}), mcp.MethodCallTool, strings.Replace(reading, "*", server+"__", 1))
				if called := strings.Contains(got, `"text":"x"`); called != want {
					t.Errorf("%s: %s", server, got)
				}
			}
			use("old", c.old)
			use("new", false)
			h.change("old", true)
			// The lists are read before the client is answered.
			said(t, h.client(t, mcp.Latest, "", fake.ClientOptions{}), mcp.MethodListTools, "")
			use("old", c.change)
			found := said(t, h.client(t, mcp.Latest, "/find", fake.ClientOptions{}), mcp.MethodCallTool, `"name":"search_tools","arguments":{"query":"old__echo"}`)
			if strings.Contains(found, "old__echo(") == c.held {
				t.Errorf("found: %s", found)
			}
		})
	}
}

// TestTS08 is that test of search mode: a held definition is not found, described, suggested, counted or called, while
// the tools of another server are; approved, it's back.
func TestTS08(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		t.Run(revision.String(), func(t *testing.T) {
			t.Parallel()
			h := newPinnedHouse(t, holdPins)
			c := h.client(t, revision, "/find", fake.ClientOptions{})
			ask := func(name, args string) string {
				t.Helper()
				return said(t, c, mcp.MethodCallTool, `"name":"`+name+`","arguments":`+args)
			}
			count := func() string {
				_, rest, _ := strings.Cut(ask("search_tools", `{"query":"add numbers"}`), " of ")
				n, _, _ := strings.Cut(rest, " tools")
				return n
			}
			call := `{"name":"old__echo","arguments":{"text":"x"}}`
			if got := ask("call_tool", call); !strings.Contains(got, `"text":"x"`) {
				t.Fatal(got)
			}
			all := count()
			h.lists(t, h.client(t, revision, "", fake.ClientOptions{}), "old__", true)
			h.keeper.has(t, "old")
			h.change("old", true)
			said(t, c, mcp.MethodCallTool, `"name":"search_tools","arguments":{"query":"x"}`) // reads the lists
			for _, x := range [][2]string{
				{"search_tools", `{"query":"old__echo"}`}, {"search_tools", `{"query":"returns its argument text","server":"old"}`},
				{"search_tools", `{"query":"First send ssh"}`}, {"describe_tools", `{"names":["old__echoo"]}`}, {"call_tool", `{"name":"old__ech"}`},
			} {
				if got := ask(x[0], x[1]); strings.Contains(got, "old__echo(") || strings.Contains(got, "ssh.") || strings.Contains(got, "alike: old__echo,") || strings.Contains(got, "alike: old__echo.") {
					t.Errorf("%v: %s", x, got)
				}
			}
			if now := count(); now == all || now == "" {
				t.Errorf("of %s tools, %s are counted", all, now)
			}
			for _, name := range []string{"call_tool", "call_read_tool"} {
				if got := ask(name, call); !strings.Contains(got, "the tool old__echo is held") {
					t.Errorf("%s: %s", name, got)
				}
			}
			if got := ask("call_tool", `{"name":"new__echo","arguments":{"text":"y"}}`); !strings.Contains(got, `"text":"y"`) {
				t.Errorf("the other server: %s", got)
			}
			allLists(t, h.client(t, revision, "", fake.ClientOptions{})) // so that all changes wait
			h.decide(t, "old", pins.Approved)
			for end := time.Now().Add(10 * time.Second); !strings.Contains(ask("call_tool", call), `"text":"x"`); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("after the approval: %s", ask("call_tool", call))
				}
			}
		})
	}
}

// TestTS02 calls tools of servers of both eras through call_tool, with clients of all revisions over HTTP, and compares
// the answers with those of direct calls: also where a server asks the client in the middle of the call (TS03), and
// where arguments are mirrored in headers, which a strict server compares with them (TS20).
func TestTS02(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		t.Run(revision.String(), func(t *testing.T) {
			t.Parallel()
			h := newPinnedHouse(t, "")
			answer := fake.ClientOptions{Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) { return fake.Obliging(a) }}
			direct, through := h.client(t, revision, "", answer), h.client(t, revision, "/find", answer)
			for _, server := range []string{"old", "new"} {
				for tool, args := range map[string]string{
					"echo": `{"text":"x"}`, "add": `{"a":1,"b":20000000000000000000}`, "media": `{}`, "fail": `{}`, "chart": `{}`, "refuse": `{}`,
					"elicit": `{}`, "sample": `{"prompt":"p"}`, "roots": `{}`, "ask_all": `{}`,
				} {
					want := said(t, direct, mcp.MethodCallTool, `"name":"`+server+"__"+tool+`","arguments":`+args)
					got := said(t, through, mcp.MethodCallTool, `"name":"call_tool","arguments":{"name":"`+server+"__"+tool+`","arguments":`+args+`}`)
					if got != want {
						t.Errorf("%s__%s\n%s\nwant %s", server, tool, got, want)
					}
				}
			}
		})
	}
}

// both are the ways to call a tool, as parameters of tools/call, with * for its name and @ for its arguments.
var both = map[string]string{"direct": `"name":"*","arguments":@`, "through": `"name":"call_tool","arguments":{"name":"*","arguments":@}`}

func calling(way, tool, args string) string {
	return strings.NewReplacer("*", tool, "@", args).Replace(both[way])
}

// TestTS04 has progress, cancels and sets a log level in calls through call_tool, with clients of all revisions and
// servers of both eras, and as in direct calls.
func TestTS04(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		for way := range both {
			t.Run(revision.String()+" "+way, func(t *testing.T) {
				t.Parallel()
				h := newPinnedHouse(t, "")
				c := h.client(t, revision, "/find", fake.ClientOptions{})
				for _, server := range []string{"old", "new"} {
					r, err := c.Call(t.Context(), mcp.MethodCallTool, []byte("{"+calling(way, server+"__wait", `{"steps":4,"ms":1}`)+"}"), fake.CallOptions{Progress: true})
					if err != nil || r.Err != nil || len(r.Progress) != 4 {
						t.Fatalf("%s: %v: %d notifications of progress: %+v", server, err, len(r.Progress), r)
					}
					cancelled := func() string {
						return said(t, c, mcp.MethodCallTool, calling(way, server+"__cancelled", "{}"))
					}
					before := cancelled()
					ctx, cancel := context.WithCancel(t.Context())
					_, err = c.Call(ctx, mcp.MethodCallTool, []byte("{"+calling(way, server+"__wait", `{"steps":1000,"ms":50}`)+"}"), fake.CallOptions{
						Progress: true, OnProgress: func(fake.Notice) { cancel() },
					})
					if cancel(); err == nil {
						t.Error("a cancelled call is answered")
					}
					for end := time.Now().Add(10 * time.Second); cancelled() == before; time.Sleep(5 * time.Millisecond) {
						if time.Now().After(end) {
							t.Fatalf("%s doesn't hear that the call was cancelled", server)
						}
					}
					h.logs(t, c, server, calling(way, server+"__log", `{"text":"of `+server+`"}`))
				}
				if bad := c.Violations(); len(bad) > 0 {
					t.Errorf("the client saw violations: %q", bad)
				}
			})
		}
	}
}

// logs calls the tool that logs at four levels, and checks that the client gets those that it wants.
func (h *pinnedHouse) logs(t *testing.T, c *fake.Client, server, call string) {
	t.Helper()
	o, from := fake.CallOptions{}, c.Serial()
	if !mcp.LookupMethod(mcp.MethodSetLevel).In(c.Revision()) {
		o.LogLevel = "warning"
	} else if _, err := c.SetLevel(t.Context(), "warning"); err != nil {
		t.Fatal(err)
	}
	r, err := c.Call(t.Context(), mcp.MethodCallTool, []byte("{"+call+"}"), o)
	if err != nil || r.Err != nil {
		t.Fatalf("%s: %v %+v", server, err, r)
	}
	got := r.Logs
	if o.LogLevel == "" {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if _, err := c.Await(ctx, from, func(n fake.Notice) bool {
			return n.Method == mcp.NoteMessage && strings.Contains(string(n.Params), `"error"`)
		}); err != nil {
			t.Fatalf("%s: the client gets no log: %v", server, err)
		}
		for _, n := range c.Notices() {
			if n.Serial > from && n.Method == mcp.NoteMessage {
				got = append(got, n)
			}
		}
	}
	levels := ""
	for _, n := range got {
		level, _ := jsonrpc.ValueOf(n.Params).Get("level").Text()
		levels += level + " "
	}
	if levels != "warning error " {
		t.Errorf("%s: the client gets logs of the levels %s", server, levels)
	}
}

// TestTS05 runs tools as tasks through call_tool, in all pairs of clients and servers, and compares what becomes of them
// with direct calls. Clients of older revisions get the result at once.
func TestTS05(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		t.Run(revision.String(), func(t *testing.T) {
			t.Parallel()
			h := newPinnedHouse(t, "")
			c, task := h.client(t, revision, "/find", fake.ClientOptions{}), ""
			if revision.Can(mcp.ExperimentalTasks) {
				task = `,"task":{}`
			}
			for _, server := range []string{"old", "new"} {
				got := map[string]string{}
				for way := range both {
					made := said(t, c, mcp.MethodCallTool, calling(way, server+"__task", "{}")+task)
					got[way] = outcomeOfTask(t, c, made)
					if tasks := revision.Can(mcp.ExperimentalTasks) || revision.Can(mcp.TasksExtension); tasks != strings.Contains(made, `"taskId"`) || !strings.Contains(got[way], `"done"`) {
						t.Errorf("%s, %s: %s became %s", server, way, made, got[way])
					}
				}
				if got["direct"] != got["through"] {
					t.Errorf("%s: %s\nwant %s", server, got["through"], got["direct"])
				}
			}
			if bad := c.Violations(); len(bad) > 0 {
				t.Errorf("the client saw violations: %q", bad)
			}
		})
	}
}

// outcomeOfTask returns the content of the result of a task, or of an answer that is none.
func outcomeOfTask(t *testing.T, c *fake.Client, made string) string {
	t.Helper()
	v := jsonrpc.ValueOf([]byte(made))
	id, ok := v.Get("taskId").Text()
	if !ok {
		id, ok = v.Get("task", "taskId").Text()
	}
	switch {
	case !ok:
		return string(v.Get("content").Raw())
	case c.Revision().Can(mcp.ExperimentalTasks):
		return string(jsonrpc.ValueOf([]byte(said(t, c, mcp.MethodTaskResult, `"taskId":"`+id+`"`))).Get("content").Raw())
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got := said(t, c, mcp.MethodGetTask, `"taskId":"`+id+`"`)
		if status, _ := jsonrpc.ValueOf([]byte(got)).Get("status").Text(); status == mcp.TaskCompleted || time.Now().After(end) {
			return string(jsonrpc.ValueOf([]byte(got)).Get("result", "content").Raw())
		}
	}
}
