package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// draft makes a draft from a text.
func (r *rig) draft(text string) (d Draft) {
	r.t.Helper()
	body, _ := json.Marshal(DraftRequest{Text: text})
	a := r.do(http.MethodPost, "/api/v1/drafts", string(body), "Content-Type", "application/json")
	if a.status != http.StatusCreated {
		r.t.Fatalf("%d %s", a.status, a.body)
	}
	a.into(r.t, &d)
	return d
}

// send sends a value to the route of a draft or to a route below it.
func (r *rig) send(d Draft, route string, value any) reply {
	r.t.Helper()
	body, _ := json.Marshal(value)
	return r.do(http.MethodPost, "/api/v1/drafts/"+d.ID+route, string(body), "Content-Type", "application/json")
}

// preview returns the changes to the configuration that a draft would make.
func (r *rig) preview(d Draft) Preview {
	r.t.Helper()
	id := d.ID
	d = Draft{}
	r.do(http.MethodGet, "/api/v1/drafts/"+id, "").into(r.t, &d)
	return d.Preview
}

// tried starts the trials of a draft's chosen servers, and waits until all of them have ended.
func (r *rig) tried(d Draft, q Choice) Draft {
	r.t.Helper()
	if a := r.send(d, "", DraftChange{"try", q}); a.status != http.StatusOK {
		r.t.Fatalf("%d %s", a.status, a.body)
	}
	await(r.t, "the trials have ended", func() bool {
		id := d.ID
		d = Draft{}
		r.do(http.MethodGet, "/api/v1/drafts/"+id, "").into(r.t, &d)
		for _, s := range d.Servers {
			if s.Use && (s.Trial == nil || s.Trial.Ended == nil) {
				return false
			}
		}
		return true
	})
	return d
}

// ownFile writes a configuration file and lets the API use it. A reload applies the file.
func (r *rig) ownFile(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.api.statusAPI.config, r.api.serverAPI.config, r.api.draftAPI.config = path, path, path
	r.api.reload = func(context.Context) (string, error) {
		s, problems := config.Load(path)
		if s == nil {
			return "", problems.Err()
		}
		r.runtime.Apply(event.DefaultProject, s)
		r.runtime.Default().Warm()
		return "The changed configuration was applied.", nil
	}
	return path
}

// snippet returns a configuration snippet with one server, whose command is this test binary.
func snippet(t testing.TB, name, era, more string) string {
	t.Helper()
	return fmt.Sprintf(`{"mcpServers": {%q: {"command": %q, "args": ["--user", "ada"], "env": {%q: %q, "API_TOKEN": "hunter2-draft"}%s}}}`, name, os.Args[0], asServer, era, more)
}

const ours = "# kept\nmcpServers:\n  # a comment\n  gone: {command: gone-mcp, disabled: true}\n\ndragoman:\n  record: \"off\" # why\n"

