package streamhttp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Options configure a Server. Acceptor and Principal are required. A zero value means the default,
// which is the last value in the comment of the field.
type Options struct {
	Acceptor transport.Acceptor
	Endpoint string          // name of the endpoint, for transport.Peer
	Guard    *httpdoor.Guard // checks the Host and Origin headers; nil allows only the loopback names

	// Principal returns the sender of a request. If it returns an error, the request is refused
	// with 401, or with the status of an *httpdoor.Denied. Nil refuses everybody; an endpoint that
	// is open says identity.Anyone.
	Principal func(*http.Request) (*identity.Principal, error)
	// AllowInitialize reports whether a client may open another session. If not, the client may
	// retry after retryAfter. AllowInitialize may block for a short time. If it is nil, all
	// sessions are allowed.
	// If AllowInitialize has waited and ok is true, retryAfter is how long it waited.
	AllowInitialize func(context.Context, transport.Newcomer) (retryAfter time.Duration, ok bool)
	// If RefuseBare is true, a legacy request outside a session is refused with 400. If it is
	// false, such requests are accepted. They share one conversation for each principal, address
	// and revision.
	RefuseBare bool

	// Places reports in which process a session exists. Nil means transport.Alone.
	// If it's a transport.Seats, sessions outlive their process, and Forward is required.
	Places transport.Places
	// Forward gets the requests whose session, parked call or task is in another process. If it is
	// nil, such a request is refused like one about something that does not exist.
	Forward httpdoor.Forwarder

	MaxBody     func() int64         // maximum bytes of a POST, asked for each of them; nil means 4 MiB
	BodyIdle    time.Duration        // see httpdoor.BodyLimits; 30 s
	MaxSessions int                  // maximum number of sessions; transport.Quota divides them between clients; 10,000
	SessionIdle time.Duration        // maximum time that a session has no request and no stream; 30 min
	SessionMax  time.Duration        // maximum lifetime of a session; 24 h
	Replay      time.Duration        // how long events are kept for resumption; 2 min
	LateStream  time.Duration        // delay before a response becomes a stream with keep-alives; 10 s, at most 20 s
	Stream      httpdoor.StreamRules // NewServer sets Slow

	Budget *transport.Budget // limits the memory of all messages; nil means no limit

	Log *slog.Logger // nil means no log
}

// Server is the server side of one endpoint for Streamable HTTP, in every revision that has this
// transport. It serves modern requests, which are independent, and legacy sessions. Server is an
// http.Handler and is safe for concurrent use.
//
// Run ends idle sessions. Drain and Close end the Server.
type Server struct {
	opts  Options
	rules *httpdoor.StreamRules
	log   *slog.Logger

	epoch    time.Time
	table    table
	flights  flights
	counts   counts
	draining atomic.Bool
	ends     atomic.Uint64 // how often EndSeat was called

	seats     transport.Seats // nil if sessions end with the process
	restoring work.Group      // sets again what the clients of inherited sessions had set
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
	o.MaxSessions = cmp.Or(o.MaxSessions, 10_000)
	o.SessionIdle = cmp.Or(o.SessionIdle, 30*time.Minute)
	o.SessionMax = cmp.Or(o.SessionMax, 24*time.Hour)
	o.Replay = cmp.Or(o.Replay, 2*time.Minute)
	o.LateStream = cmp.Or(o.LateStream, 10*time.Second)
	o.LateStream = min(o.LateStream, 20*time.Second)
	s := &Server{
		opts:  o,
		log:   o.Log,
		epoch: time.Now(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.seats, _ = o.Places.(transport.Seats)
	o.Stream.Slow = func() { s.counts.slowReaders.Add(1) }
	s.rules = o.Stream.Defaults()
	s.table.init()
	s.flights.init()
	return s
}

// bodyLimits returns the limits of a body that is read now.
func (s *Server) bodyLimits() httpdoor.BodyLimits {
	return httpdoor.BodyLimits{Bytes: s.opts.MaxBody(), Idle: s.opts.BodyIdle, Budget: s.opts.Budget}
}

// scanLimits returns the limits of a message in a body, which has been read within bodyLimits.
func scanLimits(body []byte) jsonrpc.Limits {
	return jsonrpc.Limits{Bytes: len(body), Names: mcp.MethodName}
}

// now returns the time since the server was created. It does not use the wall clock, which may
// jump.
func (s *Server) now() time.Duration { return time.Since(s.epoch) }

// ServeHTTP serves one request to the endpoint.
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
	case http.MethodPost:
		s.post(w, r, who)
	case http.MethodGet:
		s.get(w, r, who)
	case http.MethodDelete:
		s.delete(w, r, who)
	default:
		s.counts.refused.Add(1)
		httpdoor.RefuseMethod(w, "GET, POST, DELETE")
	}
}

