package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// people is how many people use the servers of Header and SignedIn. The sixteen clients of a comparison have a key
// each.
const people = 16

// The people whose memory is measured, and those who come before them, so that what "dragoman serve" allocates only once
// isn't counted.
const crowd, firstPeople = 1000, 600

// memoryOfPeople returns how many bytes "dragoman serve" needs for each person who has listed the tools of a server at
// which nobody signs in.
func (s *stage) memoryOfPeople(ctx context.Context) (bytes float64, err error) {
	say("house: %d people", firstPeople+crowd)
	h, err := s.configureHouse("  "+served+": {url: 'http://"+s.upstreams[words.Modern]+"/mcp'}\n", "  record: off\n  access: {loopback: keys}\n", firstPeople+crowd)
	if err != nil {
		return 0, err
	}
	if err := h.safe.Store().Close(); err != nil {
		return 0, err
	}
	p, addr, err := s.launch(append(h.env, idleEnv...), s.dragoman, func(addr string) []string {
		return []string{"serve", "-c", h.file, "--no-console", "--listen", addr}
	})
	if p != nil {
		defer p.Stop()
	}
	if err != nil {
		return 0, err
	}
	look := func(from, to int) (own int64, err error) {
		for i, key := range h.keys[from:to] {
			c := load.Dial(addr, words.Modern, i)
			c.Tool, c.Key = served+"__echo", key
			err := c.List()
			c.Close()
			if err != nil {
				return 0, p.Explain(err)
			}
		}
		if !pause(ctx, s.settle) {
			return 0, ctx.Err()
		}
		_, own, err = proc.Resident(p.PID())
		return own, err
	}
	before, err := look(0, firstPeople)
	if err != nil {
		return 0, err
	}
	after, err := look(firstPeople, len(h.keys))
	return float64(after-before) / crowd, err
}

// inhabited configures a "dragoman serve" with n API keys, and returns those that clients send. url is the server's.
func (s *stage) inhabited(c *contestant, url, servers, settings string, n int) (env []string, file string, keys []string, err error) {
	if c.Path == report.SignedIn {
		if s.issuer == nil {
			if s.issuer, err = openIssuer(); err != nil {
				return nil, "", nil, err
			}
		}
		settings += "  servers: {" + served + ": {signIn: {issuer: '" + s.issuer.url + "'}}}\n"
	}
	h, err := s.configureHouse(servers, settings, n)
	if err != nil {
		return nil, "", nil, err
	}
	defer func() { err = errors.Join(err, h.safe.Store().Close()) }()
	switch c.Path {
	case report.SignedIn:
		return h.env, h.file, h.keys, s.issuer.signIn(context.Background(), &h, url)
	case report.Header:
		return h.env, h.file, h.keys, nil
	}
	return h.env, h.file, h.keys[n/2 : n/2+1], nil
}

// issuer is an authorization server whose tokens live longer than a comparison. The echo servers take any token.
type issuer struct {
	url   string
	oauth *fake.OAuth
	web   http.Server
	ended chan struct{}
}

func openIssuer() (*issuer, error) {
	o, err := fake.NewOAuth("ok", fake.Options{Set: map[string]string{"consent": "none", "life": "86400"}})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	x := &issuer{url: "http://" + ln.Addr().String(), oauth: o, ended: make(chan struct{})}
	x.web.Handler, x.web.ReadHeaderTimeout = o.Handler(), 10*time.Second
	go func() {
		defer close(x.ended)
		_ = x.web.Serve(ln)
	}()
	return x, nil
}

func (x *issuer) close() {
	_, _ = x.web.Close(), x.oauth.Close()
	<-x.ended
}

// signIn signs the owners of all keys of a house in at the server with a URL.
func (x *issuer) signIn(ctx context.Context, h *house, url string) error {
	d := signin.New(signin.Options{Open: func(context.Context) (*store.Safe, error) { return h.safe, nil }, Egress: egress.New(egress.Options{})})
	defer d.Close()
	server, err := d.Server("default", served, url, signin.Settings{Issuer: x.url})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	for _, owner := range h.owners {
		f, err := server.Begin(ctx, server.Of(identity.Named(owner)), false)
		if err == nil {
			err = visit(ctx, f.Link())
		}
		if err == nil {
			err = f.Wait(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s cannot sign in: %w", owner, err)
		}
	}
	return nil
}

// visit opens a link as a browser does.
func visit(ctx context.Context, link string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.300s", resp.Status, text)
	}
	return nil
}
