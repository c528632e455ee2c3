package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// keeping is a source whose lists an earlier process has kept. It becomes ready, or fails, after the
// time in late.
type keeping struct {
	source
	late time.Duration
	err  error // why the server cannot be opened; nil if it becomes ready

	mu   sync.Mutex
	disk map[string][]string // by method
	kept []string            // what Keep got: the method, and the number of items
	next map[string][]string // what the next process would find in disk
}

const earlier = 3 * time.Hour

func (s *keeping) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	if work.Sleep(ctx, s.late) != nil {
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.hello, s.err
}

func (s *keeping) Recall(method string) (items [][]byte, read time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.disk[method] {
		items = append(items, []byte(x))
	}
	if items == nil {
		return nil, time.Time{}
	}
	return items, time.Now().Add(-earlier)
}

func (s *keeping) Keep(method string, items [][]byte, _ time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, method+" "+strings.Repeat("x", len(items)))
	if s.next == nil {
		s.next = make(map[string][]string)
	}
	s.next[method] = nil
	for _, x := range items {
		s.next[method] = append(s.next[method], string(x))
	}
}

// keptSince returns what Keep got since the last call, sorted.
func (s *keeping) keptSince() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.kept
	s.kept = nil
	slices.Sort(all)
	return strings.Join(all, "|")
}

// announcements records the notifications of a catalog.
type announcements struct {
	mu  sync.Mutex
	all []string
}

func (a *announcements) add(note, _ string, _ Audience) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, note)
}

func (a *announcements) take() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all
	a.all = nil
	return all
}

func keepingCatalog(t *testing.T, all ...Source) (*Catalog, *announcements) {
	t.Helper()
	told := &announcements{}
	c := &Catalog{Sources: all, Announce: told.add}
	t.Cleanup(c.Close)
	return c, told
}

// toolsOf returns the names of the tools that a client sees, and the servers that are missing.
func toolsOf(t *testing.T, v View, all bool) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Second)
	defer stop()
	reply, err := v.Page(ctx, mcp.LookupMethod(mcp.MethodListTools), jsonrpc.Value{}, all)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(itemsOf(t, mcp.MethodListTools, reply)) {
		name, _ := jsonrpc.ValueOf([]byte(line)).Get("name").Text()
		names = append(names, name)
	}
	raw := reply.Msg.Raw
	return strings.Join(names, " ") + string(jsonrpc.Find(raw, reply.Msg.ResultMember(mcp.KeyMeta), mcp.KeyMissing).Of(raw))
}

const (
	tool1 = `{"name":"one"}`
	tool2 = `{"name":"two"}`
)

// TestKeptListWhileAServerStarts reads the tools of a server that is still starting, and of one that
// is ready. Clients see the list that an earlier process kept, and every client is told when the
// server's own list differs, but not when it is the same.
func TestKeptListWhileAServerStarts(t *testing.T) {
	for name, now := range map[string]string{"the same": tool1, "another": tool2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &keeping{source: source{name: "slow", lists: map[string][]string{mcp.MethodListTools: {now}}}, late: 20 * time.Second,
					disk: map[string][]string{mcp.MethodListTools: {tool1}, "": {`{"tools":{},"prompts":{}}`}}}
				c, told := keepingCatalog(t, slow, &source{name: "good", lists: map[string][]string{mcp.MethodListTools: {tool2}}})
				plain := c.View(&mcp.ClientInfo{Revision: mcp.R20251125}, nil)
				able := c.View(&mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(`{"elicitation":{}}`)}, nil)
				c.Warm(func(string) bool { return true })
				began := time.Now()
				if caps := string(able.Info(t.Context()).Capabilities); !strings.Contains(caps, `"prompts"`) {
					t.Errorf("the capabilities are %s", caps)
				}
				for _, v := range []View{able, plain} {
					if got := toolsOf(t, v, v == plain); got != "slow__one good__two" {
						t.Errorf("while the server starts: %s", got)
					}
				}
				if took := time.Since(began); took > 3*defaultGrace {
					t.Errorf("the answers took %s", took)
				}
				if r := c.Report(); r[0].Kept.IsZero() || !r[0].Read.IsZero() || !r[0].Reading || r[0].Items != 1 || !r[1].Kept.IsZero() {
					t.Errorf("the report is %+v", r)
				}
				if all := c.Items(mcp.MethodListTools); all[0].Have || all[0].Hello != nil {
					t.Errorf("operators see %+v", all[0])
				}
				told.take()
				time.Sleep(time.Minute)
				if got := told.take(); slices.Contains(got, mcp.NoteToolsChanged) != (now != tool1) {
					t.Errorf("clients are told %q", got)
				}
				want := map[string]string{tool1: "slow__one good__two", tool2: "slow__two good__two"}[now]
				if got := toolsOf(t, plain, false); got != want {
					t.Errorf("when the server is ready: %s", got)
				}
				if r := c.Report(); !r[0].Kept.IsZero() || r[0].Read.IsZero() {
					t.Errorf("the report is %+v", r[0])
				}
			})
		})
	}
}

