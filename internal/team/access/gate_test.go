package access

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// rig is a gate with a few keys.
type rig struct {
	gate                                       *Gate
	good, adas, expired, rotated, before, past string
	foreign                                    string // its sum was made with another MAC key
}

func newRig(open bool) *rig {
	mac, other, r := MACKey(NewSecret()), MACKey(NewSecret()), &rig{gate: NewGate(open)}
	var list []Key
	add := func(k Key, mac *MACKey, old bool) (text, before string) {
		s, was := NewSecret(), NewSecret()
		k.ID, k.Sum = NewID(), mac.Sum(&s)
		if old {
			k.OldSum = mac.Sum(&was)
		}
		list = append(list, k)
		return Text(k.ID, s), Text(k.ID, was)
	}
	now := time.Now()
	r.good, _ = add(Key{}, &mac, false)
	r.adas, _ = add(Key{Owner: "p:ada", Until: now.Add(time.Hour)}, &mac, false)
	r.expired, _ = add(Key{Until: now}, &mac, false)
	r.rotated, r.before = add(Key{OldUntil: now.Add(time.Hour)}, &mac, true)
	_, r.past = add(Key{OldUntil: now}, &mac, true)
	r.foreign, _ = add(Key{}, &other, false)
	r.gate.Use(NewKeys(mac, list))
	return r
}