// TestDraft adds a server from a snippet. It tries the server, previews the change, and writes the
// change with a backup. The token is only in the file for secrets.
func TestDraft(t *testing.T) {
	t.Parallel()
	r := serving(t)
	path := r.ownFile("dragoman.yaml", ours)
	d := r.draft(snippet(t, "old one", demo.Legacy, ""))
	s := d.Servers[0]
	if d.Form != "JSON" || s.Name != "old-one" || s.Original != "old one" || s.Status != "new" || !s.Use || s.Command[0] != os.Args[0] || s.Command[2] != "ada" ||
		len(s.Secrets) != 1 || s.Secrets[0] != (DraftSecret{"API_TOKEN", "env.API_TOKEN"}) || len(s.Needs) != 1 || s.Needs[0].From != "draft" || s.Trial != nil {
		t.Fatalf("%+v", d)
	}
	p := r.preview(d)
	if !p.Writable || strings.Join(p.Untested, " ") != "old-one" {
		t.Errorf("%+v", p)
	}
	if a := r.send(d, "/keep", KeepRequest{Hash: p.Hash}); a.status != http.StatusConflict || !strings.Contains(a.body, "not-tested") {
		t.Errorf("keep without a trial: %d %s", a.status, a.body)
	}
	d = r.tried(d, Choice{})
	x := d.Servers[0].Trial
	if x.State != "connected" || x.Revision == "" || x.Transport != "stdio" || x.Tools == nil || *x.Tools == 0 || len(x.Steps) == 0 || x.Steps[0].Answer == "" || x.Failure != nil || x.Server == "" {
		t.Fatalf("%+v", x)
	}
	p = r.preview(d)
	const added = "+  # "
	if len(p.Untested) != 0 || p.File != path || !p.Exists || p.EnvFile != filepath.Join(filepath.Dir(path), "dragoman.env") || strings.Contains(p.Diff, added) ||
		!strings.Contains(p.Diff, "+  old-one:\n") || !strings.Contains(p.Diff, "API_TOKEN: \"${API_TOKEN}\"") || !strings.Contains(p.Diff, "+  envFile: dragoman.env\n") || !strings.Contains(p.YAML, "mcpServers:\n  old-one:\n") {
		t.Fatalf("%+v", p)
	}
	if err := os.WriteFile(path, []byte(ours+"# new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := r.send(d, "/keep", KeepRequest{Hash: p.Hash}); a.status != http.StatusConflict || !strings.Contains(a.body, ":changed") {
		t.Errorf("keep after another change: %d %s", a.status, a.body)
	}
	p = r.preview(d)
	a := r.send(d, "/keep", KeepRequest{Hash: p.Hash})
	var kept Kept
	a.into(t, &kept)
	if a.status != http.StatusOK || !kept.Applied || kept.Problem != "" || kept.EnvFile != p.EnvFile || len(kept.Lines) != 0 || strings.Contains(a.body, "hunter2") || kept.Servers[0] != "old-one" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	now, _ := os.ReadFile(path)
	before, _ := os.ReadFile(kept.Backup)
	secrets, _ := os.ReadFile(kept.EnvFile)
	if string(before) != ours+"# new\n" || strings.Contains(string(now), "hunter2") || !strings.HasPrefix(string(now), "# kept\nmcpServers:\n  # a comment\n") || !strings.Contains(string(now), "\"off\" # why\n") || string(secrets) != "API_TOKEN=hunter2-draft\n" {
		t.Errorf("%s\n%s\n%s", before, now, secrets)
	}
	if st, err := os.Stat(kept.EnvFile); runtime.GOOS != "windows" && (err != nil || st.Mode().Perm() != 0o600) {
		t.Errorf("%v %v", st.Mode(), err)
	}
	r.ready("old-one")
	if a := r.do(http.MethodGet, "/api/v1/drafts/"+d.ID, ""); a.status != http.StatusNotFound {
		t.Errorf("the draft is still there: %d", a.status)
	}
	// A new draft does not choose the same server again. A different server with this name gets
	// another name.
	if again := r.draft(snippet(t, "old one", demo.Legacy, "")).Servers[0]; again.Status != "same" || again.Use {
		t.Errorf("%+v", again)
	}
	if other := r.draft(snippet(t, "old one", demo.Modern, "")).Servers[0]; other.Status != "different" || other.Name != "old-one-2" || !other.Use {
		t.Errorf("%+v", other)
	}
	// Another value for API_TOKEN gets a variable with another name.
	if other := r.draft(`{"command": "x", "env": {"API_TOKEN": "hunter2-other"}}`).Servers[0]; other.Secrets[0].Variable != "API_TOKEN_2" {
		t.Errorf("%+v", other)
	}
}

// TestDraftForAProject adds a server to a project of the file, beside servers of the same name in default and in another
// project, whose secrets the preview doesn't show. A project that isn't in the file gets none.
func TestDraftForAProject(t *testing.T) {
	t.Parallel()
	r := serving(t)
	const file = "mcpServers:\n  same: {command: other-mcp}\ndragoman:\n  projects:\n    shop:\n      mcpServers:\n        a: {command: x, disabled: true, env: {KEY: hunter2-shop}}\n    lab:\n      mcpServers:\n        same: {command: y, disabled: true, env: {KEY: hunter2-lab}}\n"
	path := r.ownFile("dragoman.yaml", file)
	make := func(project string) reply {
		body, _ := json.Marshal(DraftRequest{Text: snippet(t, "same", demo.Legacy, ""), Project: project})
		return r.do(http.MethodPost, "/api/v1/drafts", string(body), "Content-Type", "application/json")
	}
	if a := make("none"); a.status != http.StatusNotFound || !strings.Contains(a.body, "no-such-project") {
		t.Errorf("no project: %d %s", a.status, a.body)
	}
	var d Draft
	make("default").into(t, &d)
	if s := d.Servers[0]; s.Status != "different" || s.Name != "same-2" || strings.Contains(d.Preview.YAML, "projects") {
		t.Errorf("in default: %+v", d)
	}
	d = Draft{}
	make("shop").into(t, &d)
	if s := d.Servers[0]; s.Status != "new" || s.Name != "same" || !s.Use {
		t.Fatalf("%+v", d)
	}
	d = r.tried(d, Choice{})
	if x := d.Servers[0].Trial; x.State != "connected" {
		t.Fatalf("%+v", x)
	}
	p := r.preview(d)
	if !strings.HasPrefix(p.YAML, "dragoman:\n  projects:\n    shop:\n      mcpServers:\n        same:\n") || strings.Count(p.YAML, "dragoman:\n") != 1 || !strings.HasSuffix(p.YAML, "\n  envFile: dragoman.env\n") || strings.Contains(p.Diff, "hunter2") || !strings.Contains(p.Diff, "KEY: ***") {
		t.Errorf("%+v", p)
	}
	var kept Kept
	a := r.send(d, "/keep", KeepRequest{Hash: p.Hash})
	if a.into(t, &kept); a.status != http.StatusOK || kept.Servers[0] != "same" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	now, _ := os.ReadFile(path)
	s, problems := config.Parse(path, now, func(string) (string, bool) { return "", false })
	if s == nil {
		t.Fatal(problems)
	}
	if own := intake.ServersOf(s, "shop"); own == nil || len(own.Servers) != 2 || len(s.Servers) != 1 || len(intake.ServersOf(s, "lab").Servers) != 1 {
		t.Errorf("the file is now\n%s", now)
	}
	if text := strings.NewReplacer("  envFile: dragoman.env\n", "").Replace(string(now)); !strings.HasPrefix(text, file[:strings.Index(file, "    lab:")]) || !strings.HasSuffix(text, file[strings.Index(file, "    lab:"):]) {
		t.Errorf("other lines have changed:\n%s", now)
	}
}

// TestDraftWithSecrets tries a server that refers to a secret. The configuration gets the reference, and no
// answer has the value. A secret that isn't there fails the trial, and so does every secret without a store.
func TestDraftWithSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		secret, failure string // failure is a part of what is wrong; "" for nothing
		secrets         config.Secrets
	}{
		{"gh", "", func(_, name string) (config.Secret, bool, error) {
			return config.NewSecret("canary-gh"), name == "gh", nil
		}},
		{"none", "there is no secret none", func(_, _ string) (config.Secret, bool, error) { return config.Secret{}, false, nil }},
		{"gh", "the secret gh cannot be read", nil},
	} {
		r := serving(t)
		r.api.draftAPI.secrets = tt.secrets
		path := r.ownFile("dragoman.yaml", ours)
		entry := fmt.Sprintf(`{"mcpServers": {"new": {"command": "sh", "args": ["-c", "test $(printf %%s $API_TOKEN | wc -c) -eq 9 && exec %s"], "env": {%q: %q, "API_TOKEN": "${secret:%s}"}}}}`, os.Args[0], asServer, demo.Legacy, tt.secret)
		d := r.tried(r.draft(entry), Choice{})
		x := d.Servers[0].Trial
		if tt.failure != "" {
			if x.State != "failed" || x.Failure.Class != "missing_variable" || !strings.Contains(x.Failure.Sentence, tt.failure) || x.Failure.Action == "" || strings.Contains(x.Failure.Action, "enter a value") {
				t.Errorf("%s: %+v %+v", tt.secret, x, x.Failure)
			}
			continue
		}
		if x.State != "connected" {
			t.Fatalf("%s: %+v", tt.secret, x.Failure)
		}
		var shown strings.Builder
		shown.WriteString(r.do(http.MethodGet, "/api/v1/drafts/"+d.ID, "").body)
		shown.WriteString(r.send(d, "/keep", KeepRequest{Hash: r.preview(d).Hash}).body)
		now, err := os.ReadFile(path)
		if shown.Write(now); err != nil || strings.Contains(shown.String(), "canary") || !strings.Contains(string(now), `API_TOKEN: "${secret:gh}"`) {
			t.Errorf("%v: %s", err, shown.String())
		}
	}
}

