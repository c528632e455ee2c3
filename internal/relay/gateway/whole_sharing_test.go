package gateway_test

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// The tests in this file record which clients share sessions with a server, states, task ids
// and quotas. The tables are in testdata; -update writes them.

// sharingClients are clients that differ in principal, era or capabilities.
var sharingClients = []struct {
	who    string
	modern bool
	caps   string
}{
	{"nobody", true, `{}`},
	{"nobody", true, `{}`},
	{"nobody", true, `{"experimental":{"x":{}},"later":{}}`},
	{"nobody", true, `{"elicitation":{}}`},
	{"nobody", true, `{ "elicitation" : { "later":1 } ,"experimental":{}}`},
	{"nobody", true, `{"elicitation":{"form":{}}}`},
	{"nobody", true, `{"elicitation":{},"sampling":{}}`},
	{"nobody", false, `{}`},
	{"nobody", false, `{"elicitation":{}}`},
	{"nobody", false, `{"elicitation":{}}`},
	{"local", true, `{}`},
	{"local", true, `{"elicitation":{}}`},
	{"local", false, `{"elicitation":{}}`},
	{"anna at 1", true, `{}`},
	{"anna at 2", true, `{}`},
	{"anna at 1", true, `{"elicitation":{}}`},
	{"anna at 1", false, `{"elicitation":{}}`},
	{"bert at 1", true, `{}`},
	{"bert at 1", false, `{"elicitation":{}}`},
}

// principal returns the principal for a name: nil for "nobody", identity.Local for "local", and
// otherwise a subject with a seat.
func principal(name string) *identity.Principal {
	switch name {
	case "nobody":
		return nil
	case "local":
		return identity.Local
	}
	subject, seat, _ := strings.Cut(name, " at ")
	return &identity.Principal{Subject: subject, Seat: subject + "/" + seat}
}

// callerAs returns a client of either era that the endpoint has authenticated as who.
func (w *whole) callerAs(who string, modern bool, caps string) *caller {
	w.t.Helper()
	client, server := inmem.Pipe()
	n := w.joinAs(principal(who), client, server)
	if !modern {
		n.open(caps)
	}
	return &caller{testClient: n, modern: modern, caps: caps}
}

// start sends a request and returns its id.
func (c *caller) start(method, params string) string {
	c.t.Helper()
	c.id++
	id := fmt.Sprint(c.id)
	if c.modern {
		c.say(modernRequest(id, method, params, c.caps))
	} else {
		c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `}}`)
	}
	return id
}

// heldServer is a server that can hold calls until the test releases them. Its answers contain the
// number of the session.
type heldServer struct {
	*testServer
	mu   sync.Mutex
	hold bool
	held []func()
}

