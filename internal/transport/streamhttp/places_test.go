package streamhttp

import (
	"strings"
	"testing"
)

// twoPlaces is a Places in which the ids of this process begin with "here-". In an id of another
// process, the part before the dash names the process.
type twoPlaces struct{}

func (twoPlaces) Mark(id string) string { return "here-" + id }

func (twoPlaces) Of(id string) string {
	if home, _, ok := strings.Cut(id, "-"); ok && home != "here" {
		return home
	}
	return ""
}

// TestPlaces checks that a session id begins with the mark of its process. An id with the mark of
// another process gets status 404.
func TestPlaces(t *testing.T) {
	d := open(t, &hall{}, func(o *Options) { o.Places = twoPlaces{} })
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
