package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// edits runs a command line with an editor, which is a shell script that gets the file as $1.
func (u *user) edits(script string, args ...string) (code int, stdout, stderr string) {
	var out, said syncBuffer
	env := func(name string) (string, bool) {
		if name == "EDITOR" && script != "" {
			return "sh " + u.write("editor", script), true
		}
		return u.env(name)
	}
	a := &app{world: world{backend: Daemon(), stdin: strings.NewReader(""), stdout: &out, env: env, program: "dragoman", status: newStatus(&said, false, noEnv)}}
	code = a.main(args)
	return code, out.take(), said.take()
}

const shopText = "# Ours.\ntitle: Shop\n\nmcpServers:\n  web:\n    url: http://127.0.0.1:1/mcp  # TODO\n    headers: {Authorization: \"Bearer ${secret:gh}\"}\n"

// projectsOnce adds, shows, exports, imports, edits and removes projects. It does the same with and without a
// serve that runs.
func projectsOnce(t *testing.T, u *user) {
	try := func(want int, args ...string) (out, said string) {
		t.Helper()
		stdin := shopText
		if args[0] == "secrets" {
			stdin = "canary"
		}
		code, out, said := u.give(stdin, args...)
		if code != want {
			t.Errorf("dragoman %s: %d %s%s", strings.Join(args, " "), code, out, said)
		}
		return out, said
	}
	has := func(what, text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s has no %q:\n%s", what, w, text)
			}
		}
	}
	_, said := try(exitOK, "projects", "add", "shop", "--file", "-")
	has("add", said, `added the project "shop"; its endpoint is /p/shop/mcp`, "warning: line 7: ", "run `dragoman secrets set gh --project shop`")
	try(exitOK, "projects", "add", "innocent", "--file", u.write("i.yaml", "title: Innocent"))
	try(exitOK, "secrets", "set", "gh", "--project", "shop")
	try(exitOK, "keys", "add", "ci", "--project", "shop")
	list, _ := try(exitOK, "projects")
	has("the list", list, "default   file", "innocent  store", "shop      store  1        0       1     in use")
	shown, _ := try(exitOK, "projects", "show", "shop")
	has("show", shown, "title", "Shop", "home", "the store", "/p/shop/mcp", "by local")
	shown, _ = try(exitOK, "projects", "show", "default")
	has("show", shown, "/mcp")
	exported, _ := try(exitOK, "projects", "export", "shop")
	has("export", exported, "dragoman:\n  projects:\n    shop:\n      # Ours.\n      title: Shop\n\n")
	_, said = try(exitOK, "projects", "import", u.write("shop.yaml", exported), "--name", "twin")
	has("import", said, `added the project "twin"`)
	if again, _ := try(exitOK, "projects", "export", "twin"); again != strings.Replace(exported, "shop:", "twin:", 1) {
		t.Errorf("the round trip has changed the project:\n%s\n%s", exported, again)
	}
	_, said = try(exitUsage, "projects", "import", filepath.Join(u.home, "shop.yaml"))
	has("import", said, `there is a project "shop" already`, "dragoman projects edit shop")
	_, said = try(exitOK, "projects", "edit", "twin", "--file", u.write("twin.yaml", "title: Twin\n"))
	has("edit", said, `changed the project "twin"`)
	if out, _ := try(exitOK, "projects", "export", "twin"); out != "dragoman:\n  projects:\n    twin:\n      title: Twin\n" {
		t.Errorf("twin is\n%s", out)
	}
	_, said = try(exitUsage, "projects", "remove", "shop")
	has("remove", said, `the project "shop" would be removed with its API keys (1), its secrets (1) and the roles of people (0)`, "--yes")
	_, said = try(exitOK, "projects", "remove", "shop", "--yes")
	has("remove", said, `removed the project "shop"; keys revoked: 1, secrets removed: 1, people without their roles: 0`)
	var all []admin.ProjectEntry
	out, _ := try(exitOK, "projects", "--json")
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 3 || all[1].Name != "innocent" || all[1].Title != "Innocent" || all[2].Name != "twin" {
		t.Errorf("%v: %s", err, out)
	}
	_, said = try(exitUsage, "keys", "--project", "shop")
	has("keys of a removed project", said, `no project is named "shop"`)
}

