package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// mostEvents is the number of events that an eventRing keeps. mostDetail is the maximum length of
// an event's detail, in bytes.
const (
	mostEvents = 1000
	mostDetail = 512
)

// keptEvent is an event on the page Events. Calls are not among these events, because calls have
// their own page.
type keptEvent struct {
	Seq    uint64
	Time   time.Time
	Kind   event.Kind
	Server string
	Opened bool   // the event is the handshake of a client, not of a server
	Client string // the name that the client reports about itself
	Method string
	Name   string
	From   mcp.Revision
	To     mcp.Revision
	Failed bool
	Now    bool // the server is still at this step of its start; the method newest sets Now
	Detail string
	Took   time.Duration
	Call   uint64
	Item   string // the tool, prompt or resource of the call in which something was lost; "" if not known
}

// eventRing keeps the newest events.
type eventRing struct {
	seq  uint64
	kept []keptEvent     // a ring buffer; when it is full, the next event replaces kept[seq%mostEvents]
	last map[string]step // the current lifecycle step of each server
}

// step is a lifecycle step of a server. seq is the number of the event that reported the step.
type step struct {
	detail string
	seq    uint64
}

// noteLocked keeps an event.
func (r *eventRing) noteLocked(e *event.Event) {
	if e.Kind == event.Call {
		return
	}
	if e.Kind == event.Lifecycle {
		if e.Detail == "" {
			delete(r.last, e.Server)
			return // the event ends a step, and the page does not show such events
		}
		if r.last[e.Server].detail == e.Detail {
			return
		}
		if r.last == nil || len(r.last) >= mostServers {
			r.last = map[string]step{}
		}
		r.last[e.Server] = step{e.Detail, r.seq + 1}
	}
	if e.Kind == event.Handshake && !e.OfClient() {
		delete(r.last, e.Server) // a handshake with a server ends the server's start
	}
	k := keptEvent{
		Seq: r.seq + 1, Time: e.Time, Kind: e.Kind, Server: e.Server, Method: e.Method, Name: excerpt.Cut(e.Name, 128),
		From: e.From, To: e.To, Failed: failedCall(e), Took: e.Took, Call: e.Call,
	}
	detail := e.Detail
	if e.Kind == event.Handshake {
		if k.Opened = e.OfClient(); k.Opened {
			k.Client, k.Name = k.Name, ""
		} else { // Detail is the trace of the handshake, and the last line of the trace contains the result
			detail = strings.TrimSpace(detail)
			detail = strings.TrimSpace(detail[strings.LastIndexByte(detail, '\n')+1:])
			if _, rest, ok := strings.Cut(detail, " ms  "); ok {
				detail = strings.Replace(rest, " -> ", ": ", 1)
			}
		}
	}
	k.Detail = strings.Clone(excerpt.Cut(detail, mostDetail))
	if len(r.kept) < mostEvents {
		r.kept = append(r.kept, k)
	} else {
		r.kept[r.seq%mostEvents] = k
	}
	r.seq++
}

// placeLocked adds the server and the item of a call to the losses of the call.
func (r *eventRing) placeLocked(p *callPlace) {
	for i := range r.kept {
		if k := &r.kept[i]; k.Kind == event.Loss && k.Call == p.call {
			k.Server, k.Item = cmp.Or(k.Server, p.server), p.item
		}
	}
}

// newest returns the events for which match returns true, newest first.
func (t *traffic) newest(match func(*keptEvent) bool) (out []keptEvent) {
	t.mu.Lock()
	all := slices.Clone(t.events.kept)
	for i := range all {
		all[i].Now = all[i].Kind == event.Lifecycle && t.events.last[all[i].Server].seq == all[i].Seq
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b keptEvent) int { return cmp.Compare(b.Seq, a.Seq) })
	for i := range all {
		if match(&all[i]) {
			out = append(out, all[i])
		}
	}
	return out
}
