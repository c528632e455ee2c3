package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a network with names of our own, whose every address is served by one of two servers of the
// test, with and without TLS. It counts who was dialled.
type world struct {
	mu     sync.Mutex
	names  map[string][]string // the addresses of a name; a look-up takes the first of several lists split by "|"
	dialed []string
	proxy  *url.URL
	plain  *httptest.Server
	tls    *httptest.Server
	h      http.HandlerFunc
}

func newWorld(t *testing.T, h http.HandlerFunc) *world {
	w := &world{h: h, names: map[string][]string{
		"public.example":  {"203.0.113.7"},
		"other.example":   {"198.51.100.9"},
		"private.example": {"10.1.2.3"},
		"local.example":   {"127.0.0.1"},
		"localhost":       {"127.0.0.1", "::1"},
		"meta.example":    {"169.254.169.254"},
		"mixed.example":   {"127.0.0.1", "203.0.113.7"},
		"mapped.example":  {"::ffff:127.0.0.1"},
		"nat64.example":   {"64:ff9b::7f00:1"},
		"sixto4.example":  {"2002:0a01:0203::1"},
		"docs.example":    {"2001:db8::1"},
		"none.example":    {},
	}}
	serve := func(rw http.ResponseWriter, req *http.Request) {
		if w.h != nil {
			w.h(rw, req)
		}
	}
	w.plain, w.tls = httptest.NewServer(http.HandlerFunc(serve)), httptest.NewUnstartedServer(http.HandlerFunc(serve))
	w.tls.Config.ErrorLog = log.New(io.Discard, "", 0) // most names of the test are not in its certificate
	w.tls.StartTLS()
	t.Cleanup(w.plain.Close)
	t.Cleanup(w.tls.Close)
	return w
}

func (w *world) client(allow ...string) *Client {
	pool := x509.NewCertPool()
	pool.AddCert(w.tls.Certificate())
	return New(Options{
		Allow: allow, CAs: pool,
		Proxy: func(*http.Request) (*url.URL, error) { return w.proxy, nil },
		Lookup: func(_ context.Context, host string) (out []netip.Addr, err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			all := w.names[host]
			for i, s := range all {
				if s == "|" { // the next look-up finds the rest
					w.names[host], all = all[i+1:], all[:i]
					break
				}
			}
			if len(all) == 0 {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			for _, s := range all {
				out = append(out, netip.MustParseAddr(s))
			}
			return out, nil
		},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			w.mu.Lock()
			w.dialed = append(w.dialed, address)
			w.mu.Unlock()
			to := w.tls
			if strings.HasSuffix(address, ":80") || strings.HasSuffix(address, ":3128") {
				to = w.plain
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", to.Listener.Addr().String())
		},
	})
}

// dials returns the addresses that were dialled since the last call.
func (w *world) dials() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.dialed, " ")
	w.dialed = nil
	return s
}

// get asks for an address. The certificate of httptest is for example.com and this machine, so the other
// names end as unreachable after they were dialled.
func get(t *testing.T, c *Client, near Nearness, address string) (*Answer, Reason) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.From(near, Bounds{}).Do(t.Context(), req)
	if err == nil {
		return a, ""
	}
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: %T %v", address, err, err)
	}
	if e.Error() == "" || e.NextStep() == "" {
		t.Errorf("%s: %q has no next step %q", address, e.Error(), e.NextStep())
	}
	return nil, e.Reason
}

