package oauth

import (
	"context"
	"net/http"
)

// Doer sends one request and reads the whole answer. It follows redirects only of GET requests, and
// decides which addresses may be reached. An error means that there is no complete answer.
type Doer interface {
	Do(ctx context.Context, req *http.Request) (*Answer, error)
}

// Answer is a complete answer.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	URL    string // which URL answered, after redirects
}
