package catalog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// only is a filter that shows the listed items, each as "server name". It shows all servers.
type only map[string]bool

func (f only) Shows(kind Kind, server, name string) bool {
	return kind == KindServer || f[server+" "+name]
}

var listMethods = []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates}

// itemsOf returns the items of a list, as a client gets them, one per line.
func itemsOf(t *testing.T, method string, reply *mcp.Reply) string {
	t.Helper()
	raw := reply.Edits.Splice(nil, reply.Msg.Raw)
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{})
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	var out []string
	for e := range jsonrpc.Elements(m.Raw, m.ResultMember(mcp.LookupMethod(method).ListKey)) {
		out = append(out, string(e.Of(m.Raw)))
	}
	return strings.Join(out, "\n")
}

// TestFilterOfAListAndOfAPage applies one filter in three ways: through the view, to a page
// that the server wrote, and for all clients at once. In each case the same items remain, with the
// same bytes.
func TestFilterOfAListAndOfAPage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	f := &mcp.ClientInfo{Revision: mcp.R20260728}
	for range 200 {
		u := &source{name: "u", lists: map[string][]string{}}
		show := only{}
		var method string
		for _, method = range listMethods {
			for i := range r.IntN(9) {
				name := fmt.Sprintf("x:%d", i)
				if kind := kindOf(method); kind == KindTool || kind == KindPrompt {
					name = fmt.Sprintf("t%d", i)
				}
				u.lists[method] = append(u.lists[method], fmt.Sprintf(`{"z": 1e400, %q:%q}`, kindOf(method).key(), name))
				show["u "+name] = r.IntN(2) == 0
			}
		}
		c, exposing := catalogOf(t, u), catalogOf(t, u)
		exposing.Expose = show
		for _, method = range listMethods {
			merged, err := page(t, c.View(f, show), method, "")
			if err != nil {
				t.Fatal(err)
			}
			exposed, err := page(t, exposing.View(f, nil), method, "")
			if err != nil {
				t.Fatal(err)
			}
			m, err := jsonrpc.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{%q:[%s]}}`, mcp.LookupMethod(method).ListKey, strings.Join(u.lists[method], ", ")), jsonrpc.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			own := &mcp.Reply{Msg: m, From: mcp.R20260728}
			EditPage(&mcp.Call{Msg: jsonrpc.NewRequest("1", method, nil), Method: mcp.LookupMethod(method), Client: f}, own, PageEdit{Server: "u", Show: show})
			want := itemsOf(t, method, own)
			for what, got := range map[string]string{"by the view": itemsOf(t, method, merged), "for all": itemsOf(t, method, exposed)} {
				if got = strings.ReplaceAll(got, `"u__`, `"`); got != want {
					t.Errorf("%s: through the view the list is, for %s:\n%s\nby the edit of a page:\n%s", method, what, got, want)
				}
			}
		}
	}
}

// TestFilterOfSharedNames checks items of several servers with the same name. Of these items, the
// client lists, finds and counts the first one that its filter shows.
func TestFilterOfSharedNames(t *testing.T) {
	a := &source{name: "a", lists: map[string][]string{mcp.MethodListResources: {`{"uri":"x:1","of":"a"}`, `{"uri":"x:2","of":"a"}`, `{"uri":"x:1","of":"a again"}`}}}
	b := &source{name: "b", lists: map[string][]string{mcp.MethodListResources: {`{"uri":"x:2","of":"b"}`, `{"uri":"x:3","of":"b"}`}}}
	d := &source{name: "d", lists: map[string][]string{mcp.MethodListResources: {`{"uri":"x:2","of":"d"}`}}}
	for _, s := range []*source{a, b, d} {
		s.hello.Capabilities = []byte(`{"resources":{}}`)
	}
	c := catalogOf(t, a, b, d)
	f := &mcp.ClientInfo{Revision: mcp.R20260728}
	for _, x := range []struct {
		show   Filter
		list   string
		owners string // servers of x:1, x:2 and x:3
	}{
		{nil, `a: x:1, a: x:2, b: x:3`, "a a b"},
		{only{"a x:1": true, "b x:2": true, "d x:2": true, "b x:3": true}, `a: x:1, b: x:2, b: x:3`, "a b b"},
		{only{"d x:2": true}, `d: x:2`, "- d -"},
		{only{}, ``, "- - -"},
	} {
		v := c.View(f, x.show)
		reply, err := page(t, v, mcp.MethodListResources, "")
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, line := range strings.Split(itemsOf(t, mcp.MethodListResources, reply), "\n") {
			raw := []byte(line)
			if len(raw) > 0 {
				of, _ := jsonrpc.ValueOf(raw).Get("of").Text()
				uri, _ := jsonrpc.ValueOf(raw).Get("uri").Text()
				list = append(list, of+": "+uri)
			}
		}
		if got := strings.Join(list, ", "); got != x.list {
			t.Errorf("the filter %v lists %s, want %s", x.show, got, x.list)
		}
		var owners []string
		for _, uri := range []string{"x:1", "x:2", "x:3"} {
			name := "-"
			if t, err := v.Owner(t.Context(), uri); err == nil {
				name = t.Server.Name()
			}
			owners = append(owners, name)
		}
		if got := strings.Join(owners, " "); got != x.owners {
			t.Errorf("the filter %v: the owners are %s, want %s", x.show, got, x.owners)
		}
	}
}

// TestCursorCountsVisibleItems checks that a cursor counts only the items that the client sees.
// If the client no longer sees the last item of a page, the next page still begins after this item.
func TestCursorCountsVisibleItems(t *testing.T) {
	u := &source{name: "u", lists: map[string][]string{}}
	show := only{}
	var shown []string
	for i := range 3 * pageSize {
		name := fmt.Sprintf("t%04d", i)
		u.lists[mcp.MethodListTools] = append(u.lists[mcp.MethodListTools], fmt.Sprintf(`{"name":%q}`, name))
		if i%2 == 1 {
			show["u "+name] = true
			shown = append(shown, fmt.Sprintf(`{"name":"u__%s"}`, name))
		}
	}
	v := catalogOf(t, u).View(&mcp.ClientInfo{Revision: mcp.R20260728}, show)
	first, err := page(t, v, mcp.MethodListTools, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := itemsOf(t, mcp.MethodListTools, first), strings.Join(shown[:pageSize], "\n"); got != want {
		t.Errorf("the first page is %s", got)
	}
	cursor, _ := first.Msg.At(first.Msg.ResultMember("nextCursor")).Text()
	after, place, ok := openCursor(mcp.MethodListTools, cursor, true)
	if !ok || place != pageSize || after != "u__t0999" {
		t.Errorf("the cursor names %q at place %d", after, place)
	}
	show["u t0999"] = false // now the filter hides the item that the cursor names
	second, err := page(t, v, mcp.MethodListTools, `"`+cursor+`"`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := itemsOf(t, mcp.MethodListTools, second), strings.Join(shown[pageSize+1:], "\n"); got != want {
		t.Errorf("the second page is %s", got)
	}
}

// TestHiddenServer checks that a hidden server is not named anywhere, even while its
// list cannot be read.
func TestHiddenServer(t *testing.T) {
	a := &source{name: "a", lists: map[string][]string{mcp.MethodListTools: {`{"name":"t"}`}}}
	b := &broken{source{name: "b"}}
	c := &Catalog{Sources: []Source{a, b}}
	t.Cleanup(c.Close)
	f := &mcp.ClientInfo{Revision: mcp.R20260728}
	all, some := c.View(f, nil), c.View(f, without("b"))
	for what, x := range map[string]struct {
		v     View
		named bool
	}{"all": {all, true}, "some": {some, false}} {
		reply, err := page(t, x.v, mcp.MethodListTools, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(reply.Msg.Raw), `"b"`); got != x.named {
			t.Errorf("%s: %s", what, reply.Msg.Raw)
		}
		if err := x.v.NotFound(KindTool, "b__t"); strings.Contains(err.Error(), "Unknown tool: b__t") == x.named {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// counting is a filter that counts how often it's asked. It hides the tool with its name.
type counting struct {
	hides string
	asked int
}

func (f *counting) Shows(_ Kind, _, name string) bool {
	f.asked++
	return name != f.hides
}

// TestListsRememberFilters lets clients with two filters read a list twice. Each filter is asked once for each item, and
// again when the list has changed.
func TestListsRememberFilters(t *testing.T) {
	c := &Catalog{Sources: []Source{&source{name: "a", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}, lists: map[string][]string{
		mcp.MethodListTools: {`{"name":"x"}`, `{"name":"y"}`},
	}}}}
	t.Cleanup(c.Close)
	one, two := &counting{hides: "x"}, &counting{hides: "y"}
	l := c.list(t.Context(), c.audience(&mcp.ClientInfo{}), mcp.MethodListTools)
	for range 2 {
		if a, b := l.only(l.shown(one)), l.only(l.shown(two)); len(a) != 1 || len(b) != 1 || a[0].target.Name != "y" || b[0].target.Name != "x" {
			t.Errorf("the lists are %v and %v", a, b)
		}
	}
	if one.asked != 2 || two.asked != 2 {
		t.Errorf("the filters were asked %d and %d times", one.asked, two.asked)
	}
	if again := c.mergeLocked(c.audience(&mcp.ClientInfo{}), mcp.MethodListTools); again.shown(one) == "" || one.asked != 4 {
		t.Errorf("another list asks the filter %d times", one.asked)
	}
}
