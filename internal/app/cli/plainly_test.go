package cli

import "testing"

// TestPlainly checks how the default of a field is shown at its prompt.
func TestPlainly(t *testing.T) {
	for v, want := range map[string]string{
		"true": "yes", " false ": "no", `"a b"`: "a b", "3": "3",
		"[\n  \"wet\",\n  \"dry\"\n]": "wet, dry", "[]": "", "[1,true]": "1, true",
	} {
		if got := plainly([]byte(v)); got != want {
			t.Errorf("%q: %q, not %q", v, got, want)
		}
	}
}
