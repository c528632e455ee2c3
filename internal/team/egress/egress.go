package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The bounds of a request that sets none.
const (
	defaultRedirects = 3
	defaultSize      = 256 << 10
	defaultTime      = 10 * time.Second

	maxHead     = 64 << 10        // bytes of the head of an answer
	leastToDial = 2 * time.Second // for one address of several, if the request has as much time
)

// Options make a Client. The zero value works.
type Options struct {
	// Allow lists hosts that may be nearer than what names them, and may be asked over http: "host",
	// "host:port" or "*.domain". They don't lift the ban on link-local and similar addresses.
	Allow []string
	// CAs are the authorities that sign certificates. Nil means those of the system.
	CAs *x509.CertPool
	// UserAgent is "dragoman" if it is empty.
	UserAgent string
	// Proxy is http.ProxyFromEnvironment if it is nil.
	Proxy func(*http.Request) (*url.URL, error)
	// Lookup finds the addresses of a name, and Dial connects to an address with a port. Nil means
	// those of the system.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client makes requests. It has no state, so it need not be closed, and is safe for concurrent use.
type Client struct{ o Options }

// New returns a client.
func New(o Options) *Client {
	o.Allow = slices.Clone(o.Allow)
	for i, s := range o.Allow {
		o.Allow[i] = strings.TrimSuffix(strings.ToLower(s), ".")
	}
	if o.UserAgent == "" {
		o.UserAgent = "dragoman"
	}
	if o.Proxy == nil {
		o.Proxy = http.ProxyFromEnvironment
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{KeepAlive: -1}).DialContext
	}
	return &Client{o}
}

// Trusting returns a client that accepts the certificates of these authorities, such as those of a
// server's caFile, instead of those in Options.CAs. If cas is nil, it returns c.
func (c *Client) Trusting(cas *x509.CertPool) *Client {
	if cas == nil {
		return c
	}
	d := *c
	d.o.CAs = cas
	return &d
}

// Bounds limit one request. A zero field means the default.
type Bounds struct {
	// Redirects is how many redirects of a GET are followed, on the same origin. Zero means 3,
	// negative none. Other methods never follow any.
	Redirects int
	// AsIs means that a redirect is an answer like any other, and not followed.
	AsIs bool
	// Size is the largest body of an answer in bytes. Zero means 256 KiB.
	Size int64
	// Time is for the whole of a request, from the look-up of the name to the last byte. Zero means 10 s.
	Time time.Duration
}

// Caller makes requests on behalf of one server. It is safe for concurrent use.
type Caller struct {
	c    *Client
	near Nearness
	b    Bounds
}

// From returns a Caller for addresses that were named by something which is as near as n.
func (c *Client) From(n Nearness, b Bounds) *Caller {
	if b.Redirects == 0 {
		b.Redirects = defaultRedirects
	}
	if b.Size <= 0 {
		b.Size = defaultSize
	}
	if b.Time <= 0 {
		b.Time = defaultTime
	}
	return &Caller{c, n, b}
}

// Answer is the answer to a request, whatever its status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	URL    string   // that answered, after redirects
	Near   Nearness // of the address that answered
}

// Keep returns how long the answer may be kept, as Cache-Control says (RFC 9111 §5.2.2), but within bounds.
func (a *Answer) Keep(least, most time.Duration) time.Duration {
	keep := least
	for part := range strings.SplitSeq(strings.Join(a.Header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return least
		case "max-age":
			if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
				keep = time.Duration(n) * time.Second
			}
		}
	}
	return min(max(keep, least), most)
}

// Do makes a request and reads the whole answer. The request's context is ignored, and its body, if it
// has one, is read once. If there is no answer, the error is an *Error, or the cause of ctx if ctx has
// ended.
func (c *Caller) Do(ctx context.Context, req *http.Request) (*Answer, error) {
	limited, stop := context.WithTimeout(ctx, c.b.Time)
	defer stop()
	t := &trip{Caller: c, url: req.URL}
	for hops := 0; ; hops++ {
		a, next, err := t.once(limited, req)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && limited.Err() != nil:
			return nil, t.fail(TooSlow, fmt.Sprintf("%s did not answer within %s", t.shown(), c.b.Time), "try again later", err)
		case err != nil, next == nil, c.b.AsIs:
			return a, err
		case req.Method != http.MethodGet && req.Method != http.MethodHead, transport.Origin(t.url) != transport.Origin(next), next.User != nil, hops >= c.b.Redirects:
			to := *next
			to.RawQuery = ""
			return nil, t.fail(Redirected, t.shown()+" redirects to "+excerpt.Line(to.Redacted(), 200)+", which is not followed", "correct the address where it is published", nil)
		}
		again := req.Clone(limited)
		again.URL = next
		req, t = again, &trip{Caller: c, url: next}
	}
}

