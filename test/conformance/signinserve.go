//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/test/tab"
)

// people use one `dragoman serve` after the other, with a browser and an API key each.
var people = []string{"ann", "bob"}

// refused are the scenarios in which nobody may get in, and the suite counts attempts. They have one person.
var refused = []string{
	"auth/scope-retry-limit", "auth/resource-mismatch", "auth/iss-supported-missing", "auth/iss-wrong-issuer", "auth/iss-unexpected",
	"auth/iss-normalized", "auth/metadata-issuer-mismatch",
}

// throughServe is two clients of `dragoman serve`, each with a person who signs in for themselves.
func throughServe(ctx context.Context, h house) error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	cmd := exec.Command(h.dragoman, "serve", "--verbose", "-c", h.config(), "--listen", addr)
	cmd.Env, cmd.Stderr = h.environ(), os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() { // the deferred function waits for this goroutine
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	defer func() {
		cmd.Process.Signal(os.Interrupt)
		select {
		case <-p.done:
		case <-time.After(3 * time.Second):
			cmd.Process.Kill()
			<-p.done
		}
	}()
	if err := p.ready(ctx, addr); err != nil {
		return err
	}
	for _, name := range people {
		if err := h.visit(ctx, addr, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if slices.Contains(refused, os.Getenv("MCP_CONFORMANCE_SCENARIO")) {
			break
		}
	}
	return nil
}

func (h house) config() string    { return filepath.Join(h.home, "config", "dragoman", "config.yaml") }
func (h house) environ() []string { return tab.Home(h.home, tab.Script{}) }

// visit invites a person, and lets them work with a key of theirs.
func (h house) visit(ctx context.Context, addr, name string) error {
	at := []string{"-c", h.config(), "--listen", addr}
	invitation, err := h.output(ctx, append([]string{"people", "invite", name}, at...)...)
	if err != nil {
		return err
	}
	p := &person{browser: new(tab.Browser)}
	if page, err := p.browser.Open(ctx, invitation, tab.Script{}); err != nil || page.Status >= 400 {
		return fmt.Errorf("the invitation: %v, %+v", err, page)
	}
	// On loopback, the browser has its session at a name that the link of a sign-in doesn't have. So the person is
	// told to open a link of theirs, and goes on from there.
	p.enter = func(ctx context.Context) (string, error) {
		return h.output(ctx, append([]string{"people", "link", name}, at...)...)
	}
	key, err := h.output(ctx, append([]string{"keys", "add", name + "-laptop", "--owner", name}, at...)...)
	if err != nil {
		return err
	}
	return p.connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "http://" + addr + "/s/suite/mcp", HTTPClient: &http.Client{Transport: withKey(key)}, MaxRetries: -1,
	})
}

// output runs a command of Dragoman and returns what it prints.
func (h house) output(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, h.dragoman, args...)
	cmd.Env = h.environ()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = errors.Join(fmt.Errorf("%s: %w", strings.Join(args, " "), err), errors.New(stderr.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// withKey sends an API key with each request.
type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}
