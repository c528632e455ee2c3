package daemon

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/console"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/authserver"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// useOwn makes the gate accept the tokens of our own authorization server, if the configuration has it. The
// error is a *Refused if nobody could sign in safely.
func (e *entry) useOwn(o *ServeOptions, local bool) error {
	if !o.Config.Access.Own.On || e.gate.Open() { // where nobody needs a token
		return nil
	}
	u, err := url.Parse(o.Config.PublicURL)
	secure := err == nil && (u.Scheme == "https" || transport.IsLoopback(u.Hostname()))
	switch {
	case o.Config.PublicURL == "" && !local, o.Config.PublicURL != "" && !secure:
		return &Refused{
			"dragoman.access.signIn is own, and clients could not sign in safely",
			"set dragoman.publicURL to the https URL at which clients reach Dragoman, or listen on 127.0.0.1",
		}
	case o.Config.PublicPath() != "" && o.cert == nil:
		return &Refused{
			"dragoman.access.signIn is own, and dragoman.publicURL has a path, below which people can't have a session",
			"give Dragoman a host name of its own at the proxy",
		}
	case consoleOff(o, local) != "":
		return &Refused{"dragoman.access.signIn is own, and the console is off, where people sign in", "turn the console on, or set dragoman.access.signIn to none"}
	}
	e.ledger = access.NewLedger(e.desk, e.gate)
	return nil
}

// newAuthServer returns our authorization server, or nil if it's off.
func newAuthServer(o *ServeOptions, e *entry, sessions *admin.Access) *authserver.Server {
	if e.ledger == nil {
		return nil
	}
	own, documents := &o.Config.Access.Own, o.documents
	if documents == nil {
		documents = e.egress.From(egress.Public, egress.Bounds{Redirects: -1, Size: authserver.DocumentSize, Time: authserver.DocumentTime})
	}
	return authserver.New(authserver.Options{
		PublicURL: o.Config.PublicURL, Ledger: e.ledger, Store: o.store, Sessions: sessions, Provider: sessions.LoginHost, Show: console.ShowSignIn, Log: o.Log,
		Documents: documents, Command: o.openConsole,
		Address: listensAt, Allow: authserver.Allow{Known: own.Known, Only: own.Only}, NoRegistration: own.NoRegistration,
	})
}

// listensAt returns the address of the listener that has got a request, which is that of links to the console; see
// atOneAddress.
func listensAt(r *http.Request) string {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return at.String()
	}
	return r.Host
}

// openConsole returns the command that opens the console at which a request has arrived.
func (o *ServeOptions) openConsole(r *http.Request) string {
	return cmp.Or(o.Program, "dragoman") + " console --open" + admin.Flag(r)
}

// isShared reports whether a request is one that pages of every origin may send; see httpdoor.Guard.Public.
func (d *daemon) isShared(r *http.Request) bool {
	return d.signIn != nil && authserver.IsShared(strings.TrimPrefix(r.URL.Path, d.opts.Config.PublicPath()))
}

// errGrantEnded is what the clients are told whose tokens have ended.
var errGrantEnded error = &mcp.Error{
	Origin: mcp.FromGateway, Cause: "key_ended", Outcome: mcp.OutcomeUnknown,
	Message: "the sign-in of this client was ended or has expired; sign in again",
}
