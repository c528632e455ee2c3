//go:build unix

package httplink

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
)

// sealed starts a server with TLS, and returns an Origin that reaches it, and how many connections it has got.
func sealed(t *testing.T, h http.HandlerFunc) (o *Origin, s *httptest.Server, connections *atomic.Int64) {
	t.Helper()
	connections = &atomic.Int64{}
	s = httptest.NewUnstartedServer(h)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	o = NewOrigin(s.Listener.Addr().String(), (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext)
	t.Cleanup(o.CloseIdleConnections)
	return o, s, connections
}

// send sends a POST and reads the answer.
func send(t *testing.T, o *Origin, path string, body []byte) (answer []byte, sent bool, err error) {
	t.Helper()
	req := (&http.Request{Method: "POST", URL: &url.URL{Path: path}, Host: "a.example", Header: http.Header{"X-A": {"1"}}}).WithContext(t.Context())
	resp, sent, err := o.Exchange(req, body)
	if err != nil {
		return nil, sent, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return answer, sent, err
}

// TestSealed sends requests of all lengths over TLS, on one connection.
func TestSealed(t *testing.T) {
	t.Parallel()
	o, s, connections := sealed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "a.example" || r.Header.Get("X-A") != "1" {
			t.Errorf("%s %v", r.Host, r.Header)
		}
		w.Header()["Date"] = nil
		if b, err := io.ReadAll(r.Body); err == nil {
			_, _ = w.Write(b)
		}
	})
	for _, size := range []int{0, 1, 256, joined, joined + 1, 64 << 10, 4 << 20} {
		body := make([]byte, size)
		_, _ = rand.Read(body)
		for range 2 {
			got, _, err := send(t, o, "/", body)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes: %v, and %d came back", size, err, len(got))
			}
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	// A connection that the server has closed is not used again, so nothing is lost.
	s.CloseClientConnections()
	if got, _, err := send(t, o, "/", []byte("x")); err != nil || string(got) != "x" {
		t.Errorf("after the connection was closed: %q, %v", got, err)
	}
}

// TestSealedAnswers lets the server answer without reading, and go without an answer.
func TestSealedAnswers(t *testing.T) {
	t.Parallel()
	o, _, _ := sealed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusMisdirectedRequest)
		_, _ = io.WriteString(w, "no")
	})
	if got, _, err := send(t, o, "/", make([]byte, 8<<20)); err != nil || string(got) != "no" {
		t.Errorf("an early answer: %q, %v", got, err)
	}
	for _, size := range []int{10, 1 << 20} {
		if _, sent, err := send(t, o, "/gone", make([]byte, size)); err == nil || !sent {
			t.Errorf("%d bytes to a server that goes: sent %v, %v", size, sent, err)
		}
	}
	refused := errors.New("refused")
	nobody := NewOrigin("", func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	if _, sent, err := send(t, nobody, "/", []byte("x")); !errors.Is(err, refused) || sent {
		t.Errorf("nobody there: sent %v, %v", sent, err)
	}
}
