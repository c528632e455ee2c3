package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// signed is a server with a tool for each scope. The scope of a principal is its name, unless scopes
// has another one.
type signed struct {
	source
	scopes map[string]string
	during func() // called while a list is read
}

func (s *signed) Scope(f *mcp.ClientInfo) string {
	if f.Who == nil {
		return ""
	}
	if scope, ok := s.scopes[f.Who.Key()]; ok {
		return scope
	}
	return f.Who.Key()
}

func (s *signed) List(_ context.Context, f *mcp.ClientInfo, method string) ([][]byte, bool, error) {
	if method != mcp.MethodListTools {
		return nil, true, nil
	}
	scope := s.Scope(f)
	if s.during != nil {
		s.during()
	}
	return [][]byte{fmt.Appendf(nil, `{"name":"of_%s"}`, scope)}, true, nil
}

func newSigned(t *testing.T) (*signed, *Catalog) {
	s := &signed{source: source{name: "a", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)}}, scopes: map[string]string{}}
	c := &Catalog{Sources: []Source{s}}
	t.Cleanup(c.Close)
	return s, c
}

// toolsFor returns the tools that a principal with some capabilities sees.
func toolsFor(t *testing.T, c *Catalog, who, caps string) string {
	t.Helper()
	f := &mcp.ClientInfo{Revision: mcp.R20260728, Who: identity.Named(who), Capabilities: []byte(caps)}
	r, err := c.View(f, nil).Page(t.Context(), mcp.LookupMethod(mcp.MethodListTools), jsonrpc.Value{}, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Msg.Result.Of(r.Msg.Raw))
}

// TestNoRoomForSignedClients checks that a client with credentials never sees the list that was read
// without them, however many others there are.
func TestNoRoomForSignedClients(t *testing.T) {
	_, c := newSigned(t)
	if got := toolsFor(t, c, "", ""); !strings.Contains(got, `"a__of_"`) {
		t.Errorf("nobody sees %s", got)
	}
	for round := range 2 {
		for i := range maxSigned + maxAudiences {
			who := fmt.Sprintf("p%d", i)
			if got := toolsFor(t, c, who, ""); !strings.Contains(got, "a__of_"+who+`"`) {
				t.Fatalf("round %d: %s sees %s", round, who, got)
			}
		}
	}
	for i := range 2 * maxAudiencesOfParty {
		caps := fmt.Sprintf(`{"extensions":{"com.example/%d":{}}}`, i)
		if got := toolsFor(t, c, "ann", caps); !strings.Contains(got, "a__of_ann") {
			t.Errorf("with the capabilities %s, ann sees %s", caps, got)
		}
	}
	if len(c.audiences) > maxSigned || len(c.lists) > 3*maxSigned {
		t.Errorf("the catalog keeps %d audiences and %d lists", len(c.audiences), len(c.lists))
	}
}

// TestScopeChangesDuringAReading checks that a list is not shown to a scope that the client has left
// while the list was read.
func TestScopeChangesDuringAReading(t *testing.T) {
	s, c := newSigned(t)
	s.scopes["ann"], s.scopes["ben"] = "team", "team"
	s.during = func() {
		s.scopes["ann"], s.during = "", nil
	}
	if got := toolsFor(t, c, "ann", ""); strings.Contains(got, "of_team") {
		t.Errorf("ann, who has left the team, sees %s", got)
	}
	if got := toolsFor(t, c, "ann", ""); !strings.Contains(got, `"a__of_"`) {
		t.Errorf("ann sees %s", got)
	}
	if got := toolsFor(t, c, "ben", ""); !strings.Contains(got, "of_team") {
		t.Errorf("ben sees %s", got)
	}
}
