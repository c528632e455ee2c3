package runtime

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// limitedHouse is a house whose limits a test changes. Clients come with the header X-Who, which is a person and one
// of their keys, such as ann/1.
type limitedHouse struct {
	*house
	text string
	mux  *http.ServeMux
}

func newLimitedHouse(t *testing.T, traffic string) *limitedHouse {
	h := &limitedHouse{house: &house{gate: &gate{}, held: make(chan struct{})}, mux: http.NewServeMux()}
	h.text = h.servers(t, "strict-2025-11-25")
	h.open(t, h.text, func(o *Options) {
		o.Reach = anybody
		o.Principal = func(r *http.Request) (*identity.Principal, error) {
			person, key, ok := strings.Cut(r.Header.Get("X-Who"), "/")
			if !ok {
				return nil, &httpdoor.Denied{Reason: "send a key"}
			}
			return &identity.Principal{Subject: person, Seat: person + "/" + key, Via: "key"}, nil
		}
		o.Caller = func(who *identity.Principal, _ string) policy.Caller {
			if who.Key() == "" {
				return policy.Caller{}
			}
			return policy.Caller{Person: who.Subject, Key: who.Seat}
		}
	})
	h.Routes(h.mux)
	h.limit(t, traffic)
	return h
}

// limit changes the limits of default.
func (h *limitedHouse) limit(t *testing.T, traffic string) {
	t.Helper()
	h.Apply(event.DefaultProject, snapshotOf(t, "dragoman: {limits: {traffic: ["+traffic+"]}}\n"+h.text))
}

// site is where a client with a key calls.
func (h *limitedHouse) site(t *testing.T, who string) *site {
	return serveSite(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-Who", who)
		h.mux.ServeHTTP(w, r)
	}))
}

// client opens a session with a key, or on a pipe, whose client has none.
func (h *limitedHouse) client(t *testing.T, who string, revision mcp.Revision, path string, o fake.ClientOptions) *fake.Client {
	t.Helper()
	at := fake.Where{}
	switch {
	case who == "" && path == "":
		at = pipeTo(t, h.Default().Joined())
	case who == "":
		at = pipeTo(t, h.Default().mount(strings.TrimPrefix(path, "/s/")).clients)
	case !revision.Can(mcp.StreamableHTTP):
		at.URL = h.site(t, who).base + path + "/sse"
	default:
		at.URL = h.site(t, who).base + path + "/mcp"
	}
	c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), at, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func echoing(prefix, text string) string {
	return fmt.Sprintf(`"name":"%secho","arguments":{"text":%q}`, prefix, text)
}

