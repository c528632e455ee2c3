package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// TestTA51_LookAsKey looks as keys at each kind of endpoint, as clients of the oldest and the newest revision, and
// compares what an admin sees with what a client with the key itself gets: the same definitions in the same order, and the
// same words where it's refused. Meanwhile no server gets anything but requests for lists, no answer has a secret or a
// key, and each look is an act of the admin. Operators, viewers, MCP keys and keys of the API with less than admin can't
// look, and leave no act.
func TestTA51_LookAsKey(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	c.Servers = []config.Server{demoServer(t, "old", demo.Legacy), demoServer(t, "new", demo.Modern)}
	c.Policy = policy.Rules{
		{Match: []string{"old/count"}, Keys: []string{"ci"}, Do: policy.Deny},
		{Match: []string{"old/greet"}, As: &policy.As{Name: "hello", Description: "the token is hunter2-secret"}},
		{Match: []string{"new/add"}, Do: policy.Confirm},
	}
	r, use := withKeys(t, &c)
	r.ready("old", "new")
	keys := map[string]NewAPIKey{}
	for name, key := range map[string]string{
		"ci": `{"name":"ci"}`, "narrow": `{"name":"narrow","tools":["old/greet"]}`, "viewer": `{"name":"viewer","role":"viewer"}`,
		"operator": `{"name":"operator","role":"operator"}`, "admin": `{"name":"admin","role":"admin"}`,
	} {
		var k NewAPIKey
		r.tell("POST", "/keys", key, 201, &k)
		keys[name] = k
	}
	use()
	look := func(key, q string) (out KeyLook) {
		t.Helper()
		a := r.ask(http.MethodPost, "/api/v1/keys/"+keys[key].ID+"/look", q, "Content-Type", "application/json", "X-Api-Key", keys["admin"].Text)
		if a.status != http.StatusOK || strings.Contains(a.body, "hunter2") || strings.Contains(a.body, "drgk_") {
			t.Fatalf("%s %s: %d %s", key, q, a.status, a.body)
		}
		a.into(t, &out)
		return out
	}
	looks := 0
	for _, x := range []struct{ key, path, at string }{
		{"ci", "/mcp", ``}, {"narrow", "/mcp", `"endpoint":"project",`}, {"ci", "/find/mcp", `"endpoint":"search",`},
		{"ci", "/s/old/mcp", `"server":"old",`}, {"narrow", "/s/old/mcp", `"server":"old",`}, {"ci", "/s/new/mcp", `"endpoint":"server","server":"new",`},
	} {
		for _, revision := range []mcp.Revision{mcp.R20250326, mcp.Latest} {
			got := look(x.key, `{`+strings.Replace(x.at, ",,", ",", 1)+`"revision":"`+revision.String()+`","capabilities":[]}`)
			looks++
			client, err := fake.OpenClient(t.Context(), "strict-"+revision.String(), fake.Where{URL: bearing(t, r.web.URL, keys[x.key].Text) + x.path}, fake.ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close() })
			for _, l := range got.Lists {
				answer, err := client.Call(t.Context(), l.Method, nil, fake.CallOptions{})
				if l.Refused != nil || err != nil {
					t.Fatalf("%s of %s at %s: %+v, %v", l.Method, x.key, x.path, l.Refused, err)
				}
				i := 0
				for want := range jsonrpc.ValueOf(answer.Result).Get(mcp.LookupMethod(l.Method).ListKey).Elements() {
					if i >= len(l.Items) || compact(l.Items[i].Definition) != strings.ReplaceAll(string(want.Raw()), "hunter2-secret", "***") {
						t.Fatalf("%s of %s at %s, number %d: %s isn't\n%s", l.Method, x.key, x.path, i, want.Raw(), itemAt(l.Items, i))
					}
					i++
				}
				if i != len(l.Items) || l.Method == mcp.MethodListTools && i == 0 {
					t.Errorf("%s of %s at %s: %d items, want %d", l.Method, x.key, x.path, len(l.Items), i)
				}
			}
		}
	}
	denied := func(of KeyLook, item string) string {
		for _, d := range of.Denied {
			if d.Server+"/"+d.Item == item {
				return d.Told
			}
		}
		return "-"
	}
	for item, want := range map[string]string{"old/count": "Unknown tool: old__count", "old/greet": "-", "new/add": "-"} {
		if got := denied(look("ci", `{}`), item); got != want {
			t.Errorf("%s: a client is told %q, want %q", item, got, want)
		}
		looks++
	}
	// Those whom an endpoint doesn't let in read the same as whoever sends the key.
	for _, x := range []struct{ key, path, at string }{{"viewer", "/mcp", `{}`}, {"narrow", "/s/new/mcp", `{"server":"new"}`}, {"operator", "/s/old/mcp", `{"server":"old"}`}} {
		got := look(x.key, x.at)
		looks++
		a := r.ask(http.MethodPost, x.path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "X-Api-Key", keys[x.key].Text)
		if got.Refused == nil || got.Refused.Status != a.status || got.Refused.Message != strings.TrimSpace(a.body) || len(got.Lists)+len(got.Denied) > 0 {
			t.Errorf("%s at %s: %+v, want %d %s", x.key, x.path, got.Refused, a.status, a.body)
		}
	}
	for _, x := range r.api.callAPI.calls.All() {
		if who := x.Client.Who; who.Looks() && !strings.HasSuffix(x.Method, "/list") {
			t.Errorf("a look has sent %s", x.Method)
		}
		if x.Method == mcp.MethodCallTool || x.Method == mcp.MethodGetPrompt || x.Method == mcp.MethodReadResource {
			t.Errorf("somebody has called %s", x.Name)
		}
	}
	for _, name := range []string{"operator", "viewer", "ci"} {
		if a := r.ask(http.MethodPost, "/api/v1/keys/"+keys["narrow"].ID+"/look", `{}`, "Content-Type", "application/json", "X-Api-Key", keys[name].Text); a.status != http.StatusForbidden {
			t.Errorf("the key %s looks: %d %s", name, a.status, a.body)
		}
		if who, bad := r.api.Access().Check(asked("GET", "/", "X-Api-Key", keys[name].Text)); bad != nil {
			t.Error(bad)
		} else if _, bad := r.api.LookFor(t.Context(), who, keys["narrow"].ID, KeyLookRequest{}); bad == nil || bad.Status != http.StatusForbidden {
			t.Errorf("the key %s looks on a page: %v", name, bad)
		}
	}
	var acts AuditEntries
	r.tell("GET", "/audit?limit=100&what=looked", "", 200, &acts)
	if len(acts.Entries) != looks {
		t.Errorf("%d acts of %d looks", len(acts.Entries), looks)
	}
	for _, x := range acts.Entries {
		if x.What != "looked as" || x.Subject != "k:"+keys["admin"].ID || !strings.HasPrefix(x.Object, "key:default/") || x.Via != "api" {
			t.Errorf("%+v", x)
		}
	}
}

