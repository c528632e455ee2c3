//go:build unix

package daemon

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fronttest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// ruledClient is a client with a running session, whose rules change.
type ruledClient struct {
	*fake.Client
	name   string
	prefix string // of the names of its tools
}

// TestRulesInRunningSessions changes rules in the file, in a project of the store through the API, and a person's
// role, while clients of both eras are connected over Streamable HTTP, HTTP+SSE and stdio, at endpoints of all servers
// and of one. They hear within a second that their tools have changed, and it's so. Bob, whom the rules don't concern,
// calls the tool all the time.
func TestRulesInRunningSessions(t *testing.T) {
	t.Parallel()
	for _, onPipe := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		t.Run("stdio "+onPipe.String(), func(t *testing.T) { testRunningSessions(t, onPipe) })
	}
}

func testRunningSessions(t *testing.T, onPipe mcp.Revision) {
	t.Parallel()
	database, keys := filepath.Join(t.TempDir(), "house", "dragoman.db"), t.TempDir()
	servers := fmt.Sprintf("mcpServers: {old: {url: %q}, new: {url: %q}}\n", newWeb(t, false).web.URL+"/mcp", newWeb(t, true).web.URL+"/mcp")
	rules := func(denied bool, who string) string {
		text := `policy: [{match: "*", who: {` + who + `}, do: allow}`
		if denied {
			text += `, {match: "*/echo", do: deny}`
		}
		return text + "]"
	}
	const bob, orOperators = "people: [bob]", "people: [bob], roles: [operator]" // the client on stdio has all roles
	file := func(rules string) string {
		return "dragoman: {limits: {initializePerSecond: 1000}, access: {loopback: keys}, " + rules + "}\n" + servers
	}
	in, fromUs := io.Pipe()
	toUs, out := io.Pipe()
	s := &sealed{t: t, database: database}
	s.fileDaemon = serveFile(t, file(rules(false, bob)), func(o *ServeOptions) {
		o.Database, o.KeyFolders, o.Stdio, o.Stdin, o.Stdout = database, []string{keys}, true, in, out
	})
	all, err := admin.ReadKeys([]string{keys}, strings.TrimPrefix(s.base, "http://"))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	s.key = all[0]
	if a := s.api(http.MethodPut, "/projects/shop", rules(false, orOperators)+"\n"+servers); a.status > 201 {
		t.Fatal(a.status, a.body)
	}
	project := func(denied bool) {
		t.Helper()
		list := strings.TrimPrefix(rules(denied, orOperators), "policy: ")
		read := s.api(http.MethodGet, "/rules?project=shop", "")
		if a := s.api(http.MethodPut, "/rules?project=shop", list, "If-Match", read.header.Get("ETag")); a.status != 200 {
			t.Fatal(a.status, a.body)
		}
	}
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	keyOf := map[string][]string{}
	people := map[string]*invited{}
	for _, who := range []string{"ann", "bob"} {
		people[who] = invites(t, roster, who, identity.Caller)
		if err := roster.SetRoles(t.Context(), "local", people[who].id, "shop", []identity.Role{identity.Caller}); err != nil {
			t.Fatal(err)
		}
		for _, home := range []string{"default", "shop"} {
			keyOf[who+" in "+home], _ = makeKey(t, desk, access.Wish{Name: who + home, Owner: "p:" + people[who].id, Project: home, Role: identity.Caller})
		}
	}
	open := func(name string, revision mcp.Revision, at fake.Where, prefix string) *ruledClient {
		c, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), at, fake.ClientOptions{})
		if err == nil {
			_, err = c.Subscribe(t.Context(), fake.Filter{Tools: true})
		}
		if err != nil {
			t.Fatal(name, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return &ruledClient{c, name, prefix}
	}
	connect := func(who, home string) (clients []*ruledClient) {
		site := siteWithKey(t, s.base, keyOf[who+" in "+home])
		paths := map[string]string{"": "old__", "/s/old": "", "/s/new": ""}
		for path, prefix := range paths {
			if home != "default" {
				path = "/p/" + home + path
			}
			for revision, leaf := range map[mcp.Revision]string{mcp.R20241105: "/sse", mcp.LatestLegacy: "/mcp", mcp.Latest: "/mcp"} {
				clients = append(clients, open(who+" "+revision.String()+" at "+path, revision, fake.Where{URL: site + path + leaf}, prefix))
			}
		}
		return clients
	}
	soon(t, "the keys count", func() bool {
		return s.modern("/mcp", "1", "tools/list", "", "", keyOf["bob in default"]...).status == 200 && s.modern("/p/shop/mcp", "1", "tools/list", "", "", keyOf["bob in shop"]...).status == 200
	})
	inDefault, inShop, bobs := connect("ann", "default"), connect("ann", "shop"), append(connect("bob", "default"), connect("bob", "shop")...)
	pipe := open("stdio", onPipe, fake.Where{In: toUs, Out: fromUs}, "old__")
	rounds(t, "the file", append(inDefault, pipe), bobs, func(is bool) { s.write(t, file(rules(is, bob))) })
	rounds(t, "the API", inShop, bobs, project)
	rounds(t, "a role", inShop, bobs, func(is bool) {
		roles := []identity.Role{identity.Caller}
		if !is {
			roles = append(roles, identity.Operator)
		}
		if err := roster.SetRoles(t.Context(), "local", people["ann"].id, "shop", roles); err != nil {
			t.Fatal(err)
		}
	})
}

