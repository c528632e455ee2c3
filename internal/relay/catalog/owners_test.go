package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// holder returns a server with resources, and with these lists.
func holder(name string, lists map[string][]string) *source {
	return &source{name: name, lists: lists, hello: mcp.ServerInfo{Capabilities: []byte(
		`{"tools":{"listChanged":true},"resources":{"listChanged":true},"extensions":{"io.modelcontextprotocol/skills":{}}}`)}}
}

// templates, resources and skillsOf return the list of one method.
func templates(all ...string) map[string][]string {
	return listOf(mcp.MethodListTemplates, "uriTemplate", all)
}
func resources(all ...string) map[string][]string { return listOf(mcp.MethodListResources, "uri", all) }
func skillsOf(all ...string) map[string][]string  { return listOf(mcp.MethodListSkills, "uri", all) }

func listOf(method, key string, all []string) map[string][]string {
	out := map[string][]string{}
	for _, x := range all {
		out[method] = append(out[method], `{"name":"n","`+key+`":"`+x+`"}`)
	}
	return out
}

// goes checks which server gets the requests of a client for a URI. want may also be a part of the
// error.
func goes(t *testing.T, v View, uri, want string) {
	t.Helper()
	u, err := v.Owner(t.Context(), uri)
	got := fmt.Sprint(err)
	if err == nil {
		got = u.Server.Name()
	}
	if got != want && (err == nil || !strings.Contains(got, want)) {
		t.Errorf("%s goes to %s, want %s", uri, got, want)
	}
}

// TestMarkWithoutPath checks that the segment which names a server is no URI on its own.
func TestMarkWithoutPath(t *testing.T) {
	c := catalogOf(t, holder("evil", nil), holder("b", nil))
	c.Holds = func(context.Context, Source, *mcp.ClientInfo, string) (bool, error) { return true, nil }
	v := c.View(&mcp.ClientInfo{}, nil)
	for _, uri := range []string{"ui://dragoman-evil", "skill://dragoman-evil", "ui://dragoman-"} {
		goes(t, v, uri, "not found")
	}
	goes(t, v, "ui://dragoman-evil/x", "evil")
}

// TestSkillsOfOtherSchemes has a skill whose folder would contain the files of another server.
func TestSkillsOfOtherSchemes(t *testing.T) {
	victim := holder("victim", templates("file:///docs/{path}"))
	victim.lists[mcp.MethodListResources] = resources("file:///listed/x")[mcp.MethodListResources]
	c := catalogOf(t, victim, holder("b", templates("note://{+all}")), holder("evil", skillsOf("file:///SKILL.md", "note://host/notes/SKILL.md", "file:///docs/SKILL.md",
		"file:///home/victim/SKILL.md", "file:///listed/SKILL.md", "https://host/SKILL.md", "git://host/repo/skills/refunds/SKILL.md")))
	c.Holds = func(_ context.Context, u Source, _ *mcp.ClientInfo, uri string) (bool, error) {
		if strings.HasSuffix(uri, "refunds/a.md") {
			t.Error("the servers were asked for a file of a skill")
		}
		return u.Name() == "b", nil
	}
	v := c.View(&mcp.ClientInfo{}, nil)
	v.learn("file:///home/victim/secret-report.txt", victim)
	for uri, want := range map[string]string{
		"file:///docs/x.md":                       "victim",
		"file:///home/victim/secret-report.txt":   "victim",
		"file:///listed/x":                        "victim",
		"note://host/notes/x":                     "b",
		"file:///etc/hosts":                       "b",
		"https://host/x":                          "b",
		"git://host/repo/skills/refunds/a.md":     "evil",
		"git://host/repo/skills/refunds":          "evil",
		"git://host/repo/skills/refunds/SKILL.md": "evil",
		"git://host/repo/skills/refundsX":         "b",
	} {
		goes(t, v, uri, want)
	}
}

