package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestIssuers reads an issuer with every key, and prints it so that it's read again.
func TestIssuers(t *testing.T) {
	const text = `
dragoman:
  publicURL: https://mcp.example.com
  access:
    loopback: keys
    trustedProxies: [10.1.2.3/8, "::1"]
    issuers:
      - issuer: https://id.example.com/tenant
        audience: [api://dragoman]
        scopes: [api://dragoman/mcp, x]
        roles: {claim: groups, map: {users: caller, "all admins": [caller, admin, shop/viewer]}}
        header: x-assertion
        keys: http://127.0.0.1:9/keys
        introspect: {clientID: me, clientSecret: "${S}"}
    people: {by: oidc}
    oidc: {issuer: https://id.example.com, clientID: web, clientSecret: hunter2, scopes: [groups], roles: {claim: g, map: {a: viewer}}}
`
	s, problems := Parse("f", []byte(text), env("S=sesame"))
	if s == nil || len(problems) > 0 {
		t.Fatal(listing(problems))
	}
	want := Access{
		LoopbackKeys:   true,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		Issuers: []Issuer{{
			Issuer: "https://id.example.com/tenant", Audience: []string{"api://dragoman"}, Scopes: []string{"api://dragoman/mcp", "x"},
			Roles: Roles{"groups", []MappedRole{
				{"users", "default", identity.Caller}, {"all admins", "default", identity.Caller}, {"all admins", "default", identity.Admin}, {"all admins", "shop", identity.Viewer},
			}},
			Header: "X-Assertion", Keys: "http://127.0.0.1:9/keys", ClientID: "me", ClientSecret: NewSecret("sesame"),
		}},
		Login: &Login{Issuer: "https://id.example.com", ClientID: "web", ClientSecret: NewSecret("hunter2"), Scopes: []string{"groups"}, Roles: Roles{"g", []MappedRole{{"a", "default", identity.Viewer}}}},
	}
	if d := cmp.Diff(want, s.Access, cmpopts.EquateComparable(netip.Prefix{}), cmp.Comparer(func(a, b Secret) bool { return a.Reveal() == b.Reveal() })); d != "" {
		t.Error(d)
	}
	printed := string(s.AppendYAML(nil))
	again, problems := Parse("f", []byte(printed), nil)
	if again == nil || strings.Contains(printed, "sesame") || strings.Contains(printed, "hunter2") {
		t.Fatalf("%s\n%s", listing(problems), printed)
	}
	if d := cmp.Diff(want, again.Access, cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreTypes(Secret{})); d != "" {
		t.Error(d)
	}
}

