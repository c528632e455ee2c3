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
