package sse

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Options configure a Server. Acceptor and Principal are required. If a field is zero, its default applies.
// The default is the last value in the comment of the field.
type Options struct {
	Acceptor transport.Acceptor
	Endpoint string          // name of the endpoint, for transport.Peer
	Guard    *httpdoor.Guard // checks the Host and Origin headers; nil allows only the loopback names

	// Messages is the path in the URL to which clients POST messages. If Messages is "", this path
	// is the path of the stream with "messages" as its last part.
	Messages string
	// Prefix is the path under which a proxy publishes this server, such as "/mcp-gateway". Set
	// Prefix if the proxy removes this path from requests. The server then adds Prefix to the path
	// that it sends to clients. Prefix has no slash at the end.
	Prefix string

	// Principal returns the sender of a request. If Principal returns an error, the request is
	// refused with 401, or with the status of an *httpdoor.Denied. Nil refuses
	// everybody; an endpoint that is open says identity.Anyone.
	Principal func(*http.Request) (*identity.Principal, error)
	// AllowStream reports whether a client may open another stream. If not, retryAfter says when to
	// retry. AllowStream may wait a short time. If AllowStream is nil, all streams are allowed.
	// If AllowStream has waited and ok is true, retryAfter is how long it waited.
	AllowStream func(context.Context, transport.Newcomer) (retryAfter time.Duration, ok bool)

	// Places determines in which process a stream exists. Nil means transport.Alone.
	Places transport.Places
	// Forward gets the messages for a stream in another process. If Forward is nil, they are refused
	// with 404.
	Forward     httpdoor.Forwarder
	MaxBody     func() int64         // maximum bytes of the body of a POST, asked for each of them; nil means 4 MiB
	BodyIdle    time.Duration        // see httpdoor.BodyLimits; 30 s
	MaxStreams  int                  // maximum number of streams; transport.Quota divides them between parties; 1,000
	MaxInFlight int                  // maximum number of running requests on one stream; 64
	StreamMax   time.Duration        // maximum lifetime of a stream; 24 h
	Stream      httpdoor.StreamRules // NewServer replaces Slow

	Budget *transport.Budget // memory of all messages; nil means no limit

	Log *slog.Logger // nil means no log
}

// Server is the server side of one endpoint for HTTP+SSE (2024-11-05 §Transports, "HTTP with SSE").
// A GET request opens the stream on which the server sends its messages. The first event contains
// an address, to which the client sends each message in a POST request. Server is an http.Handler
// for both kinds of requests, and is safe for concurrent use. A conversation lasts as long as its
// stream.
type Server struct {
	opts  Options
	rules *httpdoor.StreamRules
	log   *slog.Logger

	mu     sync.Mutex
	links  map[string]*link
	quota  transport.Quota // quota for links
	shut   shutting
	served sync.WaitGroup // the running GET handlers; Add is called with mu locked, and never after shutDown

	counts struct {
		opened, requests, notes, refused, limited, delayed, slowReaders, panics atomic.Int64
	}
}

type shutting uint8

const (
	running shutting = iota
	draining
	closed
)

// Counts is a snapshot of a Server's counters. Streams is the number of open streams. All other
// fields count since the start of the Server.
type Counts struct {
	Opened      int64 // the number of streams that were opened
	Requests    int64
	OneWay      int64 // the number of notifications and responses
	Refused     int64 // requests that the Server itself answered with 4xx; the Guard counts its own refusals
	Limited     int64 // requests refused with 429 or 503
	Delayed     int64 // streams that had to wait because their client opens many
	SlowReaders int64 // streams closed because the client did not read
	Panics      int64

	Streams int
}

// NewServer returns a server. It starts no goroutine.
func NewServer(o Options) *Server {
	if o.Places == nil {
		o.Places = transport.Alone{}
	}
	if o.MaxBody == nil {
		o.MaxBody = func() int64 { return 4 << 20 }
	}
	o.BodyIdle = cmp.Or(o.BodyIdle, 30*time.Second)
	o.MaxStreams = cmp.Or(o.MaxStreams, 1000)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 64)
	o.StreamMax = cmp.Or(o.StreamMax, 24*time.Hour)
	s := &Server{
		opts:  o,
		log:   o.Log,
		links: make(map[string]*link),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	o.Stream.Slow = func() { s.counts.slowReaders.Add(1) }
	s.rules = o.Stream.Defaults()
	return s
}

