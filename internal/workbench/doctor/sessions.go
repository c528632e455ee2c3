package doctor

import (
	"context"
	"math/rand/v2"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// This file tests whether the server keeps the sessions of an examination apart. Over HTTP, the
// conversations of an examination are sessions of one server, and up to Options.Parallel of them
// run at the same time. Some servers, mostly wrappers, send the messages of one session to all
// sessions.

// sentID describes a request that the doctor sent: its conversation and its text.
type sentID struct {
	t    *talk
	text string
}

// minID is less than every id that the doctor uses over HTTP.
const minID = 1_000_000

// firstID returns the number after which the doctor's ids over HTTP start. It is large and random
// because other clients count from 0 or 1: an answer to another client must not look like an answer
// to the doctor.
func firstID() int64 { return minID + rand.Int64N(1_000_000_000) }

// nextID returns the id of the next request. Over HTTP the id is unique across conversations. On a
// pipe each conversation has its own process and counts from 1.
func (t *talk) nextID() jsonrpc.ID {
	if t.e.http {
		return jsonrpc.IntID(t.e.lastID.Add(1))
	}
	t.last++
	return jsonrpc.IntID(t.last)
}

// noteSent records the id of a request, if nextID created the id. Other ids, such as 0, are not
// recorded, because an answer with such an id may be for another client of the server.
func (t *talk) noteSent(q *question) {
	n, ok := jsonrpc.Int([]byte(q.id), jsonrpc.Span{End: len(q.id)})
	if !t.e.http || !ok || n <= minID || n > t.e.lastID.Load() {
		return
	}
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	if t.e.sent == nil {
		t.e.sent = make(map[string]sentID)
	}
	t.e.sent[valueOf(q.id)] = sentID{t, q.sent}
}

// isOtherSessions reports whether an answer belongs to a request of another conversation. If so, it
// also records the finding Broadcasts.
func (t *talk) isOtherSessions(m *jsonrpc.Message) bool {
	if !t.e.http || m.ID == "" || m.ID == "null" {
		return false
	}
	t.e.mu.Lock()
	x, known := t.e.sent[valueOf(m.ID)]
	t.e.mu.Unlock()
	if !known || x.t == t {
		return false
	}
	t.e.find(Broadcasts, evidence("# in one session:", "> "+x.text, "# in another session:", "< "+t.e.redact(m.Raw)))
	return true
}

// twoSessions tests whether an answer in one session also arrives in another session. If so, only
// one probe at a time runs from then on. With parallel probes, a probe could not know whether a
// notification, or an answer without an id, is meant for another probe.
func (e *exam) twoSessions(ctx context.Context) {
	one, err := e.begin(ctx)
	if err != nil {
		return
	}
	defer one.w.close()
	two, err := e.begin(ctx)
	if err != nil {
		return
	}
	defer two.w.close()
	for _, t := range []*talk{one, two} {
		q := t.ask(mcp.MethodInitialize, greeting(mcp.LatestLegacy.String()))
		t.await(ctx, q)
	}
	one.linger(ctx, e.grace()/5)
	if e.has(Broadcasts) {
		e.o.Parallel = 1
	}
}

func (e *exam) has(code string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, found := e.found[code]
	return found
}
