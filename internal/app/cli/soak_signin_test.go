//go:build unix

package cli

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// soakTime is the environment variable that says how long TestSoakSignIn takes. Tokens then live a tenth of that, and a
// minute at most.
const soakTime = "DRAGOMAN_SOAK_SIGNIN"

// TestSoakSignIn lets three processes share a sign-in, with 16 clients each, at an issuer that ends the sign-in when
// a refresh token comes twice. The token is renewed once in each of its lives, nobody is asked to sign in, and no call
// fails.
func TestSoakSignIn(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 20 seconds")
	}
	t.Parallel()
	length, life := 20*time.Second, 3*time.Second
	if text := os.Getenv(soakTime); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
		life = min(length/10, time.Minute).Truncate(time.Second)
	}
	t.Run("sqlite", func(t *testing.T) { (&soak{T: t, length: length, life: life}).run("") })
	t.Run("postgres", func(t *testing.T) {
		u, err := url.Parse(dbtest.URL(t))
		if err != nil {
			t.Fatal(err)
		}
		dbtest.Exec(t, u.String(), "DROP DATABASE IF EXISTS soak_signin")
		dbtest.Exec(t, u.String(), "CREATE DATABASE soak_signin")
		t.Cleanup(func() { dbtest.Exec(t, dbtest.URL(t), "DROP DATABASE soak_signin") })
		u.Path = "/soak_signin"
		(&soak{T: t, length: length, life: life}).run(u.String())
	})
}

// soak is one run of TestSoakSignIn.
type soak struct {
	*testing.T
	length, life   time.Duration
	issuer         *fake.OAuth
	server         string
	calls, session atomic.Int64
}

func (s *soak) run(database string) {
	s.issuer, s.server = secured(s.T, "no-grace", fmt.Sprintf("life=%d", int(s.life.Seconds())))
	home := s.TempDir()
	text := "mcpServers: {a: {url: '" + s.server + "'}}\n"
	if database != "" {
		text += "dragoman: {database: '" + database + "'}\n"
	}
	file := filepath.Join(home, "dragoman.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	s.signIn(home, file)
	var ends []string
	for i := range 3 {
		at := freePort()
		if i == 0 || database != "" { // run knows no other database than the usual one
			s.start(home, "serve", "-c", file, "--no-console", "--listen", at)
			at += "/s/a"
		} else {
			s.start(home, "run", "--listen", at, s.server)
		}
		ends = append(ends, "http://"+at+"/mcp")
	}
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	for _, end := range ends {
		s.arrives(ctx, end)
	}
	before, began := s.issuer.Counts(), time.Now()
	time.AfterFunc(s.length, stop)
	var clients sync.WaitGroup
	for i := range 16 * len(ends) {
		clients.Go(func() { s.lives(ctx, ends[i%len(ends)], i) })
	}
	clients.Wait()
	s.judge(time.Since(began), before)
}

// judge checks what the issuer has seen since the clients came.
func (s *soak) judge(took time.Duration, before map[string]int) {
	now := s.issuer.Counts()
	// A token is renewed when four fifths of its life are over, by whoever calls next, and can't be used longer than a life.
	least, most := int(took/s.life)-1, int(took/(s.life*4/5))+1
	if n := now["refresh_token"] - before["refresh_token"]; n < least || n > most {
		s.Errorf("%d refreshes in %v, want %d to %d", n, took, least, most)
	}
	// If tokens were renewed because the server had refused them, each renewal would come after a 401. A call that a
	// busy machine holds up for the last fifth of a life may get one, too.
	late := now["401"] - before["401"]
	if now["authorize"] != 1 || now["register"] != 1 || now["authorization_code"] != 1 || late > 0 && late >= now["refresh_token"]-before["refresh_token"] {
		s.Errorf("the issuer counts %v, before the clients came %v", now, before)
	}
	if v := s.issuer.Violations(); len(v) > 0 {
		s.Errorf("%q", v)
	}
	s.Logf("%d calls in %d sessions, %d refreshes in %v with tokens of %v; at most %d in time; the issuer counts %v",
		s.calls.Load(), s.session.Load(), now["refresh_token"]-before["refresh_token"], took.Round(time.Second), s.life, most-1, now)
}

// command returns a command line of this program, at home in a folder.
func (s *soak) command(ctx context.Context, home string, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	c := exec.CommandContext(ctx, self)
	c.Args = append([]string{"dragoman-daemon"}, args...)
	c.Env = os.Environ()
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		c.Env = append(c.Env, name+"="+home)
	}
	return c
}

