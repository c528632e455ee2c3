package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Problem is an error response of the admin API (RFC 9457).
type Problem struct {
	// Type is a short name. refuse turns it into the URI that the client gets.
	Type     string           `json:"type" doc:"the kind of the problem as a URI, such as urn:dragoman:problem:no-such-server"`
	Title    string           `json:"title" doc:"the kind of the problem in a few words"`
	Status   int              `json:"status" doc:"the HTTP status of the response"`
	Detail   string           `json:"detail,omitempty" doc:"what is wrong with this request and what to do, as sentences"`
	Instance string           `json:"instance,omitempty" doc:"the path of the request"`
	Failure  *failure.Failure `json:"failure,omitempty" doc:"why the server can't be used; left out if the problem isn't about a server"`
	Errors   []ValueError     `json:"errors,omitempty" doc:"the values in the request that don't fit their JSON Schema"`
	Current  string           `json:"current,omitempty" doc:"the version that the object has now, for If-Match; only with the statuses 412 and 428"`
	// RetryAfter is the time after which the client may try again. It is for the statuses 429 and
	// 503. refuse sends it as the header Retry-After in whole seconds. If it is 0, refuse does not
	// send the header.
	RetryAfter time.Duration `json:"-"`
}

// ValueError describes an invalid value in a request.
type ValueError struct {
	Pointer string `json:"pointer" doc:"where the value is in the request's body, as a JSON pointer (RFC 6901)"`
	Detail  string `json:"detail" doc:"what is wrong with the value, as a phrase"`
}

// Error returns Detail, or Title if Detail is "".
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// problemURI is the prefix of the type of each problem.
const problemURI = "urn:dragoman:problem:"

// refuse answers a request with a problem.
func refuse(w http.ResponseWriter, p Problem) {
	p.Type = problemURI + p.Type
	body, err := json.Marshal(p)
	if err != nil {
		body = []byte(`{"title":"internal error","status":500}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	httpdoor.SetRetryAfter(w, p.RetryAfter)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(excerpt.JSON(body), '\n'))
}

// badParameter returns the problem for an invalid parameter. detail describes a valid value.
func badParameter(name, detail string) *Problem {
	return &Problem{Type: "parameter", Title: `The parameter "` + name + `" is invalid`, Status: http.StatusBadRequest, Detail: detail}
}
