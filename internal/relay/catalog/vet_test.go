package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// judge is a Vet that hides the items whose name ends with "bad", and adds a member to those whose name
// ends with "new". asked counts how often it is asked for each item.
func judge(asked map[string]int) Vet {
	var mu sync.Mutex // the lists of several servers are read at the same time
	return func(kind Kind, server string, _ mcp.Revision, raw []byte) (v Verdict, e jsonrpc.EditList) {
		name := nameOfItem(kind, raw)
		mu.Lock()
		asked[server+" "+name]++
		mu.Unlock()
		if strings.HasSuffix(name, "bad") {
			v.Hide = "it is bad"
		} else if strings.HasSuffix(name, "new") {
			e.Object(mcp.WhyVetted, raw, jsonrpc.Whole(raw), nil, jsonrpc.Field{Key: "seen", Value: []byte("true")})
		}
		return v, e
	}
}

// TestVetOfAListAndOfAPage checks that a merged list and a page of a server's own list have the same
// items after a Vet, whether or not a filter hides some too.
func TestVetOfAListAndOfAPage(t *testing.T) {
	f := &mcp.ClientInfo{Revision: mcp.R20260728}
	for _, show := range []Filter{nil, only{"u x:1new": true, "u x:2bad": true, "u x1new": true, "u x2bad": true}} {
		for _, method := range listMethods {
			key, list, x := kindOf(method).key(), []string{}, "x:"
			if key == "name" {
				x = "x"
			}
			for _, name := range []string{"0", "1new", "2bad", "3new"} {
				list = append(list, fmt.Sprintf(`{"z": 1e400, %q:%q}`, key, x+name))
			}
			asked := map[string]int{}
			c := catalogOf(t, &source{name: "u", lists: map[string][]string{method: list}})
			c.Vet, c.Prefixes = judge(asked), map[string]string{"u": ""}
			for range 2 {
				merged, err := page(t, c.View(f, show), method, "")
				if err != nil {
					t.Fatal(err)
				}
				want := `{"seen":true,"z": 1e400, "` + key + `":"` + x + `1new"}`
				if show == nil {
					want = list[0] + "\n" + want + "\n" + strings.Replace(want, "1new", "3new", 1)
				}
				if got := itemsOf(t, method, merged); got != want {
					t.Errorf("merged, %s: %s\nwant %s", method, got, want)
				}
				m, err := jsonrpc.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{%q:[%s]}}`, mcp.LookupMethod(method).ListKey, strings.Join(list, ", ")), jsonrpc.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				own, lost := &mcp.Reply{Msg: m, From: mcp.R20260728}, ""
				EditPage(&mcp.Call{Msg: jsonrpc.NewRequest("1", method, nil), Method: mcp.LookupMethod(method), Client: f}, own, PageEdit{
					Server: "u", Show: show, Vet: judge(map[string]int{}), Lost: func(name, why string) { lost += name + ": " + why },
				})
				if got := itemsOf(t, method, own); got != want || lost != x+"2bad: it is bad" {
					t.Errorf("the page, %s: %s\nwithout %s\nwant %s", method, got, lost, want)
				}
			}
			for item, n := range asked {
				if n != 1 {
					t.Errorf("the Vet was asked %d times for %s", n, item)
				}
			}
		}
	}
}

// TestVettedItemsAreReported checks that operators see what a Vet hides, with the reason, that it is
// reported as lost once, and that the next process does not show it either.
func TestVettedItemsAreReported(t *testing.T) {
	u := &keeping{source: source{name: "u", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)}, lists: map[string][]string{
		mcp.MethodListTools: {`{"name":"good"}`, `{"name":"new"}`, `{"name":"bad"}`},
	}}}
	var lost []string
	c := &Catalog{Sources: []Source{u}, Vet: judge(map[string]int{}), Lost: func(server, method, why string) { lost = append(lost, server+" "+method+" "+why) }}
	for range 2 {
		if _, err := page(t, c.View(&mcp.ClientInfo{}, nil), mcp.MethodListTools, ""); err != nil {
			t.Fatal(err)
		}
		c.Changed("u", "tools")
	}
	if len(lost) != 1 || lost[0] != `u tools/list "bad" is left out: it is bad` {
		t.Errorf("the losses are %q", lost)
	}
	r := c.Report()
	i := slices.IndexFunc(r, func(x ListReport) bool { return x.Method == mcp.MethodListTools })
	if i < 0 || r[i].Items != 2 || len(r[i].Rejected) != 1 || r[i].Rejected[0] != (RejectedItem{"bad", "it is bad"}) {
		t.Errorf("the report is %+v", r)
	}
	c.Close()
	if got := u.keptSince(); !strings.Contains(got, "tools/list xx") || strings.Contains(got, "xxx") {
		t.Errorf("%s is kept", got)
	}
}