// TestDraftOfSeveralCommands checks that only commands that start a server are chosen.
func TestDraftOfSeveralCommands(t *testing.T) {
	t.Parallel()
	r := serving(t)
	d := r.draft("npx -y one\nrm -rf two")
	if len(d.Servers) != 2 || !d.Servers[0].Use || d.Servers[1].Use || len(d.Notes) != 1 || !strings.HasSuffix(d.Notes[0], "are not chosen: rm.") {
		t.Errorf("%+v", d)
	}
}

// TestCommandsAreShownInFull checks that a draft shows everything that a trial would start.
func TestCommandsAreShownInFull(t *testing.T) {
	t.Parallel()
	r := serving(t)
	script := "exec nice-server # " + strings.Repeat("x", 600) + strings.Repeat(" ", 100_000) + "\ntouch \u202e\u00a0\x1b[2J /tmp/x"
	body, _ := json.Marshal(map[string]any{"mcpServers": map[string]any{"nice": map[string]any{"command": "bash", "args": []string{"-c", script, "a  b ", `C:\new`, `C:\Программы`, ""}, "cwd": "/a\tb"}}})
	s := r.draft(string(body)).Servers[0]
	want := []string{"bash", "-c", strings.NewReplacer("\n", `\n`, "\u202e", `\u202e`, "\u00a0", `\u00a0`, "\x1b", `\x1b`).Replace(script), "a  b ", `C:\\new`, `C:\Программы`, ""}
	if strings.Join(s.Command, "|") != strings.Join(want, "|") || s.Folder != `/a\tb` {
		t.Errorf("%q, in %q", s.Command, s.Folder)
	}
}

