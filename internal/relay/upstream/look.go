package upstream

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// These constants bound lookAround.
const (
	lookTimeout = 3 * time.Second // for all requests together; the timeout of the start also applies
	lookBody    = 64 << 10        // the maximum length of one response in bytes
)

// around is what lookAround has found.
type around struct {
	endpoints []string // the URLs of MCP endpoints at the usual paths
	tls       bool     // the URL begins with http, but the port speaks TLS
}

// lookAround returns the URLs of MCP endpoints at the usual paths, if err says that the configured
// URL has no MCP endpoint. If the connection broke, it looks whether the port speaks TLS. All these URLs have the same origin as the configured URL, so the
// configured headers are not sent to other servers. lookAround sends only requests that do not
// change the state of the server: a ping, or a GET for HTTP+SSE.
func (d *dialer) lookAround(ctx context.Context, err error) (found around) {
	if d.spec.URL == "" || ctx.Err() != nil {
		return found
	}
	f := failure.Of(err, d.facts())
	ctx, stop := context.WithTimeout(ctx, lookTimeout)
	defer stop()
	switch {
	case f.Class == failure.WrongPath, f.Class == failure.ProtocolError && f.Status != 0:
	case f.Class == failure.Unreachable || f.Class == failure.CutOff || f.Class == failure.Exited:
		found.tls = httplink.SpeaksTLS(ctx, d.spec.URL, nil)
		return found
	default:
		return found
	}
	cas, err := httplink.LoadCAs(d.spec.CAFile)
	if err != nil {
		return found
	}
	// These addresses are guesses, so nobody's credentials go there.
	found.endpoints = Endpoints(ctx, d.spec.URL, httplink.Options{CAs: cas, Header: d.header()})
	return found
}

// Endpoints returns the URLs of MCP endpoints at the usual paths of the same origin as an address. It sends
// at most four requests, which don't change the state of the server, and takes a few seconds at most.
func Endpoints(ctx context.Context, address string, o httplink.Options) (found []string) {
	ctx, stop := context.WithTimeout(ctx, lookTimeout)
	defer stop()
	link, err := httplink.New(address, o)
	if err != nil {
		return nil
	}
	defer link.Close()
	for _, path := range usualPaths(address) {
		at, err := link.Resolve(path)
		if err != nil {
			continue
		}
		if looksLikeMCP(ctx, at, path) {
			shown, _ := url.Parse(at.String())
			shown.User = nil
			found = append(found, shown.String())
		}
	}
	return found
}

// usualPaths returns the paths /mcp and /sse, below the root and below the path of the address. It
// leaves out the path of the address itself.
func usualPaths(address string) (paths []string) {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	own := strings.TrimSuffix(u.EscapedPath(), "/")
	for _, prefix := range []string{"", own} {
		for _, end := range []string{"/mcp", "/sse"} {
			if p := prefix + end; p != own && !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// looksLikeMCP reports whether the server at an address answers like an MCP endpoint or requires
// credentials.
func looksLikeMCP(ctx context.Context, at *httplink.Link, path string) bool {
	h := at.NewHeader(2)
	if strings.HasSuffix(path, "/sse") {
		h["Accept"] = []string{"text/event-stream"}
		resp, err := at.Send(ctx, http.MethodGet, h, nil)
		if err != nil {
			return false
		}
		defer resp.Close()
		return resp.StatusCode == http.StatusOK && resp.Media() == httplink.Events || resp.StatusCode == http.StatusUnauthorized
	}
	h["Accept"] = []string{"application/json, text/event-stream"}
	h["Content-Type"] = []string{"application/json"}
	resp, err := at.Send(ctx, http.MethodPost, h, jsonrpc.AppendRequest(nil, "1", "ping", nil))
	if err != nil {
		return false
	}
	defer resp.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusOK && resp.Media() == httplink.Events:
		return true
	case resp.Media() != httplink.JSON:
		return false
	}
	body, err := resp.ReadAll(lookBody)
	if err != nil {
		return false
	}
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{Tolerant: true})
	return err == nil && (m.Kind == jsonrpc.Result || m.Kind == jsonrpc.Failure)
}
