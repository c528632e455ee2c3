//go:build unix

package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// servePage starts a modern server over HTTP with one page, which says the server's name.
func servePage(t *testing.T, name, page string) (url string) {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Scan(body, jsonrpc.Limits{Bytes: len(body) + 1})
		if err != nil || m.Kind != jsonrpc.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		const cache = `"resultType":"complete","ttlMs":0,"cacheScope":"private"`
		result := "{" + cache + "}"
		switch m.Method {
		case mcp.MethodDiscover:
			result = `{` + cache + `,"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{}}}`
		case mcp.MethodListTools:
			result = fmt.Sprintf(`{%s,"tools":[{"name":"t","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":%q}}}]}`, cache, page)
		case mcp.MethodCallTool:
			result = fmt.Sprintf(`{%s,"content":[{"type":"text","text":"I am %s"}]}`, cache, name)
		case mcp.MethodReadResource:
			uri, _ := jsonrpc.Text(m.Raw, m.Param("uri"))
			if got := r.Header.Get("Mcp-Name"); got != uri {
				t.Errorf("%s: the header names %s, and the body %s", name, got, uri)
			}
			result = fmt.Sprintf(`{%s,"contents":[{"uri":%q,"text":"I am %s"}]}`, cache, uri, name)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// TestSharedURIsAfterReload adds a server to the file, in front of one that has the same URI. The
// URIs that clients know keep their servers.
func TestSharedURIsAfterReload(t *testing.T) {
	urls := map[string]string{"first": servePage(t, "first", "ui://same"), "second": servePage(t, "second", "ui://same"), "third": servePage(t, "third", "ui://other")}
	file := func(names ...string) string {
		out := "mcpServers:\n"
		for _, name := range names {
			out += fmt.Sprintf("  %s: {url: %q}\n", name, urls[name])
		}
		return out
	}
	reads := func(w *fileDaemon, uri, name string) {
		t.Helper()
		a := w.modern("/mcp", "1", "resources/read", uri, `"uri":"`+uri+`"`)
		if !strings.Contains(a.body, "I am "+name) || !strings.Contains(a.body, `"uri":"`+uri+`"`) {
			t.Errorf("%s: %s", uri, a.body)
		}
	}
	w := serveFile(t, file("second", "third"))
	w.modern("/mcp", "1", "tools/list", "", "")
	reads(w, "ui://same", "second")
	w.write(t, file("first", "second", "third"))
	w.waitLog(t, "configuration applied", 1)
	list := w.modern("/mcp", "1", "tools/list", "", "").body
	for _, uri := range []string{"ui://dragoman-first/same", "ui://same", "ui://other"} {
		if !strings.Contains(list, `"resourceUri":"`+uri+`"`) {
			t.Errorf("the tools are %s, want the page %s", list, uri)
		}
	}
	reads(w, "ui://same", "second")
	reads(w, "ui://dragoman-first/same", "first")
	reads(w, "ui://other", "third")
	// Without the second server, the first one may keep the URI. The other form still leads to it.
	w.write(t, file("first", "third"))
	w.waitLog(t, "configuration applied", 2)
	w.modern("/mcp", "1", "tools/list", "", "")
	reads(w, "ui://same", "first")
	if a := w.modern("/mcp", "1", "resources/read", "ui://dragoman-first/same", `"uri":"ui://dragoman-first/same"`); !strings.Contains(a.body, "I am first") {
		t.Errorf("got %s", a.body)
	}
	if a := w.modern("/mcp", "1", "resources/read", "ui://dragoman-second/same", `"uri":"ui://dragoman-second/same"`); a.code(t) != -32602 {
		t.Errorf("the page of a removed server: %s", a.body)
	}
}

// TestNamesAfterReload adds a server to the file, in front of one that has a tool with the same name and
// no prefix either. The tool stays with its server.
func TestNamesAfterReload(t *testing.T) {
	urls := map[string]string{"first": servePage(t, "first", "ui://a"), "second": servePage(t, "second", "ui://b")}
	file := func(names ...string) string {
		servers, settings := "mcpServers:\n", "dragoman:\n  servers:\n"
		for _, name := range names {
			servers += fmt.Sprintf("  %s: {url: %q}\n", name, urls[name])
			settings += fmt.Sprintf("    %s: {prefix: none}\n", name)
		}
		return servers + settings
	}
	w := serveFile(t, file("second"))
	calls := func() {
		t.Helper()
		w.modern("/mcp", "1", "tools/list", "", "")
		if a := w.modern("/mcp", "1", "tools/call", "t", `"name":"t","arguments":{}`); !strings.Contains(a.body, "I am second") {
			t.Errorf("t: %s", a.body)
		}
	}
	calls()
	w.write(t, file("first", "second"))
	w.waitLog(t, "configuration applied", 1)
	calls()
}
