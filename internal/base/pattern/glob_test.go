package pattern

import "testing"

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"a*", "a", true}, {"*b", "ab", true}, {"a*a", "a", false},
		{"a*b*c", "aXbYc", true}, {"a*b*c", "acb", false}, {"**x", "yx", true}, {"", "", true}, {"", "x", false},
	} {
		if got := Glob(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Glob(%q, %q) = %t", tt.pattern, tt.name, got)
		}
	}
}
