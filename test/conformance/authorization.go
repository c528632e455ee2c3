//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/test/tab"
)

// authorizationServer is a running authorization server that the suite tests.
type authorizationServer struct {
	issuer, resource string
	// open visits a link of the server, as a person who agrees to everything, and returns the last page.
	open func(ctx context.Context, link string) (*tab.Page, error)
}

// runAuthorization starts an authorization server, registers a client and runs the suite. The suite
// prints the link that a person has to open, and waits for the redirect.
func (r *rig) runAuthorization(ctx context.Context, l *leg, dir string) (problems []string, err error) {
	s := &stage{rig: r, dir: dir}
	as, err := s.authorizationServer(ctx, l)
	if err == nil {
		err = r.grant(ctx, l, dir, as)
	}
	for _, p := range s.strike() {
		problems = append(problems, p.Error())
	}
	return problems, err
}

// authorizationServer starts the server of a leg.
func (s *stage) authorizationServer(ctx context.Context, l *leg) (*authorizationServer, error) {
	switch l.via {
	case "direct":
		at, err := s.listen(ctx, "fake.log", "", func(addr string) []string {
			return []string{s.rig.dragoman, "fake", "oauth", "--set", "documents=yes", "--listen", addr, "ok"}
		})
		return &authorizationServer{issuer: at, resource: at + "/mcp", open: func(ctx context.Context, link string) (*tab.Page, error) {
			return tab.Open(ctx, link, tab.Script{})
		}}, err
	case "own":
		return s.ownServer(ctx)
	}
	return nil, fmt.Errorf("no such way: %s", l.via)
}

// ownServer starts Dragoman with its own authorization server. On loopback, a person without a session is
// told to open a link of the console in the same browser, and then goes on.
func (s *stage) ownServer(ctx context.Context) (*authorizationServer, error) {
	s.server = filepath.Join(s.dir, filepath.Base(s.rig.server))
	if err := linkOrCopy(s.rig.server, s.server); err != nil {
		return nil, err
	}
	config := filepath.Join(s.dir, "dragoman.yaml")
	b, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"everything": map[string]any{"command": s.server}},
		"dragoman":   map[string]any{"access": map[string]any{"signIn": "own", "loopback": "keys"}},
	})
	if err := errors.Join(err, os.WriteFile(config, b, 0o600)); err != nil {
		return nil, err
	}
	s.env = tab.Home(s.dir, tab.Script{})
	at, err := s.listen(ctx, "dragoman.log", "", func(addr string) []string {
		return []string{s.rig.dragoman, "serve", "-c", config, "--listen", addr}
	})
	if err != nil {
		return nil, err
	}
	allow, browser := tab.Script{Press: []string{"Allow"}}, new(tab.Browser)
	return &authorizationServer{issuer: at, resource: at + "/mcp", open: func(ctx context.Context, link string) (*tab.Page, error) {
		if page, err := browser.Open(ctx, link, allow); err != nil || page.Status >= 400 {
			return page, err
		}
		var out bytes.Buffer
		if err := run(ctx, s.dir, s.env, &out, s.rig.dragoman, "console", "-c", config, "--listen", strings.TrimPrefix(at, "http://")); err != nil {
			return nil, fmt.Errorf("console: %w: %s", err, out.String())
		}
		return browser.Open(ctx, strings.TrimSpace(out.String()), allow)
	}}, nil
}

// grant runs the suite at an authorization server.
func (r *rig) grant(ctx context.Context, l *leg, dir string, as *authorizationServer) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	id, err := register(ctx, as.issuer, "http://"+addr+"/callback")
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "suite.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	results := filepath.Join(dir, "results")
	if err := os.MkdirAll(results, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &opener{ctx: ctx, cancel: cancel, as: as, redirect: "http://" + addr}
	err = run(ctx, dir, []string{"NODE_OPTIONS=--require " + r.suite.hook}, io.MultiWriter(log, w), r.suite.node, r.suite.script,
		"authorization", "--url", as.issuer, "--client-id", id, "--resource", as.resource, "--port", port, "--spec-version", l.rev, "--output-dir", results)
	w.wg.Wait()
	if ctx.Err() != nil {
		return err
	}
	return nil // how the suite ended is in its checks
}

// register registers a public client (RFC 7591).
func register(ctx context.Context, issuer, redirect string) (id string, err error) {
	var metadata struct {
		Endpoint string `json:"registration_endpoint"`
	}
	if err := exchange(ctx, http.MethodGet, issuer+"/.well-known/oauth-authorization-server", nil, &metadata); err != nil {
		return "", err
	}
	var client struct {
		ID string `json:"client_id"`
	}
	err = exchange(ctx, http.MethodPost, metadata.Endpoint, map[string]any{
		"client_name": "conformance", "redirect_uris": []string{redirect}, "application_type": "native",
		"token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
	}, &client)
	return client.ID, err
}

// exchange sends a JSON document and reads one.
func exchange(ctx context.Context, method, url string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s: %s", url, res.Status, b)
	}
	return json.Unmarshal(b, out)
}

// opener opens the link that the suite prints on a line of its own, once the suite says that it listens.
type opener struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc // ends the suite, which would wait for minutes
	as       *authorizationServer
	redirect string // the beginning of the URL at which the visit has to end
	line     []byte
	link     string
	listens  bool
	wg       sync.WaitGroup
}

func (o *opener) Write(b []byte) (int, error) {
	for _, c := range b {
		if c != '\n' {
			o.line = append(o.line, c)
			continue
		}
		o.read(strings.TrimSpace(string(o.line)))
		o.line = o.line[:0]
	}
	return len(b), nil
}

func (o *opener) read(line string) {
	switch {
	case strings.HasPrefix(line, "Callback server started"):
		o.listens = true
	case strings.HasPrefix(line, o.as.issuer) && strings.Contains(line, "response_type=code"):
		o.link = line
	default:
		return
	}
	if o.listens && o.link != "" {
		o.wg.Go(o.visit)
	}
}

func (o *opener) visit() {
	page, err := o.as.open(o.ctx, o.link)
	if err == nil && !strings.HasPrefix(page.URL.String(), o.redirect) {
		err = fmt.Errorf("the visit ended after %q with %d: %s", page.Seen, page.Status, page.Body)
	}
	if err != nil {
		o.cancel(err)
	}
}
