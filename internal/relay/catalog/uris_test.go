package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// wantShown checks the URIs that clients see for the URIs of servers, in this order. Each line has the
// server, its URI and the URI that clients see, or "=" if it is the same.
func wantShown(t *testing.T, o *URIs, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		want := f[2]
		if want == "=" {
			want = f[1]
		}
		if got := o.show(f[0], f[1], true); got != want {
			t.Errorf("clients see %s of %s as %s, want %s", f[1], f[0], got, want)
		}
	}
}

func TestURIs(t *testing.T) {
	for name, lines := range map[string]string{
		"the first keeps it": `
			a ui://page/x =
			b ui://page/x ui://dragoman-b/page/x
			c ui://page/y =
			a ui://page/x =
			b ui://page/x ui://dragoman-b/page/x`,
		"other schemes": `
			a file:///x =
			b file:///x =
			b UI://x =`,
		"odd forms": `
			a ui:// =
			b ui:// ui://dragoman-b/
			a ui:///x =
			b ui:///x ui://dragoman-b//x`,
		// A server cannot choose the URI that clients see for another one.
		"a thief of the marked form": `
			a ui://x =
			thief ui://dragoman-b/x ui://dragoman-thief/dragoman-b/x
			thief ui://DRAGOMAN-b/x ui://dragoman-thief/DRAGOMAN-b/x
			thief skill://dragoman-b/s/SKILL.md skill://dragoman-thief/dragoman-b/s/SKILL.md
			b ui://x ui://dragoman-b/x`,
		"a skill with its files": `
			a skill://refunds/SKILL.md =
			b skill://refunds/SKILL.md skill://dragoman-b/refunds/SKILL.md
			b skill://refunds/only-b.md skill://dragoman-b/refunds/only-b.md
			b skill://refunds skill://dragoman-b/refunds
			a skill://refunds =
			a skill://refunds/guide/x.md =
			c skill://refundsX/SKILL.md =
			c skill://org/refunds/SKILL.md =`,
		// b already has a file in the folder of a's skill, so the whole skill of a changes.
		"a file in another's skill": `
			b skill://refunds/guide/x.md =
			a skill://refunds/SKILL.md skill://dragoman-a/refunds/SKILL.md
			a skill://refunds/other.md skill://dragoman-a/refunds/other.md
			b skill://refunds/guide/x.md =
			b skill://refunds/SKILL.md =`,
		"nested skills": `
			a skill://acme/billing/refunds/SKILL.md =
			b skill://acme/support/SKILL.md =
			c skill://acme/SKILL.md skill://dragoman-c/acme/SKILL.md
			c skill://acme/billing/refunds/SKILL.md skill://dragoman-c/acme/billing/refunds/SKILL.md
			b skill://acme/billing/refunds/deep/SKILL.md skill://dragoman-b/acme/billing/refunds/deep/SKILL.md
			a skill://acme/billing/refunds/deep/SKILL.md =`,
		"templates": `
			a ui://w/{city} =
			b ui://w/{city} ui://dragoman-b/w/{city}
			b ui://w/paris ui://dragoman-b/w/paris
			a ui://w/paris =
			b ui://v/paris =
			a skill://{name}/SKILL.md =
			b skill://{name}/SKILL.md skill://dragoman-b/{name}/SKILL.md
			b skill://mine/SKILL.md =
			c ui://{+all} =
			b ui://still/mine =`,
	} {
		t.Run(name, func(t *testing.T) { wantShown(t, &URIs{}, lines) })
	}
}

// TestURIsAreTakenBack checks that each URI which clients see leads to its server and its own URI.
func TestURIsAreTakenBack(t *testing.T) {
	all := []Source{&source{name: "a"}, &source{name: "b"}, &source{name: "b-c"}}
	for _, uri := range []string{"ui://x", "ui://x/y?z#w", "ui://", "ui:///x", "ui://dragoman-a/x", "ui://dragoman-", "ui://dragoman-b", "skill://s/SKILL.md", "ui://\u00e9 \"q\""} {
		o := &URIs{}
		seen := map[string]string{}
		for _, u := range all {
			shown := o.show(u.Name(), uri, true)
			if other := seen[shown]; other != "" {
				t.Errorf("clients see %s of %s and of %s as %s", uri, other, u.Name(), shown)
			}
			seen[shown] = u.Name()
			if server, inner, ok := own(shown, all); ok && (server != u || inner != uri) || !ok && (shown != uri || o.holder(uri) != u.Name()) {
				t.Errorf("%s of %s leads to %v, %s", shown, u.Name(), server, inner)
			}
		}
	}
}

// TestBoundsOfURIs lets one server name very many URIs. The other servers keep theirs.
func TestBoundsOfURIs(t *testing.T) {
	o := &URIs{}
	wantShown(t, o, "a ui://a/page =")
	last := ""
	for i := range 40_000 {
		last = fmt.Sprintf("ui://greedy/%032d", i)
		o.show("greedy", last, true)
	}
	if len(o.claims) > maxClaimed/32 || o.size["greedy"] > maxClaimed {
		t.Errorf("one server keeps %d URIs of %d bytes", len(o.claims), o.size["greedy"])
	}
	deep, long := "skill://"+strings.Repeat("x/", 100), "ui://"+strings.Repeat("x", maxClaimedURI)
	wantShown(t, o, `
		greedy ui://a/page ui://dragoman-greedy/a/page
		greedy `+last+` `+strings.Replace(last, "ui://", "ui://dragoman-greedy/", 1)+`
		b `+last+` =
		b ui://b/page =
		b `+deep+` skill://dragoman-b/`+deep[len("skill://"):]+`
		b `+long+` ui://dragoman-b/`+long[len("ui://"):])
	// A URI that is only shown is not kept.
	if o.show("b", "ui://free", false); o.show("a", "ui://free", true) != "ui://free" {
		t.Error("a server kept a URI that it did not offer")
	}
}

// TestRetain removes a server from the configuration.
func TestRetain(t *testing.T) {
	o := &URIs{}
	wantShown(t, o, `
		gone ui://x =
		gone skill://s/SKILL.md =
		b ui://w/paris =
		a ui://w/{city} =
		a skill://t/SKILL.md =
		b skill://t/SKILL.md skill://dragoman-b/t/SKILL.md`)
	o.Retain([]string{"a", "b"})
	wantShown(t, o, `
		b ui://x =
		b skill://s/SKILL.md =
		b skill://t/x skill://dragoman-b/t/x
		b ui://w/paris =
		b ui://w/rome ui://dragoman-b/w/rome
		a ui://x ui://dragoman-a/x`)
}
