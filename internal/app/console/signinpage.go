package console

import (
	"html/template"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
)

var signInTemplate = parsedLater("signin.html", "gatehead.html")

// signInView is a page of the authorization server, with what its template needs.
type signInView struct {
	*authserver.Page
	Theme string
}

// BackURL returns the link to the client. The server has checked it, and html/template doesn't know the schemes of
// programs.
func (v signInView) BackURL() template.URL { return template.URL(v.Back) }

// ShowSignIn answers with a page of the authorization server, in the console's style. Its policy lets the form's
// answer send the browser to the client.
func ShowSignIn(w http.ResponseWriter, r *http.Request, status int, p *authserver.Page) {
	h := w.Header()
	headers(h)
	h.Del("Cross-Origin-Opener-Policy") // clients that open a window for this page wait until it is closed
	if p.Ask != nil && p.Ask.Sends != "" {
		h.Set("Content-Security-Policy", strings.Replace(pagePolicy, "form-action 'self'", "form-action 'self' "+p.Ask.Sends, 1))
	}
	respond(w, status, signInTemplate(), p.Title, signInView{p, themeOf(r)})
}