// TestDraftFailures checks servers that do not start, and choices that are not valid.
func TestDraftFailures(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.ownFile("dragoman.yaml", ours)
	d := r.draft(`{"mcpServers": {"none": {"command": "no-such-program-here", "env": {"A_TOKEN": "<your token>"}}, "sh": {"command": "sh; touch /tmp/x | $(id)"}, "self": {"url": "http://127.0.0.1:7300/mcp"}, "bad": {"command": "x", "url": "http://h"}}}`)
	if got := []string{d.Servers[0].Status, d.Servers[1].Status, d.Servers[2].Status, d.Servers[3].Status}; strings.Join(got, " ") != "new new skipped skipped" || d.Servers[2].Why != "the entry is Dragoman itself" {
		t.Errorf("%v", d.Servers)
	}
	d = r.tried(d, Choice{})
	if x := d.Servers[0].Trial; x.State != "failed" || x.Failure.Class != "missing_variable" || !strings.Contains(x.Failure.Action, "A_TOKEN") {
		t.Errorf("%+v", x.Failure)
	}
	if x := d.Servers[1].Trial; x.State != "failed" || x.Failure.Class != "command_not_found" { // the pasted text is used as a program's name, not run by a shell
		t.Errorf("%+v", x.Failure)
	}
	d = r.tried(d, Choice{Servers: []ChosenServer{{Key: "s1", Name: "other"}}, Values: map[string]string{"A_TOKEN": "hunter2-typed"}})
	if s := d.Servers[0]; s.Name != "other" || s.Trial.Failure == nil || s.Trial.Failure.Class != "command_not_found" || s.Needs[0].From != "draft" || d.Servers[1].Use {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		status int
		body   string
	}{
		{400, `{"servers": [{"key": "s9"}]}`}, {400, `{"servers": [{"key": "s3"}]}`}, {422, `{"servers": [{"key": "s1", "name": "../x"}]}`}, {422, `{"servers": [{"key": "s1", "name": "<b>x</b>"}]}`},
		{400, `{"values": {"PATH": "x"}}`}, {400, `{"secrets": "x"}`}, {400, `{"x": 1}`}, {200, `{"servers": [{"key": "s1", "name": "gone"}]}`},
		{200, `{"servers": [{"key": "s1", "name": "good"}], "secrets": "shown"}`},
	} {
		body := `{"do": "choose", ` + c.body[1:]
		a := r.do(http.MethodPost, "/api/v1/drafts/"+d.ID, body, "Content-Type", "application/json")
		if a.status != c.status || strings.Contains(a.body, "Another server has the name") != strings.Contains(c.body, `"gone"`) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	p := r.preview(d)
	if p.EnvFile != "" || strings.Contains(p.Diff, "envFile") {
		t.Errorf("%+v", p)
	}
	var kept Kept
	r.send(d, "/keep", KeepRequest{Hash: p.Hash}).into(t, &kept)
	if len(kept.Lines) != 1 || kept.Lines[0] != "A_TOKEN=hunter2-typed" || kept.EnvFile != "" || !kept.Applied {
		t.Errorf("%+v", kept)
	}
	for _, body := range []string{`{}`, `{"text": "x", "client": "cursor"}`, `{"text": 1}`} {
		if a := r.do(http.MethodPost, "/api/v1/drafts", body, "Content-Type", "application/json"); a.status != 400 {
			t.Errorf("%s: %d", body, a.status)
		}
	}
	if a := r.do(http.MethodPost, "/api/v1/drafts", `{"text": "x | y"}`, "Content-Type", "application/json"); a.status != 422 || !strings.Contains(a.body, "The command has the operator |, which only a shell understands.") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := r.do(http.MethodPost, "/api/v1/drafts", `{"text": "`+strings.Repeat("x", 10<<20)+`"}`, "Content-Type", "application/json"); a.status != 413 {
		t.Errorf("10 MiB: %d %.200s", a.status, a.body)
	}
}

// TestCancelTrial checks that a hanging trial can be cancelled, that at most mostTrials trials run
// at the same time, and that the oldest draft is dropped when there are too many drafts.
func TestCancelTrial(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("there is no program that only waits")
	}
	t.Parallel()
	r := serving(t)
	var all []string
	for i := range mostTrials + 1 {
		all = append(all, fmt.Sprintf(`"s%d": {"command": "sleep", "args": ["600"]}`, i))
	}
	d := r.draft(`{"mcpServers": {` + strings.Join(all, ",") + `}}`)
	if a := r.send(d, "", DraftChange{Do: "try"}); a.status != http.StatusOK {
		t.Fatal(a.body)
	}
	count := func() (states map[string]int) {
		states = map[string]int{}
		id := d.ID
		d = Draft{}
		r.do(http.MethodGet, "/api/v1/drafts/"+id, "").into(t, &d)
		for _, s := range d.Servers {
			states[s.Trial.State]++
		}
		return states
	}
	await(t, "four run and one waits", func() bool { x := count(); return x["running"] == mostTrials && x["waiting"] == 1 })
	if a := r.send(d, "", DraftChange{Do: "cancel"}); a.status != http.StatusOK {
		t.Error(a.body)
	}
	await(t, "all are cancelled", func() bool { return count()["cancelled"] == mostTrials+1 })
	p := r.preview(d)
	if len(p.Untested) != mostTrials+1 || !strings.Contains(p.Note, "--demo") {
		t.Errorf("%+v", p)
	}
	if a := r.do(http.MethodDelete, "/api/v1/drafts/"+d.ID, ""); a.status != http.StatusOK {
		t.Error(a.body)
	}
	var first string
	for i := range mostDrafts + 1 {
		x := r.draft("npx a" + strconv.Itoa(i))
		if i == 0 {
			first = x.ID
		}
	}
	if a := r.do(http.MethodGet, "/api/v1/drafts/"+first, ""); a.status != http.StatusNotFound {
		t.Errorf("the oldest of too many drafts: %d", a.status)
	}
}

