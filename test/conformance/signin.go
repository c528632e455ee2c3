//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	names "github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/test/tab"
)

const (
	theirTool  = "test-tool" // of the suite's servers in the scenarios auth/*
	signInTool = "sign_in"   // of a Dragoman that needs a sign-in

	patience = time.Second // until the person calls signInTool
)

// theirDocument is the client document that auth/basic-cimd expects. Nobody can fetch it.
const theirDocument = "https://conformance-test.local/client-metadata.json"

// signInWithin is how long the client waits for tools. In some scenarios they must not come, and all of a leg
// share one limit.
const signInWithin = 15 * time.Second

// signInMode runs as the client under test in the scenarios auth/*. It gives `dragoman run URL` a home
// of its own, with the settings that belong to the scenario and a scripted browser, connects a plain
// client to it, and lists and calls. The suite's servers watch how Dragoman signs in.
func signInMode(args []string) int {
	fs := flag.NewFlagSet("sign-in", flag.ContinueOnError)
	dragoman := fs.String("dragoman", "", "Dragoman's program")
	serve := fs.Bool("serve", false, "let two people sign in through dragoman serve")
	if fs.Parse(args) != nil || fs.NArg() != 1 || *dragoman == "" {
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(context.Background(), signInWithin)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	way := throughRun
	if *serve {
		way = throughServe
	}
	if err := signIn(ctx, way, *dragoman, fs.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "conformance sign-in:", err)
		return exitWorse
	}
	return 0
}

// house is an empty home with Dragoman in it.
type house struct {
	dragoman, home, url string // url is the suite's server
}

// signIn makes a house for the scenario that the suite has started, and lets people in it work.
func signIn(ctx context.Context, way func(context.Context, house) error, dragoman, url string) (err error) {
	home, err := os.MkdirTemp("", "dragoman-conformance-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	settings, err := signInSettings(home, os.Getenv("MCP_CONFORMANCE_SCENARIO"), os.Getenv("MCP_CONFORMANCE_CONTEXT"))
	if err != nil {
		return err
	}
	if err := configure(home, url, settings); err != nil {
		return err
	}
	return way(ctx, house{dragoman, home, url})
}

// throughRun is a client of `dragoman run URL`.
func throughRun(ctx context.Context, h house) error {
	p := &person{links: filepath.Join(h.home, "links"), browser: new(tab.Browser)}
	cmd := exec.Command(h.dragoman, "run", "--verbose", h.url)
	cmd.Env = tab.Home(h.home, tab.Script{Log: p.links})
	cmd.Stderr = os.Stderr // the suite stores stderr with the checks of the scenario
	return p.connect(ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: 3 * time.Second})
}

// connect connects the person's client, and works.
func (p *person) connect(ctx context.Context, t mcp.Transport) (err error) {
	session, err := p.client().Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return p.work(ctx, session)
}

// configure writes the configuration file of a home, with the suite's server and its settings.
func configure(home, url string, signIn map[string]any) error {
	if signIn == nil {
		signIn = map[string]any{}
	}
	b, err := json.Marshal(map[string]any{
		"mcpServers": map[string]any{"suite": map[string]any{"url": url}},
		"dragoman": map[string]any{
			"access":  map[string]any{"loopback": "keys"}, // for serve; run needs none
			"servers": map[string]any{"suite": map[string]any{"signIn": signIn}},
		},
	})
	if err != nil {
		return err
	}
	dir := filepath.Join(home, "config", "dragoman")
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "config.yaml"), b, 0o600)) // every JSON document is also YAML
}

// theirs is what the suite tells a client about a scenario.
type theirs struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	PrivateKey   string `json:"private_key_pem"`
	Assertion    string `json:"valid_jwt"`
	IDToken      string `json:"idp_id_token"`
	IDPClientID  string `json:"idp_client_id"`
	IDPIssuer    string `json:"idp_issuer"`
}