// Counts returns the counters.
func (s *Server) Counts() Counts {
	s.mu.Lock()
	streams := len(s.links)
	s.mu.Unlock()
	c := &s.counts
	return Counts{
		Opened:      c.opened.Load(),
		Requests:    c.requests.Load(),
		OneWay:      c.notes.Load(),
		Refused:     c.refused.Load(),
		Limited:     c.limited.Load(),
		Delayed:     c.delayed.Load(),
		SlowReaders: c.slowReaders.Load(),
		Panics:      c.panics.Load(),
		Streams:     streams,
	}
}

// ServeHTTP serves a stream or accepts one message.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.opts.Guard.Admit(w, r) {
		return
	}
	if who, ok := s.opts.Guard.Identify(w, r, s.opts.Principal); ok {
		s.Serve(w, r, who)
	}
}

// Serve does the same as ServeHTTP for a request that the guard has accepted, and whose sender is
// known.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, who *identity.Principal) {
	switch r.Method {
	case http.MethodGet:
		s.stream(w, r, who)
	case http.MethodPost:
		s.message(w, r, who)
	default:
		s.counts.refused.Add(1)
		httpdoor.RefuseMethod(w, "GET, POST")
	}
}

// stream serves a GET request until its stream ends.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, principal *identity.Principal) {
	if _, events := httpdoor.Accepts(r.Header); !events {
		s.refuse(w, http.StatusNotAcceptable, "", jsonrpc.CodeInvalidRequest, "the Accept header must contain text/event-stream")
		return
	}
	peer := s.peer(r, principal)
	who := httpdoor.NewcomerOf(r, principal.SeatKey(), "") // the name of the client is not known before initialize
	if allow := s.opts.AllowStream; allow != nil {
		after, ok := allow(r.Context(), who)
		if !ok {
			s.limited(w, "", httpdoor.NotNow{Status: http.StatusTooManyRequests, Cause: "rate_limited", Why: "too many streams are opening at the same time; try again", After: max(after, time.Second)})
			return
		}
		if after > 0 {
			s.counts.delayed.Add(1)
		}
	}
	l := newLink(s, principal.SeatKey(), who.Party())
	if !s.add(l) {
		s.limited(w, "", httpdoor.NotNow{Status: http.StatusServiceUnavailable, Cause: "overload", Why: "too many streams are open; try again later", After: time.Minute})
		return
	}
	defer s.served.Done()
	defer close(l.gone)
	defer l.end()
	defer s.remove(l)
	if err := httpdoor.Again(r, l.seat, s.opts.Principal); err != nil { // EndSeat may have run before add
		s.counts.refused.Add(1)
		httpdoor.RefuseDenied(w, err)
		return
	}
	s.counts.opened.Add(1)
	c := l.out.Attach(w, r)
	_ = l.out.Push("endpoint", []byte(s.messages(r)+"?sessionId="+l.id))
	l.open(s.opts.Acceptor.Accept(peer, l))
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.StreamMax)
	defer cancel()
	_ = c.Run(ctx)
}

// messages returns the absolute path to which the client must send messages.
func (s *Server) messages(r *http.Request) string {
	if s.opts.Messages != "" {
		return s.opts.Messages
	}
	own, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(own, "/") {
		own = r.URL.EscapedPath()
	}
	if p := s.opts.Prefix; p != "" && !strings.HasPrefix(own, p+"/") { // some proxies do not remove the prefix
		own = p + own
	}
	return path.Join(path.Dir(own), "messages")
}

