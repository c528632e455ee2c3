package gateway_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// The tests in this file record behaviour that depends on which server a message comes from or goes
// to.

// heardOf returns the messages that a client gets, reduced to the parts in which two
// notifications differ.
func (c *caller) heardOf() (all []string) {
	for _, raw := range c.rest() {
		m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
		if err != nil {
			c.t.Fatal(err)
		}
		if m.Kind != jsonrpc.Notification || m.Method == mcp.NoteAcknowledged {
			continue
		}
		s := strings.TrimPrefix(m.Method, "notifications/")
		for _, key := range []string{"uri", "taskId", "from"} {
			if at := m.Param(key); !at.IsZero() {
				s += " " + string(at.Of(m.Raw))
			}
		}
		all = append(all, s)
	}
	return all
}

// TestNotificationsOfTwoServers records what a client gets, and how often, when two servers
// repeatedly send the same notification at once.
func TestNotificationsOfTwoServers(t *testing.T) {
	var out strings.Builder
	for _, clientIsModern := range []bool{false, true} {
		for _, serverIsModern := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				fmt.Fprintf(&out, "# %s servers, %s client\n", eraOf(serverIsModern), eraOf(clientIsModern))
				a, b := newListServer(serverIsModern, false), newListServer(serverIsModern, false)
				w := build(t, a.testServer, b.testServer)
				c := w.callerAs("nobody", clientIsModern, takesTasks)
				if clientIsModern {
					c.start(mcp.MethodListen, `"notifications":{"toolsListChanged":true,"resourceSubscriptions":["x:one"]}`)
				} else {
					c.ask(mcp.MethodSubscribe, `"uri":"x:one"`)
				}
				time.Sleep(5 * time.Second)
				c.heardOf()
				for _, note := range []string{
					`"method":"notifications/tools/list_changed","params":{}`,
					`"method":"notifications/resources/updated","params":{"uri":"x:one","from":"%s"}`,
					`"method":"notifications/tasks/status","params":{"taskId":"t","status":"working"}`,
				} {
					for range 3 {
						for name, s := range map[string]*listServer{"a": a, "b": b} {
							text := strings.ReplaceAll(note, "%s", name)
							if serverIsModern {
								listens := s.link(t, 0).got(mcp.MethodListen)
								if len(listens) == 0 {
									continue
								}
								id := string(listens[len(listens)-1].ID)
								text = strings.Replace(text, `"params":{`, `"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+id+`},`, 1)
								text = strings.Replace(text, `},}`, `}}`, 1)
							}
							s.link(t, 0).say(`{"jsonrpc":"2.0",` + text + `}`)
						}
					}
					synctest.Wait()
					time.Sleep(5 * time.Second)
					heard := c.heardOf()
					counts := map[string]int{}
					for _, x := range heard {
						counts[x]++
					}
					for _, x := range slices.Sorted(maps.Keys(counts)) {
						often := fmt.Sprint(counts[x], " times")
						if counts[x] <= 2 {
							often = "once or twice" // the number depends on when the first notification is written
						}
						fmt.Fprintf(&out, "%s: %s\n", x, often)
					}
				}
			})
		}
	}
	golden(t, "origin.txt", out.String())
}

// TestSubscriptionsReachTheirOwner records which of two servers gets the subscription to a
// resource: the server that lists the resource, or the server with a template that matches it.
func TestSubscriptionsReachTheirOwner(t *testing.T) {
	var out strings.Builder
	for _, clientIsModern := range []bool{false, true} {
		for _, serverIsModern := range []bool{false, true} {
			inBubble(t, func(t *testing.T) {
				fmt.Fprintf(&out, "# %s servers, %s client\n", eraOf(serverIsModern), eraOf(clientIsModern))
				a, b := newListServer(serverIsModern, false), newListServer(serverIsModern, false)
				b.lists[mcp.MethodListResources] = []string{"x:one", "x:two"}
				b.lists[mcp.MethodListTemplates] = []string{"z:{v}"}
				w := build(t, a.testServer, b.testServer)
				c := w.callerAs("nobody", clientIsModern, `{}`)
				for _, uri := range []string{"x:one", "x:two", "x:hid-a", "y:one/7", "z:7", "x:none"} {
					before := map[*listServer]int{a: watching(t, a, uri), b: watching(t, b, uri)}
					if clientIsModern {
						c.start(mcp.MethodListen, `"notifications":{"resourceSubscriptions":["`+uri+`"]}`)
					} else {
						c.start(mcp.MethodSubscribe, `"uri":"`+uri+`"`)
					}
					c.rest()
					time.Sleep(10 * time.Second)
					fmt.Fprintf(&out, "%s: a is asked %t, b %t\n", uri, watching(t, a, uri) > before[a], watching(t, b, uri) > before[b])
				}
			})
		}
	}
	golden(t, "owners.txt", out.String())
}

// watching returns how often a server got a subscription to a resource.
func watching(t *testing.T, s *listServer, uri string) (n int) {
	synctest.Wait()
	for i := range s.opened() {
		for _, method := range []string{mcp.MethodSubscribe, mcp.MethodListen} {
			for _, m := range s.link(t, i).got(method) {
				if strings.Contains(string(m.Raw), `"`+uri+`"`) {
					n++
				}
			}
		}
	}
	return n
}

// TestUnusableToolsAsShown records what happens to a tool that clients must not accept because of
// its x-mcp-header, and whether Dragoman reports the tool. The endpoint presents the server
// unchanged, filtered, and merged with another server.
func TestUnusableToolsAsShown(t *testing.T) {
	var out strings.Builder
	for _, clientIsModern := range []bool{false, true} {
		for _, x := range listViews {
			inBubble(t, func(t *testing.T) {
				s := newListServer(true, x.hides)
				on := s.on
				s.on = func(l *testSession, m *jsonrpc.Message) {
					if m.Method == mcp.MethodListTools {
						l.answer(m, `{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{"name":"good","inputSchema":{}},`+
							`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"object","x-mcp-header":"A"}}}}]}`)
						return
					}
					on(l, m)
				}
				all := []*testServer{s.testServer}
				if x.servers > 1 {
					other := newListServer(true, x.hides)
					other.lists = map[string][]string{mcp.MethodListTools: {"other"}}
					all = append(all, other.testServer)
				}
				w := build(t, all...)
				c := w.callerAs("nobody", clientIsModern, `{}`)
				pages := c.pages(mcp.MethodListTools)
				again := c.pages(mcp.MethodListTools)
				fmt.Fprintf(&out, "# %s, %s client: %s\n", x.name, eraOf(clientIsModern), pages)
				if again != pages {
					fmt.Fprintf(&out, "then %s\n", again)
				}
				losses := w.lostSoFar()
				slices.Sort(losses)
				for _, loss := range losses {
					fmt.Fprintf(&out, "lost: %s\n", loss)
				}
			})
		}
	}
	golden(t, "unusable.txt", out.String())
}
