package streamhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// With transport.Seats, a session outlives its process: whoever gets the next request of its client begins it anew with
// the same id. The table of the process that has the session decides; an id that isn't there is looked for.

// seekFor is how long a request waits until it's known where its session is. A process that was killed counts as dead
// before that.
const seekFor = 12 * time.Second

// use says who may use a session and where, for transport.Seats.
func (s *Server) use(seat string) string { return s.opts.Endpoint + "\n" + seat }

// newID returns the id of a new session.
func (s *Server) newID(ses *session) string {
	if s.seats == nil {
		return s.opts.Places.Mark(newSessionID())
	}
	var facts []byte
	if h, ok := ses.conv.(transport.Heritable); ok {
		facts = h.Facts()
	}
	return s.seats.Seal(s.use(ses.seat), facts)
}

// seek does what acquire does if sessions may move. If both results are nil, it has answered the request: another process
// has the session, or nobody could say in time.
func (s *Server) seek(w http.ResponseWriter, r *http.Request, who *identity.Principal, h headers) (*session, error) {
	end, moved := time.Now().Add(seekFor), false
	for try := 0; ; try++ {
		ses, err := s.seekOnce(r, who, h, moved)
		to := &transport.Elsewhere{Again: true}
		away := errors.As(err, &to)
		if err == nil || !away && !errors.Is(err, transport.ErrUnsettled) {
			return ses, err
		}
		if s.passes(w, r, who, h, to) {
			return nil, nil
		}
		if away {
			moved = !to.Lost
		}
		if !seeksOn(r.Context(), try, end) {
			s.passes(w, r, who, h, &transport.Elsewhere{})
			return nil, nil
		}
	}
}

// seeksOn waits before the next look for what a request needs. It returns false if there have been enough.
func seeksOn(ctx context.Context, try int, end time.Time) bool {
	return !time.Now().After(end) && work.Sleep(ctx, min(time.Duration(try+1)*50*time.Millisecond, 500*time.Millisecond)) == nil
}

// passes passes a request on. It returns false if the caller has to look again.
func (s *Server) passes(w http.ResponseWriter, r *http.Request, who *identity.Principal, h headers, to *transport.Elsewhere) bool {
	var f flight
	if !s.flights.add(&f) {
		s.stopping(w, r, h.body, "")
		return true
	}
	defer f.remove()
	return s.pass(w, r, who, h.body, to)
}

// seekOnce returns the acquired session if it's here, or is here from now on.
func (s *Server) seekOnce(r *http.Request, who *identity.Principal, h headers, moved bool) (*session, error) {
	if !s.seats.Holds(r.Context()) {
		return nil, transport.ErrUnsettled
	}
	if ses := s.table.acquire(h.session, who); ses != nil {
		if ses.term == s.seats.Term() {
			return ses, nil
		}
		s.leave(ses)
		s.fade()
	}
	if s.table.parting(h.session) {
		return nil, transport.ErrUnsettled
	}
	found, err := s.seats.Find(r.Context(), h.session, s.use(who.SeatKey()), moved)
	if err != nil {
		return nil, err
	}
	return s.inherit(r, who, found)
}

// inherit begins a session anew that another process has had, and returns it acquired.
func (s *Server) inherit(r *http.Request, who *identity.Principal, found transport.Estate) (*session, error) {
	if s.draining.Load() {
		return nil, transport.ErrUnsettled
	}
	party := httpdoor.NewcomerOf(r, who.SeatKey(), "").Party()
	if !s.reserve(party) {
		return nil, transport.ErrUnsettled // it may fit in elsewhere, or later
	}
	made := s.newSession(who.SeatKey(), party)
	made.born -= found.Age
	made.written.Store(true)
	conv := s.opts.Acceptor.Accept(s.peer(r, who), made)
	made.conv = conv
	h, ok := conv.(transport.Heritable)
	var restore func(context.Context)
	var rev mcp.Revision
	if ok {
		made.keep = func(extras func() []byte) { s.seats.Keep(found.ID, extras) }
		rev, restore, ok = h.Inherit(found.Facts, found.Extras)
	}
	if !ok {
		s.table.unreserve(party)
		conv.Close(errNoSession)
		return nil, errNotFound
	}
	made.rev.Store(uint32(rev))
	ses := s.table.putInherited(made, found.ID)
	if ses != made { // another request was faster
		made.cancel(errNoSession)
		conv.Close(errNoSession)
		if ses == nil {
			return nil, transport.ErrUnsettled
		}
		return ses, nil
	}
	s.counts.opened.Add(1)
	if err := s.again(r, ses.seat); err != nil { // EndSeat may have run before the session was in the table
		if s.table.take(ses) {
			s.end(ses, err)
		}
		s.leave(ses)
		return nil, errNotFound
	}
	if restore != nil {
		ses.active.Add(1)
		if !s.restoring.Go(func() {
			defer s.leave(ses)
			restore(ses.lifetime())
		}) {
			s.leave(ses)
		}
	}
	return ses, nil
}

// fade takes the sessions of earlier terms out of the table: other processes go on with them. Their requests end by
// themselves, and the sessions then.
func (s *Server) fade() {
	if s.seats == nil {
		return
	}
	for _, ses := range s.table.fade(s.seats.Term()) {
		ses.written.Store(false) // what is written is about the session of another process
		if out := ses.streamIfAny(); out != nil {
			out.End()
		}
	}
	for _, ses := range s.table.faded(false) {
		s.end(ses, errMoved)
	}
}

var errMoved = errors.New("another process goes on with the session")

// mostParting is how many sessions are given away at once.
const mostParting = 256

// HandOver gives the sessions to other processes, each as soon as no request of it runs. It returns when none is left, when
// nobody can take them, or when ctx ends.
func (s *Server) HandOver(ctx context.Context) {
	for s.seats != nil {
		parting, left := s.table.part(mostParting)
		var all []transport.Estate
		for _, ses := range parting {
			x := transport.Estate{ID: ses.id}
			if h, ok := ses.conv.(transport.Heritable); ok {
				x.Extras = h.Extras()
			}
			all = append(all, x)
		}
		var err error
		if len(all) > 0 {
			var lost []string
			lost, err = s.seats.Give(ctx, all)
			for _, ses := range s.table.parted(parting, lost) {
				ses.written.Store(false)
				s.end(ses, errMoved)
			}
		} else if left == 0 {
			return
		}
		switch {
		case errors.Is(err, transport.ErrNoHeir):
			return
		case err == nil && len(all) > 0:
		case work.Sleep(ctx, 100*time.Millisecond) != nil:
			return
		}
	}
}

// Busy returns how many requests run.
func (s *Server) Busy() int { return s.flights.len() }

// Keeps implements transport.Keeper.
func (ses *session) Keeps() bool { return ses.keep != nil }

// Keep implements transport.Keeper.
func (ses *session) Keep(extras func() []byte) {
	ses.written.Store(true)
	ses.keep(extras)
}
