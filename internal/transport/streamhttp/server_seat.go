package streamhttp

import (
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// EndSeat ends all that runs for a seat, as identity.Principal.SeatKey returns it: its sessions with
// their streams, its subscriptions/listen and its other requests. The client is told why if cause is an
// *mcp.Error. EndSeat returns when they have ended; other seats go on. Principal must refuse the seat
// already, or its client opens the next session at once.
//
// The modern requests of a caller without a seat go on: on an open endpoint, every client is one.
func (s *Server) EndSeat(seat string, cause error) {
	// The order matters: a request that isn't in the tables yet finds the new number when it is, and
	// asks again who sent it.
	s.ends.Add(1)
	sessions := s.table.takeSeat(seat)
	for _, ses := range sessions {
		s.end(ses, cause)
	}
	flying := s.flights.of(seat)
	for _, x := range flying {
		s.endFlight(x, cause)
	}
	late := time.AfterFunc(drainTimeout, func() {
		for _, ses := range sessions {
			ses.cut()
		}
		for _, x := range flying {
			if x.response != nil {
				x.response.cut()
			}
		}
	})
	defer late.Stop()
	for _, x := range flying {
		if x.response == nil || x.response.session != nil || x.response.stop != nil {
			<-x.done
		}
	}
}

func (s *Server) endFlight(x ending, cause error) {
	if x.response == nil {
		return // a GET stream, which ends with its session
	}
	switch ses := x.response.session; {
	case ses == nil:
	case s.table.take(ses):
		s.end(ses, cause)
	default: // it has been ended, or initialize is running and it isn't in the table yet
		ses.cancel(cause)
		ses.conv.Close(cause)
	}
	if x.response.stop != nil {
		x.response.stop(cause)
	}
}

// again asks once more who has sent a request, and returns an error if it isn't the seat any more: while
// a client sends the body slowly, its access can end.
func (s *Server) again(r *http.Request, seat string) error {
	return httpdoor.Again(r, seat, s.opts.Principal)
}

func (s *Server) refuseDenied(w http.ResponseWriter, err error) {
	s.counts.refused.Add(1)
	httpdoor.RefuseDenied(w, err)
}
