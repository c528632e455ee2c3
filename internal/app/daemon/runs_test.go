//go:build unix

package daemon

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// TestTA82_WhoRuns lets keys, people and the local user start runs on a server of default that a project uses. The
// rules see each of them as they are there, a key doesn't confirm its own run, and the audit knows who has called.
func TestTA82_WhoRuns(t *testing.T) {
	t.Parallel()
	folder, keys := t.TempDir(), t.TempDir()
	database := filepath.Join(folder, "dragoman.db")
	web := newWeb(t, true)
	c, problems := config.Parse("dragoman.yaml", []byte(`mcpServers: {web: {url: "`+web.web.URL+`/mcp"}}
dragoman:
  policy: [{match: web/echo, who: {roles: [admin]}, do: allow}, {match: web/echo, do: deny}, {match: web/count, do: confirm}]
  projects: {shop: {use: [web]}, box: {use: [web], questions: console}}
`), nil)
	if c == nil {
		t.Fatal(problems)
	}
	r := serve(t, c, behindProxy(database), func(o *ServeOptions) { o.KeyFolders = []string{keys} })
	desk := deskAt(t, database)
	roster := rosterAt(t, desk)
	all, err := admin.ReadKeys([]string{keys}, strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	who := map[string][]string{"local": {"Authorization", "Bearer " + all[0]}}
	seats := map[string]string{}
	for name, w := range map[string]access.Wish{
		"operator's key": {Project: "shop", Role: identity.Operator}, "admin's key": {Project: "shop", Role: identity.Admin}, "caller's key": {Project: "shop", Role: identity.Caller},
		"box's key": {Project: "box", Role: identity.Operator}, "box's other key": {Project: "box", Role: identity.Operator},
	} {
		w.Name = strings.NewReplacer("'", "", " ", "-").Replace(name)
		header, id := makeKey(t, desk, w)
		who[name], seats[name] = append(header, "Host", publicName), access.KeySubject+id
	}
	for name, role := range map[string]identity.Role{"ada": identity.Admin, "oto": identity.Operator} {
		p := invitesTo(t, roster, "shop", name, role)
		p.enters(r)
		who[name] = append(p.header, "Sec-Fetch-Site", "same-origin", "Origin", "https://"+publicName)
	}
	soon(t, "the keys count", func() bool {
		return r.do(t.Context(), "GET", "/api/v1/status?project=box", nil, who["box's key"]...).status == 200 && r.do(t.Context(), "GET", "/api/v1/status?project=shop", nil, who["operator's key"]...).status == 200
	})

	run := func(name, project, tool string) (x admin.Run, a answer) {
		t.Helper()
		a = r.post("/api/v1/servers/web/runs?project="+project, `{"tool":"`+tool+`","arguments":{},"unchecked":true}`, who[name]...)
		_ = json.Unmarshal([]byte(a.body), &x)
		return x, a
	}
	after := func(name, project, id string, holds func(admin.Run) bool) (x admin.Run) {
		t.Helper()
		soon(t, name+"'s run goes on", func() bool {
			a := r.do(t.Context(), "GET", "/api/v1/runs/"+id+"?project="+project, nil, who[name]...)
			x = admin.Run{}
			return json.Unmarshal([]byte(a.body), &x) == nil && holds(x)
		})
		return x
	}
	ended := func(x admin.Run) bool { return x.Ended != nil }
	// The last line of the audit that is about a call of a tool.
	audited := func() (line map[string]any) {
		files, _ := filepath.Glob(filepath.Join(folder, "audit", "*"))
		for _, file := range files {
			b, _ := os.ReadFile(file)
			for text := range strings.Lines(string(b)) {
				if strings.Contains(text, `"method":"tools/call"`) {
					line = nil
					_ = json.Unmarshal([]byte(text), &line)
				}
			}
		}
		return line
	}
	for _, tt := range []struct {
		name, tool string
		action     string // the answer to the confirmation that the run shows
		state, via string
	}{
		{"local", "echo", "", "succeeded", "api"},
		{"admin's key", "echo", "", "succeeded", "api"},
		{"operator's key", "echo", "", "failed", "api"},
		{"ada", "echo", "", "succeeded", "console"},
		{"oto", "echo", "", "failed", "console"},
		{"operator's key", "fail", "", "failed", "api"},
		{"oto", "fail", "", "failed", "console"},
		{"local", "count", "accept", "succeeded", "api"},
		{"oto", "count", "accept", "succeeded", "console"},
		{"oto", "count", "decline", "failed", "console"},
		{"operator's key", "count", "", "failed", "api"},
	} {
		before, what := len(web.of("tools/call")), tt.name+" runs "+tt.tool+" "+tt.action
		x, a := run(tt.name, "shop", tt.tool)
		if a.status != http.StatusAccepted {
			t.Fatalf("%s: %d %s", what, a.status, a.body)
		}
		x = after(tt.name, "shop", x.ID, func(x admin.Run) bool { return ended(x) || len(x.Questions) > 0 })
		if (len(x.Questions) > 0) != (tt.action != "") {
			t.Errorf("%s: asked %+v", what, x.Questions)
		}
		if len(x.Questions) > 0 {
			a = r.post("/api/v1/runs/"+x.ID+"/answers?project=shop", `{"id":"`+x.Questions[0].ID+`","action":"`+tt.action+`"`+map[string]string{"accept": `,"content":{}`}[tt.action]+`}`, who[tt.name]...)
			if a.status != http.StatusOK {
				t.Fatalf("%s: %d %s", what, a.status, a.body)
			}
		}
		x = after(tt.name, "shop", x.ID, ended)
		sent := len(web.of("tools/call")) - before
		if x.State != tt.state || (sent == 1) != (tt.state == "succeeded" || tt.tool == "fail") { // the server itself fails that one
			t.Errorf("%s: %s, sent %d times: %+v", what, x.State, sent, x.Error)
		}
		soon(t, what+": the audit says so", func() bool {
			line := audited()
			named := line["name"] == tt.name || tt.name == "local" && line["who"] == "local" || seats[tt.name] != "" && line["who"] == seats[tt.name]
			return named && line["item"] == tt.tool && line["via"] == tt.via && line["from"] == "127.0.0.1" && line["project"] == "shop"
		})
	}
	if _, a := run("caller's key", "shop", "fail"); a.status != http.StatusForbidden {
		t.Errorf("a caller's key: %d %s", a.status, a.body)
	}

	// With an inbox, somebody else is asked.
	x, _ := run("box's key", "box", "count")
	var q admin.Questions
	soon(t, "the question waits", func() bool {
		a := r.do(t.Context(), "GET", "/api/v1/questions?project=box", nil, who["box's key"]...)
		return json.Unmarshal([]byte(a.body), &q) == nil && len(q.Questions) == 1
	})
	before := len(web.of("tools/call"))
	answers := func(name string) answer {
		return r.post("/api/v1/questions/"+q.Questions[0].ID+"/answer?project=box", `{"action":"accept"}`, who[name]...)
	}
	if a := answers("box's key"); a.status != http.StatusForbidden || !strings.Contains(a.body, "own-call") || len(web.of("tools/call")) != before {
		t.Errorf("with the key of the run: %d %s", a.status, a.body)
	}
	if a := answers("box's other key"); a.status != http.StatusOK {
		t.Errorf("with another key: %d %s", a.status, a.body)
	}
	if x = after("box's key", "box", x.ID, ended); x.State != "succeeded" {
		t.Errorf("%+v", x)
	}
}
