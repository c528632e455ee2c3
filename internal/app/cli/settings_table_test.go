//go:build unix

package cli

import (
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/idptest"
)

// settings returns the table: one row for each key of package config.
func settings() map[string]setting {
	all := policySettings()
	for _, rows := range []map[string]setting{toolSettings(), serveSettings(), accessSettings(), limitSettings(), entrySettings(), serverSettings(), signInSettings(), dialectSettings(), projectSettings()} {
		for key, row := range rows {
			all[key] = row
		}
	}
	return all
}

// policySettings has the rows for rules. Of the caller of these tests, who needs no key, rules know that it has all
// roles, and no name.
func policySettings() map[string]setting {
	row := func(rules string, hidden bool) setting {
		return setting{ours: `policy: [` + rules + `]`, effect: func(s *stage) {
			list := s.list("tools")
			if strings.Contains(list, `"a__echo"`) == hidden || !strings.Contains(list, `"a__`) {
				s.Errorf("echo should be hidden: %t: %s", hidden, list)
			}
		}}
	}
	const rest = `, {match: a/echo, do: deny}`
	as := func(as, want string) setting {
		return setting{ours: `policy: [{match: a/echo, as: {` + as + `}}]`, effect: func(s *stage) { s.wants(s.list("tools"), want) }}
	}
	return map[string]setting{
		"dragoman.policy.as.name":                        as(`name: say`, `"a__say"`),
		"dragoman.policy.as.title":                       as(`title: Say it`, `"title":"Say it"`),
		"dragoman.policy.as.description":                 as(`description: Says it.`, `"description":"Says it."`),
		"dragoman.policy.as.annotations.readOnlyHint":    as(`annotations: {readOnlyHint: true}`, `"readOnlyHint":true`),
		"dragoman.policy.as.annotations.destructiveHint": as(`annotations: {destructiveHint: false}`, `"destructiveHint":false`),
		"dragoman.policy.as.annotations.idempotentHint":  as(`annotations: {idempotentHint: true}`, `"idempotentHint":true`),
		"dragoman.policy.as.annotations.openWorldHint":   as(`annotations: {openWorldHint: false}`, `"openWorldHint":false`),
		"dragoman.policy.match":                          row(`{match: ["b/x", "a/ec*"], do: deny}`, true),
		"dragoman.policy.do":                             row(`{match: a/echo, do: allow}, {match: "*/echo", who: {roles: [admin]}, do: deny}`, false),
		"dragoman.policy.who.keys":                       row(`{match: a/echo, who: {keys: [ci]}, do: allow}`+rest, true),
		"dragoman.policy.who.people":                     row(`{match: a/echo, who: {people: [ada]}, do: allow}`+rest, true),
		"dragoman.policy.who.roles":                      row(`{match: a/echo, who: {roles: [operator]}, do: allow}`+rest, false),
		"dragoman.questions":                             {ours: `questions: console`, effect: func(s *stage) { s.wants(s.command("questions", "--json"), `"mode": "console"`) }},
		"dragoman.pins":                                  {ours: `pins: hold`, effect: func(s *stage) { s.wants(s.get("/api/v1/pins"), `"mode": "hold"`) }},
	}
}

// toolSettings has the rows for search mode. The tool echo says that it only reads.
func toolSettings() map[string]setting {
	const tools = `PEER_TOOLS: '[{"name":"echo","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}},"annotations":{"readOnlyHint":true}},{"name":"bare","inputSchema":{"type":"object"}}]'`
	row := func(ours string, effect func(s *stage)) setting { // not of a, whose tools the other rows have pinned
		return setting{whole: `{mcpServers: {t: {command: settings-peer, env: {PEER_NOTES: "@NOTES@", PATH: "${PATH}", ` + tools + `}}}, dragoman: {listen: "127.0.0.1:0", ` + ours + `}}`, effect: effect}
	}
	call := func(s *stage, tool, args string) string {
		return s.ask("/find/mcp", "tools/call", tool, `"name":"`+tool+`","arguments":`+args)
	}
	return map[string]setting{
		"dragoman.tools.mode": row(`tools: {mode: search}`, func(s *stage) {
			s.wants(s.list("tools"), `"search_tools"`)
			s.lacks(s.list("tools"), `"t__echo"`)
			s.wants(call(s, "call_tool", `{"name":"t__echo","arguments":{"n":"x"}}`), "arguments.n must be")
			s.wants(call(s, "call_read_tool", `{"name":"t__echo"}`), "was not called")
		}),
		"dragoman.tools.always": row(`tools: {mode: search, always: [t/ec*]}`, func(s *stage) {
			s.wants(s.list("tools"), `"search_tools"`, `"t__echo"`)
			s.lacks(s.list("tools"), `"t__bare"`)
		}),
		"dragoman.tools.validate": row(`tools: {mode: search, validate: off}`, func(s *stage) {
			s.wants(call(s, "call_tool", `{"name":"t__echo","arguments":{"n":"x"}}`), `"text":"{\"n\":\"x\"}"`)
		}),
		"dragoman.servers.NAME.hint": row(`servers: {t: {hint: "echoes, sounds"}}`, func(s *stage) {
			s.wants(s.ask("/find/mcp", "tools/list", "", ""), "t (2): echoes, sounds")
		}),
		"dragoman.servers.NAME.trust": row(`servers: {t: {trust: annotations}}`, func(s *stage) {
			s.wants(call(s, "call_read_tool", `{"name":"t__echo","arguments":{"n":1}}`), `"text":"{\"n\":1}"`)
			s.wants(call(s, "call_read_tool", `{"name":"t__bare"}`), "was not called")
		}),
	}
}

