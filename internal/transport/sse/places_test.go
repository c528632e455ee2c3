package sse

import (
	"strings"
	"testing"
)

// twoPlaces marks the ids of this process with "here-". For other ids, the home is the part
// before the dash.
type twoPlaces struct{}

func (twoPlaces) Mark(id string) string { return "here-" + id }

func (twoPlaces) Of(id string) string {
	if home, _, ok := strings.Cut(id, "-"); ok && home != "here" {
		return home
	}
	return ""
}

// TestPlaces checks that the id of a stream has the mark of its process. A stream of another
// process is not found, even if this process has a stream with that id.
func TestPlaces(t *testing.T) {
	d := newDoor(t, &hall{}, func(o *Options) { o.Places = twoPlaces{} })
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