// TestProblemsOfAccess checks that each mistake is one problem at its place, with a way out, and that no other
// issuer is to blame.
func TestProblemsOfAccess(t *testing.T) {
	const roles = `roles: {claim: groups, map: {a: caller}}`
	for in, want := range map[string]string{
		`issuers: {issuer: x}`:                                                                                  "issuers: must be a list",
		`issuers: [{` + roles + `}]`:                                                                            "issuers[0].issuer: is missing",
		`issuers: [{issuer: id.example.com, ` + roles + `}]`:                                                    "issuers[0].issuer: is not an https URL",
		`issuers: [{issuer: "http://id.example.com", ` + roles + `}]`:                                           "issuers[0].issuer: is not an https URL",
		`issuers: [{issuer: "https://id.example.com?x", ` + roles + `}]`:                                        "issuers[0].issuer: is not an https URL",
		`issuers: [{issuer: "https://i.example"}]`:                                                              "issuers[0].roles: is missing",
		`issuers: [{issuer: "https://i.example", roles: {claim: groups}}]`:                                      "issuers[0].roles: needs a claim and a map",
		`issuers: [{issuer: "https://i.example", roles: {claim: g, map: {a: root}}}]`:                           `issuers[0].roles.map.a: "root" is not a role`,
		`issuers: [{issuer: "https://i.example", roles: {claim: g, map: {a: "x y/admin"}}}]`:                    "is not a role",
		`issuers: [{issuer: "https://i.example", header: Authorization, ` + roles + `}]`:                        "issuers[0].header: is not a header in which a proxy",
		`issuers: [{issuer: "https://i.example", header: x-forwarded-user, ` + roles + `}]`:                     "issuers[0].header: is not a header in which a proxy",
		`issuers: [{issuer: "https://i.example", header: "a b", ` + roles + `}]`:                                "issuers[0].header: is not a header in which a proxy",
		`issuers: [{issuer: "https://i.example", keys: keys.json, ` + roles + `}]`:                              "issuers[0].keys: is not an https URL",
		`issuers: [{issuer: "https://i.example", scopes: ["a b"], ` + roles + `}]`:                              `issuers[0].scopes[0]: "a b" is not a scope`,
		`issuers: [{issuer: "https://i.example", audience: {claim: x}, ` + roles + `}]`:                         "issuers[0].audience: needs a claim and its values",
		`issuers: [{issuer: "https://i.example", introspect: {clientID: x}, ` + roles + `}]`:                    "issuers[0].introspect.clientSecret: is missing",
		`issuers: [{issuer: "https://i.example", secret: x, ` + roles + `}]`:                                    "issuers[0].secret: unknown key",
		`issuers: [{issuer: "https://i.example", ` + roles + `}, {issuer: "https://i.example", ` + roles + `}]`: "has two entries for the same tokens",
		`issuers: [{issuer: "https://a.example", introspect: {clientID: x, clientSecret: x}, ` + roles + `}, {issuer: "https://b.example", introspect: {clientID: x, clientSecret: x}, ` + roles + `}]`: "has two entries for the same tokens",
		`people: {by: oidc}`: "people.by: is oidc, but no provider is configured",
		`people: {by: oidc}, oidc: {issuer: "https://i.example", clientID: x, clientSecret: x, ` + roles + `}`: "people.by: is oidc, which needs an https URL",
		`oidc: {issuer: "https://i.example", clientID: x, clientSecret: x, ` + roles + `}`:                     "oidc: has no effect",
		`people: {by: magic}`:                     `"magic" is not a valid value`,
		`trustedProxies: [10.0.0.1, 0.0.0.0/0]`:   "trustedProxies[1]: trusts everybody",
		`trustedProxies: [proxy.internal]`:        `"proxy.internal" is not a network`,
		`trustedProxies: ["fe80::1%eth0"]`:        "is not a network",
		`trustedProxies: ["::ffff:10.0.0.0/104"]`: "is not a network",
	} {
		_, problems := Parse("f", []byte("dragoman: {access: {loopback: keys, "+in+"}}"), nil)
		if len(problems) == 0 || !strings.Contains(listing(problems), want) || problems[0].Hint == "" && !strings.Contains(want, "must be") {
			t.Errorf("%s: %s\nwant %s", in, listing(problems), want)
		}
	}
	for _, in := range []string{`map: {a: user}`, `map: {a: [user, root]}`} {
		_, problems := Parse("f", []byte(`dragoman: {access: {loopback: keys, issuers: [{issuer: "https://i.example", roles: {claim: g, `+in+`}}]}}`), nil)
		if got := listing(problems); strings.Count(got, "is not a role") != len(problems) {
			t.Errorf("%s: %s", in, got)
		}
	}
	for in, want := range map[string]string{
		`access: {issuers: [{issuer: "https://i.example", ` + roles + `}]}`:                                                                            "everybody is let in at 127.0.0.1:7300",
		`listen: "[::1]:7300", access: {issuers: [{issuer: "https://i.example", ` + roles + `}]}`:                                                      "everybody is let in at [::1]:7300",
		`listen: "[::1]:7300", access: {signIn: own}`:                                                                                                  "everybody is let in at [::1]:7300",
		`publicURL: "https://mcp.example.com", access: {signIn: own}`:                                                                                  "everybody is let in at 127.0.0.1:7300",
		`publicURL: "https://mcp.example.com", access: {signIn: own, loopback: keys}`:                                                                  "",
		`publicURL: "https://mcp.example.com/tools", access: {signIn: own, loopback: keys}`:                                                            "below a path, the console has no place",
		`publicURL: "http://mcp.example.com", access: {loopback: keys}`:                                                                                "everybody on the way could read the keys",
		`publicURL: "http://mcp.example.com", listen: "0.0.0.0:7300"`:                                                                                  "everybody on the way could read the keys",
		`publicURL: "http://mcp.example.com"`:                                                                                                          "",
		`publicURL: "http://localhost:8080", access: {loopback: keys}`:                                                                                 "",
		`publicURL: "http://mcp.example.com", listen: "0.0.0.0:7300", allowUnauthenticatedNetworkAccess: true`:                                         "",
		`listen: "0.0.0.0:7300", allowUnauthenticatedNetworkAccess: true, access: {issuers: [{issuer: "https://i.example", ` + roles + `}]}`:           "remove allowUnauthenticatedNetworkAccess",
		`listen: "0.0.0.0:7300", access: {issuers: [{issuer: "https://i.example", ` + roles + `}]}`:                                                    "",
		`access: {loopback: keys, issuers: [{issuer: "https://i.example", ` + roles + `}, {issuer: "https://i.example", header: x-a, ` + roles + `}]}`: "",
	} {
		s, problems := Parse("f", []byte("dragoman: {"+in+"}"), nil)
		if s == nil || (want == "") != (len(problems) == 0) || !strings.Contains(listing(problems), want) {
			t.Errorf("%s: %s\nwant %s", in, listing(problems), want)
		}
	}
}