func projectSettings() map[string]setting {
	const peer = `mcpServers: {b: {command: settings-peer, env: {PEER_NOTES: "@NOTES@", PATH: "${PATH}"}}}`
	row := func(body string, effect func(s *stage)) setting {
		return setting{ours: `projects: {shop: {` + body + `}}`, effect: effect}
	}
	hello := func(text string) func(*stage) {
		return func(s *stage) { s.wants(s.hello("/p/shop/mcp", "2025-11-25"), text) }
	}
	tools := func(has, lacks string) func(*stage) {
		return func(s *stage) {
			list := s.ask("/p/shop/mcp", "tools/list", "", "")
			s.wants(list, has)
			s.lacks(list, lacks)
		}
	}
	return map[string]setting{
		"dragoman.projects.NAME.title":                             row(`title: The shop`, hello(`"title":"The shop"`)),
		"dragoman.projects.NAME.server.instructions":               row(`server: {instructions: {text: Sell things.}}`, hello("Sell things.")),
		"dragoman.projects.NAME.server.name":                       row(`server: {name: shop-server}`, hello(`"name":"shop-server"`)),
		"dragoman.projects.NAME.server.title":                      row(`title: no, server: {title: The window}`, hello(`"title":"The window"`)),
		"dragoman.projects.NAME.server.version":                    row(`server: {version: v9}`, hello(`"version":"v9"`)),
		"dragoman.projects.NAME.server.allowSecretsInInstructions": row(`server: {allowSecretsInInstructions: true, instructions: {text: "To ${PEER_OURS}"}}`, hello("To from our environment")),
		"dragoman.projects.NAME.use":                               row(`use: [a]`, tools(`"a__`, `"b__`)),
		"dragoman.projects.NAME.mcpServers":                        row(peer, tools(`"b__`, `"a__`)),
		"dragoman.projects.NAME.servers":                           row(peer+`, servers: {b: {prefix: fresh}}`, tools(`"fresh__`, `"b__`)),
		"dragoman.projects.NAME.expose":                            row(`use: [a], expose: {tools: {deny: [echo]}}`, tools(`"a__`, `"a__echo"`)),
		"dragoman.projects.NAME.policy":                            row(`use: [a], policy: [{match: a/echo, do: deny}]`, tools(`"a__`, `"a__echo"`)),
		"dragoman.projects.NAME.pins": row(`use: [a], pins: hold`, func(s *stage) {
			s.wants(s.get("/api/v1/pins?project=shop"), `"mode": "hold"`)
			s.wants(s.get("/api/v1/pins"), `"mode": "warn"`)
		}),
		"dragoman.projects.NAME.questions": row(`use: [a], questions: console`, func(s *stage) {
			s.wants(s.command("questions", "--json", "--project", "shop"), `"mode": "console"`)
			s.wants(s.command("questions", "--json"), `"mode": "off"`)
		}),
		"dragoman.projects.NAME.tools": row(`use: [a], tools: {mode: search}`, tools(`"search_tools"`, `"a__echo"`)),
		"dragoman.projects.NAME.limits": row(`limits: {body: 1KiB}`, func(s *stage) {
			s.wants(s.post("/p/shop/mcp", strings.Repeat(" ", 2000)), "413 ")
			s.lacks(s.post("/mcp", strings.Repeat(" ", 2000)), "413 ")
		}),
	}
}

// browse sends a request as a browser of another machine does, through a proxy at mcp.example.com. It returns the page
// and the cookies.
func browse(s *stage, method, path, cookie string) (page, cookies string) {
	r, err := http.NewRequest(method, s.base+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	r.Host = "mcp.example.com"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Cookie", cookie)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	for _, c := range resp.Cookies() {
		cookies += c.Name + "=" + c.Value + "; "
	}
	return string(b), cookies
}

// accessSettings has the rows for who may come in.
func accessSettings() map[string]setting {
	const roles = `roles: {claim: groups, map: {users: caller}}`
	issuer := func(body string, effect func(s *stage)) setting {
		return setting{ours: `access: {loopback: keys, issuers: [{` + body + `}]}`, effect: effect}
	}
	with := func(s *stage, token string) string {
		return s.post("/mcp", "{", "Authorization", "Bearer "+token)
	}
	own := func(s *stage) string { return s.base + "/mcp" }
	login := func(body string, effect func(s *stage)) setting {
		return setting{ours: `database: own.db, publicURL: "https://mcp.example.com", access: {people: {by: oidc}, oidc: {` + body + `}}`, effect: effect}
	}
	// signIn signs somebody in as a browser does, and returns what the browser sees at the end.
	signIn := func(s *stage) string {
		page, cookie := browse(s, http.MethodPost, "/login", "")
		to := regexp.MustCompile(`content="0; url=([^"]+)"`).FindStringSubmatch(page)
		if to == nil {
			return page
		}
		resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Get(html.UnescapeString(to[1]))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		back, err := resp.Location()
		if err != nil {
			return err.Error()
		}
		page, _ = browse(s, http.MethodGet, back.RequestURI(), cookie)
		return to[1] + "\n" + page
	}
	const client, staff = `issuer: "@IDP@", clientID: dragoman, clientSecret: the client's secret, `, `roles: {claim: groups, map: {staff: viewer}}`
	signedIn := func(groups, sees string) func(s *stage) {
		return func(s *stage) {
			s.idp.Person = idptest.Claims{"sub": "ada", groups: "staff"}
			s.wants(signIn(s), sees)
		}
	}
	return map[string]setting{
		"dragoman.access.people.by": login(client+staff, func(s *stage) {
			page, _ := browse(s, http.MethodGet, "/console/", "")
			s.wants(page, "Sign in with 127.0.0.1")
		}),
		"dragoman.access.oidc.issuer":   login(client+staff, signedIn("groups", "You are signed in")),
		"dragoman.access.oidc.clientID": login(`issuer: "@IDP@", clientID: another, clientSecret: the client's secret, `+staff, signedIn("groups", "no Location header")),
		"dragoman.access.oidc.clientSecret": login(`issuer: "@IDP@", clientID: dragoman, clientSecret: wrong, `+staff, func(s *stage) {
			signedIn("groups", "sign you in now")(s)
			s.lacks(s.log.String(), "secret")
		}),
		"dragoman.access.oidc.scopes":      login(client+`scopes: [groups], `+staff, signedIn("groups", "scope=openid&#43;profile&#43;groups")),
		"dragoman.access.oidc.roles.claim": login(client+`roles: {claim: teams, map: {staff: viewer}}`, signedIn("teams", "You are signed in")),
		"dragoman.access.oidc.roles.map":   login(client+`roles: {claim: groups, map: {others: viewer}}`, signedIn("groups", "none of its groups")),
		"dragoman.access.issuers.issuer": issuer(`issuer: "@IDP@", `+roles, func(s *stage) {
			s.wants(with(s, s.idp.Token(own(s))), "400 ")
			s.wants(with(s, s.idp.Token(own(s), idptest.Claims{"iss": "http://127.0.0.1:1"})), "401 ", "an issuer that is not accepted")
		}),
		"dragoman.access.issuers.audience": issuer(`issuer: "@IDP@", audience: [api://x], `+roles, func(s *stage) {
			s.wants(with(s, s.idp.Token("api://x")), "400 ")
			s.wants(with(s, s.idp.Token("api://y")), "401 ", "another audience")
			play(s.T, issuer(`issuer: "@IDP@", audience: {claim: client_id, values: [a-client]}, `+roles, func(s *stage) {
				s.wants(with(s, s.idp.Token("", idptest.Claims{"aud": nil})), "400 ")
				s.wants(with(s, s.idp.Token("", idptest.Claims{"aud": nil, "client_id": "b"})), "401 ")
			}))
		}),
		"dragoman.access.issuers.scopes": issuer(`issuer: "@IDP@", scopes: [the-scope], `+roles, func(s *stage) {
			s.wants(s.get("/.well-known/oauth-protected-resource/mcp"), `"scopes_supported":["the-scope"]`)
			s.wants(with(s, s.idp.Token(own(s), idptest.Claims{"scope": "other"})), "403 ")
		}),
		"dragoman.access.issuers.header": issuer(`issuer: "@IDP@", header: x-assertion, `+roles, func(s *stage) {
			s.wants(s.post("/mcp", "{", "X-Assertion", s.idp.Token(own(s))), "400 ")
			s.wants(with(s, s.idp.Token(own(s))), "401 ")
		}),
		"dragoman.access.issuers.keys": issuer(`issuer: "http://127.0.0.1:1", keys: "@IDP@/keys", `+roles, func(s *stage) {
			s.wants(with(s, s.idp.Token(own(s), idptest.Claims{"iss": "http://127.0.0.1:1"})), "400 ")
		}),
		"dragoman.access.issuers.roles.claim": issuer(`issuer: "@IDP@", roles: {claim: realm_access.roles, map: {users: caller}}`, func(s *stage) {
			s.wants(with(s, s.idp.Token(own(s))), "404 ")
			s.wants(with(s, s.idp.Token(own(s), idptest.Claims{"realm_access": idptest.Claims{"roles": []string{"users"}}})), "400 ")
		}),
		"dragoman.access.issuers.roles.map": issuer(`issuer: "@IDP@", roles: {claim: groups, map: {staff: [caller, default/viewer]}}`, func(s *stage) {
			staff := idptest.Claims{"groups": []string{"staff"}}
			s.wants(with(s, s.idp.Token(own(s))), "404 ")
			s.wants(with(s, s.idp.Token(own(s), staff)), "400 ")
		}),
		"dragoman.access.issuers.introspect.clientID": issuer(`issuer: "@IDP@", introspect: {clientID: dragoman, clientSecret: the client's secret}, `+roles, func(s *stage) {
			s.wants(with(s, "good-"+own(s)), "400 ")
			s.wants(with(s, "bad-"+own(s)), "401 ")
		}),
		"dragoman.access.issuers.introspect.clientSecret": issuer(`issuer: "@IDP@", introspect: {clientID: dragoman, clientSecret: wrong}, `+roles, func(s *stage) {
			s.wants(with(s, "good-"+own(s)), "503 ")
			s.wants(s.log.String(), "check introspect.clientID and clientSecret")
		}),
	}
}

