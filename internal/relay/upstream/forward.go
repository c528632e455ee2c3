package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// forwardQueue has the notifications that wait for a server that does not read its input.
type forwardQueue struct {
	queue   []forwarding
	bytes   int
	sending bool // a goroutine sends the queued notifications
}

// forwarding is a notification from a client, in the queue for the client's sessions.
type forwarding struct {
	from   string // see mcp.ClientInfo.Party
	to     []*session
	raw    []byte
	method string
}

// These constants bound the queue of notifications for a server that does not read its input, and
// the time to send one notification. One client may use a part of the queue, so that it cannot keep
// the notifications of others from the server. The last notification in the queue or in a part may
// exceed the limit on bytes.
const (
	maxForwardings     = 256
	maxForwardingBytes = 1 << 20
	forwardingParts    = 8
	forwardTimeout     = 10 * time.Second
)

// forward queues a notification from the client f for the client's sessions. The notifications are
// sent in the order in which they were queued. forward does not wait for the server, because it is
// called on the goroutine that reads from the client. A modern server has no sessions, so forward
// drops a notification for such a server and publishes a loss. Each request to a modern server
// describes the client anyway.
func (b *broker) forward(f *mcp.ClientInfo, raw []byte, method string) {
	if why := b.queueForwarding(f, b.scopeOf(f), forwarding{from: f.Party(), raw: raw, method: method}); why != "" {
		b.publishLoss(method, why)
	}
}

func (b *broker) queueForwarding(f *mcp.ClientInfo, scope string, x forwarding) (lost string) {
	b.update(func(st *state) {
		if p := st.pools.byKey[b.key(st, f, scope)]; p != nil {
			x.to = append(x.to, p.sessions...)
			if p.opening != nil && x.method == mcp.NoteRootsChanged {
				p.opening.changed = x.from
			}
		}
		switch {
		case st.ops.closed:
		case x.method == mcp.NoteTaskStatus && !b.spec.OneClient:
			// Clients choose the ids of their tasks, so the server may take this one for a task of another
			// client. It must not rely on the notification (2025-11-25 §Tasks, "Task Status Notification").
			lost = "other clients of the session may have a task with the same id"
		case len(x.to) == 0:
			if st.useModern(f, scope) {
				lost = "the server's revision does not have notifications from the client"
			}
		default:
			lost = b.enqueue(st, x)
		}
	})
	return lost
}

// enqueue adds a notification to the queue. It returns why the notification is lost, or "".
func (b *broker) enqueue(st *state, x forwarding) (lost string) {
	q := &st.forwards
	if q.waits(&x) {
		return "" // when the server gets that one, it asks for the roots
	}
	if q.full(x.from) {
		return "the server does not read its input"
	}
	q.bytes += len(x.raw)
	q.queue = append(q.queue, x)
	if !q.sending {
		q.sending = true
		b.work.Go(b.forwardAll)
	}
	return ""
}

// catchUp tells a new session if the roots have changed since its server could ask for them. The
// notification is our own, because that of the client may be large, and says nothing else.
func (b *broker) catchUp(st *state, o *opening, s *session) {
	if o.changed == "" || !slices.Contains(o.pool.sessions, s) {
		return
	}
	x := forwarding{
		from: o.changed, to: []*session{s}, method: mcp.NoteRootsChanged,
		raw: jsonrpc.AppendNotification(nil, mcp.NoteRootsChanged, nil),
	}
	if lost := b.enqueue(st, x); lost != "" {
		st.later(func() { b.publishLoss(x.method, lost) })
	}
}

// waits reports whether x says that the roots have changed, and the same is in the queue already.
func (q *forwardQueue) waits(x *forwarding) bool {
	return x.method == mcp.NoteRootsChanged && slices.ContainsFunc(q.queue, func(y forwarding) bool {
		return y.method == x.method && slices.Equal(x.to, y.to)
	})
}

// full reports whether the queue has no room for one more notification of a client.
func (q *forwardQueue) full(client string) bool {
	count, size := 0, 0 // what waits of this client
	for i := range q.queue {
		if x := &q.queue[i]; x.from == client {
			count, size = count+1, size+len(x.raw)
		}
	}
	return len(q.queue) >= maxForwardings || q.bytes >= maxForwardingBytes ||
		count >= maxForwardings/forwardingParts || size >= maxForwardingBytes/forwardingParts
}

// next takes the next notification out of the queue. It returns nil if there is none.
func (q *forwardQueue) next() *forwarding {
	if len(q.queue) == 0 {
		return nil
	}
	x := q.queue[0]
	q.queue[0] = forwarding{}
	q.queue = q.queue[1:]
	q.bytes -= len(x.raw)
	return &x
}

// forwardAll sends the queued notifications until the queue is empty.
func (b *broker) forwardAll() {
	for {
		x := get(b.core, func(st *state) *forwarding {
			if st.ops.closed || len(st.forwards.queue) == 0 {
				st.forwards = forwardQueue{}
			}
			return st.forwards.next()
		})
		if x == nil {
			return
		}
		for _, s := range x.to {
			ctx, stop := context.WithTimeout(b.life, forwardTimeout)
			err := s.server.Forward(ctx, x.raw, x.method)
			stop()
			if err != nil {
				b.opts.Log.Debug("notification not delivered", "server", b.spec.Name, "method", x.method, "cause", err.Error())
			}
		}
	}
}