// message accepts one message and responds with 202 without waiting for the answer. The answer is
// sent on the stream.
func (s *Server) message(w http.ResponseWriter, r *http.Request, who *identity.Principal) {
	if !httpdoor.IsJSON(r.Header) {
		s.refuse(w, http.StatusUnsupportedMediaType, "", jsonrpc.CodeInvalidRequest, "the Content-Type header must be application/json, in UTF-8")
		return
	}
	id := r.URL.Query().Get("sessionId")
	if id == "" {
		// A client that supports Streamable HTTP may try it first. After this refusal, the client
		// opens a stream with a GET request.
		s.refuse(w, http.StatusBadRequest, "", jsonrpc.CodeInvalidRequest, "the query parameter sessionId is missing")
		return
	}
	l, err := s.link(id, who.SeatKey())
	if err != nil {
		if s.forward(w, r, who, err) {
			return
		}
		s.refuse(w, http.StatusNotFound, "", jsonrpc.CodeInvalidRequest, "session not found"+transport.WhyAway(err))
		return
	}
	body, held, ok := httpdoor.ReadBody(w, r, s.bodyLimits())
	if !ok {
		s.counts.refused.Add(1)
		return
	}
	running := false // true if the request continues after the response to the POST
	defer func() {
		if !running {
			held.Give()
		}
	}()
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{Bytes: len(body), Names: mcp.MethodName})
	if err != nil {
		l.refuse(transport.Refused(body, err))
		s.refuseScan(w, r, who, err)
		return
	}
	in := transport.Incoming{Msg: m, Request: requestOf(r)}
	if m.Kind != jsonrpc.Request {
		s.counts.notes.Add(1)
		if err := l.deliver(r.Context(), in); err != nil {
			s.counts.refused.Add(1)
			httpdoor.Refuse(w, http.StatusBadRequest, "null", mcp.Wire(err))
			return
		}
	} else {
		var room bool
		if running, room = l.begin(in, held); !room {
			s.limited(w, m.ID, httpdoor.NotNow{Status: http.StatusServiceUnavailable, Cause: "overload", Why: "too many requests of this client are running; wait until one ends", After: time.Second})
			return
		}
	}
	w.Header()["Content-Type"] = plainText
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(accepted)
}

// requestOf returns a description of a POST request for recording.
func requestOf(r *http.Request) transport.Request {
	return transport.Request{Method: http.MethodPost, Path: httpdoor.Path(r), Header: r.Header, Edits: transport.OwnFields}
}

// peer describes the sender of r.
func (s *Server) peer(r *http.Request, who *identity.Principal) transport.Peer {
	return transport.Peer{Transport: "sse", Who: who, Remote: httpdoor.Remote(r), Endpoint: s.opts.Endpoint}
}

func (s *Server) bodyLimits() httpdoor.BodyLimits {
	return httpdoor.BodyLimits{Bytes: s.opts.MaxBody(), Idle: s.opts.BodyIdle, Budget: s.opts.Budget}
}

// forward passes a message on if err is a *transport.Elsewhere. It returns false if it is not, or if
// nobody forwards messages.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, who *identity.Principal, err error) bool {
	var to *transport.Elsewhere
	if s.opts.Forward == nil || !errors.As(err, &to) || !s.opts.Forward.Reaches(r, to) {
		return false
	}
	body, held, ok := httpdoor.ReadBody(w, r, s.bodyLimits())
	if !ok {
		s.counts.refused.Add(1)
		return true
	}
	defer held.Give()
	defer func() { // Forward panics if it can't end an answer
		if to.Failed != nil {
			transport.Record(context.WithoutCancel(r.Context()), s.opts.Acceptor, s.peer(r, who), body, transport.Incoming{Request: requestOf(r), Failed: to.Failed})
		}
	}()
	s.opts.Forward.Forward(w, r, body, to)
	return true
}

// refuseScan answers a body that could not be scanned because of err.
func (s *Server) refuseScan(w http.ResponseWriter, r *http.Request, who *identity.Principal, err error) {
	e := &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "the request body is not a JSON-RPC message"}
	_ = errors.As(err, &e)
	e = mcp.RefusedByScan(e)
	transport.ReportRefused(s.opts.Acceptor, transport.RefusedMessage{Peer: s.peer(r, who), Method: e.Method, Err: e})
	if e.ID == "" {
		e = &jsonrpc.Error{Code: e.Code, Message: e.Message, Data: e.Data, ID: "null"} // JSON-RPC 2.0 §5
	}
	s.counts.refused.Add(1)
	httpdoor.Refuse(w, http.StatusBadRequest, e.ID, e)
}