// TestTA26 asks for addresses that a server of each nearness names. Whoever is refused gets no
// connection at all.
func TestTA26_NothingNearerThanTheServerIsAsked(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "here") })
	const yes = ""
	for _, c := range []struct {
		url                       string
		public, private, loopback Reason
	}{
		{"http://public.example/x", NotHTTPS, NotHTTPS, yes},
		{"http://private.example/x", NotHTTPS, NotHTTPS, yes},
		{"http://local.example/x", NotHTTPS, NotHTTPS, yes},
		{"https://example.com/x", yes, yes, yes}, // the name in the certificate of httptest
		{"https://private.example/x", Nearer, Unreachable, Unreachable},
		{"https://local.example/x", Nearer, Nearer, Unreachable},
		{"https://localhost/x", Nearer, Nearer, Unreachable},
		{"https://LOCALHOST/x", Unreachable, Unreachable, Unreachable}, // the network of the test has no such name
		{"https://127.0.0.1/x", Nearer, Nearer, yes},
		{"https://127.9.9.9/x", Nearer, Nearer, Unreachable},
		{"https://[::1]/x", Nearer, Nearer, yes},
		{"https://[::ffff:127.0.0.1]/x", Nearer, Nearer, yes},
		{"https://[::ffff:10.0.0.1]/x", Nearer, Unreachable, Unreachable},
		{"https://[64:ff9b::a00:1]/x", Nearer, Unreachable, Unreachable},
		{"https://[64:ff9b::a9fe:a9fe]/x", Forbidden, Forbidden, Forbidden},
		{"https://[2002:7f00:1::]/x", Nearer, Nearer, Unreachable},
		{"https://[fe80::1%25eth0]/x", Forbidden, Forbidden, Forbidden},
		{"https://169.254.169.254/latest/meta-data", Forbidden, Forbidden, Forbidden},
		{"https://meta.example/", Forbidden, Forbidden, Forbidden},
		{"https://0.0.0.0/", Forbidden, Forbidden, Forbidden},
		{"https://[::]/", Forbidden, Forbidden, Forbidden},
		{"https://224.0.0.1/", Forbidden, Forbidden, Forbidden},
		{"https://255.255.255.255/", Forbidden, Forbidden, Forbidden},
		{"https://mapped.example/", Nearer, Nearer, Unreachable},
		{"https://nat64.example/", Nearer, Nearer, Unreachable},
		{"https://sixto4.example/", Nearer, Unreachable, Unreachable},
		{"https://none.example/", Unreachable, Unreachable, Unreachable},
		{"ftp://public.example/", BadURL, BadURL, BadURL},
		{"file:///etc/passwd", BadURL, BadURL, BadURL},
		{"https://user@public.example/", BadURL, BadURL, BadURL},
		{"https:///x", BadURL, BadURL, BadURL},
	} {
		w.names["example.com"] = []string{"203.0.113.7"}
		for near, want := range []Reason{c.public, c.private, c.loopback} {
			a, got := get(t, w.client(), Nearness(near), c.url)
			dialed := w.dials()
			if got != want {
				t.Errorf("%s, named by a %s server: %q, want %q", c.url, Nearness(near), got, want)
			}
			if got != yes && got != Unreachable && dialed != "" {
				t.Errorf("%s, named by a %s server: %s was dialled", c.url, Nearness(near), dialed)
			}
			if got == yes && string(a.Body) != "here" {
				t.Errorf("%s: %q", c.url, a.Body)
			}
			var page *Error
			if err := w.client().From(Nearness(near), Bounds{}).MayOpen(t.Context(), c.url); errors.As(err, &page) != (want != yes && want != Unreachable) || page != nil && page.Reason != want || w.dials() != "" {
				t.Errorf("a page at %s, named by a %s server: %v", c.url, Nearness(near), err)
			}
		}
	}
}

// TestTA26_Redirects sends an answer that leads elsewhere.
func TestTA26_RedirectsStayOnTheirOrigin(t *testing.T) {
	to := ""
	w := newWorld(t, func(rw http.ResponseWriter, req *http.Request) {
		http.SetCookie(rw, &http.Cookie{Name: "a", Value: "b"})
		if req.Header.Get("Cookie") != "" {
			t.Error("a cookie came back")
		}
		if req.URL.Path == "/end" {
			_, _ = io.WriteString(rw, "end")
			return
		}
		http.Redirect(rw, req, to, http.StatusFound)
	})
	w.names["example.com"] = []string{"203.0.113.7"}
	for _, c := range []struct {
		to     string
		want   Reason
		dialed int
	}{
		{"/end", "", 2},
		{"https://example.com/end?x=1#f", "", 2},
		{"https://127.0.0.1/end", Redirected, 1},
		{"https://private.example/end", Redirected, 1},
		{"http://example.com/end", Redirected, 1},
		{"https://example.com:8443/end", Redirected, 1},
		{"https://u:p@example.com/end", Redirected, 1},
		{"//localhost/end", Redirected, 1},
		{"javascript:alert(1)", Redirected, 1},
		{"/again", Redirected, 4},
	} {
		to = c.to
		a, got := get(t, w.client(), Public, "https://example.com/start")
		dialed := w.dials()
		if got != c.want || len(strings.Fields(dialed)) != c.dialed || strings.Contains(dialed, "127.0.0.1") {
			t.Errorf("a redirect to %s: %q, %s was dialled, want %q", c.to, got, dialed, c.want)
		}
		if got == "" && (string(a.Body) != "end" || !strings.HasPrefix(a.URL, "https://example.com/end")) {
			t.Errorf("a redirect to %s: %q of %s", c.to, a.Body, a.URL)
		}
	}
	req, _ := http.NewRequest(http.MethodPost, "https://example.com/token", strings.NewReader("code=secret"))
	to = "/end"
	_, err := w.client().From(Public, Bounds{}).Do(t.Context(), req)
	var e *Error
	if !errors.As(err, &e) || e.Reason != Redirected || len(strings.Fields(w.dials())) != 1 {
		t.Errorf("a redirect of a POST: %v", err)
	}
	req, _ = http.NewRequest(http.MethodPost, "https://example.com/token", strings.NewReader("code=secret"))
	if a, err := w.client().From(Public, Bounds{AsIs: true}).Do(t.Context(), req); err != nil || a.Status/100 != 3 || a.Header.Get("Location") != "/end" || len(strings.Fields(w.dials())) != 1 {
		t.Errorf("a redirect as it is: %+v, %v", a, err)
	}
}

