package runtime

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// gate is a policy of one step, and an auditor. It decides by the text that a call of the tool echo
// has: "no" is refused, and the person is asked about "ask".
type gate struct {
	mu      sync.Mutex
	asked   int // number of calls of Before
	began   int
	ended   int
	entries []string                    // what became of the calls of tools
	about   func(c *policy.Call) string // comes before each entry; nil for nothing
	last    map[string]string           // the server and the item of the last request, by method
}

func (g *gate) Before(_ context.Context, c *policy.Call) policy.Verdict {
	g.mu.Lock()
	g.asked++
	g.mu.Unlock()
	text, _ := c.Args.Get("text").Text()
	switch answer := c.Answered("confirm").Action(); {
	case text == "no", text == "ask" && answer != "" && answer != "accept":
		return policy.Verdict{Refuse: &jsonrpc.Error{Code: -31999, Message: "the gate is shut"}}
	case text == "ask" && answer == "":
		return policy.Verdict{Ask: &policy.Ask{Step: "confirm", Question: &mcp.Question{Message: "Echo this?"}}}
	}
	return policy.Verdict{}
}

// lastOf returns the server and the item of the last request for a method.
func (g *gate) lastOf(method string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last[method]
}

func (g *gate) After(context.Context, *policy.Call, *policy.Answer) {}

func (g *gate) Begin(context.Context, *policy.Call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began++
	return nil
}

func (g *gate) End(_ context.Context, c *policy.Call, a *policy.Answer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended++
	if g.last == nil {
		g.last = map[string]string{}
	}
	g.last[c.Request.Msg.Method] = c.Server + " " + c.Name
	if c.Request.Msg.Method == mcp.MethodCallTool {
		text, _ := c.Args.Get("text").Text()
		entry := fmt.Sprintf("%s %s %s %s", c.Server, c.Name, text, a.Outcome)
		if g.about != nil {
			entry = g.about(c) + entry
		}
		g.entries = append(g.entries, entry)
	}
}

// take returns the entries since the last call.
func (g *gate) take() (entries []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	entries, g.entries = g.entries, nil
	return entries
}

// house is a runtime with one server of each era, behind a gate.
type house struct {
	*Runtime
	gate *gate
	url  string
	held chan struct{} // calls of the tool wait reach a server when this is closed; nil lets them pass
	mu   sync.Mutex
	got  bytes.Buffer // what the servers get and send
}

func (h *house) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got.Write(b)
}

// executions returns how often the servers were told to echo a text.
func (h *house) executions(text string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for line := range strings.Lines(h.got.String()) {
		if strings.Contains(line, `"direction":"request"`) && strings.Contains(line, `"text":"`+text+`"`) {
			n++
		}
	}
	return n
}

// configuration starts a modern server and a legacy one, and returns a configuration with them and with
// more settings.
func (h *house) configuration(t *testing.T, settings string) *config.Snapshot {
	return snapshotOf(t, settings+h.servers(t, "strict-2025-06-18"))
}

func newHouse(t *testing.T) *house {
	h := &house{gate: &gate{}}
	h.open(t, h.servers(t, "strict-2025-06-18"), func(*Options) {})
	return h
}

// servers starts a modern server, and a legacy one with the given profile. It returns the configuration
// that has them.
func (h *house) servers(t *testing.T, legacy string) string {
	t.Helper()
	text := "mcpServers:\n"
	for name, profile := range map[string]string{"old": legacy, "new": "strict-2026-07-28"} {
		s, err := fake.NewServer(profile, fake.Options{Capture: h})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(h.holding(s.Handler()))
		t.Cleanup(func() {
			_ = s.Close()
			web.Close()
		})
		text += fmt.Sprintf("  %s: {url: %q}\n", name, web.URL+"/mcp")
	}
	return text
}

// holding returns the handler of a server, in front of which calls of the tool wait stay until held is closed.
func (h *house) holding(server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if h.held != nil && bytes.Contains(body, []byte(`"name":"wait"`)) {
			select {
			case <-h.held:
			case <-r.Context().Done():
				return
			}
		}
		if r.Body = io.NopCloser(bytes.NewReader(body)); err == nil {
			server.ServeHTTP(w, r)
		}
	})
}

func snapshotOf(t testing.TB, text string) *config.Snapshot {
	t.Helper()
	c, problems := config.Parse("dragoman.yaml", []byte(text), nil)
	if c == nil {
		t.Fatal(problems)
	}
	return c
}

// open runs a configuration. edit changes the options of the runtime.
func (h *house) open(t *testing.T, text string, edit func(*Options)) {
	c := snapshotOf(t, text)
	o := Options{
		Principal: identity.Anyone,
		Config:    c, Log: slog.New(slog.DiscardHandler), Guard: httpdoor.NewGuard(nil, nil, nil), Budget: transport.NewBudget(64 << 20),
		Gate: Gate{Policy: policy.Chain{h.gate}, Audit: h.gate},
	}
	edit(&o)
	h.Runtime = New(o)
	h.Apply(event.DefaultProject, c)
	mux := http.NewServeMux()
	h.Routes(mux)
	web := httptest.NewServer(mux)
	h.url = web.URL
	t.Cleanup(func() {
		h.Drain()
		h.Close(time.Second)
		web.Close()
	})
}