// signIn signs in with dragoman login, and plays the browser.
func (s *soak) signIn(home, file string) {
	p := &visitor{user: &user{s.T, home}, said: &logtest.Buffer{}}
	c := s.command(s.Context(), home, "login", "a", "--no-browser", "-c", file)
	c.Stderr = p.said
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	if link := p.find(anyLink); link != "" {
		p.visit(link, true)
	}
	if err := c.Wait(); err != nil {
		s.Fatalf("login: %v: %s", err, p.said)
	}
}

// start starts a process that runs until the test ends.
func (s *soak) start(home string, args ...string) {
	said := &logtest.Buffer{}
	c := s.command(context.WithoutCancel(s.Context()), home, args...)
	c.Stderr = said
	if err := c.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
		if s.Failed() {
			s.Logf("%s says:\n%.4000s", args[0], said)
		}
	})
}

// arrives makes the first call of a process, as soon as it's there.
func (s *soak) arrives(ctx context.Context, end string) {
	var err error
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		c := &soakClient{end: end}
		if err = c.calls(ctx, "first"); err == nil {
			return
		}
	}
	s.Fatalf("no call succeeds at %s: %v", end, err)
}

// lives is what one client does: calls with a second in between at most, in sessions of about 20 calls. Half of the
// clients are modern and have no sessions.
func (s *soak) lives(ctx context.Context, end string, number int) {
	for n := 0; ctx.Err() == nil; {
		c := &soakClient{end: end}
		if number%2 == 1 {
			if err := c.opens(ctx); err != nil {
				if ctx.Err() == nil {
					s.Errorf("client %d: a session: %v", number, err)
				}
				return
			}
			s.session.Add(1)
		}
		for range 20 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(rand.N(time.Second)):
			}
			n++
			if err := c.calls(ctx, fmt.Sprintf("%d of client %d", n, number)); err != nil && ctx.Err() == nil {
				s.Errorf("call %d of client %d: %v", n, number, err)
				return
			}
			s.calls.Add(1)
		}
	}
}

// soakClient calls the tool echo. It's modern, unless it has a session.
type soakClient struct{ end, session string }

const soakRevision = "2025-06-18"

func (c *soakClient) opens(ctx context.Context) error {
	_, h, err := c.posts(ctx, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+soakRevision+`","capabilities":{},"clientInfo":{"name":"soak","version":"1"}}}`)
	if err == nil {
		c.session = h.Get("Mcp-Session-Id")
		_, _, err = c.posts(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return err
}

func (c *soakClient) calls(ctx context.Context, text string) error {
	meta := ""
	if c.session == "" {
		meta = "," + modernMeta
	}
	got, _, err := c.posts(ctx, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`+text+`"}`+meta+`}}`)
	if err == nil && (!strings.Contains(got, `"text":"`+text+`"`) || strings.Contains(got, `"isError":true`)) {
		err = fmt.Errorf("the answer is %s", got)
	}
	return err
}

func (c *soakClient) posts(ctx context.Context, body string) (string, http.Header, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.end, strings.NewReader(body))
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case c.session != "":
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", soakRevision)
	case strings.Contains(body, "tools/call"):
		req.Header.Set("MCP-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "echo")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return string(b), resp.Header, err
}