// TestWideTemplates has a server whose templates match everything.
func TestWideTemplates(t *testing.T) {
	everything := []string{"ui://{+all}", "skill://{+all}", "{+any}", "ui:///{+all}", "file:///{+all}", "file://{+all}", "note:{id}"}
	for _, order := range [][]string{{"evil", "victim", "c"}, {"c", "victim", "evil"}} {
		all := map[string]*source{
			"evil":   holder("evil", templates(everything...)),
			"victim": holder("victim", templates("ui://page/{x}", "y://{id}", "file:///docs/{path}")),
			"c":      holder("c", nil),
		}
		c := catalogOf(t, all[order[0]], all[order[1]], all[order[2]])
		has := map[string]string{"ui://app/only": "victim", "skill://other/SKILL.md": "victim", "mem2://other": "victim"}
		c.Holds = func(_ context.Context, u Source, _ *mcp.ClientInfo, uri string) (bool, error) {
			if strings.Contains(uri, "both") || uri == "y://7" {
				return true, nil
			}
			return has[uri] == u.Name(), nil
		}
		v := c.View(&mcp.ClientInfo{}, nil)
		for uri, want := range map[string]string{
			"ui://page/x": "victim", "y://7": "victim", "file:///docs/x": "victim",
			"ui://app/only": "victim", "skill://other/SKILL.md": "victim", "mem2://other": "victim",
			"ui://app/both": "not found", "ui:///both": "not found", "mem2://none": "not found",
			"mem2://both": order[0], "note:both": "evil",
		} {
			goes(t, v, uri, want)
		}
		// A request with many URIs asks no server.
		if got, err := v.KnownOwner(t.Context(), "y://8"); err != nil || got.Server.Name() != "victim" {
			t.Errorf("y://8 goes to %v, %v", got.Server, err)
		}
		for _, uri := range []string{"ui://new/x", "mem9://new"} {
			if got, err := v.KnownOwner(t.Context(), uri); err == nil {
				t.Errorf("%s goes to %s", uri, got.Server.Name())
			}
		}
	}
}

// TestHeldTemplates looks for resources that are in no list, while a template of a server is held. That server isn't
// asked for what its template matches. Others aren't either if the template would have led to it; one that anybody could
// have doesn't keep a resource from who has it.
func TestHeldTemplates(t *testing.T) {
	for _, x := range []struct{ template, uri, want, asked string }{
		{"file:///docs/{path}", "file:///docs/x", "is held", ""},
		{"file:///docs/{path}", "file:///home/x", "b", "ab"},
		{"note://{id}", "note://x", "b", "b"},
		{"{+all}", "note://x", "b", "b"},
	} {
		c := catalogOf(t, holder("a", templates(x.template)), holder("b", nil))
		c.Vet = func(kind Kind, server string, _ mcp.Revision, _ []byte) (v Verdict, _ jsonrpc.EditList) {
			if kind == KindTemplate && server == "a" {
				v = Verdict{Hide: "it has changed", Held: true}
			}
			return v, jsonrpc.EditList{}
		}
		asked := make(chan string, 2)
		c.Holds = func(_ context.Context, u Source, _ *mcp.ClientInfo, _ string) (bool, error) {
			asked <- u.Name()
			return u.Name() == "b", nil
		}
		v := c.View(&mcp.ClientInfo{}, nil)
		got, err := v.Owner(t.Context(), x.uri)
		if err != nil {
			err = v.WithheldURI(x.uri)
		}
		if err != nil && !strings.Contains(err.Error(), x.want) || err == nil && (got.Server == nil || got.Server.Name() != x.want) {
			t.Errorf("%s for %s: %v, %v", x.uri, x.template, got, err)
		}
		close(asked)
		var all []string
		for name := range asked {
			all = append(all, name)
		}
		slices.Sort(all)
		if strings.Join(all, "") != x.asked {
			t.Errorf("%s for %s: %q were asked", x.uri, x.template, all)
		}
	}
}

// TestTemplatesOfOneFolder checks that no other server takes the URIs of a template: neither with a
// longer one, nor by coming first in the configuration when it offers one later.
func TestTemplatesOfOneFolder(t *testing.T) {
	first, victim := holder("first", nil), holder("victim", templates("file:///docs/{path}"))
	c := catalogOf(t, first, victim, holder("evil", templates("file:///docs/a{path}", "file:///docs/sub/{path}")))
	v := c.View(&mcp.ClientInfo{}, nil)
	goes(t, v, "file:///docs/abc", "victim")
	goes(t, v, "file:///docs/sub/x", "victim")
	first.lists = templates("file:///docs/{+path}", "file:///docs/{path}", "file:///own/{path}")
	c.Changed("first", "resources")
	goes(t, v, "file:///own/x", "first")
	goes(t, v, "file:///docs/abc", "victim")
	if got, ok := v.Find(t.Context(), KindTemplate, "file:///docs/{path}"); !ok || got.Server.Name() != "victim" {
		t.Errorf("the template belongs to %v", got.Server)
	}
}

// rejected returns what the report says about an item of a server.
func rejected(c *Catalog, server, name string) string {
	for _, r := range c.Report() {
		if i := slices.IndexFunc(r.Rejected, func(x RejectedItem) bool { return x.Name == name }); r.Server == server && i >= 0 {
			return r.Rejected[i].Why
		}
	}
	return ""
}

