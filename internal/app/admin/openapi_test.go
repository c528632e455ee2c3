package admin

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/protocol/schema"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
)

var update = flag.Bool("update", false, "write docs/api.md")

// openapi is a decoded OpenAPI document.
type openapi struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		OperationID string
		Parameters  []struct{ Name, In string }
		Responses   map[string]struct {
			Content map[string]struct{ Schema json.RawMessage }
		}
	}
	Components map[string]map[string]json.RawMessage
}

// checker returns a function that checks a response against a schema of the document. It
// refuses members that the schema does not name.
func (d *openapi) checker(t *testing.T, of json.RawMessage) func(body string) []schema.Problem {
	t.Helper()
	strict := map[string]map[string]any{}
	for name, raw := range d.Components["schemas"] {
		var x map[string]any
		if err := json.Unmarshal(raw, &x); err != nil {
			t.Fatal(err)
		}
		if x["properties"] != nil {
			x["additionalProperties"] = false
		}
		strict[name] = x
	}
	var whole map[string]any
	if err := json.Unmarshal(of, &whole); err != nil {
		t.Fatalf("%v: %s", err, of)
	}
	whole["components"] = map[string]any{"schemas": strict}
	raw, _ := json.Marshal(whole)
	c, err := schema.Compile(raw)
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return func(body string) []schema.Problem {
		t.Helper()
		all, err := c.Check([]byte(body))
		if err != nil {
			t.Errorf("%v: %s", err, body)
		}
		return all
	}
}

// TestDocument checks that the document describes exactly the routes of the table, and that the
// mux serves them. The JSON response of each GET route matches its schema.
func TestDocument(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy), demoServer(t, "new", demo.Modern))
	r.ready("old", "new")
	ids := r.prepare()
	var doc openapi
	r.get("/api/v1/openapi.json", &doc)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi %q", doc.OpenAPI)
	}
	seen, names := 0, map[string]bool{}
	for _, x := range routes() {
		op, ok := doc.Paths[apiRoot+x.path][strings.ToLower(x.method)]
		if !ok || op.OperationID != x.name || names[x.name] {
			t.Errorf("%s %s is not in the document once", x.method, x.path)
			continue
		}
		seen++
		names[x.name] = true
		path := apiRoot + x.path
		for _, p := range op.Parameters {
			if p.In == "path" {
				path = strings.Replace(path, "{"+p.Name+"}", ids(x.path, p.Name), 1)
			}
		}
		if strings.Contains(path, "{") {
			t.Errorf("%s has parameters that the document does not name", x.path)
		}
		// The API refuses methods without a route, requests through a proxy, and requests without a key
		// for routes that need one.
		if a := r.ask(http.MethodPatch, path, ""); a.status != http.StatusMethodNotAllowed || !strings.Contains(a.header.Get("Allow"), x.method) {
			t.Errorf("PATCH %s: %d %v", path, a.status, a.header)
		}
		if a := r.ask(x.method, path, "", "X-Forwarded-For", "10.0.0.1", "Authorization", r.key()); a.status != http.StatusForbidden {
			t.Errorf("%s %s through a proxy: %d", x.method, path, a.status)
		}
		if !x.open {
			if a := r.ask(x.method, path, ""); a.status != http.StatusUnauthorized {
				t.Errorf("%s %s without the key: %d", x.method, path, a.status)
			}
		}
		if x.method != http.MethodGet || len(x.events) > 0 {
			continue
		}
		query := map[string]string{"/rules/who": "?item=old/greet", "/rules/for": "?name=ci"}[x.path]
		a := r.do(x.method, path+query, "")
		if a.status != http.StatusOK {
			t.Errorf("GET %s: %d %s", path, a.status, a.body)
			continue
		}
		if content := op.Responses["200"].Content["application/json"]; x.answer != nil {
			if all := doc.checker(t, content.Schema)(a.body); len(all) > 0 {
				t.Errorf("GET %s does not fit its schema: %+v\n%s", path, all, a.body)
			}
		}
	}
	for path, ops := range doc.Paths {
		seen -= len(ops)
		if !strings.HasPrefix(path, apiRoot+"/") {
			t.Errorf("path %s", path)
		}
	}
	if seen != 0 {
		t.Errorf("the document has %d operations more than the table", -seen)
	}
	problem := doc.checker(t, json.RawMessage(`{"$ref":"#/components/schemas/Problem"}`))
	for _, path := range []string{"/api/v1/servers/nobody", "/api/v1/tools?limit=0", "/api/v1/nothing"} {
		if all := problem(r.ask(http.MethodGet, path, "").body); len(all) > 0 {
			t.Errorf("the problem of %s: %+v", path, all)
		}
	}
	if all := doc.checker(t, json.RawMessage(`{"$ref":"#/components/schemas/Problem"}`))(`{"type":"x","title":"y","status":400,"more":1}`); len(all) == 0 {
		t.Error("the check accepts members that the schema does not have")
	}
}

