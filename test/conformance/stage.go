//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// stage has the processes of one server leg.
type stage struct {
	rig    *rig
	dir    string
	server string   // this leg's own link to the server's binary
	env    []string // the environment of the processes; nil means ours with a data folder of the leg
	up     []*process
	down   []func()       // what else strike calls, first
	after  []func() error // and last
}

// build starts the processes that the leg needs, and returns the URL for the suite. The caller
// must call strike, even if build fails.
func (s *stage) build(ctx context.Context, l *leg) (url string, err error) {
	how, name, own := builtInOf(l.via)
	binary := s.rig.server
	if own {
		binary = s.rig.dragoman
	}
	if strings.Contains(l.via, "-tasks-") {
		binary = s.rig.self
	}
	s.server = filepath.Join(s.dir, filepath.Base(s.rig.server))
	if err := linkOrCopy(binary, s.server); err != nil {
		return "", err
	}
	if own {
		args, err := builtIn[name](s.dir)
		if err != nil {
			return "", err
		}
		if how == "serve" {
			return s.dragomanServe(ctx, args...)
		}
		return s.dragomanRun(ctx, append([]string{"--", s.server}, args...)...)
	}
	switch l.via {
	case "direct":
		return s.direct(ctx, l)
	case "run":
		return s.dragomanRun(ctx, "--", s.server)
	case "run-url":
		url, err := s.direct(ctx, l)
		if err != nil {
			return "", err
		}
		return s.dragomanRun(ctx, url)
	case "run-legacy-only":
		return s.dragomanRun(ctx, "--", s.rig.self, "one-era", "legacy", s.server)
	case "run-modern-only":
		return s.dragomanRun(ctx, "--", s.rig.self, "one-era", "modern", s.server)
	case "run-tasks-legacy", "run-tasks-modern":
		return s.dragomanRun(ctx, "--", s.server, "task-server", strings.TrimPrefix(l.via, "run-tasks-"))
	case "serve-tasks-legacy", "serve-tasks-modern":
		return s.dragomanServe(ctx, "task-server", strings.TrimPrefix(l.via, "serve-tasks-"))
	case "run-skills-legacy", "run-skills-modern":
		return s.dragomanRun(ctx, "--", s.rig.self, "skills-server", strings.TrimPrefix(l.via, "run-skills-"), "refunds")
	case "merged-skills":
		return s.serveAll(ctx, "/mcp", map[string]any{
			"one": map[string]any{"command": s.rig.self, "args": []string{"skills-server", "legacy", "refunds"}},
			"two": map[string]any{"command": s.rig.self, "args": []string{"skills-server", "modern", "reports"}},
		})
	case "serve":
		return s.dragomanServe(ctx)
	case "serve-key":
		return s.serveWithKey(ctx, l)
	case "replicas":
		return s.serveReplicas(ctx, false, s.server)
	case "keyed-replicas":
		return s.serveReplicas(ctx, true, s.server)
	case "replicas-legacy-only":
		return s.serveReplicas(ctx, false, s.rig.self, "one-era", "legacy", s.server)
	case "replicas-modern-only":
		return s.serveReplicas(ctx, false, s.rig.self, "one-era", "modern", s.server)
	}
	return "", fmt.Errorf("no such way: %s", l.via)
}

// linkOrCopy gives a binary another name. It makes a hard link, or a copy if the two names are on
// different file systems.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o755)
}

// direct starts the SDK's server over HTTP. The SDK's server supports either sessions or requests
// without a session. The requirements of the legacy revisions need sessions.
func (s *stage) direct(ctx context.Context, l *leg) (string, error) {
	stateless := l.rev == "2026-07-28"
	return s.listen(ctx, "server.log", "/mcp", func(addr string) []string {
		return []string{s.server, "-http", addr, fmt.Sprintf("-stateless=%t", stateless)}
	})
}

func (s *stage) dragomanRun(ctx context.Context, target ...string) (string, error) {
	return s.listen(ctx, "dragoman.log", "/mcp", func(addr string) []string {
		return append([]string{s.rig.dragoman, "run", "--listen", addr}, target...)
	})
}

func (s *stage) dragomanServe(ctx context.Context, args ...string) (string, error) {
	return s.serveAll(ctx, "/s/everything/mcp", map[string]any{"everything": map[string]any{"command": s.server, "args": append([]string{}, args...)}})
}

// serveAll runs serve with these servers and returns the URL of an endpoint.
func (s *stage) serveAll(ctx context.Context, path string, servers map[string]any) (string, error) {
	config := filepath.Join(s.dir, "dragoman.yaml")
	b, err := json.Marshal(map[string]any{"mcpServers": servers}) // every JSON document is also YAML
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(config, b, 0o600); err != nil {
		return "", err
	}
	return s.listen(ctx, "dragoman.log", path, func(addr string) []string {
		return []string{s.rig.dragoman, "serve", "-c", config, "--listen", addr}
	})
}

func (s *stage) listen(ctx context.Context, log, path string, argv func(addr string) []string) (string, error) {
	p, addr, err := listening(ctx, filepath.Join(s.dir, log), s.environ(), argv)
	if err != nil {
		tail, _ := os.ReadFile(filepath.Join(s.dir, log))
		return "", fmt.Errorf("%w\n%s", err, tail[max(0, len(tail)-2000):])
	}
	s.up = append(s.up, p)
	return "http://" + addr + path, nil
}

// environ returns the environment of the processes. Legs that ran at the same time in one data folder would share the
// pins of servers that have one name and differ.
func (s *stage) environ() []string {
	if s.env != nil {
		return s.env
	}
	return append(os.Environ(), "XDG_DATA_HOME="+filepath.Join(s.dir, "data"))
}

// strike stops the processes, the last one first. It returns a problem for each process that had
// already ended, that had to be killed, or that left a child behind.
func (s *stage) strike() (problems []error) {
	for _, end := range s.down {
		end()
	}
	for i := len(s.up) - 1; i >= 0; i-- {
		p := s.up[i]
		select {
		case <-p.done:
			problems = append(problems, fmt.Errorf("%s ended during the run: %v", filepath.Base(p.cmd.Path), p.err))
		default:
		}
		if err := p.stop(); err != nil {
			problems = append(problems, err)
		}
	}
	for _, check := range s.after {
		if err := check(); err != nil {
			problems = append(problems, err)
		}
	}
	if err := orphans(s.server); err != nil {
		problems = append(problems, err)
	}
	if err := os.Remove(s.server); err != nil && !errors.Is(err, os.ErrNotExist) {
		problems = append(problems, err)
	}
	return problems
}
