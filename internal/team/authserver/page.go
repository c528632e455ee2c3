package authserver

import (
	"net/http"
	"net/url"
	"strings"
)

// Page is what a person sees. Everything in it is plain text that may have come from a client: whoever shows it
// must make that harmless.
type Page struct {
	Title string
	Texts []string // paragraphs
	// Note is a warning, and Facts are shown as a list.
	Note  string
	Facts []Fact
	// Onward is where the page goes by itself, on the same site, and Command what people run in a terminal.
	Onward, Command string
	// Password is where the browser asks for a password.
	Password string
	// Provider is the host of an identity provider at which people can sign in.
	Provider string
	// Back is a link to the client, and BackText what it's called.
	Back     Link
	BackText string
	// Ask is the form with which people allow or deny. It is nil if there is nothing to allow.
	Ask *Ask
}

// Link is a URL that the server has checked: https, a loopback address, or the scheme of a program.
type Link string

// Fact is a line of a list.
type Fact struct{ Name, Value string }

// Ask is a form, which is posted to Path.
type Ask struct {
	Path   string
	Fields []Fact // hidden
	// Deny and Allow are the texts of the buttons, in this order. The form's answer is deny or allow.
	Deny, Allow string
	// Sends is the origin to which the answer sends the browser, for the policy of the page; "" if that's a page
	// of ours.
	Sends string
}

// fail shows a page for a request that must not be answered with a redirect.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, title string, texts ...string) {
	s.o.Show(w, r, status, &Page{Title: title, Texts: texts})
}

// sendsTo returns the origin of a redirect URI for the directive form-action: without it, Chrome blocks the redirect
// that answers a form (https://www.w3.org/TR/CSP3/#directive-form-action).
func sendsTo(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || isApp(uri) || strings.ContainsAny(u.Host, "'; ,*") {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// send sends the browser to a client: at once, or with a page that has a link if it's a program that only a person
// should start, or if nobody has agreed yet that it may be sent there.
func (s *Server) send(w http.ResponseWriter, r *http.Request, q *request, more url.Values, trusted bool) {
	more.Set("iss", q.issuer)
	if q.state != "" {
		more.Set("state", q.state)
	}
	to := withQuery(q.redirect, more)
	if trusted && !isApp(q.redirect) {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	p := &Page{Title: "Go back to the client", Texts: []string{"You can close this page after that."}, Back: Link(to), BackText: "Go back to " + hostOf(q.redirect)}
	if text := more.Get("error_description"); text != "" {
		p.Title, p.Texts = "This sign-in is not possible", []string{"The client has made a mistake: " + text + "."}
	}
	s.o.Show(w, r, http.StatusOK, p)
}