// TestTA27 lets a name have another address each time that it is looked up. The one that is dialled
// counts.
func TestTA27_TheAddressThatIsDialledCounts(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "here") })
	c := w.client()
	for _, x := range []struct {
		name      string
		addresses []string
		want      []Reason
		dialed    string
	}{
		{"far, then near", []string{"203.0.113.7", "|", "127.0.0.1"}, []Reason{"", Nearer}, "203.0.113.7:443"},
		{"near, then far", []string{"127.0.0.1", "|", "203.0.113.7"}, []Reason{Nearer, ""}, "203.0.113.7:443"},
		{"both at once", []string{"127.0.0.1", "10.0.0.1", "203.0.113.7", "::1"}, []Reason{"", ""}, "203.0.113.7:443 203.0.113.7:443"},
		{"far, then link-local", []string{"203.0.113.7", "|", "169.254.169.254"}, []Reason{"", Forbidden}, "203.0.113.7:443"},
	} {
		w.names["example.com"] = x.addresses
		for i, want := range x.want {
			if _, got := get(t, c, Public, "https://example.com/"); got != want {
				t.Errorf("%s, request %d: %q, want %q", x.name, i+1, got, want)
			}
		}
		if got := w.dials(); got != x.dialed {
			t.Errorf("%s: %q was dialled, want %q", x.name, got, x.dialed)
		}
	}
	// A connection that a caller on this machine may have is not one that the next caller may use.
	w.names["example.com"] = []string{"127.0.0.1"}
	if _, got := get(t, c, Loopback, "https://example.com/"); got != "" {
		t.Errorf("from loopback: %q", got)
	}
	if _, got := get(t, c, Public, "https://example.com/"); got != Nearer {
		t.Errorf("from the internet, over a connection that was open: %q", got)
	}
	if _, got := get(t, New(Options{Lookup: c.o.Lookup, Dial: c.o.Dial, Proxy: c.o.Proxy}).Trusting(c.o.CAs), Loopback, "https://example.com/"); got != "" {
		t.Errorf("with an authority of the caller: %q", got)
	}
	// The first address does not answer.
	w.names["example.com"] = []string{"203.0.113.66", "203.0.113.7"}
	o := c.o
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "203.0.113.66") {
			return nil, errors.New("no route")
		}
		return c.o.Dial(ctx, network, address)
	}
	if a, got := get(t, New(o), Public, "https://example.com/"); got != "" || a.Near != Public {
		t.Errorf("the second address: %q", got)
	}
}