func newHeld(era string) *heldServer {
	h := &heldServer{testServer: &testServer{modern: era == "modern", both: era == "both"}}
	h.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.acknowledge(m)
		case m.Method == mcp.MethodCallTool:
			answer := func() { l.answer(m, fmt.Sprintf(`{"resultType":"complete","content":[],"session":%d}`, l.number)) }
			h.mu.Lock()
			hold := h.hold
			if hold {
				h.held = append(h.held, answer)
			}
			h.mu.Unlock()
			if !hold {
				answer()
			}
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"resultType":"complete"}`)
		}
	}
	return h
}

func (h *heldServer) holds(hold bool) (waiting int) {
	synctest.Wait()
	h.mu.Lock()
	held := h.held
	h.held, h.hold = nil, hold
	h.mu.Unlock()
	for _, answer := range held {
		answer()
	}
	return len(held)
}

// numbers gives each session a number, from 1, in the order in which clients reached it.
type numbers map[string]int

func (n numbers) of(m *jsonrpc.Message) string {
	if m.Kind != jsonrpc.Result {
		return refusalOf(m)
	}
	session := string(m.ResultMember("session").Of(m.Raw))
	if n[session] == 0 {
		n[session] = len(n) + 1
	}
	return fmt.Sprint(n[session])
}

// refusalOf briefly describes how a request failed.
func refusalOf(m *jsonrpc.Message) string {
	cause, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, jsonrpc.Find(m.Raw, m.Error, "data"), "cause"))
	code := jsonrpc.Find(m.Raw, m.Error, "code").Of(m.Raw)
	return strings.TrimSpace(fmt.Sprintf("refused %s %s", code, cause))
}

// TestWhoSharesASession records which clients share a session with a server of each era, under
// each isolation. The clients first call one after the other, and then all at once.
func TestWhoSharesASession(t *testing.T) {
	head := fmt.Sprintf("%-9s %-6s %-51s", "client", "era", "capabilities")
	rows := make([]string, len(sharingClients))
	for i, v := range sharingClients {
		rows[i] = fmt.Sprintf("%-9s %-6s %-51s", v.who, eraOf(v.modern), v.caps)
	}
	for _, era := range []string{"legacy", "modern", "both"} {
		for _, isolation := range []upstream.Isolation{upstream.Auto, upstream.Shared, upstream.PerCall} {
			inBubble(t, func(t *testing.T) {
				h := newHeld(era)
				h.isolation = isolation
				w := build(t, h.testServer)
				var all []*caller
				for _, v := range sharingClients {
					all = append(all, w.callerAs(v.who, v.modern, v.caps))
				}
				const params = `"name":"t","arguments":{}`
				seen := numbers{}
				var alone, ids []string
				for _, c := range all {
					alone = append(alone, seen.of(c.ask(mcp.MethodCallTool, params)))
				}
				h.holds(true)
				for _, c := range all {
					ids = append(ids, c.start(mcp.MethodCallTool, params))
					synctest.Wait()
				}
				h.holds(false)
				column := era + "," + string(isolation)
				head += fmt.Sprintf(" %-13s", column)
				for i, c := range all {
					rows[i] += fmt.Sprintf(" %-13s", alone[i]+"/"+seen.of(c.answerTo(ids[i])))
				}
			})
		}
	}
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " ")
	}
	golden(t, "sharing.txt", "The session of each client with a server of each era and isolation: when they call in turn, and all at once.\n"+
		strings.TrimRight(head, " ")+"\n"+strings.Join(rows, "\n")+"\n")
}

func eraOf(modern bool) string {
	if modern {
		return "modern"
	}
	return "legacy"
}

var people = []string{"nobody", "local", "anna at 1", "anna at 2", "bert at 1"}

// TestWhoMayUseAState records which clients may retry with a state that another client got, for
// a parked call and for a server's own state.
func TestWhoMayUseAState(t *testing.T) {
	var out strings.Builder
	for _, modern := range []bool{false, true} {
		inBubble(t, func(t *testing.T) {
			w := build(t, newAskingServer(modern))
			clients := map[string]*caller{}
			for _, who := range people {
				clients[who] = w.callerAs(who, true, canBeAsked)
			}
			const params = `"name":"t","arguments":{}`
			for _, owner := range people {
				for i, who := range people {
					retry := retryOf(t, clients[owner].ask(mcp.MethodCallTool, params))
					if i == 0 {
						state := regexp.MustCompile(`drg1\.[\w-]+`).FindString(retry)
						fmt.Fprintf(&out, "# %s server, asks %s, the state is drg1. and %d characters\n", eraOf(modern), owner, len(state)-len("drg1."))
					}
					m := clients[who].ask(mcp.MethodCallTool, params+retry)
					if m.Kind == jsonrpc.Result {
						fmt.Fprintf(&out, "%s: goes on\n", who)
					} else {
						fmt.Fprintf(&out, "%s: %s\n", who, refusalOf(m))
					}
				}
			}
		})
	}
	golden(t, "states.txt", out.String())
}

// TestTaskIDs records the task ids that clients get, and which clients may ask about another
// client's task.
func TestTaskIDs(t *testing.T) {
	signature := regexp.MustCompile(`(drgt2\.\w+~)[\w-]{22}~`)
	var out strings.Builder
	for _, servers := range []int{1, 2} {
		inBubble(t, func(t *testing.T) {
			var all []*testServer
			for range servers {
				p := &taskProcess{ttl: "60000"}
				on := func(l *testSession, m *jsonrpc.Message) {
					if m.Method == mcp.MethodGetTask && string(m.Param("taskId").Of(m.Raw)) != `"task-1"` {
						l.fail(m, jsonrpc.CodeInvalidParams, "")
						return
					}
					p.on(l, m)
				}
				all = append(all, &testServer{caps: `{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}`, on: on})
			}
			w := build(t, all...)
			tool := "job"
			if servers > 1 {
				tool = "a__job"
			}
			clients, ids := map[string]*caller{}, map[string]string{}
			for _, who := range people {
				clients[who] = w.callerAs(who, true, takesTasks)
			}
			for _, who := range people {
				m := clients[who].ask(mcp.MethodCallTool, `"name":"`+tool+`","arguments":{}`)
				ids[who], _ = jsonrpc.Text(resultOf(m, "taskId"))
			}
			for _, owner := range people {
				fmt.Fprintf(&out, "# %d servers, the task of %s is %s\n", servers, owner, signature.ReplaceAllString(ids[owner], "${1}SIGNATURE~"))
				for _, who := range people {
					m := clients[who].ask(mcp.MethodGetTask, fmt.Sprintf(`"taskId":%q`, ids[owner]))
					if m.Kind == jsonrpc.Result {
						same := string(m.ResultMember("taskId").Of(m.Raw)) == fmt.Sprintf("%q", ids[owner])
						fmt.Fprintf(&out, "%s: answered, by the same id %t\n", who, same)
					} else {
						fmt.Fprintf(&out, "%s: %s\n", who, refusalOf(m))
					}
				}
			}
		})
	}
	golden(t, "taskids.txt", out.String())
}

// TestQuotasOfOneParty records how many calls of one party may run on a legacy server, how many
// may wait for responses, and how many listens may be open.
func TestQuotasOfOneParty(t *testing.T) {
	sets := []string{
		`{"elicitation":{}}`, `{"elicitation":{},"sampling":{}}`, `{"elicitation":{},"roots":{}}`,
		`{"sampling":{}}`, `{"sampling":{},"roots":{}}`,
	}
	var out strings.Builder
	for _, who := range people[:3] {
		inBubble(t, func(t *testing.T) {
			h := newHeld("legacy")
			w := build(t, h.testServer)
			h.holds(true)
			counts := map[string]int{}
			type begun struct {
				c  *caller
				id string
			}
			var all []begun
			for _, caps := range sets {
				for range 17 {
					c := w.callerAs(who, true, caps)
					all = append(all, begun{c, c.start(mcp.MethodCallTool, `"name":"t","arguments":{}`)})
					synctest.Wait()
				}
			}
			running := len(h.held)
			for _, b := range all {
				select {
				case m := <-b.c.in:
					counts[refusalOf(m)]++
				default:
					counts["not answered"]++
				}
			}
			fmt.Fprintf(&out, "# %s: 17 calls with each of 5 sets of capabilities at a legacy server\n%d run in %d sessions, %v\n", who, running, h.opened(), counts)
			for range 3 { // the waiting calls get a session one after the other
				h.holds(false)
				time.Sleep(time.Second)
			}
		})
		inBubble(t, func(t *testing.T) {
			s := &testServer{}
			s.on = func(l *testSession, m *jsonrpc.Message) {
				if m.Method == mcp.MethodCallTool {
					l.say(`{"jsonrpc":"2.0","id":"q",` + elicit + `}`)
				}
			}
			w := build(t, s)
			counts := map[string]int{}
			for _, caps := range sets[:3] {
				c := w.callerAs(who, true, caps)
				for range 20 {
					m := c.ask(mcp.MethodCallTool, `"name":"t","arguments":{}`)
					kind, _ := jsonrpc.Text(resultOf(m, "resultType"))
					counts[cmp.Or(kind, refusalOf(m))]++
				}
			}
			fmt.Fprintf(&out, "# %s: one conversation asks for 20 calls that are parked, with each of 3 sets\n%v\n", who, counts)
		})
		inBubble(t, func(t *testing.T) {
			w := build(t, newHeld("modern").testServer)
			open := map[string]int{}
			for range 2 {
				c := w.callerAs(who, true, `{}`)
				for range 70 {
					c.start(mcp.MethodListen, `"notifications":{"toolsListChanged":true}`)
					m := c.next()
					if m.Kind == jsonrpc.Failure {
						open[refusalOf(m)]++
					} else {
						open[m.Method]++
					}
				}
			}
			fmt.Fprintf(&out, "# %s: two conversations ask for 70 listens each\n%v\n", who, open)
		})
	}
	golden(t, "quotas.txt", out.String())
}
