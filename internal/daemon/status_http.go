package daemon

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
)

// problem is an error of our own API (RFC 9457).
type problem struct {
	Type     string `json:"type"` // a word of ours; written as a URI
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"`
}

func refuse(w http.ResponseWriter, p problem) {
	p.Type = "urn:dragoman:problem:" + p.Type
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"title":"internal error","status":500}`)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// serveStatus answers /api/v1/status. It names processes, sessions and who has
// them, so that it is for this machine alone: where others can reach the listener
// nobody gets it as long as nobody has to say who they are, and what a proxy here
// passes on from elsewhere is refused too.
func (d *daemon) serveStatus(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, problem{Type: "method", Title: "The method is not allowed here", Status: http.StatusMethodNotAllowed, Instance: r.URL.Path})
	case !d.local:
		refuse(w, problem{
			Type: "local-only", Title: "The status is for this machine alone", Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "Dragoman listens where other machines can reach it. Send the process SIGUSR1, and it writes its status to standard error.",
		})
	case forwarded(r):
		refuse(w, problem{
			Type: "local-only", Title: "The status is for this machine alone", Status: http.StatusForbidden, Instance: r.URL.Path,
			Detail: "The request was passed on by a proxy.",
		})
	default:
		var body bytes.Buffer
		out := json.NewEncoder(&body)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		if out.Encode(d.report()) != nil {
			refuse(w, problem{Type: "internal", Title: "The status could not be written", Status: http.StatusInternalServerError, Instance: r.URL.Path})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write(body.Bytes())
	}
}

// forwarded reports whether a proxy says that it passes a request on.
func forwarded(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if len(r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// isLocal reports whether only this machine can reach an address to listen at.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
