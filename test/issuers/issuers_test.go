//go:build unix

package issuers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/test/built"
	"github.com/dragoman-mcp/dragoman/test/tab"
)

func TestMain(m *testing.M) {
	tab.Main()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // zitadel's example logs every request
	leaktest.Main(m)
}

// TestRun signs in once, through `dragoman run URL` in an empty home. A second start asks nothing, and
// neither does a call after the access token has ended.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program")
	}
	program := build(t)
	for _, tc := range []struct {
		name   string
		npm    bool
		start  func(t *testing.T) *issuer
		person string
		wait   time.Duration // until the first access token has ended
	}{
		{"zitadel", false, func(t *testing.T) *issuer { return zitadel(t, "/") }, "id1", 0},
		{"oidc-provider", true, func(t *testing.T) *issuer { return oidcProvider(t, time.Hour) }, "ann", 0},
		{"oidc-provider, short tokens", true, func(t *testing.T) *issuer { return oidcProvider(t, 3*time.Second) }, "ann", 4 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.npm && os.Getenv("DRAGOMAN_ISSUERS") == "" {
				t.Skip("set DRAGOMAN_ISSUERS=1 (or make issuers) to run issuers from npm")
			}
			is := tc.start(t)
			u := &user{program: program, home: t.TempDir(), url: protected(t, is), is: is}
			u.configure(t)
			for _, start := range []string{"first", "second"} {
				if got := u.whoami(t); got != tc.person {
					t.Errorf("%s start: the server saw %q, want %q", start, got, tc.person)
				}
				if links := u.links(t); len(links) != 1 {
					t.Errorf("%s start: %d links were opened in all: %q", start, len(links), links)
				}
				time.Sleep(tc.wait)
			}
		})
	}
}

// user has a home, a browser and Dragoman.
type user struct {
	program, home, url string
	is                 *issuer
}

// configure writes the settings that an issuer needs into the user's configuration.
func (u *user) configure(t *testing.T) {
	t.Helper()
	if u.is.signIn == nil {
		return
	}
	b, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"protected": map[string]any{"url": u.url}},
		"dragoman":   map[string]any{"servers": map[string]any{"protected": map[string]any{"signIn": u.is.signIn}}},
	})
	dir := filepath.Join(u.home, "config", "dragoman")
	if err := errors.Join(err, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "config.yaml"), b, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// links returns the links that the user's browser was given.
func (u *user) links(t *testing.T) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(u.home, "links"))
	if err != nil {
		t.Log(err)
	}
	return strings.Fields(string(b))
}

// whoami starts Dragoman, lists until the tool is there, and returns what it says.
func (u *user) whoami(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	script := u.is.person
	script.Log = filepath.Join(u.home, "links")
	cmd := exec.Command(u.program, "run", "--verbose", u.url)
	cmd.Env = tab.Home(u.home, script)
	var log strings.Builder
	cmd.Stderr = &log
	defer func() {
		if t.Failed() {
			t.Logf("dragoman: %s", log.String())
		}
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "user", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}()
	for {
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == "whoami" }) {
			break
		}
		select { // until the person is done, there is only a tool that signs in
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the tool never came")
		}
	}
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "whoami"})
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// build builds the program, unless there is one to use.
func build(t *testing.T) string {
	t.Helper()
	if given := os.Getenv("DRAGOMAN_PROGRAM"); given != "" {
		return given
	}
	return built.Dragoman(t)
}
