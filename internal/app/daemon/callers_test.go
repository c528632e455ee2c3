//go:build unix

package daemon

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// TestWhoseCalls lets a client with a key and one with a key that acts for a person call. Operators read the names of
// both wherever calls and clients are listed, and viewers don't.
func TestWhoseCalls(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "dragoman.db")
	r := serve(t, snapshot(newWeb(t, true).as(t, "gh")), behindProxy(database))
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	olga, ben := invites(t, roster, "Olga", identity.Operator), invites(t, roster, "Ben", identity.Viewer, identity.Caller)
	clients := map[string][]string{}
	clients["nightly"], _ = makeKey(t, desk, access.Wish{Name: "nightly", Project: "default", Role: identity.Caller})
	clients["Ben"], _ = makeKey(t, desk, access.Wish{Name: "laptop", Owner: "p:" + ben.id, Project: "default", Role: identity.Caller})
	keys := map[string][]string{}
	for _, role := range []identity.Role{identity.Operator, identity.Viewer} {
		keys[role.String()], _ = makeKey(t, desk, access.Wish{Name: "of the API " + role.String(), Project: "default", Role: role})
	}
	olga.enters(r)
	ben.enters(r)
	for name, who := range clients {
		soon(t, name+" calls", func() bool {
			return r.modern("/mcp", "1", "tools/list", "", "", append(slices.Clone(who), "Host", publicName)...).status == 200
		})
	}
	for _, x := range []struct {
		path, lead string
		who        []string
		knows      bool
	}{
		{"/api/v1/calls", `"who": "`, append(keys["operator"], "Host", publicName), true},
		{"/api/v1/calls", `"who": "`, append(keys["viewer"], "Host", publicName), false},
		{"/api/v1/clients", `"who": "`, append(keys["operator"], "Host", publicName), true},
		{"/api/v1/clients", `"who": "`, append(keys["viewer"], "Host", publicName), false},
		{"/console/calls", "of <bdi>", olga.header, true},
		{"/console/calls", "of <bdi>", ben.header, false},
		{"/console/clients", "of <bdi>", olga.header, true},
		{"/console/clients", "of <bdi>", ben.header, false},
	} {
		a := r.do(t.Context(), "GET", x.path, nil, x.who...)
		if a.status != 200 {
			t.Errorf("%s: %d %s", x.path, a.status, a.body)
		}
		for name := range clients {
			if regexp.MustCompile(x.lead+`[^<"]*`+name).MatchString(a.body) != x.knows {
				t.Errorf("%s (knows: %t): %s in %s", x.path, x.knows, name, a.body)
			}
		}
	}
	if a := r.do(t.Context(), "GET", "/api/v1/calls?client=NIGHTLY", nil, append(keys["operator"], "Host", publicName)...); !strings.Contains(a.body, `"who": "nightly"`) || strings.Contains(a.body, `"who": "Ben"`) {
		t.Errorf("the calls of nightly: %s", a.body)
	}
}
