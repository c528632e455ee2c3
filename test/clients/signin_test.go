//go:build unix

package clients

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/dragoman-mcp/dragoman/test/tab"
)

// TestTA23ClientsSignIn lets clients of others sign in at Dragoman's own authorization server on loopback: a strict
// OAuth client, and the SDKs for TypeScript and Go. They refresh, and those that were removed register anew.
func TestTA23ClientsSignIn(t *testing.T) {
	if os.Getenv("DRAGOMAN_CLIENTS") == "" {
		t.Skip("set DRAGOMAN_CLIENTS=1 (or make clients) to run clients from npm")
	}
	h := newHouse(t)
	for _, mode := range []string{"oauth4webapi", "@modelcontextprotocol/sdk", "@modelcontextprotocol/client"} {
		t.Run(mode, func(t *testing.T) {
			if err := h.script(t, mode); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("Go SDK", h.goSDK)
}

// house is a `dragoman serve` at which clients sign in, and a browser of the person who runs it.
type house struct {
	*rig
	base, folder string
	browser      *tab.Browser
	key          string // of an admin
}

func newHouse(t *testing.T) *house {
	h := &house{rig: prepare(t), folder: t.TempDir(), browser: new(tab.Browser)}
	t.Setenv("HOME", h.folder)
	t.Setenv("XDG_RUNTIME_DIR", h.folder)
	config := fmt.Sprintf("dragoman: {access: {loopback: keys, signIn: own}, database: %q}\n", filepath.Join(h.folder, "dragoman.db"))
	if err := os.WriteFile(filepath.Join(h.folder, "dragoman.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h.base = h.rig.serve(t, config)
	h.key = h.dragoman(t, "-q", "keys", "add", "admin", "--role", "admin", "-c", filepath.Join(h.folder, "dragoman.yaml"))
	return h
}

// dragoman runs a command and returns what it prints.
func (h *house) dragoman(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), h.rig.dragoman, args...)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("dragoman %v: %v %s", args, err, failed.String())
	}
	return strings.TrimSpace(string(out))
}

// open opens a client's URL in the browser. The person has to open a link to the console then, and allows it.
func (h *house) open(t *testing.T, link string) {
	allow := tab.Script{Press: []string{"Allow"}}
	page, err := h.browser.Open(t.Context(), link, allow)
	if err == nil && page.Status == http.StatusOK {
		page, err = h.browser.Open(t.Context(), h.dragoman(t, "console", "--listen", strings.TrimPrefix(h.base, "http://")), allow)
	}
	if err != nil || page.Status != http.StatusOK {
		t.Errorf("the person: %v %+v", err, page)
	}
}

// remove removes a client.
func (h *house) remove(t *testing.T, id string) {
	for range 50 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, h.base+"/api/v1/grants?client="+url.QueryEscape(id), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+h.key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		time.Sleep(100 * time.Millisecond) // serve is a separate process, which learns of the key within a second
	}
	t.Error("the client could not be removed")
}

// script runs signin.mjs, and does what it asks for.
func (h *house) script(t *testing.T, mode string) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.node, filepath.Join(h.dir, "signin.mjs"), h.base+"/mcp", mode)
	var failed strings.Builder
	cmd.Stderr = &failed
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		what, arg, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "OPEN":
			h.open(t, arg)
		case "REMOVE":
			h.remove(t, arg)
		default:
			t.Log(lines.Text())
			continue
		}
		if _, err := io.WriteString(in, "done\n"); err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, failed.String())
	}
	return nil
}

// goSDK signs in with the Go SDK.
func (h *house) goSDK(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	back := make(chan url.Values, 1)
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { back <- r.URL.Query() })}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	defer func() {
		_ = srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	redirect := "http://" + l.Addr().String() + "/callback"
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{ClientName: "Go SDK", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none"}},
		RedirectURL:                     redirect,
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			h.open(t, args.URL)
			select {
			case q := <-back:
				return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
			case <-time.After(10 * time.Second):
				return nil, errors.New("nobody came back")
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: h.base + "/mcp", OAuthHandler: handler}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if tools, err := session.ListTools(ctx, nil); err != nil || len(tools.Tools) == 0 {
		t.Errorf("%v %v", tools, err)
	}
}
