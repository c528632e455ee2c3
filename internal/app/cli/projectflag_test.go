//go:build unix

package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
)

// TestProjectFlag asks a running serve for another project than default, with keys and without: each command
// shows that project and nothing of default. Without --project, all is as before.
func TestProjectFlag(t *testing.T) {
	for _, loopback := range []string{"open", "keys"} {
		u := newUser(t)
		peer := func(more string) string {
			return `{command: settings-peer, env: {PATH: "${PATH}", PEER_NOTES: "` + u.write("notes", "") + `"` + more + `}}`
		}
		u.write("dragoman.yaml", "mcpServers: {home: "+peer("")+"}\ndragoman:\n  database: house/dragoman.db\n  access: {loopback: "+loopback+"}\n  projects: {shop: {use: [home], mcpServers: {pay: "+peer("")+"}}, few: {use: [home], tools: {mode: search}}, bad: {x: 1}}\n")
		address := u.serve("--listen", anyPort)
		at := func(args ...string) string {
			t.Helper()
			code, out, said := u.run(args...)
			return map[bool]string{true: "ok ", false: "failed "}[code == exitOK] + out + said
		}
		for _, tt := range []struct {
			args  string
			want  []string
			lacks string
		}{
			{"call pay echo --project shop text=hi", []string{"ok ", "hi"}, ""},
			{"call home echo --project shop text=ho", []string{"ok ", "ho"}, ""},
			{"call home echo text=ha", []string{"ok ", "ha"}, ""},
			{"call pay echo text=no", []string{"failed ", "pay"}, ""},
			{"list tools pay --project shop", []string{"ok ", "echo"}, "home__"},
			{"show pay --project shop", []string{"ok ", "pay"}, ""},
			{"list tools none --project shop", []string{"failed ", `none`}, ""},
			{"list tools pay --project nowhere", []string{"failed ", "nowhere"}, ""},
			{"list tools --project few", []string{"ok ", "search_tools", "`dragoman list tools NAME --project few` lists those of a server"}, "home__"},
			{"list tools --project few --query echo", []string{"ok ", "home__echo"}, "search_tools"},
			{"list --project shop", []string{"failed ", "dragoman status --project shop"}, ""},
			{"list tools http://127.0.0.1:1/mcp --project shop", []string{"failed ", "remove --project"}, ""},
			{"status --listen " + address + " --project shop", []string{"ok ", "/p/shop/mcp", "project shop; ", "pay", "home"}, "beside"},
			{"status --listen " + address, []string{"ok ", "project default, beside few, shop; ", "project bad: ", "dragoman.projects.bad.x: unknown key", "It is not served."}, "pay "},
			{"calls --listen " + address + " --project shop", []string{"ok ", "pay", "echo"}, "text=ha"},
			{"logs --listen " + address + " --project shop", []string{"ok ", "pay"}, "server=home"},
			{"status none --listen " + address + " --project shop", []string{"failed ", "none"}, ""},
		} {
			got := at(strings.Fields(tt.args)...)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s: no %q in %s", tt.args, want, got)
				}
			}
			if tt.lacks != "" && strings.Contains(got, tt.lacks) {
				t.Errorf("%s: %q in %s", tt.args, tt.lacks, got)
			}
		}
		if got := at("list", "tools", "--project", "shop"); !strings.Contains(got, "pay__echo") || !strings.Contains(got, "home__echo") {
			t.Errorf("all tools of the shop: %s", got)
		}
		if got := at("list", "tools"); strings.Contains(got, "pay__echo") || !strings.Contains(got, "home__echo") {
			t.Errorf("all tools of default: %s", got)
		}
		if got := at("list", "tools", "--header", "Authorization: Bearer wrong"); loopback == "keys" && !strings.Contains(got, "HTTP 401") {
			t.Errorf("all tools that a wrong key sees: %s", got)
		}
		var r admin.Report
		_, out, _ := u.run("status", "--json", "--listen", address, "--project", "shop")
		if err := json.Unmarshal([]byte(out), &r); err != nil || r.Project != "shop" || len(r.Servers) != 2 || !r.Servers[1].Shared && !r.Servers[0].Shared {
			t.Errorf("%v: %s", err, out)
		}
	}
}

// TestProjectsAfterStart checks what serve prints of projects after its start, if default has no servers.
func TestProjectsAfterStart(t *testing.T) {
	s := daemon.Start{Report: &admin.Report{}, Projects: []daemon.StartedProject{{Name: "ops"}, {Name: "shop", Servers: 2, Ready: 1}}}
	got := startOptions{program: "dragoman", endpoint: "http://127.0.0.1:1/mcp"}.text(s, time.Now(), 0, false)
	if !strings.Contains(got, "further projects: ops (0 of 0 servers ready), shop (1 of 2 servers ready)\n") || strings.Contains(got, "no server is configured") {
		t.Error(got)
	}
}
