package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// ruledHouse is a house whose rules a test changes. Rules know people by the header X-Who.
type ruledHouse struct {
	*house
	text     string
	sites    map[string]*site
	operator atomic.Bool // ann is one
}

func newRuledHouse(t *testing.T) *ruledHouse {
	h := &ruledHouse{house: &house{gate: &gate{}}, sites: map[string]*site{}}
	h.text = h.servers(t, "strict-2025-11-25")
	h.open(t, h.text, func(o *Options) {
		o.Principal, o.Reach = withKey, anybody
		o.Caller = func(who *identity.Principal, _ string) policy.Caller {
			c := policy.Caller{Person: who.Key()}
			if who.Key() == "ann" && h.operator.Load() {
				c.Roles = []identity.Role{identity.Operator}
			}
			return c
		}
	})
	mux := http.NewServeMux()
	h.Routes(mux)
	for _, name := range []string{"ann", "bob"} {
		h.sites[name] = serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("X-Who", name)
			mux.ServeHTTP(w, r)
		}))
	}
	return h
}

// deny denies ann some items, or with none nobody anything.
func (h *ruledHouse) deny(t *testing.T, match ...string) {
	t.Helper()
	rules := ""
	if len(match) > 0 {
		rules = fmt.Sprintf("dragoman: {policy: [{match: [%q], who: {people: [Ann]}, do: deny}]}\n", strings.Join(match, `", "`))
		rules = strings.ReplaceAll(rules, `\"`, `"`)
	}
	h.Apply(event.DefaultProject, snapshotOf(t, rules+h.text))
}

