package oauth

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
)

func TestCovers(t *testing.T) {
	const server = "https://H.example:443/a/mcp"
	for resource, want := range map[string]bool{
		"https://h.example/a/mcp": true, "https://h.example/a/mcp/": true, "https://h.example/a": true, "https://h.example": true,
		"HTTPS://h.EXAMPLE/": true, "https://h.example/a/mcp/more": false, "https://h.example/a/mc": false, "https://h.example/A/mcp": false,
		"http://h.example/a/mcp": false, "https://h.example:8443/a/mcp": false, "https://evil.example/a/mcp": false,
		"https://h.example.evil.example/a/mcp": false, "https://x@h.example/a/mcp": false, "https://h.example/a/mcp#f": false,
		"https://h.example/a/../b": false, "https://h.example/.": false, "https://h.example/%2e%2e": false, "https://h.example/a%2Fmcp": false,
		"https://h.example/a?x=1": false, "urn:x": false, "": false, "//h.example/a": false,
	} {
		if Covers(resource, server) != want {
			t.Errorf("Covers(%q) isn't %v", resource, want)
		}
	}
	if Covers("https://h/a", "https://h/a/../b") || !Covers("https://h/a?x=1", "https://h/a?x=1") || !Covers("https://[::1]:80", "https://[::1]:80/x") {
		t.Error("dots, queries or IPv6")
	}
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"HTTPS://User:pw@MCP.Example.com:443/MCP#f": "https://mcp.example.com/MCP", "https://h/": "https://h", "https://h:8443": "https://h:8443",
		"http://[::1]:80/x?a=B": "http://[::1]/x?a=B", "ftp://h/x": "", "": "",
	} {
		if got, _ := Canonical(in); got != want {
			t.Errorf("Canonical(%q) = %q, not %q", in, got, want)
		}
	}
}

const resourceOK = `200 {"resource":"https://h/a/mcp","authorization_servers":["https://i"],"scopes_supported":["a","b"]}`

// TestFindResource has the order of AD, and that nothing that is present and wrong leads on.
func TestFindResource(t *testing.T) {
	const server, path, root, named = "https://h/a/mcp", "https://h/.well-known/oauth-protected-resource/a/mcp", "https://h/.well-known/oauth-protected-resource", "https://h/meta"
	for _, c := range []struct {
		name, metadata string
		pages          map[string]any
		want           string // the places that were asked, and the outcome
	}{
		{"the path", "", map[string]any{path: resourceOK}, path},
		{"then the origin", "", map[string]any{root: resourceOK}, path + " " + root},
		{"401 is no document", "", map[string]any{path: "401 x", root: resourceOK}, path + " " + root},
		{"none at all", "", nil, path + " " + root + " none"},
		{"where the challenge says, and only there", named, map[string]any{named: resourceOK}, named},
		{"not where the challenge says", named, map[string]any{path: resourceOK}, named + " resource_missing"},
		{"a challenge that names no URL", "javascript:x", nil, "resource_missing"},
		{"a page", "", map[string]any{path: "200 <!DOCTYPE html>", root: resourceOK}, path + " document_not_json"},
		{"a page by its type", "", map[string]any{path: "200 Content-Type: text/html; charset=utf-8\n{}", root: resourceOK}, path + " document_not_json"},
		{"not JSON", "", map[string]any{path: "200 {", root: resourceOK}, path + " document_invalid"},
		{"a redirect", "", map[string]any{path: "302 x", root: resourceOK}, path + " document_moved"},
		{"another server's", "", map[string]any{path: `200 {"resource":"https://h/b","authorization_servers":["https://i"]}`, root: resourceOK}, path + " resource_mismatch"},
		{"another origin's", "", map[string]any{path: `200 {"resource":"https://evil.example/a/mcp","authorization_servers":["https://i"]}`, root: resourceOK}, path + " resource_mismatch"},
		{"502", "", map[string]any{path: "502 x", root: resourceOK}, path + " weather"},
		{"429", "", map[string]any{path: "429 x", root: resourceOK}, path + " weather"},
		{"no answer", "", map[string]any{path: errors.New("timeout"), root: resourceOK}, path + " weather"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &web{pages: c.pages}
			r, err := FindResource(t.Context(), w, server, c.metadata)
			got := strings.ReplaceAll(strings.Join(w.asked, " "), "GET ", "")
			if r == nil && err == nil {
				got += " none"
			}
			if got = strings.TrimSpace(got + " " + codeOf(err)); got != c.want {
				t.Errorf("got %q, want %q (%v)", got, c.want, err)
			}
		})
	}
	w := &web{}
	if _, err := FindResource(t.Context(), w, "https://h/?k=v", ""); err != nil || w.asked[0] != "GET "+root+"?k=v" || len(w.asked) != 2 {
		t.Error("a query:", w.asked, err)
	}
}

