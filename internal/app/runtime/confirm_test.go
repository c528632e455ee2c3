package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
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

const confirmRules = `dragoman: {policy: [{match: ["*/echo", "*/task", "*/prompt:greet", "*/resource:fake://text"], do: confirm}]}` + "\n"

// confirmed are requests that need confirmation, with * for the prefix of names, and the last of them one that
// doesn't.
var confirmed = []struct{ method, params, shown, result string }{
	{mcp.MethodCallTool, `"name":"*echo","arguments":{"text":"x\u202ey"}`, `its tool "echo" with these arguments?` + "\n" + `"text": "x\u202ey"`, `"content"`},
	{mcp.MethodGetPrompt, `"name":"*greet","arguments":{"name":"Zoë"}`, `its prompt "greet" with these arguments?` + "\n" + `"name": "Zoë"`, `"messages"`},
	{mcp.MethodReadResource, `"uri":"fake://text"`, `its resource "fake://text"?` + "\n", `"contents"`},
	{mcp.MethodCallTool, `"name":"*add","arguments":{"a":1,"b":2}`, "", `"content"`},
}

// TestConfirmAtEveryDoor sends requests that need confirmation, with a strict client of every revision, over HTTP and
// on a pipe, at the endpoint of all servers and at those of one server of each era. Who agrees gets the result of one
// execution; who doesn't, and whose client can't ask, gets an error, and no server hears of it. What no rule names is
// not asked about.
func TestConfirmAtEveryDoor(t *testing.T) {
	h := newRuledHouse(t)
	h.Apply(event.DefaultProject, snapshotOf(t, confirmRules+h.text))
	for _, revision := range mcp.Revisions() {
		for _, action := range []string{"accept", "decline", "cancel"} {
			for _, door := range []struct{ path, server, prefix string }{{"", "old", "old__"}, {"", "new", "new__"}, {"/s/old", "old", ""}, {"/s/new", "new", ""}} {
				for _, pipe := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s %s at %q pipe %t", revision, action, door.server, door.path, pipe), func(t *testing.T) {
						h.confirmEach(t, revision, action, door.path, door.server, door.prefix, pipe)
					})
				}
			}
		}
	}
}