func request(target string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func status(err error) int {
	var d *httpdoor.Denied
	switch {
	case err == nil:
		return http.StatusOK
	case !errors.As(err, &d):
		return 0
	case d.Status == 0:
		return http.StatusUnauthorized
	}
	return d.Status
}

// TestGate checks who is let in with which headers, at an address that needs a key and at an open one.
func TestGate(t *testing.T) {
	r, open := newRig(false), newRig(true)
	for _, c := range []struct {
		name       string
		headers    func(r *rig) []string
		want, free int // the status at an address that needs a key, and at an open one
	}{
		{"nothing", func(*rig) []string { return nil }, 401, 200},
		{"a key", func(r *rig) []string { return []string{"Authorization", "Bearer " + r.good} }, 200, 200},
		{"a key in small letters", func(r *rig) []string { return []string{"Authorization", "bearer  " + r.good} }, 200, 200},
		{"X-API-Key", func(r *rig) []string { return []string{"X-API-Key", r.good} }, 200, 200},
		{"a key of ada", func(r *rig) []string { return []string{"X-API-Key", r.adas} }, 200, 200},
		{"expired", func(r *rig) []string { return []string{"X-API-Key", r.expired} }, 401, 401},
		{"rotated", func(r *rig) []string { return []string{"X-API-Key", r.rotated} }, 200, 200},
		{"before the rotation", func(r *rig) []string { return []string{"X-API-Key", r.before} }, 200, 200},
		{"after the overlap", func(r *rig) []string { return []string{"X-API-Key", r.past} }, 401, 401},
		{"a row of somebody else", func(r *rig) []string { return []string{"X-API-Key", r.foreign} }, 401, 401},
		{"unknown", func(*rig) []string { return []string{"X-API-Key", Text(NewID(), NewSecret())} }, 401, 401},
		{"another secret", func(r *rig) []string {
			id, _, _ := parse(mark, r.good)
			return []string{"X-API-Key", Text(id, NewSecret())}
		}, 401, 401},
		{"cut", func(r *rig) []string { return []string{"X-API-Key", r.good[:60]} }, 401, 401},
		{"another bearer token", func(*rig) []string { return []string{"Authorization", "Bearer abc"} }, 401, 200},
		{"basic", func(r *rig) []string { return []string{"Authorization", "Basic " + r.good} }, 401, 200},
		{"no token", func(*rig) []string { return []string{"Authorization", "Bearer "} }, 400, 200},
		{"both headers", func(r *rig) []string { return []string{"Authorization", "Bearer " + r.good, "X-API-Key", r.good} }, 400, 400},
		{"two of one", func(r *rig) []string { return []string{"X-API-Key", r.good, "X-API-Key", r.good} }, 400, 400},
		{"spoofed", func(*rig) []string { return []string{"X-Forwarded-User", "admin", "X-Remote-User", "local"} }, 401, 200},
	} {
		if who, err := r.gate.Principal(request("/mcp", c.headers(r)...)); status(err) != c.want || (who == nil) != (err != nil) || who == identity.Local {
			t.Errorf("%s: %v, %v", c.name, who, err)
		}
		if who, err := open.gate.Principal(request("/mcp", c.headers(open)...)); status(err) != c.free || (who == nil) != (err != nil) {
			t.Errorf("%s, open: %v, %v", c.name, who, err)
		}
	}
}

// TestOwn checks that the key of the process lets in the local user at an address that needs keys, and that
// an empty one lets in nobody.
func TestOwn(t *testing.T) {
	g := NewGate(false)
	for _, headers := range [][]string{{"Authorization", "Bearer own"}, {"Authorization", "Bearer "}, {"X-API-Key", ""}} {
		if who, err := g.Principal(request("/mcp", headers...)); err == nil {
			t.Errorf("without a key of the process, %q is %v", headers, who)
		}
	}
	g.Own("own")
	if who, err := g.Principal(request("/mcp", "Authorization", "Bearer own")); who != identity.Local || err != nil {
		t.Errorf("the user of the process is %v, %v", who, err)
	}
	if who, err := g.Principal(request("/mcp", "Authorization", "Bearer owN")); err == nil {
		t.Errorf("another one is %v", who)
	}
}

// TestWho checks the principals of keys: a person's key acts as the person, and each key has a seat of
// its own, also after a rotation.
func TestWho(t *testing.T) {
	r := newRig(false)
	of := func(text string) *identity.Principal {
		who, err := r.gate.Principal(request("/mcp", "X-API-Key", text))
		if err != nil {
			t.Fatal(err)
		}
		if k := r.gate.Keys().Of(who); k == nil || who.Seat != "k:"+k.ID.String() {
			t.Errorf("%v has the key %v", who, k)
		}
		return who
	}
	if who := of(r.adas); who.Subject != "p:ada" || who.Until.IsZero() {
		t.Errorf("ada's key is %v", who)
	}
	if who := of(r.good); who.Subject != who.Seat {
		t.Errorf("a service is %v", who)
	}
	if of(r.rotated) != of(r.before) {
		t.Error("another principal after the rotation")
	}
	for _, who := range []*identity.Principal{nil, identity.Local, {Seat: of(r.good).Seat}, {Via: "key", Seat: "k:"}, {Via: "key", Seat: "k:0123456789ab"}} {
		if k := r.gate.Keys().Of(who); k != nil {
			t.Errorf("%v has the key %s", who, k.ID)
		}
	}
	good := of(r.good)
	r.gate.Use(&Keys{})
	if _, err := r.gate.Principal(request("/mcp", "X-API-Key", r.good)); status(err) != 401 || r.gate.Keys().Of(good) != nil {
		t.Errorf("after all keys were revoked: %v", err)
	}
}

// TestTA03_H17_KeyInTheURL checks that a key in the URL opens nothing and is gone from the request.
func TestTA03_H17_KeyInTheURL(t *testing.T) {
	for _, open := range []bool{false, true} {
		r := newRig(open)
		for _, query := range []string{"key=" + r.good, r.good, "a=1&" + r.good + "=", "x=dr%67k_" + r.good[5:], "x;y=" + r.good, "a=%zz&k=" + r.good, "a=%zz%64rgk_" + r.good[5:], "x;y=%64rgk%5F" + r.good[5:], "%%64rgk_" + r.good[5:], "a=%&b=%4&%64%72%67%6b%5f" + r.good[5:] + "%"} {
			req := request("/mcp?"+query, "X-API-Key", r.good)
			if _, err := r.gate.Principal(req); status(err) != 401 {
				t.Errorf("%s: %v", query, err)
			}
			if left := req.URL.String() + req.RequestURI; strings.Contains(left, r.good[5:]) {
				t.Errorf("%s: left %s", query, left)
			}
		}
		if _, err := r.gate.Principal(request("/mcp?a=%41&b=%zz%6&c=%", "X-API-Key", r.good)); err != nil {
			t.Errorf("another query: %v", err)
		}
	}
}

// TestTA07Guessing checks that the eleventh wrong key of an address within a minute gets 429, that an
// innocent client at the same address is not hurt, and that other addresses are not.
func TestTA07Guessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(false)
		ask := func(addr, key string) error {
			req := request("/mcp", "X-API-Key", key)
			req.RemoteAddr = addr
			_, err := r.gate.Principal(req)
			return err
		}
		for i := range 30 {
			want := 401
			if i >= triesPerMinute {
				want = 429
			}
			if err := ask("[2001:db8::1]:1", Text(NewID(), NewSecret())); status(err) != want {
				t.Errorf("try %d: %v", i+1, err)
			}
			if err := ask("[2001:db8::1]:2", r.good); err != nil {
				t.Errorf("try %d, innocent: %v", i+1, err)
			}
		}
		var d *httpdoor.Denied
		if err := ask("[2001:db8::ffff]:1", "x"); !errors.As(err, &d) || d.Status != 429 || d.RetryAfter <= 0 || d.RetryAfter > time.Minute {
			t.Errorf("another address of the same network: %v", err)
		}
		if err := ask("[2001:db8:0:1::1]:1", "x"); status(err) != 401 {
			t.Errorf("another network: %v", err)
		}
		time.Sleep(time.Minute)
		if err := ask("[2001:db8::1]:1", "x"); status(err) != 401 {
			t.Errorf("a minute later: %v", err)
		}
	})
}

