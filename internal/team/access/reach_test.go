package access

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// TestReach checks what keys may use: their own project, with the role that calls need, and of it the
// servers and tools that their patterns name.
func TestReach(t *testing.T) {
	items := []struct {
		kind         catalog.Kind
		server, name string
	}{
		{catalog.KindServer, "git", ""}, {catalog.KindTool, "git", "log"}, {catalog.KindTool, "git", "push"}, {catalog.KindPrompt, "git", "review"}, {catalog.KindResource, "git", "git://log"},
		{catalog.KindServer, "db", ""}, {catalog.KindTool, "db", "a/log"},
	}
	all := "git git/log git/push git/review git/git://log db db/a/log"
	for _, c := range []struct {
		key  Key
		want string
	}{
		{Key{Role: identity.Caller}, all},
		{Key{Role: identity.Caller, Servers: []string{"*"}}, all},
		{Key{Role: identity.Caller, Servers: []string{"g*", "x"}}, "git git/log git/push git/review git/git://log"},
		{Key{Role: identity.Caller, Tools: []string{"git/*"}}, "git git/log git/push"},
		{Key{Role: identity.Caller, Tools: []string{"*/log"}}, "git git/log db db/a/log"},
		{Key{Role: identity.Caller, Tools: []string{"git/push"}}, "git git/push"},
		{Key{Role: identity.Caller, Tools: []string{"log"}}, ""},
		{Key{Role: identity.Caller, Servers: []string{"db"}, Tools: []string{"*/log"}}, "db db/a/log"},
		{Key{Role: identity.Caller, Servers: []string{"gi"}, Tools: []string{"*"}}, ""},
		{Key{}, "no project"},
		{Key{Role: identity.Admin}, "no project"},
	} {
		c.key.ID, c.key.Project = NewID(), "shop"
		g := NewGate(false)
		g.Use(NewKeys(MACKey{}, []Key{c.key}))
		who := &g.Keys().byID[c.key.ID].who
		got := "no project"
		if show, ok := g.Reach(who, "shop"); ok {
			var shown []string
			for _, x := range items {
				if show == nil || show.Shows(x.kind, x.server, x.name) {
					shown = append(shown, strings.TrimSuffix(x.server+"/"+x.name, "/"))
				}
			}
			got = strings.Join(shown, " ")
		}
		if got != c.want {
			t.Errorf("servers %q, tools %q, role %s: %s, want %s", c.key.Servers, c.key.Tools, c.key.Role, got, c.want)
		}
		for _, other := range []string{"default", "", "sho", "shop2"} {
			if _, ok := g.Reach(who, other); ok {
				t.Errorf("the key may use the project %q, too", other)
			}
		}
		g.Use(&Keys{})
		if _, ok := g.Reach(who, "shop"); ok {
			t.Error("the key may use the project after it was revoked")
		}
	}
	for _, who := range []*identity.Principal{nil, {}, identity.Named("local")} {
		if _, ok := NewGate(true).Reach(who, "default"); ok {
			t.Error(fmt.Sprint(who), "may use the default project")
		}
	}
}

// TestBarred checks that only who has another role in a project hears why they may not use its MCP endpoints.
func TestBarred(t *testing.T) {
	for role, want := range map[identity.Role]string{identity.Caller: "", identity.Viewer: "the API key has the role viewer", identity.Admin: "the API key has the role admin"} {
		k := Key{Role: role}
		k.ID, k.Project = NewID(), "shop"
		g := NewGate(false)
		g.Use(NewKeys(MACKey{}, []Key{k}))
		who := &g.Keys().byID[k.ID].who
		if got := g.Barred(who, "shop"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q", role, got)
		}
		for _, other := range []string{"default", "", "nowhere"} {
			if got := g.Barred(who, other); got != "" {
				t.Errorf("%s in %q: %s", role, other, got)
			}
		}
		g.Use(NewKeys(MACKey{}, nil))
		if got := g.Barred(who, "shop") + g.Barred(nil, "shop") + g.Barred(identity.Local, "shop"); got != "" {
			t.Errorf("%s, revoked: %s", role, got)
		}
	}
}

// TestReachOfRuns checks that only operators may start runs in a project, with no more than what their key is for.
func TestReachOfRuns(t *testing.T) {
	for role, ok := range map[identity.Role]bool{identity.Caller: false, identity.Viewer: false, identity.Operator: true, identity.Admin: true} {
		k := Key{Role: role, Servers: []string{"git"}, Tools: []string{"git/log"}}
		k.ID, k.Project = NewID(), "shop"
		g := NewGate(false)
		g.Use(NewKeys(MACKey{}, []Key{k}))
		who := g.Keys().byID[k.ID].who.Running(identity.API)
		show, got := g.Reach(who, "shop")
		if got != ok {
			t.Errorf("%s: %v", role, got)
		}
		if ok && (show == nil || !show.Shows(catalog.KindTool, "git", "log") || show.Shows(catalog.KindTool, "git", "push") || show.Shows(catalog.KindServer, "db", "")) {
			t.Errorf("%s sees something else", role)
		}
		if _, got := g.Reach(who, "default"); got {
			t.Errorf("%s may use another project", role)
		}
		g.Use(NewKeys(MACKey{}, nil))
		if _, got := g.Reach(who, "shop"); got {
			t.Errorf("%s, revoked", role)
		}
	}
}

// TestCaller checks what rules know of callers: a key's name, and whom it acts for, with their roles.
func TestCaller(t *testing.T) {
	ada := &store.Person{ID: "1", Name: "Ada", Roles: map[string][]identity.Role{"shop": {identity.Caller, identity.Operator}, "mall": {identity.Admin}}}
	hers, alone := Key{ID: NewID(), Name: "laptop", Owner: store.PersonSubject + "1", Project: "shop", Role: identity.Caller}, Key{ID: NewID(), Name: "ci", Project: "shop", Role: identity.Caller}
	g := NewGate(false)
	g.Use(NewKeys(MACKey{}, []Key{hers, alone}))
	g.people.Store(&People{known: map[string]*store.Person{store.PersonSubject + "1": ada}})
	for _, c := range []struct {
		who     *identity.Principal
		project string
		want    string
	}{
		{&g.Keys().byID[hers.ID].who, "shop", "laptop Ada [caller caller operator]"},
		{&g.Keys().byID[hers.ID].who, "mall", "laptop  []"},
		{&g.Keys().byID[alone.ID].who, "shop", "ci  [caller]"},
		{identity.Local, "shop", "  [caller admin]"},
		{nil, "shop", "  []"},
	} {
		got := g.Caller(c.who, c.project)
		if x := fmt.Sprintf("%s %s %v", got.Key, got.Person, got.Roles); x != c.want {
			t.Errorf("%+v in %s: %s, want %s", c.who, c.project, x, c.want)
		}
	}
}
