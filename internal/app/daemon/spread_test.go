//go:build unix

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// balancer returns the URL of a balancer that knows nothing: each request goes to the next replica.
func (f *fleet) balancer() string {
	var turns atomic.Int64
	web := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			to, err := url.Parse(f.all[int(turns.Add(1))%len(f.all)].base)
			if err != nil {
				f.t.Error(err)
			}
			r.SetURL(to)
		},
		FlushInterval: -1, Transport: &http.Transport{DisableKeepAlives: true}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	})
	f.t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL
}

// withChild gives each replica a process of its own of one server. All write into one journal.
func withChild(u *upstreamUnderTest) func(int, *ServeOptions) {
	return func(_ int, o *ServeOptions) { o.Config.Servers = append(o.Config.Servers, u.Server) }
}

// TestTC05 lets a legacy server ask a modern client, whose retries come to other replicas than the call. The tool runs once.
func TestTC05(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	f := newCluster(t, "mcpServers: {}\n", withChild(u))
	const params = `"name":"ask","arguments":{"v":1}`
	send := func(r *rig, params string) *jsonrpc.Message {
		return r.post("/s/child/mcp", canElicit(modernBody("1", "tools/call", params)), modernHeader("tools/call", "ask")...).message(t)
	}
	state, key := inputRequestOf(t, send(f.all[0], params))
	retry := retryOf(params, state, key, `{"who":"me"}`)
	if m := send(f.all[1], retry); toolText(m) != `{"v":1} {"who":"me"}` {
		t.Errorf("the retry elsewhere: %s", m.Raw)
	}
	for _, r := range f.all {
		if m := send(r, retry); errorCode(m) != jsonrpc.CodeInvalidParams || errorData(m, "outcome") != "unknown" {
			t.Errorf("the same retry again: %s", m.Raw)
		}
	}
	u.once(t, "ask")
}

