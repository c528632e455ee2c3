package console

import (
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func init() {
	scenes["connect-none"], scenes["connect"], scenes["connect-hostile"] = scenes["empty"], scenes["pairs"], scenes["hostile"]
	for name, text := range map[string]string{"connect-keyed": "loopback: keys", "connect-own": "loopback: keys, signIn: own"} {
		scenes[name] = func() (s scene) {
			s.config = "mcpServers: {}\ndragoman: {access: {" + text + "}}\n"
			return s
		}
		pagesOf[name] = []string{"/connect", "/connect?with=key"}
	}
	pagesOf["connect-none"], pagesOf["connect-hostile"] = []string{"/connect"}, []string{"/connect?since=1", "/connect?server=" + url.QueryEscape(hostile)}
	pagesOf["connect"] = []string{"/connect?client=cursor", "/connect?client=claude&server=files&since=946684799000", "/connect?client=none&server=none&since=x"}
}

// codeOf returns the text of an element with an id, as a copy button copies it.
func codeOf(body, id string) string {
	_, rest, _ := strings.Cut(body, `<code id="`+id+`">`)
	rest, _, _ = strings.Cut(rest, "</code>")
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(rest, ""))
}

// TestSnippets checks that each client can read its snippet, and that Dragoman recognises the
// entry as its own.
func TestSnippets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "connect")
		for server, wants := range map[string][2]string{"": {"dragoman", "http://127.0.0.1:7300/mcp"}, "files": {"files", "http://127.0.0.1:7300/s/files/mcp"}} {
			_, body := h.ask("GET", "/console/connect?server="+server)
			for _, c := range clientfile.Clients() {
				name := "config.json"
				if c.ID == "codex" {
					name = "config.toml"
				}
				text := codeOf(body, "s-"+c.ID)
				root, err := clientfile.Parse(name, []byte(text))
				if err != nil {
					t.Errorf("%s: %v in %s", c.ID, err, text)
					continue
				}
				if got := clientfile.Connected(c, root, []string{"127.0.0.1:7300"}); len(got) != 1 || got[0] != wants[0] || !strings.Contains(text, wants[1]) {
					t.Errorf("%s: %q in %s", c.ID, got, text)
				}
				write := codeOf(body, "w-"+c.ID)
				if !strings.HasPrefix(write, "dragoman connect "+c.ID+" --url http://127.0.0.1:7300") || !strings.HasSuffix(write, " --write") || strings.Contains(write, "--server files") != (server != "") || codeOf(body, "p-"+c.ID)+" --write" != write {
					t.Errorf("%s: %s", c.ID, write)
				}
			}
		}
	})
}

// TestKeyOfSnippets looks at the snippets where clients need a key, and has one made. The snippets and commands name a
// variable or an input, and the key is in one response only.
func TestKeyOfSnippets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "connect-keyed")
		_, body := h.ask("GET", "/console/connect")
		for id, want := range map[string]string{
			"claude": `"X-API-Key=DRAGOMAN_KEY"`, "claude-code": `"Bearer ${DRAGOMAN_KEY}"`, "cursor": `"Bearer ${env:DRAGOMAN_KEY}"`, "vscode": `"Bearer ${input:dragoman-key}"`,
			"codex": `bearer_token_env_var = "DRAGOMAN_KEY"`, "gemini": `"Bearer ${DRAGOMAN_KEY}"`, "opencode": `"Bearer {env:DRAGOMAN_KEY}"`,
		} {
			if text := codeOf(body, "s-"+id); !strings.Contains(text, want) || strings.Contains(text, `"inputs"`) != (id == "vscode") {
				t.Errorf("%s: %s", id, text)
			}
			if text := codeOf(body, "w-"+id); !strings.HasSuffix(text, " --key-env DRAGOMAN_KEY --write") {
				t.Errorf("%s: %s", id, text)
			}
		}
		form := url.Values{"number": {numberField.FindStringSubmatch(body)[1]}, "name": {"laptop"}}
		resp, body := h.submit("/console/connect?client=cursor", form)
		if resp.StatusCode != 200 || codeOf(body, "own-key") != "drgk_the-text-of-made0" || strings.Count(body, "drgk_the-text") != 1 {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if resp, body := h.submit("/console/connect?client=cursor", form); resp.StatusCode != 409 || strings.Contains(body, "drgk_the-text") {
			t.Errorf("the form sent again: %d", resp.StatusCode)
		}
		if did := h.source.testTeam.acted; len(did) != 1 || !strings.HasPrefix(did[0], "local makes laptop ") || !strings.HasSuffix(did[0], "false") {
			t.Errorf("%q", did)
		}
		h.source.testTeam.bad = &admin.Problem{Status: 422, Title: "There can be no such key", Detail: "The name is too long."}
		form.Set("number", "ANOTHER")
		if resp, body := h.submit("/console/connect", form); resp.StatusCode != 422 || !strings.Contains(body, "The name is too long") {
			t.Errorf("a refused key: %d", resp.StatusCode)
		}
		h = stage(t, "connect-own")
		for query, want := range map[string]bool{"": true, "?with=sign-in": true, "?with=key": false} {
			_, body := h.ask("GET", "/console/connect"+query)
			if signs := strings.Contains(body, "choose the server, and then Authenticate"); signs != want || strings.Contains(codeOf(body, "s-cursor"), "DRAGOMAN_KEY") == want || strings.Contains(body, "Make a key") == want {
				t.Errorf("%q: %v %s", query, signs, codeOf(body, "s-cursor"))
			}
		}
	})
}

