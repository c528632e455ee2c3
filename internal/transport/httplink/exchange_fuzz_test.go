//go:build unix

package httplink

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// lenient lists the answers that net/http accepts and we refuse, as patterns of the whole answer.
var lenient = map[string]*regexp.Regexp{
	"a line of a trailer that ends without CR":                 regexp.MustCompile(`(?is)\ntransfer-encoding:.*[^\r]\n`),
	"a CR within a line":                                       regexp.MustCompile(`\r([^\n]|$)`),
	"a control character in a status line":                     regexp.MustCompile(`HTTP/[^\n]*[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]`),
	"a status code below 100 or with a sign":                   regexp.MustCompile(`HTTP/\d\.\d +(0|\+)`),
	"a version other than 1.x":                                 regexp.MustCompile(`HTTP/[^1]\.`),
	"a folded line":                                            regexp.MustCompile(`\n[ \t]`),
	"a space in the name of a field":                           regexp.MustCompile(`\n[^:\r\n]* [^:\r\n]*:`),
	"a length together with an encoding":                       regexp.MustCompile(`(?is)\n(content-length:.*\ntransfer-encoding:|transfer-encoding:.*\ncontent-length:)`),
	"an encoding in HTTP/1.0":                                  regexp.MustCompile(`(?is)HTTP/1\.0.*\ntransfer-encoding:`),
	"an answer to a status without a body with a bad encoding": regexp.MustCompile(`(?is)HTTP/1\.\d +(1\d\d|204|304).*\ntransfer-encoding:`),
}

// stricter lists the answers that net/http refuses and we accept.
var stricter = map[string]*regexp.Regexp{
	"a Trailer that names a field of the framing": regexp.MustCompile(`(?i)\ntrailer:`),
}

var interim = regexp.MustCompile(`^HTTP/\d\.\d +1`)

type outcome struct {
	status int
	header http.Header
	length int64
	body   string
	err    error // of the head or of the body
	headed bool  // the head was accepted
}

func outcomeOf(rt http.RoundTripper, l *Link) (o outcome) {
	l.rt = rt
	resp, err := l.Send(context.Background(), "POST", l.NewHeader(0), []byte("{}"))
	if err != nil {
		o.err = err
		return o
	}
	defer resp.Close()
	o.status, o.header, o.length, o.headed = resp.StatusCode, resp.Header, resp.ContentLength, true
	if o.status == http.StatusSwitchingProtocols {
		return o // net/http makes the connection the body
	}
	b, err := io.ReadAll(resp.Body)
	o.body, o.err = string(b), err
	return o
}

// FuzzAnswers gives the same bytes as an answer to us and to net/http.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\n{}\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\nTrailer: X\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}x",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nPragma: no-cache\r\n\r\n",
		"HTTP/1.1 200  \r\nx-a:  b \r\nX-A:c\r\n\r\nuntil the end",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\r\n{}\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nX: y\r\n folded\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\n{}", "HTTP/2.0 +20 OK\r\n\r\n", "\x15\x03\x01\x00\x02\x02\x46",
	} {
		f.Add([]byte(s))
	}
	ln, err := net.Listen("unix", filepath.Join(f.TempDir(), "s"))
	if err != nil {
		f.Skip(err)
	}
	f.Cleanup(func() { ln.Close() })
	answers := make(chan []byte)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			var got []byte
			b := make([]byte, 4096)
			for !bytes.HasSuffix(got, []byte("\r\n\r\n{}")) {
				n, err := c.Read(b)
				if err != nil {
					break
				}
				got = append(got, b[:n]...)
			}
			c.Write(<-answers)
			c.Close()
		}
	}()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", ln.Addr().String())
	}
	l, err := New("http://h/", Options{})
	if err != nil {
		f.Fatal(err)
	}
	own := l.rt.(*Origin)
	own.pool.dial = dial
	f.Fuzz(func(t *testing.T, answer []byte) {
		if len(answer) > 64<<10 {
			return
		}
		theirs := DefaultTransport()
		theirs.DialContext = dial
		go func() { answers <- answer; answers <- answer }()
		a, b := outcomeOf(own, l), outcomeOf(theirs, l)
		own.CloseIdleConnections()
		theirs.CloseIdleConnections()
		compare(t, answer, a, b)
	})
}

func compare(t *testing.T, answer []byte, a, b outcome) {
	whole := answer
	if head, _, ok := bytes.Cut(answer, []byte("\r\n\r\n")); ok && !interim.Match(head) && !bytes.Contains(bytes.ToLower(head), []byte("chunked")) {
		answer = answer[:len(head)+4] // what may be in a body says nothing about the head
	}
	listed := func(list map[string]*regexp.Regexp) bool {
		for _, p := range list {
			if p.Match(answer) {
				return true
			}
		}
		return false
	}
	switch {
	case a.err != nil && b.err != nil && a.headed == b.headed && a.status == b.status:
		return
	case a.err != nil && listed(lenient), a.err == nil && b.err != nil && listed(stricter):
		return
	case a.err != nil || b.err != nil:
		t.Fatalf("%q: we have %+v, net/http has %+v", whole, a, b)
	}
	// net/http takes the names of a trailer from the header, and translates HTTP/1.0's Pragma.
	for _, h := range []http.Header{a.header, b.header} {
		delete(h, "Trailer")
		if strings.HasPrefix(h.Get("Pragma"), "no-cache") {
			delete(h, "Cache-Control")
		}
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%q: we have %+v, net/http has %+v", whole, a, b)
	}
}
