package daemon

import (
	"context"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/peer"
)

// swap is a peer.Host whose real host can be replaced while clients are there:
// running calls end where they began, later ones go to the new host, and legacy
// clients are attached to it.
type swap struct {
	mu       sync.Mutex
	host     peer.Host
	attached map[*attached]struct{}
}

type attached struct {
	facts  *mcp.ClientFacts
	to     peer.Standing
	detach func()
}

func (s *swap) now() peer.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// replace puts h in the old host's place and returns when all clients have moved.
func (s *swap) replace(h peer.Host) {
	s.mu.Lock()
	s.host = h
	all := make([]*attached, 0, len(s.attached))
	for a := range s.attached {
		all = append(all, a)
	}
	s.mu.Unlock()
	for _, a := range all {
		detach := h.Attach(a.facts, a.to)
		s.mu.Lock()
		_, still := s.attached[a]
		old := a.detach
		if still {
			a.detach = detach
		}
		s.mu.Unlock()
		if !still {
			detach()
			continue
		}
		old()
		for _, note := range []string{mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged} {
			a.to.Notify(jsonrpc.AppendNotification(nil, note, nil))
		}
	}
}

func (s *swap) Hello(ctx context.Context, f *mcp.ClientFacts) (*mcp.Hello, error) {
	return s.now().Hello(ctx, f)
}

func (s *swap) Call(ctx context.Context, c *mcp.Call, sink peer.Sink) (*mcp.Reply, error) {
	return s.now().Call(ctx, c, sink)
}

func (s *swap) Notice(ctx context.Context, f *mcp.ClientFacts, m *jsonrpc.Message) {
	s.now().Notice(ctx, f, m)
}

func (s *swap) Attach(f *mcp.ClientFacts, to peer.Standing) (detach func()) {
	a := &attached{facts: f, to: to}
	for {
		h := s.now()
		a.detach = h.Attach(f, to)
		s.mu.Lock()
		if s.host == h {
			break
		}
		// The host was replaced meanwhile, and replace has not seen this client.
		s.mu.Unlock()
		a.detach()
	}
	if s.attached == nil {
		s.attached = make(map[*attached]struct{})
	}
	s.attached[a] = struct{}{}
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		delete(s.attached, a)
		detach := a.detach
		s.mu.Unlock()
		detach()
	}
}
