package gateway_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// searched is a server with a few tools, and echoes what it gets.
func searched(modern bool, tools ...string) *testServer {
	s := &testServer{modern: modern}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodListTools:
			l.answer(m, `{"tools":[`+strings.Join(tools, ",")+`]}`)
		case m.Method == mcp.MethodCallTool:
			l.answer(m, `{"content":[{"type":"text","text":"done"}],"structuredContent":{"got":`+string(m.Param("arguments").Of(m.Raw))+`},"isError":false}`)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{}`)
		}
	}
	return s
}

const (
	readFile   = `{"name":"read_file","description":"Reads a file. It must exist.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer"}},"required":["path"],"additionalProperties":false},"annotations":{"readOnlyHint":true}}`
	deleteFile = `{"name":"delete_file","description":"Deletes a file.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]},"annotations":{"destructiveHint":true}}`
	forPages   = `{"name":"refresh_page","description":"Refreshes the file on the page.","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]}}}`
	weather    = `{"name":"forecast","description":"Says how the weather will be.","inputSchema":{"type":"object","properties":{"big":{"type":"integer"}}},"annotations":{"readOnlyHint":true}}`
)

// buildFind builds a Dragoman in search mode. All tools of a are trusted.
func buildFind(t *testing.T, servers ...*testServer) (*whole, *gateway.Merged) {
	t.Helper()
	w := build(t, servers...)
	g := w.host.(*gateway.Merged)
	g.Find = gateway.Find{Search: true, Hints: map[string]string{"a": "files and folders", "b": "weather"}, Trusted: func(server, name string) bool { return server == "a" }}
	return w, g
}

// says sends a request in a revision and returns the answer.
func (n *testClient) says(r mcp.Revision, id, method, params string) string {
	n.t.Helper()
	if r.Modern() {
		n.say(modernRequest(id, method, params, `{}`))
	} else {
		n.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
	}
	return string(n.answerTo(id).Raw)
}