// TestProjectsCommand changes projects of a running serve, and then without one.
func TestProjectsCommand(t *testing.T) {
	t.Run("with serve", func(t *testing.T) {
		u := newUser(t)
		u.house()
		projectsOnce(t, u)
	})
	t.Run("without serve", func(t *testing.T) {
		u := newUser(t)
		u.write("dragoman.yaml", "mcpServers: {}\ndragoman: {listen: 127.0.0.1:1, database: house/dragoman.db}\n")
		projectsOnce(t, u)
		u.write("dragoman.yaml", "mcpServers: {common: {command: none}}\ndragoman: {listen: 127.0.0.1:1, database: house/dragoman.db}\n")
		if code, _, said := u.give("use: [common]\n", "projects", "add", "user", "--file", "-"); code != exitOK || strings.Contains(said, "warning") {
			t.Errorf("a project that uses a server of default: %d %s", code, said)
		}
		if code, list, _ := u.run("projects"); code != exitOK || !strings.Contains(list, "user      store  1        0       0     in use") {
			t.Errorf("the list is\n%s", list)
		}
		if code, _, said := u.run("projects", "remove", "user", "--yes"); code != exitOK {
			t.Error(said)
		}
		u.write("dragoman.yaml", "mcpServers: {}\ndragoman: {listen: 127.0.0.1:1, database: house/dragoman.db, projects: {filed: {mcpServers: {a: {command: none}}}}}\n")
		if code, _, said := u.run("keys", "add", "ci", "--project", "filed"); code != exitOK {
			t.Errorf("a key for a project of the file: %d %s", code, said)
		}
		if code, _, said := u.run("projects", "add", "filed"); code != exitFailure || !strings.Contains(said, `the project "filed" lives in the configuration file; edit it there`) {
			t.Errorf("a project of the file: %d %s", code, said)
		}
		if at := u.serve("--listen", anyPort); at == "" {
			t.Fatal("no serve")
		}
		if _, out, _ := u.run("projects"); !strings.Contains(out, "twin") {
			t.Errorf("serve has\n%s", out)
		}
	})
}

// TestProjectsEdit edits a project in an editor, also when the text can't be used, when somebody else is
// faster, and when there is no editor.
func TestProjectsEdit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the editor is a shell script")
	}
	u := newUser(t)
	u.house()
	for _, name := range []string{"shop", "innocent"} {
		if code, _, said := u.give(shopText, "projects", "add", name, "--file", "-"); code != exitOK {
			t.Fatal(said)
		}
	}
	text := func() string { _, out, _ := u.run("projects", "export", "shop"); return out }
	before := text()
	edit := func(want int, script string) string {
		t.Helper()
		code, out, said := u.edits(script, "projects", "edit", "shop")
		if code != want || out != "" {
			t.Errorf("%s: %d %s%s", script, code, out, said)
		}
		return said
	}
	kept := func(said string) string {
		t.Helper()
		at := regexp.MustCompile(`your text is in (\S+);`).FindStringSubmatch(said)
		if at == nil {
			t.Fatalf("no file is named: %s", said)
		}
		b, err := os.ReadFile(at[1])
		if info, _ := os.Stat(at[1]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		if !strings.Contains(said, "dragoman projects edit shop --file "+at[1]) {
			t.Errorf("no command: %s", said)
		}
		_ = os.Remove(at[1])
		return string(b)
	}
	if said := edit(exitOK, "exit 0"); !strings.Contains(said, "nothing was changed") || text() != before {
		t.Errorf("without a change: %s", said)
	}
	if said := edit(exitFailure, "exit 3"); !strings.Contains(said, "the editor sh failed, so nothing was changed") || text() != before {
		t.Errorf("the editor fails: %s", said)
	}
	if said := edit(exitUsage, ""); !strings.Contains(said, "neither VISUAL nor EDITOR is set") {
		t.Errorf("no editor: %s", said)
	}
	if said := edit(exitFailure, `echo 'titel: x' >> "$1"`); !strings.Contains(said, "line 8: titel: unknown key; did you mean title?") || kept(said) != shopText+"titel: x\n" || text() != before {
		t.Errorf("a text that can't be used: %s", said)
	}
	other := u.write("other.yaml", strings.Replace(shopText, "Shop", "Theirs", 1))
	program := "unset XDG_RUNTIME_DIR; HOME=" + u.home + " XDG_CACHE_HOME=" + filepath.Join(u.home, "cache") + " dragoman"
	said := edit(exitFailure, program+" projects edit shop --file "+other+` 2>/dev/null && echo '# mine' >> "$1"`)
	if !strings.Contains(said, "somebody has changed the project meanwhile") || !strings.Contains(said, "-title: Shop\n+title: Theirs\n") || kept(said) != shopText+"# mine\n" {
		t.Errorf("somebody else is faster: %s", said)
	}
	if got := text(); got != strings.Replace(before, "Shop", "Theirs", 1) {
		t.Errorf("their text has become\n%s", got)
	}
	edit(exitOK, `echo '# mine' >> "$1"`)
	if got := text(); got != strings.Replace(before, "Shop", "Theirs", 1)+"      # mine\n" {
		t.Errorf("the text is\n%s", got)
	}
	if _, out, _ := u.run("projects", "export", "innocent"); out != strings.Replace(before, "shop:", "innocent:", 1) {
		t.Errorf("the other project is\n%s", out)
	}
}

