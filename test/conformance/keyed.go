//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fronttest"
)

// serveWithKey runs a serve at which all clients need an API key, with rules, pins and the audit, and a proxy that sends a
// key with each request, since the suite can't. It returns the URL of an endpoint of the proxy.
func (s *stage) serveWithKey(ctx context.Context, l *leg) (string, error) {
	config := filepath.Join(s.dir, "dragoman.yaml")
	b, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"everything": map[string]any{"command": s.server}},
		"dragoman": map[string]any{
			"access":   map[string]any{"loopback": "keys"},
			"database": filepath.Join(s.dir, "house", "dragoman.db"),
			"policy":   manyRules("everything", "suite"),
			"pins":     "hold",
			"audit":    map[string]any{"calls": "names", "onFailure": "refuse"},
		},
	})
	if err == nil {
		err = os.WriteFile(config, b, 0o600)
	}
	if err != nil {
		return "", err
	}
	add := exec.CommandContext(ctx, s.rig.dragoman, "-q", "keys", "add", "suite", "-c", config)
	add.Env = s.environ()
	key, err := add.Output()
	if err != nil {
		return "", fmt.Errorf("a key for the suite: %w", err)
	}
	const path = "/s/everything/mcp"
	at, err := s.listen(ctx, "dragoman.log", path, func(addr string) []string {
		return []string{s.rig.dragoman, "serve", "-c", config, "--listen", addr}
	})
	if err != nil {
		return "", err
	}
	s.after = append(s.after, func() error { return s.audited(config, l.of > 1) })
	if resp, err := http.Post(at, "application/json", strings.NewReader("{}")); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusUnauthorized {
		return "", fmt.Errorf("without a key, the endpoint answers %+v, %v", resp, err)
	}
	target, err := url.Parse(strings.TrimSuffix(at, path))
	if err != nil {
		return "", err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	proxy := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: fronttest.Proxy(func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // which the suite also sets to names that must be refused
		r.Out.Header.Set("X-API-Key", strings.TrimSpace(string(key)))
	}, nil)}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ln) }()
	s.down = append(s.down, func() {
		_ = proxy.Close()
		<-served
	})
	return "http://" + ln.Addr().String() + path, nil
}

// manyRules returns rules that let a key use all of a server, and that have to be read to the last one for that.
func manyRules(server, key string) (rules []map[string]any) {
	for i := range 200 {
		rules = append(rules, map[string]any{
			"match": []string{fmt.Sprintf("%s/never_%d_*", server, i), fmt.Sprintf("%s/prompt:never_%d", server, i)}, "do": "deny",
		})
	}
	return append(rules,
		map[string]any{"match": server + "/*", "who": map[string]any{"keys": []string{key}}, "do": "allow"},
		map[string]any{"match": "*", "do": "deny"})
}

// audited checks the audit: that it's complete, that it has calls of the suite, if there were any, and that none of them was
// refused because of a pin.
func (s *stage) audited(config string, calls bool) error {
	verify := exec.Command(s.rig.dragoman, "audit", "verify", "-c", config)
	verify.Env = s.environ()
	if out, err := verify.CombinedOutput(); err != nil {
		return fmt.Errorf("audit verify: %w\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "house", "audit", "*.jsonl"))
	if err != nil {
		return err
	}
	var lines []byte
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		lines = append(lines, b...)
	}
	if calls && !bytes.Contains(lines, []byte(`"name":"suite"`)) {
		return errors.New("the audit has no line of the suite")
	}
	if at := bytes.Index(lines, []byte(`"cause":"held"`)); at >= 0 {
		return fmt.Errorf("a definition was held: %.300s", lines[at:])
	}
	return nil
}
