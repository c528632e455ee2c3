package catalog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// asking is a source that shows more tools to clients that support elicitation or sampling.
type asking struct{ source }

func (s *asking) List(_ context.Context, f *mcp.ClientInfo, _ string) (items [][]byte, complete bool, err error) {
	items = [][]byte{[]byte(`{"name":"x"}`)}
	for _, name := range []string{"elicitation", "sampling"} {
		if strings.Contains(string(f.Capabilities), name) {
			items = append(items, []byte(`{"name":"with_`+name+`"}`))
		}
	}
	return items, true, nil
}

// TestOtherLists checks that operators see the lists that clients with more capabilities have got.
func TestOtherLists(t *testing.T) {
	c := &Catalog{Sources: []Source{&asking{source{name: "a"}}}}
	t.Cleanup(c.Close)
	c.Refresh(t.Context(), "a", mcp.MethodListTools)
	if all := c.Items(mcp.MethodListTools); len(all[0].Others) != 0 || len(all[0].Shown) != 1 {
		t.Errorf("before a client: %+v", all)
	}
	for _, caps := range []string{`{"sampling":{},"elicitation":{}}`, `{"elicitation":{}}`, `{}`} {
		if _, err := page(t, c.View(&mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(caps)}, nil), mcp.MethodListTools, ""); err != nil {
			t.Fatal(err)
		}
	}
	all := c.Items(mcp.MethodListTools)
	var got []string
	for _, o := range all[0].Others {
		got = append(got, fmt.Sprintf("%s %d", strings.Join(o.Capabilities, "+"), len(o.Shown)))
		if o.Version == 0 || o.Version == all[0].Version {
			t.Errorf("the version is %d", o.Version)
		}
	}
	if s := strings.Join(got, ", "); s != "elicitation 2, elicitation+sampling 3" || len(all[0].Shown) != 1 {
		t.Errorf("%s, %+v", s, all)
	}
}

// TestListsOfOneAudience reads only the lists for clients with certain capabilities. Items must not
// return one of these lists as the list for clients without capabilities.
func TestListsOfOneAudience(t *testing.T) {
	c := &Catalog{Sources: []Source{&asking{source{name: "a"}}}}
	t.Cleanup(c.Close)
	for _, caps := range []string{`{"elicitation":{}}`, `{"sampling":{}}`} {
		if _, err := page(t, c.View(&mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(caps)}, nil), mcp.MethodListTools, ""); err != nil {
			t.Fatal(err)
		}
	}
	x := c.Items(mcp.MethodListTools)[0]
	if x.Have || len(x.Shown) != 0 || x.Version != 0 || len(x.Others) != 2 || len(x.Others[0].Shown) != 2 || len(x.Others[1].Shown) != 2 {
		t.Errorf("%+v", x)
	}
}

// TestItems checks that operators see items that the configuration hides. The version changes
// only when the items change. A list is read only if an operator asks for it.
func TestItems(t *testing.T) {
	a := &source{name: "a", lists: map[string][]string{mcp.MethodListTools: {`{"name":"x"}`, `{"name":"y"}`}}}
	b := &source{name: "b", lists: map[string][]string{mcp.MethodListTools: {`{"name":"z"}`}}}
	c := catalogOf(t, a, b)
	c.Expose = only{"a x": true, "b z": true}
	c.Prefixes = map[string]string{"b": "bee"}
	if all := c.Items(mcp.MethodListTools); len(all) != 2 || all[0].Server != "a" || all[0].Have || all[1].Have {
		t.Errorf("before anything is read: %+v", all)
	}
	c.Refresh(t.Context(), "a", mcp.MethodListTools)
	c.Refresh(t.Context(), "nobody", mcp.MethodListTools)
	c.Refresh(t.Context(), "a", "no/method")
	all := c.Items(mcp.MethodListTools)
	if x := all[0]; !x.Have || len(x.Shown) != 1 || len(x.Hidden) != 1 || string(x.Hidden[0]) != `{"name":"y"}` || x.Version == 0 {
		t.Errorf("after a was read: %+v", x)
	}
	if all[1].Have {
		t.Error("b was read too")
	}
	version := all[0].Version
	again := func() uint64 {
		c.Changed("a", "tools")
		c.Refresh(t.Context(), "a", mcp.MethodListTools)
		return c.Items(mcp.MethodListTools)[0].Version
	}
	if v := again(); v != version {
		t.Errorf("the version of the same items changes from %d to %d", version, v)
	}
	a.lists[mcp.MethodListTools] = []string{`{"name":"x"}`, `{"name":"y","title":"Y"}`}
	if v := again(); v == version {
		t.Error("the version of other hidden items is the same")
	}
	if name := c.Offered(KindTool, "b", "z"); name != "bee__z" {
		t.Errorf("z is offered as %s", name)
	}
}

// slowly is a server that needs a second to list the tool that it has when it's asked.
type slowly struct {
	source
	tool atomic.Value
}

func (s *slowly) List(ctx context.Context, _ *mcp.ClientInfo, _ string) (items [][]byte, complete bool, err error) {
	tool := s.tool.Load().(string)
	err = work.Sleep(ctx, time.Second)
	return [][]byte{[]byte(tool)}, true, err
}

// TestChangeDuringAReading changes the tools of a server while they are read for a client. Another client, which
// has heard of the change, gets the result of that reading, which may be the old list, so it hears of the new one.
func TestChangeDuringAReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowly{source: source{name: "a", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}}}
		s.tool.Store(tool1)
		c, told := keepingCatalog(t, s)
		v := c.View(&mcp.ClientInfo{Revision: mcp.R20260728}, nil)
		var first sync.WaitGroup
		first.Go(func() { toolsOf(t, v, false) })
		time.Sleep(time.Second / 2)
		s.tool.Store(tool2)
		c.Changed("a", "tools")
		if got := toolsOf(t, v, false); got != "a__one" {
			t.Errorf("the second client gets %s", got)
		}
		first.Wait()
		time.Sleep(2 * time.Second)
		if got := told.take(); len(got) != 1 || got[0] != mcp.NoteToolsChanged {
			t.Errorf("clients heard of %v", got)
		}
		if got := toolsOf(t, v, false); got != "a__two" {
			t.Errorf("then it gets %s", got)
		}
	})
}
