package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestFindWhileOthersHang finds a tool of a server without a prefix, while 16 other servers without a
// prefix hang. Find waits for a hanging server only as long as this one may get the name.
func TestFindWhileOthersHang(t *testing.T) {
	const hanging = 16
	listed := map[string][]string{mcp.MethodListTools: {tool1}}
	for _, tt := range []struct {
		name   string
		good   *keeping
		first  bool     // the good server comes before the others in the file
		others []string // their kept lists
		find   string
		owner  string // "" if Find finds nothing
		want   time.Duration
		again  time.Duration // the same for a second client, when the servers have failed
	}{
		{"the first in the file", &keeping{source: source{lists: listed}}, true, nil, "one", "good", 0, 0},
		{"it starts, and is the first", &keeping{source: source{lists: listed}, late: time.Second}, true, nil, "one", "good", time.Second, 0},
		{"the last in the file", &keeping{source: source{lists: listed}}, false, nil, "one", "good", defaultGrace, 0},
		{"it starts slowly", &keeping{source: source{lists: listed}, late: 9 * time.Second}, false, nil, "one", "good", 9 * time.Second, 0},
		{"the others had other tools", &keeping{source: source{lists: listed}}, false, []string{tool2}, "one", "good", 0, 0},
		{"one of the others had the tool", &keeping{source: source{lists: listed}}, false, []string{tool1}, "one", "u0", 0, 0},
		{"it hangs too, but had the tool", &keeping{late: time.Hour, disk: listed}, true, nil, "one", "good", 0, 0},
		{"no server has the tool", &keeping{source: source{lists: listed}}, false, nil, "three", "", findLimit, defaultGrace},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.good.name = "good"
				c, _ := keepingCatalog(t)
				c.Prefixes = map[string]string{"good": ""}
				for i := range hanging {
					u := &keeping{source: source{name: fmt.Sprint("u", i)}, late: 30 * time.Second, err: fmt.Errorf("%w", context.DeadlineExceeded)}
					if tt.others != nil {
						u.disk = map[string][]string{mcp.MethodListTools: tt.others}
					}
					c.Sources, c.Prefixes[u.name] = append(c.Sources, u), ""
				}
				if tt.first {
					c.Sources = append([]Source{tt.good}, c.Sources...)
				} else {
					c.Sources = append(c.Sources, tt.good)
				}
				for i, want := range []time.Duration{tt.want, tt.again} {
					v := c.View(&mcp.ClientInfo{Conversation: uint64(i + 1)}, nil)
					began := time.Now()
					target, ok := v.Find(t.Context(), KindTool, tt.find)
					got := ""
					if ok {
						got = target.Server.Name()
					} else if err := v.NotFound(KindTool, tt.find).Error(); !strings.Contains(err, "u0, u1, u2, u3, u4 and 11 more") {
						t.Errorf("the error does not say which servers were not read: %s", err)
					}
					if waited := time.Since(began); got != tt.owner || waited != want {
						t.Errorf("client %d: found %q after %v, want %q after %v", i+1, got, waited, tt.owner, want)
					}
					time.Sleep(40*time.Second - time.Since(began))
				}
			})
		})
	}
}

// TestFindLetsTheFirstInTheFileWin checks that a server gets its name if it lists it in the grace time,
// although one that comes later in the file was faster, and that another client finds the same one.
func TestFindLetsTheFirstInTheFileWin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := map[string][]string{mcp.MethodListTools: {tool1}}
		first := &keeping{source: source{name: "first", lists: lists}, late: time.Second}
		other := &keeping{source: source{name: "other", lists: lists}}
		c, _ := keepingCatalog(t, first, other)
		c.Prefixes = map[string]string{"first": "", "other": ""}
		began := time.Now()
		var all sync.WaitGroup
		for show, want := range map[Filter]Source{nil: first, sees("first"): first, sees("other"): other} {
			all.Go(func() {
				got, ok := c.View(nil, show).Find(t.Context(), KindTool, "one")
				if !ok || got.Server != want || time.Since(began) != time.Second {
					t.Errorf("a client that sees %v found %v after %v", show, got.Server, time.Since(began))
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
	})
}

// TestNobodyGetsANameEarly checks that a list that is cancelled, the report and the console's search leave
// a name to the server that comes first in the file and lists it in the grace time.
func TestNobodyGetsANameEarly(t *testing.T) {
	for name, look := range map[string]func(ctx context.Context, c *Catalog){
		"list": func(ctx context.Context, c *Catalog) {
			_, _ = c.View(nil, nil).Page(ctx, mcp.LookupMethod(mcp.MethodListTools), jsonrpc.Value{}, false)
		},
		"report": func(_ context.Context, c *Catalog) { c.Report() },
		"search": func(_ context.Context, c *Catalog) { c.All(KindTool) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lists := map[string][]string{mcp.MethodListTools: {tool1}}
				first := &keeping{source: source{name: "first", lists: lists}, late: time.Second}
				other := &keeping{source: source{name: "other", lists: lists}}
				c, _ := keepingCatalog(t, first, other)
				c.Prefixes = map[string]string{"first": "", "other": ""}
				c.Warm(func(string) bool { return true })
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				look(ctx, c)
				if got, ok := c.View(nil, nil).Find(t.Context(), KindTool, "one"); !ok || got.Server != Source(first) {
					t.Errorf("found %v", got.Server.Name())
				}
			})
		})
	}
}