// TestProjectsMistakes checks what the commands say when something is wrong. Nothing changes.
func TestProjectsMistakes(t *testing.T) {
	u := newUser(t)
	u.house()
	if code, _, said := u.give("title: I\n", "projects", "add", "innocent", "--file", "-"); code != exitOK {
		t.Fatal(said)
	}
	before := ""
	for end := time.Now().Add(30 * time.Second); !strings.Contains(before, `"tools": 5`); { // the server has been read
		if _, before, _ = u.run("projects", "--json"); time.Now().After(end) {
			t.Fatalf("the tools of default aren't known: %s", before)
		}
	}
	two := u.write("two.yaml", "dragoman: {projects: {a: {}, b: {}}}\n")
	for _, c := range []struct {
		args  string
		stdin string
		code  int
		want  string
	}{
		{"projects add", "", exitUsage, "the project's name is missing"},
		{"projects add a b", "", exitUsage, `unexpected argument "b" after "a"`},
		{"projects add console", "", exitUsage, "there can be no project \"console\": the name is a part of Dragoman's own URLs\n"},
		{"projects add s", "", exitUsage, "hint: choose another name"},
		{"projects add default", "", exitUsage, "default is the project of the servers at the top of the file"},
		{"projects add x --file none.yaml", "", exitFailure, "error: cannot read none.yaml: "},
		{"projects add x --file -", "title: [", exitFailure, "line 1: syntax error: this [ is not closed"},
		{"projects add x --file -", "title: " + strings.Repeat("x", 1<<20), exitUsage, "stdin has more than 1 MiB"},
		{"projects add x --file -", "mcpServers: {a: {url: \"http://a/${HOME}\"}}", exitFailure, "is a variable of the machine"},
		{"projects add innocent", "", exitUsage, "there is a project \"innocent\" already"},
		{"projects edit none --file -", "", exitUsage, "error: no project is named \"none\""},
		{"projects edit default --file -", "", exitFailure, "edit it there"},
		{"projects list", "", exitUsage, "run `dragoman projects`, which prints the list"},
		{"projects rename a b", "", exitUsage, "dragoman projects has no command \"rename\""},
		{"call files x --project none", "", exitUsage, "no project is named \"none\"\ndragoman: hint: `dragoman projects` lists the projects"},
		{"show files --project none", "", exitUsage, "`dragoman projects` lists the projects"},
		{"list tools --project none", "", exitUsage, "`dragoman projects` lists the projects"},
		{"keys --project none", "", exitUsage, "`dragoman projects` lists the projects"},
		{"projects show inocent", "", exitUsage, "did you mean innocent?"},
		{"projects remove none --yes", "", exitUsage, "no project has the name \"none\""},
		{"projects remove default --yes", "", exitFailure, "edit it there"},
		{"projects export default", "", exitFailure, "edit it there"},
		{"projects import none.yaml", "", exitFailure, "error: cannot read none.yaml: "},
		{"projects import -", "mcpServers: {}\n", exitUsage, "stdin.yaml has no projects"},
		{"projects import " + two + " --name c", "", exitUsage, "has 2 projects, which can't have one name"},
		{"projects import -", "dragoman: [", exitFailure, "this [ is not closed"},
	} {
		code, out, said := u.give(c.stdin, strings.Split(c.args, " ")...)
		if code != c.code || out != "" || !strings.Contains(said, c.want) {
			t.Errorf("dragoman %s: %d %s%s", c.args, code, out, said)
		}
	}
	if _, after, _ := u.run("projects", "--json"); after != before {
		t.Errorf("something has changed:\n%s\n%s", before, after)
	}
}
