package streamhttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// house is a transport.Seats of a process whose sessions others can take. Ids are "id", a dot and a number.
type house struct {
	transport.Alone
	mu    sync.Mutex
	term  uint64
	given []string
	heirs bool
	away  bool // Find says that another process has everything
	hop   bool // requests come from another process
	fails error
}

func (h *house) Seal(string, []byte) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return "id." + strings.Repeat("x", int(h.term)+1)
}

func (h *house) Term() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.term
}

func (h *house) Holds(context.Context) bool { return true }

func (h *house) Find(_ context.Context, id, _ string, _ bool) (transport.Estate, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away {
		return transport.Estate{}, &transport.Elsewhere{Home: "there", Again: true}
	}
	return transport.Estate{}, transport.ErrNoSession
}

func (h *house) Keep(string, func() []byte) {}
func (h *house) Release(string)             {}

func (h *house) Give(_ context.Context, all []transport.Estate) (lost []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.heirs {
		return nil, transport.ErrNoHeir
	}
	for _, x := range all {
		h.given = append(h.given, x.ID)
	}
	h.away = true
	return h.given, nil
}

// Reaches implements httpdoor.Forwarder.
func (h *house) Reaches(*http.Request, *transport.Elsewhere) bool { return true }

func (h *house) Forward(w http.ResponseWriter, _ *http.Request, _ []byte, to *transport.Elsewhere) bool {
	switch {
	case h.fails != nil:
		to.Failed = h.fails
		httpdoor.Refuse(w, http.StatusOK, "1", mcp.Wire(h.fails))
	case h.hop:
		w.WriteHeader(http.StatusMisdirectedRequest)
	case to.Home == "there":
		w.WriteHeader(http.StatusTeapot)
	default:
		return false
	}
	return true
}

// TestRecord lets requests get lost that another process should answer. The Acceptor hears of each once more, and which
// error the client got.
func TestRecord(t *testing.T) {
	h := &house{fails: errors.New("lost"), away: true}
	var failed atomic.Int64
	hall := &hall{serve: func(_ context.Context, in transport.Incoming, r transport.Responder) {
		if in.Failed != nil {
			if in.Failed != h.fails || in.Msg.Method != mcp.MethodCallTool || in.Request.Path != "/mcp" {
				t.Errorf("it hears of %s: %v", in.Msg.Raw, in.Failed)
			}
			failed.Add(1)
			finish(in, r)
		} else if !r.(transport.Forwarding).Forward(&transport.Elsewhere{Home: "there", Again: true}) {
			t.Error("nobody passes it on")
		}
	}}
	d := open(t, hall, func(o *Options) { o.Places, o.Forward = h, h })
	d.post(call("1"), "Mcp-Session-Id: id.x").want(t, 200, -32603)
	body, header := modernCall("1")
	d.post(body, header...).want(t, 200, -32603)
	if n := failed.Load(); n != 2 {
		t.Errorf("it hears of %d", n)
	}
}

// TestHandOver gives a session away: its stream ends, and its requests go to another process. Without an heir, it stays.
func TestHandOver(t *testing.T) {
	h := &house{}
	d := open(t, &hall{}, func(o *Options) { o.Places, o.Forward = h, h })
	id := d.initialize("2025-11-25")
	d.server.HandOver(t.Context())
	d.post(call("1"), id).want(t, 200, 0)
	h.heirs = true
	d.server.HandOver(t.Context())
	if a := d.post(call("1"), id); a.status != http.StatusTeapot || len(h.given) != 1 {
		t.Errorf("status %d, given %q", a.status, h.given)
	}
}

// TestTerms ends a term: the sessions from before aren't served any more.
func TestTerms(t *testing.T) {
	h := &house{}
	d := open(t, &hall{}, func(o *Options) { o.Places, o.Forward = h, h })
	id := d.initialize("2025-11-25")
	d.post(call("1"), id).want(t, 200, 0)
	h.mu.Lock()
	h.term++
	h.mu.Unlock()
	d.post(call("1"), id).want(t, 404, -32600)
	d.post(call("1"), d.initialize("2025-11-25")).want(t, 200, 0)
	if n := len(d.server.table.all()); n != 1 {
		t.Errorf("%d sessions", n)
	}
}
