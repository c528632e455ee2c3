package streamhttp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// bare is a conversation that does as little as possible.
type bare struct{}

var bareAnswer = []byte(`{"jsonrpc":"2.0","id":1,"result":{"ok":true}}`)

func (bare) Accept(transport.Peer, transport.Outbox) transport.Conversation { return bare{} }
func (bare) Request(_ context.Context, _ transport.Incoming, r transport.Responder) {
	_ = r.Finish(bareAnswer, 0)
}
func (bare) OneWay(context.Context, transport.Incoming) error { return nil }
func (bare) Close(error)                                      {}

// sink is a ResponseWriter that does as little as possible.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

func (s *sink) SetReadDeadline(time.Time) error { return nil }

// modernRequest returns a request of about 1 KiB, and a function that resets the body so that the
// request can be used again. With a session, the request is a legacy call, otherwise a modern one.
func modernRequest(session string) (r *http.Request, again func()) {
	body, lines := modernCall("1")
	if session != "" {
		body, lines = call("1"), []string{"Mcp-Session-Id: " + session}
	}
	body = strings.Replace(body, `"arguments":{}`, `"arguments":{"text":"`+strings.Repeat("x", 700)+`"}`, 1)
	r = httptest.NewRequest("POST", "http://localhost/mcp", nil)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "User-Agent": {"x"}, "Accept-Encoding": {"gzip"}}
	for _, l := range lines {
		k, v, _ := strings.Cut(l, ": ")
		r.Header.Set(k, v)
	}
	rd := strings.NewReader(body)
	r.Body, r.ContentLength = io.NopCloser(rd), int64(len(body))
	return r, func() { rd.Reset(body) }
}

// TestAllocationBudget limits the allocations of a simple call to six, which include the body, the
// message, the id, the response, and the timer with its closure.
func TestAllocationBudget(t *testing.T) {
	s := NewServer(Options{Acceptor: bare{}, Principal: identity.Anyone})
	ses := s.newSession("", "")
	ses.id, ses.conv = "session", bare{}
	s.table.byID["session"] = ses
	for name, most := range map[string]float64{"": 6, "session": 6} {
		r, again := modernRequest(name)
		w := &sink{h: make(http.Header)}
		n := testing.AllocsPerRun(500, func() {
			again()
			s.ServeHTTP(w, r)
		})
		t.Logf("%q makes %v allocations", name, n)
		if n > most {
			t.Errorf("%q makes %v allocations, want at most %v", name, n, most)
		}
	}
}

func BenchmarkDoor(b *testing.B) {
	s := NewServer(Options{Acceptor: bare{}, Principal: identity.Anyone})
	ses := s.newSession("", "")
	ses.id, ses.conv = "session", bare{}
	s.table.byID["session"] = ses
	for _, name := range []string{"modern", "session"} {
		b.Run(name, func(b *testing.B) {
			session := ""
			if name == "session" {
				session = name
			}
			r, again := modernRequest(session)
			w := &sink{h: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				again()
				s.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkLoopback compares a Server with a minimal net/http handler.
func BenchmarkLoopback(b *testing.B) {
	least := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, r.ContentLength)
		_, _ = io.ReadFull(r.Body, body)
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = w.Write(bareAnswer)
	})
	for name, h := range map[string]http.Handler{"least": least, "door": NewServer(Options{Acceptor: bare{}, Principal: identity.Anyone})} {
		b.Run(name, func(b *testing.B) {
			ts := httptest.NewServer(h)
			defer ts.Close()
			text, lines := modernCall("1")
			text = strings.Replace(text, `"arguments":{}`, `"arguments":{"text":"`+strings.Repeat("x", 700)+`"}`, 1)
			var failed atomic.Int64
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					req, _ := http.NewRequest("POST", ts.URL, bytes.NewReader([]byte(text)))
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Accept", "application/json, text/event-stream")
					for _, l := range lines {
						k, v, _ := strings.Cut(l, ": ")
						req.Header.Set(k, v)
					}
					resp, err := ts.Client().Do(req)
					if err != nil || resp.StatusCode != 200 {
						failed.Add(1)
						continue
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			})
			if failed.Load() > 0 {
				b.Errorf("%d requests failed", failed.Load())
			}
		})
	}
}
