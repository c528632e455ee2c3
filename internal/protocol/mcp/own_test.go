package mcp_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestOwnIsBounded checks that Own keeps short parts unchanged and reduces long parts to the
// required members.
func TestOwnIsBounded(t *testing.T) {
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	for _, c := range []struct{ info, caps, wantInfo, wantCaps string }{
		{`{"name":"c","version":"1","icons":[{"src":"data:,"}]}`, `{"x":1e400}`, `{"name":"c","version":"1","icons":[{"src":"data:,"}]}`, `{"x":1e400}`},
		{`{"icons":[{"src":` + long + `}],"version":"1","name":"c"}`, `{"x":` + long + `,"sampling":{}}`, `{"name":"c","version":"1"}`, `{"sampling":{}}`},
		{`{"x":` + long + `,"name":7}`, `{"x":` + long + `}`, `{}`, ``},
	} {
		f := &mcp.ClientInfo{Info: []byte(c.info), Capabilities: []byte(c.caps), Who: identity.Named("p"), Conversation: 3, Remote: "r"}
		g := f.Own()
		if string(g.Info) != c.wantInfo || string(g.Capabilities) != c.wantCaps {
			t.Errorf("the kept parts are %.200s and %.200s", g.Info, g.Capabilities)
		}
		if g.Who != f.Who || g.Conversation != 3 || g.Remote != "r" {
			t.Errorf("the kept client info is %+v", g)
		}
	}
	g := (&mcp.ClientInfo{Info: []byte(`{"name":` + long + `,"version":` + long + `}`)}).Own()
	name, _ := jsonrpc.Text(g.Info, jsonrpc.Find(g.Info, jsonrpc.Whole(g.Info), "name"))
	if len(g.Info) > 1024 || !strings.HasPrefix(name, "xxx") || !strings.HasSuffix(name, "…") {
		t.Errorf("the kept part has %d bytes: %.100s", len(g.Info), g.Info)
	}
}
