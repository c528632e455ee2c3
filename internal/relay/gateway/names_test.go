package gateway

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// accepted matches names that all clients accept, and hashed matches names that end with a
// hash.
var (
	accepted = regexp.MustCompile(`^[A-Za-z0-9_./-]{1,64}$`)
	hashed   = regexp.MustCompile(`_h[0-9a-f]{10}$`)
)

func TestT19_OneServerOrTwoMakesNoDifference(t *testing.T) {
	a := &fake{name: "a", lists: map[string][]string{"tools/list": {`{"name":"x"}`, `{"name":"b__c"}`, `{"name":"x"}`}}}
	b := &fake{name: "a__b", lists: map[string][]string{"tools/list": {`{"name":"c"}`}}}
	one := merged(t, a)
	two := merged(t, b, a)
	var shown []string
	for _, name := range listNames(t, two, "tools/list") {
		if !strings.HasPrefix(name, "a__b_") || !hashed.MatchString(name) {
			shown = append(shown, name)
		}
	}
	if got, want := fmt.Sprint(shown), fmt.Sprint(listNames(t, one, "tools/list")); got != want || got != "[a__x a__b__c]" {
		t.Errorf("the name is %s if the server is alone, but %s beside another server", want, got)
	}
}

// TestT19_EveryNameLeadsHome calls tools with difficult names on servers whose names overlap. The
// names contain the separator, begin or end with it, are long, are not ASCII, or are listed twice.
// Each tool is listed once. A call of the listed name reaches the right server, with the server's
// own name for the tool. The listed names do not depend on how many other servers there are.
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
	of := map[string]string{} // from listed name to "server tool"
	check := func(what string, servers ...string) {
		t.Helper()
		all := map[string]*fake{}
		var order []*fake
		for _, s := range servers {
			all[s] = server(s)
			order = append(order, all[s])
		}
		g := merged(t, order...)
		got := listNames(t, g, mcp.MethodListTools)
		if want := len(servers) * (len(names) - 2); len(got) != want { // all names except "" and the second x
			t.Errorf("%s: %d tools are listed, want %d", what, len(got), want)
		}
		for _, name := range got {
			if !accepted.MatchString(name) {
				t.Errorf("%s: %q is listed, which some clients refuse", what, name)
			}
			if _, err := g.Call(t.Context(), modern(t, mcp.MethodCallTool, `{"name":`+string(jsonrpc.AppendQuote(nil, name))+`}`), &recordingCaller{}); err != nil {
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
				name := catalog.Names{}.Join(server, own)
				if old, known := of[name]; known && old != server+" "+own {
					t.Errorf("%s: %q stands for %s, and stood for %s before", what, name, server+" "+own, old)
				}
				of[name] = server + " " + own
				if !slices.Contains(got, name) {
					t.Errorf("%s: %q of %s is not listed as %q", what, own, server, name)
				}
			}
			if n := len(u.seen.all()); n != len(names)-2 {
				t.Errorf("%s: %s was called %d times", what, server, n)
			}
		}
	}
	check("one server", "a")
	check("another after it", "a", "a_")
	check("others before it", "a__b", "_", "a", "a_")
	check("many", "größe", "a__", "a__b", "_", "a", "a_", "a__b__c", strings.Repeat("s", 64))
}