// TestKeptListOfAServerThatFails checks that a kept list is not used once the server has failed. If an
// attempt only takes too long, the server may still become ready, so the list stays.
func TestKeptListOfAServerThatFails(t *testing.T) {
	late := &mcp.Error{Cause: "timeout", Message: "too late"}
	for _, x := range []struct {
		name string
		err  error
		want string
	}{
		{"exited", &mcp.Error{Cause: "exited", Message: "no such file"}, `{"failed":["slow"]}`},
		{"any error", errors.New("no such program"), `{"failed":["slow"]}`},
		{"not ready in time", late, "slow__one"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := &keeping{source: source{name: "slow"}, late: 10 * time.Second, err: x.err, disk: map[string][]string{mcp.MethodListTools: {tool1}}}
				c, told := keepingCatalog(t, slow)
				v := c.View(&mcp.ClientInfo{Revision: mcp.R20251125}, nil)
				if got := toolsOf(t, v, false); got != "slow__one" {
					t.Errorf("while the server starts: %s", got)
				}
				time.Sleep(time.Minute)
				if got := toolsOf(t, v, false); got != x.want {
					t.Errorf("after the failure: %s, want %s", got, x.want)
				}
				if got := told.take(); slices.Contains(got, mcp.NoteToolsChanged) != (x.err != error(late)) {
					t.Errorf("clients are told %q", got)
				}
			})
		})
	}
}

// TestWhichListsAreKept checks that only lists for clients without capabilities are kept, whole and
// with the items that the configuration hides, and that a filter applies to a kept list.
func TestWhichListsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &keeping{source: source{name: "u", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)}, lists: map[string][]string{mcp.MethodListTools: {tool1, tool2}}}, late: 10 * time.Second,
			disk: map[string][]string{mcp.MethodListTools: {tool1, tool2, `{"name":"three"}`}}}
		c, _ := keepingCatalog(t, u)
		c.Expose = only{"u one": true, "u three": true}
		able := c.View(&mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(`{"elicitation":{}}`)}, nil)
		if got := toolsOf(t, able, false); got != "u__one u__three" {
			t.Errorf("clients see %s", got)
		}
		if got := toolsOf(t, c.View(&mcp.ClientInfo{Revision: mcp.R20251125}, only{"u one": true}), false); got != "u__one" {
			t.Errorf("the client with a filter sees %s", got)
		}
		time.Sleep(time.Minute)
		if got, want := u.keptSince(), mcp.MethodListTools+" xx"; got != want {
			t.Errorf("the server has kept %q, want %q", got, want)
		}
		_ = toolsOf(t, c.View(nil, nil), true)
		c.View(nil, nil).Info(t.Context())
		time.Sleep(time.Minute)
		if got, want := u.keptSince(), " x|"+mcp.MethodListTools+" xx"; got != want {
			t.Errorf("the server has kept %q, want %q", got, want)
		}
	})
}

// TestCallOfAKeptTool checks that a kept tool is found at once, while an unknown name of the same server
// waits until the server is ready.
func TestCallOfAKeptTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &keeping{source: source{name: "slow", lists: map[string][]string{mcp.MethodListTools: {tool1, tool2}}}, late: 20 * time.Second,
			disk: map[string][]string{mcp.MethodListTools: {tool1}}}
		c, _ := keepingCatalog(t, slow)
		v := c.View(&mcp.ClientInfo{Revision: mcp.R20251125}, nil)
		began := time.Now()
		if target, ok := v.Find(t.Context(), KindTool, "slow__one"); !ok || target.Server != Source(slow) || time.Since(began) > defaultGrace {
			t.Errorf("the kept tool: %v, %t after %s", target, ok, time.Since(began))
		}
		if _, ok := v.Find(t.Context(), KindTool, "slow__two"); !ok || time.Since(began) != 20*time.Second {
			t.Errorf("the other tool: %t after %s", ok, time.Since(began))
		}
	})
}

