//go:build unix

package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAuthors starts a serve with the requirements server, in which two API keys and one of a person write.
// The server knows whose key each call came with, whatever the client says, in both eras. A server that
// isn't started as Dragoman's own learns nothing of it, and no key reaches it.
func TestAuthors(t *testing.T) {
	u := newUser(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test program acts as dragoman under this name, and is its own program.
	own, database, heard := filepath.Join(u.home, "bin", "dragoman"), filepath.Join(u.home, "team.db"), filepath.Join(u.home, "heard")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, own); err != nil {
		t.Fatal(err)
	}
	args := `[server, requirements, --db, "` + database + `"]`
	u.write("dragoman.yaml", `
mcpServers:
  own: {command: "`+own+`", args: `+args+`}
  other: {command: sh, args: [-c, "env >'`+heard+`'; tee -a '`+heard+`' | exec '`+own+`' server requirements --db '`+database+`'"]}
dragoman: {database: house/dragoman.db, access: {loopback: keys}}
`)
	at := "http://" + u.serve("--listen", anyPort)
	key := func(name string, flags ...string) string {
		code, text, said := u.run(append([]string{"-q", "keys", "add", name}, flags...)...)
		if code != exitOK {
			t.Fatalf("%d %s", code, said)
		}
		return strings.TrimSpace(text)
	}
	if code, _, said := u.run("people", "invite", "Grace"); code != exitOK {
		t.Fatalf("%d %s", code, said)
	}
	ci, bob, grace := key("ci"), key("bob"), key("laptop", "--owner", "Grace")
	post := func(who, path, body string, header ...string) (string, http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i, header := 0, append(header, "Content-Type", "application/json", "Accept", "application/json, text/event-stream", "X-API-Key", who); i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		all, _ := io.ReadAll(resp.Body)
		return string(all), resp.Header
	}
	const claim = `"io.github.dragoman-mcp/voucher":{"subject":"p:ada","name":"Ada","proof":"x"}`
	modern := func(who, server, params string) string {
		text, _ := post(who, "/s/"+server+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add_comment",`+params+`,"_meta":{`+claim+`,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"Ada","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "add_comment")
		return text
	}
	ask := func(who, server, method, params string) string {
		_, header := post(who, "/s/"+server+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"Ada","version":"1"}}}`)
		session := []string{"Mcp-Session-Id", header.Get("Mcp-Session-Id"), "MCP-Protocol-Version", "2025-06-18"}
		post(who, "/s/"+server+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
		text, _ := post(who, "/s/"+server+"/mcp", `{"jsonrpc":"2.0","id":2,"method":"`+method+`","params":{`+params+`}}`, session...)
		if _, event, ok := strings.Cut(text, "data: {"); ok {
			text = "{" + event
		}
		return text
	}
	legacy := func(who, server, tool, params string) string {
		return ask(who, server, "tools/call", `"name":"`+tool+`",`+params)
	}
	wrote := []string{
		legacy(ci, "own", "create_item", `"arguments":{"kind":"epic","title":"x"},"_meta":{`+claim+`}`),
		legacy(bob, "own", "add_comment", `"arguments":{"item":"EP-001","text":"x","author":"Ada"},"_meta":null`),
		legacy(bob, "own", "update_item", `"arguments":{"id":"EP-001","version":1,"title":"y"}`),
		modern(bob, "own", `"arguments":{"item":"EP-001","text":"x","author":"Ada"}`),
		modern(ci, "own", `"arguments":{"item":"EP-001","text":"x"}`),
		modern(grace, "own", `"arguments":{"item":"EP-001","text":"x"}`),
		modern(ci, "other", `"arguments":{"item":"EP-001","text":"x"}`),
	}
	var answer struct {
		Result struct{ Contents []struct{ Text string } }
	}
	var list struct {
		Users []struct {
			ID, Name               string
			Verified               bool
			Items, Edits, Comments int
		}
	}
	text := ask(bob, "own", "resources/read", `"uri":"requirements://users"`)
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Result.Contents) != 1 || json.Unmarshal([]byte(answer.Result.Contents[0].Text), &list) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	got := map[string][3]int{}
	for _, x := range list.Users {
		if got[x.Name] = [3]int{x.Items, x.Edits, x.Comments}; x.Verified != (x.Name != "Ada") || x.ID != "" && !strings.HasPrefix(x.ID, map[bool]string{true: "p:", false: "k:"}[x.Name == "Grace"]) {
			t.Errorf("%+v", x)
		}
	}
	if len(got) != 4 || got["Grace"] != [3]int{0, 0, 1} || got["ci"] != [3]int{1, 0, 1} || got["bob"] != [3]int{0, 1, 2} || got["Ada"] != [3]int{0, 0, 1} {
		t.Errorf("%v\n%s", got, strings.Join(wrote, "\n"))
	}
	sent, err := os.ReadFile(heard)
	if err != nil {
		t.Fatal(err)
	}
	text = string(sent)
	if strings.Contains(text, "DRAGOMAN_VOUCHER") || strings.Contains(text, `"k:`) || !strings.Contains(text, "add_comment") {
		t.Errorf("the other server got %s", text)
	}
}
