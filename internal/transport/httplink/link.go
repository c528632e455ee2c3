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

	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// maxRedirects is the maximum number of redirects that one request follows.
const maxRedirects = 3

// Options configure a Link. The zero value works.
type Options struct {
	// HTTP sends the requests. If HTTP is nil, the Link uses a transport of its own: a
	// DefaultTransport, or for plain http without a proxy an exchange with the same limits. Close
	// closes its idle connections, but does nothing to a transport that the caller has set.
	HTTP http.RoundTripper
	// CAs are the certificate authorities that the DefaultTransport of the Link trusts. Nil means
	// the authorities of the system. LoadCAs reads them from a file.
	CAs *x509.CertPool
	// Header contains fields that are sent with every request, but only to the origin of the
	// address. A field with the name Host replaces the Host header.
	Header []transport.HeaderField
	// Credentials signs each request. If it is nil, the requests have only the fields in Header.
	Credentials Signer
	// UserAgent is the value of the User-Agent header, unless Header contains this header. "" means
	// "dragoman".
	UserAgent string
}

// Link is the address of a server, with the headers for every request to this address. A Link is
// immutable and safe for concurrent use.
type Link struct {
	rt     http.RoundTripper
	own    transporter // the Link's own transport; nil if Options.HTTP was set
	plain  bool        // own is an exchange of our own, which needs no GetBody
	url    *url.URL
	text   string // url as text, for the signer
	host   string // the configured value of the Host header; "" if none is configured
	header http.Header
	signer Signer            // Options.Credentials; may be nil
	edits  []trails.HeadEdit // why the fields of header are sent; the first element is the reason for the fields without an element of their own
	plan   *http.Request     // copied for each request, so that the URL is parsed only once
}

// transporter is what a Link needs from a transport of its own.
type transporter interface {
	http.RoundTripper
	CloseIdleConnections()
}

// Limits of a Link's own transport.
const (
	maxIdle  = 256              // idle connections to one origin
	idleTime = 90 * time.Second // after which an idle connection is closed
	maxHead  = 128 << 10        // bytes of the head of a response
)

func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
}

// DefaultTransport returns a transport for many calls to few servers. It keeps idle connections and
// has a connect timeout of 10 s. It disables compression, because messages are small and latency
// matters.
func DefaultTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            newDialer().DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTime,
		TLSHandshakeTimeout:    10 * time.Second,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
	}
}

// New returns a Link to an absolute http or https URL. If the URL contains a user and a password,
// New removes both from the URL. They become an Authorization header, unless o.Header contains one.
func New(address string, o Options) (*Link, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The error of package url contains the address, and the address may contain a
		// password.
		return nil, errors.New("the URL cannot be parsed")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the URL must begin with http:// or https://, not %q", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, errors.New("the URL has no host")
	}
	u.Fragment, u.RawFragment = "", ""
	l := &Link{rt: o.HTTP, header: make(http.Header, len(o.Header)+2), signer: o.Credentials}
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
			return nil, fmt.Errorf("the header name %q is not valid", f.Name)
		}
		if !validValue(f.Value) {
			return nil, fmt.Errorf("the value of the header %s is not valid", f.Name) // do not show the value, because it may be a secret
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
	l.edits = []trails.HeadEdit{{Why: mcp.WhyConnection}}
	if o.Credentials != nil {
		l.edits = append(l.edits, trails.HeadEdit{Why: mcp.WhyConfigured, Name: "Authorization"})
	}
	for name := range l.header {
		// The transports set Accept and Content-Type for each request, so the configured values are
		// not used.
		if name != "Accept" && name != "Content-Type" && (name != "User-Agent" || set[name]) {
			l.edits = append(l.edits, trails.HeadEdit{Why: mcp.WhyConfigured, Name: name})
		}
	}
	l.at(u)
	if l.rt == nil {
		l.own = plainOrigin(u, l.host, http.ProxyFromEnvironment)
		if l.plain = l.own != nil; !l.plain {
			t := DefaultTransport()
			Trust(t, o.CAs)
			l.own = t
		}
		l.rt = l.own
	}
	return l, nil
}

