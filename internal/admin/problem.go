package admin

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/failure"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Problem is an error response of the admin API (RFC 9457).
type Problem struct {
	Type     string `json:"type"` // a short name; refuse turns it into a URI
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Failure describes why a server cannot be used. It contains a class, a sentence, evidence and
	// an action.
	Failure *failure.Failure `json:"failure,omitempty"`
	// Errors describes the values in the request that do not match their schema.
	Errors []ValueError `json:"errors,omitempty"`
	// RetryAfter is the time after which the client may try again. It is for the statuses 429 and
	// 503. refuse sends it as the header Retry-After in whole seconds. If it is 0, refuse does not
	// send the header.
	RetryAfter time.Duration `json:"-"`
}

// ValueError describes an invalid value in a request.
type ValueError struct {
	// Pointer is the path of the value in the body, as a JSON pointer (RFC 6901).
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
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
