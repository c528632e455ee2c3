package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

// leaseServer is a server of either era. It delays requests while hold is set. Its tool "plain"
// answers at once, "ask" first sends one request, and "ask2" two. "job" may be called as a task,
// and "must" can only be called as a task. status is the status of its tasks.
type leaseServer struct {
	*testServer
	listens bool // supports subscriptions/listen, which uses a session while it is open
	mu      sync.Mutex
	hold    bool
	held    []func()
	status  string                      // status of all tasks
	waiting map[string]*jsonrpc.Message // the calls that wait for a response, by the id of the server's request
	rounds  map[string]int              // the number of requests that were sent for a call, by the call's id
	results []func()                    // functions that answer tasks/result when the task ends
}

func newLeaseServer(modern bool) *leaseServer {
	caps := `"tools":{},"prompts":{},"resources":{"subscribe":true},"completions":{},`
	if modern {
		caps += `"extensions":{"io.modelcontextprotocol/tasks":{}}`
	} else {
		caps += `"tasks":{"requests":{"tools":{"call":{}}}}`
	}
	s := &leaseServer{
		testServer: &testServer{modern: modern, caps: "{" + caps + "}"},
		status:     mcp.TaskWorking, waiting: map[string]*jsonrpc.Message{}, rounds: map[string]int{},
	}
	s.on = s.take
	return s
}

const testTask = `"taskId":"t","createdAt":"2025-11-25T10:30:00Z","lastUpdatedAt":"2025-11-25T10:30:00Z"`

// task returns a task in the form of the server's era.
func (s *leaseServer) task(status string) string {
	if s.modern {
		more := ""
		switch status {
		case mcp.TaskCompleted:
			more = `,"result":{"content":[]}`
		case mcp.TaskInput:
			more = `,"inputRequests":{"k":{` + elicit + `}}`
		}
		return testTask + `,"status":"` + status + `","ttlMs":86400000,"pollIntervalMs":30000` + more
	}
	return testTask + `,"status":"` + status + `","ttl":86400000`
}

