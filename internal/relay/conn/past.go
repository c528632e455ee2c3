package conn

import (
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// A server may ask a question after it has answered the call, or before it has read a cancellation. If the
// call of another client is the only one that still runs, it looks like the owner. So a call counts for a
// moment longer, but not for one of the same client, who may see the question anyway.

// PastFor is how long a call counts after its end, if a server asks a question that does not name its call.
const PastFor = time.Second

// maxPast is how many clients a past remembers. If there are more, the last entry stands for all others.
const maxPast = 8

// past has the clients whose calls have just ended on a session. The zero past is empty.
type past []pastClient

type pastClient struct {
	conversation uint64 // 0 for all clients that we cannot tell apart
	several      bool   // the entry stands for several clients
	until        time.Time
}

// add records that a call has ended. Only calls count that allow server requests.
func (p *past) add(a *mcp.Attempt) {
	if a != nil && counts(a) && mayAsk(a) {
		p.addClient(a.Client.Conversation)
	}
}

func (p *past) addClient(conversation uint64) {
	now := time.Now()
	until := now.Add(PastFor)
	all := slices.DeleteFunc(*p, func(c pastClient) bool {
		return c.conversation == conversation && !c.several || !now.Before(c.until)
	})
	if len(all) == maxPast {
		all[maxPast-1] = pastClient{several: true, until: until}
	} else {
		all = append(all, pastClient{conversation: conversation, until: until})
	}
	*p = all
}

// addTo adds the clients to t.
func (p past) addTo(t *attribution) {
	if len(p) == 0 {
		return
	}
	now := time.Now()
	for _, c := range p {
		if now.Before(c.until) {
			t.addPast(c)
		}
	}
}

func (t *attribution) addPast(c pastClient) {
	switch {
	case c.several, t.past != nil && t.past.conversation != c.conversation:
		t.past = &pastClient{several: true}
	case t.past == nil:
		t.past = &c
	}
}

// disputed reports whether a server request that seems to belong to a call in flight may belong to a call
// of another client that has just ended. Clients of 2026-07-28 over HTTP can't be told from each other, so
// one of them never disputes another's question.
func (t *attribution) disputed() bool {
	owner := t.may.call
	if owner == nil {
		owner = t.all.call
	}
	return t.task == "" && owner != nil && t.past != nil && (t.past.several || t.past.conversation != owner.Client.Conversation)
}