// signInSettings returns the settings signIn of a scenario's server, or nil if it needs none.
func signInSettings(home, scenario, told string) (map[string]any, error) {
	var c theirs
	if told != "" {
		if err := json.Unmarshal([]byte(told), &c); err != nil {
			return nil, err
		}
	}
	file := func(name, content string) (string, error) {
		path := filepath.Join(home, name)
		return path, os.WriteFile(path, []byte(content), 0o600)
	}
	switch scenario {
	case "auth/basic-cimd":
		return map[string]any{"clientMetadataURL": theirDocument}, nil
	case "auth/pre-registration":
		return map[string]any{"clientID": c.ClientID, "clientSecret": c.ClientSecret}, nil
	case "auth/client-credentials-basic":
		return map[string]any{"how": "client-credentials", "clientID": c.ClientID, "clientSecret": c.ClientSecret}, nil
	case "auth/client-credentials-jwt":
		return map[string]any{"how": "client-credentials", "clientID": c.ClientID, "privateKey": c.PrivateKey}, nil
	case "auth/wif-jwt-bearer":
		path, err := file("assertion", c.Assertion)
		return map[string]any{"how": "workload", "clientID": c.ClientID, "assertion": path}, err
	case "auth/enterprise-managed-authorization":
		path, err := file("id-token", c.IDToken)
		return map[string]any{
			"how": "enterprise", "clientID": c.ClientID, "clientSecret": c.ClientSecret, "assertion": path,
			"provider": map[string]any{"issuer": c.IDPIssuer, "clientID": c.IDPClientID},
		}, err
	}
	return nil, nil
}

// person uses the client: it opens links, and calls again when told to.
type person struct {
	links   string // the file with the links that Dragoman has opened; "" if it opens none
	browser *tab.Browser
	enter   func(ctx context.Context) (link string, err error) // returns a link with which the person gets a session; may be nil
}

// client returns a client that shows links to its user.
func (p *person) client() *mcp.Client {
	return mcp.NewClient(&mcp.Implementation{Name: "conformance", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if r.Params.Mode != "url" {
				return nil, fmt.Errorf("asked in the mode %q, which the client does not have", r.Params.Mode)
			}
			return &mcp.ElicitResult{Action: "accept"}, p.open(ctx, r.Params.URL)
		},
	})
}

// open opens a link, unless Dragoman has opened it.
func (p *person) open(ctx context.Context, link string) error {
	if opened, err := os.ReadFile(p.links); p.links != "" && err == nil && slices.Contains(strings.Split(string(opened), "\n"), link) {
		return nil
	}
	page, err := p.browser.Open(ctx, link, allow)
	if err == nil && page.Status == http.StatusUnauthorized && p.enter != nil {
		if link, err = p.enter(ctx); err == nil {
			page, err = p.browser.Open(ctx, link, allow)
		}
	}
	if err == nil && page.Status >= 400 {
		fmt.Fprintf(os.Stderr, "the person is at %s and sees %s: %s\n", page.URL, http.StatusText(page.Status), strings.Join(strings.Fields(page.Body), " "))
	}
	return err
}

// allow presses what a page of Dragoman calls the button that doesn't refuse.
var allow = tab.Script{Press: []string{"Go on"}}

// work lists until the tool is there, and calls it twice. Before the person has signed in, the list may have
// only a tool that signs in. The person calls it if the browser that Dragoman has started brings nothing.
func (p *person) work(ctx context.Context, session *mcp.ClientSession) error {
	begun := time.Now()
	for {
		list, err := session.ListTools(ctx, nil)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		has := func(name string) bool {
			return slices.ContainsFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == name })
		}
		if has(theirTool) {
			break
		}
		if has(signInTool) && time.Since(begun) > patience {
			if err := p.call(ctx, session, signInTool); err != nil {
				return err
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return errors.New("the tool never came")
		}
	}
	for range 2 {
		if err := p.call(ctx, session, theirTool); err != nil {
			return err
		}
	}
	return nil
}

// call calls a tool. If the result says where to sign in first, the person does, and calls again.
func (p *person) call(ctx context.Context, session *mcp.ClientSession, tool string) error {
	for range 3 {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
		if err != nil {
			return fmt.Errorf("call: %w", err)
		}
		if !res.IsError {
			return nil
		}
		said := ""
		for _, c := range res.Content {
			if t, ok := c.(*mcp.TextContent); ok {
				said += t.Text
			}
		}
		where, _ := res.Meta[names.KeySignIn].(map[string]any)
		link, ok := where["link"].(string)
		if !ok {
			return fmt.Errorf("call: the tool failed: %s", said)
		}
		if err := p.open(ctx, link); err != nil {
			return err
		}
	}
	return errors.New("call: it asks for one sign-in after another")
}