// clientIn returns a client that has shaken hands in a revision, if it has a handshake.
func (w *whole) clientIn(r mcp.Revision) *testClient {
	n := w.client()
	if !r.Modern() {
		n.say(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + r.String() + `","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`)
		n.answerTo(`"init"`)
		n.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return n
}

// TestTS01_TheFourTools compares the lists and the answers in all revisions with testdata/find.txt, byte for byte. The
// order and the number of search results is for package ranking, so they aren't in it.
func TestTS01_TheFourTools(t *testing.T) {
	var out strings.Builder
	for _, r := range slices.Backward(mcp.Revisions()) {
		inBubble(t, func(t *testing.T) {
			w, _ := buildFind(t, searched(false, readFile, deleteFile, forPages), searched(true, weather))
			n := w.clientIn(r)
			fmt.Fprintf(&out, "# %s\n%s\n", r, n.says(r, "1", "tools/list", ""))
			if r != mcp.Latest && r != mcp.R20241105 {
				return
			}
			for i, x := range []string{
				`"name":"describe_tools","arguments":{"names":["a__read_file","b__forecast"]}`,
				`"name":"describe_tools","arguments":{"names":["a__read_file","a__refresh_page"]}`,
				`"name":"describe_tools","arguments":{"names":["a__nothing"]}`,
				`"name":"describe_tools","arguments":{"names":[]}`,
				`"name":"call_read_tool","arguments":{"name":"a__read_file","arguments":{"path":"x"}}`,
				`"name":"call_read_tool","arguments":{"name":"a__delete_file","arguments":{"path":"x"}}`,
				`"name":"call_read_tool","arguments":{"name":"b__forecast"}`,
				`"name":"call_tool","arguments":{"name":"a__delete_file","arguments":{"path":"x"}}`,
				`"name":"call_tool","arguments":{"name":"b__forecast","arguments":{"big":12345678901234567890}}`,
				`"name":"call_tool","arguments":{"name":"b__forecast","arguments":null}`,
				`"name":"call_tool","arguments":{"name":"a__read_file","arguments":{"lines":"seven","pat":"x"}}`,
				`"name":"call_tool","arguments":{"name":"a__refresh_page","arguments":{}}`,
				`"name":"call_tool","arguments":{"arguments":{"name":"a__read_file","path":"x"}}`,
				`"name":"call_tool","arguments":{"name":"a__read_file","arguments":"{\"path\":\"x\"}"}`,
				`"name":"call_tool","arguments":{"name":"a__read_file","arguments":["x"]}`,
				`"name":"call_tool","arguments":{"name":"a__read_file","path":"x"}`,
				`"name":"call_tool","arguments":{"name":7}`,
				`"name":"call_tool"`,
				`"name":"call_tool","arguments":{"name":"A__Read_File","arguments":{"path":"x"}}`,
				`"name":"call_tool","arguments":{"name":" a__read_file ","arguments":{"path":"x"}}`,
				`"name":"call_tool","arguments":{"name":"call_tool","arguments":{"name":"a__read_file"}}`,
				`"name":"a__delete_file","arguments":{"path":"listed or not"}`,
				`"name":"a__refresh_page","arguments":{}`,
			} {
				fmt.Fprintf(&out, "> %s\n%s\n", x, n.says(r, fmt.Sprint(i+2), "tools/call", x))
			}
		})
	}
	alike := regexp.MustCompile(`Names that are alike: [^.]*\.`) // which ones is for package ranking
	golden(t, "find.txt", alike.ReplaceAllString(out.String(), "Names that are alike: …."))
}

// TestTS01_Modes checks which clients list all tools, and which search: by the setting, by the address, and with auto
// by how much there is and who asks.
func TestTS01_Modes(t *testing.T) {
	big := `{"name":"big","description":"` + strings.Repeat("x", 41<<10) + `","inputSchema":{"type":"object"}}`
	for name, c := range map[string]struct {
		find   gateway.Find
		tools  []string
		client string // clientInfo
		few    bool
		found  bool // call_tool works nevertheless
	}{
		"list":                         {tools: []string{readFile}},
		"search":                       {find: gateway.Find{Search: true}, tools: []string{readFile}, few: true, found: true},
		"auto, little":                 {find: gateway.Find{Auto: true}, tools: []string{readFile}, found: true},
		"auto, much":                   {find: gateway.Find{Auto: true}, tools: []string{readFile, big}, few: true, found: true},
		"auto, searches itself":        {find: gateway.Find{Auto: true}, tools: []string{readFile, big}, client: `{"name":"claude-code","version":"2.1.7"}`, found: true},
		"auto, an older one":           {find: gateway.Find{Auto: true}, tools: []string{readFile, big}, client: `{"name":"claude-code","version":"2.1.6"}`, few: true, found: true},
		"auto, a newer one":            {find: gateway.Find{Auto: true}, tools: []string{readFile, big}, client: `{"name":"codex-mcp-client","version":"1.0.0-alpha.2"}`, found: true},
		"search, one searching itself": {find: gateway.Find{Search: true}, tools: []string{readFile, big}, client: `{"name":"claude-code","version":"2.1.7"}`, few: true, found: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := build(t, searched(false, c.tools...), searched(true))
				g := w.host.(*gateway.Merged)
				g.Find = c.find
				for _, always := range []bool{false, true} {
					if w.host = g; always {
						w.host = gateway.Finder{Merged: g}
					}
					n := w.client()
					info := c.client
					if info == "" {
						info = `{"name":"n","version":"1"}`
					}
					w.relay.Events.NextCall()
					n.say(`{"jsonrpc":"2.0","id":0,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + info + `}}}`)
					list := string(n.answerTo("0").Raw)
					few := c.few || always
					if strings.Contains(list, `"name":"search_tools"`) != few || strings.Contains(list, `"name":"a__read_file"`) == few || strings.Contains(list, `"ttlMs":300000`) != few {
						t.Errorf("always: %t: the list is %.300s", always, list)
					}
					got := n.says(mcp.Latest, "1", "tools/call", `"name":"call_tool","arguments":{"name":"a__read_file","arguments":{"path":"x"}}`)
					if strings.Contains(got, `"got":{"path":"x"}`) != (c.found || always) {
						t.Errorf("always: %t: call_tool returns %s", always, got)
					}
				}
			})
		})
	}
}

// TestTS01_Instructions checks that only clients that search are told how.
func TestTS01_Instructions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := searched(false, readFile)
		s.instructions = "Paths are relative."
		w := build(t, s, searched(true))
		g := w.host.(*gateway.Merged)
		for _, c := range []struct {
			host interface {
				Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error)
			}
			want bool
		}{{g, false}, {gateway.Finder{Merged: g}, true}} {
			h, err := c.host.Hello(t.Context(), &mcp.ClientInfo{Revision: mcp.Latest})
			if err != nil {
				t.Fatal(err)
			}
			text := string(h.Instructions)
			if !strings.HasPrefix(text, `"## a\n\nPaths are relative.`) || strings.Contains(text, "search_tools") != c.want {
				t.Errorf("%t: the instructions are %s", c.want, text)
			}
		}
	})
}