// siteWithKey returns the URL of a site that adds a header with a key to all requests.
func siteWithKey(t *testing.T, base string, key []string) string {
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(fronttest.Proxy(func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Set(key[0], key[1])
	}, nil))
	t.Cleanup(site.Close)
	return site.URL
}

// rounds denies the tool echo and allows it, so that it's different each time from the end of the rounds before. Each time, all clients hear of it and find it so. A busy
// machine may take longer than a second for some rounds, but not for all.
func rounds(t *testing.T, how string, clients, innocent []*ruledClient, deny func(bool)) {
	t.Helper()
	best := time.Hour
	was, err := clients[0].lists(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, denied := range []bool{was, !was, was} {
		serials := make([]int, len(clients))
		for i, c := range clients {
			serials[i] = c.Serial()
		}
		began := time.Now()
		deny(denied)
		var wait sync.WaitGroup
		took := make([]time.Duration, len(clients))
		for i, c := range clients {
			wait.Go(func() {
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
				defer stop()
				if _, err := c.Await(ctx, serials[i], func(n fake.Notice) bool { return n.Method == mcp.NoteToolsChanged }); err != nil {
					t.Errorf("%s, denied %t: %s does not hear of it: %v", how, denied, c.name, err)
				}
				took[i] = time.Since(began)
				c.finds(t, how, !denied)
			})
		}
		wait.Wait()
		for _, c := range innocent {
			c.finds(t, how, true)
		}
		best = min(best, longest(took))
		time.Sleep(time.Until(began.Add(1200 * time.Millisecond))) // a client hears of a list once a second
	}
	if best > time.Second {
		t.Errorf("%s: the quickest round took %v", how, best)
	}
}

func longest(all []time.Duration) (most time.Duration) {
	for _, d := range all {
		most = max(most, d)
	}
	return most
}

// finds checks whether the client can list and call the tool echo.
func (c *ruledClient) finds(t *testing.T, how string, want bool) {
	t.Helper()
	if is, err := c.lists(t); err != nil || is != want {
		t.Errorf("%s: %s lists the tool: %t (%v)", how, c.name, is, err)
	}
	called, err := c.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"`+c.prefix+`echo","arguments":{"text":"x"}}`), fake.CallOptions{})
	if err != nil || (called.Err == nil) != want {
		t.Errorf("%s: %s calls the tool: %t (%v)", how, c.name, !want, err)
	}
}

func (c *ruledClient) lists(t *testing.T) (bool, error) {
	list, err := c.Call(t.Context(), mcp.MethodListTools, []byte("{}"), fake.CallOptions{})
	return err == nil && strings.Contains(string(list.Result), `"`+c.prefix+`echo"`), err
}