// TestDescriptions checks that each member of each type has a description.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	schemas, _ := document("")["components"].(object)["schemas"].(object)
	if len(schemas) == 0 {
		t.Fatal("the document has no schemas")
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		properties, _ := schemas[name].(object)["properties"].(object)
		for _, member := range slices.Sorted(maps.Keys(properties)) {
			if about, _ := properties[member].(object)["description"].(string); about == "" {
				t.Errorf("member %s of %s has no description: add the tag doc to the field", member, name)
			}
		}
	}
}

// prepare creates the objects that routes with ids need. The returned function returns the
// value for a parameter of a path.
func (r *rig) prepare() func(path, name string) string {
	r.t.Helper()
	r.ask(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"editor","version":"1.2"}}}`,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	r.ask(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	var all Clients
	r.get("/api/v1/clients", &all)
	if len(all.Clients) == 0 {
		r.t.Fatal("there is no client")
	}
	ran := r.run("old", `{"tool":"greet","arguments":{"name":"x"}}`)
	r.ended(ran.ID)
	var kept Example
	r.tell(http.MethodPost, "/examples", `{"run":"`+ran.ID+`"}`, http.StatusCreated, &kept)
	r.examined("old", `{}`)
	draft := r.draft("npx x")
	var key NewAPIKey
	r.tell(http.MethodPost, "/keys", `{"name":"ci"}`, http.StatusCreated, &key)
	r.tell(http.MethodPost, "/people", `{"name":"old"}`, http.StatusCreated, &NewInvitation{})
	r.tell(http.MethodPut, "/secrets/gh", `{"value":"x"}`, http.StatusOK, &KeptSecret{})
	r.tell(http.MethodPost, "/prompts", `{"name":"old","text":"{{x}}","arguments":[{"name":"x","values":["y"]}]}`, http.StatusCreated, &KeptPrompt{})
	r.tell(http.MethodPost, "/prompts", `{"name":"old","text":"without"}`, http.StatusCreated, &KeptPrompt{})
	r.tell(http.MethodPut, "/projects/old", `{"title":"Old"}`, http.StatusCreated, &KeptProject{})
	question, _ := r.asks("default", questions.Question{Server: "old", Message: "Why?", Schema: []byte(`{"type":"object"}`)})
	return func(path, name string) string {
		switch {
		case strings.HasPrefix(path, "/questions/"):
			return question
		case path == "/keys/{id}":
			return key.ID
		case name == "name":
			return "old"
		case name == "tool":
			return "greet"
		case strings.HasPrefix(path, "/clients/"):
			return all.Clients[0].ID
		case strings.HasPrefix(path, "/runs/"):
			return ran.ID
		case strings.HasPrefix(path, "/examples/"):
			return kept.ID
		case strings.HasPrefix(path, "/drafts/"):
			return draft.ID
		}
		return "1"
	}
}

// TestReference compares docs/api.md with the table of routes. With -update it writes the
// file.
func TestReference(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "api.md")
	text := reference()
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(old), string(text)); d != "" {
		t.Errorf("docs/api.md is stale; run `go test ./internal/app/admin -update`:\n%s", d)
	}
}

const referenceHead = `<!-- Code generated from the table of routes by ` + "`go test ./internal/app/admin -update`" + `; DO NOT EDIT. -->

# The admin API

` + "`dragoman serve`" + ` answers these paths besides ` + "`/mcp`" + `. ` + "`/api/v1/openapi.json`" + ` describes them as OpenAPI 3.1, with every member of the types that the table names.

The column *role* names the least role that a request needs. *Viewer*, *operator* and *admin* each include the one before. With *signed in*, whoever has any role in the project can use the route, too, with a session of the console: it's about what is theirs. A key or a token with the role *caller* opens none of these paths. A request shows who it is from in one of these ways:

- with an [API key](access.md), in the header ` + "`" + `Authorization: Bearer KEY` + "`" + ` or ` + "`" + `X-API-Key: KEY` + "`" + `. It has its role in its own project.
- with the **key of the process**, as a bearer token. It has every role, and works only on the machine of ` + "`" + `serve` + "`" + `, without a proxy. ` + "`" + `serve` + "`" + ` makes a new one at each start, and writes it to a file that only you can read, in your runtime or cache folder, for example in ` + "`" + `$XDG_RUNTIME_DIR/dragoman` + "`" + `.
- with the session of a browser that has opened the console.

Programs on the machine of ` + "`" + `serve` + "`" + ` need none of them for the routes with *open*, unless the configuration has ` + "`" + `access: {loopback: keys}` + "`" + `.

    curl http://127.0.0.1:7300/api/v1/servers
    curl -X POST -H "Authorization: Bearer $(cat KEYFILE)" http://127.0.0.1:7300/api/v1/servers/github/restart
    curl -H "Authorization: Bearer $KEY" https://mcp.example.com/api/v1/servers

Requests of other machines, and those that a proxy has forwarded, must have come over https: through a proxy at the ` + "`" + `publicURL` + "`" + `, or with ` + "`" + `tls` + "`" + `. Without that, all of them are refused. A request from a page of another site is refused, too.

Errors are problem details as in RFC 9457 (` + "`application/problem+json`" + `). ` + "`type`" + ` names the kind of problem, and ` + "`detail`" + ` says what to do. If a server can't be used, ` + "`failure`" + ` says why; see [failures.md](failures.md). If you hit a limit (status 429 or 503), the header ` + "`Retry-After`" + ` says when to try again. Later versions can add members to answers, so ignore those that you don't know.

Percent-encode names in paths. A tool name that is empty, ` + "`.`, `..` or `/`" + ` can't be an element of a path. Put ` + "`~`" + ` before it: ` + "`/servers/files/tools/~..`" + `.

Long lists come in pages. A page's ` + "`next`" + ` is the query parameter ` + "`cursor`" + ` for the next one; the last page has no ` + "`next`" + `.

The paths are about the project ` + "`" + `default` + "`" + `, or with ` + "`" + `?project=NAME` + "`" + ` about another: its servers, clients, calls, log, runs and examinations, and nothing else. Members and ids of one project mean nothing in another. Paths that don't take the parameter are about the process; they need the role in the project ` + "`" + `default` + "`" + `.

A project of the store is text, and ` + "`GET`" + ` returns it with its version in the header ` + "`ETag`" + `. Who changes or removes it sends this version as ` + "`If-Match`" + `: without it the answer is 428, and if somebody else was faster, 412 with the version of now in ` + "`current`" + `.

Streams are server-sent events. To get what you missed, connect again with ` + "`Last-Event-ID`" + `. After the event ` + "`end`" + `, nothing follows.

`

// reference returns the expected text of docs/api.md.
func reference() []byte {
	var b bytes.Buffer
	b.WriteString(referenceHead)
	b.WriteString("| route | role | what | answer |\n|---|---|---|---|\n")
	link := func(x any) string { return "`" + reflect.TypeOf(x).Name() + "`" }
	for _, x := range routes() {
		what, role := x.summary, x.least.String()
		if x.open {
			role += ", *open*"
		}
		if x.people {
			role += ", *signed in*"
		}
		for _, p := range x.query { // the parameter project is described above the table
			what += fmt.Sprintf("<br>`%s`: %s", p.name, p.about)
		}
		if _, text := x.body.(yamlText); text {
			what += "<br>body: `" + yamlType + "`"
		} else if x.body != nil {
			what += "<br>body: " + link(x.body)
		}
		answer := ""
		switch {
		case len(x.events) > 0:
			var list []string
			for _, e := range x.events {
				text := "event `" + e.name + "`"
				if e.data != nil {
					text += ": " + link(e.data)
				}
				list = append(list, text)
			}
			answer = strings.Join(list, "<br>")
		case x.answer != nil:
			answer = link(x.answer)
		case x.kind != "":
			answer = "`" + x.kind + "`"
		}
		if x.status != 0 {
			answer = strings.TrimSpace(fmt.Sprintf("%d %s", x.status, answer))
		}
		fmt.Fprintf(&b, "| `%s %s%s` | %s | %s | %s |\n", x.method, apiRoot, x.path, role, what, answer)
	}
	return b.Bytes()
}