// TestWhereDraftsGo checks which configuration files Dragoman writes, and what it reports about files
// that it does not write.
func TestWhereDraftsGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text, why string
		mode            os.FileMode
	}{
		{"dragoman.yaml", "", "", 0o600},
		{"dragoman.json", "{\n  // c\n  \"mcpServers\": {}\n}\n", "", 0o600},
		{"x.json", `{"dragoman": {}}`, "", 0o600},
		{"mcp.json", `{"mcpServers": {}}`, "The file belongs to another program.", 0o600},
		{"c.toml", "[mcp_servers.a]\ncommand = 'x'\n", "The file belongs to another program.", 0o600},
		{"dragoman.yaml", ours, "The configuration file is read-only.", 0o400},
		{"dragoman.yaml", "mcpServers: {a: {command: x}}\n", "is not written in indented lines", 0o600},
		{"dragoman.yaml", "mcpServers: [\n", "The configuration file has errors.", 0o600},
	} {
		r := serving(t)
		path := r.ownFile(c.name, c.text)
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		d := r.draft(`{"command": "x", "env": {"K_TOKEN": "hunter2-k"}}`)
		a := r.do(http.MethodGet, "/api/v1/drafts/"+d.ID, "")
		a.into(t, &d)
		p := d.Preview
		if p.Writable != (c.why == "") || !strings.Contains(p.Why, c.why) || strings.Contains(a.body, "hunter2") || p.YAML == "" || (p.Diff == "") != (c.why != "") {
			t.Errorf("%s %q: %+v", c.name, c.text, p)
		}
		if a := r.send(d, "/keep", KeepRequest{Hash: p.Hash}); a.status != http.StatusConflict {
			t.Errorf("%s: %d", c.name, a.status)
		}
	}
	// Without a file, the default one can be created. An existing default file is not touched.
	r := serving(t)
	d := r.tried(r.draft(`{"command": "no-such-program-here", "env": {"K_TOKEN": "hunter2-k"}}`), Choice{})
	p := r.preview(d)
	home, _ := r.api.env("HOME")
	path := filepath.Join(home, ".config", "dragoman", "config.yaml")
	if p.File != path || p.Exists || !p.Writable || !strings.Contains(p.Note, "Start `dragoman serve` without --demo.") {
		t.Fatalf("%+v", p)
	}
	var kept Kept
	r.send(d, "/keep", KeepRequest{Hash: p.Hash}).into(t, &kept)
	if b, _ := os.ReadFile(path); !strings.Contains(string(b), "mcpServers:\n") || kept.Applied || kept.Problem == "" || kept.Backup != "" {
		t.Errorf("%+v %s", kept, b)
	}
	p = r.preview(r.draft("npx a"))
	if p.Writable || !strings.Contains(p.Why, "Add the servers to "+path) || len(p.Places) == 0 {
		t.Errorf("%+v", p)
	}
	// The preview does not suggest lines for a file with errors.
	if err := os.WriteFile(path, []byte("mcpServers:\n  a:\n    comand: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p = r.preview(r.draft("npx b"))
	if p.Writable || len(p.Places) != 0 {
		t.Errorf("%+v", p)
	}
}

// TestPlaces checks which lines the console suggests for a file that Dragoman cannot write, and where
// to add them. The lines have the indentation of the file, and go below keys that the file already
// has.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"dragoman.yaml", ours, "4 mcpServers false:\n  x:\n    command: x\n    env:\n      K_TOKEN: \"${K_TOKEN}\"\n7 dragoman true:\n  envFile: dragoman.env\n"},
		{"dragoman.yaml", "dragoman:\n    record: memory\nmcpServers:\n    a:\n        command: x # why\n    b: {command: y}", "2 dragoman false:\n    envFile: dragoman.env\n6 mcpServers true:\n    x:\n        command: x\n        env:\n            K_TOKEN: \"${K_TOKEN}\"\n"},
		{"dragoman.yaml", "# empty\n", "1  true:\nmcpServers:\n  x:\n    command: x\n    env:\n      K_TOKEN: \"${K_TOKEN}\"\n\ndragoman:\n  envFile: dragoman.env\n"},
		{"dragoman.yaml", "mcpServers: {a: {command: x}}\n", ""},
		{"dragoman.yaml", "mcpServers: [\n", ""},
		{"dragoman.json", `{"mcpServers": {"a": {"command": "x"}}}`, ""},
		{"dragoman.json", "{\n  \"mcpServers\": {\n  },\n  \"dragoman\": {\n  }\n}\n", ""},
		{"dragoman.yaml", "{\n  \"mcpServers\": {\n  },\n  \"dragoman\": {\n  }\n}\n", ""},
		{"mcp.json", `{"mcpServers": {}}`, ""},
	} {
		r := serving(t)
		path := r.ownFile(c.name, c.text)
		if err := os.Chmod(path, 0o400); err != nil {
			t.Fatal(err)
		}
		p := r.preview(r.draft(`{"command": "x", "env": {"K_TOKEN": "hunter2-k"}}`))
		got := ""
		for _, x := range p.Places {
			got += fmt.Sprintf("%d %s %t:\n%s", x.After, x.Under, x.Last, x.Text)
			if x.File != path {
				t.Error(x.File)
			}
		}
		if got != c.want || p.Writable {
			t.Errorf("%s %q: got\n%s, want\n%s", c.name, c.text, got, c.want)
		}
		if len(p.Places) == 0 {
			continue
		}
		lines := strings.SplitAfter(strings.TrimSuffix(c.text, "\n")+"\n", "\n")
		for _, x := range slices.Backward(p.Places) {
			lines = slices.Insert(lines, x.After, x.Text)
		}
		if _, err := intake.ParseOurs(path, []byte(strings.Join(lines, "")), func(string) (string, bool) { return "v", true }); err != nil {
			t.Errorf("%q: %v", lines, err)
		}
	}
}

