package streamhttp

import (
	"strings"
	"testing"
)

// twoPlaces marks ids that live here with "here-", and finds others at the name before the
// dash.
type twoPlaces struct{}

func (twoPlaces) Mark(id string) string { return "here-" + id }

func (twoPlaces) Of(id string) string {
	if home, _, ok := strings.Cut(id, "-"); ok && home != "here" {
		return home
	}
	return ""
}

// A session id carries the mark of its place. A session that lives elsewhere is not found,
// even if its id is known here.
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