func (s *leaseServer) take(l *testSession, m *jsonrpc.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(result string) {
		send := func() { l.answer(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private",`+result+`}`) }
		if s.hold {
			s.held = append(s.held, send)
			return
		}
		send()
	}
	name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
	switch {
	case m.Method == mcp.MethodListen && s.listens:
		l.acknowledge(m)
	case m.Method == mcp.MethodListen:
		l.fail(m, jsonrpc.CodeMethodNotFound, "")
	case m.Method == mcp.MethodListTools:
		answer(`"tools":[{"name":"plain","inputSchema":{}},{"name":"ask","inputSchema":{}},{"name":"ask2","inputSchema":{}},{"name":"job","inputSchema":{},"execution":{"taskSupport":"optional"}},{"name":"must","inputSchema":{},"execution":{"taskSupport":"required"}}]`)
	case m.Method == mcp.MethodCallTool && strings.HasPrefix(name, "ask"):
		s.ask(l, m, name)
	case m.Method == mcp.MethodCallTool && name != "plain" && s.modern && !mcp.HasTasksExtension(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyClientCaps).Of(m.Raw)):
		l.fail(m, mcp.CodeMissingCapability, `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	case m.Method == mcp.MethodCallTool && name != "plain" && s.modern:
		l.answer(m, `{"resultType":"task",`+s.task(s.status)+`}`)
	case m.Method == mcp.MethodCallTool && name != "plain" && !m.Param("task").IsZero():
		l.answer(m, `{"task":{`+s.task(s.status)+`}}`)
	case m.Method == mcp.MethodGetTask:
		l.answer(m, `{"resultType":"complete",`+s.task(s.status)+`}`)
	case m.Method == mcp.MethodTaskResult:
		done := func() { l.answer(m, `{"content":[]}`) }
		switch s.status {
		case mcp.TaskCompleted:
			done()
		case mcp.TaskInput:
			l.say(`{"jsonrpc":"2.0","id":"r","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}`)
			fallthrough
		default:
			s.results = append(s.results, done)
		}
	case m.Kind == jsonrpc.Result:
		if call := s.waiting[string(m.ID)]; call != nil {
			delete(s.waiting, string(m.ID))
			name, _ := jsonrpc.Text(call.Raw, call.Param("name"))
			s.ask(l, call, name)
		}
	case m.Kind == jsonrpc.Request:
		answer(`"content":[],"contents":[],"messages":[],"completion":{"values":[]}`)
	}
}

// ask answers a call, or sends its next request to the client.
func (s *leaseServer) ask(l *testSession, call *jsonrpc.Message, name string) {
	rounds := len(name) - len("ask") + 1 // "ask2" sends one more request
	if s.modern {
		var n int
		_, _ = fmt.Sscanf(string(call.Param("requestState").Of(call.Raw)), `"%d"`, &n)
		if n == rounds {
			l.answer(call, `{"resultType":"complete","content":[]}`)
			return
		}
		l.answer(call, fmt.Sprintf(`{"resultType":"input_required","inputRequests":{"k":{%s}},"requestState":"%d"}`, elicit, n+1))
		return
	}
	n := s.rounds[string(call.ID)]
	if n == rounds {
		l.answer(call, `{"content":[]}`)
		return
	}
	s.rounds[string(call.ID)]++
	id := fmt.Sprintf(`"q%s.%d"`, call.ID, n)
	s.waiting[id] = call
	l.say(`{"jsonrpc":"2.0","id":` + id + `,` + elicit + `}`)
}

// holds sets whether the server delays requests. When hold is false, it also answers the delayed
// requests.
func (s *leaseServer) holds(hold bool) {
	synctest.Wait()
	s.mu.Lock()
	held := s.held
	s.held, s.hold = nil, hold
	s.mu.Unlock()
	for _, send := range held {
		send()
	}
	synctest.Wait()
}

// setStatus changes the status of the server's tasks.
func (s *leaseServer) setStatus(status string) {
	synctest.Wait()
	s.mu.Lock()
	s.status = status
	var ended []func()
	if status == mcp.TaskCompleted {
		ended, s.results = s.results, nil
	}
	s.mu.Unlock()
	for _, send := range ended {
		send()
	}
}

// lease is one client that uses one server. It records the number of sessions at several points.
type lease struct {
	*caller
	server *leaseServer
	up     *upstream.Upstream
	out    []string
}

// sessions returns how many sessions exist, how many of them are in use, and how many requests
// run on them.
func (k *lease) sessions() (there, used, running int) {
	synctest.Wait()
	for _, s := range k.up.Report().Sessions {
		there++
		if s.Idle.IsZero() {
			used++
		}
		running += s.Running
	}
	return there, used, running
}

// at records the number of sessions that have been opened so far, and the results of the method
// sessions.
func (k *lease) at(when string) {
	there, used, running := k.sessions()
	k.out = append(k.out, fmt.Sprintf("%s %d/%d/%d/%d", when, k.server.opened(), there, used, running))
}

// later records the sessions at once, after 2 minutes and after 22 minutes. After 2 minutes,
// Dragoman still keeps an exclusive session. After 22 minutes, Dragoman keeps no session.
func (k *lease) later() {
	k.at("after")
	time.Sleep(2 * time.Minute)
	k.at("+2m")
	time.Sleep(20 * time.Minute)
	k.at("+22m")
}

// answerAll answers the server's requests and returns the answer to the client's own request. It
// waits three minutes before each response.
func (k *lease) answerAll(id, method, params string) *jsonrpc.Message {
	k.t.Helper()
	for n := 1; ; n++ {
		m := k.next()
		switch {
		case m.Kind == jsonrpc.Request:
			time.Sleep(3 * time.Minute)
			k.at(fmt.Sprintf("asked(%d)", n))
			k.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept"}}`)
		case string(m.ID) != id:
		case strings.Contains(string(m.Raw), `"resultType":"input_required"`):
			time.Sleep(3 * time.Minute)
			k.at(fmt.Sprintf("asked(%d)", n))
			id = k.start(method, params+retryOf(k.t, m))
		default:
			return m
		}
	}
}

// overHours samples the sessions a hundred times in three hours, never during a poll. It
// records the maximum of sessions in use and of running requests.
func (k *lease) overHours(what string) {
	most, mostRunning := 0, 0
	for range 100 {
		time.Sleep(107*time.Second + 311*time.Millisecond)
		_, used, running := k.sessions()
		most, mostRunning = max(most, used), max(mostRunning, running)
	}
	there, _, _ := k.sessions()
	k.out = append(k.out, fmt.Sprintf("%s for 3h %d/%d/%d/%d", what, k.server.opened(), there, most, mostRunning))
}

// result returns m. If m is an error, it first records the error.
func (k *lease) result(m *jsonrpc.Message) *jsonrpc.Message {
	k.t.Helper()
	if m.Kind != jsonrpc.Result {
		k.out = append(k.out, refusalOf(m))
	}
	return m
}

// leaseUses are the kinds of use that TestLeases records.
var leaseUses = []struct {
	name string
	caps string
	run  func(k *lease)
	bare bool // the server does not support tasks
}{
	{"call", `{}`, func(k *lease) { k.simple(mcp.MethodCallTool, `"name":"plain","arguments":{}`) }, false},
	{"call, no tasks at the server", `{}`, func(k *lease) { k.simple(mcp.MethodCallTool, `"name":"plain","arguments":{}`) }, true},
	{"question, no tasks at the server", canBeAsked, func(k *lease) {
		const params = `"name":"ask","arguments":{}`
		k.result(k.answerAll(k.start(mcp.MethodCallTool, params), mcp.MethodCallTool, params))
		k.later()
	}, true},
	{"call of one that can be asked", canBeAsked, func(k *lease) { k.simple(mcp.MethodCallTool, `"name":"plain","arguments":{}`) }, false},
	{"list", `{}`, func(k *lease) { k.simple(mcp.MethodListTools, ``) }, false},
	{"read", `{}`, func(k *lease) { k.simple(mcp.MethodReadResource, `"uri":"x:1"`) }, false},
	{"prompt", canBeAsked, func(k *lease) { k.simple(mcp.MethodGetPrompt, `"name":"p"`) }, false},
	{"complete", canBeAsked, func(k *lease) {
		k.simple(mcp.MethodComplete, `"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}`)
	}, false},
	{"question", canBeAsked, func(k *lease) {
		const params = `"name":"ask","arguments":{}`
		k.result(k.answerAll(k.start(mcp.MethodCallTool, params), mcp.MethodCallTool, params))
		k.later()
	}, false},
	{"two questions", canBeAsked, func(k *lease) {
		const params = `"name":"ask2","arguments":{}`
		k.result(k.answerAll(k.start(mcp.MethodCallTool, params), mcp.MethodCallTool, params))
		k.later()
	}, false},
	{"task of a client that takes none", canBeAsked, func(k *lease) {
		const params = `"name":"must","arguments":{}`
		id := k.start(mcp.MethodCallTool, params)
		k.overHours("awaited")
		k.server.setStatus(mcp.TaskCompleted)
		k.result(k.answerTo(id))
		k.later()
	}, false},
	{"task", takesTasks, func(k *lease) {
		params := `"name":"job","arguments":{}`
		if !k.modern {
			params += `,"task":{}`
		}
		m := k.result(k.ask(mcp.MethodCallTool, params))
		at := m.ResultMember("taskId")
		if at.IsZero() {
			at = jsonrpc.Find(m.Raw, m.ResultMember("task"), "taskId")
		}
		id := `"taskId":` + string(at.Of(m.Raw))
		k.at("made")
		k.result(k.ask(mcp.MethodGetTask, id))
		k.overHours("not polled")
		k.server.setStatus(mcp.TaskInput)
		k.result(k.ask(mcp.MethodGetTask, id))
		time.Sleep(3 * time.Minute)
		k.at("wants input")
		k.server.setStatus(mcp.TaskCompleted)
		k.result(k.ask(mcp.MethodGetTask, id))
		k.later()
	}, false},
	{"subscribe", `{}`, func(k *lease) {
		if k.modern {
			k.start(mcp.MethodListen, `"notifications":{"resourceSubscriptions":["x:1"]}`)
		} else {
			k.ask(mcp.MethodSubscribe, `"uri":"x:1"`)
		}
		k.later()
	}, false},
}

// simple sends one request, and records the sessions while the server works on the request and
// afterwards.
func (k *lease) simple(method, params string) {
	k.server.holds(true)
	id := k.start(method, params)
	for range 4 { // requests that Dragoman itself sends come first
		time.Sleep(time.Second)
		k.at("during")
		if got := len(k.last(method)); got > 0 {
			break
		}
		k.out = k.out[:len(k.out)-1]
		k.server.holds(true)
	}
	k.server.holds(false)
	k.result(k.answerTo(id))
	k.later()
}

// last returns all requests of a method that the server has got, on any session.
func (k *lease) last(method string) (all []*jsonrpc.Message) {
	for i := range k.server.opened() {
		all = append(all, k.server.link(k.t, i).got(method)...)
	}
	return all
}

const leaseHead = `Sessions that have been opened / that there are / that somebody uses / requests that run on them.
A listen uses a session, but is not counted among the requests that run.
`

// TestLeases records how many sessions with a server each kind of request opens and holds. It
// counts the sessions at four times: while the server works, while the user thinks, between the
// polls of a task, and afterwards.
func TestLeases(t *testing.T) {
	var out strings.Builder
	out.WriteString(leaseHead)
	for _, pair := range []struct{ server, client bool }{{false, false}, {false, true}, {true, false}, {true, true}} {
		fmt.Fprintf(&out, "\n# %s server, %s client\n", eraOf(pair.server), eraOf(pair.client))
		for _, use := range leaseUses {
			for _, isolation := range []upstream.Isolation{upstream.Auto, upstream.Shared, upstream.PerCall} {
				if pair.server && isolation != upstream.Auto {
					continue // there is only one session, whatever the isolation
				}
				inBubble(t, func(t *testing.T) {
					s := newLeaseServer(pair.server)
					s.isolation, s.listens = isolation, use.name == "subscribe"
					if use.bare {
						s.caps = `{"tools":{}}`
					}
					w := build(t, s.testServer)
					k := &lease{caller: w.callerAs("nobody", pair.client, use.caps), server: s, up: w.upstreams[0]}
					use.run(k)
					fmt.Fprintf(&out, "%s, %s: %s\n", use.name, isolation, strings.Join(k.out, ", "))
				})
			}
		}
	}
	golden(t, "leases.txt", out.String())
}

// TestLeasesOfJoinedLists records how many sessions with the first of two servers are opened
// and used when clients with several sets of capabilities list and call.
func TestLeasesOfJoinedLists(t *testing.T) {
	var out strings.Builder
	out.WriteString(leaseHead)
	for _, modern := range []bool{false, true} {
		for _, isolation := range []upstream.Isolation{upstream.Auto, upstream.Shared, upstream.PerCall} {
			inBubble(t, func(t *testing.T) {
				s := newLeaseServer(modern)
				s.isolation = isolation
				w := build(t, s.testServer, newLeaseServer(false).testServer)
				k := &lease{server: s, up: w.upstreams[0]}
				k.at("begin")
				for i, caps := range []string{`{}`, canBeAsked, `{}`} {
					k.caller = w.callerAs("nobody", true, caps)
					k.result(k.ask(mcp.MethodListTools, ""))
					k.at(fmt.Sprintf("list(%d)", i))
					k.result(k.ask(mcp.MethodCallTool, `"name":"a__plain","arguments":{}`))
					k.at(fmt.Sprintf("call(%d)", i))
				}
				k.later()
				fmt.Fprintf(&out, "%s server, %s: %s\n", eraOf(modern), isolation, strings.Join(k.out, ", "))
			})
		}
	}
	golden(t, "leases_joined.txt", out.String())
}