// TestTA27_Near checks how near a server counts. Whoever owns its name must not gain by what it resolves to.
func TestTA27_NobodyGainsByTheNameOfAServer(t *testing.T) {
	w := newWorld(t, nil)
	w.names["example.com"] = []string{"203.0.113.7"}
	for _, c := range []struct {
		url       string
		addresses []string // of example.com
		want      Nearness
	}{
		{"https://example.com/mcp", []string{"203.0.113.7"}, Public},
		{"https://example.com/mcp", []string{"203.0.113.7", "127.0.0.1"}, Public},
		{"https://example.com/mcp", []string{"127.0.0.1"}, Loopback}, // it has the certificate
		{"https://example.com/mcp", []string{"10.0.0.1", "127.0.0.1"}, Private},
		{"https://local.example/mcp", nil, Public}, // it has none
		{"https://private.example/mcp", nil, Public},
		{"http://private.example/mcp", nil, Private},
		{"http://localhost:9000/mcp", nil, Loopback},
		{"https://localhost:9000/mcp", nil, Loopback},
		{"https://127.0.0.1/mcp", nil, Loopback},
		{"http://[::1]:80/mcp", nil, Loopback},
		{"http://192.168.1.1/mcp", nil, Private},
		{"http://169.254.1.1/mcp", nil, Private},
	} {
		if c.addresses != nil {
			w.names["example.com"] = c.addresses
		}
		if got, err := w.client().Near(t.Context(), c.url); got != c.want || err != nil {
			t.Errorf("%s at %v: %s, %v, want %s", c.url, c.addresses, got, err, c.want)
		}
	}
	for host, want := range map[string]Nearness{"public.example": Public, "private.example": Private, "mixed.example": Loopback, "meta.example": Loopback, "nat64.example": Loopback, "[fd00::1]": Private} {
		if got, err := w.client().Nearest(t.Context(), "https://"+host+"/x"); got != want || err != nil {
			t.Errorf("of ours, %s is %v: %v", host, got, err)
		}
	}
	if _, err := w.client().Nearest(t.Context(), "https://none.example/"); err == nil {
		t.Error("an unknown name of ours has a place")
	}
	if _, err := w.client().Near(t.Context(), "https://none.example/"); err == nil {
		t.Error("a name without addresses was near")
	}
	w.proxy, _ = url.Parse("http://proxy.example:3128")
	if got, err := w.client().Near(t.Context(), "http://private.example/mcp"); got != Public || err != nil {
		t.Errorf("behind a proxy: %s, %v", got, err)
	}
}

// TestAllow checks that allowed hosts may be nearer and without https, but not everywhere.
func TestAllow(t *testing.T) {
	w := newWorld(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		allow, url string
		want       Reason
	}{
		{"private.example", "http://private.example/", ""},
		{"PRIVATE.example.", "http://private.example/", ""},
		{"private.example:80", "http://private.example/", ""},
		{"private.example:8080", "http://private.example/", NotHTTPS},
		{"*.example", "http://private.example/", ""},
		{"*.private.example", "http://private.example/", NotHTTPS},
		{"*.rivate.example", "http://private.example/", NotHTTPS},
		{"127.0.0.1", "https://127.0.0.1/", ""},
		{"::1", "http://[::1]/", ""},
		{"[::1]:80", "http://[::1]/", ""},
		{"meta.example", "http://meta.example/", Forbidden},
		{"169.254.169.254", "http://169.254.169.254/", Forbidden},
	} {
		if _, got := get(t, w.client(c.allow), Public, c.url); got != c.want {
			t.Errorf("%s with %s allowed: %q, want %q", c.url, c.allow, got, c.want)
		}
	}
}

// TestProxy checks that the rule holds for what a proxy is asked for, and that the proxy itself may be near.
func TestProxy(t *testing.T) {
	w := newWorld(t, func(rw http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodConnect {
			t.Errorf("the proxy got %s %s", req.Method, req.URL)
		}
		rw.WriteHeader(http.StatusBadGateway)
	})
	w.proxy, _ = url.Parse("http://10.9.9.9:3128")
	for _, c := range []struct {
		allow, url string
		want       Reason
		dialed     string
	}{
		{"", "https://public.example/", Unreachable, "10.9.9.9:3128"}, // our proxy can't do more
		{"", "https://private.example/", Nearer, ""},
		{"", "https://mixed.example/", Nearer, ""},
		{"", "https://meta.example/", Forbidden, ""},
		{"", "https://203.0.113.7/", Forbidden, ""},
		{"", "https://[2001:db8::1]/", Forbidden, ""},
		{"", "https://127.1/", Forbidden, ""},
		{"", "https://2130706433/", Forbidden, ""},
		{"", "https://0x7f000001/", Forbidden, ""},
		{"", "https://0177.0.0.1/", Forbidden, ""},
		{"", "https://none.example/", Unreachable, ""},
		{"none.example", "https://none.example/", Unreachable, "10.9.9.9:3128"}, // only the proxy knows the name
		{"169.254.169.254", "https://169.254.169.254/", Forbidden, ""},
	} {
		var allow []string
		if c.allow != "" {
			allow = append(allow, c.allow)
		}
		_, got := get(t, w.client(allow...), Public, c.url)
		if dialed := w.dials(); got != c.want || dialed != c.dialed {
			t.Errorf("%s through a proxy: %q, %q was dialled, want %q, %q", c.url, got, dialed, c.want, c.dialed)
		}
	}
}

