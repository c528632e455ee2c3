package config

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRunnerStart checks how long each command may take to start: a package runner gets longer, unless the
// file has a limit.
func TestRunnerStart(t *testing.T) {
	const servers = `
mcpServers:
  npx: {command: npx, args: [-y, a@1]}
  path: {command: /usr/local/bin/npx, args: [-y, a@1]}
  windows: {command: cmd, args: [/c, npx, -y, a@1]}
  pnpm: {command: pnpm, args: [dlx, a@1]}
  docker: {command: docker, args: [run, -i, --rm, a]}
  pipx: {command: pipx, args: [run, a]}
  uvx: {command: uvx, args: [a==1]}
  node: {command: node, args: [npx]}
  exec: {command: docker, args: [exec, -i, a]}
  web: {url: "http://127.0.0.1:1/npx"}
`
	short := map[string]bool{"node": true, "exec": true, "web": true}
	for _, tt := range []struct {
		ours         string
		runner, rest time.Duration
	}{
		{"", 5 * time.Minute, 30 * time.Second},
		{"dragoman: {limits: {call: 1m}}", 5 * time.Minute, 30 * time.Second},
		{"dragoman: {limits: {start: 30s}}", 30 * time.Second, 30 * time.Second},
		{"dragoman: {limits: {start: 10m}}", 10 * time.Minute, 10 * time.Minute},
	} {
		s := good(t, servers+tt.ours)
		for _, x := range s.Servers {
			want := tt.runner
			if short[x.Name] {
				want = tt.rest
			}
			if x.StartTimeout != want {
				t.Errorf("%s: %s may take %s to start, want %s", tt.ours, x.Name, x.StartTimeout, want)
			}
			if tt.ours != "" || x.URL != "" {
				continue
			}
			given, problem := Complete(Server{Command: x.Command, Args: x.Args})
			if problem != nil || given.StartTimeout != want {
				t.Errorf("%s on the command line may take %s to start, want %s; %v", x.Name, given.StartTimeout, want, problem)
			}
		}
		again := good(t, string(s.AppendYAML(nil)))
		for i := range s.Servers {
			if got, want := again.Servers[i].StartTimeout, s.Servers[i].StartTimeout; got != want {
				t.Errorf("%s: the printed file gives %s %s, want %s", tt.ours, s.Servers[i].Name, got, want)
			}
		}
		if says := strings.Count(string(s.AppendYAML(nil)), "# the default for "); (says == 7) != (tt.runner == RunnerStart) {
			t.Errorf("%s: %d notes in\n%s", tt.ours, says, s.AppendYAML(nil))
		}
	}
	s := good(t, "mcpServers: {a: {command: npx, args: [b@1]}}\ndragoman: {servers: {a: {startTimeout: 7s}}}")
	if got := s.Servers[0].StartTimeout; got != 7*time.Second {
		t.Errorf("the server's own startTimeout is 7s, but %s applies", got)
	}
}

// TestRunnerStartOfProject checks that limits.start counts for the package runners of the projects too, which
// have the limits of the house if they write none of their own.
func TestRunnerStartOfProject(t *testing.T) {
	const servers = "mcpServers: {a: {command: npx, args: [b@1]}}\n"
	for _, tt := range []struct {
		house, project string
		want           time.Duration
	}{
		{"", "", RunnerStart},
		{"", "limits: {call: 1m}", RunnerStart},
		{"", "limits: {start: 20s}", 20 * time.Second},
		{"dragoman: {limits: {start: 40s}}", "", 40 * time.Second},
		{"dragoman: {limits: {start: 40s}}", "limits: {call: 1m}", 40 * time.Second},
	} {
		p, problems := ParseProject("shop", []byte(servers+tt.project), good(t, tt.house), nil)
		if len(problems) > 0 || p.Config == nil {
			t.Fatal(problems)
		}
		if got := p.Config.Servers[0].StartTimeout; got != tt.want {
			t.Errorf("%q, %q: npx may take %s to start, want %s", tt.house, tt.project, got, tt.want)
		}
	}
}

// TestLooseOfProjects checks that the warning about packages without a version comes once for each project.
func TestLooseOfProjects(t *testing.T) {
	const text = `
mcpServers: {a: {command: npx, args: [a]}, b: {command: npx, args: [b]}}
dragoman:
  projects:
    one: {mcpServers: {c: {command: npx, args: [c]}}}
    two: {mcpServers: {d: {command: uvx, args: [d]}}}
`
	_, problems := Parse("dragoman.yaml", []byte(text), func(string) (string, bool) { return "", false })
	var got []string
	for _, p := range problems {
		got = append(got, p.Path)
	}
	want := []string{"mcpServers.a.command", "dragoman.projects.one.mcpServers.c.command", "dragoman.projects.two.mcpServers.d.command"}
	if !slices.Equal(got, want) {
		t.Errorf("the warnings are at %q, want %q", got, want)
	}
}