func (l *Link) at(u *url.URL) {
	l.url, l.text = u, u.String()
	l.plan = &http.Request{URL: u, Host: l.host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// Close closes the idle connections if the Link has created its own transport. Requests in flight
// continue, and new requests are still possible.
func (l *Link) Close() {
	if l.own != nil {
		l.own.CloseIdleConnections()
	}
}

// ErrForeign means that an address contains a user name, or that its origin differs from the
// configured origin. Nothing is sent to such an address.
var ErrForeign = errors.New("the address has a user name, or its origin differs from that of the configured URL")

// Resolve returns a Link to an address that a response from l's address contains. The new Link has
// the same configuration as l. reference may be relative. If reference has another origin or a user
// name, Resolve returns ErrForeign.
func (l *Link) Resolve(reference string) (*Link, error) {
	u, err := l.url.Parse(reference)
	if err != nil {
		return nil, errors.New("the address cannot be parsed")
	}
	if u.User != nil || transport.Origin(l.url) != transport.Origin(u) {
		return nil, ErrForeign
	}
	u.Fragment, u.RawFragment = "", ""
	r := *l
	r.at(u)
	return &r, nil
}

// String returns the address for logs. It omits the query.
func (l *Link) String() string {
	u := *l.url
	u.RawQuery = ""
	return u.String()
}

// Path returns the path of the address, without its query.
func (l *Link) Path() string { return l.url.EscapedPath() }

// NewHeader returns a new header for one request. The header contains the configured fields and has
// room for n more.
func (l *Link) NewHeader(n int) http.Header {
	h := make(http.Header, len(l.header)+n)
	for k, v := range l.header {
		// All headers from NewHeader share these slices. To set a field, replace its slice.
		h[k] = v[:len(v):len(v)]
	}
	return h
}

// Edits returns the reasons for the header fields that NewHeader sets. The caller must not modify
// the list.
func (l *Link) Edits() []trails.HeadEdit { return l.edits }

// Send sends one request and returns as soon as the header of the response has arrived. The caller
// must close the response, and must not modify h or body before that. After Close, body is no
// longer read. If an error wraps transport.ErrNotSent, either no byte of body was sent, or the
// server has indicated that it did not process the request.
//
// Send follows up to three redirects to the same origin with the same method and body. If the
// request has a body, Send follows only redirects with the status 307 or 308 (RFC 9110 §15.4). It
// returns any other redirect to the caller.
//
// If the server answers 401 to a signed request, or 403 because the token lacks a scope, Send asks the
// Signer whether to send the request again. It does so only before the response has begun to be read, and
// at most twice. The server has not processed such a request (RFC 9110 §15.5.2; 2025-11-25 §Authorization,
// "Step-Up Authorization Flow").
func (l *Link) Send(ctx context.Context, method string, h http.Header, body []byte) (*Response, error) {
	r := &Response{}
	r.payload.b = body
	req := l.plan.WithContext(ctx)
	req.Method = method
	req.Header = h
	if body != nil {
		req.Body = &r.payload
		if !l.plain {
			req.GetBody = r.payload.again
		}
		req.ContentLength = int64(len(body))
	}
	for hops, refusals := 0, 0; ; {
		mark, err := l.sign(req, r)
		if err != nil {
			r.payload.release()
			return nil, err
		}
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
		l.hear(req.URL, resp.Header)
		at := req.URL
		if next := l.redirect(at, resp, body != nil); next != nil && hops < maxRedirects {
			hops++
			at = next
		} else if l.wantsMore(r) {
			again, err := l.refused(ctx, r, mark)
			if err != nil {
				return nil, err
			}
			if refusals++; !again || refusals > maxRefusals {
				return r, nil
			}
		} else {
			return r, nil
		}
		drain(resp)
		req = req.WithContext(ctx) // a request must not be modified after it was sent
		req.URL = at
		if body != nil {
			req.Body, _ = r.payload.again()
		}
	}
}

// redirect returns the target of a redirect. It returns nil if resp is not a redirect, or if the
// redirect must not be followed.
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
	if err != nil || u.User != nil || transport.Origin(from) != transport.Origin(u) {
		return nil
	}
	u.Fragment, u.RawFragment = "", ""
	return u
}

// drainTime is how long drain waits for the rest of a body. A body that takes longer costs its
// connection.
const drainTime = time.Second

// drain discards the rest of a response body, so that the connection can be reused. It reads at
// most 4 KiB.
func drain(resp *http.Response) {
	late := time.AfterFunc(drainTime, func() { resp.Body.Close() })
	defer late.Stop()
	io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
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

// validName reports whether s is a valid name of a header field (RFC 9110 §5.1).
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// validValue reports whether s may be sent as the value of a header field.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