func serveSettings() map[string]setting {
	port := freePort()
	own := func(source string) string { return `server: {instructions: {` + source + `}}` }
	ours := func(text string) func(*stage) {
		return func(s *stage) { s.wants(s.hello("/mcp", "2025-11-25"), text) }
	}
	return map[string]setting{
		"dragoman.listen": {
			whole:  `{mcpServers: {}, dragoman: {listen: "` + port + `"}}`,
			effect: func(s *stage) { s.wants(s.base, port) },
		},
		"dragoman.allowUnauthenticatedNetworkAccess": {
			whole: `{mcpServers: {}, dragoman: {listen: "0.0.0.0:0", allowUnauthenticatedNetworkAccess: true}}`,
			effect: func(s *stage) {
				s.wants(s.log.String(), "0.0.0.0")
				play(s.T, setting{whole: `{mcpServers: {}, dragoman: {listen: "0.0.0.0:0"}}`, fails: "nobody has an API key"})
			},
		},
		"dragoman.access.loopback": {
			ours:   `access: {loopback: keys}`,
			effect: func(s *stage) { s.wants(s.post("/mcp", "{"), "401 ", "needs an API key") },
		},
		"dragoman.access.trustedProxies": {
			ours: `access: {loopback: keys, trustedProxies: [127.0.0.1, "::1"]}`,
			effect: func(s *stage) {
				guess := func(s *stage, from string) string {
					return s.post("/mcp", "{", "X-API-Key", "wrong", "X-Forwarded-For", from)
				}
				for range 11 {
					guess(s, "198.51.100.1, 203.0.113.9")
				}
				s.wants(guess(s, "203.0.113.9"), "429 ")
				s.wants(guess(s, "198.51.100.1"), "401 ")
				play(s.T, setting{ours: `access: {loopback: keys}`, effect: func(s *stage) {
					for i := range 11 {
						guess(s, "203.0.113."+strconv.Itoa(i))
					}
					s.wants(guess(s, "203.0.113.99"), "429 ")
				}})
			},
		},
		"dragoman.access.signIn": {
			ours: `access: {loopback: keys, signIn: own}`,
			effect: func(s *stage) {
				s.wants(s.get("/.well-known/oauth-authorization-server"), `"authorization_endpoint":"`+s.base+`/authorize"`, `"registration_endpoint"`)
				s.wants(s.get("/.well-known/oauth-protected-resource/mcp"), `"authorization_servers":["`+s.base+`"]`)
			},
		},
		"dragoman.access.clients.allow": {
			ours: `access: {loopback: keys, signIn: own, clients: {allow: known}}`,
			effect: func(s *stage) {
				s.wants(s.get("/authorize?client_id=https://x.example/client"), "does not let this client sign in")
				s.wants(s.post("/register", "{}"), "404 ")
			},
		},
		"dragoman.access.clients.dcr": {
			ours:   `access: {loopback: keys, signIn: own, clients: {dcr: false}}`,
			effect: func(s *stage) { s.wants(s.post("/register", "{}"), "404 ") },
		},
		"dragoman.egress": {ours: `egress: {allow: ["*"]}`, fails: "allows too much"},
		"dragoman.publicURL": {
			ours: `publicURL: "https://gateway.internal/tools"`,
			effect: func(s *stage) {
				s.wants(s.log.String(), "https://gateway.internal/tools/mcp")
				s.wants(s.post("/tools/mcp", "{", "Host", "gateway.internal", "Origin", "https://gateway.internal"), "400 ")
				s.wants(s.post("/other/mcp", "{", "Host", "gateway.internal"), "404 ")
			},
		},
		"dragoman.tls.cert": {
			whole: `{mcpServers: {}, dragoman: {listen: "0.0.0.0:0", allowUnauthenticatedNetworkAccess: true, tls: {cert: none.pem, key: ca.pem}}}`,
			fails: `none.pem" with the certificate does not exist`,
		},
		"dragoman.tls.key": {
			whole: `{mcpServers: {}, dragoman: {listen: "0.0.0.0:0", allowUnauthenticatedNetworkAccess: true, tls: {cert: ca.pem, key: none.pem}}}`,
			fails: `none.pem" with the key does not exist`,
		},
		"dragoman.database": {
			ours: `database: house/store.db`,
			effect: func(s *stage) {
				s.wants(s.get("/api/v1/status"), `"place": "absent"`, filepath.Join(s.dir, "house", "store.db"))
				play(s.T, setting{ours: `database: "postgres://dragoman@127.0.0.1:1/team"`, fails: "dragoman cannot connect to the database \"team\""})
			},
		},
		"dragoman.sealKeys": {
			ours:  `sealKeys: none.keys`,
			fails: `none.keys does not exist`,
		},
		"dragoman.cluster.listen": {
			ours:  `database: "postgres://dragoman@127.0.0.1:1/team", cluster: {listen: "127.0.0.1:x"}`,
			fails: `cluster.listen: "x" is not a port`,
		},
		"dragoman.cluster.advertise": {
			ours:  `database: "postgres://dragoman@127.0.0.1:1/team", cluster: {listen: "0.0.0.0:7301"}`,
			fails: "advertise is missing",
		},
		"dragoman.cluster.name": {
			ours:  `database: "postgres://dragoman@127.0.0.1:1/team", cluster: {listen: "127.0.0.1:7301", name: R_1}`,
			fails: "cluster.name: has to consist of 1 to 32 small letters",
		},
		"dragoman.cluster.drainGrace": {
			ours:  `database: "postgres://dragoman@127.0.0.1:1/team", cluster: {listen: "127.0.0.1:7301", drainGrace: 1h}`,
			fails: "cluster.drainGrace: must be between 0s and 5m",
		},
		"dragoman.vault.key": {
			ours: `vault: {key: "env:SETTINGS_VAULT"}`,
			effect: func(s *stage) {
				sealed := filepath.Join(s.dir, "house", "store.db")
				house, err := store.Open(s.Context(), store.Options{Database: sealed})
				if err == nil {
					safe := store.NewSafe(house, vault.New(vault.Options{File: filepath.Join(s.dir, "house", "vault.key")}))
					err = errors.Join(safe.SetSecret(s.Context(), "ada", "default", "gh", nil), house.Close())
				}
				if err != nil {
					s.Fatal(err)
				}
				play(s.T, setting{ours: `vault: {key: "env:SETTINGS_VAULT"}, database: "` + sealed + `"`, fails: "the variable SETTINGS_VAULT does not exist"})
				play(s.T, setting{ours: `database: "` + sealed + `"`, effect: func(s *stage) { s.wants(s.get("/api/v1/status"), `"place": "file"`) }})
			},
		},
		"dragoman.console": {
			ours: `console: false`,
			effect: func(s *stage) {
				s.wants(s.get("/console/"), "The console is off, because the configuration has")
			},
		},
		"dragoman.record": {
			ours: `record: off`,
			effect: func(s *stage) {
				s.list("tools")
				s.wants(s.get("/api/v1/calls"), `"recorded": false`)
			},
		},
		"dragoman.audit.calls": {
			ours:   `audit: {calls: names}`,
			effect: func(s *stage) { s.wants(s.get("/api/v1/status"), `"calls": "names"`) },
		},
		"dragoman.audit.onFailure": {
			ours:   `audit: {calls: names, onFailure: continue}`,
			effect: func(s *stage) { s.wants(s.get("/api/v1/status"), `"refuses": false`) },
		},
		"dragoman.audit.fileSize": {ours: `audit: {calls: arguments, fileSize: 64KiB}`, effect: audited(2, false)},
		"dragoman.audit.files":    {ours: `audit: {calls: arguments, fileSize: 64KiB, files: 2}`, effect: audited(3, true)},
		"dragoman.allowedHosts": {
			ours: `allowedHosts: [gateway.internal]`,
			effect: func(s *stage) {
				s.wants(s.post("/mcp", "{", "Host", "gateway.internal"), "400 ")
				s.wants(s.post("/mcp", "{", "Host", "other.internal"), "403 ")
			},
		},
		"dragoman.allowedOrigins": {
			ours: `allowedOrigins: ["https://chat.internal"]`,
			effect: func(s *stage) {
				s.wants(s.post("/mcp", "{", "Origin", "https://chat.internal"), "400 ")
				s.wants(s.post("/mcp", "{", "Origin", "https://other.internal"), "403 ")
			},
		},
		"dragoman.server.name":    {ours: `server: {name: ours}`, effect: ours(`"name":"ours"`)},
		"dragoman.server.title":   {ours: `server: {title: Ours}`, effect: ours(`"title":"Ours"`)},
		"dragoman.server.version": {ours: `server: {version: "7.7"}`, effect: ours(`"version":"7.7"`)},
		"dragoman.server.allowSecretsInInstructions": {
			ours:   `server: {allowSecretsInInstructions: true, instructions: {text: "${PEER_OURS}"}}`,
			effect: ours(`from our environment\n\n## a`),
		},
		"dragoman.server.instructions.text": {
			ours: own(`text: our words`), effect: ours(`our words\n\n## a\n\ntheirs`),
		},
		"dragoman.server.instructions.file": {
			ours: own(`file: words`),
			effect: func(s *stage) {
				if err := os.WriteFile(filepath.Join(s.dir, "words"), []byte("our words"), 0o600); err != nil {
					s.Fatal(err)
				}
				ours(`our words\n\n## a`)(s)
			},
		},
		"dragoman.server.instructions.command": {ours: own(`command: [echo, our words]`), effect: ours(`our words\n\n## a`)},
		"dragoman.server.instructions.keep": {
			ours: own(`command: [sh, -c, 'echo run $$'], keep: 100ms`),
			effect: func(s *stage) {
				first := s.hello("/mcp", "2025-11-25")
				s.wants(first, "run ")
				time.Sleep(150 * time.Millisecond) // longer than keep, so the command runs again
				if second := s.hello("/mcp", "2025-11-25"); second == first {
					s.Errorf("the command did not run again: %s", second)
				}
			},
		},
		"dragoman.server.instructions.from": {ours: own(`from: a`), fails: "is not a requirements server"},
		"dragoman.server.instructions.join": {ours: own(`text: our words, join: upstreams-first`), effect: ours(`theirs\n\nour words`)},
		"dragoman.envFile": {ours: `envFile: secrets, server: {title: "${PEER_SECRET:-none}"}`, effect: func(s *stage) {
			ours(`"title":"from the file"`)(s)
			play(s.T, setting{ours: `server: {title: "${PEER_SECRET:-none}"}`, effect: ours(`"title":"none"`)})
		}},
		"dragoman.inheritEnv": {ours: `inheritEnv: ["PEER_*"]`, effect: func(s *stage) {
			s.call("echo", "{}")
			s.wants(s.noted(), `inherited "from our environment"`)
			play(s.T, setting{effect: func(s *stage) {
				s.call("echo", "{}")
				s.wants(s.noted(), `inherited ""`)
			}})
		}},
		"dragoman.revisions.accept": {
			ours:   `revisions: {accept: [2025-06-18]}`,
			effect: func(s *stage) { s.wants(s.hello("/mcp", "2025-11-25"), `"protocolVersion":"2025-06-18"`) },
		},
		"dragoman.revisions.otherwise": {
			ours:   `revisions: {accept: [2025-06-18], otherwise: refuse}`,
			effect: func(s *stage) { s.wants(s.hello("/mcp", "2025-11-25"), `"error"`, "2025-06-18") },
		},
		"dragoman.names.separator": {
			ours: `names: {separator: "--"}`, effect: func(s *stage) { s.wants(s.list("tools"), `"a--echo"`) },
		},
		"dragoman.log.level": {
			ours: `log: {level: error}`, env: `PEER_MUTE: "1"`, own: `startTimeout: 1s`,
			effect: func(s *stage) {
				s.wants(s.call("echo", "{}"), `"error"`)
				s.lacks(s.log.String(), "level=")
			},
		},
		"dragoman.telemetry.traces.endpoint": {ours: `telemetry: {traces: {endpoint: "@WEB@"}}`, effect: traced("POST /v1/traces")},
		"dragoman.telemetry.traces.headers":  {ours: `telemetry: {traces: {endpoint: "@WEB@/spans", headers: {X-Mine: "yes"}}}`, effect: traced("POST /spans", "X-Mine:[yes]")},
		"dragoman.log.calls": {
			ours: `log: {calls: true}`,
			effect: func(s *stage) {
				s.call("echo", "{}")
				const want = " msg=call server=a tool=echo took="
				// The log record may be written after the response.
				for end := time.Now().Add(30 * time.Second); !strings.Contains(s.log.String(), want) && time.Now().Before(end); {
					time.Sleep(20 * time.Millisecond)
				}
				s.wants(s.log.String(), want)
			},
		},
		"dragoman.log.format": {
			ours: `log: {format: json}`, env: `PEER_MUTE: "1"`, own: `startTimeout: 1s`,
			effect: func(s *stage) {
				s.call("echo", "{}")
				// The log record may be written after the response.
				for end := time.Now().Add(20 * time.Second); !strings.Contains(s.log.String(), `"level":"`) && time.Now().Before(end); {
					time.Sleep(20 * time.Millisecond)
				}
				s.wants(s.log.String(), `"level":"`)
			},
		},
	}
}

