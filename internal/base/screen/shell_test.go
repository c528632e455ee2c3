package screen

import "testing"

// TestShellLine checks that a shell gets each word unchanged.
func TestShellLine(t *testing.T) {
	for want, words := range map[string][]string{
		"a --b http://x:1/mcp": {"a", "--b", "http://x:1/mcp"}, `'' 'a b' '$(x)' 'it'\''s'`: {"", "a b", "$(x)", "it's"}, "'Programme/ü'": {"Programme/ü"}, "'~' '*' '&'": {"~", "*", "&"},
		`$'a\x1b\'\\b'`: {"a\x1b'\\b"},
	} {
		if got := ShellLine(words...); got != want {
			t.Errorf("%q: %s, want %s", words, got, want)
		}
	}
}