// audited is a step and an auditor that remember what they saw of each request.
type audited struct{ judged, seen []string }

func (a *audited) Before(_ context.Context, c *policy.Call) policy.Verdict {
	a.judged = append(a.judged, c.Server+"/"+c.Name)
	return policy.Verdict{}
}

func (*audited) After(context.Context, *policy.Call, *policy.Answer) {}

func (*audited) Begin(context.Context, *policy.Call) error { return nil }

func (a *audited) End(_ context.Context, c *policy.Call, x *policy.Answer) {
	a.seen = append(a.seen, fmt.Sprintf("%s/%s %s via %q %s", c.Server, c.Name, c.Args.Raw(), c.Via, x.Outcome))
}

// TestTS07_WhatARuleHides checks that a tool that a client may not see is not found, described, counted, suggested or
// called, while another client uses it, and that policy and audit hear of the tool itself.
func TestTS07_WhatARuleHides(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, g := buildFind(t, searched(false, readFile, deleteFile), searched(true, weather))
		hears := &audited{}
		g.Audit, g.Policy = hears, policy.Chain{hears}
		g.Filter = func(who *identity.Principal) catalog.Filter {
			if who.Key() == "cy" {
				return substringFilter{[]string{"read", "forecast"}, []string{"a", "b"}}
			}
			return nil
		}
		ann, ben := w.clientOf("ann"), w.clientOf("cy")
		ask := func(n *testClient, name, args string) string {
			t.Helper()
			return n.says(mcp.Latest, "1", "tools/call", `"name":"`+name+`","arguments":`+args)
		}
		if list := ben.says(mcp.Latest, "1", "tools/list", ""); !strings.Contains(list, `\na (1): files and folders\nb (1)`) {
			t.Errorf("ben lists %s", list)
		}
		for _, x := range [][2]string{
			{"search_tools", `{"query":"delete a file"}`}, {"search_tools", `{"query":"a__delete_file"}`}, {"search_tools", `{"query":"","server":"a"}`}, {"search_tools", `{"query":"zzz"}`},
			{"describe_tools", `{"names":["a__delete_fil"]}`}, {"call_tool", `{"name":"a__delete_fil"}`},
		} {
			if got := ask(ben, x[0], x[1]); strings.Contains(got, "delete_file(") || strings.Contains(got, "a__delete_file,") || strings.Contains(got, "a__delete_file.") || strings.Contains(got, "Deletes") || strings.Contains(got, "of 3") {
				t.Errorf("ben gets %s", got)
			}
		}
		if got := ask(ben, "search_tools", `{"query":"file"}`); !strings.Contains(got, "of 2 tools") || !strings.Contains(got, "a__read_file") {
			t.Errorf("ben finds %s", got)
		}
		unknown := strings.ReplaceAll(ask(ben, "call_tool", `{"name":"a__delete_fild","arguments":{"path":"x"}}`), "fild", "file")
		for _, via := range []string{"call_tool", "call_read_tool"} {
			if got := ask(ben, via, `{"name":"a__delete_file","arguments":{"path":"x"}}`); got != unknown {
				t.Errorf("%s\n%s\nwant %s", via, got, unknown)
			}
		}
		if got := ask(ben, "a__delete_file", `{"path":"x"}`); !strings.Contains(got, `"code":-32602,"message":"Unknown tool: a__delete_file"`) {
			t.Errorf("the name itself returns %s", got)
		}
		if n := len(w.far[0].link(t, 0).got(mcp.MethodCallTool)); n != 0 {
			t.Errorf("the server got %d calls", n)
		}
		if got := ask(ann, "call_tool", `{"name":"a__delete_file","arguments":{"path":"y"}}`); !strings.Contains(got, `"got":{"path":"y"}`) {
			t.Errorf("ann gets %s", got)
		}
		if got := ask(ann, "search_tools", `{"query":"delete"}`); !strings.Contains(got, "of 3 tools") || !strings.Contains(got, "a__delete_file") {
			t.Errorf("ann finds %s", got)
		}
		if want := `a/delete_file {"path":"y"} via "call_tool" ok`; !slices.Contains(hears.seen, want) || !slices.Contains(hears.seen, `/search_tools {"query":"delete"} via "" ok`) || !slices.Contains(hears.judged, "a/delete_file") {
			t.Errorf("the auditor heard %q", hears.seen)
		}
	})
}

