package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// playSignIn checks a server that wants a sign-in, with a Dragoman that knows nothing yet and has no browser. The
// client gets the link in the way that its revision has for it, and its person opens it. The call then goes on by
// itself, or works when it's repeated.
func playSignIn(ctx context.Context, o *Options, p Pair) (err error) {
	a, err := fake.NewOAuth("ok", fake.Options{Set: map[string]string{"revision": p.Server.String(), "consent": "none"}})
	if err != nil {
		return err
	}
	s := &stage{program: o.Program}
	defer s.strike()
	s.ends = append(s.ends, func() { _ = a.Close() })
	if _, err := s.furnish(o, p); err != nil {
		return err
	}
	at, err := s.listen(a.Handler(), p.ServerTransport)
	if err != nil {
		return err
	}
	if err := s.through(ctx, at, p.ClientTransport); err != nil {
		return err
	}
	person := &person{}
	t, err := s.open(ctx, p, fake.ClientOptions{Answer: person.answer})
	if err != nil {
		return err
	}
	err = errors.Join(t.signIn(ctx, person, a), t.c.Close())
	for _, v := range append(t.c.Violations(), a.Violations()...) {
		if !t.provoked(v) {
			err = errors.Join(err, errors.New("a violation: "+v))
		}
	}
	return err
}

func (t *talk) signIn(ctx context.Context, person *person, a *fake.OAuth) error {
	names, _, err := t.list(ctx, "tools/list", "tools", "name")
	if err == nil {
		err = same("the tools before the sign-in", strings.Join(names, " "), "sign_in")
	}
	if err != nil {
		return err
	}
	r, err := t.tool(ctx, "count", "{}", fake.CallOptions{}) // says how often it was executed
	if err != nil {
		return err
	}
	asks, links := 1, 0
	if !t.Client.Can(mcp.URLElicitation) {
		asks, links = 0, 1
		text := textOf(r.Result)
		if member(r.Result, "isError") != "true" || !strings.Contains(text, "http") {
			return fmt.Errorf("the client got no link: %s", clip(string(r.Result)))
		}
		link := text[strings.Index(text, "http"):]
		if err := person.open(ctx, link[:strings.IndexByte(link, ' ')]); err != nil {
			return err
		}
		// The issuer has sent the browser back, and the credential is stored, so nothing is left to wait for.
		if r, err = t.tool(ctx, "count", "{}", fake.CallOptions{}); err != nil {
			return err
		}
	}
	if err := same("what count says", textOf(r.Result), "1"); err != nil {
		return err
	}
	if names, _, err = t.list(ctx, "tools/list", "tools", "name"); err != nil {
		return err
	}
	if !slices.Contains(names, "count") || slices.Contains(names, "sign_in") {
		return fmt.Errorf("after the sign-in, the tools are %s", strings.Join(names, " "))
	}
	n := a.Counts()
	return errors.Join(
		same("the questions to the person", fmt.Sprint(len(t.c.Asks())), fmt.Sprint(asks)),
		same("the links that the person has opened", fmt.Sprint(person.opened()), "1"),
		same("the links in results", fmt.Sprint(links), fmt.Sprint(1-asks)),
		same("the registrations and sign-ins at the issuer", fmt.Sprint(n["register"], n["authorize"]), "1 1"),
	)
}

// person is who has a browser and opens links.
type person struct {
	mu    sync.Mutex
	links int
}

func (p *person) opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.links
}

// open opens a link and follows it to the end.
func (p *person) open(ctx context.Context, link string) error {
	p.mu.Lock()
	p.links++
	p.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return err
	}
	t := &http.Transport{DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the page behind the link says %s: %s", resp.Status, clip(string(body)))
	}
	return err
}

// answer accepts links, and opens them.
func (p *person) answer(ctx context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
	link := textAt(a.Params, jsonrpc.Whole(a.Params), "url")
	if link == "" {
		return fake.Obliging(a)
	}
	if err := p.open(ctx, link); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: err.Error()}
	}
	return []byte(`{"action":"accept"}`), nil
}

// furnish gives Dragoman an empty home and no browser, and returns the home.
func (s *stage) furnish(o *Options, p Pair) (home string, err error) {
	if home, err = os.MkdirTemp("", "dragoman-matrix-"); err != nil {
		return "", err
	}
	s.ends = append(s.ends, func() { _ = os.RemoveAll(home) })
	if o.Env != nil {
		s.env = o.Env(p)
	}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "APPDATA", "LOCALAPPDATA", "USERPROFILE"} {
		s.env = append(s.env, name+"="+home)
	}
	s.env = append(s.env, "BROWSER=", "DISPLAY=", "WAYLAND_DISPLAY=", "SSH_CONNECTION=127.0.0.1 1 127.0.0.1 22")
	if o.Capture != nil {
		s.capture = o.Capture(p)
	}
	return home, nil
}

// listen serves a handler on this machine and returns the fake.Where of its endpoint.
func (s *stage) listen(handler http.Handler, t Transport) (fake.Where, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fake.Where{}, err
	}
	h := &http.Server{Handler: handler, ReadHeaderTimeout: openWithin}
	var serving sync.WaitGroup
	serving.Go(func() { _ = h.Serve(l) })
	s.ends = append(s.ends, func() {
		_ = h.Close()
		serving.Wait()
	})
	if t == SSE {
		return fake.Where{URL: "http://" + l.Addr().String() + "/sse"}, nil
	}
	return fake.Where{URL: "http://" + l.Addr().String() + "/mcp"}, nil
}
