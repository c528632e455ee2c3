package config

import (
	"flag"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", clientFile, ourFile, "a: [1, 2\nb: 3", "a: &x {b: *x}", "<<: [*a]", "? a\n: b", "a: |\n  x\n", "!t x", "%YAML 1.2\n---\n{}",
		"mcpServers: {a: {command: '${A:-b}'}}", "dragoman: {limits: {body: 4MiB, call: 1s}}", twoProjects, "- - - -", "\ufeff{}", "a: !!str {}", "\"a\\ud800\": 'x",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, problems := Parse("f", b, env("A=1"))
		fatal := slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning && p.Server == "" && p.Project == "" })
		if (s == nil) != fatal {
			t.Fatalf("snapshot %v, problems %v", s, problems)
		}
		for _, p := range problems {
			if p.Text == "" || p.File != "f" || p.Line < 0 {
				t.Fatalf("problem %+v", p)
			}
			for _, c := range []byte(p.String()) {
				if c < ' ' || c == 0x7f {
					t.Fatalf("problem %q has a control character", p.String())
				}
			}
		}
		if s == nil {
			return
		}
		for _, srv := range s.Servers {
			if srv.Fingerprint == "" || srv.CallTimeout <= 0 || srv.CallMax < srv.CallTimeout || (srv.Command == "") == (srv.URL == "") && !srv.Disabled && srv.Unusable == nil {
				t.Fatalf("server %+v", srv)
			}
		}
		printed := s.AppendYAML(nil)
		again, problems := Parse("f", printed, nil)
		if again == nil && !hasDisabled(s) {
			t.Fatalf("printed configuration does not parse: %v\n%s", problems.Err(), printed)
		}
	})
}

// hasDisabled reports whether a server is disabled. Such a server may lack settings that
// a printed file must have.
func hasDisabled(s *Snapshot) bool {
	for i := range s.Servers {
		if s.Servers[i].Disabled {
			return true
		}
	}
	return false
}
