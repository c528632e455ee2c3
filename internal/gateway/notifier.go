package gateway

import (
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// notifier sends notices to one legacy client. A caller never waits for the client,
// because a server's reader serves all other clients too. The queue is bounded by the
// kinds of notices that repeat themselves and by maxHeld of the others. A server that
// floods is heard once per pace, changes of one list once per changePace. The writing
// goroutine exists only while something waits, so an idle client has none.
type notifier struct {
	to mcp.Subscriber
	as rename

	mu      sync.Mutex
	waiting []queued
	told    listPace
	writing chan struct{} // closed when the writer has returned; nil while there is none
	quit    chan struct{} // closed by close; made with writing
	closed  bool
}

const (
	maxHeld = 256 // notices that wait beside those that stand for each other
	pace    = 50 * time.Millisecond
	// maxHeldBytes bounds what waits for one client in bytes. A notice that only says
	// that something has changed still has its place when it is no longer than
	// alwaysFits: its client would not read anew.
	maxHeldBytes = 1 << 20
	alwaysFits   = 1 << 10
)

// fits reports whether the notice m may wait beside those in waiting.
func fits(waiting []queued, m *jsonrpc.Message) bool {
	if repeats(m.Method) && len(m.Raw) <= alwaysFits {
		return true
	}
	size := len(m.Raw)
	for i := range waiting {
		size += len(waiting[i].m.Raw)
	}
	return size <= maxHeldBytes
}

// repeats reports whether a notice of this method says only that something has
// changed, so that one that waits stands for all that come after it.
func repeats(method string) bool {
	switch method {
	case mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged, mcp.NoteResourceUpdated:
		return true
	}
	return false
}

// changePace is the least time between two notifications of one client that the same
// list has changed. The first goes out at once; those that come sooner are one, which
// goes out when its time has come. Clients answer each by reading the list.
const changePace = time.Second

// listPace notes when a client was last told that a list has changed, by the list.
// The zero value is ready.
type listPace [3]time.Time

// listOf returns the index in a listPace of the list that a notification says has
// changed, -1 for other notifications.
func listOf(method string) int {
	switch method {
	case mcp.NoteToolsChanged:
		return 0
	case mcp.NotePromptsChanged:
		return 1
	case mcp.NoteResourcesChanged:
		return 2
	}
	return -1
}

// split returns what may be told now, and in later what has to wait. It notes that
// the first is told.
func (p *listPace) split(waiting []queued, now time.Time) (due, later []queued) {
	for _, q := range waiting {
		i := listOf(q.m.Method)
		if i >= 0 && now.Sub(p[i]) < changePace {
			later = append(later, q)
			continue
		}
		if i >= 0 {
			p[i] = now
		}
		due = append(due, q)
	}
	return due, later
}

// put adds a notice of u, or of ourselves where u is nil. When too many wait it is
// dropped.
func (o *notifier) put(u Upstream, m *jsonrpc.Message) {
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
		} else if q.stands(u, m) {
			if len(m.Raw) <= max(alwaysFits, len(q.m.Raw)) {
				q.from, q.m = u, m // otherwise the one that waits says it as well
			}
			return
		}
	}
	if others >= maxHeld || len(o.waiting) >= maxHeld+2*maxURIs || !fits(o.waiting, m) {
		return
	}
	o.waiting = append(o.waiting, queued{u, m})
	if o.writing == nil {
		o.writing, o.quit = make(chan struct{}), make(chan struct{})
		var started sync.WaitGroup // close waits for writing instead
		started.Go(o.write)
	}
}

// stands reports whether a notice that waits stands for a further one. That a list
// has changed is said of the whole list, whichever server is the reason.
func (q *queued) stands(u Upstream, m *jsonrpc.Message) bool {
	if listOf(m.Method) >= 0 {
		return q.m.Method == m.Method
	}
	return q.from == u && sameNotice(q.m, m)
}

// sameNotice reports whether two notices tell of the same thing.
func sameNotice(a, b *jsonrpc.Message) bool {
	return a.Method == b.Method && string(a.Param("uri").Of(a.Raw)) == string(b.Param("uri").Of(b.Raw)) &&
		string(a.Param("taskId").Of(a.Raw)) == string(b.Param("taskId").Of(b.Raw))
}

func (o *notifier) write() {
	var wait *time.Timer
	for {
		o.mu.Lock()
		quit := o.quit
		var list []queued
		list, o.waiting = o.told.split(o.waiting, time.Now())
		if len(list)+len(o.waiting) == 0 || o.closed {
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
func (o *notifier) close() {
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
