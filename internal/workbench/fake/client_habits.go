package fake

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// role describes a simulated client: its revision, its habits and its timeouts.
type role struct {
	e           *edition
	habits      habits
	step, whole time.Duration
}

// habits are the ways in which a client deviates from its revision. The zero value is a strict
// client.
type habits struct {
	probes     bool // sends server/discover before initialize, in the same conversation
	fromZero   bool // counts ids and progress tokens from 0
	unoffered  bool // requests lists that the server did not declare
	noVersion  bool // omits MCP-Protocol-Version
	names      bool // sends Mcp-Method and Mcp-Name headers, and a log level in _meta
	forgetful  bool // never sends notifications/initialized
	wantsOAuth bool // requests a stream and OAuth metadata before initialize
}

// probeID is the id of the probe before initialize. A widely used client sends this id.
const probeID = jsonrpc.ID(`"server-discover-probe-1"`)

// probeWithin is the timeout of the probe.
const probeWithin = 3 * time.Second

// playSettings are the settings that every client profile has.
var playSettings = []Setting{
	{"step", "10000", "timeout of one step, in milliseconds"},
	{"whole", "60000", "timeout of all steps together, in milliseconds"},
}

// habitualClients returns the profiles of strict clients with one habit each.
func habitualClients() []Profile {
	client := func(name, revision, about string, kind Kind, h habits) Profile {
		return Profile{
			Name: name, About: about, Kind: kind, Side: ClientSide,
			Settings: append([]Setting{{"revision", revision, "the revision that the client speaks, one with initialize"}}, playSettings...),
			client: func(s *settings) (*role, error) {
				e, err := s.edition()
				if err != nil {
					return nil, err
				}
				if !e.has(handshake) {
					return nil, fmt.Errorf("the setting revision is %s, but this client needs a revision that has initialize", e.date)
				}
				return s.role(e, h)
			},
		}
	}
	return []Profile{
		client("id-zero", usual, "A client that counts ids and progress tokens from 0 and requests lists that the server did not declare.", Dialect, habits{fromZero: true, unoffered: true}),
		client("looks-for-oauth", usual, "An HTTP client that requests a stream and seven OAuth documents before initialize.", Dialect, habits{wantsOAuth: true}),
		client("mcp-method-in-the-old-era", "2025-11-25", "A client that opens with initialize, but sends Mcp-Method and a log level in _meta.", Dialect, habits{names: true}),
		client("no-version-header", usual, "A client that never sends MCP-Protocol-Version.", Dialect, habits{noVersion: true}),
		client("probe-then-initialize", "2025-11-25", "A client that sends server/discover and then, whatever the answer, initialize in the same conversation.", Dialect, habits{probes: true}),
		client("forgets-initialized", usual, "A client that never sends notifications/initialized.", Fault, habits{forgetful: true}),
	}
}

// role returns the role with the revision e, the habits h and the timeouts from the settings.
func (s *settings) role(e *edition, h habits) (*role, error) {
	r := &role{e: e, habits: h}
	for _, d := range []struct {
		name string
		to   *time.Duration
	}{{"step", &r.step}, {"whole", &r.whole}} {
		ms, err := s.number(d.name, 1, 3_600_000)
		if err != nil {
			return nil, err
		}
		*d.to = time.Duration(ms) * time.Millisecond
	}
	return r, nil
}

// roleOf returns the role of the client profile with the given name.
func roleOf(name string, set map[string]string) (*role, error) {
	p, _, r, err := loadClient(name, set)
	if err == nil && p.client == nil {
		err = fmt.Errorf("the profile %s does not simulate a client of one revision", p.Name)
	}
	return r, err
}

// probe sends server/discover as a modern client does. The client ignores the answer, and continues
// even if no answer comes.
func (c *Client) probe(ctx context.Context) error {
	all := editions()
	newest := all[len(all)-1]
	asking, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	_, err := c.exchange(asking, mcp.MethodDiscover, []byte("{}"), CallOptions{
		probe: newest,
		Meta:  quote(mcp.KeyVersion) + ":" + quote(newest.date) + "," + quote(mcp.KeyClientInfo) + ":" + c.identity() + "," + quote(mcp.KeyClientCaps) + ":{}",
	})
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case dead != nil:
		return fmt.Errorf("%s: %w", mcp.MethodDiscover, err)
	}
	return nil
}

// wellKnown lists the paths of OAuth metadata that the client requests. lookForOAuth replaces %s
// with the path of the endpoint (RFC 8414 section 3.1, RFC 9728 section 3.1, OpenID Connect
// Discovery 1.0 section 4).
var wellKnown = []string{
	"/.well-known/oauth-protected-resource%s", "/.well-known/oauth-protected-resource",
	"/.well-known/oauth-authorization-server%s", "/.well-known/oauth-authorization-server",
	"/.well-known/openid-configuration%s", "%s/.well-known/openid-configuration", "/.well-known/openid-configuration",
}

// lookForOAuth requests a stream without a session, and then the OAuth metadata. The server must
// answer each request for metadata with 404, or with 200 and JSON.
func (c *Client) lookForOAuth(ctx context.Context) error {
	h, ok := c.wire.(*httpWire)
	if !ok {
		return nil
	}
	at, err := url.Parse(h.url)
	if err != nil {
		return err
	}
	path := strings.TrimSuffix(at.Path, "/")
	for _, place := range append([]string{at.Path}, wellKnown...) {
		to := *at
		to.Path, to.RawQuery = strings.ReplaceAll(place, "%s", path), ""
		if err := c.look(ctx, h.client, &to, place == at.Path); err != nil {
			return fmt.Errorf("GET %s: %w", to.Path, err)
		}
	}
	return nil
}

func (c *Client) look(ctx context.Context, client *http.Client, at *url.URL, stream bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set(mcp.HeaderVersion, "2024-11-05")
	if stream {
		r.Header.Set("Accept", "text/event-stream")
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if stream {
		return nil // the server may keep the stream open or refuse it
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, bodyOfErrorMost))
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusNotFound:
	case resp.StatusCode != http.StatusOK || jsonrpc.Valid(body, jsonrpc.Limits{}) != nil:
		c.violate("GET %s was answered with the status %d, want 404, or 200 with a JSON document", clip(at.Path), resp.StatusCode)
	}
	return nil
}

// hangUp ends the conversation with the error why. On a pipe, it also closes the input of the
// server, so that blocked writes fail.
func (c *Client) hangUp(why error) {
	c.endWith(why)
	if p, ok := c.wire.(*pipeWire); ok {
		_ = p.in.Close()
	}
}