func (h *ruledHouse) client(t *testing.T, who string, revision mcp.Revision, path string, answer func()) *fake.Client {
	t.Helper()
	leaf := "/mcp"
	if !revision.Can(mcp.StreamableHTTP) {
		leaf = "/sse"
	}
	c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: h.sites[who].base + path + leaf}, fake.ClientOptions{
		Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
			answer()
			return fake.Obliging(a)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// said returns the answer to a request as text.
func said(t *testing.T, c *fake.Client, method, params string) string {
	t.Helper()
	r, err := c.Call(t.Context(), method, []byte("{"+params+"}"), fake.CallOptions{})
	switch {
	case err != nil:
		return "failed: " + err.Error()
	case r.Err != nil:
		return fmt.Sprintf("error %d: %s", r.Err.Code, r.Err.Message)
	}
	return string(r.Result)
}

// requests are requests for items, which the rules of TestRulesAtEveryDoor deny, with * for the prefix of names.
var requests = []struct{ method, params string }{
	{mcp.MethodCallTool, `"name":"*echo","arguments":{"text":"x"}`},
	{mcp.MethodGetPrompt, `"name":"*greet","arguments":{"name":"x"}`},
	{mcp.MethodReadResource, `"uri":"fake://text"`},
	{mcp.MethodReadResource, `"uri":"fake://items/1"`},
	{mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"*greet"},"argument":{"name":"name","value":""}`},
	{mcp.MethodComplete, `"ref":{"type":"ref/resource","uri":"fake://items/{id}"},"argument":{"name":"id","value":""}`},
	{mcp.MethodSubscribe, `"uri":"fake://text"`},
	{mcp.MethodGetSkill, `"uri":"skill://fake/SKILL.md"`},
	{mcp.MethodReadDirectory, `"uri":"skill://fake"`},
	// Of these two, the prompt is allowed, but the server goes by the type.
	{mcp.MethodComplete, ambiguous},
}

const ambiguous = `"ref":{"type":"ref/resource","name":"*media","uri":"fake://items/{id}"},"argument":{"name":"id","value":""}`

// TestRulesAtEveryDoor denies ann some items, with a client of every revision at the endpoint of all servers and at
// those of one server of each era. They are in none of her lists, and requests for them are answered as for what
// doesn't exist, before a server hears of them. Her running session notices when the rules change, and hears of it.
// Bob, whom the rules don't name, sees and gets everything all the time.
func TestRulesAtEveryDoor(t *testing.T) {
	h := newRuledHouse(t)
	for _, revision := range mcp.Revisions() {
		for path, prefixes := range map[string][]string{"": {"old__", "new__"}, "/s/old": {""}, "/s/new": {""}} {
			t.Run(revision.String()+" at "+path, func(t *testing.T) {
				h.deny(t)
				ann, bob := h.client(t, "ann", revision, path, func() {}), h.client(t, "bob", revision, path, func() {})
				if _, err := ann.Subscribe(t.Context(), fake.Filter{Tools: true}); err != nil {
					t.Fatal(err)
				}
				h.checkItems(t, ann, prefixes, true)
				for _, denied := range []bool{true, false, true} {
					serial := ann.Serial()
					if h.deny(t); denied {
						h.deny(t, "*/echo", "*/prompt:greet", "*/resource:fake://text", "*/resource:fake://items/*", "*/resource:skill://fake*")
					}
					ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
					_, err := ann.Await(ctx, serial, func(n fake.Notice) bool { return n.Method == mcp.NoteToolsChanged })
					if stop(); err != nil {
						t.Errorf("denied %t: ann does not hear that the tools have changed: %v", denied, err)
					}
					h.checkItems(t, ann, prefixes, !denied)
					h.checkItems(t, bob, prefixes, true)
				}
			})
		}
	}
}

// TestRegraded gives ann a role, and takes it from her. The rules haven't changed, but what they say of her has, so
// her running session hears of it, within a second. If no rule depends on who asks, nobody hears of it.
func TestRegraded(t *testing.T) {
	h := newRuledHouse(t)
	items := `["*/echo", "*/prompt:greet", "*/resource:fake://text", "*/resource:fake://items/*", "*/resource:skill://fake*"]`
	h.Apply(event.DefaultProject, snapshotOf(t, `dragoman: {policy: [{match: "*", who: {roles: [operator], people: [bob]}, do: allow}, {match: `+items+", do: deny}]}\n"+h.text))
	for _, revision := range mcp.Revisions() {
		for path, prefixes := range map[string][]string{"": {"old__", "new__"}, "/s/old": {""}, "/s/new": {""}} {
			t.Run(revision.String()+" at "+path, func(t *testing.T) {
				ann, bob := h.client(t, "ann", revision, path, func() {}), h.client(t, "bob", revision, path, func() {})
				if _, err := ann.Subscribe(t.Context(), fake.Filter{Tools: true}); err != nil {
					t.Fatal(err)
				}
				h.checkItems(t, ann, prefixes, false)
				for _, is := range []bool{true, false} {
					serial := ann.Serial()
					h.operator.Store(is)
					h.Regraded(event.DefaultProject)
					ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
					_, err := ann.Await(ctx, serial, func(n fake.Notice) bool { return n.Method == mcp.NoteToolsChanged })
					if stop(); err != nil {
						t.Errorf("operator %t: ann does not hear that the tools have changed: %v", is, err)
					}
					h.checkItems(t, ann, prefixes, is)
					h.checkItems(t, bob, prefixes, true)
				}
			})
		}
	}
	h.deny(t)
	before := h.Default().policy.Load()
	if h.Regraded(event.DefaultProject); h.Default().policy.Load() != before {
		t.Error("without rules, there are new handlers")
	}
}

// allLists returns all pages of all lists.
func allLists(t *testing.T, c *fake.Client) (lists string) {
	t.Helper()
	for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodListSkills} {
		for cursor := ""; ; {
			list := said(t, c, method, cursor)
			lists += list
			next, ok := jsonrpc.Text([]byte(list), jsonrpc.Find([]byte(list), jsonrpc.Whole([]byte(list)), "nextCursor"))
			if !ok {
				break
			}
			cursor = `"cursor":` + string(jsonrpc.AppendQuote(nil, next))
		}
	}
	return lists
}

func (h *ruledHouse) checkItems(t *testing.T, c *fake.Client, prefixes []string, allowed bool) {
	t.Helper()
	for _, prefix := range prefixes {
		lists := allLists(t, c)
		for _, item := range []string{`"` + prefix + `echo"`, `"` + prefix + `greet"`, `"fake://text"`, `"fake://items/1"`, `"fake://items/{id}"`, `"skill://fake/SKILL.md"`} {
			if strings.Contains(lists, item) != allowed {
				t.Errorf("allowed %t: the lists have %s: %t", allowed, item, !allowed)
			}
		}
		if !strings.Contains(lists, `"`+prefix+`add"`) || !strings.Contains(lists, `"fake://blob"`) {
			t.Error("something else is hidden, too")
		}
		for _, q := range requests {
			info := mcp.LookupMethod(q.method)
			if !info.In(c.Revision()) {
				continue
			}
			before := h.sent(q.method)
			got := said(t, c, q.method, strings.ReplaceAll(q.params, "*", prefix))
			if refused := strings.HasPrefix(got, "error"); refused == allowed && !(allowed && q.params == ambiguous) {
				t.Errorf("allowed %t: %s %s: %s", allowed, q.method, q.params, got)
			}
			if allowed {
				continue
			}
			if n := h.sent(q.method) - before; n != 0 {
				t.Errorf("%s %s: a server got %d requests", q.method, q.params, n)
			}
			if q.method == mcp.MethodCallTool {
				unknown := said(t, c, q.method, strings.ReplaceAll(strings.ReplaceAll(q.params, "*echo", "*nono"), "*", prefix))
				if strings.ReplaceAll(unknown, "nono", "echo") != got && prefix != "" {
					t.Errorf("%s: %s, but an unknown item gets %s", q.params, got, unknown)
				}
			}
		}
	}
}

// sent returns how many requests with a method the servers got.
func (h *house) sent(method string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for line := range strings.Lines(h.got.String()) {
		if strings.Contains(line, `"direction":"request"`) && strings.Contains(line, `"method":"`+method+`"`) {
			n++
		}
	}
	return n
}

// TestRulesOfAWholeServer denies ann everything. Her running sessions then find nothing at the endpoint of all
// servers, and those of single servers aren't there; neither are her tasks. Bob's are.
func TestRulesOfAWholeServer(t *testing.T) {
	h := newRuledHouse(t)
	for path, prefixes := range map[string][]string{"": {"old__", "new__"}, "/s/old": {""}, "/s/new": {""}} {
		for _, prefix := range prefixes {
			h.deny(t)
			body, header := modernRequest("tools/call", prefix+"task", `{"name":"`+prefix+`task","arguments":{}}`)
			polls := map[string]func() string{}
			for name, s := range h.sites {
				_, _, created := s.ask("POST", path+"/mcp", body, header...)
				id := resultMember(t, created, "taskId")
				polls[name] = func() string {
					body, header := modernRequest(mcp.MethodGetTask, id, fmt.Sprintf(`{"taskId":%q}`, id))
					_, _, answer := s.ask("POST", path+"/mcp", body, header...)
					return answer
				}
			}
			ann, bob := h.client(t, "ann", mcp.LatestLegacy, path, func() {}), h.client(t, "bob", mcp.LatestLegacy, path, func() {})
			h.deny(t, "*")
			for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources} {
				if got := said(t, ann, method, ""); strings.Contains(got, `"name"`) || path != "" && !strings.HasPrefix(got, "failed") {
					t.Errorf("%q: ann sees %s", path, got)
				}
				if got := said(t, bob, method, ""); !strings.Contains(got, `"name"`) {
					t.Errorf("%q: bob sees %s", path, got)
				}
			}
			if got := said(t, ann, mcp.MethodCallTool, `"name":"`+prefix+`add","arguments":{"a":1,"b":2}`); strings.Contains(got, `"content"`) {
				t.Errorf("%q: ann gets %s", path, got)
			}
			if got := polls["ann"](); strings.Contains(got, `"status"`) || path == "" && !strings.Contains(got, "Task not found") {
				t.Errorf("%q: ann's task: %s", path, got)
			}
			if got := polls["bob"](); !strings.Contains(got, `"status"`) {
				t.Errorf("%q: bob's task: %s", path, got)
			}
		}
	}
}

// TestRulesOfAKeptAnswer denies ann the tool whose answer we keep as her task, or its whole server. The answer can't be
// read any more then. Bob reads his, and so does ann once she may use the tool again.
func TestRulesOfAKeptAnswer(t *testing.T) {
	h := newRuledHouse(t)
	for path, prefix := range map[string]string{"": "new__", "/s/new": ""} {
		for _, method := range []string{mcp.MethodGetTask, mcp.MethodTaskResult, mcp.MethodCancelTask} {
			h.deny(t)
			clients, tasks := map[string]*fake.Client{}, map[string]string{}
			for _, who := range []string{"ann", "bob"} {
				clients[who] = h.client(t, who, mcp.LatestLegacy, path, func() {})
				made := said(t, clients[who], mcp.MethodCallTool, `"name":"`+prefix+`echo","arguments":{"text":"x"},"task":{}`)
				task := struct{ Task struct{ TaskID string } }{}
				if _ = json.Unmarshal([]byte(made), &task); !strings.HasPrefix(task.Task.TaskID, "drgk1.") {
					t.Fatalf("the answer is not kept: %s", made)
				}
				tasks[who] = `"taskId":"` + task.Task.TaskID + `"`
			}
			for _, match := range []string{"*/echo", "", "new/*", ""} {
				if h.deny(t); match != "" {
					h.deny(t, match)
				}
				for who, c := range clients {
					got := said(t, c, method, tasks[who])
					hidden := who == "ann" && match != ""
					if hidden && match == "new/*" && path != "" {
						hidden = !strings.HasPrefix(got, "failed") // the endpoint isn't there for her any more
					}
					if strings.HasSuffix(got, "Task not found") != hidden {
						t.Errorf("%s at %q with %q denied: %s gets %s", method, path, match, who, got)
					}
				}
				if match == "new/*" && path != "" {
					break // her session is gone, too
				}
			}
		}
	}
}

// TestRulesOfARetry denies ann a tool while its call waits for her answer. The call of a modern client is over with
// that: its retry asks for something that doesn't exist. A legacy client's call, which is still running, ends as it
// began.
func TestRulesOfARetry(t *testing.T) {
	h := newRuledHouse(t)
	for _, revision := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		for path, prefixes := range map[string][]string{"": {"old__", "new__"}, "/s/old": {""}, "/s/new": {""}} {
			for _, prefix := range prefixes {
				for _, who := range []string{"ann", "bob"} {
					h.deny(t)
					c := h.client(t, who, revision, path, func() { h.deny(t, "*/elicit") })
					got := said(t, c, mcp.MethodCallTool, `"name":"`+prefix+`elicit","arguments":{}`)
					if refused := strings.HasPrefix(got, "error"); refused != (who == "ann" && revision.Modern()) {
						t.Errorf("%s %s at %q: %s", revision, who, path, got)
					}
				}
			}
		}
	}
}

// TestRulesOfSubscriptions hides a resource from ann that she and bob have subscribed to, while they also watch
// another one. She hears of the other one only, and can't subscribe to the first again. Bob goes on.
func TestRulesOfSubscriptions(t *testing.T) {
	h := newRuledHouse(t)
	both := []string{"fake://text", "fake://blob"}
	for _, revision := range []mcp.Revision{mcp.R20241105, mcp.LatestLegacy, mcp.Latest} {
		for path, prefixes := range map[string][]string{"": {"old__", "new__"}, "/s/old": {""}, "/s/new": {""}} {
			t.Run(revision.String()+" at "+path, func(t *testing.T) {
				h.deny(t)
				ann, bob := h.client(t, "ann", revision, path, func() {}), h.client(t, "bob", revision, path, func() {})
				for _, c := range []*fake.Client{ann, bob} {
					if _, err := c.Subscribe(t.Context(), fake.Filter{URIs: both}); err != nil {
						t.Fatal(err)
					}
				}
				touch := func() {
					for _, uri := range both {
						for _, prefix := range prefixes {
							if got := said(t, bob, mcp.MethodCallTool, `"name":"`+prefix+`touch","arguments":{"uri":"`+uri+`"}`); strings.HasPrefix(got, "error") {
								t.Fatal(got)
							}
						}
					}
				}
				// A listen moves to new rules soon, but may miss a touch, so we touch until it has moved.
				hears := func(who string, c *fake.Client, want bool) {
					t.Helper()
					text, blob := false, false
					for range 30 {
						time.Sleep(100 * time.Millisecond) // what was sent before arrives
						after := c.Serial()
						text, blob = false, false
						touch()
						ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
						_, _ = c.Await(ctx, after, func(n fake.Notice) bool {
							text = text || n.Method == mcp.NoteResourceUpdated && strings.Contains(string(n.Params), both[0])
							blob = blob || n.Method == mcp.NoteResourceUpdated && strings.Contains(string(n.Params), both[1])
							return blob && text == want
						})
						if stop(); blob && text == want {
							return
						}
					}
					t.Errorf("%s hears of the resource: %t, and of the other one: %t", who, text, blob)
				}
				for _, denied := range []bool{false, true} {
					if denied {
						h.deny(t, "*/resource:fake://text")
					}
					hears("bob", bob, true)
					hears("ann", ann, !denied)
				}
				again, err := ann.Subscribe(t.Context(), fake.Filter{URIs: both})
				if revision.Modern() && (err != nil || slices.Contains(again.Agreed().URIs, both[0]) || !slices.Contains(again.Agreed().URIs, both[1])) || !revision.Modern() && err == nil {
					t.Errorf("ann subscribes again: %v", err)
				}
			})
		}
	}
}

// TestRulesOfAVendorsMethod calls a method of a vendor at the endpoint of all servers, where both know it. It goes to
// the only server that ann may see, and if there is none, it doesn't exist.
func TestRulesOfAVendorsMethod(t *testing.T) {
	h := newRuledHouse(t)
	for _, revision := range mcp.Revisions() {
		h.deny(t)
		ann := h.client(t, "ann", revision, "", func() {})
		for match, want := range map[string]string{"": "error", "old/*": `"declared"`, "new/*": `"declared"`, "*": "error -32601"} {
			if h.deny(t); match != "" {
				h.deny(t, match)
			}
			before := h.sent(fake.VendorMethod)
			got := said(t, ann, fake.VendorMethod, `"place":"Rome"`)
			if n := h.sent(fake.VendorMethod) - before; !strings.Contains(got, want) || (n == 1) != (want == `"declared"`) {
				t.Errorf("%s, without %q: %d requests, %s", revision, match, n, got)
			}
		}
	}
}

// TestRulesOfDefaultGoWithItsServers checks that a project needs the permission of both lists for a server of
// default, and only its own for its own.
func TestRulesOfDefaultGoWithItsServers(t *testing.T) {
	house := policy.Rules{{Match: []string{"*/push"}, Do: policy.Deny}}
	s := &config.Snapshot{
		Servers: []config.Server{{Name: "git", Shared: true}, {Name: "own"}},
		Policy:  policy.Rules{{Match: []string{"git/log"}, Do: policy.Deny}}, House: house,
	}
	p := &Project{runtime: &Runtime{opts: Options{Reach: anybody}}}
	show := p.filterBy(p.newRules(s))(identity.Named("ann"))
	for item, want := range map[string]bool{"git/log": false, "git/push": false, "git/pull": true, "own/push": true, "own/log": true} {
		server, name, _ := strings.Cut(item, "/")
		if show.Shows(catalog.KindTool, server, name) != want {
			t.Errorf("%s is allowed: %t", item, !want)
		}
	}
}

// TestAuthorise checks the step by itself, as on a way to a server that has no filter.
func TestAuthorise(t *testing.T) {
	p := &Project{runtime: &Runtime{}}
	chain := p.newRules(&config.Snapshot{Servers: []config.Server{{Name: "git"}, {Name: "db"}}, Policy: policy.Rules{
		{Match: []string{"git/log", "git/prompt:p", "git/resource:x:*"}}, {Match: []string{"git/*", "db/*"}, Do: policy.Deny},
	}}).chain(nil)
	for _, c := range []struct {
		method, server, name string
		want                 bool
	}{
		{mcp.MethodCallTool, "git", "log", true}, {mcp.MethodCallTool, "git", "push", false}, {mcp.MethodGetPrompt, "git", "p", true},
		{mcp.MethodGetPrompt, "git", "log", false}, {mcp.MethodReadResource, "git", "x:1", true}, {mcp.MethodSubscribe, "git", "y:1", false},
		{mcp.MethodGetSkill, "git", "y:1", false}, {mcp.MethodReadDirectory, "git", "x:1", true}, {"acme/do", "git", "", true}, {"acme/do", "db", "", false},
		{mcp.MethodComplete, "git", "x:1", true}, {mcp.MethodComplete, "git", "y:1", false},
		{mcp.MethodGetTask, "db", "1", false}, {mcp.MethodSetLevel, "db", "", false}, {mcp.MethodListTools, "", "", true}, {mcp.MethodCallTool, "other", "x", true},
	} {
		m := jsonrpc.NewRequest("1", c.method, []byte("{}"))
		call := &policy.Call{Server: c.server, Name: c.name, Request: mcp.NewCall(m, jsonrpc.Span{}, &mcp.ClientInfo{Revision: mcp.Latest})}
		_, v := chain.Admit(t.Context(), call, 0)
		if v.Passes() != c.want {
			t.Errorf("%s %s/%s passes: %t", c.method, c.server, c.name, !c.want)
		}
	}
	if n := len(p.newRules(&config.Snapshot{Servers: []config.Server{{Name: "git"}}}).chain(nil)); n != 0 {
		t.Errorf("without rules, there are %d steps", n)
	}
}

// TestRulesOfAnOpenSession denies everybody everything, and asks in a session at the endpoint of one server that was
// opened before, and that no HTTP door stands before. Nothing reaches the server, and nothing seems to exist.
func TestRulesOfAnOpenSession(t *testing.T) {
	h := newRuledHouse(t)
	for _, server := range []string{"old", "new"} {
		h.deny(t)
		v, err := h.Default().Visit(t.Context(), server, VisitOptions{Who: identity.Local, Capabilities: []byte(`{"tasks":{}}`)})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		ask := func(method, params string) string {
			m, err := v.Call(t.Context(), method, []byte(params))
			if err != nil {
				t.Fatal(err)
			}
			return string(m.Raw)
		}
		made, task := ask(mcp.MethodCallTool, `{"name":"task","task":{},"arguments":{}}`), struct{ TaskID string }{}
		_ = json.Unmarshal([]byte(resultMember(t, made, "task")), &task)
		id := task.TaskID
		if got := ask(mcp.MethodGetTask, `{"taskId":"`+id+`"}`); !strings.Contains(got, `"status"`) {
			t.Fatalf("%s: %s", made, got)
		}
		h.Apply(event.DefaultProject, snapshotOf(t, "dragoman: {policy: [{match: \"*\", do: deny}]}\n"+h.text))
		for _, c := range []struct{ method, params, want string }{
			{mcp.MethodGetTask, `{"taskId":"` + id + `"}`, "Task not found"},
			{mcp.MethodCallTool, `{"name":"add","arguments":{"a":1,"b":2}}`, "Unknown tool: add"},
			{mcp.MethodListTools, `{}`, "Method not found"},
			{"acme/do", `{}`, "Method not found"},
		} {
			before := h.sent(c.method)
			if got := ask(c.method, c.params); !strings.Contains(got, c.want) || h.sent(c.method) != before {
				t.Errorf("%s: %s: %s", server, c.method, got)
			}
		}
	}
}

// TestRulesThatRename gives tools and a prompt other names, and says more of them. Clients see only the new names, also
// in completions and mirrored headers, and the servers get their own, which the other rules are about, too.
func TestRulesThatRename(t *testing.T) {
	h := newRuledHouse(t)
	var all []string
	for _, server := range []string{"old", "new"} {
		for match, as := range map[string]string{
			"echo": `{name: say, title: "Say: it", description: Says it., annotations: {readOnlyHint: true, destructiveHint: false}}`, "prompt:greet": "{name: hello}",
			"headers": "{name: whereabouts}", "add": "{name: fail}", "resource:fake://text": "{title: Words}",
		} {
			all = append(all, fmt.Sprintf(`{match: "%s/%s", as: %s}`, server, match, as))
		}
	}
	rules := strings.Join(all, ", ") + `, {match: "*/echo", who: {people: [ann]}, do: deny}, {match: "*/say", do: deny}`
	for _, revision := range []mcp.Revision{mcp.R20241105, mcp.LatestLegacy, mcp.Latest} {
		for path, prefixes := range map[string][]string{"": {"old__", "new__"}, "/s/old": {""}, "/s/new": {""}} {
			t.Run(revision.String()+" at "+path, func(t *testing.T) {
				h.deny(t)
				ann, bob := h.client(t, "ann", revision, path, func() {}), h.client(t, "bob", revision, path, func() {})
				said(t, bob, mcp.MethodListTools, "") // with the names from before
				h.Apply(event.DefaultProject, snapshotOf(t, "dragoman: {policy: ["+rules+"]}\n"+h.text))
				for _, prefix := range prefixes {
					h.checkRenamed(t, bob, prefix)
					if got := said(t, ann, mcp.MethodCallTool, `"name":"`+prefix+`say","arguments":{"text":"x"}`); !strings.Contains(got, "Unknown tool: "+prefix+"say") {
						t.Errorf("ann calls the tool: %s", got)
					}
				}
			})
		}
	}
	v, err := h.Default().Visit(t.Context(), "new", VisitOptions{Who: identity.Local})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if m, err := v.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"echo","arguments":{"text":"x"}}`)); err != nil || m.Kind != jsonrpc.Result {
		t.Errorf("an operator, who knows the tool by the server's name, gets %s, %v", m.Raw, err)
	}
}

func (h *ruledHouse) checkRenamed(t *testing.T, c *fake.Client, prefix string) {
	t.Helper()
	tools := ""
	for cursor := ""; ; {
		list := said(t, c, mcp.MethodListTools, cursor)
		tools += list
		next, ok := jsonrpc.Text([]byte(list), jsonrpc.Find([]byte(list), jsonrpc.Whole([]byte(list)), "nextCursor"))
		if !ok {
			break
		}
		cursor = `"cursor":` + string(jsonrpc.AppendQuote(nil, next))
	}
	want := []string{`"` + prefix + `say"`, "Says it.", `"` + prefix + `fail"`}
	if c.Revision() != mcp.R20241105 {
		want = append(want, `"readOnlyHint":true`, `"destructiveHint":false`)
	}
	for _, text := range want {
		if !strings.Contains(tools, text) {
			t.Errorf("the list lacks %s: %s", text, tools)
		}
	}
	for _, name := range []string{"echo", "add", "headers"} {
		if strings.Contains(tools, `"name":"`+prefix+name+`"`) {
			t.Errorf("the list has %s", name)
		}
	}
	if n := strings.Count(tools, `"name":"`+prefix+`fail"`); n != 1 {
		t.Errorf("the list has fail %d times", n)
	}
	for _, q := range []struct{ method, params, want string }{
		{mcp.MethodCallTool, `"name":"*say","arguments":{"text":"x"}`, `"text":"x"`},
		{mcp.MethodCallTool, `"name":"*echo","arguments":{"text":"x"}`, "Unknown tool: " + prefix + "echo"},
		{mcp.MethodCallTool, `"name":"*fail","arguments":{"a":1,"b":2}`, `"text":"3"`},
		{mcp.MethodCallTool, `"name":"*whereabouts","arguments":{"region":"eu"}`, `"text":"eu"`},
		{mcp.MethodGetPrompt, `"name":"*hello","arguments":{"name":"Ada"}`, "Say hello to Ada."},
		{mcp.MethodGetPrompt, `"name":"*greet","arguments":{"name":"Ada"}`, "Unknown prompt: " + prefix + "greet"},
		{mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"*hello"},"argument":{"name":"name","value":""}`, `"ada"`},
		{mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"*greet"},"argument":{"name":"name","value":""}`, "Unknown prompt"},
	} {
		if strings.Contains(q.params, "whereabouts") && !strings.Contains(tools, `whereabouts"`) {
			continue // only modern servers have it
		}
		if got := said(t, c, q.method, strings.ReplaceAll(q.params, "*", prefix)); !strings.Contains(got, q.want) && !(strings.Contains(q.params, "*whereabouts") && prefix == "old__") {
			t.Errorf("%s {%s}: %s", q.method, q.params, got)
		}
	}
}

// BenchmarkRules reads the first page of a list of 5,000 tools after the first time, without rules and with 200. They take
// turns, so that a busy machine slows down both; ratio is the median of what all pairs of turns say.
func BenchmarkRules(b *testing.B) {
	var rules []string
	for i := range 198 {
		rules = append(rules, fmt.Sprintf(`{match: ["many/never_%d_*", "other/*"], who: {people: [p%d]}, do: deny}`, i, i))
	}
	rules = append(rules, `{match: "many/tool_9*", do: deny}`, `{match: "many/*", do: allow}`)
	var tools []string
	for i := range 5000 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":"Does something useful with its argument.","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`, i))
	}
	ann, roles := identity.Named("ann"), []identity.Role{identity.Caller}
	reader := func(policyText string) (read func() time.Duration) {
		s := snapshotOf(b, policyText+"mcpServers: {many: {command: x}, other: {command: x}}\n")
		p := &Project{name: event.DefaultProject, runtime: &Runtime{opts: Options{Reach: anybody, Caller: func(who *identity.Principal, _ string) policy.Caller {
			return policy.Caller{Person: who.Key(), Roles: roles}
		}}}}
		filter := p.filterBy(p.newRules(s))
		c := &catalog.Catalog{Sources: []catalog.Source{&listSource{"many", tools}}}
		b.Cleanup(c.Close)
		return func() time.Duration {
			begun := time.Now()
			for range 100 {
				v := c.View(&mcp.ClientInfo{Revision: mcp.Latest, Who: ann}, filter(ann))
				if _, err := v.Page(b.Context(), mcp.LookupMethod(mcp.MethodListTools), jsonrpc.Value{}, true); err != nil {
					b.Fatal(err)
				}
			}
			return time.Since(begun) / 100
		}
	}
	none, ruled := reader(""), reader("dragoman: {policy: ["+strings.Join(rules, ", ")+"]}\n")
	b.Logf("the first reading took %v, and %v with rules, of each of 100", none(), ruled())
	var without, with time.Duration
	var ratios []float64
	for b.Loop() {
		x, y := none(), ruled()
		without, with, ratios = without+x, with+y, append(ratios, float64(y)/float64(x))
	}
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(without.Nanoseconds())/float64(len(ratios)), "ns/list")
	b.ReportMetric(float64(with.Nanoseconds())/float64(len(ratios)), "ns/list-with-rules")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}

// listSource is a server whose tools never change.
type listSource struct {
	name  string
	tools []string
}

func (s *listSource) Name() string                 { return s.name }
func (s *listSource) Scope(*mcp.ClientInfo) string { return "" }

func (s *listSource) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return &mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}, nil
}

func (s *listSource) List(context.Context, *mcp.ClientInfo, string) (items [][]byte, complete bool, err error) {
	for _, x := range s.tools {
		items = append(items, []byte(x))
	}
	return items, true, nil
}

// TestRenamesOfTwoLists lets a project and default give the same name to two tools of a server that both use. Clients
// see one of them by it, and it's the one that they get.
func TestRenamesOfTwoLists(t *testing.T) {
	as := func(tool string) policy.Rules {
		return policy.Rules{{Match: []string{"files/" + tool}, As: &policy.As{Name: "access"}}}
	}
	s := &config.Snapshot{Servers: []config.Server{{Name: "files", Shared: true}}, Policy: as("read"), House: as("delete")}
	names := rulesOf("shop", s, nil).renames()
	for tool, want := range map[string]string{"read": "access", "delete": "delete"} {
		shown, _ := names.Shown(catalog.KindTool, "files", tool)
		if own, ok := names.Own(catalog.KindTool, "files", shown); shown != want || own != tool || !ok {
			t.Errorf("%s is shown as %s, which is %s, %t", tool, shown, own, ok)
		}
	}
}