// TestTS03_AQuestionMidCall checks that a server which asks in the middle of a call through call_tool gets its answer,
// for clients of both eras, and that the answer is that of a direct call.
func TestTS03_AQuestionMidCall(t *testing.T) {
	for _, modern := range []bool{false, true} {
		for name, near := range map[string]bool{"legacy client": false, "modern client": true} {
			t.Run(fmt.Sprintf("%s, modern server: %t", name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := nosy(modern, mcp.MethodElicit, asForm)
					w, _ := buildFind(t, s, searched(true))
					direct := w.converse(near, `"name":"a__t","arguments":{"x":1}`)
					through := w.converse(near, `"name":"call_tool","arguments":{"name":"a__t","arguments":{"x":1}}`)
					if direct != through || !strings.Contains(direct, `"heard":"everything"`) {
						t.Errorf("directly:\n%s\nthrough call_tool:\n%s", direct, through)
					}
				})
			})
		}
	}
}

// converse makes a call whose server asks something, and answers. It returns the question and the result.
func (w *whole) converse(modern bool, params string) string {
	const answer = `{"action":"accept","content":{}}`
	if !modern {
		n := w.legacy(asksAnything)
		n.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`)
		q := n.request()
		n.say(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"result":` + answer + `}`)
		return string(q.Params.Of(q.Raw)) + string(n.answerTo("1").Raw)
	}
	n := w.client()
	n.say(modernRequest("1", "tools/call", params, asksAnything))
	m := n.answerTo("1")
	var key, question string
	for k, v := range m.At(m.ResultMember("inputRequests")).Members() {
		key, question = string(k.Raw()), string(v.Raw())
	}
	params += `,"requestState":` + string(m.ResultMember("requestState").Of(m.Raw)) + `,"inputResponses":{` + key + `:` + answer + `}`
	n.say(modernRequest("2", "tools/call", params, asksAnything))
	return question + string(n.answerTo("2").Raw)
}

// TestTS10_ListsThatStay checks that a server which adds tools changes nothing that clients list, so they aren't told,
// but that the tools are found at once; and that clients are told once when a server comes or goes (TS11).
func TestTS10_ListsThatStay(t *testing.T) {
	for name, modern := range map[string]bool{"legacy": false, "modern": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var tools atomic.Value
				tools.Store([]string{weather})
				changing := searched(modern)
				on := changing.on
				changing.on = func(l *testSession, m *jsonrpc.Message) {
					if m.Method == mcp.MethodListTools {
						l.answer(m, `{"tools":[`+strings.Join(tools.Load().([]string), ",")+`]}`)
						return
					}
					on(l, m)
				}
				w, _ := buildFind(t, searched(false, readFile), changing)
				n, m := w.legacy(`{}`), w.client()
				m.say(modernRequest("9", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, `{}`))
				list := func() [2]string {
					return [2]string{n.says(mcp.R20251125, "1", "tools/list", ""), m.says(mcp.Latest, "1", "tools/list", "")}
				}
				before := list()
				change := func(to ...string) {
					tools.Store(to)
					id := ""
					l := changing.link(t, changing.opened()-1)
					if modern {
						all := l.got(mcp.MethodListen)
						id = `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":` + string(all[len(all)-1].ID) + `}}`
					}
					l.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"` + id + `}`)
					synctest.Wait()
				}
				told := func(want int) {
					t.Helper()
					time.Sleep(time.Minute)
					for i, c := range []*testClient{n, m} {
						if got := strings.Count(strings.Join(c.rest(), "\n"), `"notifications/tools/list_changed"`); got != want {
							t.Errorf("client %d was told %d times, want %d", i, got, want)
						}
					}
				}
				told(0)
				more := []string{weather}
				for i := range 100 {
					more = append(more, fmt.Sprintf(`{"name":"tide_%d","description":"Says when the tide comes.","inputSchema":{"type":"object"}}`, i))
				}
				change(more...)
				if got := m.says(mcp.Latest, "2", "tools/call", `"name":"search_tools","arguments":{"query":"tide"}`); !strings.Contains(got, "b__tide_") || !strings.Contains(got, "of 102 tools") {
					t.Errorf("found %s", got)
				}
				told(0)
				if after := list(); after != before {
					t.Errorf("the lists were\n%s\nand are\n%s", before, after)
				}
				change() // the server goes
				told(1)
				gone := list()
				if gone == before || strings.Contains(gone[0], `b (`) {
					t.Errorf("the list is %s", gone)
				}
				change(weather)
				list() // somebody looks while it is there
				change()
				told(1)
				if list() != gone {
					t.Error("the list differs")
				}
			})
		})
	}
}

