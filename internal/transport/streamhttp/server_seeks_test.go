package streamhttp

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestSeeksOn lets a modern request be for a process that doesn't get it. The request is served again, here or there,
// until somebody has it.
func TestSeeksOn(t *testing.T) {
	h, tries := &house{}, 0
	away := &transport.Elsewhere{Home: "lost", Again: true}
	serve := func(until int, last func(transport.Incoming, transport.Responder)) *hall {
		tries = 0
		return &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
			if tries++; tries > until {
				last(in, r)
			} else if !r.(transport.Forwarding).Forward(away) {
				t.Error("it isn't passed on")
			}
		}}
	}
	body, headers := modernCall("7")
	d := open(t, serve(3, finish), func(o *Options) { o.Forward = h })
	if a := d.post(body, headers...); a.status != 200 || !strings.Contains(a.body, `"id":7`) || tries != 4 {
		t.Errorf("status %d after %d tries: %s", a.status, tries, a.body)
	}
	d = open(t, serve(1, func(_ transport.Incoming, r transport.Responder) {
		r.(transport.Forwarding).Forward(&transport.Elsewhere{Home: "there", Again: true})
	}), func(o *Options) { o.Forward = h })
	if a := d.post(body, headers...); a.status != http.StatusTeapot || tries != 2 {
		t.Errorf("status %d after %d tries: %s", a.status, tries, a.body)
	}
}

// TestTooLateForAHop sends requests to a server that is about to stop. Clients are refused, and another process that passes
// a request on looks for a better place. A request that runs goes on.
func TestTooLateForAHop(t *testing.T) {
	h, runs, ends := &house{}, make(chan bool), make(chan bool)
	d := open(t, &hall{serve: func(ctx context.Context, in transport.Incoming, r transport.Responder) {
		runs <- true
		<-ends
		finish(in, r)
	}}, func(o *Options) { o.Forward = h })
	body, headers := modernCall("7")
	first := make(chan heard)
	go func() { first <- d.post(body, headers...) }()
	<-runs
	d.server.Refuse()
	if n := d.server.Busy(); n != 1 {
		t.Errorf("%d requests run", n)
	}
	if a := d.post(body, headers...); a.status != http.StatusServiceUnavailable {
		t.Errorf("a client's: status %d: %s", a.status, a.body)
	}
	h.hop = true
	if a := d.post(body, headers...); a.status != http.StatusMisdirectedRequest {
		t.Errorf("one that was passed on: status %d: %s", a.status, a.body)
	}
	close(ends)
	if a := <-first; a.status != 200 || !strings.Contains(a.body, `"id":7`) {
		t.Errorf("the one that ran: status %d: %s", a.status, a.body)
	}
}
