package gateway

import (
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// notifier sends notifications to one legacy client. A caller never waits for the client,
// because a server's reader serves all other clients too. The queue is bounded by the
// number of things that can change and by maxHeld other notifications. A flood is sent once
// per pace, changes of one list once per changePace. The writing goroutine exists only
// while something is queued, so an idle client has none.
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
	maxHeld = 256 // queued notifications that do not cover each other
	pace    = 50 * time.Millisecond
	// maxHeldBytes bounds the queue of one client in bytes. A notification that only says that
	// something has changed is still accepted if it has at most alwaysFits bytes: without it
	// the client would not read again.
	maxHeldBytes = 1 << 20
	alwaysFits   = 1 << 10
)

// fits reports whether m may be queued beside the notifications in waiting.
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

// repeats reports whether notifications of this method only say that something has changed,
// so that one in the queue covers all later ones.
func repeats(method string) bool {
	switch method {
	case mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged, mcp.NoteResourceUpdated:
		return true
	}
	return false
}

// changePace is the least time between two notifications to one client that the same list
// has changed. The first is sent at once. Those that come sooner are merged into one, which
// is sent when the time is over. Clients read the list after each.
const changePace = time.Second

// listPace has the time when a client was last told that a list has changed, for each list.
// The zero value is ready to use.
type listPace [3]time.Time

// listOf returns the index in a listPace of the list that a notification is about, or -1
// for other notifications.
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

// split returns in due what may be sent now, and in later what has to wait. It records that
// due is sent.
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

// put adds a notification of u, or of Dragoman if u is nil. If the queue is full it is
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
				q.from, q.m = u, m // otherwise the queued one says the same
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
		var started sync.WaitGroup // close waits for writing instead of started
		started.Go(o.write)
	}
}

// stands reports whether a queued notification covers a further one. A changed list is the
// whole merged list, whichever server caused it.
func (q *queued) stands(u Upstream, m *jsonrpc.Message) bool {
	if listOf(m.Method) >= 0 {
		return q.m.Method == m.Method
	}
	return q.from == u && sameNotice(q.m, m)
}

// sameNotice reports whether two notifications are about the same thing.
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
				o.to.Notify(&mcp.Note{Msg: x.m})
			} else {
				o.to.Notify(forLegacyClient(x.from, x.m, o.as))
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

// close drops the queue and returns when nothing is being written any more.
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