// TestClientsThatSawAKeptListAreTold checks a client with capabilities. Until its own list is read, it
// sees the kept list for clients without capabilities, so it is told when that list changes. The list
// for everybody is read without any client that waits for it.
func TestClientsThatSawAKeptListAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &keeping{source: source{name: "slow", lists: map[string][]string{mcp.MethodListTools: {tool2}}}, late: 20 * time.Second,
			disk: map[string][]string{mcp.MethodListTools: {tool1}}}
		c, told := keepingCatalog(t, slow)
		c.Warm(func(string) bool { return true })
		v := c.View(&mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(`{"elicitation":{}}`)}, nil)
		if got := toolsOf(t, v, false); got != "slow__one" {
			t.Errorf("while the server starts: %s", got)
		}
		time.Sleep(time.Minute)
		if got := told.take(); !slices.Contains(got, mcp.NoteToolsChanged) {
			t.Errorf("the client is told %q", got)
		}
		if got := toolsOf(t, v, false); got != "slow__two" {
			t.Errorf("when the server is ready: %s", got)
		}
	})
}

// TestNamesStayAfterARestart checks that a name stays with the server that had it before a restart,
// although another one, which comes first in the file, also lists it and is ready much earlier.
func TestNamesStayAfterARestart(t *testing.T) {
	for _, x := range []struct {
		kind       Kind
		name, item string
		before     bool // the other server listed it before the restart too
	}{
		{KindTool, "one", tool1, true},
		{KindTool, "one", tool1, false},
		{KindResource, "file:///one", `{"uri":"file:///one"}`, true},
		{KindResource, "file:///one", `{"uri":"file:///one"}`, false},
		{KindTemplate, "file:///{one}", `{"uriTemplate":"file:///{one}"}`, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			method := x.kind.method()
			start := func(evil, had *keeping) *Catalog {
				c, _ := keepingCatalog(t, evil, had)
				c.Prefixes = map[string]string{"evil": "", "had": ""}
				return c
			}
			hello := mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true},"resources":{"listChanged":true}}`)}
			evil := &keeping{source: source{name: "evil", hello: hello, lists: map[string][]string{method: {}}}}
			had := &keeping{source: source{name: "had", hello: hello, lists: map[string][]string{method: {x.item}}}}
			c := start(evil, had)
			_, _ = page(t, c.View(nil, nil), method, "")
			if x.before {
				evil.lists[method] = []string{x.item}
				c.Changed("evil", "")
				_, _ = page(t, c.View(nil, nil), method, "")
			}
			synctest.Wait()
			evil.lists[method] = []string{x.item}
			evil.disk, had.disk, had.late = evil.next, had.next, 30*time.Second
			c = start(evil, had)
			c.Warm(func(string) bool { return true })
			for range 2 {
				if got, ok := c.View(nil, nil).Find(t.Context(), x.kind, x.name); !ok || got.Server != Source(had) {
					t.Errorf("%+v: found %v", x, got.Server)
				}
				time.Sleep(time.Minute)
			}
			had.lists[method] = nil
			c.Changed("had", "")
			time.Sleep(time.Minute)
			if got, ok := c.View(nil, nil).Find(t.Context(), x.kind, x.name); !ok || got.Server != Source(evil) {
				t.Errorf("%+v: found %v after the server has dropped the name", x, got.Server)
			}
		})
	}
}

// TestDrainAnnouncesNothing drains a catalog, as a reload does, while clients see a kept list.
func TestDrainAnnouncesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &keeping{source: source{name: "slow"}, late: 20 * time.Second, disk: map[string][]string{mcp.MethodListTools: {tool1}}}
		c, told := keepingCatalog(t, slow)
		v := c.View(&mcp.ClientInfo{Revision: mcp.R20251125}, nil)
		if got := toolsOf(t, v, false); got != "slow__one" {
			t.Errorf("while the server starts: %s", got)
		}
		told.take()
		c.Drain()
		if got := told.take(); len(got) != 0 {
			t.Errorf("clients are told %q", got)
		}
		if got := toolsOf(t, v, false); got != "slow__one" {
			t.Errorf("after the drain: %s", got)
		}
	})
}
