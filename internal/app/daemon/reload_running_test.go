//go:build unix

package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// A change of the configuration must not interrupt running work. In these tests, calls, server
// requests, tasks and listens are running during each kind of change. The servers are fakes in this
// process and are not restarted, so only Dragoman can lose messages.

// reloadsVar is the environment variable that sets how often TestReloadUnderLoad changes the
// configuration.
const reloadsVar = "DRAGOMAN_SOAK_RELOADS"

// reloading is a daemon whose servers are fakes and whose configuration file the test changes.
type reloading struct {
	*fileDaemon
	urls map[string]string // the URL of each server, by name
	n    int               // a counter that makes the text of each change different
	last string            // the current content of the file
}

func serveReloading(t *testing.T) *reloading {
	t.Helper()
	r := &reloading{urls: map[string]string{}}
	for name, profile := range map[string]string{"old": legacyProfile, "new": modernProfile, "extra": legacyProfile} {
		s, err := fake.NewServer(profile, fake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s.Handler())
		t.Cleanup(web.Close)
		t.Cleanup(func() {
			_ = s.Close()
			for _, v := range s.Violations() {
				// If no client waits for a list any more, Dragoman cancels its list request. The
				// cancellation uses another connection, so it may arrive before the request.
				if !strings.HasPrefix(v, "notifications/cancelled: no request") {
					t.Errorf("server %s saw: %s", name, v)
				}
			}
		})
		r.urls[name] = web.URL + s.Path()
	}
	// Handle SIGHUP here, because a SIGHUP that arrives before the daemon handles it would end the
	// test process.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
	r.last = r.text("", "old", "new")
	r.fileDaemon = serveFile(t, r.last)
	return r
}

// text returns a configuration with the named servers. text appends more to the entry of each
// server.
func (r *reloading) text(more string, names ...string) string {
	out := "dragoman: {limits: {initializePerSecond: 10000}}\nmcpServers:\n"
	for _, name := range names {
		out += fmt.Sprintf("  %s: {url: %q%s}\n", name, r.urls[name], more)
	}
	return out
}

// with returns a configuration with the named servers. settings are the settings of each server
// under dragoman.servers.
func (r *reloading) with(settings string, names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, name+": "+settings)
	}
	return strings.Replace(r.text("", names...), "dragoman: {", "dragoman: {servers: {"+strings.Join(all, ", ")+"}, ", 1)
}

// change writes a configuration and sends SIGHUP. It returns when the daemon has applied the
// configuration, or has found that nothing has changed.
func (r *reloading) change(text string) {
	r.t.Helper()
	said := "configuration applied"
	if text == r.last {
		said = "configuration is unchanged"
	}
	r.last = text
	taken := func() int { return strings.Count(r.log.String(), said) }
	before := taken()
	r.write(r.t, text)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		r.t.Fatal(err)
	}
	await(r.t, "the configuration is applied", 10*time.Second, func() bool { return taken() > before })
}

// changeKind is a kind of configuration change. If gone is set, the change removes the servers
// "old" and "new".
type changeKind struct {
	name string
	gone bool
	same bool // the configuration stays the same, so listens continue
	text func(r *reloading) string
}

var changeKinds = []changeKind{
	{name: "nothing", same: true, text: func(r *reloading) string { return r.text("", "old", "new") }},
	{name: "settings", text: func(r *reloading) string {
		r.n++
		return r.text(fmt.Sprintf(", headers: {X-Version: \"%d\"}", r.n), "old", "new")
	}},
	{name: "timeouts", text: func(r *reloading) string {
		r.n++
		return r.with(fmt.Sprintf("{callTimeout: %ds}", 60+r.n%60), "old", "new")
	}},
	{name: "what is shown", text: func(r *reloading) string {
		r.n++
		return r.with(fmt.Sprintf("{expose: {tools: {deny: [nothing%d]}}}", r.n), "old", "new")
	}},
	{name: "order", text: func(r *reloading) string { return r.text("", "new", "old") }},
	{name: "a server more", text: func(r *reloading) string { return r.text("", "old", "new", "extra") }},
	{name: "identity", text: func(r *reloading) string {
		r.n++
		return strings.Replace(r.text("", "old", "new"), "dragoman: {", fmt.Sprintf("dragoman: {server: {title: \"Number %d\"}, ", r.n), 1)
	}},
	{name: "removed", gone: true, text: func(r *reloading) string { return r.text("", "extra") }},
}

