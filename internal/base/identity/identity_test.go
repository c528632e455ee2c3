package identity

import (
	"slices"
	"testing"
)

// TestKey checks that the key is "" for a caller that has not authenticated.
func TestKey(t *testing.T) {
	for name, p := range map[string]*Principal{"nil": nil, "Local": Local, "zero": {}} {
		if p.Key() != "" || p.SeatKey() != "" {
			t.Errorf("%s: %q, %q", name, p.Key(), p.SeatKey())
		}
	}
	p := &Principal{Subject: "p:1", Seat: "p:1/k:2"}
	if p.Key() != "p:1" || p.SeatKey() != "p:1/k:2" {
		t.Errorf("%q, %q", p.Key(), p.SeatKey())
	}
	// An authenticated caller with the name local is not Local.
	if p := (&Principal{Subject: "local", Seat: "local"}); p.Key() != "local" || p.SeatKey() != "local" {
		t.Errorf("%q, %q", p.Key(), p.SeatKey())
	}
}

// TestRoles checks which role includes which: Caller stands alone, and no role includes nothing.
func TestRoles(t *testing.T) {
	for have, want := range map[Role][]Role{0: nil, Caller: {Caller}, Viewer: {Viewer}, Operator: {Viewer, Operator}, Admin: {Viewer, Operator, Admin}} {
		for _, least := range []Role{0, Caller, Viewer, Operator, Admin} {
			if got := have.Includes(least); got != slices.Contains(want, least) {
				t.Errorf("%s includes %s: %t", have, least, got)
			}
		}
	}
}