// limited are requests that count, with * for the prefix of names.
var limited = []struct{ method, params string }{
	{mcp.MethodCallTool, `"name":"*echo","arguments":{"text":"x"}`},
	{mcp.MethodGetPrompt, `"name":"*greet","arguments":{"name":"x"}`},
	{mcp.MethodReadResource, `"uri":"fake://text"`},
	{mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"*greet"},"argument":{"name":"name","value":""}`},
}

// TestLimitsAtEveryDoor uses up a limit with a client of every revision, over HTTP and on a pipe, at the endpoint of all
// servers and at those of one server of each era. Then every kind of request is refused, before a server hears of it,
// with the limit and when to try again; lists go on to work where no server has to be asked. Bob, who has another key,
// notices nothing.
func TestLimitsAtEveryDoor(t *testing.T) {
	for _, revision := range mcp.Revisions() {
		for _, door := range []struct{ path, prefix string }{{"", "old__"}, {"", "new__"}, {"/s/old", ""}, {"/s/new", ""}} {
			for _, who := range []string{"ann/1", ""} {
				t.Run(fmt.Sprintf("%s at %q %s of %q", revision, door.path, door.prefix, who), func(t *testing.T) {
					h := newLimitedHouse(t, `{per: key, callsPerSecond: 0.01, burst: 20}`)
					ann, bob := h.client(t, who, revision, door.path, fake.ClientOptions{}), h.client(t, "bob/1", revision, door.path, fake.ClientOptions{})
					passed := 0
					for ; passed < 30 && strings.Contains(said(t, ann, mcp.MethodCallTool, echoing(door.prefix, "x")), `"content"`); passed++ {
					}
					if passed > 20 || passed < 10 || h.executions("x") != passed { // a client may have listed before
						t.Errorf("%d calls have passed, and the servers got %d", passed, h.executions("x"))
					}
					whose := `the key "ann/1"`
					if who == "" {
						whose = "whoever has no key"
					}
					for _, q := range limited {
						if q.method == mcp.MethodComplete && !revision.Can(mcp.StreamableHTTP) {
							continue // the client has no completions
						}
						params, before := strings.ReplaceAll(q.params, "*", door.prefix), h.sent(q.method)
						if got := said(t, ann, q.method, params); !strings.Contains(got, "the request was not sent: "+whose+" gets at most 0.01 calls per second, and 20 at once; send it again in ") || h.sent(q.method) != before {
							t.Errorf("%s: %s", q.method, got)
						}
						if got := said(t, bob, q.method, params); strings.HasPrefix(got, "error") || h.sent(q.method) != before+1 {
							t.Errorf("bob: %s: %s", q.method, got)
						}
					}
					if got := said(t, ann, mcp.MethodListTools, ""); strings.Contains(got, `"tools"`) != (door.path == "") {
						t.Errorf("the list of tools: %s", got)
					}
					if bad := ann.Violations(); len(bad) > 0 {
						t.Errorf("the client saw violations: %q", bad)
					}
				})
			}
		}
	}
}

// TestLimitsOfSearches uses up each limit with the tools of search mode. Searches and descriptions count, except for a
// server, and a call through call_tool counts once. Bob, who has another key, goes on unless the limit is everybody's.
func TestLimitsOfSearches(t *testing.T) {
	asks := []string{
		`"name":"search_tools","arguments":{"query":"echo"}`, `"name":"describe_tools","arguments":{"names":["old__echo"]}`,
		`"name":"call_tool","arguments":{` + echoing("old__", "x") + `}`, `"name":"call_tool","arguments":{` + echoing("new__", "x") + `}`,
	}
	for _, revision := range mcp.Revisions() {
		for limit, c := range map[string]struct {
			whose  string
			passed int // of asks, until one is refused; 0 if that depends on their bytes
			all    bool
		}{
			"per: key, callsPerSecond: 0.01, burst: 4":     {`the key "ann/1"`, 4, false},
			"per: person, callsPerSecond: 0.01, burst: 4":  {`"ann" with all keys together`, 4, false},
			"per: project, callsPerSecond: 0.01, burst: 4": {`the project "default"`, 4, true},
			"per: key, bytesPerMinute: 1KiB":               {`the key "ann/1"`, 0, false},
			"per: server, callsPerSecond: 0.01, burst: 1":  {"", 4, false},
		} {
			t.Run(revision.String()+" "+limit, func(t *testing.T) {
				t.Parallel()
				h := newLimitedHouse(t, "{"+limit+"}")
				ann, bob := h.client(t, "ann/1", revision, "/find", fake.ClientOptions{}), h.client(t, "bob/1", revision, "/find", fake.ClientOptions{})
				passed := 0
				for passed < len(asks) && !strings.HasPrefix(said(t, ann, mcp.MethodCallTool, asks[passed]), "error") {
					passed++
				}
				if passed == 0 || c.passed > 0 && passed != c.passed || h.executions("x") != max(0, passed-2) {
					t.Errorf("%d calls have passed, and the servers got %d", passed, h.executions("x"))
				}
				for _, ask := range asks {
					got := said(t, ann, mcp.MethodCallTool, ask)
					whose := c.whose
					if whose == "" && strings.Contains(ask, "call_tool") {
						whose = "the server "
					}
					if refused := strings.Contains(got, "the request was not sent: "+whose) && strings.Contains(got, " gets at most "); refused != (whose != "") || strings.Contains(got, ". ") && refused {
						t.Errorf("%s: %s", ask, got)
					}
				}
				if got := said(t, bob, mcp.MethodCallTool, asks[0]); strings.HasPrefix(got, "error") != c.all {
					t.Errorf("bob: %s", got)
				}
			})
		}
	}
}

// TestRefusalOfALimit checks what a client and the record of calls get.
func TestRefusalOfALimit(t *testing.T) {
	h := newLimitedHouse(t, `{per: server, servers: new, callsPerSecond: 0.5, burst: 1}, {per: project, callsInFlight: 9}`)
	s := h.site(t, "ann/1")
	body, header := modernRequest(mcp.MethodCallTool, "new__echo", `{"name":"new__echo","arguments":{"text":"x"}}`)
	s.ask("POST", "/mcp", body, header...)
	status, _, answer := s.ask("POST", "/mcp", body, header...)
	for _, want := range []string{
		`"origin":"gateway"`, `"upstream":"new"`, `"cause":"limit"`, `"outcome":"not_sent"`, `"retryable":true`, `"retryAfterMs":`,
		`the server \"new\" gets at most 0.5 calls per second, and 1 at once; send it again in 2s, or ask whoever runs Dragoman for more`,
	} {
		if status != 200 || !strings.Contains(answer, want) {
			t.Errorf("%d without %s: %s", status, want, answer)
		}
	}
	if got := h.gate.take(); len(got) != 2 || got[1] != "new echo x not_sent" {
		t.Errorf("the auditor heard %q", got)
	}
	body, header = modernRequest(mcp.MethodCallTool, "old__echo", `{"name":"old__echo","arguments":{"text":"x"}}`)
	s.wants(200, `"content"`, "POST", "/mcp", body, header...)
}