// TestArrival checks that the page shows a client that has connected after the page was opened,
// with and without loading the page again.
func TestArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &event.Publisher{}
		h := stageWith(t, "connect", p)
		_, body := h.ask("GET", "/console/connect?client=gemini")
		if !strings.Contains(body, `>Waiting for a new client.</span>`) || !strings.Contains(body, `data-waiting="waiting for a client"`) || !strings.Contains(body, `id="c-gemini" class="st idle">not connected yet<`) {
			t.Error("the page does not wait")
		}
		_, stream, _ := strings.Cut(body, `<body data-page="`)
		stream, _, _ = strings.Cut(stream, `"`)
		stream = html.UnescapeString(stream)
		patches := func() (text string) {
			values, _ := h.console.feeds.render(stream, viewer{role: identity.Admin})
			for _, x := range values {
				text += x.ID + "=" + x.Text + "\n"
			}
			return text
		}
		if got := patches(); !strings.Contains(got, "arrival=Waiting for a new client.") {
			t.Errorf("%s: %s", stream, got)
		}
		time.Sleep(time.Second)
		call(p, "AI SDK", "2.0.99", mcp.R20260728, "files", mcp.R20250618, event.OK, 8)
		if got := patches(); !strings.Contains(got, "arrival=Waiting for a new client.") {
			t.Errorf("a client that was there before: %s", got)
		}
		call(p, "gemini-cli-mcp-client", "0.9", mcp.R20250618, "files", mcp.R20250618, event.OK, 9)
		if got := patches(); !strings.Contains(got, "arrival=gemini-cli-mcp-client 0.9 connected at 00:00:01. It speaks 2025-06-18.") || !strings.Contains(got, "c-gemini=connected, 2025-06-18") {
			t.Errorf("%s: %s", stream, got)
		}
		if _, body := h.ask("GET", stream); !strings.Contains(body, "gemini-cli-mcp-client 0.9 connected") || !strings.Contains(body, `<a href="/console/clients/3">`) || strings.Contains(body, "data-waiting") {
			t.Error("the page that was loaded again does not say it")
		}
		if _, body := h.ask("GET", "/console/connect"); !strings.Contains(body, `>Waiting for a new client.</span>`) {
			t.Error("a page that is opened now does not wait")
		}
	})
}

// TestOpenedAt checks which times a page accepts as the time when it was opened.
func TestOpenedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for text, want := range map[string]time.Time{
			"": now, "x": now, "1": now, "-5": now, "9999999999999999999": now, "9223372036854775807": now,
			strconv.FormatInt(now.Add(time.Hour).UnixMilli(), 10): now, strconv.FormatInt(now.Add(-time.Hour).UnixMilli(), 10): now.Add(-time.Hour),
		} {
			if got := openedAt(text); !got.Equal(want) {
				t.Errorf("%q: %v", text, got)
			}
		}
	})
}

// TestIsClient checks that clients are recognised by the names that they give themselves.
func TestIsClient(t *testing.T) {
	for name, want := range map[string]string{
		"claude-ai": "claude", "claude-code": "claude-code", "Claude Code": "claude-code", "cursor-vscode": "cursor", "Visual Studio Code - Insiders": "vscode",
		"codex-mcp-client": "codex", "gemini-cli-mcp-client": "gemini", "opencode": "opencode", "": "", "my-cursor": "",
	} {
		got := ""
		for _, id := range clientfile.IDs() {
			if isClient(id, name) {
				got += id
			}
		}
		if got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
	if len(clientWords) != len(clientfile.IDs()) {
		t.Error("a client has no names")
	}
}

// TestKeyed says where clients need an API key.
func TestKeyed(t *testing.T) {
	var c config.Snapshot
	p := &connectPage{config: func() *config.Snapshot { return &c }}
	const here, away = "http://127.0.0.1:7300", "https://mcp.example.com"
	if p.keyed(here) || !p.keyed(away) {
		t.Error("by default, only clients of other machines need a key")
	}
	c.Access.LoopbackKeys = true
	if !p.keyed(here) {
		t.Error("loopback: keys")
	}
	c.AllowUnauthenticatedNetworkAccess = true
	if p.keyed(away) {
		t.Error("everybody is let in")
	}
}