// story is a sequence of requests of a client. The server sends a server request in between, and
// the test changes the configuration while the server request is open.
type story struct {
	name   string
	client string // the client's profile in package fake
	server string
	retry  bool // after the server request, the client sends another request, which a removed server cannot get
	tell   func(ctx context.Context, c *fake.Client, prefix string) error
}

func stories() (all []story) {
	for _, client := range []string{legacyProfile, modernProfile} {
		modern := client == modernProfile
		for _, server := range []string{"old", "new"} {
			add := func(name string, retry bool, tell func(context.Context, *fake.Client, string) error) {
				all = append(all, story{name, client, server, retry, tell})
			}
			add("question", modern, func(ctx context.Context, c *fake.Client, prefix string) error {
				_, err := callOf(ctx, c, prefix+"elicit", "{}", "")
				return err
			})
			add("two questions", modern, func(ctx context.Context, c *fake.Client, prefix string) error {
				_, err := callOf(ctx, c, prefix+"ask_twice", "{}", "")
				return err
			})
			if modern {
				add("task", true, modernTask)
			} else {
				add("task", true, legacyTask)
				add("cancelled task", false, func(ctx context.Context, c *fake.Client, prefix string) error {
					_, err := callOf(ctx, c, prefix+"task_only", `{"ask":true}`, "")
					return err
				})
			}
		}
	}
	return all
}

// callOf calls a tool and returns its result. more is further text in params, or "".
func callOf(ctx context.Context, c *fake.Client, tool, args, more string) ([]byte, error) {
	return requestOf(ctx, c, mcp.MethodCallTool, `{"name":"`+tool+`","arguments":`+args+more+`}`)
}

func requestOf(ctx context.Context, c *fake.Client, method, params string) ([]byte, error) {
	r, err := c.Call(ctx, method, []byte(params), fake.CallOptions{})
	switch {
	case err != nil:
		return nil, err
	case r.Err != nil:
		return nil, fmt.Errorf("%s %s: %d %s %s", method, params, r.Err.Code, r.Err.Message, r.Err.Data)
	case strings.Contains(string(r.Result), `"isError":true`):
		return nil, fmt.Errorf("%s %s: %s", method, params, r.Result)
	}
	return r.Result, nil
}

func legacyTask(ctx context.Context, c *fake.Client, prefix string) error {
	made, err := callOf(ctx, c, prefix+"task", `{"ask":true}`, `,"task":{}`)
	if err != nil {
		return err
	}
	id := memberOf(made, "task", "taskId")
	out, err := requestOf(ctx, c, mcp.MethodTaskResult, `{"taskId":"`+id+`"}`)
	if err == nil && !strings.Contains(string(out), "done: ") {
		err = fmt.Errorf("the task ended with %s", out)
	}
	return err
}