// TestLimitsOfSpreadCalls lets ann spread her calls over sessions of both eras, keys, endpoints, tasks and a batch of
// 2025-03-26. She gets what a person may have, and no more. Bob, who calls as often as he may, gets it all.
func TestLimitsOfSpreadCalls(t *testing.T) {
	const most = 40
	h := newLimitedHouse(t, fmt.Sprintf(`{per: person, callsPerSecond: 0.01, burst: %d}, {per: server, callsPerSecond: 1000, burst: 1000}`, most))
	var calling sync.WaitGroup
	spread := func(f func(who string)) {
		for key := range 3 {
			calling.Go(func() { f(fmt.Sprintf("ann/%d", key)) })
		}
	}
	for _, revision := range []mcp.Revision{mcp.R20241105, mcp.R20251125, mcp.Latest} {
		spread(func(who string) {
			c := h.client(t, who, revision, "", fake.ClientOptions{})
			for range 15 {
				said(t, c, mcp.MethodCallTool, echoing("old__", "ann"))
				said(t, c, mcp.MethodCallTool, echoing("new__", "ann"))
			}
		})
	}
	spread(func(who string) {
		s := h.site(t, who)
		for range 15 {
			body, header := modernRequest(mcp.MethodCallTool, "task", `{"name":"task","arguments":{}}`)
			s.ask("POST", "/s/new/mcp", body, header...)
		}
	})
	spread(func(who string) {
		s := h.site(t, who)
		got, _, _ := s.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		var items []string
		for i := range 30 {
			items = append(items, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s}}`, i, echoing("new__", "ann")))
		}
		if got != 200 {
			t.Errorf("initialize: %d", got)
		}
		r := s.open("POST", "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		_ = r.Body.Close()
		_, _, answer := s.ask("POST", "/mcp", "["+strings.Join(items, ",")+"]", "Mcp-Session-Id", r.Header.Get("Mcp-Session-Id"))
		if n := strings.Count(answer, `"jsonrpc"`); n != len(items) {
			t.Errorf("the batch got %d answers: %.300s", n, answer)
		}
	})
	bob := h.client(t, "bob/1", mcp.LatestLegacy, "", fake.ClientOptions{})
	for i := range most {
		if got := said(t, bob, mcp.MethodCallTool, echoing("new__", "bob")); !strings.Contains(got, `"content"`) {
			t.Errorf("bob's call %d: %s", i, got)
		}
	}
	calling.Wait()
	tasks := 0
	h.mu.Lock()
	for line := range strings.Lines(h.got.String()) {
		if strings.Contains(line, `"direction":"request"`) && strings.Contains(line, `"name":"task"`) {
			tasks++
		}
	}
	h.mu.Unlock()
	if n := h.executions("ann") + tasks; n != most || h.executions("bob") != most {
		t.Errorf("the servers ran %d calls of ann, %d of them as tasks, and %d of bob; want %d of each", n, tasks, h.executions("bob"), most)
	}
	all := h.traffic.Refused()
	if len(all) != 1 || all[0].Per != limits.Person || all[0].ID != "ann" || all[0].Times == 0 {
		t.Errorf("counted: %+v", all)
	}
}

// TestNewLimitsInRunningSessions changes the numbers while clients are connected. They count for the next request, give
// nobody a full bucket, and the endpoint of a server keeps its handler, so that nobody hears of changed lists.
func TestNewLimitsInRunningSessions(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		h := newLimitedHouse(t, `{per: key, callsPerSecond: 0.01, burst: 3}`)
		c := h.client(t, "ann/1", revision, "/s/new", fake.ClientOptions{})
		call := func() bool { return strings.Contains(said(t, c, mcp.MethodCallTool, echoing("", "x")), `"content"`) }
		for call() {
		}
		handler := h.Default().mount("new").handle.now.Load()
		before := h.executions("x")
		h.limit(t, `{per: key, callsPerSecond: 0.02, burst: 30}`)
		if call() {
			t.Error("the change has filled the bucket")
		}
		h.limit(t, `{per: key, callsPerSecond: 10000, burst: 10000}`)
		for end := time.Now().Add(10 * time.Second); !call() && time.Now().Before(end); {
		}
		if h.executions("x") == before {
			t.Error("the new rate does not count")
		}
		if h.limit(t, `{per: key, callsInFlight: 1}`); h.Default().mount("new").handle.now.Load() != handler {
			t.Error("the handler was replaced")
		}
		h.limit(t, ``)
		for range 5 {
			if !call() {
				t.Error("a limit is left")
			}
		}
	}
}

// TestLimitsOfSharedServers checks that the limits of default go with its servers: they count for the clients of all
// projects together, whatever the project's own limits are.
func TestLimitsOfSharedServers(t *testing.T) {
	h := newLimitedHouse(t, "")
	s := snapshotOf(t, "dragoman: {limits: {traffic: [{per: server, callsPerSecond: 0.01, burst: 4}, {per: key, callsPerSecond: 0.01, burst: 50}]}, projects: {shop: {use: [new], limits: {traffic: [{per: server, callsPerSecond: 0.01, burst: 3}]}}, mall: {use: [new], limits: {traffic: []}}}}\n"+h.text)
	h.Apply(event.DefaultProject, s)
	for _, p := range s.Projects {
		h.Apply(p.Name, p.Config)
	}
	mux := http.NewServeMux()
	h.Routes(mux)
	h.mux = mux
	call := func(who, project string) string {
		body, header := modernRequest(mcp.MethodCallTool, "echo", `{"name":"echo","arguments":{"text":"x"}}`)
		_, _, answer := h.site(t, who).ask("POST", project+"/s/new/mcp", body, header...)
		return answer
	}
	for i, x := range []struct{ who, project, want string }{
		{"ann/1", "/p/shop", `"content"`}, {"ann/2", "/p/shop", `"content"`}, {"bob/1", "/p/shop", `"content"`},
		{"bob/1", "/p/shop", "the server \\\"new\\\" gets at most 0.01 calls per second, and 3 at once"},
		{"bob/1", "/p/mall", `"content"`}, {"ann/1", "/p/mall", "and 4 at once"}, {"ann/1", "", "and 4 at once"},
	} {
		if got := call(x.who, x.project); !strings.Contains(got, x.want) {
			t.Errorf("%d: %s at %q: %s", i, x.who, x.project, got)
		}
	}
}

// TestCallsInFlight holds ann's calls at their server. A further one is refused, until one of them has ended; bob's go
// on. Calls about which she is being asked don't count, and nobody is asked about a call that can't be sent.
func TestCallsInFlight(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		t.Run(revision.String(), func(t *testing.T) {
			h := newLimitedHouse(t, "")
			h.Apply(event.DefaultProject, snapshotOf(t, `dragoman: {limits: {traffic: [{per: person, callsInFlight: 2}]}, policy: [{match: "*/add", do: confirm}]}`+"\n"+h.text))
			asked, answer := make(chan struct{}, 9), make(chan struct{})
			ask := func(context.Context, fake.Ask) ([]byte, *jsonrpc.Error) {
				asked <- struct{}{}
				<-answer
				return []byte(`{"action":"accept"}`), nil
			}
			const add = `"name":"new__add","arguments":{"a":1,"b":2}`
			wait := `"name":"new__wait","arguments":{"steps":1,"ms":1}`
			results := make(chan string, 9)
			var calling sync.WaitGroup
			call := func(key, params string) {
				c := h.client(t, "ann/"+key, revision, "", fake.ClientOptions{Answer: ask})
				calling.Go(func() { results <- said(t, c, mcp.MethodCallTool, params) })
			}
			for range 3 {
				call("1", add)
				<-asked
			}
			call("2", wait)
			call("3", wait)
			ann, bob := h.client(t, "ann/4", revision, "", fake.ClientOptions{Answer: ask}), h.client(t, "bob/1", revision, "", fake.ClientOptions{})
			for h.inFlight() < 2 {
				time.Sleep(time.Millisecond)
			}
			const refused = `"ann" with all keys together gets at most 2 calls in flight`
			if got := said(t, ann, mcp.MethodCallTool, echoing("new__", "x")); !strings.Contains(got, refused) {
				t.Errorf("a third call: %s", got)
			}
			if got := said(t, ann, mcp.MethodCallTool, add); !strings.Contains(got, refused) || len(asked) > 0 {
				t.Errorf("a call that can't be sent: %s, and she was asked %d times", got, len(asked))
			}
			if got := said(t, bob, mcp.MethodCallTool, echoing("new__", "x")); !strings.Contains(got, `"content"`) {
				t.Errorf("bob: %s", got)
			}
			close(h.held)
			for range 2 {
				if got := <-results; !strings.Contains(got, `"content"`) {
					t.Errorf("a call that was held: %s", got)
				}
			}
			for h.inFlight() > 0 {
				time.Sleep(time.Millisecond)
			}
			if got := said(t, ann, mcp.MethodCallTool, echoing("new__", "x")); !strings.Contains(got, `"content"`) {
				t.Errorf("after they have ended: %s", got)
			}
			close(answer)
			calling.Wait()
			if h.inFlight() != 0 {
				t.Errorf("%d calls are left", h.inFlight())
			}
		})
	}
}

// inFlight returns how many calls of ann are in flight.
func (h *limitedHouse) inFlight() (n int) {
	p := limits.Claim{Party: limits.Party{Per: limits.Person, Project: event.DefaultProject, ID: "ann"}, Limit: &limits.Limit{InFlight: 1 << 30}}
	for n = range 10 {
		p.Limit = &limits.Limit{InFlight: n + 1}
		if done, r := h.traffic.Begin([]limits.Claim{p}); r == nil {
			done()
			return n
		}
	}
	return n
}

// TestBytesPerMinute lets ann get a long result. What comes then is refused, and bob's isn't.
func TestBytesPerMinute(t *testing.T) {
	h := newLimitedHouse(t, `{per: key, bytesPerMinute: 20KiB}`)
	ann, bob := h.client(t, "ann/1", mcp.LatestLegacy, "", fake.ClientOptions{}), h.client(t, "bob/1", mcp.LatestLegacy, "", fake.ClientOptions{})
	long := echoing("new__", strings.Repeat("x", 30<<10))
	if got := said(t, ann, mcp.MethodCallTool, long); !strings.Contains(got, `"content"`) {
		t.Errorf("%.300s", got)
	}
	if got := said(t, ann, mcp.MethodCallTool, echoing("new__", "ann")); !strings.Contains(got, `the key "ann/1" gets at most 20480 bytes per minute`) || h.executions("ann") != 0 {
		t.Errorf("%.300s", got)
	}
	if got := said(t, bob, mcp.MethodCallTool, echoing("new__", "bob")); !strings.Contains(got, `"content"`) {
		t.Errorf("bob: %.300s", got)
	}
}

// TestLimitsCountOnce lets a call wait for a confirmation, for a sign-in, and for both, also one whose item is unknown
// before the sign-in, with clients of both eras. Its limit is one call, so it would be refused if it counted twice.
func TestLimitsCountOnce(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		for _, match := range []string{"none/x", "*/echo"} {
			for _, quick := range []bool{false, true} {
				for _, door := range []struct{ server, path, prefix string }{{"old", "", "old__"}, {"new", "", "new__"}, {"old", "/s/old", ""}, {"new", "/s/new", ""}} {
					t.Run(fmt.Sprintf("%s %s quick %t at %q %s", revision, strings.ReplaceAll(match, "/", "_"), quick, door.path, door.server), func(t *testing.T) {
						d := newDesk()
						h := openGuarded(t, d, identity.Anyone)
						s := *h.Default().Current()
						s.Policy = policy.Rules{{Match: []string{match}, Do: policy.Confirm}}
						s.Limits.Traffic = []limits.Limit{{Per: limits.Key, Calls: 0.01, Burst: 1, InFlight: 1}}
						h.Apply(event.DefaultProject, &s)
						c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: h.url + door.path + "/mcp"}, fake.ClientOptions{
							Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
								switch link, _ := jsonrpc.ValueOf(a.Params).Get("url").Text(); {
								case link == "":
								case quick:
									d.finish(link, nil) // before the retry comes
								default:
									time.AfterFunc(250*time.Millisecond, func() { d.finish(link, nil) })
								}
								return []byte(`{"action":"accept"}`), nil
							},
						})
						if err != nil {
							t.Fatal(err)
						}
						defer func() { _ = c.Close() }()
						params := []byte(`{"name":"` + door.prefix + `echo","arguments":{"text":"signed"}}`)
						r, err := c.Call(t.Context(), mcp.MethodCallTool, params, fake.CallOptions{Progress: true})
						if err != nil {
							t.Fatal(err)
						}
						if r.Err != nil || h.executions("signed") != 1 {
							t.Errorf("the server executed %d calls: %s %v", h.executions("signed"), r.Result, r.Err)
						}
						if got := said(t, c, mcp.MethodCallTool, echoing(door.prefix, "signed")); !strings.Contains(got, "1 at once") {
							t.Errorf("a second call: %s", got)
						}
					})
				}
			}
		}
	}
}

// TestLongResults calls a tool with a long result, with a client of every revision, over HTTP and on a pipe, at the
// endpoint of all servers and at those of one server of each era. The client gets the beginning, and the whole by
// resources/read at either kind of endpoint. Bob and another key of ann get what they would get for any unknown URI,
// and so does ann when a rule denies her the tool.
func TestLongResults(t *testing.T) {
	h := newLimitedHouse(t, "")
	set := func(settings string) {
		h.Apply(event.DefaultProject, snapshotOf(t, "dragoman: {limits: {result: 1KiB}"+settings+"}\n"+h.text))
	}
	long := strings.Repeat(`a "line" of ünïcode`+"\n", 500)
	address := regexp.MustCompile(`dragoman://results/\w+`)
	for _, revision := range mcp.Revisions() {
		for _, door := range []struct{ path, prefix, other string }{{"", "old__", "/s/old"}, {"", "new__", "/s/new"}, {"/s/old", "", ""}, {"/s/new", "", "/s/old"}} {
			for _, who := range []string{"ann/1", ""} {
				t.Run(fmt.Sprintf("%s at %q %s of %q", revision, door.path, door.prefix, who), func(t *testing.T) {
					set("")
					c := h.client(t, who, revision, door.path, fake.ClientOptions{})
					got := said(t, c, mcp.MethodCallTool, echoing(door.prefix, long))
					uri := address.FindString(got)
					if len(got) > 2500 || uri == "" || !strings.Contains(got, `ünïcode\n\n[Dragoman has shortened this result, which has 12502 bytes`) || strings.Contains(got, `"resource_link"`) != revision.Can(mcp.ResourceLinks) {
						t.Fatalf("%d bytes: %.3000s", len(got), got)
					}
					const nobodys = "dragoman://results/AAAAAAAAAAAAAAAAAAAAAAAAAA"
					read := func(c *fake.Client, uri string) string {
						return said(t, c, mcp.MethodReadResource, fmt.Sprintf(`"uri":%q`, uri))
					}
					for _, c := range []*fake.Client{c, h.client(t, who, revision, door.other, fake.ClientOptions{})} {
						whole := read(c, uri)
						n := 0
						for e := range jsonrpc.ValueOf([]byte(whole)).Get("contents").Elements() {
							if s, _ := e.Get("text").Text(); s == long {
								n++
							}
						}
						if n != 1 {
							t.Errorf("reading it: %.300s", whole)
						}
						if bad := c.Violations(); len(bad) > 0 {
							t.Errorf("the client saw violations: %q", bad)
						}
					}
					same := func(c *fake.Client, what string) {
						if got, want := read(c, uri), strings.ReplaceAll(read(c, nobodys), nobodys, uri); got != want || !strings.HasPrefix(got, "error") {
							t.Errorf("%s gets %.300s, and for an unknown one %.300s", what, got, want)
						}
					}
					same(h.client(t, "bob/1", revision, door.path, fake.ClientOptions{}), "bob")
					same(h.client(t, "ann/2", revision, door.path, fake.ClientOptions{}), "another key")
					if short := said(t, c, mcp.MethodCallTool, echoing(door.prefix, "short")); strings.Contains(short, "Dragoman") {
						t.Errorf("a short result: %s", short)
					}
					set(`, policy: [{match: "*/echo", do: deny}]`)
					same(c, "who may not use the tool any more")
				})
			}
		}
	}
	h.Apply(event.DefaultProject, snapshotOf(t, h.text))
	if got := said(t, h.client(t, "ann/1", mcp.Latest, "", fake.ClientOptions{}), mcp.MethodCallTool, echoing("new__", long)); len(got) < len(long) || strings.Contains(got, "Dragoman") {
		t.Errorf("without a limit: %.300s", got)
	}
}