// sees is a filter that shows one server.
type sees string

func (s sees) Shows(_ Kind, server, _ string) bool { return server == string(s) }

// TestFindAfterAReload checks that a name stays with the server that had it before a reload, although the
// list of another server, which now comes first in the file, is there earlier. Nobody used the catalog of
// another reload in between, and the first one came before the other list was read.
func TestFindAfterAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := map[string][]string{mcp.MethodListTools: {tool1}}
		had := &keeping{source: source{name: "had", lists: lists}}
		evil := &keeping{source: source{name: "evil", lists: lists}, late: time.Second}
		before, _ := keepingCatalog(t, had, evil)
		before.Prefixes = map[string]string{"had": "", "evil": ""}
		before.View(nil, nil).Find(t.Context(), KindTool, "one")
		synctest.Wait()
		between, _ := keepingCatalog(t, evil, had)
		between.Prefixes = before.Prefixes
		between.Inherit(before)
		after, _ := keepingCatalog(t, evil, had)
		after.Prefixes = before.Prefixes
		after.Inherit(between)
		had.late, evil.late = time.Second, 0
		began := time.Now()
		if got, ok := after.View(nil, nil).Find(t.Context(), KindTool, "one"); !ok || got.Server != had || time.Since(began) != time.Second {
			t.Errorf("found server %q after %v", got.Server.Name(), time.Since(began))
		}
	})
}

// TestManyNamesReleaseNoOthers checks that a server cannot get the name of another one, whose list has not
// been read since a reload, by listing more names than the catalog keeps of a server.
func TestManyNamesReleaseNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		had := &keeping{source: source{name: "had", lists: map[string][]string{mcp.MethodListTools: {tool1}}}}
		evil := &keeping{source: source{name: "evil", lists: map[string][]string{}}}
		before, _ := keepingCatalog(t, had, evil)
		before.Prefixes = map[string]string{"had": "", "evil": ""}
		before.View(nil, nil).Find(t.Context(), KindTool, "one")
		synctest.Wait() // the list of the other server is read, too
		had.late = time.Hour
		for i := range maxHeld + 1 {
			evil.lists[mcp.MethodListTools] = append(evil.lists[mcp.MethodListTools], fmt.Sprintf(`{"name":"n%d"}`, i))
		}
		after, _ := keepingCatalog(t, evil, had)
		after.Prefixes = before.Prefixes
		after.Inherit(before)
		v := after.View(nil, nil)
		_, _ = page(t, v, mcp.MethodListTools, "")
		evil.lists[mcp.MethodListTools] = []string{tool1}
		after.Changed("evil", "tools")
		_, _ = page(t, v, mcp.MethodListTools, "")
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if got, ok := v.Find(ctx, KindTool, "one"); ok {
			t.Errorf("found %q", got.Server.Name())
		}
		if n := len(after.held); n != 1 {
			t.Errorf("%d names are held", n)
		}
	})
}

// TestFindWaitsForTheServerOfAPrefix checks that Find waits for the only server that may have a tool,
// however long its start takes, and that the client can give up.
func TestFindWaitsForTheServerOfAPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &keeping{source: source{name: "slow", lists: map[string][]string{mcp.MethodListTools: {tool1}}}, late: 50 * time.Second}
		hangs := &keeping{source: source{name: "hangs"}, late: time.Hour, err: errors.New("never")}
		c, _ := keepingCatalog(t, hangs, slow)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		if _, ok := c.View(nil, nil).Find(ctx, KindTool, "slow__one"); ok || time.Since(began) != 25*time.Second {
			t.Errorf("%v after %v", ok, time.Since(began))
		}
		if _, ok := c.View(nil, nil).Find(t.Context(), KindTool, "slow__one"); !ok || time.Since(began) != 50*time.Second {
			t.Errorf("%v after %v", ok, time.Since(began))
		}
	})
}
