package streamhttp

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// TestPlaces checks that a session id begins with the mark of its process. An id with the mark of
// another process gets status 404.
func TestPlaces(t *testing.T) {
	d := open(t, &hall{}, func(o *Options) { o.Places = pipetest.Here{} })
	id := d.initialize("2025-11-25")
	if !strings.HasPrefix(id, "Mcp-Session-Id: here-") || len(id) != len("Mcp-Session-Id: here-")+32 {
		t.Errorf("the session is %s", id)
	}
	d.post(call("1"), id).want(t, 200, 0)
	elsewhere := strings.Replace(id, "here-", "there-", 1)
	d.post(call("1"), elsewhere).want(t, 404, -32600)
	d.do("DELETE", "", elsewhere).want(t, 404, -32600)
	d.post(call("1"), id).want(t, 200, 0)
}
