package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSealKeys checks which files can be named, and that a key which stands in their place by mistake isn't shown.
func TestSealKeys(t *testing.T) {
	const key = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	for setting, c := range map[string]struct{ want, bad string }{
		`seal.keys`:             {filepath.Join("here", "seal.keys"), ""},
		`"/etc/seal.keys"`:      {"/etc/seal.keys", ""},
		`"${HOME}/seal.keys"`:   {"/home/me/seal.keys", ""},
		`""`:                    {"", "must not be empty"},
		key:                     {"", "dragoman.sealKeys: is not a path; write the keys into a file of their own, and the path of this file here"},
		`"` + key + `\n"`:       {"", "is not a path"},
		`{file: "` + key + `"}`: {"", "dragoman.sealKeys"},
	} {
		s, problems := Parse(filepath.Join("here", "f"), []byte("mcpServers: {}\ndragoman: {sealKeys: "+setting+"}"), env("HOME=/home/me"))
		text := listing(problems)
		for _, p := range problems {
			text += p.Source
		}
		if c.bad != "" {
			if s != nil || !strings.Contains(text, c.bad) || strings.Contains(text, key) {
				t.Errorf("%s: %s", setting, text)
			}
			continue
		}
		if s == nil || len(problems) > 0 || s.SealKeys != c.want {
			t.Errorf("%s: %+v, %s", setting, s, text)
			continue
		}
		if again, problems := Parse("f", s.AppendYAML(nil), nil); again == nil || again.SealKeys != c.want {
			t.Errorf("%s is printed as\n%s%s", setting, s.AppendYAML(nil), listing(problems))
		}
		if got := s.Since(Default()).Settings; strings.Join(got, " ") != "sealKeys" {
			t.Errorf("%s changes %q", setting, got)
		}
	}
	_, problems := Parse("f", []byte("mcpServers: {}\ndragoman: {projects: {shop: {sealKeys: a}}}"), nil)
	if !strings.Contains(listing(problems), "shop.sealKeys: unknown key") {
		t.Errorf("a project has sealing keys: %s", listing(problems))
	}
}
