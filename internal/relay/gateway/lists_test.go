package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
)

func TestSlowAndDeadServersDelayTheFirstListAloneAndByTheGraceAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &fake{name: "slow", list: func(ctx context.Context, _ string) ([][]byte, error) {
			return after(ctx, 30*time.Second, items(`{"name":"s"}`))
		}}
		dead := &fake{name: "dead", list: func(ctx context.Context, _ string) ([][]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		good := &fake{name: "good", lists: map[string][]string{"tools/list": {`{"name":"g"}`}}}
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{slow, dead, good}}
		defer g.Close()
		heard := &recordingCaller{}
		detach := g.Subscribe(&mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 9}, heard)
		defer detach()
		listed := func(t *testing.T, g *Merged, method string) []string {
			return listNamesFor(t, g, method, "{}")
		}

		start := time.Now()
		shows(t, listed(t, g, mcp.MethodListTools), "good__g")
		if d := time.Since(start); d != 1500*time.Millisecond {
			t.Errorf("the first list took %v", d)
		}
		// This loop covers ten minutes, which is long enough for all retries of the server that
		// failed.
		announced := false
		for range 600 {
			time.Sleep(time.Second)
			start = time.Now()
			got := listed(t, g, mcp.MethodListTools)
			if d := time.Since(start); d != 0 {
				t.Fatalf("a later list took %v", d)
			}
			if len(got) == 2 && !announced {
				announced = true
				synctest.Wait()
				shows(t, got, "slow__s good__g")
				if n := len(heard.all()); n != 1 || !strings.Contains(heard.all()[0], mcp.NoteToolsChanged) {
					t.Errorf("the client got %q, want one tools/list_changed", heard.all())
				}
			}
		}
		if !announced {
			t.Error("the slow server was never listed")
		}
	})
}

func TestLastGoodListIsKeptWhileAServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		away := false
		list := items(`{"name":"x"}`)
		u := &fake{name: "u", list: func(context.Context, string) ([][]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if away {
				return nil, errors.New("away")
			}
			return list, nil
		}}
		set := func(gone bool, now ...string) {
			mu.Lock()
			defer mu.Unlock()
			away, list = gone, items(now...)
		}
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{u}}
		defer g.Close()
		shows(t, listNames(t, g, mcp.MethodListTools), "u__x")
		set(true)
		g.Changed("u", "")
		for range 10 {
			shows(t, listNames(t, g, mcp.MethodListTools), "u__x")
			time.Sleep(time.Second)
		}
		set(false, `{"name":"y"}`)
		time.Sleep(2 * time.Second)
		shows(t, listNames(t, g, mcp.MethodListTools), "u__y")
		reads := u.seen.lists()
		shows(t, listNames(t, g, mcp.MethodListTools), "u__y")
		g.Changed("u", "prompts")
		g.Changed("other", "")
		shows(t, listNames(t, g, mcp.MethodListTools), "u__y")
		if u.seen.lists() != reads {
			t.Error("lists were read again although nothing changed")
		}
		set(false, `{"name":"z"}`)
		g.Changed("u", "tools")
		shows(t, listNames(t, g, mcp.MethodListTools), "u__z")
	})
}

func TestChangeDuringAReadingIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		u := &fake{name: "u", list: func(ctx context.Context, _ string) ([][]byte, error) {
			n++
			return after(ctx, 100*time.Millisecond, items(fmt.Sprintf(`{"name":"v%d"}`, n)))
		}}
		g := &Merged{Bridge: &bridge.Bridge{}, Upstreams: []Upstream{u}}
		defer g.Close()
		g.Warm(func(string) bool { return true })
		time.Sleep(50 * time.Millisecond)
		g.Changed("u", "tools")
		shows(t, listNamesFor(t, g, mcp.MethodListTools, "{}"), "u__v1")
		shows(t, listNamesFor(t, g, mcp.MethodListTools, "{}"), "u__v2")
	})
}

func TestPagesOfAJoinedList(t *testing.T) {
	const pageSize = 500
	var all []string
	for i := range 2*pageSize + 7 {
		all = append(all, fmt.Sprintf(`{"name":"t%04d"}`, i))
	}
	u := &fake{name: "u", lists: map[string][]string{"tools/list": all}}
	g := merged(t, u)
	names := listNames(t, g, mcp.MethodListTools)
	if len(names) != len(all) || !slices.IsSorted(names) {
		t.Fatalf("the list has %d names", len(names))
	}
	page := func(cursor string) *mcp.Reply {
		t.Helper()
		r, err := g.Call(t.Context(), modern(t, mcp.MethodListTools, `{"cursor":"`+cursor+`"}`), &recordingCaller{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first, err := g.Call(t.Context(), modern(t, mcp.MethodListTools, `{}`), &recordingCaller{})
	if err != nil {
		t.Fatal(err)
	}
	cursor := text(t, first, "nextCursor")
	begins := func(r *mcp.Reply, want string) {
		t.Helper()
		for e := range jsonrpc.Elements(r.Msg.Raw, r.Msg.ResultMember("tools")) {
			if got := string(e.Of(r.Msg.Raw)); got != want {
				t.Errorf("the page begins with %s, want %s", got, want)
			}
			return
		}
		t.Error("the page is empty")
	}
	begins(page(cursor), `{"name":"u__t0500"}`)
	// An item added before the cursor does not shift the page.
	u.lists = map[string][]string{"tools/list": append([]string{`{"name":"new"}`}, all...)}
	g.Changed("u", "tools")
	begins(page(cursor), `{"name":"u__t0500"}`)
	// The item that the cursor names no longer exists. The list does not start over.
	u.lists = map[string][]string{"tools/list": slices.Delete(slices.Clone(all), pageSize-1, pageSize)}
	g.Changed("u", "tools")
	begins(page(cursor), `{"name":"u__t0501"}`)
	// All items but one are removed.
	u.lists = map[string][]string{"tools/list": {`{"name":"left"}`}}
	g.Changed("u", "tools")
	if got := result(t, page(cursor)); got != `{"tools":[]}` {
		t.Errorf("got %s", got)
	}
}
