package httplink

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// maxRedirects is how many redirects one request follows.
const maxRedirects = 3

// Options configure a Link. The zero value works.
type Options struct {
	// HTTP sends the requests. Nil means a DefaultTransport of the Link's own, whose
	// idle connections Close ends. The caller owns a given one.
	HTTP http.RoundTripper
	// CAs are the certificate authorities that the own transport trusts; nil means those of
	// the system. See LoadCAs.
	CAs *x509.CertPool
	// Header is sent on every request to the address's origin and nowhere else. A field
	// named Host replaces the Host header.
	Header []transport.HeaderField
	// Credentials returns headers for one request, which replace those of Header with the
	// same name. It may block, as long as ctx; its error says that the request is not
	// sent. Nil adds none.
	Credentials func(ctx context.Context) ([]transport.HeaderField, error)
	// UserAgent is sent unless Header has one; "" means "dragoman".
	UserAgent string
}

// Link is an address with the headers for every request to it. It is immutable and safe
// for concurrent use.
type Link struct {
	rt     http.RoundTripper
	own    *http.Transport // nil if rt was given
	url    *url.URL
	host   string // "" unless configured
	header http.Header
	signed func(ctx context.Context) ([]transport.HeaderField, error) // nil for none
	plan   *http.Request                                              // copied for each request, so the URL is parsed only once
}

// DefaultTransport returns a transport for many calls to few servers: it keeps idle
// connections, compresses nothing (messages are small and latency matters), and has a
// connect timeout of 10 s.
func DefaultTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 128 << 10,
	}
}

// New returns a Link to an absolute http or https URL. A user and password in the URL
// become an Authorization header, unless o has one, and are removed from the URL.
func New(address string, o Options) (*Link, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The error of package url contains the address, which may contain a password.
		return nil, errors.New("the URL cannot be parsed")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the URL must begin with http:// or https://, not %q", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("the URL has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	l := &Link{rt: o.HTTP, header: make(http.Header, len(o.Header)+2), signed: o.Credentials}
	if l.rt == nil {
		l.own = DefaultTransport()
		Trust(l.own, o.CAs)
		l.rt = l.own
	}
	agent := o.UserAgent
	if agent == "" {
		agent = "dragoman"
	}
	l.header["User-Agent"] = []string{agent}
	if u.User != nil {
		password, _ := u.User.Password()
		pair := u.User.Username() + ":" + password
		l.header["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(pair))}
		u.User = nil
	}
	set := make(map[string]bool, len(o.Header))
	for _, f := range o.Header {
		if !validName(f.Name) {
			return nil, fmt.Errorf("header name %q is invalid", f.Name)
		}
		if !validValue(f.Value) {
			return nil, fmt.Errorf("the value of header %s is invalid", f.Name) // it may be a secret
		}
		name := textproto.CanonicalMIMEHeaderKey(f.Name)
		if name == "Host" {
			l.host = f.Value
			continue
		}
		if !set[name] {
			delete(l.header, name)
			set[name] = true
		}
		l.header[name] = append(l.header[name], f.Value)
	}
	l.at(u)
	return l, nil
}

func (l *Link) at(u *url.URL) {
	l.url = u
	l.plan = &http.Request{URL: u, Host: l.host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// Close ends the idle connections of a Link that has its own transport. Requests in
// flight continue, and later ones are still possible.
func (l *Link) Close() {
	if l.own != nil {
		l.own.CloseIdleConnections()
	}
}

// ErrForeign reports an address of another origin than the configured one. Nothing is
// ever sent to it.
var ErrForeign = errors.New("the address has another origin")

// Resolve returns a Link to a reference found in a response from l's address, with the
// same configuration. It returns ErrForeign if the reference has another origin or a
// user.
func (l *Link) Resolve(reference string) (*Link, error) {
	u, err := l.url.Parse(reference)
	if err != nil {
		return nil, errors.New("the address cannot be parsed")
	}
	if u.User != nil || !sameOrigin(l.url, u) {
		return nil, ErrForeign
	}
	u.Fragment, u.RawFragment = "", ""
	r := *l
	r.at(u)
	return &r, nil
}

// String returns the address without its query, for logs.
func (l *Link) String() string {
	u := *l.url
	u.RawQuery = ""
	return u.String()
}

// NewHeader returns a new header for one request: the configured fields, and room for n
// more.
func (l *Link) NewHeader(n int) http.Header {
	h := make(http.Header, len(l.header)+n)
	for k, v := range l.header {
		// The values are shared: to set a field, replace its slice.
		h[k] = v[:len(v):len(v)]
	}
	return h
}

// Send sends one request and returns as soon as the response's header has arrived. The
// caller must Close the response, and must not touch h and body before; afterwards
// nothing refers to body. An error that wraps transport.ErrNotSent says that no byte of
// body was sent, or that the server said that it had not processed the request.
//
// Up to three redirects to the same origin are followed with the same method and body.
// With a body this applies to 307 and 308 only (RFC 9110 §15.4). Any other redirect is
// returned as it is.
func (l *Link) Send(ctx context.Context, method string, h http.Header, body []byte) (*Response, error) {
	if err := l.sign(ctx, h); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", transport.ErrNotSent, transport.ErrCredentials, err)
	}
	r := &Response{}
	r.payload.b = body
	req := l.plan.WithContext(ctx)
	req.Method = method
	req.Header = h
	if body != nil {
		req.Body = &r.payload
		req.GetBody = r.payload.again
		req.ContentLength = int64(len(body))
	}
	for hops := 0; ; hops++ {
		resp, err := l.rt.RoundTrip(req)
		if err != nil {
			unsent := r.payload.release()
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if body != nil && unsent {
				err = fmt.Errorf("%w: %w", transport.ErrNotSent, err)
			}
			return nil, err
		}
		r.Response = resp
		next := l.redirect(req.URL, resp, body != nil)
		if next == nil || hops == maxRedirects {
			return r, nil
		}
		drain(resp)
		req = req.WithContext(ctx) // a request must not be changed after it was sent
		req.URL = next
		if body != nil {
			req.Body, _ = r.payload.again()
		}
	}
}

// sign sets the headers that the Credentials give for one request.
func (l *Link) sign(ctx context.Context, h http.Header) error {
	if l.signed == nil {
		return nil
	}
	fields, err := l.signed(ctx)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if !validName(f.Name) || !validValue(f.Value) {
			return fmt.Errorf("the credentials' header %q is invalid", f.Name) // its value may be a secret
		}
		h[textproto.CanonicalMIMEHeaderKey(f.Name)] = []string{f.Value}
	}
	return nil
}

// redirect returns the target of a redirect, nil if it is not followed.
func (l *Link) redirect(from *url.URL, resp *http.Response, hasBody bool) *url.URL {
	switch resp.StatusCode {
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		if hasBody {
			return nil
		}
	default:
		return nil
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return nil
	}
	u, err := from.Parse(location)
	if err != nil || u.User != nil || !sameOrigin(from, u) {
		return nil
	}
	u.Fragment, u.RawFragment = "", ""
	return u
}

// drain discards a response so that its connection can be reused, if little of the body
// is left.
func drain(resp *http.Response) {
	io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// validName reports whether s is a header field name (RFC 9110 §5.1).
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// validValue reports whether s may be sent as a header field value.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
