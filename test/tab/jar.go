package tab

import (
	"net/http"
	"net/url"
	"strings"
)

// jar has the cookies of a browser. A cookie belongs to a host; a port makes no difference.
type jar []kept

type kept struct {
	host string
	http.Cookie
}

func (j *jar) keep(u *url.URL, all []*http.Cookie) {
	for _, c := range all {
		n := kept{u.Hostname(), *c}
		if n.Path == "" || n.Path[0] != '/' {
			n.Path = u.Path[:strings.LastIndexByte(u.Path+"/", '/')]
		}
		rest := (*j)[:0]
		for _, old := range *j {
			if old.host != n.host || old.Name != n.Name || old.Path != n.Path {
				rest = append(rest, old)
			}
		}
		*j = rest
		if c.MaxAge >= 0 && c.Value != "" {
			*j = append(*j, n)
		}
	}
}

// send adds the cookies that belong to a navigation. A navigation from another site has none with
// SameSite=Strict, and a POST none with Lax, which is also the default (RFC 6265bis §5.6.7.1).
func (j *jar) send(r *http.Request, cross bool) {
	for _, c := range *j {
		withheld := cross && (c.SameSite == http.SameSiteStrictMode || r.Method == http.MethodPost && c.SameSite != http.SameSiteNoneMode)
		inPath := r.URL.Path == c.Path || strings.HasPrefix(r.URL.Path, strings.TrimSuffix(c.Path, "/")+"/")
		if c.host == r.URL.Hostname() && inPath && !withheld {
			r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
		}
	}
}

// sameSite reports whether two pages belong to one site. Hosts of tests have no registrable domains,
// so a site is a scheme and a host here.
func sameSite(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() }