// TestTC06 asks a legacy client. Its session is at one replica, its call comes to another one, and its answer to the third.
// So do its next call and its cancellation, after which the server stops working.
func TestTC06(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	f := newCluster(t, "mcpServers: {}\n", withChild(u))
	id := f.all[0].initialize("/s/child/mcp", "2025-06-18", `{"elicitation":{}}`)
	in := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-06-18"}
	accepted := func(body string) {
		t.Helper()
		if a := f.all[2].post("/s/child/mcp", body, in...); a.status != 202 {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	asking := f.all[1].open("POST", "/s/child/mcp", toolCall("20", "ask", `{"v":1}`), in...)
	ask := asking.event()
	if ask == nil || ask.Method != mcp.MethodElicit {
		t.Fatalf("the client isn't asked: %v", ask)
	}
	accepted(`{"jsonrpc":"2.0","id":` + string(ask.ID) + `,"result":{"action":"accept","content":{"who":"me"}}}`)
	if m := asking.event(); m == nil || toolText(m) != `{"v":1} {"who":"me"}` {
		t.Errorf("the answer to an answer: %v", m)
	}
	u.once(t, "ask")

	working := f.all[1].open("POST", "/s/child/mcp", strings.Replace(toolCall("21", "work", "{}"), `"params":{`, `"params":{"_meta":{"progressToken":"p"},`, 1), in...)
	if m := working.event(); m == nil || m.Method != mcp.NoteProgress {
		t.Fatalf("no progress: %v", m)
	}
	accepted(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":21}}`)
	await(t, "the server hears of the cancellation", 10*time.Second, func() bool { return u.count("cancelled") == 1 })
}

// TestTC07 has clients of HTTP+SSE whose streams are at one replica, and whose messages come to all of them in turn. Servers
// of both eras ask one, and the others notice nothing.
func TestTC07(t *testing.T) {
	t.Parallel()
	f := newCluster(t, fleetServers(t))
	url := f.balancer() + "/sse"
	ctx, cancel := context.WithTimeout(t.Context(), patience(20*time.Second))
	defer cancel()
	var playing sync.WaitGroup
	for range 4 { // their streams are at different replicas
		playing.Go(func() {
			c, err := fake.OpenClient(ctx, "strict-2024-11-05", fake.Where{URL: url}, fake.ClientOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			for i := range 6 {
				server := []string{"old", "new"}[i%2]
				out, err := callOf(ctx, c, server+"__add", fmt.Sprintf(`{"a":%d,"b":1}`, i), "")
				if err != nil || !strings.Contains(string(out), fmt.Sprintf(`"text":"%d"`, i+1)) {
					t.Errorf("add: %s, %v", out, err)
				}
				if out, err = callOf(ctx, c, server+"__sample", `{"prompt":"say"}`, ""); err != nil {
					t.Errorf("a question: %s, %v", out, err)
				}
			}
			for _, v := range c.Violations() {
				t.Errorf("the client saw %s", v)
			}
		})
	}
	playing.Wait()
}

// TestTC08 breaks a stream with a question at one replica. The client answers at another one, and goes on with the stream
// at each of them.
func TestTC08(t *testing.T) {
	t.Parallel()
	u := child(t, "child", "legacy")
	f := newCluster(t, "mcpServers: {}\n", withChild(u))
	id := f.all[0].initialize("/s/child/mcp", "2025-11-25", `{"elicitation":{}}`)
	in := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25"}
	// events reads a stream until a message with this text, and returns the id of its first event.
	events := func(r *rig, method, body, until string, header ...string) (first string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience(20*time.Second))
		defer cancel()
		resp, err := r.request(ctx, method, "/s/child/mcp", strings.NewReader(body), append(header, in...)...)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		for stream := eventstream.NewReader(resp.Body, eventstream.Limits{}); ; {
			e, err := stream.Next()
			if err != nil {
				t.Fatalf("%s with status %d ends before %q: %v", method, resp.StatusCode, until, err)
			}
			if first == "" {
				first = e.ID
			}
			if strings.Contains(string(e.Data), until) {
				m, err := jsonrpc.Scan(e.Data, jsonrpc.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				if m.Method == mcp.MethodElicit && method == "POST" {
					answer := `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"who":"me"}}}`
					cancel() // the connection breaks first
					if a := f.all[2].post("/s/child/mcp", answer, in...); a.status != 202 {
						t.Errorf("the answer: %d %s", a.status, a.body)
					}
				}
				return first
			}
		}
	}
	first := events(f.all[1], "POST", toolCall("20", "ask", `{"v":1}`), mcp.MethodElicit)
	if first == "" {
		t.Fatal("the stream has no ids")
	}
	for _, r := range []*rig{f.all[2], f.all[0], f.all[1]} {
		events(r, "GET", "", `{\"who\":\"me\"}`, "Last-Event-ID", first)
	}
	u.once(t, "ask")
}

// TestTC09 lets clients of all pairs of eras be asked and make tasks, through a balancer. So their polls and answers
// come to other replicas than their calls.
func TestTC09(t *testing.T) {
	t.Parallel()
	f := newCluster(t, fleetServers(t))
	at := f.balancer()
	ctx, cancel := context.WithTimeout(t.Context(), patience(30*time.Second))
	defer cancel()
	var playing sync.WaitGroup
	for _, s := range stories() {
		playing.Go(func() {
			if err := s.play(ctx, at+"/mcp", s.server+"__", func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) { return fake.Obliging(a) }); err != nil {
				t.Errorf("%s of %s at %s: %v", s.name, s.client, s.server, err)
			}
		})
	}
	playing.Wait()
}

// TestTC37 starts a replica on the database of others, but with another key of the vault. It's refused with a sentence, and
// the others go on.
func TestTC37(t *testing.T) {
	t.Parallel()
	text := fleetServers(t) + confirmed
	f := newCluster(t, text)
	o := ServeOptions{Listen: "127.0.0.1:0", Ready: func(string) { t.Error("a replica with another key starts") }}
	asOneOf(t, text, "stranger")(&o)
	o.Env = func(name string) (string, bool) { return strings.TrimSpace(sealingKey(8)), name == "VAULT" }
	ctx, cancel := context.WithTimeout(t.Context(), patience(10*time.Second))
	defer cancel()
	var e *vault.Error
	if err := Serve(ctx, o); !errors.As(err, &e) || !strings.Contains(e.Text, "is not the one that the secrets in the database were sealed with") || e.Next == "" {
		t.Errorf("another key: %v", err)
	}
	f.everything()
	soon(t, "there are the three replicas", func() bool { return len(f.all[0].statusOnly().Replicas) == len(f.all) })
}
