package gateway

import (
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/peer"
)

// outlet takes notices to one legacy client. Whoever has a notice never waits for
// the client: a server's reader serves all the others too. What waits is bounded
// by the kinds of notices that repeat themselves and by maxHeld of the others; a
// server that floods is heard every pace. The goroutine that writes is there only
// while something waits, so that an idle client has none.
type outlet struct {
	to peer.Standing
	as rename

	mu      sync.Mutex
	waiting []queued
	writing chan struct{} // closed when the writer has returned; nil while there is none
	quit    chan struct{} // closed by close; made with writing
	closed  bool
}

const (
	maxHeld = 256 // notices that wait beside those that stand for each other
	pace    = 50 * time.Millisecond
)

// repeats reports whether a notice of this method says only that something has
// changed, so that one that waits stands for all that come after it.
func repeats(method string) bool {
	switch method {
	case mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged, mcp.NoteResourceUpdated:
		return true
	}
	return false
}

// put adds a notice of u, or of ourselves where u is nil. When too many wait it is
// dropped.
func (o *outlet) put(u Upstream, m *jsonrpc.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	others := 0
	for i := range o.waiting {
		q := &o.waiting[i]
		if !repeats(q.m.Method) {
			others++
		} else if q.from == u && sameNotice(q.m, m) {
			q.m = m
			return
		}
	}
	if others >= maxHeld || len(o.waiting) >= maxHeld+2*maxURIs {
		return
	}
	o.waiting = append(o.waiting, queued{u, m})
	if o.writing == nil {
		o.writing, o.quit = make(chan struct{}), make(chan struct{})
		var started sync.WaitGroup // close waits for writing instead
		started.Go(o.write)
	}
}

// sameNotice reports whether two notices tell of the same thing.
func sameNotice(a, b *jsonrpc.Message) bool {
	return a.Method == b.Method && string(a.Param("uri").Of(a.Raw)) == string(b.Param("uri").Of(b.Raw)) &&
		string(a.Param("taskId").Of(a.Raw)) == string(b.Param("taskId").Of(b.Raw))
}

func (o *outlet) write() {
	var wait *time.Timer
	for {
		o.mu.Lock()
		list, quit := o.waiting, o.quit
		o.waiting = nil
		if len(list) == 0 || o.closed {
			close(o.writing)
			o.writing = nil
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		for _, x := range list {
			if x.from == nil {
				o.to.Notify(x.m.Raw)
			} else {
				o.to.Notify(plain(x.from, x.m, o.as))
			}
		}
		if wait == nil {
			wait = time.NewTimer(pace)
			defer wait.Stop()
		} else {
			wait.Reset(pace)
		}
		select {
		case <-wait.C:
		case <-quit:
		}
	}
}

// close drops what waits and returns when nothing is written any more.
func (o *outlet) close() {
	o.mu.Lock()
	writing := o.writing
	if !o.closed && writing != nil {
		close(o.quit)
	}
	o.closed = true
	o.mu.Unlock()
	if writing != nil {
		<-writing
	}
}
