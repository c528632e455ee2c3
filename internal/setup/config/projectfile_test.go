package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// roundTrips are texts of projects that come back byte for byte from the file that ProjectFile makes of them.
var roundTrips = []string{
	"",
	"# Nothing yet.\n",
	"title: Shop\n",
	"title: Shop",
	"\n\n# Ours.\ntitle: \"ä\"  # Why?\n\nmcpServers:\n  a:\n    command: x\n    args: [\"#\", 'it''s']\n",
	"title: Shop\r\nlimits:\r\n  callTimeout: 5s\r\n",
	"server:\n  instructions:\n    text: |\n      One.\n\n        Two.\n      \n    join: own-only\n",
	"server:\n  instructions:\n    text: |2\n        Indented.\n",
	"server:\n  instructions:\n    text: >-\n      Folded\n      text.\n\n      End.\n",
	"title: \"One\n  two\\\n  three\"\n",
	"  title: Shop\n  use: [a]\n",
	"{\n  \"title\": \"Shop\",\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n}\n}\n",
	"mcpServers:\n  a: &a {command: x}\n  b: *a\n",
	"mcpServers: {a: {url: \"http://a/${secret:b}\"}}\n   \n",
}

// TestProjectFile writes projects into files, and reads them again. What can stand inside a file comes back
// byte for byte, anything else in canonical form; and the file declares what ParseProject reads in the text.
func TestProjectFile(t *testing.T) {
	check := func(name, text string, exact bool) {
		t.Helper()
		file, problems := ProjectFile(name, []byte(text))
		if len(problems) > 0 {
			t.Fatalf("%q: %v", text, problems)
		}
		all, problems := ProjectTexts("x.yaml", file)
		if len(problems) > 0 || len(all) != 1 || all[0].Name != name {
			t.Fatalf("%q is %v in\n%s: %v", text, all, file, problems)
		}
		if got := string(all[0].Text); exact && got != text {
			t.Errorf("%q has become %q in\n%s", text, got, file)
		}
		again, _ := ProjectFile(name, all[0].Text)
		if string(again) != string(file) {
			t.Errorf("the second file differs from the first:\n%s\n%s", again, file)
		}
		from, _ := ProjectText([]byte(text))
		if to, _ := ProjectText(all[0].Text); string(from) != string(to) {
			t.Errorf("%q means something else:\n%s\n%s", text, from, to)
		}
		house, secrets := Default(), func(string, string) (Secret, bool, error) { return NewSecret("x"), true, nil }
		stored, _ := ParseProject(name, []byte(text), house, secrets)
		s, problems := ParseWith("x.yaml", append(file, "\nmcpServers: {}\n"...), nil, secrets)
		if s == nil {
			t.Fatal(problems)
		}
		i := slices.IndexFunc(s.Projects, func(p Project) bool { return p.Name == name })
		if filed := s.Projects[max(i, 0)]; i < 0 || (stored.Config == nil) != (filed.Config == nil) || stored.Config != nil && (len(stored.Config.Servers) != len(filed.Config.Servers) || stored.Title != filed.Title || !reflect.DeepEqual(stored.Config.Limits, filed.Config.Limits)) {
			t.Errorf("%q is %+v in the store, and %+v in the file", text, stored, filed)
		}
	}
	for _, text := range roundTrips {
		check("shop", text, true)
	}
	check("123", "title: A\n", true)
	check("true", "title: A\n", true)
	for _, text := range []string{"---\ntitle: Shop\n", "title: Shop\n...\n", "\ufefftitle: Shop\n"} {
		check("shop", text, false)
	}
	if _, problems := ProjectFile("shop", []byte("- a\n")); len(problems) == 0 {
		t.Error("a list is no project")
	}
}

// TestProjectTexts reads the projects of files that nobody has exported.
func TestProjectTexts(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"x.yaml", "mcpServers: {a: {command: x}}\n", ""},
		{"x.yaml", "dragoman: {projects: }\n", ""},
		{"x.yaml", "mcpServers: {}\ndragoman:\n  projects:\n    b: {title: B} # why\n    a:\n      use: [x]\n", "b=title: B\n,a=use: [x]\n,"},
		{"x.yaml", "dragoman:\n  projects:\n    a:\n      # why\n      title: A\n  listen: 127.0.0.1:1\n", "a=title: A\n,"},
		{"x.json", `{"dragoman": {"projects": {"a": {"title": "A"}}}}`, "a=title: A\n,"},
		{"x.yaml", "dragoman: {projects: {a: [b]}}\n", "x.yaml: dragoman.projects.a: must be a mapping"},
		{"x.yaml", "dragoman: [\n", "this [ is not closed"},
	} {
		all, problems := ProjectTexts(c.file, []byte(c.text))
		got := ""
		for _, p := range all {
			got += p.Name + "=" + string(p.Text) + ","
		}
		for _, p := range problems {
			got += p.String()
		}
		if got != c.want && (len(problems) == 0 || c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// FuzzProjectFile checks that what ParseProject reads comes back from a file with the same meaning.
func FuzzProjectFile(f *testing.F) {
	for _, text := range roundTrips {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, problems := ProjectFile("shop", text)
		if len(problems) > 0 {
			return
		}
		all, problems := ProjectTexts("x.yaml", file)
		if len(problems) > 0 || len(all) != 1 {
			t.Fatalf("%q is %v in\n%q: %v", text, all, file, problems)
		}
		from, _ := ProjectText(text)
		if to, _ := ProjectText(all[0].Text); string(from) != string(to) {
			t.Fatalf("%q means something else:\n%s\n%s", text, from, to)
		}
	})
}