// The server SDKs for 2024-11-05 respond with this text, and some clients depend on it.
var (
	accepted  = []byte("Accepted")
	plainText = []string{"text/plain; charset=utf-8"}
)

func (s *Server) refuse(w http.ResponseWriter, status int, id jsonrpc.ID, code int64, why string) {
	s.counts.refused.Add(1)
	httpdoor.Refuse(w, status, id, &jsonrpc.Error{Code: code, Message: why})
}

func (s *Server) limited(w http.ResponseWriter, id jsonrpc.ID, x httpdoor.NotNow) {
	s.counts.limited.Add(1)
	httpdoor.RefuseForNow(w, id, x)
}

func (s *Server) panicked(p any) {
	s.counts.panics.Add(1)
	httpdoor.LogPanic(s.log, s.opts.Endpoint, p)
}

func (s *Server) add(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut != running {
		return false
	}
	if !s.quota.Room(l.party, s.opts.MaxStreams) {
		return false
	}
	s.quota.Take(l.party)
	s.links[l.id] = l
	s.served.Add(1)
	return true
}

func (s *Server) remove(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l.id)
	s.quota.Give(l.party)
}

var errNotFound = errors.New("session not found")

// link returns the link with an id, if the link has the given seat. The error is a
// *transport.Elsewhere if the link is in another process.
func (s *Server) link(id, seat string) (*link, error) {
	if home := s.opts.Places.Of(id); home != "" {
		return nil, &transport.Elsewhere{Home: home}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.links[id]; l != nil && l.seat == seat {
		return l, nil
	}
	return nil, errNotFound
}

func (s *Server) state() shutting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shut
}

// shutDown puts the server into the state to, unless its state is already later. It returns the
// current links.
func (s *Server) shutDown(to shutting) []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = max(s.shut, to)
	all := make([]*link, 0, len(s.links))
	for _, l := range s.links {
		all = append(all, l)
	}
	return all
}

// Drain refuses new streams, and ends each stream as soon as none of its requests is running. Drain
// does not wait.
func (s *Server) Drain() {
	for _, l := range s.shutDown(draining) {
		l.releaseIfIdle()
	}
}

// drainTimeout is the time that clients get to read the last messages after Close or CloseWith was
// called.
const drainTimeout = 2 * time.Second

var errEndpointClosed = errors.New("the endpoint was removed, or Dragoman is stopping")

// Close ends all streams and their conversations, and waits until they have ended. Close may be
// called more than once.
func (s *Server) Close() error { return s.CloseWith(errEndpointClosed) }

// CloseWith does the same as Close, but running requests end with cause. If cause is
// mcp.ErrShutdown, the base context of the HTTP server must end with the same cause. Otherwise the
// last messages on the streams may be lost.
func (s *Server) CloseWith(cause error) error {
	finish(s.shutDown(closed), cause)
	s.served.Wait()
	return nil
}

// EndSeat ends the streams of a seat, as identity.Principal.SeatKey returns it, with their
// conversations and requests. The client is told why if cause is an *mcp.Error. EndSeat returns when
// they have ended; other seats go on. Principal must refuse the seat already, or its client opens the
// next stream at once.
func (s *Server) EndSeat(seat string, cause error) {
	finish(s.linksOf(seat), cause)
}

func (s *Server) linksOf(seat string) (all []*link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if l.seat == seat {
			all = append(all, l)
		}
	}
	return all
}

// finish ends links, and waits until their streams have ended.
func finish(links []*link, cause error) {
	late := time.AfterFunc(drainTimeout, func() {
		for _, l := range links {
			l.out.Cut()
		}
	})
	defer late.Stop()
	var ending sync.WaitGroup
	for _, l := range links {
		ending.Go(func() { l.finish(cause) })
	}
	ending.Wait()
	for _, l := range links {
		<-l.gone
	}
}
