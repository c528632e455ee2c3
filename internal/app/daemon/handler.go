package daemon

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/cluster"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// handler routes requests. The guard stands before every route. At endpoints, who asks is settled
// before the method is looked at; elsewhere the method comes first.
func (d *daemon) handler() http.Handler {
	others := http.NewServeMux()
	d.admin.Routes(others)
	d.console.Routes(others)
	others.Handle("/metrics", d.forViewers(d.metrics.Handler()))
	mux := http.NewServeMux()
	d.runtime.Routes(mux)
	d.resources.Register(mux)
	d.signIn.Routes(mux)
	d.connect.routes(mux)
	mux.Handle("/api/", others) // the API refuses the methods that a path doesn't have by itself
	mux.Handle("/", d.guard.Usual(others))
	all := httpdoor.Trust(d.opts.Config.Access.TrustedProxies, d.guard.Wrap(underPrefix(d.opts.Config.PublicPath(), mux)))
	if d.opts.replicas != nil {
		return cluster.Outside(all)
	}
	return all
}

// hops routes the requests that other replicas pass on: those about endpoints, and those for what this replica alone can
// say in the admin API. Nobody has been asked here yet who it is, but another replica's local user has nothing to show.
func (d *daemon) hops() http.Handler {
	mux, api := http.NewServeMux(), http.NewServeMux()
	d.runtime.Routes(mux)
	d.admin.Routes(api)
	mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) {
		if cluster.Local(r.Context()) {
			r = d.admin.Access().Admitted(r, identity.Local)
		}
		api.ServeHTTP(w, r)
	})
	return d.guard.Wrap(underPrefix(d.opts.Config.PublicPath(), mux))
}

// forViewers returns a handler that passes on the requests of those who may see how all projects are. Where
// nobody needs a key, that's everybody. Elsewhere the default project's viewers may, as with the other
// routes that are about the process, so Prometheus needs the key of one.
func (d *daemon) forViewers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := d.guard.Identify(w, r, d.gate.Principal)
		switch {
		case !ok:
		case !d.isViewer(who):
			httpdoor.RefuseDenied(w, errNoViewer)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

var errNoViewer = &httpdoor.Denied{Status: http.StatusForbidden, Reason: "this needs an API key of the project default with the role viewer"}

// views reports whether the sender of a request may see the states of servers; see forViewers.
func (d *daemon) views(r *http.Request) bool {
	who, err := d.gate.Principal(r)
	return err == nil && d.isViewer(who)
}

func (d *daemon) isViewer(who *identity.Principal) bool {
	return d.gate.Open() || d.admin.Access().May(who, event.DefaultProject, identity.Viewer) == nil
}

// underPrefix returns a handler that accepts paths with and without the prefix of the public URL.
// Some proxies remove the prefix, and some do not.
func underPrefix(prefix string, next http.Handler) http.Handler {
	if prefix == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, prefix)
		if !ok || rest != "" && rest[0] != '/' {
			next.ServeHTTP(w, r)
			return
		}
		inner := *r
		url := *r.URL
		inner.URL = &url
		url.Path, url.RawPath = cmp.Or(rest, "/"), strings.TrimPrefix(url.RawPath, prefix)
		next.ServeHTTP(w, &inner)
	})
}