func (h *ruledHouse) confirmEach(t *testing.T, revision mcp.Revision, action, path, server, prefix string, pipe bool) {
	at := fake.Where{URL: h.sites["ann"].base + path + "/mcp"}
	switch {
	case pipe && path == "":
		at = pipeTo(t, h.Default().Joined())
	case pipe:
		at = pipeTo(t, h.Default().mount(server).clients)
	case !revision.Can(mcp.StreamableHTTP):
		at.URL = h.sites["ann"].base + path + "/sse"
	}
	var asked []string
	c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), at, fake.ClientOptions{
		Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
			message, _ := jsonrpc.ValueOf(a.Params).Get("message").Text()
			asked = append(asked, message)
			return []byte(`{"action":"` + action + `"}`), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range confirmed {
		asked = nil
		before := h.sent(q.method)
		got, sent := said(t, c, q.method, strings.ReplaceAll(q.params, "*", prefix)), h.sent(q.method)-before
		if q.method == mcp.MethodReadResource && path == "" {
			server = "" // either has it
		}
		want, times := q.result, 1
		switch {
		case q.shown == "":
		case !revision.Can(mcp.Elicitation):
			want, times = "use a client with elicitation, set questions: console", 0
		case action != "accept":
			want, times = "the person who was asked did not agree", 0
		}
		if !strings.Contains(got, want) || sent != times {
			t.Errorf("%s: got %s, and the servers got %d requests, want %d", q.params, got, sent, times)
		}
		if asks := q.shown != "" && revision.Can(mcp.Elicitation); !asks && len(asked) > 0 ||
			asks && (len(asked) != 1 || !strings.Contains(asked[0], q.shown) || !strings.Contains(asked[0], server) || !strings.Contains(asked[0], `because of the rule for "*/`)) {
			t.Errorf("%s: the person was asked %q", q.params, asked)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if bad := c.Violations(); len(bad) > 0 {
		t.Errorf("the client saw violations: %q", bad)
	}
}

// confirmation is a request that was asked about, with its requestState.
type confirmation struct {
	method, name, params, state string
}

// request returns the request to confirm, or with an action its retry.
func (c confirmation) request(action string) (body string, header []string) {
	params := c.params
	if action != "" {
		params = strings.TrimSuffix(params, "}") + fmt.Sprintf(`,"inputResponses":{"user_confirm":{"action":%q}},"requestState":%q}`, action, c.state)
	}
	return modernRequest(c.method, c.name, params)
}

// begin sends a request that is asked about.
func (s *site) begin(path, method, name, params string) confirmation {
	s.t.Helper()
	c := confirmation{method: method, name: name, params: params}
	body, header := c.request("")
	_, _, answer := s.ask("POST", path+"/mcp", body, header...)
	c.state = resultMember(s.t, answer, "requestState")
	return c
}

// finish retries a request with an answer, and returns the answer to the retry.
func (s *site) finish(path string, c confirmation, action string) string {
	s.t.Helper()
	body, header := c.request(action)
	_, _, answer := s.ask("POST", path+"/mcp", body, header...)
	return answer
}

func (s *site) list(path string) {
	for cursor := "{}"; cursor != ""; {
		body, header := modernRequest(mcp.MethodListResources, "", cursor)
		_, _, answer := s.ask("POST", path+"/mcp", body, header[:4]...)
		if cursor = ""; strings.Contains(answer, "nextCursor") {
			cursor = fmt.Sprintf(`{"cursor":%q}`, resultMember(s.t, answer, "nextCursor"))
		}
	}
}

// TestTA43 lets a confirmed call come back with other arguments, twice, several times at once, at another endpoint,
// in another project, in another process and from another person. Only the call that the person was asked about is
// executed, and only once. Bob, whom nobody tries to cheat, confirms a call of his own meanwhile.
func TestTA43(t *testing.T) {
	h := newRuledHouse(t)
	h.Apply(event.DefaultProject, snapshotOf(t, confirmRules+h.text))
	h.Apply("shop", snapshotOf(t, confirmRules+h.text))
	another := newRuledHouse(t)
	another.Apply(event.DefaultProject, snapshotOf(t, confirmRules+h.text)) // the same servers
	ann, bob, elsewhere := h.sites["ann"], h.sites["bob"], another.sites["ann"]
	for _, s := range []*site{ann, bob, elsewhere} { // who has which resource is looked for by reading it, unless it's listed
		s.list("")
	}
	ann.list("/p/shop")
	for _, server := range []string{"old", "new"} {
		for path, prefix := range map[string]string{"": server + "__", "/s/" + server: ""} {
			other := map[string]string{"": "/s/" + server, "/s/" + server: ""}[path]
			for _, x := range []struct{ method, name, params string }{
				{mcp.MethodCallTool, prefix + "echo", `{"name":"` + prefix + `echo","arguments":{"text":"one","n":{"a":[1,"b"]}}}`},
				{mcp.MethodCallTool, prefix + "task", `{"name":"` + prefix + `task","arguments":{"text":"one"}}`},
				{mcp.MethodGetPrompt, prefix + "greet", `{"name":"` + prefix + `greet","arguments":{"name":"one"}}`},
				{mcp.MethodReadResource, "fake://text", `{"uri":"fake://text"}`},
			} {
				before := h.sent(x.method)
				sent := func() int { return h.sent(x.method) - before }
				mine, his := ann.begin(path, x.method, x.name, x.params), bob.begin(path, x.method, x.name, x.params)
				declined := ann.begin(path, x.method, x.name, x.params)
				altered := mine
				altered.params = strings.ReplaceAll(x.params, "one", "two")
				renamed := mine
				renamed.name, renamed.params = prefix+"add", strings.ReplaceAll(x.params, x.name, prefix+"add")
				for _, c := range []struct {
					what   string
					from   *site
					path   string
					retry  confirmation
					action string
				}{
					{"other arguments", ann, path, altered, "accept"}, {"another tool", ann, path, renamed, "accept"},
					{"another person", bob, path, mine, "accept"}, {"another project", ann, "/p/shop" + path, mine, "accept"},
					{"another process", elsewhere, path, mine, "accept"}, {"another endpoint", ann, other, mine, "accept"},
					{"an answer that is none", ann, path, mine, "sure"},
					{"a decline", ann, path, declined, "decline"}, {"an accept after it", ann, path, declined, "accept"},
				} {
					if x.method == mcp.MethodReadResource && (c.retry == mine && c.from == ann && c.path == other || c.retry == altered || c.retry == renamed) {
						continue // the very same request
					}
					if answer := c.from.finish(c.path, c.retry, c.action); !strings.Contains(answer, `"error"`) || sent() != 0 {
						t.Errorf("%s %s %q: %s: the servers got %d requests, and the client %s", server, x.name, path, c.what, sent(), answer)
					}
				}
				results, paths := make([]string, 8), []string{path, path, path, path}
				if x.method == mcp.MethodReadResource {
					paths = []string{path, other, path, other} // the same params are valid at both
				}
				var all sync.WaitGroup
				for i := range results {
					all.Go(func() { results[i] = ann.finish(paths[i%4], mine, "accept") })
				}
				all.Go(func() {
					if got := bob.finish(path, his, "accept"); !strings.Contains(got, `"result"`) {
						t.Errorf("%s %s %q: bob gets %s", server, x.name, path, got)
					}
				})
				all.Wait()
				done := 0
				for _, got := range results {
					if strings.Contains(got, `"result"`) {
						done++
					}
				}
				if n := sent(); n != 2 || done != 1 {
					t.Errorf("%s %s %q: the servers got %d requests, and %d retries the result; want one of ann and one of bob: %q", server, x.name, path, n, done, results)
				}
				if got := ann.finish(path, mine, "accept"); !strings.Contains(got, "has been used") || sent() != 2 {
					t.Errorf("%s %s %q: once more, ann gets %s", server, x.name, path, got)
				}
			}
		}
	}
}

// TestConfirmedTask confirms a call of a legacy client that becomes a task, and declines another. Neither is created
// before that.
func TestConfirmedTask(t *testing.T) {
	h := newRuledHouse(t)
	h.Apply(event.DefaultProject, snapshotOf(t, confirmRules+h.text))
	for path, prefixes := range map[string][]string{"": {"old__", "new__"}, "/s/old": {""}, "/s/new": {""}} {
		for _, prefix := range prefixes {
			for _, action := range []string{"accept", "decline"} {
				before, early := h.sent(mcp.MethodCallTool), 0
				c, err := fake.OpenClient(t.Context(), "strict-2025-11-25", fake.Where{URL: h.sites["ann"].base + path + "/mcp"}, fake.ClientOptions{
					Answer: func(context.Context, fake.Ask) ([]byte, *jsonrpc.Error) {
						early = h.sent(mcp.MethodCallTool) - before
						return []byte(`{"action":"` + action + `"}`), nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				got := said(t, c, mcp.MethodCallTool, `"name":"`+prefix+`task","task":{},"arguments":{}`)
				made, sent := strings.Contains(got, `"taskId"`), h.sent(mcp.MethodCallTool)-before
				if early != 0 || made != (action == "accept") || made != (sent == 1) || !made && !strings.Contains(got, "did not agree") {
					t.Errorf("%s %s: %s; the server got %d calls before the answer, %d in all", prefix, action, got, early, sent)
				}
				_ = c.Close()
			}
		}
	}
}

// TestConfirmAsks checks what the step says about single calls.
func TestConfirmAsks(t *testing.T) {
	p := &Project{runtime: &Runtime{}}
	r := p.newRules(&config.Snapshot{
		Servers: []config.Server{{Name: "git", Shared: true}},
		House:   policy.Rules{{Match: []string{"git/push", "git/resource:x:*"}, Do: policy.Confirm}, {Match: []string{"git/drop"}, Do: policy.Deny}},
		Policy:  policy.Rules{{Match: []string{"git/log", "git/drop"}, Do: policy.Confirm}, {Match: []string{"git/resource:x:1"}}},
	})
	step := r.chain(nil)[2]
	for _, c := range []struct {
		method, name string
		answer       string
		resumed      bool
		want         string
	}{
		{mcp.MethodCallTool, "push", "", false, `asked git/push`},
		{mcp.MethodCallTool, "log", "", false, `asked git/log`},
		{mcp.MethodCallTool, "pull", "", false, ""},
		{mcp.MethodReadResource, "x:1", "", false, `asked git/resource:x:*`},
		{mcp.MethodGetSkill, "x:1", "", false, `asked git/resource:x:*`},
		{mcp.MethodReadDirectory, "x:1", "", false, `asked git/resource:x:*`},
		{mcp.MethodSubscribe, "x:1", "", false, ""},
		{mcp.MethodListTools, "", "", false, ""},
		{mcp.MethodCallTool, "push", "accept", false, ""},
		{mcp.MethodCallTool, "push", "decline", true, "refused"},
		{mcp.MethodCallTool, "pull", "cancel", false, "refused"}, // the rule is gone, but the person has said no
		{mcp.MethodCallTool, "push", "", true, ""},
	} {
		call := &policy.Call{Server: "git", Name: c.name, Resumed: c.resumed, Request: mcp.NewCall(jsonrpc.NewRequest("1", c.method, []byte("{}")), jsonrpc.Span{}, &mcp.ClientInfo{Revision: mcp.Latest})}
		if c.answer != "" {
			call.Answers = []mcp.Answered{{Step: stepConfirm, Result: []byte(`{"action":"` + c.answer + `"}`)}}
		}
		got := ""
		switch v := step.Before(t.Context(), call); {
		case v.Refuse != nil:
			got = "refused"
			if e := mcp.Wire(v.Refuse); !strings.Contains(string(e.Data), `"outcome":"not_sent"`) {
				t.Errorf("the error is %s with %s", e.Message, e.Data)
			}
		case v.Ask != nil:
			_, by, _ := strings.Cut(v.Ask.Question.Message, "rule for \"")
			got = "asked " + strings.TrimSuffix(by, "\".)")
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.name, got, c.want)
		}
	}
	if newRuling(r, policy.Caller{}).say(catalog.KindTool, "git", "drop").Do != policy.Deny {
		t.Error("of two lists, the one that denies must win")
	}
}

// TestQuestionShowsEverything checks that no argument can hide another, or look like what it isn't.
func TestQuestionShowsEverything(t *testing.T) {
	many := map[string]any{}
	for i := range 23 {
		many[fmt.Sprintf("k%02d", i)] = i
	}
	all, _ := json.Marshal(many)
	long := strings.Repeat("x", 3000)
	for _, c := range []struct{ args, want, not string }{
		{`{"a":"\u202egpj.exe","b":"l1\nl2"}`, `"a": "\u202egpj.exe"` + "\n" + `"b": "l1\nl2"` + "\n(", "\u202e"},
		{`{"\u0061":"\u0072m","o":{"k":["\u200b",1.50,true,null,{}]}}`, `"a": "rm"` + "\n" + `"o": {"k": ["\u200b", 1.50, true, null, {}]}`, "\u200b"},
		{`{"a":"` + long + `","b":"` + long + `","danger":true}`, "… (cut)\n\"danger\": true\n", long},
		{`{"a":[` + strings.Repeat(`"`+long+`",`, 50) + `1],"danger":true}`, "… (cut)\n\"danger\": true\n", long},
		{string(all), "\"k19\": 19\nand 3 more arguments, which are not shown\n", "k20"},
		{`{"a":"x` + "\u3164\u2800" + `y"}`, `"a": "x\u3164\u2800y"`, "\u3164"},
		{`{"x\ny":1}`, `"x\ny": 1`, "x\n"},
		{`{}`, `its tool "t"?` + "\n(", "arguments"},
		{``, `its tool "t"?` + "\n(", "arguments"},
		{`["rm","\u200b"]`, "with these arguments?\n" + `["rm", "\u200b"]` + "\n(", "\u200b"},
		{`"rm"`, "with these arguments?\n" + `"rm"` + "\n(", "\u200b"},
	} {
		call := &policy.Call{Server: "git", Name: "t", Args: jsonrpc.ValueOf([]byte(c.args))}
		got := questionAbout(catalog.KindTool, call, "git/*")
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) || len(got) > 30*(mostOfName+mostOfValue) {
			t.Errorf("%.80s: %s", c.args, got)
		}
	}
}

// TestConfirmAfterSignIn calls tools of servers that want a sign-in first. Before it, nobody knows the items of such a
// server, so the rule for one of them matches only afterwards. The person is then asked about the call before it's
// sent, also if a retry brings the news of the sign-in; who has confirmed before is not asked twice.
func TestConfirmAfterSignIn(t *testing.T) {
	for _, revision := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		for _, match := range []string{"*/echo", "*"} {
			for _, quick := range []bool{false, true} {
				for _, action := range []string{"accept", "decline"} {
					for _, door := range []struct{ server, path, prefix string }{{"old", "", "old__"}, {"new", "", "new__"}, {"old", "/s/old", ""}, {"new", "/s/new", ""}} {
						t.Run(fmt.Sprintf("%s %s quick %t %s at %q %s", revision, strings.ReplaceAll(match, "/", "_"), quick, action, door.path, door.server), func(t *testing.T) {
							d := newDesk()
							h := openGuarded(t, d, identity.Anyone)
							s := *h.Default().Current()
							s.Policy = policy.Rules{{Match: []string{match}, Do: policy.Confirm}}
							h.Apply(event.DefaultProject, &s)
							questions := 0
							c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: h.url + door.path + "/mcp"}, fake.ClientOptions{
								Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
									link, _ := jsonrpc.ValueOf(a.Params).Get("url").Text()
									switch {
									case link == "":
										questions++
										return []byte(`{"action":"` + action + `"}`), nil
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
							var got string
							params := []byte(`{"name":"` + door.prefix + `echo","arguments":{"text":"signed"}}`)
							if r, err := c.Call(t.Context(), mcp.MethodCallTool, params, fake.CallOptions{Progress: true}); err != nil {
								t.Fatal(err)
							} else if got = string(r.Result); r.Err != nil {
								got = r.Err.Message
							}
							want, n := `"signed"`, 1
							if action == "decline" {
								want, n = "did not agree", 0
							}
							if !strings.Contains(got, want) || questions != 1 || h.executions("signed") != n {
								t.Errorf("the person was asked %d times, the server executed %d calls, and the client got %s", questions, h.executions("signed"), got)
							}
						})
					}
				}
			}
		}
	}
}

// TestConfirmInSessions calls a tool from the ways to a server that are no endpoints: a session of a command, which knows
// the rules of the file that has the server, and the console's visitor. Each asks its own person.
func TestConfirmInSessions(t *testing.T) {
	h := newHouse(t)
	s := *h.Default().Current()
	s.Policy = policy.Rules{{Match: []string{"*/echo"}, Roles: []identity.Role{identity.Operator}, Do: policy.Confirm}, {Match: []string{"*/add"}, Do: policy.Deny}}
	caller := h.opts.Caller
	h.opts.Caller = func(who *identity.Principal, _ string) policy.Caller { return localUser(who) }
	defer func() { h.opts.Caller = caller }()
	h.Apply(event.DefaultProject, &s)
	for _, server := range s.Servers {
		for _, action := range []string{"accept", "decline", ""} {
			asked, want, executions := 0, map[string]string{"accept": `"text":"mine"`, "decline": "did not agree", "": "can't ask one"}[action], 0
			if action == "accept" {
				executions = 1
			}
			o := ConnectOptions{Server: server, Log: slog.New(slog.DiscardHandler), Events: &event.Publisher{}, Rules: &s}
			visit := VisitOptions{Who: identity.Local}
			var v *Visitor
			var answers sync.WaitGroup
			if action != "" {
				o.Answer = func(context.Context, Question) Answer {
					asked++
					return Answer{Action: action}
				}
				visit.Capabilities = []byte(`{"elicitation":{"form":{}}}`)
				visit.Heard = func(m *jsonrpc.Message) {
					if m.Kind == jsonrpc.Request {
						asked++
						answers.Go(func() { v.Answer(context.Background(), m.ID, []byte(`{"action":"`+action+`"}`)) })
					}
				}
			}
			session, err := Connect(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if v, err = h.Default().Visit(t.Context(), server.Name, visit); err != nil {
				t.Fatal(err)
			}
			for door, call := range map[string]func() string{
				"session": func() string {
					result, err := session.Call(t.Context(), "echo", []byte(`{"text":"mine"}`), nil)
					if err != nil {
						return err.Error()
					}
					return string(result)
				},
				"visitor": func() string {
					m, err := v.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"echo","arguments":{"text":"mine"}}`))
					if err != nil {
						t.Fatal(err)
					}
					return string(m.Raw)
				},
			} {
				asked = 0
				before := h.executions("mine")
				if got := call(); !strings.Contains(got, want) || h.executions("mine")-before != executions || asked != min(1, len(action)) {
					t.Errorf("%s %s %q: the person was asked %d times, the server ran %d calls: %s", server.Name, door, action, asked, h.executions("mine")-before, got)
				}
			}
			if got, err := session.Call(t.Context(), "add", []byte(`{"a":1,"b":2}`), nil); err != nil || !strings.Contains(string(got), `"3"`) {
				t.Errorf("%s: a session for the user alone refuses what the rules deny to clients: %s, %v", server.Name, got, err)
			}
			answers.Wait()
			session.Close()
			v.Close()
		}
	}
}
