package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDatabase checks where the database may be, and that a password stays secret.
func TestDatabase(t *testing.T) {
	env := func(name string) (string, bool) { return "hunter2-secret", name == "PASSWORD" }
	here := func(s string) string { return filepath.Join("dir", filepath.FromSlash(s)) }
	for _, c := range []struct{ text, want, shown, bad string }{
		{"", "", "", ""},
		{"house.db", here("house.db"), here("house.db"), ""},
		{"../x/house.db", "x/house.db", "x/house.db", ""},
		{"postgres://me@db.internal/team", "postgres://me@db.internal/team", "postgres://***@db.internal/team", ""},
		{"postgresql://me:${PASSWORD}@db.internal/team?sslmode=require", "postgresql://me:hunter2-secret@db.internal/team?sslmode=require", "postgresql://***@db.internal/team?***", ""},
		{"~/house.db", "", "", "write ${HOME}"},
		{"mysql://me:hunter2-secret@db.internal/team", "", "", "unknown scheme"},
		{"memory://", "", "", "unknown scheme"},
		{"postgres://me:hunter2-secret%@db.internal/team", "", "", "percent-encode"},
		{"${NONE}", "", "", "NONE"},
	} {
		file := "dragoman: {database: \"" + c.text + "\"}"
		if c.text == "" {
			file = "dragoman: {}"
		}
		s, problems := Parse(filepath.Join("dir", "c.yaml"), []byte(file), env)
		if c.bad != "" {
			if s != nil || !strings.Contains(listing(problems), c.bad) || strings.Contains(listing(problems), "hunter2") {
				t.Errorf("%s: %s", c.text, listing(problems))
			}
			continue
		}
		if s == nil || filepath.ToSlash(s.Database) != filepath.ToSlash(c.want) {
			t.Errorf("%s: %+v, %s", c.text, s, listing(problems))
			continue
		}
		out := string(s.AppendYAML(nil))
		if strings.Contains(out, "hunter2") || strings.Contains(out, "\n  database: ") != (c.text != "") || !strings.Contains(out, c.shown) {
			t.Errorf("%s: it's printed as\n%s", c.text, out)
		}
		if got := s.Since(Default()).Settings; c.text != "" && strings.Join(got, " ") != "database" {
			t.Errorf("%s: changed are %v", c.text, got)
		}
	}
	if s, problems := Parse("c.yaml", []byte("dragoman: {database: \"\"}"), nil); s != nil || !strings.Contains(listing(problems), "must not be empty") {
		t.Errorf("an empty path: %s", listing(problems))
	}
}