// FuzzTA02Credentials sends any headers. Who has no key is nobody.
func FuzzTA02Credentials(f *testing.F) {
	r := newRig(false)
	f.Add("Bearer abc", "", "")
	f.Add("Bearer "+r.expired, "", "key=1")
	f.Add("Basic bG9jYWw6", r.good[:20], "drgk_")
	f.Fuzz(func(t *testing.T, auth, key, query string) {
		req := request("/mcp")
		req.RemoteAddr = "127.0.0.1:1"
		req.URL.RawQuery = query
		if auth != "" {
			req.Header["Authorization"] = []string{auth}
		}
		if key != "" {
			req.Header["X-Api-Key"] = []string{key}
		}
		if who, err := r.gate.Principal(req); who != nil || err == nil {
			t.Errorf("%q, %q, %q is %v", auth, key, query, who)
		}
	})
}

// TestTA02_TM04_NobodyIsNeverSomebody sends credentials of all shapes, in all headers and in pairs, to a gate that wants
// one: each is refused, or is the key of somebody who has it. Nobody becomes the local user, or gets a role, because
// a credential is missing, malformed or almost right.
func TestTA02_TM04_NobodyIsNeverSomebody(t *testing.T) {
	r := newRig(false)
	r.gate.Own("the-key-of-the-process-0123456789")
	good, err := r.gate.Principal(request("/mcp", "X-API-Key", r.good))
	if err != nil {
		t.Fatal(err)
	}
	words := []string{
		"", " ", "Bearer", "bearer ", "Bearer  ", "Basic YTpi", "Basic Og==", "Negotiate x", "Bearer null", "Bearer undefined", "Bearer local", "Bearer anonymous", "Bearer admin", "local", "p:ada", "k:0123456789ab",
		"Bearer drgk_", "Bearer drgk__", "Bearer " + r.good[:len(r.good)-1], "Bearer " + r.good + "A", "Bearer " + strings.ToUpper(r.good), "Bearer " + r.good + " " + r.good, "Bearer " + r.good + ",Bearer " + r.good,
		"Bearer " + r.expired, "Bearer " + r.past, "Bearer " + r.foreign, "Bearer the-key-of-the-process-012345678", "the-key-of-the-process-0123456789x", "Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer " + strings.Repeat("x", 1<<16), "Bearer \x00", "Bearer \xff",
		"Bearer ${DRAGOMAN_KEY}", "Token " + r.good, r.good[:30] + "AAAA" + r.good[34:],
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 { // a right key with one wrong character
		at := len("drgk_") + random.IntN(len(r.good)-len("drgk_"))
		if c := "ABCxyz019-_."[random.IntN(12)]; c != r.good[at] {
			words = append(words, "Bearer "+r.good[:at]+string(c)+r.good[at+1:])
		}
	}
	for _, word := range words {
		for _, header := range [][]string{
			{"Authorization", word}, {"X-API-Key", strings.TrimPrefix(word, "Bearer ")}, {"Cookie", "dragoman_console_7300=" + strings.TrimPrefix(word, "Bearer ")}, {"Proxy-Authorization", word}, {"X-Forwarded-User", "local"}, {"X_Api_Key", r.good},
			{"Authorization", word, "X-API-Key", r.good}, {"Authorization", word, "Authorization", "Bearer " + r.good}, {"X-API-Key", r.good, "X-API-Key", strings.TrimPrefix(word, "Bearer ")},
		} {
			who, err := r.gate.Principal(request("/mcp", header...))
			switch {
			case err == nil && who != good:
				t.Errorf("%q: %+v came in", header, who)
			case err == nil && (!slices.Contains(header, r.good) || header[0] == "X_Api_Key"):
				t.Errorf("%q: came in without the key", header)
			case err != nil && who != nil:
				t.Errorf("%q: refused, and still %+v", header, who)
			}
			if visitor, err := r.gate.Visitor(request("/api/v1/status", header...)); visitor == identity.Local || err == nil && visitor != nil && visitor != good {
				t.Errorf("%q: the API takes nobody for %+v", header, visitor)
			}
		}
	}
	for _, who := range []*identity.Principal{nil, {}, {Subject: "local", Seat: "local"}, {Subject: "local", Seat: "local", Via: "none"}, {Subject: "k:none", Seat: "k:none", Via: "key"}, {Subject: "p:ada", Seat: "s:none", Via: "link"}} {
		if roles := r.gate.Roles(who, "default"); len(roles) > 0 {
			t.Errorf("%+v has %v", who, roles)
		}
		if _, ok := r.gate.Reach(who, "default"); ok {
			t.Errorf("%+v reaches the servers", who)
		}
	}
	if who, err := r.gate.Principal(request("/mcp", "X-API-Key", r.good)); err != nil || who != good {
		t.Errorf("the innocent client is out: %v", err)
	}
}
