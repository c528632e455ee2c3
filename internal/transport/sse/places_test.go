package sse

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

// The id of a stream carries the mark of its place. A stream that lives elsewhere is not
// found, even if its id is known here.
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
