package sse

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// TestPlaces checks that the id of a stream has the mark of its process. A stream of another
// process is not found, even if this process has a stream with that id.
func TestPlaces(t *testing.T) {
	d := newDoor(t, &hall{}, func(o *Options) { o.Places = pipetest.Here{} })
	f := d.connect()
	defer f.close()
	if !strings.Contains(f.path, "sessionId=here-") {
		t.Errorf("the path is %s", f.path)
	}
	f.callGood()
	status, body, _ := d.do("POST", strings.Replace(f.path, "here-", "there-", 1), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if status != 404 || !strings.Contains(body, "session not found") {
		t.Errorf("%d %s", status, body)
	}
	f.callGood()
}
