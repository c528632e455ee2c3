package oauth

import (
	"context"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
)

// Doer sends one request and reads the whole answer. It follows redirects only of GET requests, and
// decides which addresses may be reached. An error means that there is no complete answer. An egress.Caller
// is one.
type Doer interface {
	Do(ctx context.Context, req *http.Request) (*Answer, error)
}

// Answer is a complete answer.
type Answer = egress.Answer
