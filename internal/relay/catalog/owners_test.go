package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"

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
	c.Holds = func(context.Context, Source, *mcp.ClientInfo, string) bool { return true }
	v := c.View(&mcp.ClientInfo{}, nil)
	for _, uri := range []string{"ui://dragoman-evil", "skill://dragoman-evil", "ui://dragoman-"} {
		goes(t, v, uri, "not found")
	}
	goes(t, v, "ui://dragoman-evil/x", "evil")
}
