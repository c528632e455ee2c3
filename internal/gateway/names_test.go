package gateway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

func TestT19_NamesThatNeedNoCareStayReadable(t *testing.T) {
	var n Names
	for _, x := range []struct{ server, item, want string }{
		{"github", "create_issue", "github__create_issue"},
		{"a", "b__c", "a__b__c"},
		{"a-b", "x/y.z", "a-b__x/y.z"},
		{"a_b", "c", "a_b__c"},
		{"s", strings.Repeat("x", 61), "s__" + strings.Repeat("x", 61)},
	} {
		if got := n.Join(x.server, x.item); got != x.want {
			t.Errorf("%q, %q: got %q, want %q", x.server, x.item, got, x.want)
		}
	}
}

func TestT19_NamesThatClientsRefuseGetAHash(t *testing.T) {
	var n Names
	for _, x := range [][2]string{
		{"s", strings.Repeat("x", 62)}, {"s", strings.Repeat("x", 300)}, {"s", "größe"}, {"s", "a b"},
		{"s", "\u202eabc"}, {"s", "a\u200db"}, {"s", "_x"}, {"s_", "x"}, {"a__b", "c"}, {"s", "x_h0123456789"}, {"日本", "x"},
	} {
		got := n.Join(x[0], x[1])
		if len(got) > maxName || !safe(got) || !hashed(got) {
			t.Errorf("%q, %q: got %q", x[0], x[1], got)
		}
		if !n.mayBe(x[0], got) {
			t.Errorf("%q is not taken for one of %q", got, x[0])
		}
	}
}

func TestTM23_TwoSplitsOfOneNameAreTwoNames(t *testing.T) {
	pairs := [][4]string{
		{"a", "b__c", "a__b", "c"}, {"a", "_b", "a_", "b"}, {"a", "__b", "a__", "b"}, {"a_", "_b", "a", "__b"},
		{"a", "b c", "a", "b_c"}, {"a", "ä", "a", "ö"},
		{"a", strings.Repeat("x", 100) + "1", "a", strings.Repeat("x", 100) + "2"},
	}
	for _, p := range pairs {
		if x, y := (Names{}).Join(p[0], p[1]), (Names{}).Join(p[2], p[3]); x == y {
			t.Errorf("%q and %q are both %q", p[:2], p[2:], x)
		}
	}
	// A name that is plain must not be the one that another's hash makes.
	hash := (Names{}).Join("a", "b c")
	if got := (Names{}).Join("a", strings.TrimPrefix(hash, "a__")); got == hash {
		t.Errorf("two items are offered as %q", got)
	}
}

func TestNamesAreInjectiveBoundedAndPure(t *testing.T) {
	for _, sep := range []string{"", "_", "-", ".", "aba", "/", "_-_", "-_"} {
		n := Names{Separator: sep}
		r := rand.New(rand.NewPCG(1, 2))
		word := func() string {
			// Few letters, so that words meet.
			const letters = "aab__-./ä"
			b := make([]rune, 1+r.IntN(6))
			for i := range b {
				all := []rune(letters)
				b[i] = all[r.IntN(len(all))]
			}
			if r.IntN(20) == 0 {
				return strings.Repeat(string(b), 20)
			}
			return string(b)
		}
		from := map[string][2]string{}
		for range 50_000 {
			pair := [2]string{word(), word()}
			got := n.Join(pair[0], pair[1])
			if old, ok := from[got]; ok && old != pair {
				t.Fatalf("separator %q: %q and %q are both %q", sep, old, pair, got)
			}
			from[got] = pair
			if len(got) > maxName || !safe(got) || got != n.Join(pair[0], pair[1]) || !n.mayBe(pair[0], got) {
				t.Fatalf("separator %q: %q is offered as %q", sep, pair, got)
			}
		}
	}
}

func TestT19_OneServerOrTwoMakesNoDifference(t *testing.T) {
	a := &fake{name: "a", lists: map[string][]string{"tools/list": {`{"name":"x"}`, `{"name":"b__c"}`, `{"name":"x"}`}}}
	b := &fake{name: "a__b", lists: map[string][]string{"tools/list": {`{"name":"c"}`}}}
	one := merged(t, a)
	two := merged(t, b, a)
	var shown []string
	for _, name := range offered(t, two, "tools/list") {
		if !strings.HasPrefix(name, "a__b_") || !hashed(name) {
			shown = append(shown, name)
		}
	}
	if got, want := fmt.Sprint(shown), fmt.Sprint(offered(t, one, "tools/list")); got != want || got != "[a__x a__b__c]" {
		t.Errorf("alone %s, beside another %s", want, got)
	}
}

// TestT19_EveryNameLeadsHome: tools whose names have the separator in them, begin or
// end with it, are long, not ASCII, or are listed twice, of servers whose names meet.
// Each is offered once, and the call of what is offered reaches its server under its
// own name; further servers before and behind change nothing of it.
func TestT19_EveryNameLeadsHome(t *testing.T) {
	names := []string{
		"x", "_", "__", "___", "_x", "x_", "__x", "x__", "a__b", "b__c", "x/y", "/", "x.y-z", "größe", "日本", "a b", "\u202eabc", "",
		strings.Repeat("x", 64), strings.Repeat("x", 300) + "1", strings.Repeat("x", 300) + "2", strings.Repeat("ä", 100), "x",
	}
	server := func(name string) *fake {
		u := &fake{name: name, lists: map[string][]string{}}
		for _, n := range names {
			u.lists[mcp.MethodListTools] = append(u.lists[mcp.MethodListTools], `{"name":`+string(jsonrpc.AppendQuote(nil, n))+`}`)
		}
		return u
	}
	of := map[string]string{} // offered name to "server own"
	check := func(what string, servers ...string) {
		t.Helper()
		all := map[string]*fake{}
		var order []*fake
		for _, s := range servers {
			all[s] = server(s)
			order = append(order, all[s])
		}
		g := merged(t, order...)
		got := offered(t, g, mcp.MethodListTools)
		if want := len(servers) * (len(names) - 2); len(got) != want { // all but "" and the second x
			t.Errorf("%s: %d tools are offered, want %d", what, len(got), want)
		}
		for _, name := range got {
			if len(name) > maxName || !safe(name) {
				t.Errorf("%s: %q is offered", what, name)
			}
			if _, err := g.Call(t.Context(), modern(t, mcp.MethodCallTool, `{"name":`+string(jsonrpc.AppendQuote(nil, name))+`}`), &ear{}); err != nil {
				t.Errorf("%s: %q: %v", what, name, err)
			}
		}
		for server, u := range all {
			for i, raw := range u.seen.all() {
				m := message(t, raw)
				own, _ := jsonrpc.Text(m.Raw, m.Param("name"))
				if own != append(slices.Clone(names[:17]), names[18:22]...)[i] {
					t.Errorf("%s: call %d of %s reached it as %q", what, i, server, own)
				}
				name := Names{}.Join(server, own)
				if old, known := of[name]; known && old != server+" "+own {
					t.Errorf("%s: %q is %s, and was %s", what, name, server+" "+own, old)
				}
				of[name] = server + " " + own
				if !slices.Contains(got, name) {
					t.Errorf("%s: %q of %s is not offered as %q", what, own, server, name)
				}
			}
			if n := len(u.seen.all()); n != len(names)-2 {
				t.Errorf("%s: %s was called %d times", what, server, n)
			}
		}
	}
	check("one server", "a")
	check("another behind", "a", "a_")
	check("others before", "a__b", "_", "a", "a_")
	check("many", "größe", "a__", "a__b", "_", "a", "a_", "a__b__c", strings.Repeat("s", 64))
}
