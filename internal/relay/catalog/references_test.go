package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestSharedURIsAreReported checks that the report names the items whose URI another server has too,
// and those that clients do not see for this reason. The innocent server c has none.
func TestSharedURIsAreReported(t *testing.T) {
	server := func(name, segment string) *source {
		return &source{name: name, hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}`)}, lists: map[string][]string{
			mcp.MethodListTools:     {`{"name":"t","_meta":{"ui":{"resourceUri":"ui://` + segment + `"}}}`},
			mcp.MethodListResources: {`{"uri":"ui://` + segment + `"}`, `{"uri":"x://` + segment + `"}`, `{"uri":"skill://` + segment + `/extra.md"}`},
			mcp.MethodListTemplates: {`{"uriTemplate":"ui://` + segment + `/{x}"}`, `{"uriTemplate":"x://` + segment + `/{x}"}`},
			mcp.MethodListSkills:    {`{"uri":"skill://` + segment + `/SKILL.md"}`, `{"uri":"git://` + segment + `/SKILL.md"}`},
		}}
	}
	c := catalogOf(t, server("a", "same"), server("b", "same"), server("c", "mine"))
	var lost []string
	c.Lost = func(server, _, why string) { lost = append(lost, server+": "+why) }
	renamed := 0
	c.Renamed = func(string, string, string, string) { renamed++ }
	v := c.View(&mcp.ClientInfo{}, nil)
	// The files of a skill must change with it, also if the list of skills was not requested before.
	for _, method := range []string{mcp.MethodListResources, mcp.MethodListTools, mcp.MethodListTemplates, mcp.MethodListSkills} {
		if _, err := page(t, v, method, ""); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{
		mcp.MethodListTools:     {"t"},
		mcp.MethodListResources: {"ui://same", "x://same", "skill://same/extra.md"},
		mcp.MethodListTemplates: {"ui://same/{x}", "x://same/{x}"},
		mcp.MethodListSkills:    {"skill://same/SKILL.md", "git://same/SKILL.md"},
	}
	for _, r := range c.Report() {
		var got []string
		for _, x := range r.Rejected {
			got = append(got, x.Name)
			if !strings.Contains(x.Why, `server "a"`) {
				t.Errorf("%s: %s", x.Name, x.Why)
			}
		}
		if r.Server == "b" && !slices.Equal(got, want[r.Method]) || r.Server != "b" && got != nil {
			t.Errorf("%s of %s: the report names %q", r.Method, r.Server, got)
		}
	}
	if renamed != 5 || len(lost) != 3 {
		t.Errorf("%d items were renamed, and %q are lost", renamed, lost)
	}
}