func TestResourceIssuer(t *testing.T) {
	r := &Resource{Servers: []string{"https://i/", "https://j/x"}}
	for _, c := range []struct {
		r                *Resource
		configured, want string
	}{
		{r, "", "https://i/"}, {r, "https://i", "https://i/"}, {r, "https://j/x", "https://j/x"}, {r, "https://j/x/", "resource_no_issuer"},
		{nil, "https://k", "https://k"}, {&Resource{}, "https://k", "https://k"}, {&Resource{}, "", "resource_no_issuer"},
	} {
		got, err := c.r.Issuer(c.configured)
		if got+codeOf(err) != c.want {
			t.Errorf("Issuer(%q) of %v = %q, %v", c.configured, c.r, got, err)
		}
	}
}

func TestFindIssuer(t *testing.T) {
	good := func(issuer string) string {
		return `200 {"issuer":"` + issuer + `","authorization_endpoint":"https://i/auth","token_endpoint":"https://i/token","code_challenge_methods_supported":["S256"]}`
	}
	const as, oidc, tail = "https://i/.well-known/oauth-authorization-server", "https://i/.well-known/openid-configuration", "https://i/t/.well-known/openid-configuration"
	for _, c := range []struct {
		name, issuer string
		pages        map[string]any
		want         string
	}{
		{"8414", "https://i", map[string]any{as: good("https://i")}, as},
		{"OpenID", "https://i", map[string]any{oidc: good("https://i")}, as + " " + oidc},
		{"with a path", "https://i/t", map[string]any{as + "/t": good("https://i/t")}, as + "/t"},
		{"with a path, appended", "https://i/t", map[string]any{tail: good("https://i/t")}, as + "/t " + oidc + "/t " + tail},
		{"with a slash after the path", "https://i/t/", map[string]any{tail: good("https://i/t/")}, as + "/t " + oidc + "/t " + tail},
		{"nothing", "https://i", nil, as + " " + oidc + " issuer_missing"},
		{"another issuer, and a good document after it", "https://i", map[string]any{as: good("https://evil.example"), oidc: good("https://i")}, as + " issuer_mismatch"},
		{"the slash of a URL without a path", "https://i", map[string]any{as: good("https://i/")}, as + " slash"},
		{"the same, the other way around", "https://i/", map[string]any{as: good("https://i")}, as + " slash"},
		{"the slash of a path", "https://i/t", map[string]any{as + "/t": good("https://i/t/")}, as + "/t issuer_mismatch"},
		{"two slashes", "https://i", map[string]any{as: good("https://i//")}, as + " issuer_mismatch"},
		{"another case", "https://i", map[string]any{as: good("https://I")}, as + " issuer_mismatch"},
		{"a default port", "https://i", map[string]any{as: good("https://i:443")}, as + " issuer_mismatch"},
		{"a page", "https://i", map[string]any{as: "200 \n <html>", oidc: good("https://i")}, as + " document_not_json"},
		{"500", "https://i", map[string]any{as: "500 ", oidc: good("https://i")}, as + " weather"},
		{"a query", "https://i?x=1", nil, "issuer_invalid"},
		{"dots", "https://i/../t", nil, "issuer_invalid"},
		{"a user", "https://u:p@i", nil, "issuer_invalid"},
		{"a file", "file:///etc/passwd", nil, "issuer_invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &web{pages: c.pages}
			is, err := FindIssuer(t.Context(), w, c.issuer)
			got := strings.ReplaceAll(strings.Join(w.asked, " "), "GET ", "") + " " + codeOf(err)
			if err == nil && is.Slash {
				got += "slash"
			}
			if strings.TrimSpace(got) != c.want {
				t.Errorf("got %q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

// TestFindLegacy has AU03: the document at the origin, or the fixed paths; never the latter after a document
// that is wrong.
func TestFindLegacy(t *testing.T) {
	const at = "https://h/.well-known/oauth-authorization-server"
	for _, c := range []struct{ page, want string }{
		{"", "https://h/authorize https://h/token https://h/register guessed "},
		{`200 {"issuer":"https://h","authorization_endpoint":"https://h/o/a","token_endpoint":"https://h/o/t","code_challenge_methods_supported":["S256"]}`, "https://h/o/a https://h/o/t  "},
		{`200 {"issuer":"https://evil.example","token_endpoint":"https://h/o/t"}`, "issuer_mismatch"},
		{`200 []`, "document_invalid"}, {"503 ", "weather"},
	} {
		w := &web{pages: map[string]any{}}
		if c.page != "" {
			w.pages[at] = c.page
		}
		is, err := FindLegacy(t.Context(), w, "https://H:443/v1/mcp")
		got := codeOf(err)
		if err == nil {
			got = fmt.Sprint(is.Authorize, " ", is.Token, " ", is.Register, map[bool]string{true: " guessed "}[is.Guessed]+map[bool]string{false: " "}[is.Guessed])
			if is.Signs() != nil {
				t.Error(is.Signs())
			}
		}
		if got != c.want || len(w.asked) != 1 || w.asked[0] != "GET "+at {
			t.Errorf("%s: got %q, want %q (asked %v)", c.page, got, c.want, w.asked)
		}
	}
}

func TestScopes(t *testing.T) {
	is := &Issuer{Scopes: []string{"x", "offline_access"}}
	r := &Resource{Scopes: []string{"r1", "r2"}}
	for _, c := range []struct {
		name       string
		configured []string
		challenge  []string
		r          *Resource
		is         *Issuer
		want       string
	}{
		{"configured", []string{"c"}, []string{"x"}, r, is, "c"},
		{"of the challenge", nil, []string{"x", "y"}, r, &Issuer{}, "x y"},
		{"of the resource", nil, nil, r, &Issuer{}, "r1 r2"},
		{"none", nil, nil, nil, is, ""},
		{"undefined in the resource", nil, nil, &Resource{}, is, ""},
		{"offline_access where the issuer lists it", nil, []string{"x"}, r, is, "x offline_access"},
	} {
		if got := strings.Join(Scopes(c.configured, Challenge{Scopes: c.challenge}, c.r, c.is), " "); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
	if got := Union([]string{"a", "b"}, []string{"b", "c"}); !reflect.DeepEqual(got, []string{"a", "b", "c"}) {
		t.Error("Union:", got)
	}
	if len(r.Scopes) != 2 || Union(nil, nil) != nil {
		t.Error("Scopes changed what it was given, or Union made something of nothing")
	}
}

// TestTA39Documents has hostile resource and server metadata: each is refused by name, whole, and without
// anything in the error that a terminal would act on.
func TestTA39Documents(t *testing.T) {
	const r, i = "resource", "issuer"
	base := map[string]string{
		r: `"resource":"https://h/a/mcp","authorization_servers":["https://i"]`,
		i: `"issuer":"https://i","authorization_endpoint":"https://i/a","token_endpoint":"https://i/t","code_challenge_methods_supported":["S256"]`,
	}
	read := map[string]func(raw string) error{
		r: func(raw string) error {
			_, err := ReadResource([]byte(raw), "https://h/x", "https://h/a/mcp")
			return err
		},
		i: func(raw string) error { _, err := readIssuer([]byte(raw), "https://i/x", "https://i"); return err },
	}
	for kind, members := range base {
		if err := read[kind]("{" + members + "}"); err != nil {
			t.Fatal(err)
		}
		for name, raw := range map[string]string{
			"nothing":        ``,
			"an array":       `[{` + members + `}]`,
			"two documents":  `{` + members + `}{` + members + `}`,
			"a name twice":   `{` + members + `,"x":1,"x":2}`,
			"twice, escaped": `{` + members + `,"scopes_supported":[],"scopes\u005fsupported":[]}`,
			"deep":           `{` + members + `,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
			"large":          `{` + members + `,"x":"` + strings.Repeat("x", 300<<10) + `"}`,
			"not UTF-8":      "{" + members + ",\"x\":\"\xff\"}",
			"a list of one":  `{` + members + `,"scopes_supported":"a"}`,
			"a list of odd":  `{` + members + `,"dpop_signing_alg_values_supported":["a",1]}`,
			"empty":          `{}`,
		} {
			err := read[kind](raw)
			if codeOf(err) != "document_invalid" {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
			clean(t, err)
		}
	}
	for members, want := range map[string]string{
		`"resource":7`: "document_invalid", `"resource":null`: "document_invalid",
		`"resource":"https://h/a/mcp","dpop_bound_access_tokens_required":"true"`:    "document_invalid",
		`"resource":"https://h/a/mcp","scopes_supported":["a b"]`:                    "document_invalid",
		`"resource":"https://h/a/mcp\u001b[31m\u202e"`:                               "resource_mismatch",
		`"resource":"https://h/a/mcp","scopes_supported":null`:                       "",
		`"resource":"https://h","resource_name":"x","signed_metadata":"ey","y":[{}]`: "",
	} {
		err := read[r]("{" + members + "}")
		clean(t, err)
		if codeOf(err) != want {
			t.Errorf("%s: %v, want %q", members, err, want)
		}
	}
	for members, want := range map[string]string{
		`"token_endpoint":"http://i/t"`:                                            "endpoint_invalid",
		`"token_endpoint":"https://u:p@i/t"`:                                       "endpoint_invalid",
		`"token_endpoint":"https://i/t#x"`:                                         "endpoint_invalid",
		`"token_endpoint":"/t"`:                                                    "endpoint_invalid",
		`"token_endpoint":"https://i/t","jwks_uri":"file:///x"`:                    "endpoint_invalid",
		`"token_endpoint":"https://i/t","issuer_x":"\u001b"`:                       "",
		`"authorization_endpoint":"https://i/t"`:                                   "document_invalid",
		`"token_endpoint":"https://i/t","code_challenge_methods_supported":"S256"`: "document_invalid",
	} {
		err := read[i](`{"issuer":"https://i",` + members + "}")
		clean(t, err)
		if codeOf(err) != want {
			t.Errorf("%s: %v, want %q", members, err, want)
		}
	}
	// http may stay on the host of an issuer that is itself http; how near that must be is the Doer's rule.
	for raw, want := range map[string]string{
		`{"issuer":"http://127.0.0.1:1","token_endpoint":"http://127.0.0.1:2/t"}`: "",
		`{"issuer":"http://127.0.0.1:1","token_endpoint":"http://10.0.0.1/t"}`:    "endpoint_invalid",
		`{"issuer":"http://127.0.0.1:1","token_endpoint":"https://elsewhere/t"}`:  "",
	} {
		if _, err := readIssuer([]byte(raw), "x", "http://127.0.0.1:1"); codeOf(err) != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestTA26DocumentsNameNothingNearer has the part of TA26 that isn't the dialer's: only http and https URLs
// of documents and challenges are asked for, and none with a user.
func TestTA26DocumentsNameNothingNearer(t *testing.T) {
	for _, at := range []string{
		"file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "unix:///run/docker.sock", "https:///x", "https:h", "//h/x", "h/x", "https://u:p@127.0.0.1/",
		"https://h/\nHost: evil", "https://h/ x", "https://h/é", "data:application/json,{}", "https://h/x#y", "https://" + strings.Repeat("a", 3000),
	} {
		w := &web{}
		if _, err := FindResource(t.Context(), w, "https://h/mcp", at); codeOf(err) != "resource_missing" || len(w.asked) > 0 {
			t.Errorf("a challenge with %q: %v, asked %v", at, err, w.asked)
		} else {
			clean(t, err)
		}
		if _, err := FindIssuer(t.Context(), w, at); codeOf(err) != "issuer_invalid" || len(w.asked) > 0 {
			t.Errorf("the issuer %q: %v, asked %v", at, err, w.asked)
		}
		for _, endpoint := range []string{"authorization", "token", "registration", "revocation", "device_authorization", "introspection"} {
			raw := fmt.Sprintf(`{"issuer":"https://i","token_endpoint":"https://i/t","x":1,%q:%q}`, endpoint+"_endpoint", at)
			raw = strings.Replace(raw, `"token_endpoint":"https://i/t","x":1,"token_endpoint"`, `"token_endpoint"`, 1)
			if _, err := readIssuer([]byte(raw), "https://i/x", "https://i"); err == nil {
				t.Errorf("%s_endpoint %q is accepted", endpoint, at)
			}
		}
	}
}

// TestTA26Refused has what a rule of egress refuses, which is the same tomorrow, and weather, over a real
// caller: a public server's metadata names an issuer on this machine, and nobody there is connected to.
func TestTA26Refused(t *testing.T) {
	dialled := 0
	c := egress.New(egress.Options{
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
		Dial: func(context.Context, string, string) (net.Conn, error) {
			dialled++
			return nil, errors.New("no connection")
		},
	})
	for issuer, want := range map[string]string{
		"https://127.0.0.1:9": "address_refused", "https://localhost": "address_refused", "https://[::ffff:127.0.0.1]": "address_refused",
		"https://rebound.example": "address_refused", "http://public.example": "address_refused",
	} {
		_, err := FindIssuer(t.Context(), c.From(egress.Public, egress.Bounds{}), issuer)
		var f *Fault
		if codeOf(err) != want || !errors.As(err, &f) || f.Next == "" || dialled > 0 {
			t.Errorf("%s: %v (%d dials)", issuer, err, dialled)
		}
	}
	if _, err := FindIssuer(t.Context(), c.From(egress.Loopback, egress.Bounds{}), "https://rebound.example"); !Weather(err) || dialled == 0 {
		t.Error("nothing listens, which is weather:", err)
	}
}