// MayOpen returns an *Error if a page must not be opened in somebody's browser, by the rules for requests of ours: a page
// nearer than what names it could be a device in the person's network. Browsers look names up by themselves, and may know
// more of them than we do, so a name that we can't find may be opened.
func (c *Caller) MayOpen(ctx context.Context, page string) error {
	u, err := url.Parse(page)
	if err != nil {
		u = &url.URL{}
	}
	t := &trip{Caller: c, url: u}
	if err := t.check(); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, c.b.Time)
	defer stop()
	all, err := t.addresses(ctx)
	if err != nil {
		return nil
	}
	for _, a := range all {
		if _, err := t.judge(a); err != nil {
			return err
		}
	}
	return nil
}

// Near returns how near the server at a URL is, which somebody has configured. If its name has several
// addresses, the farthest counts: the owner of a name chooses its addresses, and must not gain by it.
// For the same reason a server with https has to prove by its certificate that it is at a near address;
// otherwise it counts as public, and so does a server behind a proxy.
func (c *Client) Near(ctx context.Context, server string) (Nearness, error) {
	u, err := url.Parse(server)
	if err != nil {
		return Public, errors.New("the server's URL cannot be parsed")
	}
	ctx, stop := context.WithTimeout(ctx, defaultTime)
	defer stop()
	t := &trip{Caller: c.From(Loopback, Bounds{}), url: u}
	if proxy, err := c.o.Proxy(&http.Request{URL: u}); proxy != nil || err != nil {
		return Public, nil
	}
	all, err := t.addresses(ctx)
	if err != nil {
		return Public, err
	}
	farthest := Loopback
	for _, a := range all {
		n, ok := Of(a)
		if !ok {
			n = Private // Somebody has configured a server on a link of this machine.
		}
		farthest = min(farthest, n)
	}
	if farthest == Public || u.Scheme != "https" || ownName(u.Hostname()) {
		return farthest, nil
	}
	conn, err := t.dial(ctx)
	if err != nil {
		return Public, nil
	}
	defer conn.Close()
	tc := tls.Client(conn, c.tls(u.Hostname()))
	if tc.HandshakeContext(ctx) != nil {
		return Public, nil
	}
	return t.met, nil
}

// Nearest returns how near a URL of ours is, for whoever looks from elsewhere: if its name has several addresses, the
// nearest counts. Nothing is asked there, and nothing is proved.
func (c *Client) Nearest(ctx context.Context, ours string) (Nearness, error) {
	u, err := url.Parse(ours)
	if err != nil {
		return Loopback, errors.New("the URL cannot be parsed")
	}
	ctx, stop := context.WithTimeout(ctx, defaultTime)
	defer stop()
	all, err := (&trip{Caller: c.From(Loopback, Bounds{}), url: u}).addresses(ctx)
	nearest := Public
	for _, a := range all {
		n, ok := Of(a)
		if !ok {
			n = Loopback
		}
		nearest = max(nearest, n)
	}
	return nearest, err
}

// ownName reports whether a host is an address, or a name of this machine. Nobody else decides where
// these lead to (RFC 6761 §6.3).
func ownName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (c *Client) tls(name string) *tls.Config {
	return &tls.Config{RootCAs: c.o.CAs, ServerName: name, MinVersion: tls.VersionTLS12}
}

// trip is one request to one URL, without redirects.
type trip struct {
	*Caller
	url *url.URL
	met Nearness // of the address that was dialled
}

// once makes the request. If the answer is a redirect, it also returns the target.
func (t *trip) once(ctx context.Context, req *http.Request) (*Answer, *url.URL, error) {
	if err := t.check(); err != nil {
		return nil, nil, err
	}
	proxy, err := t.c.o.Proxy(&http.Request{URL: t.url})
	if err != nil {
		return nil, nil, t.fail(Unreachable, "the proxy for "+t.shown()+" cannot be used", "correct HTTP_PROXY or HTTPS_PROXY in the environment", err)
	}
	rt := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
		TLSClientConfig: t.c.tls(""),
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
	}
	if proxy != nil {
		if err := t.checkProxied(ctx); err != nil {
			return nil, nil, err
		}
		rt.Proxy, rt.DialContext = http.ProxyURL(proxy), t.c.o.Dial
	}
	defer rt.CloseIdleConnections()
	out := req.WithContext(ctx)
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", t.c.o.UserAgent)
	}
	resp, err := rt.RoundTrip(out)
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			return nil, nil, own
		}
		return nil, nil, t.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, t.b.Size+1))
	switch {
	case err != nil:
		return nil, nil, t.unreachable(err)
	case int64(len(body)) > t.b.Size:
		return nil, nil, t.fail(TooLarge, fmt.Sprintf("the answer of %s has more than %d bytes", t.shown(), t.b.Size), "check what is published there", nil)
	}
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body, URL: t.url.String(), Near: t.met}
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if next, err := t.url.Parse(resp.Header.Get("Location")); err == nil && resp.Header.Get("Location") != "" {
			next.Fragment, next.RawFragment = "", ""
			return a, next, nil
		}
	}
	return a, nil, nil
}

