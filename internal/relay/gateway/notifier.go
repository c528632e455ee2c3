package gateway

import (
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// notifier sends notifications to one legacy client. put never waits for the client, because put
// runs in a goroutine that reads from a server for all clients. The queue contains at most one
// notification for each thing that can change, and at most maxHeld other notifications. The time
// between two writes is at least pace. The time between two notifications about one list is at
// least changePace. The goroutine that writes exists only while something is queued, so an idle
// client needs no goroutine.
type notifier struct {
	to mcp.Subscriber
	as rename

	mu      sync.Mutex
	waiting []queued
	pace    listPace
	writing chan struct{} // closed when the writing goroutine has returned; nil if there is none
	quit    chan struct{} // closed by the method close; created together with writing
	closed  bool
}

const (
	maxHeld = 256 // the maximum number of queued notifications for which repeats returns false
	pace    = 50 * time.Millisecond
	// maxHeldBytes bounds the queue of one client in bytes. A notification that only says that
	// something has changed is queued beyond this bound, if it has at most alwaysFits bytes.
	// Without it, the client would not read the list or resource again.
	maxHeldBytes = 1 << 20
	alwaysFits   = 1 << 10
)

// fits reports whether m may be added to a queue.
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

// repeats reports whether notifications of this method only say that something has changed. If such
// a notification is in the queue, later notifications about the same thing are unnecessary.
func repeats(method string) bool {
	switch method {
	case mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged, mcp.NoteResourceUpdated:
		return true
	}
	return false
}

// changePace is the minimum time between two notifications to one client that the same list has
// changed. The first notification is sent at once. Later notifications within this time are merged
// into one notification, which is sent when the time is over. This protects the servers, because
// clients usually read the list after each notification.
const changePace = time.Second

// listPace contains, for each list, the time when a client was last notified that the list has
// changed. The zero value is ready to use.
type listPace [3]time.Time

// listOf returns the index in a listPace of the list that a notification is about. It returns -1 if
// the notification is not about a list.
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

// split divides the queue: due contains the notifications that may be sent now, and later contains
// the notifications that must wait. split records that the notifications in due are sent now.
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

// put queues a notification from the server u. For a notification that Dragoman created, u is nil.
// If the queue is full, put drops the notification.
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
				q.from, q.m = u, m // if m is too long, keep the queued notification, which has the same meaning
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
		var started sync.WaitGroup // close waits for the channel writing, so no code waits for started
		started.Go(o.write)
	}
}

// stands reports whether the queued notification q makes the notification m of the server u
// unnecessary. If m says that a list has changed, the server does not matter, because the client
// gets one merged list.
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
		list, o.waiting = o.pace.split(o.waiting, time.Now())
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

// close drops the queued notifications, and waits until the writing goroutine has ended.
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