func modernTask(ctx context.Context, c *fake.Client, prefix string) error {
	made, err := callOf(ctx, c, prefix+"task", `{"ask":true}`, "")
	if err != nil {
		return err
	}
	id := memberOf(made, "taskId")
	for {
		st, err := requestOf(ctx, c, mcp.MethodGetTask, `{"taskId":"`+id+`"}`)
		switch status := memberOf(st, "status"); {
		case err != nil:
			return err
		case status == mcp.TaskInput:
			asks := jsonrpc.Find(st, jsonrpc.Whole(st), "inputRequests")
			for ask := range jsonrpc.Members(st, asks) {
				answer, _ := holdOf(ctx)(ctx, fake.Ask{Method: mcp.MethodElicit, Params: jsonrpc.Find(st, ask.Value, "params").Of(st)})
				if _, err := requestOf(ctx, c, mcp.MethodUpdateTask, `{"taskId":"`+id+`","inputResponses":{`+string(ask.Key.Of(st))+`:`+string(answer)+`}}`); err != nil {
					return err
				}
			}
		case status == mcp.TaskCompleted:
			if !strings.Contains(string(st), "done: ") {
				return fmt.Errorf("the task ended with %s", st)
			}
			return nil
		case status != mcp.TaskWorking:
			return fmt.Errorf("the task is %s", st)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

type holdKey struct{}

type answerer = func(ctx context.Context, a fake.Ask) ([]byte, *jsonrpc.Error)

func holdOf(ctx context.Context) answerer { return ctx.Value(holdKey{}).(answerer) }

// play runs a story with a new client at a URL. answer answers the server's requests.
func (s story) play(ctx context.Context, url, prefix string, answer answerer) error {
	c, err := fake.OpenClient(ctx, s.client, fake.Where{URL: url}, fake.ClientOptions{Answer: answer})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := s.tell(context.WithValue(ctx, holdKey{}, answer), c, prefix); err != nil {
		return err
	}
	for _, v := range c.Violations() {
		if !strings.Contains(v, "listChanged") { // after a reload, a client gets list_changed for all lists, even if the server did not declare listChanged
			return fmt.Errorf("the client saw %s", v)
		}
	}
	return nil
}

// TestReloadWhileClientsAreAsked changes the configuration while all stories wait for the client's
// answer. Every story continues, even if the client answers seconds after the change.
func TestReloadWhileClientsAreAsked(t *testing.T) {
	for _, kind := range changeKinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r := serveReloading(t)
			joined := func() bool {
				a := r.modern("/mcp", "1", "tools/list", "", "")
				return strings.Contains(a.body, "old__elicit") && strings.Contains(a.body, "new__elicit")
			}
			await(t, "both servers", 20*time.Second, joined)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var playing, asked sync.WaitGroup
			goOn := make(chan struct{})
			for _, s := range stories() {
				if kind.gone && s.retry {
					continue
				}
				for path, prefix := range map[string]string{"/mcp": s.server + "__", "/s/" + s.server + "/mcp": ""} {
					if kind.gone && prefix == "" {
						continue // the change removes the URL to which the client would post its answer
					}
					asked.Add(1)
					once := sync.OnceFunc(asked.Done)
					playing.Go(func() {
						defer once()
						err := s.play(ctx, r.base+path, prefix, func(ctx context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
							once()
							select {
							case <-goOn:
							case <-ctx.Done():
							}
							return fake.Obliging(a)
						})
						if err != nil {
							t.Errorf("%s of %s at %s: %v", s.name, s.client, path, err)
						}
					})
				}
			}
			listen := r.open("POST", "/mcp", modernBody(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
			if m := listen.event(); m == nil || m.Method != mcp.NoteAcknowledged {
				t.Errorf("the first message of the listen is %v", m)
			}
			asked.Wait()
			r.change(kind.text(r))
			for over := kind.same; !over; {
				m := listen.event()
				if m == nil || m.Kind != jsonrpc.Notification {
					t.Errorf("the listen ended with %v", m)
				}
				over = m == nil || m.Kind != jsonrpc.Notification || m.Method == mcp.NoteToolsChanged
			}
			time.Sleep(heldOver)
			for len(listen.next) > 0 {
				if m := listen.event(); m == nil || m.Kind != jsonrpc.Notification {
					t.Fatalf("the listen ended with %v", m)
				}
			}
			close(goOn)
			playing.Wait()
		})
	}
}

// heldOver is the time between a change and the answers of the clients. It is longer than the time
// for which Dragoman waits for calls that it is still sending.
const heldOver = 3 * time.Second

// TestReloadUnderLoad changes the configuration many times while clients make calls, start tasks
// and answer server requests. No call fails.
func TestReloadUnderLoad(t *testing.T) {
	reloads := 60
	if testing.Short() {
		reloads = 15
	}
	if text := os.Getenv(reloadsVar); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", reloadsVar, err)
		}
		reloads = n
	}
	r := serveReloading(t)
	await(t, "both servers", 20*time.Second, func() bool {
		a := r.modern("/mcp", "1", "tools/list", "", "")
		return strings.Contains(a.body, "old__elicit") && strings.Contains(a.body, "new__elicit")
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(reloads)*time.Second+time.Minute)
	defer cancel()
	var over atomic.Bool
	var told atomic.Int64
	var playing sync.WaitGroup
	all := stories()
	for i := range 6 {
		playing.Go(func() {
			for n := i; !over.Load(); n++ {
				s := all[n*7%len(all)]
				path, prefix := "/mcp", s.server+"__"
				if n%2 == 0 {
					path, prefix = "/s/"+s.server+"/mcp", ""
				}
				err := s.play(ctx, r.base+path, prefix, func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
					return fake.Obliging(a)
				})
				if err != nil {
					t.Errorf("%s of %s at %s: %v", s.name, s.client, path, err)
				}
				told.Add(1)
			}
		})
	}
	for n := range reloads {
		kind := changeKinds[n%(len(changeKinds)-1)] // leave out the last kind, which removes the servers
		r.change(kind.text(r))
		time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
	}
	over.Store(true)
	playing.Wait()
	t.Logf("%d reloads, %d stories", reloads, told.Load())
}