func (t *trip) unreachable(err error) *Error {
	var why string
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &dns):
		why = "its host name cannot be resolved"
	case errors.As(err, &cert):
		why = excerpt.Line(cert.Err.Error(), 200)
	default:
		why = excerpt.Line(reason(err), 200)
	}
	return t.fail(Unreachable, t.shown()+" cannot be reached: "+why, "check the address and the network, and try again", err)
}

// reason returns the text of the innermost error, which does not repeat the address.
func reason(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// check applies the rules that need no address.
func (t *trip) check() error {
	u := t.url
	why := ""
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		why = "is no https URL"
	case u.Hostname() == "" || u.Opaque != "":
		why = "has no host"
	case u.User != nil:
		why = "has a user name"
	}
	switch {
	case why != "":
		return t.fail(BadURL, t.shown()+" "+why, "correct the address where it is published", nil)
	case u.Scheme == "http" && t.near != Loopback && !t.allowed():
		return t.fail(NotHTTPS, t.shown()+" is not https, so secrets are not sent there", "use https, or, "+t.allowHint(), nil)
	}
	return nil
}

// allowed reports whether the host is in Options.Allow.
func (t *trip) allowed() bool {
	host := strings.TrimSuffix(strings.ToLower(t.url.Hostname()), ".")
	with := net.JoinHostPort(host, t.port())
	return slices.ContainsFunc(t.c.o.Allow, func(s string) bool {
		if domain, ok := strings.CutPrefix(s, "*."); ok {
			return strings.HasSuffix(host, "."+domain)
		}
		return s == host || s == with || strings.Trim(s, "[]") == host
	})
}

func (t *trip) port() string {
	if p := t.url.Port(); p != "" {
		return p
	}
	if t.url.Scheme == "http" {
		return "80"
	}
	return "443"
}

func (t *trip) addresses(ctx context.Context) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(t.url.Hostname()); err == nil {
		return []netip.Addr{a}, nil
	}
	all, err := t.c.o.Lookup(ctx, t.url.Hostname())
	if err == nil && len(all) == 0 {
		err = &net.DNSError{Err: "no address", Name: t.url.Hostname(), IsNotFound: true}
	}
	if err != nil {
		return nil, t.unreachable(err)
	}
	return all, nil
}

// judge says whether one address may be dialled.
func (t *trip) judge(a netip.Addr) (Nearness, error) {
	n, ok := Of(a)
	switch {
	case !ok:
		return n, t.never(a.String())
	case n > t.near && !t.allowed():
		return n, t.nearer(n)
	}
	return n, nil
}

// dial connects to the first address that answers, among those that may be dialled. The name is looked
// up here and nowhere else, so nobody can change it between the check and the connection.
func (t *trip) dial(ctx context.Context) (net.Conn, error) {
	all, err := t.addresses(ctx)
	if err != nil {
		return nil, err
	}
	var refused, failed error
	for i, a := range all {
		n, err := t.judge(a)
		if err != nil {
			refused = err
			continue
		}
		conn, err := t.dialOne(ctx, net.JoinHostPort(a.String(), t.port()), len(all)-i)
		if err == nil {
			t.met = n
			return conn, nil
		}
		failed = err
	}
	if failed != nil {
		return nil, failed
	}
	return nil, refused
}

// dialOne leaves time for the addresses that come after this one.
func (t *trip) dialOne(ctx context.Context, address string, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok && left > 1 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, max(leastToDial, time.Until(end)/time.Duration(left)))
		defer stop()
	}
	return t.c.o.Dial(ctx, "tcp", address)
}

// checkProxied applies the rule of nearness to a request that a proxy will send. The proxy looks the
// name up by itself, so all addresses that we find have to be far enough, and an address instead of a
// name is refused.
func (t *trip) checkProxied(ctx context.Context) error {
	a, err := netip.ParseAddr(t.url.Hostname())
	switch {
	case err == nil && t.allowed():
		_, err = t.judge(a)
		return err
	case t.allowed():
		return nil
	case literal(t.url.Hostname()):
		return t.fail(Forbidden, t.shown()+" has an address instead of a host name, which is not asked through a proxy", t.allowHint(), nil)
	}
	all, err := t.addresses(ctx)
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			e.action = "Dragoman looks names up before it asks a proxy; " + t.allowHint()
		}
		return err
	}
	for _, a := range all {
		n, err := t.judge(a)
		if err != nil {
			return err
		}
		t.met = max(t.met, n)
	}
	return nil
}

// literal reports whether a host is an address in any spelling that a resolver understands, such as
// 127.1, 0x7f000001 or 017700000001. Their last label is a number, which that of a name never is.
func literal(host string) bool {
	if strings.Contains(host, ":") {
		return true
	}
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	return err == nil || last != "" && strings.Trim(last, "0123456789") == ""
}
