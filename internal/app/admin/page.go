package admin

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string

	pageTemplate = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageHTML)) })
	// pagePolicy allows only the style of the page itself. It forbids scripts, images, frames and
	// forms.
	pagePolicy = sync.OnceValue(func() string {
		return "default-src 'none'; style-src 'sha256-" + digest(pageCSS) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	})
)

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page holds the values for the template of the page at /.
type page struct {
	Style        template.CSS
	Version      string
	State        string // a sentence
	Endpoint     string // the URL for clients
	Entry        string // the JSON entry for the configuration file of a client that supports HTTP
	CommandEntry string // the JSON entry for the configuration file of a client that supports only stdio
	Local        bool   // whether the page is visible only on this machine
	Console      bool   // there is a console
	Flag         string // the flag with which commands find this process, with a space in front
	Servers      []pageServer
}

type pageServer struct{ Name, State string }

// front answers /, and /readyz.
type front struct {
	project    project
	access     *Access
	local      bool   // see Options.Local
	publicURL  string // see Options.PublicURL
	consoleOff string // see Options.ConsoleOff
	version    string
	closed     bool                     // see Options.Closed
	views      func(*http.Request) bool // see Options.Views
	away       func() bool              // see Options.Away
	leaving    func() bool              // see Options.Leaving; may be nil
	unfit      func() string            // see Options.Unfit; may be nil
}

// servePage answers / with a page that explains how to connect a client: as HTML for a browser,
// otherwise as plain text. The page lists the servers only if no other machine can see it, and nobody needs a
// key. A POST to
// /, or a request for an event stream, comes from an MCP client with a wrong URL and gets 404.
func (a *front) servePage(w http.ResponseWriter, r *http.Request) {
	accept := strings.Join(r.Header["Accept"], ",")
	asHTML := strings.Contains(accept, "text/html")
	if r.Method != http.MethodGet && r.Method != http.MethodHead || !asHTML && strings.Contains(accept, "text/event-stream") {
		httpdoor.NotFound(w, r)
		return
	}
	p := a.page(r)
	var body bytes.Buffer
	h := w.Header()
	if asHTML {
		if err := pageTemplate().Execute(&body, p); err != nil {
			http.Error(w, "the page could not be made", http.StatusInternalServerError)
			return
		}
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", pagePolicy())
	} else {
		p.text(&body)
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(body.Bytes())
}

// Base returns what the URLs of endpoints begin with for whoever has sent a request for a page of the console. Other
// machines reach it only over https, which a proxy may end.
func Base(r *http.Request) string {
	if r.TLS != nil || !httpdoor.IsLocal(r.Host) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// page collects the values that the page shows. It trusts the Host header of r, which the HTTP guard
// has already checked.
func (a *front) page(r *http.Request) page {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	p := page{
		Style: template.CSS(pageCSS), Version: a.version, Local: a.access.here(r),
		Endpoint: scheme + "://" + r.Host + "/mcp", Flag: Flag(r),
	}
	p.Console = p.Local && a.consoleOff == ""
	if a.publicURL != "" {
		p.Endpoint = a.publicURL + "/mcp"
	}
	address := string(jsonrpc.AppendQuote(nil, p.Endpoint))
	p.Entry = `{"mcpServers":{"dragoman":{"type":"http","url":` + address + `}}}`
	p.CommandEntry = `{"mcpServers":{"dragoman":{"command":"dragoman","args":["run",` + address + `]}}}`
	all := a.project.Statuses()
	ready, failed := 0, 0
	for _, s := range all {
		switch s.State {
		case upstream.Ready, upstream.Idle:
			ready++
		case upstream.Broken, upstream.Unresponsive:
			failed++
		}
		if p.Local && !a.closed {
			p.Servers = append(p.Servers, pageServer{s.Name, string(s.State)})
		}
	}
	_, draining := a.project.Configured()
	switch {
	case draining:
		p.State = "Stopping."
	case len(all) == 0:
		p.State = "Running. No server is configured."
	case failed > 0:
		p.State = fmt.Sprintf("Running. Servers ready: %d of %d. Failed: %d.", ready, len(all), failed)
	default:
		p.State = fmt.Sprintf("Running. Servers ready: %d of %d.", ready, len(all))
	}
	return p
}

// text writes the page as plain text to b.
func (p page) text(b *bytes.Buffer) {
	fmt.Fprintf(b, "Dragoman %s\n%s\n\n", p.Version, p.State)
	fmt.Fprintf(b, "MCP clients connect to\n  %s\n\n", p.Endpoint)
	fmt.Fprintf(b, "The entry for the configuration file of a client:\n  %s\n\n", p.Entry)
	fmt.Fprintf(b, "The entry for a client that can only start a command:\n  %s\n", p.CommandEntry)
	if len(p.Servers) > 0 {
		b.WriteString("\nServers:\n")
		for _, s := range p.Servers {
			fmt.Fprintf(b, "  %s: %s, alone at /s/%s/mcp\n", s.Name, s.State, s.Name)
		}
	}
	b.WriteString("\nMore: /readyz /healthz /metrics")
	if p.Console {
		b.WriteString(" /console/")
	}
	if p.Local {
		b.WriteString(" /api/v1/status")
	}
	b.WriteString("\n")
}