// TestListedLater has a server, first in the configuration, that lists the resources of another one
// later. When the other one no longer has a resource, it can have it.
func TestListedLater(t *testing.T) {
	const listed, linked = "file:///listed", "file:///linked"
	evil, victim := holder("evil", nil), holder("victim", resources(listed))
	c := catalogOf(t, evil, victim, holder("c", nil))
	var lost []string
	c.Lost = func(server, _, why string) { lost = append(lost, server+": "+why) }
	views := []View{c.View(&mcp.ClientInfo{Revision: mcp.R20260728}, nil), c.View(&mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 3}, nil)}
	goes(t, views[0], listed, "victim")
	views[1].learn(linked, victim)
	evil.lists = resources(listed, linked, "file:///own")
	evil.lists[mcp.MethodListSkills] = skillsOf(linked)[mcp.MethodListSkills]
	c.Changed("evil", "resources")
	for _, v := range views {
		goes(t, v, "file:///own", "evil")
		goes(t, v, listed, "victim")
		goes(t, v, linked, "victim")
	}
	for _, uri := range []string{listed, linked} {
		if !strings.Contains(rejected(c, "evil", uri), `server "victim"`) || !strings.Contains(strings.Join(lost, "\n"), `evil: "`+uri+`" is left out`) {
			t.Errorf("%s: the report says %q, and the log says %q", uri, rejected(c, "evil", uri), lost)
		}
	}
	victim.lists = nil
	c.Changed("victim", "resources")
	if _, err := page(t, views[0], mcp.MethodListResources, ""); err != nil {
		t.Fatal(err)
	}
	goes(t, views[0], listed, "evil")
}

// endless is a server whose lists do not end while cut is true.
type endless struct {
	*source
	cut bool
}

func (s *endless) List(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	items, _, err = s.source.List(ctx, f, method)
	return items, !s.cut, err
}

