package httpdoor

import (
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Forwarder passes a request on to the process that has what the request is about. The guard has
// accepted the request, and its sender is known, but nothing else has been done for it.
type Forwarder interface {
	// Reaches reports whether the request can be passed on. If not, it's refused here, as if there were no Forwarder, and
	// to says whether that's because the process is lost. Reaches may wait for a second.
	Reaches(r *http.Request, to *transport.Elsewhere) bool
	// Forward writes the whole response. r.Body has been read: body is what the client sent, byte for
	// byte, and nil for a request without a body. Forward must not keep or modify it. The context of r
	// ends when the client disconnects.
	//
	// If to has Again, Forward returns false when the process hasn't got the request: nothing is written then, and the
	// caller looks again where it goes. A request that was passed on already, and is for another process, is refused so
	// that whoever has passed it on looks again. Without a Home, it's refused because nobody could be reached.
	//
	// If the client hears an error because the process can't be reached, or was lost, Forward sets to.Failed, and the
	// caller records the request.
	Forward(w http.ResponseWriter, r *http.Request, body []byte, to *transport.Elsewhere) (done bool)
}
