package streamhttp

import "sync/atomic"

// counts are the counters of a Server.
type counts struct {
	modern, legacy, notes                  atomic.Int64
	refused, limited, delayed              atomic.Int64
	opened, ended, expired, evicted        atomic.Int64
	streams, resumed, slowReaders, dropped atomic.Int64
	panics                                 atomic.Int64
}

// Counts is a snapshot of a Server's counters since its start. The last two fields are current
// values.
type Counts struct {
	ModernRequests int64 // requests that were passed to a conversation
	LegacyRequests int64 // requests that were passed to a conversation; elements of a batch count separately
	OneWay         int64 // notifications and responses
	Refused        int64 // requests that the Server itself answered with 4xx; the Guard counts its own refusals
	Limited        int64 // requests refused with 429 or 503
	Delayed        int64 // sessions that had to wait because their client opens many
	SessionsOpened int64
	SessionsEnded  int64 // sessions that ended for any reason
	Expired        int64 // how many of SessionsEnded ended because they were too old or idle
	Evicted        int64 // how many of SessionsEnded were idle and made room for others
	Streams        int64 // event streams that were started, by POST and GET
	Resumed        int64 // how many of Streams were resumed with Last-Event-ID
	SlowReaders    int64 // connections closed because the client did not read
	Dropped        int64 // notifications outside sessions
	Panics         int64

	Sessions int // the current number of sessions, including those for clients that do not open sessions
	InFlight int // the current number of requests, including GET streams
}

// Counts returns the counters.
func (s *Server) Counts() Counts {
	c := &s.counts
	return Counts{
		ModernRequests: c.modern.Load(),
		LegacyRequests: c.legacy.Load(),
		OneWay:         c.notes.Load(),
		Refused:        c.refused.Load(),
		Limited:        c.limited.Load(),
		Delayed:        c.delayed.Load(),
		SessionsOpened: c.opened.Load(),
		SessionsEnded:  c.ended.Load(),
		Expired:        c.expired.Load(),
		Evicted:        c.evicted.Load(),
		Streams:        c.streams.Load(),
		Resumed:        c.resumed.Load(),
		SlowReaders:    c.slowReaders.Load(),
		Dropped:        c.dropped.Load(),
		Panics:         c.panics.Load(),
		Sessions:       s.table.len(),
		InFlight:       s.flights.len(),
	}
}