// pipeTo connects a client on a pipe to an endpoint.
func pipeTo(t *testing.T, e *downstream.Endpoint) fake.Where {
	in, toClient := io.Pipe()
	fromClient, out := io.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = e.ServePipe(context.Background(), stdio.NewPipe(fromClient, toClient, stdio.Options{}), transport.Peer{Transport: "stdio", Who: identity.Local, Endpoint: "stdio"})
	})
	t.Cleanup(serving.Wait)
	return fake.Where{In: in, Out: out}
}

// TestPolicyAtEveryDoor checks a call that is let pass, one that is refused, one whose name leads
// nowhere, and one about which the person is asked, with a strict client of every revision, over HTTP
// and on a pipe, at the endpoint of all servers and at those of single servers of both eras. Each
// ends as the policy says, the servers get what they should get once, and the auditor hears of all.
func TestPolicyAtEveryDoor(t *testing.T) {
	h := newHouse(t)
	for _, revision := range mcp.Revisions() {
		for _, pipe := range []bool{false, true} {
			for _, door := range []struct{ server, path, prefix string }{
				{"old", "", "old__"}, {"new", "", "new__"}, {"old", "/s/old", ""}, {"new", "/s/new", ""},
			} {
				name := fmt.Sprintf("%s pipe %t %s at %q", revision, pipe, door.server, door.path)
				t.Run(name, func(t *testing.T) {
					at := fake.Where{URL: h.url + door.path + "/mcp"}
					if !revision.Can(mcp.StreamableHTTP) {
						at.URL = h.url + door.path + "/sse"
					}
					if pipe {
						e := h.Default().Joined()
						if door.path != "" {
							e = h.Default().mount(door.server).clients
						}
						at = pipeTo(t, e)
					}
					for _, action := range []string{"accept", "decline", "cancel"} {
						h.visit(t, visit{revision, at, door.server, door.prefix, action, ""})
						if pipe {
							break // a pipe has one client
						}
					}
				})
			}
		}
	}
	h.Drain() // ends what clients listen to
	h.endpoints.Close()
	if h.gate.began == 0 || h.gate.began != h.gate.ended {
		t.Errorf("the auditor saw %d requests begin and %d end", h.gate.began, h.gate.ended)
	}
}

// visit is what one client does in TestPolicyAtEveryDoor.
type visit struct {
	revision               mcp.Revision
	at                     fake.Where
	server, prefix, action string
	about                  string // begins each entry of the auditor
}

func (h *house) visit(t *testing.T, v visit) {
	c, err := fake.OpenClient(t.Context(), "strict-"+v.revision.String(), v.at, fake.ClientOptions{
		Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
			if v.action == "accept" {
				return fake.Obliging(a)
			}
			return []byte(`{"action":"` + v.action + `"}`), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if bad := c.Violations(); len(bad) > 0 {
			t.Errorf("the client saw violations: %q", bad)
		}
	}()
	h.gate.take()
	call := func(tool, text string) (answer string, executions int) {
		t.Helper()
		before := h.executions(text)
		r, err := c.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"`+v.prefix+tool+`","arguments":{"text":"`+text+`"}}`), fake.CallOptions{})
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Err != nil:
			answer = r.Err.Message
		default:
			answer = string(r.Result)
		}
		return answer, h.executions(text) - before
	}
	asked, asks := "refused", "the gate is shut"
	switch {
	case !v.revision.Can(mcp.Elicitation):
		asked, asks = "not_sent", "which this client cannot show: Echo this?"
	case v.action == "accept":
		asked, asks = "ok", `"ask"`
	}
	for _, x := range []struct {
		tool, text, want string
		sent             int
	}{
		{"echo", "yes", `"yes"`, 1},
		{"echo", "no", "the gate is shut", 0},
		{"echo", "ask", asks, map[bool]int{true: 1}[asked == "ok"]},
	} {
		if got, n := call(x.tool, x.text); !strings.Contains(got, x.want) || n != x.sent {
			t.Errorf("%s %s: got %s, and the server got %d calls", x.tool, x.text, got, n)
		}
	}
	call("nothing", "x")
	want := []string{v.server + " echo yes ok", v.server + " echo no refused"}
	if v.revision.Can(mcp.InputRequired) {
		want = append(want, v.server+" echo ask parked")
	}
	want = append(want, v.server+" echo ask "+asked)
	if v.prefix == "" {
		want = append(want, v.server+" nothing x failed")
	} else {
		want = append(want, " "+v.prefix+"nothing x refused")
	}
	for i := range want {
		want[i] = v.about + want[i]
	}
	got := h.gate.take()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the auditor saw\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