// TestTrialRecords checks that a trial logs the command and the outcome, but not the arguments,
// which may be secret.
func TestTrialRecords(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.tried(r.draft(snippet(t, "worker", demo.Legacy, "")), Choice{})
	r.tried(r.draft(`{"command": "no-such-program-here", "args": ["--password", "hunter2"]}`), Choice{})
	for server, want := range map[string][]string{
		"worker":               {"trying a server before adding it command=" + excerpt.Line(os.Args[0], maxName), "the trial of a server has ended outcome=connected revision="},
		"no-such-program-here": {"trying a server before adding it command=no-such-program-here", "the trial of a server has ended outcome=failed took="},
	} {
		var got []string
		for _, l := range r.api.Logs(server, 50) {
			text := l.Text
			for _, x := range l.Attributes {
				if x.Key != "server" {
					text += " " + x.Key + "=" + x.Value
				}
			}
			got = append(got, text)
		}
		if len(got) != 2 || got[0] != want[0] || !strings.HasPrefix(got[1], want[1]) || strings.Contains(strings.Join(got, " "), "hunter2") {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
		if server != "worker" && !strings.Contains(got[1], "class=command_not_found") {
			t.Errorf("%q", got[1])
		}
	}
}

// TestClientFiles imports servers from a client's file. The import does not change the file.
func TestClientFiles(t *testing.T) {
	t.Parallel()
	r := serving(t)
	r.ownFile("dragoman.yaml", "mcpServers:\n  a: {command: x}\n  b: {command: y}\n")
	home, _ := r.api.env("HOME")
	file := filepath.Join(home, ".cursor", "mcp.json")
	const text = `{"mcpServers": {"a": {"command": "x"}, "b": {"command": "z"}, "c": {"command": "c", "env": {"C_TOKEN": "hunter2-c"}}, "d": {"url": "http://127.0.0.1:7300/mcp"}}}`
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil || os.WriteFile(file, []byte(text), 0o600) != nil {
		t.Fatal("no file")
	}
	broken := filepath.Join(home, ".claude.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all ClientFiles
	r.do(http.MethodGet, "/api/v1/client-files", "").into(t, &all)
	states := map[string]string{}
	for _, f := range all.Files {
		for _, s := range f.Servers {
			states[f.Client] += s.Name + " " + s.Status + ";"
		}
		if f.Problem != "" {
			states[f.Client] += f.Problem
		}
	}
	if states["cursor"] != "a same;b different;c new;d skipped;" || !strings.Contains(states["claude-code"], "not JSON") || len(all.Files) < 7 {
		t.Errorf("%v", states)
	}
	var d Draft
	a := r.do(http.MethodPost, "/api/v1/drafts", `{"client": "cursor"}`, "Content-Type", "application/json")
	a.into(t, &d)
	if d.Form != "Cursor" || d.File != file || len(d.Servers) != 4 || d.Servers[1].Use || d.Servers[1].Name != "b-2" || !d.Servers[2].Use || strings.Contains(a.body, "hunter2") {
		t.Errorf("%s", a.body)
	}
	for body, status := range map[string]int{`{"client": "x"}`: 404, `{"client": "cursor", "file": "/etc/passwd"}`: 404, `{"client": "gemini"}`: 404, `{"client": "claude-code"}`: 422} {
		if a := r.do(http.MethodPost, "/api/v1/drafts", body, "Content-Type", "application/json"); a.status != status {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if b, _ := os.ReadFile(file); string(b) != text {
		t.Errorf("the file of the client has changed: %s", b)
	}
}