// bearing returns the URL of a proxy that adds a key to each request.
func bearing(t *testing.T, to, key string) string {
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		r.Out.Header.Set("X-Api-Key", key)
	}})
	t.Cleanup(web.Close)
	return web.URL
}

func itemAt(items []LookItem, i int) string {
	if i >= len(items) {
		return "there"
	}
	return compact(items[i].Definition)
}

// compact returns JSON as the server has sent it, without the indentation of the API.
func compact(raw []byte) string {
	var b bytes.Buffer
	_ = json.Compact(&b, raw)
	return b.String()
}

// TestKeysWithoutASession lists keys with keys of the API: an operator's gets them all, and what would get an empty list
// is refused.
func TestKeysWithoutASession(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	r, use := withKeys(t, &c)
	var keys [2]NewAPIKey
	r.tell("POST", "/keys", `{"name":"viewer","role":"viewer"}`, 201, &keys[0])
	r.tell("POST", "/keys", `{"name":"operator","role":"operator"}`, 201, &keys[1])
	use()
	for i, want := range []int{403, 200} {
		for _, path := range []string{"", "/" + keys[0].ID} {
			if a := r.ask(http.MethodGet, "/api/v1/keys"+path, "", "X-Api-Key", keys[i].Text); a.status != want {
				t.Errorf("%s, %s: %d %s", keys[i].Name, path, a.status, a.body)
			}
		}
	}
}

// TestWhoSignsOut checks that a key or a token doesn't end the sign-in of the person for whom it acts. What all share, and
// a key's own, may end as before.
func TestWhoSignsOut(t *testing.T) {
	t.Parallel()
	r := serving(t)
	for _, x := range []struct {
		who *identity.Principal
		of  string
		ok  bool
	}{
		{&identity.Principal{Subject: store.PersonSubject + "ada", Seat: "k:1", Via: "key"}, store.PersonSubject + "ada", false},
		{&identity.Principal{Subject: store.PersonSubject + "ada", Seat: "g:1", Via: "token"}, store.PersonSubject + "ada", false},
		{&identity.Principal{Subject: store.PersonSubject + "ada", Seat: "k:1", Via: "key"}, store.Shared, true},
		{&identity.Principal{Subject: "k:1", Seat: "k:1", Via: "key"}, "k:1", true},
		{identity.Local, "local", true},
	} {
		if bad := r.api.inPerson(x.who, store.SignIn{Project: "default", Server: "gh", Subject: x.of}); (bad == nil) != x.ok {
			t.Errorf("%+v ends the sign-in of %s: %v", x.who, x.of, bad)
		}
	}
}

// TestBadLooks asks for what can't be.
func TestBadLooks(t *testing.T) {
	t.Parallel()
	c := *config.Default()
	c.Servers = []config.Server{demoServer(t, "old", demo.Legacy)}
	r, use := withKeys(t, &c)
	var k NewAPIKey
	r.tell("POST", "/keys", `{"name":"ci"}`, 201, &k)
	use()
	for body, want := range map[string]struct {
		status int
		text   string
	}{
		`{"endpoint":"all"}`:                   {400, `must be \"server\"`},
		`{"endpoint":"server"}`:                {400, "which needs it"},
		`{"endpoint":"search","server":"old"}`: {400, "which needs it"},
		`{"server":"odl"}`:                     {404, "Did you mean"},
		`{"revision":"2020-01-01"}`:            {400, "2025-11-25"},
		`{"capabilities":["everything"]}`:      {400, "sampling"},
		`{"tool":"add"}`:                       {400, "unknown field"},
		`{"capabilities":null,"server":"old"}`: {200, `"elicitation.form"`},
	} {
		if a := r.do(http.MethodPost, "/api/v1/keys/"+k.ID+"/look", body, "Content-Type", "application/json"); a.status != want.status || !strings.Contains(a.body, want.text) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	r.tell("DELETE", "/keys/"+k.ID, "", 200, &RevokedKey{})
	if a := r.do(http.MethodPost, "/api/v1/keys/"+k.ID+"/look", `{}`, "Content-Type", "application/json"); a.status != 404 {
		t.Errorf("a revoked key: %d %s", a.status, a.body)
	}
	if (*identity.Principal)(nil).Running(identity.Look) != nil || identity.Local.Running(identity.Look) != nil {
		t.Error("somebody looks as nobody, or as the local user")
	}
}