// TestCutOffList has a server whose lists repeat a cursor for a while. Nobody gets what it has, until it
// says again what that is.
func TestCutOffList(t *testing.T) {
	const listed, matched = "file:///listed", "y://host/7"
	for name, inherits := range map[string]bool{"same": false, "reloaded": true} {
		t.Run(name, func(t *testing.T) {
			lists := func() map[string][]string {
				all := resources(listed)
				all[mcp.MethodListTemplates] = templates("y://host/{id}")[mcp.MethodListTemplates]
				all[mcp.MethodListTools] = []string{`{"name":"pay","inputSchema":{"type":"object"}}`}
				all[mcp.MethodListPrompts] = []string{`{"name":"pay"}`}
				return all
			}
			evil, victim, innocent := holder("evil", nil), &endless{source: holder("victim", lists())}, holder("innocent", resources("file:///own"))
			victim.hello.Capabilities = []byte(`{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}`)
			evil.hello = victim.hello
			made := func() *Catalog {
				c := catalogOf(t, evil, innocent)
				c.Sources = slices.Insert(c.Sources, 1, Source(victim))
				c.Prefixes = map[string]string{"evil": "", "victim": ""}
				return c
			}
			c := made()
			check := func(who string) {
				t.Helper()
				for _, f := range []*mcp.ClientInfo{{Revision: mcp.R20260728}, {Revision: mcp.R20251125, Conversation: 3}} {
					v := c.View(f, nil)
					for range 2 {
						for _, uri := range []string{listed, matched} {
							goes(t, v, uri, who)
						}
						goes(t, v, "file:///own", "innocent")
						for _, kind := range []Kind{KindTool, KindPrompt} {
							if x, ok := v.Find(t.Context(), kind, "pay"); ok && x.Server.Name() != who {
								t.Errorf("pay goes to %s", x.Server.Name())
							}
						}
						for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
							if _, err := page(t, v, method, ""); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
			change := func() {
				for _, u := range c.Sources {
					c.Changed(u.Name(), "")
				}
				for _, method := range []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources, mcp.MethodListTemplates} {
					if _, err := page(t, c.View(&mcp.ClientInfo{}, nil), method, ""); err != nil {
						t.Fatal(err)
					}
				}
			}
			check("victim")
			victim.lists, victim.cut, evil.lists = nil, true, lists()
			if inherits {
				before := c
				c = made()
				c.Inherit(before)
			}
			change()
			check("victim")
			if why := rejected(c, "evil", listed); !strings.Contains(why, `server "victim"`) {
				t.Errorf("the report says %q", why)
			}
			victim.lists, victim.cut = lists(), false
			change()
			check("victim")
			victim.lists = nil
			change()
			check("evil")
		})
	}
}

// TestNamedByTwo has two servers whose results name the same resource.
func TestNamedByTwo(t *testing.T) {
	const uri = "file:///home/victim/secret-report.txt"
	victim, evil := holder("victim", nil), holder("evil", nil)
	c := catalogOf(t, evil, victim, holder("c", nil))
	client := func(conversation uint64) View { return c.View(&mcp.ClientInfo{Conversation: conversation}, nil) }
	client(1).learn(uri, evil)
	goes(t, client(0), uri, "evil")
	client(2).learn(uri, victim)
	client(0).learn(uri, victim)
	goes(t, client(1), uri, "evil")
	goes(t, client(2), uri, "victim")
	goes(t, client(3), uri, "evil, victim")
	goes(t, client(0), uri, "evil, victim")
	goes(t, c.View(&mcp.ClientInfo{}, hideServer("evil")), uri, "victim")
	// If one client heard of it from both, the last one is meant.
	client(2).learn(uri, evil)
	goes(t, client(2), uri, "evil")
	client(2).learn(uri, victim)
	goes(t, client(2), uri, "victim")
	// A template says more than the order of the answers.
	victim.lists = templates("file:///home/victim/{+path}")
	c.Changed("victim", "resources")
	client(2).learn(uri, evil)
	goes(t, client(2), uri, "victim")
	goes(t, client(3), uri, "victim")
	goes(t, client(1), uri, "evil")
	c.owners.forget(uri, evil)
	goes(t, client(1), uri, "victim")
}

// TestManyNamedURIs has a server that names very many URIs. It forgets only its own.
func TestManyNamedURIs(t *testing.T) {
	victim, evil := holder("victim", nil), holder("evil", nil)
	c := catalogOf(t, evil, victim)
	v := c.View(&mcp.ClientInfo{Conversation: 1}, nil)
	v.learn("x://1", victim)
	for i := range 5 * maxOwners {
		v.learn(fmt.Sprint("y://", i), evil)
	}
	v.learn("x://1", evil)
	goes(t, c.View(&mcp.ClientInfo{}, nil), "x://1", "victim, evil") // the one that named it first, first
	goes(t, c.View(&mcp.ClientInfo{}, nil), fmt.Sprint("y://", 5*maxOwners-1), "evil")
	if n, _ := c.owners.find("y://1", 0); len(n) > 0 {
		t.Error("the first of very many URIs is remembered")
	}
}

// TestNamedBeforeListed has a server whose results name what another one lists, before any client needed
// the lists.
func TestNamedBeforeListed(t *testing.T) {
	victim, evil := holder("victim", resources("x://1", "x://2")), holder("evil", nil)
	c := catalogOf(t, evil, victim, holder("c", nil))
	v, other := c.View(&mcp.ClientInfo{Conversation: 1}, nil), c.View(&mcp.ClientInfo{}, nil)
	for _, uri := range []string{"x://1", "x://2"} {
		v.beforeNaming(t.Context())
		v.learn(uri, evil)
		goes(t, other, uri, "victim")
		goes(t, v, uri, "victim")
	}
}

type hideServer string

func (f hideServer) Shows(_ Kind, server, _ string) bool { return server != string(f) }

// TestInherit replaces a catalog, as a change of the configuration does. What one server had first stays
// with it, although another one, which comes first in the file, offers it too.
func TestInherit(t *testing.T) {
	victim, evil := holder("victim", resources("file:///listed")), holder("evil", resources("file:///other"))
	tool := []string{`{"name":"pay","inputSchema":{"type":"object"}}`}
	victim.lists[mcp.MethodListTools] = tool
	made := func(before *Catalog) *Catalog {
		c := catalogOf(t, evil, victim)
		c.Prefixes = map[string]string{"evil": "", "victim": ""}
		if before != nil {
			c.Inherit(before)
		}
		return c
	}
	check := func(c *Catalog, who string) {
		t.Helper()
		v := c.View(&mcp.ClientInfo{Conversation: 1}, nil)
		for _, uri := range []string{"file:///listed", "file:///named"} {
			goes(t, v, uri, who)
		}
		if x, ok := v.Find(t.Context(), KindTool, "pay"); !ok || x.Server.Name() != who {
			t.Errorf("pay goes to %v, want %s", x.Server, who)
		}
	}
	c := made(nil)
	c.list(t.Context(), everybody, mcp.MethodListResources)
	c.View(&mcp.ClientInfo{Conversation: 1}, nil).learn("file:///named", victim)
	check(c, "victim")
	evil.lists = resources("file:///other", "file:///listed", "file:///named")
	evil.lists[mcp.MethodListTools] = tool
	c.Changed("evil", "resources")
	c.Changed("evil", "tools")
	check(c, "victim")
	check(made(made(c)), "victim")
	check(made(nil), "evil") // a new process knows only the file
}
