//go:build unix

package daemon

import (
	"net/http/httptest"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestHalfOfACharacterOverAllLinks sends arguments with an escaped half of a surrogate pair, which
// JSON allows. Over every HTTP transport of clients and every transport of servers, the server gets
// the arguments without changes.
func TestHalfOfACharacterOverAllLinks(t *testing.T) {
	t.Parallel()
	old := &oldWeb{streams: map[string]chan []byte{}}
	web := httptest.NewServer(old)
	defer web.Close()
	sse, problem := config.Complete(config.Server{Name: "oldsse", URL: web.URL + "/sse", Kind: config.KindSSE})
	if problem != nil {
		t.Fatal(problem)
	}
	r := serve(t, snapshot(child(t, "oldpipe", "legacy"), child(t, "newpipe", "modern"),
		newWeb(t, false).as(t, "oldweb"), newWeb(t, true).as(t, "newweb"), &upstreamUnderTest{Server: sse}))
	defer func() { _ = r.stop() }() // stop Dragoman before web, because web.Close waits until Dragoman's streams end
	const args = `{"v":"cut \ud83d","\uDE00":1}`
	session := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-11-25", "{}")}
	c := dialSSE(r, "/sse")
	c.open()
	for _, server := range []string{"oldpipe", "newpipe", "oldweb", "newweb", "oldsse"} {
		tool := server + "__echo"
		r.call("/mcp", tool, args).wantText(t, args)
		r.post("/mcp", toolCall("5", tool, args), session...).wantText(t, args)
		c.send(toolCall("6", tool, args))
		if got := toolText(c.answerTo("6")); got != args {
			t.Errorf("%s over HTTP+SSE: %q", server, got)
		}
	}
}