// TestBounds checks size and time, and that an answer with an error status is an answer.
func TestBounds(t *testing.T) {
	block := make(chan struct{})
	w := newWorld(t, func(rw http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/slow":
			rw.(http.Flusher).Flush()
			<-block
		case "/large":
			_, _ = io.WriteString(rw, strings.Repeat("x", 11))
		case "/fits":
			_, _ = io.WriteString(rw, strings.Repeat("x", 10))
		default:
			if req.Header.Get("Accept-Encoding") != "" || req.Header.Get("User-Agent") != "dragoman" {
				t.Errorf("the header is %v", req.Header)
			}
			rw.WriteHeader(http.StatusTeapot)
		}
	})
	defer close(block)
	for path, want := range map[string]Reason{"/slow": TooSlow, "/large": TooLarge, "/fits": "", "/": ""} {
		req, _ := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		b := Bounds{Size: 10}
		if path == "/slow" {
			b.Time = 50 * time.Millisecond
		}
		a, err := w.client().From(Loopback, b).Do(t.Context(), req)
		var e *Error
		switch errors.As(err, &e); {
		case want == "" && err != nil, want != "" && (e == nil || e.Reason != want):
			t.Errorf("%s: %v, want %q", path, err, want)
		case path == "/" && a.Status != http.StatusTeapot:
			t.Errorf("%s: %d", path, a.Status)
		}
		if e != nil && e.Weather() != (want == TooSlow) {
			t.Errorf("%s: weather is %v", path, e.Weather())
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	mine := errors.New("gone")
	stop(mine)
	req, _ := http.NewRequest(http.MethodGet, "http://localhost/", nil)
	if _, err := w.client().From(Loopback, Bounds{}).Do(ctx, req); !errors.Is(err, mine) {
		t.Errorf("the caller has gone: %v", err)
	}
}

func TestOf(t *testing.T) {
	const never = "never"
	for want, all := range map[string]string{
		"public": "8.8.8.8 100.63.255.255 100.128.0.0 172.15.0.1 172.32.0.1 192.169.0.0 2606:4700::1 2002:808:808::1 64:ff9b::808:808 " +
			"64:ff9b:1::808:808 2001:0:808:808:0:0:f7f7:f7f7 ::ffff:8.8.8.8 ::8.8.8.8 ::ffff:0:8.8.8.8",
		"private": "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 100.64.0.1 198.18.0.1 192.0.0.1 fc00::1 fd12::1 fec0::1 " +
			"5f00::1 64:ff9b::c0a8:1 2002:ac10:1::1 64:ff9b:1::a00:1 64:ff9b:1:a00:0:100:: 2001:0:808:808:0:0:f5ff:fffe ::10.0.0.1",
		"loopback": "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1 " +
			"64:ff9b:1::7f00:1 64:ff9b:1:7f00:0:100:: 2001:0:808:808:0:0:80ff:fffe",
		never: "0.0.0.0 0.1.2.3 169.254.0.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 100.100.100.200 168.63.129.16 :: fe80::1 ff02::1 " +
			"fe80::1%eth0 fd00:ec2::254 fd20:ce::254 ::ffff:0.0.0.0 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 64:ff9b:1::a9fe:a9fe 64:ff9b:1::",
	} {
		for _, s := range strings.Fields(all) {
			got := never
			if n, ok := Of(netip.MustParseAddr(s)); ok {
				got = n.String()
			}
			if got != want {
				t.Errorf("%s is %s, want %s", s, got, want)
			}
		}
	}
	if _, ok := Of(netip.Addr{}); ok {
		t.Error("no address can be reached")
	}
}

func TestKeep(t *testing.T) {
	for line, want := range map[string]time.Duration{
		"": 5 * time.Minute, "max-age=60": 5 * time.Minute, "public, Max-Age=3600": time.Hour, "max-age=999999": 24 * time.Hour,
		"no-store, max-age=3600": 5 * time.Minute, "max-age=-1": 5 * time.Minute, "max-age=x": 5 * time.Minute, "max-age=\"3600\"": time.Hour,
	} {
		a := Answer{Header: http.Header{"Cache-Control": {line}}}
		if got := a.Keep(5*time.Minute, 24*time.Hour); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}
