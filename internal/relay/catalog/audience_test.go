package catalog

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

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
		for i := range maxScopes + maxAudiences {
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
	if len(c.audiences) > maxScopes+maxAudiences || len(c.lists) > 2*maxScopes+4*maxAudiences {
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

// shared is a server that knows no people. It counts how often it is read.
type shared struct {
	source
	reads int
}

func (s *shared) List(_ context.Context, _ *mcp.ClientInfo, method string) ([][]byte, bool, error) {
	if method != mcp.MethodListTools {
		return nil, true, nil
	}
	s.reads++ // the catalog reads each list of this test once, so no lock is needed
	return [][]byte{[]byte(`{"name":"all"}`)}, true, nil
}

// TestSharedServerIsReadOnce checks that a server without credentials of people is read once for each set
// of capabilities, however many people with credentials at another server use it, and that capabilities
// for which there is no room cost it nothing.
func TestSharedServerIsReadOnce(t *testing.T) {
	own := &signed{source: source{name: "a", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)}}}
	all := &shared{source: source{name: "b", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}}}
	c := &Catalog{Sources: []Source{own, all}}
	t.Cleanup(c.Close)
	for i := range 100 {
		who := fmt.Sprintf("p%d", i)
		for j := range 3 {
			caps := fmt.Sprintf(`{"extensions":{"com.example/%d":{}}}`, 3*i+j)
			if got := toolsFor(t, c, who, caps); !strings.Contains(got, "a__of_"+who) || !strings.Contains(got, "b__all") {
				t.Fatalf("%s sees %s", who, got)
			}
		}
	}
	if all.reads > maxAudiences+1 {
		t.Errorf("the shared server was read %d times", all.reads)
	}
}

// TestUsedScopeStays checks whose lists make room for others: those of whom was away for the longest time.
func TestUsedScopeStays(t *testing.T) {
	_, c := newSigned(t)
	known := func(who string) bool {
		_, scope := c.scopes(&mcp.ClientInfo{Who: identity.Named(who)})
		return c.knownLocked(Audience{scope: scope}) != nil
	}
	toolsFor(t, c, "ann", "")
	toolsFor(t, c, "ben", "")
	for i := range maxScopes {
		if i == maxScopes-2 && !known("ben") {
			t.Errorf("ben's lists are gone, with %d scopes", i+2)
		}
		toolsFor(t, c, fmt.Sprintf("p%d", i), "")
		toolsFor(t, c, "ann", "")
	}
	if !known("ann") || known("ben") {
		t.Errorf("the catalog knows ann: %t, and ben: %t", known("ann"), known("ben"))
	}
}

// BenchmarkPeople lists the tools for 1,000 people without credentials of their own. Each costs no list,
// and B/person is what stays in memory for each.
func BenchmarkPeople(b *testing.B) {
	const people = 1000
	for b.Loop() {
		b.StopTimer()
		s := &shared{source: source{name: "b", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}}}
		c := &Catalog{Sources: []Source{s}}
		list := func(i int) {
			f := &mcp.ClientInfo{Revision: mcp.R20260728, Who: identity.Named(fmt.Sprintf("p%d", i)), Capabilities: []byte(`{"elicitation":{}}`)}
			if _, err := c.View(f, nil).Page(b.Context(), mcp.LookupMethod(mcp.MethodListTools), jsonrpc.Value{}, false); err != nil {
				b.Fatal(err)
			}
		}
		list(0)
		before := heap()
		b.StartTimer()
		for i := range people {
			list(i)
		}
		b.StopTimer()
		b.ReportMetric(max(0, float64(int64(heap()-before)))/people, "B/person")
		b.ReportMetric(float64(len(c.lists)), "lists")
		c.Close()
		b.StartTimer()
	}
}

// heap returns the bytes that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// keptSigned is a server whose lists an earlier process has kept. It never answers who has no credentials.
type keptSigned struct {
	signed
	kept []string // the methods of Keep
}

func (s *keptSigned) Recall(method string) ([][]byte, time.Time) {
	if method != mcp.MethodListTools {
		return nil, time.Time{}
	}
	return [][]byte{[]byte(`{"name":"kept"}`)}, time.Now()
}

func (s *keptSigned) Keep(method string, _ [][]byte, _ time.Time) { s.kept = append(s.kept, method) }

func (s *keptSigned) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	if s.Scope(f) == "" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.signed.Hello(ctx, f)
}

// TestKeptListIsNobodys checks that people with credentials don't see what an earlier process has read without
// any, and that what they see isn't kept.
func TestKeptListIsNobodys(t *testing.T) {
	s := &keptSigned{signed: signed{source: source{name: "a", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{}}`)}}}}
	c := &Catalog{Sources: []Source{s}, Grace: 20 * time.Millisecond}
	defer c.Close()
	if got := toolsFor(t, c, "", ""); !strings.Contains(got, "a__kept") {
		t.Errorf("nobody sees %s", got)
	}
	if got := toolsFor(t, c, "ann", ""); strings.Contains(got, "a__kept") || !strings.Contains(got, "a__of_ann") {
		t.Errorf("ann sees %s", got)
	}
	if len(s.kept) > 0 {
		t.Errorf("these lists were kept: %q", s.kept)
	}
}
