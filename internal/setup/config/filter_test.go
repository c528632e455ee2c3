package config

import (
	"slices"
	"testing"
)

func TestFilterWith(t *testing.T) {
	for _, c := range []struct {
		allow, deny []string
		name        string
		shown       bool
		wantAllow   []string
		wantDeny    []string
		ok          bool
	}{
		{nil, nil, "a", false, nil, []string{"a"}, true},
		{nil, []string{"b", "a"}, "a", true, nil, []string{"b"}, true},
		{nil, []string{"a"}, "a", false, nil, []string{"a"}, true},
		{[]string{"a", "b"}, nil, "a", false, []string{"b"}, nil, true},
		{[]string{"a"}, nil, "a", false, []string{"a"}, []string{"a"}, true}, // not [], which allows everything
		{[]string{"a*", "a"}, nil, "a", false, []string{"a*", "a"}, []string{"a"}, true},
		{[]string{"b"}, []string{"a"}, "a", true, []string{"b", "a"}, nil, true},
		{nil, []string{"a*"}, "a", true, nil, nil, false},
		{nil, nil, "a*", false, nil, nil, false},
		{nil, nil, "${A}", false, nil, nil, false},
	} {
		got, ok := Filter{Allow: c.allow, Deny: c.deny}.With(c.name, c.shown)
		if ok != c.ok || ok && (!slices.Equal(got.Allow, c.wantAllow) || !slices.Equal(got.Deny, c.wantDeny)) {
			t.Errorf("%v with %s %v is %v, %v", c, c.name, c.shown, got, ok)
		}
	}
}
