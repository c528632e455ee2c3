package access

import (
	"slices"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestRoles checks that a key has its role in its own project only, and none when it has expired or was revoked,
// whatever else it is called.
func TestRoles(t *testing.T) {
	g, now := NewGate(false), time.Now()
	viewer, past := Key{ID: NewID(), Project: "shop", Role: identity.Viewer}, Key{ID: NewID(), Project: "shop", Role: identity.Admin, Until: now}
	adas := Key{ID: NewID(), Project: "shop", Owner: "local", Role: identity.Caller, Until: now.Add(time.Hour)}
	g.Use(NewKeys(MACKey(NewSecret()), []Key{viewer, past, adas}))
	who := func(k *Key) *identity.Principal {
		return &identity.Principal{Subject: "k:" + k.ID.String(), Seat: "k:" + k.ID.String(), Via: "key"}
	}
	for name, c := range map[string]struct {
		who     *identity.Principal
		project string
		want    []identity.Role
	}{
		"its project":             {who(&viewer), "shop", []identity.Role{identity.Viewer}},
		"another project":         {who(&viewer), "default", nil},
		"expired":                 {who(&past), "shop", nil},
		"a key of the local user": {who(&adas), "shop", []identity.Role{identity.Caller}},
		"revoked":                 {who(&Key{ID: NewID()}), "shop", nil},
		"nobody":                  {nil, "shop", nil},
		"local":                   {identity.Local, "shop", []identity.Role{identity.Caller, identity.Admin}},
		"somebody called local":   {&identity.Principal{Subject: "local", Seat: "local", Via: "none"}, "shop", nil},
	} {
		if got := g.Roles(c.who, c.project); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestVisitor checks that only a key makes a visitor, also at an open gate, where the sender of any request is
// the local user for Principal.
func TestVisitor(t *testing.T) {
	const own = "the-key-of-this-process"
	for _, open := range []bool{false, true} {
		for _, mine := range []string{"", own} {
			r := newRig(open)
			r.gate.Own(mine)
			stray := map[bool]int{true: 401, false: 0}[mine == ""]
			for name, c := range map[string]struct {
				headers []string
				target  string
				want    int // 0 is no visitor, and no error
			}{
				"nothing":      {nil, "/api/v1/keys", 0},
				"a key":        {[]string{"Authorization", "Bearer " + r.good}, "/api/v1/keys", 200},
				"X-API-Key":    {[]string{"X-API-Key", r.adas}, "/api/v1/keys", 200},
				"expired":      {[]string{"X-API-Key", r.expired}, "/api/v1/keys", 401},
				"two":          {[]string{"X-API-Key", r.good, "Authorization", "Bearer " + r.good}, "/api/v1/keys", 400},
				"in the query": {nil, "/api/v1/keys?key=" + r.good, 401},
				"basic":        {[]string{"Authorization", "Basic ZHJhZ29tYW46eA=="}, "/api/v1/keys", 0},
				"another text": {[]string{"Authorization", "Bearer " + own}, "/api/v1/keys", stray},
				"a cookie":     {[]string{"Cookie", "key=" + r.good}, "/api/v1/keys", 0},
			} {
				who, err := r.gate.Visitor(request(c.target, c.headers...))
				got := status(err)
				if err == nil && who == nil {
					got = 0
				}
				if got != c.want || who == identity.Local {
					t.Errorf("open %t, own key %q, %s: %d, %v, want %d", open, mine, name, got, who, c.want)
				}
			}
		}
	}
}
