package httplink

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Signer authorises the requests of a Link. It is safe for concurrent use.
type Signer interface {
	// Sign is called each time that a request is about to be sent, also to the target of a redirect.
	// It returns the header fields that authorise the request, which replace the fields in
	// Options.Header of the same names. Sign may block until ctx ends. If it returns an error, the
	// request is not sent.
	Sign(ctx context.Context, method, url string) (fields []transport.HeaderField, mark Mark, err error)
	// Refused is called when the server has answered a request with this mark with 401, or with 403
	// because the credentials lack a scope. It gets the challenges of the response, and may block until
	// ctx ends. If again is true, the request is signed anew and sent again. If it returns an error, this
	// error is the outcome of the request.
	Refused(ctx context.Context, mark Mark, challenges []string) (again bool, err error)
}

// NonceSigner is a Signer whose proofs must hold the server's latest nonce.
type NonceSigner interface {
	Signer
	// Nonce is called with the nonce of each response that has one (DPoP-Nonce, RFC 9449 §8.2 and §9), before
	// Refused is. It must not block.
	Nonce(url, nonce string)
}

// Mark says which credentials have signed a request. Only the Signer knows its meaning.
type Mark struct{ Generation, Turn uint64 }

// maxRefusals is how often one request is sent again after a refusal. The first time, somebody else may
// have renewed the credentials just before, and the server may refuse these too. The second time,
// they are as new as they can be.
const maxRefusals = 2

// sign adds to req the header fields that authorise it. r is the response to come; it knows which
// fields the previous attempt had.
func (l *Link) sign(req *http.Request, r *Response) (Mark, error) {
	if l.signer == nil {
		return Mark{}, nil
	}
	text := l.text
	if req.URL != l.url {
		text = req.URL.String()
	}
	fields, mark, err := l.signer.Sign(req.Context(), req.Method, text)
	if err == nil {
		err = valid(fields)
	}
	if err != nil {
		return Mark{}, unauthorised(req.Context(), err, nil)
	}
	if r.Response != nil {
		// The request was sent before, so its header must not change any more.
		req.Header = l.unsigned(req.Header, r.signature)
	}
	for _, f := range fields {
		req.Header[textproto.CanonicalMIMEHeaderKey(f.Name)] = []string{f.Value}
	}
	r.signature = fields
	return mark, nil
}

// unsigned returns a copy of h without the fields of a signature.
func (l *Link) unsigned(h http.Header, signature []transport.HeaderField) http.Header {
	h = maps.Clone(h)
	for _, f := range signature {
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		if v, ok := l.header[name]; ok {
			h[name] = v[:len(v):len(v)]
		} else {
			delete(h, name)
		}
	}
	return h
}

func valid(fields []transport.HeaderField) error {
	for _, f := range fields {
		if !validName(f.Name) || !validValue(f.Value) {
			return fmt.Errorf("the header %q of the credentials is not valid", f.Name) // do not show the value, because it may be a secret
		}
	}
	return nil
}

// hear tells the signer the nonce of a response, if there is one.
func (l *Link) hear(from *url.URL, h http.Header) {
	nonce := h.Get("Dpop-Nonce")
	if s, ok := l.signer.(NonceSigner); ok && nonce != "" {
		s.Nonce(from.String(), nonce)
	}
}

// wantsMore reports whether a response refuses the credentials of a request: with 401, or with 403 and a
// challenge that asks for scopes (RFC 6750 §3.1). Any other 403 is the server's answer. Neither has run.
func (l *Link) wantsMore(r *Response) bool {
	switch {
	case l.signer == nil:
		return false
	case r.StatusCode == http.StatusForbidden:
		return slices.ContainsFunc(r.Header.Values("WWW-Authenticate"), func(s string) bool { return strings.Contains(s, "insufficient_scope") })
	}
	return r.StatusCode == http.StatusUnauthorized
}

// refused asks the signer what to do about a refusal. If there is an error, the response is closed.
func (l *Link) refused(ctx context.Context, r *Response, mark Mark) (again bool, err error) {
	challenges := (&transport.StatusError{Authenticate: r.Header.Values("WWW-Authenticate")}).Challenges()
	if again, err = l.signer.Refused(ctx, mark, challenges); err != nil {
		return false, unauthorised(ctx, err, r.Refused())
	}
	return again, nil
}

// unauthorised returns the error for a request that has no credentials because of err. status is the
// server's refusal, or nil if the request was not sent.
func unauthorised(ctx context.Context, err error, status *transport.StatusError) error {
	all := []error{transport.ErrNotSent, transport.ErrCredentials, err}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", transport.ErrNotSent, context.Cause(ctx))
	case status != nil:
		all = append(all, status)
	}
	return &credentialsError{err, all}
}

// credentialsError says why there are no credentials, and wraps all that is known about it.
type credentialsError struct {
	why error
	all []error
}

func (e *credentialsError) Error() string {
	return fmt.Sprintf("%v: %v: %v", transport.ErrNotSent, transport.ErrCredentials, e.why)
}

func (e *credentialsError) Unwrap() []error { return e.all }