func limitSettings() map[string]setting {
	long := func(n int) string { return `{"v":"` + strings.Repeat("x", n) + `"}` }
	timeout := func(tool string) func(*stage) {
		return func(s *stage) { s.wants(s.call(tool, "{}"), `"cause":"timeout"`) }
	}
	slow := func(s *stage) {
		begin := time.Now()
		s.wants(s.call("echo", "{}"), `"cause":"timeout"`, `"class":"silent"`, "did not answer within 1s")
		if took := time.Since(begin); took > 20*time.Second {
			s.Errorf("took %v", took)
		}
	}
	traffic := func(limit, text string, refused bool) setting {
		return setting{ours: `limits: {traffic: [` + limit + `]}`, effect: func(s *stage) {
			s.wants(s.call("echo", long(2000)), `"content"`)
			if got := s.call("echo", "{}"); strings.Contains(got, `"cause":"limit"`) != refused || !strings.Contains(got, text) {
				s.Errorf("%s: %s", limit, got)
			}
		}}
	}
	const rest = `, {per: key, callsPerSecond: 5000}`
	return map[string]setting{
		"dragoman.limits.traffic.per":            traffic(`{per: project, callsPerSecond: 0.01}`, `the project \"default\" gets at most 0.01 calls`, true),
		"dragoman.limits.traffic.who.keys":       traffic(`{per: key, who: {keys: ["*"]}, callsPerSecond: 0.01}`+rest, `"content"`, false),
		"dragoman.limits.traffic.who.people":     traffic(`{per: key, who: {people: ["*"]}, callsPerSecond: 0.01}`+rest, `"content"`, false),
		"dragoman.limits.traffic.who.roles":      traffic(`{per: key, who: {roles: [admin]}, callsPerSecond: 0.01}`+rest, "whoever has no key", true),
		"dragoman.limits.traffic.servers":        traffic(`{per: server, servers: a, callsPerSecond: 0.01}`, `the server \"a\"`, true),
		"dragoman.limits.traffic.callsPerSecond": traffic(`{per: key, callsPerSecond: 0.02}`, "0.02 calls per second, and 1 at once", true),
		"dragoman.limits.traffic.burst":          traffic(`{per: key, callsPerSecond: 0.01, burst: 7}`, `"content"`, false),
		"dragoman.limits.traffic.bytesPerMinute": traffic(`{per: key, bytesPerMinute: 1KiB}`, "1024 bytes per minute", true),
		"dragoman.limits.scope":                  {ours: `limits: {scope: mine}`, fails: `write cluster or replica`},
		"dragoman.limits.result": {ours: `limits: {result: 1KiB}`, effect: func(s *stage) {
			s.wants(s.call("echo", long(3000)), "[Dragoman has shortened this result", `"resource_link","uri":"dragoman://results/`)
			s.lacks(s.call("echo", long(100)), "Dragoman has shortened")
		}},
		"dragoman.limits.traffic.callsInFlight": {
			ours: `limits: {traffic: [{per: key, callsInFlight: 1}], call: 2s}`,
			effect: func(s *stage) {
				var both sync.WaitGroup
				var answers [2]string
				for i := range answers {
					both.Go(func() { answers[i] = s.call("hang", "{}") })
				}
				both.Wait()
				s.wants(answers[0]+answers[1], "gets at most 1 call in flight", `"cause":"timeout"`)
			},
		},
		"dragoman.limits.manifestClient": {
			ours: `limits: {manifestClient: 1s}`, env: `PEER_MUTE: "1"`, own: `startTimeout: 1m`,
			effect: func(s *stage) {
				s.wants(s.post("/s/a/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`), `"class":"not_ready"`, "within 1s")
				s.wants(s.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`), `"result"`, `"tools":[]`)
			},
		},
		"dragoman.limits.body": {
			ours: `limits: {body: 2KiB}`,
			effect: func(s *stage) {
				s.wants(s.call("echo", long(3000)), "413 ")
				s.wants(s.call("echo", long(100)), "200 ")
			},
		},
		"dragoman.limits.message": {
			ours: `limits: {message: 2KiB}`,
			effect: func(s *stage) {
				s.wants(s.call("echo", long(3000)), `"cause":"too_large"`)
				s.wants(s.call("echo", long(100)), `"content"`)
			},
		},
		"dragoman.limits.call":    {ours: `limits: {call: 1s}`, effect: timeout("hang")},
		"dragoman.limits.callMax": {ours: `limits: {call: 1s, callMax: 1s}`, effect: timeout("beat")},
		"dragoman.limits.start":   {ours: `limits: {start: 1s}`, env: `PEER_MUTE: "1"`, effect: slow},
		"dragoman.limits.starts": {
			whole: `{mcpServers: {a: {command: settings-peer, env: {PEER_NOTES: "@NOTES@"}}, b: {command: settings-peer, env: {PEER_NOTES: "@NOTES@.b", PEER_MUTE: "1"}}}, ` +
				`dragoman: {listen: "127.0.0.1:0", limits: {starts: 1, start: 2s}, servers: {a: {lazy: true}}}}`,
			effect: func(s *stage) {
				await := func(text string, in func() string) {
					for end := time.Now().Add(30 * time.Second); !strings.Contains(in(), text) && time.Now().Before(end); {
						time.Sleep(20 * time.Millisecond)
					}
				}
				await("start ", func() string {
					b, _ := os.ReadFile(s.notes + ".b")
					return string(b)
				})
				s.list("tools") // unlike a call, it has no place of its own
				await("server ready", s.log.String)
				if text := s.log.String(); strings.Index(text, "server ready") < strings.Index(text, "could not be opened") || !strings.Contains(text, "could not be opened") {
					s.Errorf("the server a did not wait until the server b had failed\n%s", text)
				}
			},
		},
		"dragoman.limits.inFlight": {
			ours: `limits: {body: 1MiB, inFlight: 1MiB, call: 1s}`,
			effect: func(s *stage) {
				var both sync.WaitGroup
				answers := make([]string, 4)
				for i := range answers {
					both.Go(func() { answers[i] = s.call("hang", long(700<<10)) })
				}
				both.Wait()
				s.wants(strings.Join(answers, "\n"), "503 ", `"cause":"timeout"`)
			},
		},
		"dragoman.limits.initializePerSecond": {
			ours: `limits: {initializePerSecond: 1}`,
			effect: func(s *stage) {
				// Send the requests at the same time. In sequence they would be delayed
				// instead of refused.
				var all sync.WaitGroup
				answers := make([]string, 100)
				for i := range answers {
					all.Go(func() { answers[i] = s.hello("/mcp", "2025-11-25") })
				}
				all.Wait()
				s.wants(strings.Join(answers, "\n"), "200 ", "429 ")
			},
		},
		"dragoman.servers.NAME.callTimeout":  {own: `callTimeout: 1s`, effect: timeout("hang")},
		"dragoman.servers.NAME.callMax":      {own: `callTimeout: 1s, callMax: 1s`, effect: timeout("beat")},
		"dragoman.servers.NAME.startTimeout": {own: `startTimeout: 1s`, env: `PEER_MUTE: "1"`, effect: slow},
	}
}

// isolated checks that each call has a session of its own.
func isolated(s *stage) {
	s.call("echo", "{}")
	s.call("echo", "{}")
	if n := strings.Count(s.noted(), `"method":"initialize"`); n < 2 {
		s.Errorf("%d sessions", n)
	}
}

// entrySettings returns the rows for the settings in mcpServers.
func entrySettings() map[string]setting {
	const echo = `{"v":1}`
	works := func(s *stage) { s.wants(s.call("echo", echo), `{\"v\":1}`) }
	at := func(entry string) string {
		return `{mcpServers: {a: {` + entry + `}}, dragoman: {listen: "127.0.0.1:0"}}`
	}
	over := func(key string) setting {
		return setting{whole: at(key + `: "@WEB@/mcp"`), effect: works}
	}
	// A server that is configured as HTTP+SSE does not get a Streamable HTTP request.
	kind := func(key string) setting {
		return setting{whole: at(`url: "@WEB@/sse", ` + key + `: sse, headers: {X-A: b}`), effect: func(s *stage) {
			for begin := time.Now(); !strings.Contains(s.requests(), "GET /sse") && time.Since(begin) < time.Minute; {
				time.Sleep(5 * time.Millisecond)
			}
			s.wants(s.requests(), "GET /sse")
			s.lacks(s.requests(), "POST /sse")
		}}
	}
	// What the keys of other clients mean is in package clientfile.
	foreign := func(bad string) setting {
		return setting{whole: at(`url: "@WEB@/mcp", ` + bad), fails: "mcpServers.a.oauth"}
	}
	return map[string]setting{
		"mcpServers.NAME.command": {effect: works},
		"mcpServers.NAME.args": {entry: `args: [one, "two three"]`, effect: func(s *stage) {
			works(s)
			s.wants(s.noted(), `start ["one" "two three"]`)
		}},
		"mcpServers.NAME.env": {env: `PEER_TOOLS: '[{"name":"other","inputSchema":{"type":"object"}}]'`, effect: func(s *stage) {
			s.wants(s.list("tools"), "a__other")
		}},
		"mcpServers.NAME.cwd": {entry: `cwd: .`, effect: func(s *stage) {
			works(s)
			s.wants(s.noted(), " in "+s.dir+"\n")
		}},
		"mcpServers.NAME.url":       over("url"),
		"mcpServers.NAME.httpUrl":   over("httpUrl"),
		"mcpServers.NAME.serverUrl": over("serverUrl"),
		"mcpServers.NAME.headers": {whole: at(`url: "@WEB@/mcp", headers: {X-Mine: "yes"}`), effect: func(s *stage) {
			works(s)
			s.wants(s.requests(), "X-Mine:[yes]")
		}},
		"mcpServers.NAME.type":          kind("type"),
		"mcpServers.NAME.transport":     kind("transport"),
		"mcpServers.NAME.transportType": kind("transportType"),

		"mcpServers.NAME.oauth":          foreign(`oauth: {callbackPort: x}`),
		"mcpServers.NAME.auth":           foreign(`auth: {callbackPort: x}`),
		"mcpServers.NAME.scopes":         foreign(`scopes: "\""`),
		"mcpServers.NAME.oauth_resource": foreign(`oauth_resource: x`),

		"mcpServers.NAME.compatibility_mode": {entry: `compatibility_mode: api_wrapper`, effect: isolated},
		"mcpServers.NAME.compatibilityMode":  {entry: `compatibilityMode: api_wrapper`, effect: isolated},
		"mcpServers.NAME.disabled":           {entry: `disabled: true`, effect: func(s *stage) { s.lacks(s.list("tools"), "echo") }},
		"mcpServers.NAME.enabled":            {entry: `enabled: false`, effect: func(s *stage) { s.lacks(s.list("tools"), "echo") }},
	}
}

// serverSettings returns the rows for the settings in dragoman.servers, except the limits.
func serverSettings() map[string]setting {
	filter := func(kind, rule, key, gone, left string) setting {
		return setting{own: `expose: {` + kind + `: {` + rule + `}}`, effect: func(s *stage) {
			list := s.list(kind)
			s.wants(list, key+left+`"`)
			s.lacks(list, key+gone+`"`)
		}}
	}
	return map[string]setting{
		"dragoman.servers.NAME.prefix":    {own: `prefix: p`, effect: func(s *stage) { s.wants(s.list("tools"), `"p__echo"`) }},
		"dragoman.servers.NAME.isolation": {own: `isolation: call`, effect: isolated},
		"dragoman.servers.NAME.lazy": {
			whole: `{mcpServers: {a: {command: settings-peer, env: {PEER_NOTES: "@NOTES@"}}, b: {command: settings-peer, env: {PEER_NOTES: "@NOTES@.b"}}}, ` +
				`dragoman: {listen: "127.0.0.1:0", servers: {a: {lazy: true}}}}`,
			effect: func(s *stage) {
				s.wants(s.ask("/s/b/mcp", "tools/call", "echo", `"name":"echo","arguments":{}`), `"content"`)
				if s.noted() != "" {
					s.Error("the lazy server was started before its first request")
				}
				s.wants(s.call("echo", "{}"), `"content"`)
			},
		},
		"dragoman.servers.NAME.ping": {own: `ping: 5s`, effect: func(s *stage) {
			s.call("echo", "{}")
			for end := time.Now().Add(time.Minute); !strings.Contains(s.noted(), `"method":"ping"`); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					s.Fatal("the idle server was not pinged")
				}
			}
		}},
		"dragoman.servers.NAME.inheritEnv": {ours: `inheritEnv: ["*"]`, own: `inheritEnv: []`, effect: func(s *stage) {
			s.call("echo", "{}")
			s.wants(s.noted(), `inherited ""`)
			play(s.T, setting{own: `inheritEnv: [PEER_OURS]`, effect: func(s *stage) {
				s.call("echo", "{}")
				s.wants(s.noted(), `inherited "from our environment"`)
			}})
		}},
		"dragoman.servers.NAME.caFile": {
			whole: `{mcpServers: {a: {url: "@TLS@/mcp"}}, dragoman: {listen: "127.0.0.1:0", servers: {a: {caFile: ca.pem}}}}`,
			effect: func(s *stage) {
				s.wants(s.call("echo", `{"v":1}`), `{\"v\":1}`)
				s.wants(s.requests(), "POST /mcp")
			},
		},
		"dragoman.servers.NAME.revision": {own: `revision: 2025-03-26`, effect: func(s *stage) {
			s.call("echo", "{}")
			s.wants(s.noted(), `"protocolVersion":"2025-03-26"`)
			s.lacks(s.noted(), "server/discover")
		}},
		"dragoman.servers.NAME.dialect": {own: `dialect: initialize-only`, effect: func(s *stage) {
			s.call("echo", "{}")
			s.wants(s.noted(), "initialize")
			s.lacks(s.noted(), "server/discover")
		}},
		"dragoman.servers.NAME.expose.tools.allow":     filter("tools", "allow: [echo]", `"name":"a__`, "bare", "echo"),
		"dragoman.servers.NAME.expose.tools.deny":      filter("tools", "deny: [echo]", `"name":"a__`, "echo", "bare"),
		"dragoman.servers.NAME.expose.prompts.allow":   filter("prompts", "allow: [one]", `"name":"a__`, "two", "one"),
		"dragoman.servers.NAME.expose.prompts.deny":    filter("prompts", "deny: [one]", `"name":"a__`, "one", "two"),
		"dragoman.servers.NAME.expose.resources.allow": filter("resources", `allow: ["x:one"]`, `"uri":"x:`, "two", "one"),
		"dragoman.servers.NAME.expose.resources.deny":  filter("resources", `deny: ["x:one"]`, `"uri":"x:`, "one", "two"),
	}
}

// dialectSettings returns the rows for the settings of a dialect.
func dialectSettings() map[string]setting {
	speak := func(profile, env string, effect func(*stage)) setting {
		return setting{ours: `dialects: {own: {` + profile + `}}`, own: `dialect: own`, env: env, effect: effect}
	}
	detected := func(profile, env string, effect func(*stage)) setting {
		return setting{ours: `dialects: {own: {` + profile + `}}`, env: env, effect: effect}
	}
	hello := func(members string) string {
		return `PEER_HELLO: '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"peer","version":"1"},` + members + `}'`
	}
	const manifest = `"mine":[{"name":"given","wanted":{"type":"object"},"ask":true,"back":true}]`
	called := func(s *stage) string { s.Helper(); return s.call("echo", "{}") }
	wrapped := func(s *stage) { s.wants(s.call("bare", "{}"), `"content":[{"type":"text","text":"{\"bare\":1}"}]`) }
	tool := func(members string) string {
		return `PEER_TOOLS: '[{"name":"echo",` + members + `}]'`
	}
	status := func(s *stage) string {
		s.Helper()
		called(s)
		return s.get("/api/v1/status")
	}
	return map[string]setting{
		"dragoman.dialects.NAME.about": speak(`about: our very own`, "", func(s *stage) { s.wants(status(s), "our very own") }),
		"dragoman.dialects.NAME.like": speak(`like: initialize-only`, "", func(s *stage) {
			called(s)
			s.lacks(s.noted(), "server/discover")
		}),
		"dragoman.dialects.NAME.detect.has": detected(`detect: {has: [mark]}, tools: {wrap: true}`, hello(`"mark":1`), wrapped),
		"dragoman.dialects.NAME.detect.lacks": detected(`detect: {has: [mark], lacks: [other]}, tools: {wrap: true}`, hello(`"mark":1,"other":1`), func(s *stage) {
			s.lacks(s.call("bare", "{}"), `"content":[{`)
		}),
		"dragoman.dialects.NAME.open.probe": speak(`open: {probe: false}`, "", func(s *stage) {
			called(s)
			s.lacks(s.noted(), "server/discover")
		}),
		"dragoman.dialects.NAME.open.initialized": speak(`open: {initialized: false}`, "", func(s *stage) {
			s.wants(called(s), `"content"`)
			s.lacks(s.noted(), "notifications/initialized")
		}),
		"dragoman.dialects.NAME.open.params": speak(`open: {params: {own: 7}}`, "", func(s *stage) {
			called(s)
			s.wants(s.noted(), `"own":7`)
		}),
		"dragoman.dialects.NAME.open.version": speak(`open: {version: 2025-03-26}`, "", func(s *stage) {
			called(s)
			s.wants(s.noted(), `"protocolVersion":"2025-03-26"`)
		}),
		"dragoman.dialects.NAME.open.identity": speak(`open: {identity: [who]}`, hello(`"who":{"name":"somebody","version":"1"}`), func(s *stage) {
			s.wants(s.hello("/s/a/mcp", "2025-06-18"), "somebody")
		}),
		"dragoman.dialects.NAME.open.pushed": speak(`open: {pushed: true}, tools: {manifest: mine}`,
			`PEER_REFUSE: "no", PEER_PUSH: '{"jsonrpc":"2.0","result":{`+manifest+`},"id":"x"}'`,
			func(s *stage) { s.wants(s.list("tools"), "a__given") }),
		"dragoman.dialects.NAME.tools.manifest": speak(`tools: {manifest: mine}`, hello(manifest), func(s *stage) {
			s.wants(s.list("tools"), "a__given")
			s.lacks(s.noted(), "tools/list")
		}),
		"dragoman.dialects.NAME.tools.schema": speak(`tools: {schema: [wanted]}`, tool(`"wanted":{"type":"object","title":"W"}`), func(s *stage) {
			s.wants(s.list("tools"), `"inputSchema":{"type":"object","title":"W"}`)
		}),
		"dragoman.dialects.NAME.tools.confirm": speak(`tools: {confirm: [ask]}`, tool(`"inputSchema":{"type":"object"},"ask":true`), func(s *stage) {
			s.wants(s.list("tools"), `"destructiveHint":true`)
		}),
		"dragoman.dialects.NAME.tools.undo": speak(`tools: {undo: [back]}`, tool(`"inputSchema":{"type":"object"},"back":true`), func(s *stage) {
			s.wants(s.list("tools"), `"undoSupported":true`)
		}),
		"dragoman.dialects.NAME.tools.repair": speak(`tools: {repair: true}`, tool(`"inputSchema":{"type":"object","properties":{"n":{"type":"string","nullable":true}}}`), func(s *stage) {
			s.wants(s.list("tools"), `["string","null"]`)
		}),
		"dragoman.dialects.NAME.tools.wrap": speak(`tools: {wrap: true}`, "", wrapped),
		"dragoman.dialects.NAME.errors.notReady": speak(`errors: {notReady: [brewing]}`, `PEER_REFUSE: still brewing`, func(s *stage) {
			s.wants(called(s), `"content"`)
		}),
		"dragoman.dialects.NAME.errors.wrongVersion": speak(`errors: {wrongVersion: [too young]}`, `PEER_REFUSE: "too young, 2025-03-26"`, func(s *stage) {
			s.wants(called(s), `"content"`)
			s.wants(s.noted(), `"protocolVersion":"2025-03-26"`)
		}),
		"dragoman.dialects.NAME.errors.wrongParams": speak(`open: {params: {own: 7}}, errors: {wrongParams: [strange]}`, `PEER_REFUSE: how strange`, func(s *stage) {
			s.wants(called(s), `"content"`)
		}),
		"dragoman.dialects.NAME.errors.tool": speak(`errors: {tool: {4001: There is no such invoice}}`, "", func(s *stage) {
			s.wants(s.call("fail", "{}"), `"isError":true`, "There is no such invoice")
		}),
		"dragoman.dialects.NAME.never": speak(`never: [prompts/list]`, "", func(s *stage) {
			s.wants(s.ask("/s/a/mcp", "prompts/list", "", ""), "-32601")
			s.lacks(s.noted(), "prompts/list")
		}),
		"dragoman.dialects.NAME.maxMessage": speak(`maxMessage: 1KiB`, "", func(s *stage) {
			s.wants(s.call("echo", `{"v":"`+strings.Repeat("x", 2000)+`"}`), `"outcome":"not_sent"`)
			s.wants(called(s), `"content"`)
		}),
	}
}

// audited checks that calls fill so many files of the audit, and if gone is true, that the first was deleted. It can't
// check that one wasn't, because all rows have one folder.
func audited(files int, gone bool) func(s *stage) {
	name := regexp.MustCompile(`"file": "(.*)-(\d{6})\.jsonl"`)
	return func(s *stage) {
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			s.call("echo", `{"text":"`+strings.Repeat("x", 60_000)+`"}`)
			found := name.FindStringSubmatch(s.get("/api/v1/status"))
			if found != nil && found[2] >= fmt.Sprintf("%06d", files) {
				if _, err := os.Stat(found[1] + "-000001.jsonl"); gone && err == nil {
					s.Error("the first file is still there")
				}
				return
			}
			if time.Now().After(end) {
				s.Fatalf("there are not %d files: %q", files, found)
			}
		}
	}
}

// traced checks that a call leads to a request to the collector with these texts. It may come a few seconds later.
func traced(texts ...string) func(s *stage) {
	return func(s *stage) {
		s.call("echo", "{}")
		for end := time.Now().Add(30 * time.Second); !strings.Contains(s.requests(), texts[0]) && time.Now().Before(end); {
			time.Sleep(20 * time.Millisecond)
		}
		s.wants(s.requests(), texts...)
	}
}
