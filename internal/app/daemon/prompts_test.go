//go:build unix

package daemon

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// TestOwnPrompts changes the prompts of a project in another process while clients of both eras are connected over
// every transport: they hear of what is published and put off, get it, complete its arguments, and get the active
// one as instructions, also when the database is broken. A client of another project notices nothing, nor does one
// of a single server's endpoint.
func TestOwnPrompts(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "house", "dragoman.db")
	out, pipeOut := io.Pipe()
	pipeIn, in := io.Pipe()
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	lines := make(chan *jsonrpc.Message, 1000)
	go func() {
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if m, bad := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1, Tolerant: true}); bad == nil {
				lines <- m
			}
			if err != nil {
				return
			}
		}
	}()
	s := serveSealed(t, database, "  home: {url: \""+newWeb(t, false).web.URL+"/mcp\"}\n", func(o *ServeOptions) {
		o.Stdio, o.Stdin, o.Stdout = true, pipeIn, pipeOut
	})
	other := safeAt(t, database)
	write := func(do func(*store.Tx) (int64, error)) {
		t.Helper()
		err := other.Store().Write(t.Context(), "ada", func(t *store.Tx) error { _, err := do(t); return err })
		if err != nil {
			t.Fatal(err)
		}
	}
	add := func(project, text string, arguments ...prompt.Argument) func(*store.Tx) (int64, error) {
		return func(t *store.Tx) (int64, error) {
			return t.AddPrompt(project, &prompt.Prompt{Name: "review", Description: "Looks", Text: text, Arguments: arguments})
		}
	}
	publish := func(t *store.Tx) (int64, error) {
		return t.PublishPrompt("default", "review", 0, (*prompt.Prompt).CheckActive)
	}
	setProject(t, other, "shop", "mcpServers: {home: {url: \""+newWeb(t, true).web.URL+"/mcp\"}}\npolicy: [{match: \"project:prompts/prompt:r*\", who: {roles: [admin]}, do: deny}]\n")
	write(add("default", "Look at {{it}}", prompt.Argument{Name: "it", Values: []string{"this", "That", "other"}}))
	write(add("shop", "Theirs"))
	for _, path := range []string{"/mcp", "/p/shop/mcp"} {
		soon(t, path+" declares prompts", func() bool {
			return strings.Contains(s.post(path, initializeBody("2025-06-18", "{}")).body, `"prompts":{"listChanged":true}`)
		})
	}

	listen := func(path string) *stream {
		x := s.open(http.MethodPost, path, modernBody(`"l"`, "subscriptions/listen", `"notifications":{"promptsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
		if m := x.event(); m == nil || !strings.Contains(string(m.Raw), `"promptsListChanged":true`) {
			t.Fatalf("%s: %v", path, m)
		}
		return x
	}
	attached := func(path string) *stream {
		return s.open(http.MethodGet, path, "", "Mcp-Session-Id", s.initialize(path, "2025-11-25", "{}"), "MCP-Protocol-Version", "2025-11-25")
	}
	old := dialSSE(s.rig, "/sse")
	old.open()
	if _, err := io.WriteString(in, initializeBody("2025-11-25", "{}")+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-lines
	heard := map[string]<-chan *jsonrpc.Message{"modern": listen("/mcp").next, "legacy": attached("/mcp").next, "SSE": old.events.next, "stdio": lines}
	others := map[string]<-chan *jsonrpc.Message{"shop, modern": listen("/p/shop/mcp").next, "shop": attached("/p/shop/mcp").next, "single": attached("/s/home/mcp").next}
	hear := func(what string) {
		t.Helper()
		for name, next := range heard {
			for end := time.After(patience(5 * time.Second)); ; {
				select {
				case m := <-next:
					if m == nil || m.Method != mcp.NotePromptsChanged {
						continue
					}
				case <-end:
					t.Fatalf("%s: %s hears of no change", what, name)
				}
				break
			}
		}
		for name, next := range others {
			select {
			case m := <-next:
				t.Errorf("%s: %s gets %s", what, name, m.Raw)
			default:
			}
		}
	}
	ask := func(method, params string) string {
		t.Helper()
		in := []string{"Mcp-Session-Id", s.initialize("/mcp", "2025-06-18", "{}"), "MCP-Protocol-Version", "2025-06-18"}
		legacy := s.post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"`+method+`","params":{`+params+`}}`, in...)
		name := ""
		if method == "prompts/get" {
			name = "review"
		}
		modern := s.modern("/mcp", "2", method, name, params)
		a, b := legacy.message(t), modern.message(t)
		body := string(a.Result.Of(a.Raw)) + string(a.Error.Of(a.Raw))
		if got := string(b.Result.Of(b.Raw)) + string(b.Error.Of(b.Raw)); !strings.Contains(strings.ReplaceAll(got, `"resultType":"complete",`, ""), strings.Trim(body, "{}")) {
			t.Errorf("a modern client gets %s, and a legacy one %s", got, body)
		}
		return body
	}
	lists := func() bool { return strings.Contains(ask("prompts/list", ""), `"review"`) }
	gets := func() string { return ask("prompts/get", `"name":"review","arguments":{"it":"{{it}}"}`) }
	if lists() || !strings.Contains(gets(), "Unknown prompt: review") {
		t.Error("a prompt that isn't published is there")
	}

	write(publish)
	hear("published")
	if got, want := ask("prompts/list", ""), `{"name":"review","description":"Looks","arguments":[{"name":"it","required":true}]}`; !strings.Contains(got, want) {
		t.Errorf("the list is %s", got)
	}
	if got, want := gets(), `{"description":"Looks","messages":[{"role":"user","content":{"type":"text","text":"Look at {{it}}"}}]}`; got != want {
		t.Errorf("got %s", got)
	}
	if got := ask("prompts/get", `"name":"review"`); !strings.Contains(got, `"code":-32602`) || !strings.Contains(got, "the prompt review needs the argument it") {
		t.Errorf("without its argument: %s", got)
	}
	if got := ask("prompts/get", `"name":"review","arguments":{"it":7}`); !strings.Contains(got, "the argument it must be a string") {
		t.Errorf("with a number: %s", got)
	}
	if got, want := ask("completion/complete", `"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"it","value":"th"}`), `{"completion":{"values":["this","That"],"total":2,"hasMore":false}}`; got != want {
		t.Errorf("completed to %s", got)
	}
	if got := ask("completion/complete", `"ref":{"type":"ref/prompt","name":"review"},"argument":{"name":"at","value":""}`); !strings.Contains(got, "has no argument at") {
		t.Errorf("completed to %s", got)
	}

	time.Sleep(time.Second) // clients hear of one change a second
	write(add("default", "Look."))
	write(publish)
	hear("published again")
	write(func(t *store.Tx) (int64, error) {
		return t.ActivatePrompt("default", "review", (*prompt.Prompt).CheckActive)
	})
	instructions := func(path, want string) func() bool {
		return func() bool {
			return strings.Contains(s.post(path, initializeBody("2025-06-18", "{}")).body, `"instructions":"`+want+`"`) && strings.Contains(s.modern(path, "1", "server/discover", "", "").body, `"instructions":"`+want+`"`)
		}
	}
	soon(t, "the instructions", instructions("/mcp", `Looks\n\nLook.`))
	if !instructions("/p/shop/mcp", "")() || !strings.Contains(gets(), `"text":"Look."`) {
		t.Error("another project has the instructions, or the prompt is another one")
	}
	time.Sleep(time.Second)
	write(func(t *store.Tx) (int64, error) { _, err := t.PutOffPrompt("default", "review"); return 0, err })
	hear("put off")
	if lists() || !strings.Contains(gets(), "Unknown prompt: review") || !instructions("/mcp", "")() {
		t.Error("a prompt that was put off is still there")
	}

	// In shop, a rule denies it: whoever needs no key has all roles.
	write(func(t *store.Tx) (int64, error) {
		_, _ = t.PublishPrompt("shop", "review", 0, (*prompt.Prompt).CheckActive)
		return t.ActivatePrompt("shop", "review", (*prompt.Prompt).CheckActive)
	})
	soon(t, "shop's instructions", instructions("/p/shop/mcp", `Looks\n\nTheirs`))
	if a := s.modern("/p/shop/mcp", "1", "prompts/list", "", ""); strings.Contains(a.body, "review") {
		t.Errorf("the rule denies nothing: %s", a.body)
	}
	if a := s.modern("/p/shop/mcp", "1", "prompts/get", "review", `"name":"review"`); !strings.Contains(a.body, "Unknown prompt") {
		t.Errorf("the rule denies nothing: %s", a.body)
	}

	for _, suffix := range []string{"", "-wal"} {
		if err := os.WriteFile(database+suffix, bytes.Repeat([]byte("broken"), 10_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // serve has looked for changes meanwhile
	if !instructions("/p/shop/mcp", `Looks\n\nTheirs`)() || !instructions("/mcp", "")() {
		t.Error("without the database, the instructions are others")
	}
}
