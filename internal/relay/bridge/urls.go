package bridge

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// shownURLs remembers which URLs of a server were shown to which client, so that only this client learns
// from this server that its user is done there (2025-11-25 §Elicitation, "URL Mode"). The Bridge keeps
// it, because it outlives a change of the configuration. The zero value is ready to use.
type shownURLs struct {
	mu    sync.Mutex
	order []shownURL // oldest first
	known map[questionID][]uint64
}

// questionID is the hash of the name of a server and of an elicitationId, which may be long.
type questionID [sha256.Size]byte

type shownURL struct {
	id           questionID
	conversation uint64
	server       string
	until        time.Time
}

// These constants bound shownURLs. A user who takes longer retries the call without being told.
const (
	urlTTL           = time.Hour
	maxShownURLs     = 1 << 12
	maxShownToClient = 32 // of one server, to one client
)

func idOfQuestion(server, id string) questionID {
	return sha256.Sum256([]byte(server + "\x00" + id))
}

// ShowsURL records that a client gets an elicitation of a server, with these params. They are what the
// client gets.
func (b *Bridge) ShowsURL(f *mcp.ClientInfo, server string, raw []byte, params jsonrpc.Span) {
	id, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, params, "elicitationId"))
	if ok && f.Revision.Can(mcp.ElicitationIDs) {
		b.shown.add(shownURL{idOfQuestion(server, id), f.Conversation, server, time.Now().Add(urlTTL)})
	}
}

// ShowsURLs does the same as ShowsURL for the elicitations that an answer requires first. The server is
// named in their ids if sole is false; see [mcp.NameElicitation].
func (b *Bridge) ShowsURLs(f *mcp.ClientInfo, server string, sole bool, reply *mcp.Reply) {
	if reply.Code() != mcp.CodeURLElicitationRequired || !f.Revision.Can(mcp.ElicitationIDs) {
		return
	}
	raw := reply.Msg.Raw
	for params := range jsonrpc.Elements(raw, urlsOf(reply)) {
		if id, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, params, "elicitationId")); ok {
			if !sole {
				id = mcp.ElicitationID(server, id)
			}
			b.shown.add(shownURL{idOfQuestion(server, id), f.Conversation, server, time.Now().Add(urlTTL)})
		}
	}
}

// ShownURL reports whether a client got an elicitation with this id from the server, and whether any
// client did.
func (b *Bridge) ShownURL(f *mcp.ClientInfo, server, id string) (here, anywhere bool) {
	s := &b.shown
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	all := s.known[idOfQuestion(server, id)]
	return slices.Contains(all, f.Conversation), len(all) > 0
}

func (s *shownURLs) add(x shownURL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	own, oldest := 0, -1
	for i := range s.order {
		switch y := &s.order[i]; {
		case y.conversation != x.conversation || y.server != x.server:
			continue
		case y.id == x.id:
			return
		case oldest < 0:
			oldest = i
		}
		own++
	}
	if own >= maxShownToClient {
		s.dropLocked(oldest)
	} else if len(s.order) >= maxShownURLs {
		s.dropLocked(s.crowdedLocked())
	}
	if s.known == nil {
		s.known = make(map[questionID][]uint64)
	}
	s.order = append(s.order, x)
	s.known[x.id] = append(s.known[x.id], x.conversation)
}

// crowdedLocked returns the oldest URL of the client that has the most of them from the server that has
// shown the most. So one who floods us pushes out only what is their own.
func (s *shownURLs) crowdedLocked() (oldest int) {
	servers, clients := make(map[string]int), make(map[uint64]int)
	server, most := "", 0
	for _, x := range s.order {
		if servers[x.server]++; servers[x.server] > servers[server] {
			server = x.server
		}
	}
	for _, x := range s.order {
		if x.server == server {
			clients[x.conversation]++
			most = max(most, clients[x.conversation])
		}
	}
	return slices.IndexFunc(s.order, func(x shownURL) bool { return x.server == server && clients[x.conversation] == most })
}

func (s *shownURLs) expireLocked() {
	for len(s.order) > 0 && time.Now().After(s.order[0].until) {
		s.dropLocked(0)
	}
}

func (s *shownURLs) dropLocked(i int) {
	x := s.order[i]
	s.order = slices.Delete(s.order, i, i+1)
	left := slices.DeleteFunc(s.known[x.id], func(c uint64) bool { return c == x.conversation })
	if s.known[x.id] = left; len(left) == 0 {
		delete(s.known, x.id)
	}
}

// urlsOf returns the elicitations in a URLElicitationRequired error.
func urlsOf(reply *mcp.Reply) jsonrpc.Span {
	raw := reply.Msg.Raw
	return jsonrpc.Find(raw, jsonrpc.Find(raw, reply.Msg.Error, "data"), "elicitations")
}

// urlsNeeded converts the error of a 2025-11-25 server that requires URL elicitations first to
// input_required (2025-11-25 §Elicitation, "URL Elicitation Required"). It parks nothing, because
// the retry is a new call. urlsNeeded returns nil if the client cannot open URLs, or if the error
// contains no URL.
func (b *Bridge) urlsNeeded(u Server, a *mcp.Attempt, reply *mcp.Reply) (*mcp.Reply, error) {
	c := a.Call
	raw := reply.Msg.Raw
	if !mayPark(c) || !c.Client.Itself().Declares("elicitation") {
		return nil, nil
	}
	list := urlsOf(reply)
	out := []byte(`{"resultType":"input_required","inputRequests":{`)
	n := 0
	for e := range jsonrpc.Elements(raw, list) {
		if jsonrpc.Find(raw, e, "url").IsZero() {
			continue
		}
		if n++; n > 1 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(out, numbered(keyOfURL, n))
		out = append(out, `:{"method":"elicitation/create","params":`...)
		out = append(append(out, e.Of(raw)...), '}')
	}
	if n == 0 {
		return nil, nil
	}
	state, err := b.mint(u, c, sealKind('U', a.Agreed), nil)
	if err != nil {
		return nil, err
	}
	out = jsonrpc.AppendQuote(append(out, `},"requestState":`...), state)
	return newInputRequired(append(out, '}')), nil
}
