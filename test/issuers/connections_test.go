//go:build unix

package issuers

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/test/tab"
)

// publicURL is where a proxy would be in front of serve.
const publicURL = "https://mcp.example.com"

// registers makes a web client at oidc-provider.
func registers(t *testing.T, is *issuer, callback string) (id, secret string) {
	t.Helper()
	resp, err := http.Post(is.url+"/reg", "application/json", strings.NewReader(`{"redirect_uris":["`+callback+`"],"application_type":"web","grant_types":["authorization_code","refresh_token"]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var c struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&c); err != nil || c.Secret == "" {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	return c.ID, c.Secret
}

// colleague is a person with a browser, which knows serve by its public URL.
type colleague struct {
	t       *testing.T
	base    string
	script  tab.Script
	cookies map[string]string
}

// ask sends a request of the browser, as one that a page of ours has begun.
func (c *colleague) ask(method, path string, form url.Values) (status int, to, page string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Host = strings.TrimPrefix(publicURL, "https://")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Origin", publicURL)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range c.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, x := range resp.Cookies() {
		c.cookies[x.Name] = x.Value
	}
	body := new(strings.Builder)
	_, _ = bufio.NewReader(resp.Body).WriteTo(body)
	return resp.StatusCode, resp.Header.Get("Location"), body.String()
}

// goes opens the page to which a page of ours leads, does there what the person does, and returns the path at which the
// browser comes back.
func (c *colleague) goes(page string) (to, back string) {
	c.t.Helper()
	m := onward.FindStringSubmatch(page)
	if m == nil {
		c.t.Fatalf("the page leads nowhere: %s", page)
	}
	to = html.UnescapeString(m[1])
	var end *url.Error // the visit ends at a host that the tab doesn't open
	if last, err := tab.Open(c.t.Context(), to, c.script); !errors.As(err, &end) || !strings.HasPrefix(end.URL, publicURL) {
		c.t.Fatalf("%v %+v", err, last)
	}
	return to, strings.TrimPrefix(end.URL, publicURL)
}

var ownKey = regexp.MustCompile(`id="own-key">([^<]+)<`)

// TestConnections signs two people in to the console at an OpenID provider, which says in which groups they are. In the
// list of their connections, both sign in to the same server, whose issuer it is too, and each calls with their own
// account, with a key that they make where they connect their client. The link of one does nothing for the other.
func TestConnections(t *testing.T) {
	if os.Getenv("DRAGOMAN_ISSUERS") == "" {
		t.Skip("set DRAGOMAN_ISSUERS=1 (or make issuers) to run issuers from npm")
	}
	is := oidcProvider(t, time.Hour)
	loginID, loginSecret := registers(t, is, publicURL+"/login/callback")
	id, secret := registers(t, is, publicURL+"/oauth/callback")
	base := serve(t, build(t), fmt.Sprintf(`
  publicURL: %s
  access:
    loopback: keys
    people: {by: oidc}
    oidc: {issuer: %q, clientID: %q, clientSecret: %q, roles: {claim: groups, map: {staff: [caller, viewer], leads: operator}}}
  servers: {whoami: {signIn: {clientID: %q, clientSecret: %q}}}
`, publicURL, is.url, loginID, loginSecret, id, secret), "whoami: {url: "+protected(t, is)+"}")
	people := map[string]*colleague{}
	for _, name := range []string{"ann", "bob"} {
		c := &colleague{t: t, base: base, cookies: map[string]string{}, script: tab.Script{Fill: map[string]string{"login": name, "password": "x"}}}
		people[name] = c
		_, _, page := c.ask("POST", "/login", nil)
		_, back := c.goes(page)
		c.ask("GET", back, nil)
		if status, _, page := c.ask("GET", "/console/me", nil); status != 200 || strings.Contains(page, `>operator</span>`) != (name == "ann") || !strings.Contains(page, `>viewer</span>`) {
			t.Fatalf("%s: %d %s", name, status, page)
		}
	}
	connections := func(c *colleague) string {
		_, _, page := c.ask("GET", "/console/connections", nil)
		return page
	}
	for end := time.Now().Add(20 * time.Second); !strings.Contains(connections(people["ann"]), "whoami"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server never asks for a sign-in")
		}
	}
	for name, other := range map[string]string{"ann": "bob", "bob": "ann"} {
		c := people[name]
		status, _, page := c.ask("POST", "/console/connections", url.Values{"do": {"in"}, "project": {"default"}, "server": {"whoami"}})
		if status != 200 {
			t.Fatalf("%s: %d %s", name, status, page)
		}
		to, back := c.goes(page)
		at, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		link := fmt.Sprintf("/connect/%x?here", sha256.Sum256([]byte(at.Query().Get("state"))))
		if status, _, page := people[other].ask("GET", link, nil); status != 403 || !strings.Contains(page, "This link is not for you") {
			t.Errorf("%s opens the link of %s: %d %s", other, name, status, page)
		}
		if status, to, page := people[other].ask("GET", back, nil); status != 403 || !strings.Contains(page, "no sign-in of this browser") {
			t.Errorf("%s brings the answer for %s: %d %s %s", other, name, status, to, page)
		}
		if status, to, page := c.ask("GET", back, nil); status != 303 || to != "/console/connections?done=whoami&in=default" {
			t.Fatalf("%s comes back: %d %s %s", name, status, to, page)
		}
		if page := connections(c); !strings.Contains(page, "renewed by itself") && !strings.Contains(page, "until ") {
			t.Errorf("%s: %s", name, page)
		}
		_, _, page = c.ask("GET", "/console/connect", nil)
		number := regexp.MustCompile(`name="number" value="([^"]+)"`).FindStringSubmatch(page)
		if number == nil {
			t.Fatalf("%s can make no key: %s", name, page)
		}
		_, _, page = c.ask("POST", "/console/connect", url.Values{"number": {number[1]}, "name": {"laptop"}})
		key := ownKey.FindStringSubmatch(page)
		if key == nil {
			t.Fatalf("%s: %s", name, page)
		}
		if got := whoami(t, base+"/s/whoami/mcp", key[1]); got != name {
			t.Errorf("%s calls as %s", name, got)
		}
	}
	if page := connections(people["ann"]); !strings.Contains(page, "2 people are signed in") {
		t.Errorf("the operator reads %s", page)
	}
	if page := connections(people["bob"]); strings.Contains(page, "people are signed in") {
		t.Errorf("a viewer reads %s", page)
	}
}

// keyed sends a key with each request.
type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// whoami calls the tool of the server at an endpoint, with a key.
func whoami(t *testing.T, endpoint, key string) string {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "user", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: keyed(key)}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami"})
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}
