//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// serveWithKey runs a serve at which all clients need an API key, and a proxy that sends one with each request, since the
// suite can't. It returns the URL of an endpoint of the proxy.
func (s *stage) serveWithKey(ctx context.Context) (string, error) {
	config := filepath.Join(s.dir, "dragoman.yaml")
	b, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"everything": map[string]any{"command": s.server}},
		"dragoman":   map[string]any{"access": map[string]any{"loopback": "keys"}, "database": filepath.Join(s.dir, "house", "dragoman.db")},
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
	if resp, err := http.Post(at, "application/json", strings.NewReader("{}")); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusUnauthorized {
		return "", fmt.Errorf("without a key, the endpoint answers %+v, %v", resp, err)
	}
	target, err := url.Parse(strings.TrimSuffix(at, path))
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	proxy := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: &httputil.ReverseProxy{
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // of streams that a leg still has open at its end
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // which the suite also sets to names that must be refused
			r.Out.Header.Set("X-API-Key", strings.TrimSpace(string(key)))
		},
	}}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(l) }()
	s.down = append(s.down, func() {
		_ = proxy.Close()
		<-served
	})
	return "http://" + l.Addr().String() + path, nil
}