// peer describes the sender of r.
func (s *Server) peer(r *http.Request, who *identity.Principal) transport.Peer {
	return transport.Peer{Transport: "http", Who: who, Remote: httpdoor.Remote(r), Endpoint: s.opts.Endpoint}
}

// refuse answers with an error and counts the refusal.
func (s *Server) refuse(w http.ResponseWriter, status int, id jsonrpc.ID, code int64, why string) {
	s.counts.refused.Add(1)
	httpdoor.Refuse(w, status, id, &jsonrpc.Error{Code: code, Message: why})
}

// headers contains the headers that determine the revision and the session of a request, and its
// body.
type headers struct {
	version string // MCP-Protocol-Version, "" if absent
	session string // Mcp-Session-Id, "" if absent
	ends    uint64 // Server.ends when they were read
	body    []byte // what the client sent in a POST; nil before it is read
}

// readHeaders reads the headers of a request. If a header appears twice, a proxy may have used the
// other value. So readHeaders refuses the request, and ok is false.
func (s *Server) readHeaders(w http.ResponseWriter, r *http.Request) (h headers, ok bool) {
	var twice bool
	h.ends = s.ends.Load()
	if h.version, twice = only(r.Header[mcp.HeaderVersion]); !twice {
		h.session, twice = only(r.Header[mcp.HeaderSession])
	}
	if twice {
		s.refuse(w, http.StatusBadRequest, "", mcp.CodeHeaderMismatch, "header mismatch: the MCP-Protocol-Version or Mcp-Session-Id header appears twice")
	}
	return h, !twice
}

func only(values []string) (v string, twice bool) {
	if len(values) == 0 {
		return "", false
	}
	return values[0], len(values) > 1
}

// Run ends expired sessions until ctx ends, and returns the error of ctx. If Run is not called,
// expired sessions end only when MaxSessions is reached.
func (s *Server) Run(ctx context.Context) error {
	every := max(min(s.opts.SessionIdle/4, s.opts.Replay/4, 15*time.Second), 10*time.Millisecond)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.fade()
			s.sweep()
			s.forget()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drain ends the GET streams, which do not end by themselves. It refuses new sessions and streams.
// Running requests continue. Drain does not wait.
func (s *Server) Drain() {
	s.draining.Store(true)
	for _, ses := range s.table.all() {
		if out := ses.streamIfAny(); out != nil {
			out.Release()
		}
	}
}

// Refuse refuses all requests from now on. Those that run go on, and Busy says how many they are.
func (s *Server) Refuse() { s.flights.close() }

var errClosed = errors.New("the endpoint was removed, or Dragoman is stopping")

// drainTimeout is the time that clients get to read the last messages after the server was closed.
const drainTimeout = 2 * time.Second

// Close ends all conversations and waits until every request has returned. Because a modern request
// ends with its connection, the caller must first cancel the base context of the HTTP server, or
// close the HTTP server. Close may be called more than once.
func (s *Server) Close() error { return s.CloseWith(errClosed) }

// CloseWith does the same as Close, but running requests end with cause. If cause is
// mcp.ErrShutdown, the base context of the HTTP server must end with the same cause, so that the
// responses are written to their end.
func (s *Server) CloseWith(cause error) error {
	s.draining.Store(true)
	flying := s.flights.close()
	sessions := append(s.table.takeAll(), s.table.faded(true)...)
	for _, ses := range sessions {
		ses.written.Store(false) // whoever goes on with it needs what is written
		s.end(ses, cause)
	}
	for _, res := range flying {
		res.conv.Close(cause)
		if res.stop != nil {
			res.stop(cause)
		}
	}
	late := time.AfterFunc(drainTimeout, func() {
		for _, ses := range sessions {
			ses.cut()
		}
		s.flights.cut()
	})
	defer late.Stop()
	s.flights.wait()
	s.restoring.Close()
	s.restoring.Wait()
	return nil
}