// TestTS12_TheSameBytes checks that lists don't depend on which server has listed its tools first.
func TestTS12_TheSameBytes(t *testing.T) {
	var first string
	for _, slow := range []int{0, 1, 2} {
		inBubble(t, func(t *testing.T) {
			servers := []*testServer{searched(false, readFile, deleteFile), searched(true, weather), searched(false, readFile)}
			servers[slow].slow = 200 * time.Millisecond
			w, _ := buildFind(t, servers...)
			got := w.client().says(mcp.Latest, "1", "tools/list", "")
			if first == "" {
				first = got
			}
			if got != first || !strings.Contains(got, `c (1)`) {
				t.Errorf("one list is\n%s\nthe other\n%s", first, got)
			}
		})
	}
}

// TestTS17_Always checks which tools are listed nevertheless.
func TestTS17_Always(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		w, g := buildFind(t, searched(false, readFile, deleteFile, forPages), searched(true, weather))
		g.Find.Always = []string{"a/re*", "*/forecast"}
		list := w.client().says(mcp.Latest, "1", "tools/list", "")
		renamed := func(tool, server string) string {
			return strings.Replace(tool, `"name":"`, `"name":"`+server+`__`, 1)
		}
		if !strings.Contains(list, renamed(readFile, "a")+","+renamed(weather, "b")+"]") || strings.Contains(list, "delete_file") || strings.Contains(list, "refresh_page") {
			t.Errorf("the list is %s", list)
		}
	})
}

// TestTS21_ResourcesOfHiddenTools checks that what results of unlisted tools link to can be read.
func TestTS21_ResourcesOfHiddenTools(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{caps: `{"tools":{},"resources":{}}`}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch m.Method {
			case mcp.MethodListTools:
				l.answer(m, `{"tools":[{"name":"draw","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://draw/page"}}}]}`)
			case mcp.MethodCallTool:
				l.answer(m, `{"content":[{"type":"resource_link","uri":"drawing:1","name":"d"}]}`)
			case mcp.MethodReadResource:
				uri, _ := jsonrpc.Text(m.Raw, m.Param("uri"))
				l.answer(m, `{"contents":[{"uri":"`+uri+`","text":"T"}]}`)
			default:
				if m.Kind == jsonrpc.Request {
					l.answer(m, `{}`)
				}
			}
		}
		w, _ := buildFind(t, s, searched(true))
		n := w.client()
		definition := n.says(mcp.Latest, "1", "tools/call", `"name":"describe_tools","arguments":{"names":["a__draw"]}`)
		result := n.says(mcp.Latest, "2", "tools/call", `"name":"call_tool","arguments":{"name":"a__draw"}`)
		for _, uri := range []string{"ui://draw/page", "drawing:1"} {
			if !strings.Contains(definition+result, uri) {
				t.Errorf("%s is in neither\n%s\nnor\n%s", uri, definition, result)
			}
			if got := n.says(mcp.Latest, "3", "resources/read", `"uri":"`+uri+`"`); !strings.Contains(got, `"text":"T"`) {
				t.Errorf("%s: %s", uri, got)
			}
		}
	})
}
