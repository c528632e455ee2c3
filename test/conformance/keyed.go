//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
)

// serveWithKey runs a serve at which all clients need an API key, with rules, pins and the audit, and a proxy that sends a
// key with each request, since the suite can't. It returns the URL of an endpoint of the proxy.
func (s *stage) serveWithKey(ctx context.Context, l *leg) (string, error) {
	servers, err := json.Marshal(map[string]any{"everything": map[string]any{"command": s.server}})
	if err != nil {
		return "", err
	}
	h, err := built.Furnish(ctx, s.rig.dragoman, s.dir, "mcpServers: "+string(servers))
	if err != nil {
		return "", fmt.Errorf("a key for the suite: %w", err)
	}
	s.env = append(s.environ(), h.Env...)
	const path = "/s/everything/mcp"
	at, err := s.listen(ctx, "dragoman.log", path, func(addr string) []string {
		return []string{s.rig.dragoman, "serve", "-c", h.File, "--listen", addr}
	})
	if err != nil {
		return "", err
	}
	s.after = append(s.after, func() error { return h.Check(context.WithoutCancel(ctx), l.of > 1) })
	front, err := h.Front(strings.TrimSuffix(at, path), nil)
	if err != nil {
		return "", err
	}
	return s.behind(front, path)
}

// behind serves a handler in front of the processes, and returns the URL of a path there.
func (s *stage) behind(front http.Handler, path string) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	proxy := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: front}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(ln) }()
	s.down = append(s.down, func() {
		_ = proxy.Close()
		<-served
	})
	return "http://" + ln.Addr().String() + path, nil
}
