package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// A deploy can replace a server by one of the other era. Its refusals look like
// errors of a server that has not changed: a legacy server owns the codes from
// -32000 to -32099, and a modern one may answer 400 for reasons of its own. So an
// answer of that kind is a doubt, not a proof. The proof is a second session: only
// when it turns out to be of the other era are the sessions of the old one taken out
// of service, and even then the calls that run on them go on.

// The pauses between second looks that find no change: the first, and the longest
// one after it has doubled. A server that answers every call with such an error is
// not asked each time; one that has really changed is found out within the pause.
const (
	lookPause    = 30 * time.Second
	maxLookPause = 10 * time.Minute
)

var errEraChanged = errors.New("the server speaks another era now")

// secondLook is one look that several calls may wait for.
type secondLook struct {
	done    chan struct{} // closed when changed is set
	changed bool
}

// foreign reports whether an answer to a call could be that of a server which now
// speaks the other era.
func foreign(s *session, r *mcp.Reply, err error) bool {
	modern := s.server.Revision().Modern()
	switch {
	case err != nil:
		// 2026-07-28 §Streamable HTTP, "Backward Compatibility": what is no modern
		// error comes from a legacy server. A session that is lost is no doubt.
		var status *transport.StatusError
		return modern && errors.As(err, &status) && refusal(status.Status)
	case modern:
		switch r.Code() {
		case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeInternal, jsonrpc.CodeParse:
			return false // modern servers have a status for these
		}
		return refusal(r.Status) && !mcp.IsModernCode(r.Code())
	}
	return r.Code() == mcp.CodeUnsupportedVersion || r.Code() == mcp.CodeHeaderMismatch
}

// refusal reports the statuses by which a server of the other era refuses a
// request.
func refusal(status int) bool { return status == 400 || status == 404 || status == 405 }

// notExecuted reports whether a call may be sent again after the server that gave
// the answer r has proved to be of the other era. r is nil where the answer was a
// bare HTTP status.
func notExecuted(s *session, c *mcp.Call, r *mcp.Reply) bool {
	switch {
	case r == nil, s.server.Revision().Modern():
		return true // foreign has seen the status by which a request is refused as a whole
	case c.Method != nil && c.Method.ReadOnly:
		return true
	case refusal(r.Status):
		// 2026-07-28 §Streamable HTTP, "Protocol Version Header" and "Server
		// Validation": 400. A legacy server answers 200 to what it has executed.
		return true
	}
	// 2026-07-28 §Versioning, "Protocol Version Negotiation": the error lists the
	// versions that the server supports.
	if r.Code() != mcp.CodeUnsupportedVersion {
		return false
	}
	supported := jsonrpc.Find(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, r.Msg.Error, "data"), "supported")
	for v := range jsonrpc.Elements(r.Msg.Raw, supported) {
		text, _ := jsonrpc.Text(r.Msg.Raw, v)
		if rev, ok := mcp.ParseRevision(text); ok && rev.Modern() {
			return true
		}
	}
	return false
}

// eraChanged reports whether the server speaks the other era than the session s. It
// opens a second session to find out, or waits for whoever does so already; s serves
// everybody until then. It says false without a look while the last one, which found
// no change, is recent.
func (u *Upstream) eraChanged(ctx context.Context, s *session) bool {
	u.mu.Lock()
	l := u.looking
	switch {
	case s.outdated:
		u.mu.Unlock()
		return true
	case l != nil:
	case u.closed, u.spec.Pin != mcp.Unknown, u.adapter != nil,
		time.Now().Before(u.nextLook), time.Now().Before(u.notBefore):
		u.mu.Unlock()
		return false
	default:
		l = &secondLook{done: make(chan struct{})}
		u.looking = l
		u.work.Go(func() { u.lookAgain(s, l) })
	}
	u.mu.Unlock()
	select {
	case <-l.done:
		return l.changed
	case <-ctx.Done():
		return false
	}
}

// lookAgain opens a second session on nobody's behalf. One that proves the change to
// a modern server is the link to it from now on; any other has served its purpose.
func (u *Upstream) lookAgain(s *session, l *secondLook) {
	u.opts.Log.Debug("a second session is opened: the server may have changed its era", "server", u.spec.Name)
	next, err := u.open(u.life, &pool{}, nil, true)
	u.mu.Lock()
	modern := s.server.Revision().Modern()
	if l.changed = err == nil && next.provesChangeFrom(modern); l.changed {
		u.eraIsOverLocked(modern)
		u.nextLook, u.looks = time.Time{}, 0
	} else {
		u.nextLook = time.Now().Add(min(lookPause<<min(u.looks, 8), maxLookPause))
		u.looks++
	}
	kept := l.changed && !modern && !u.closed && u.linkLocked("", nil).session == nil
	if kept {
		u.openedLocked(nil, nil, next)
		u.up = true
		u.starts++
	}
	u.looking = nil
	u.mu.Unlock()
	if err == nil && !kept {
		next.shut(u.polite, errSpare)
	}
	if l.changed {
		u.opts.Log.Info("the server has changed its era", "server", u.spec.Name)
		u.forgetTools()
		if u.opts.Changed != nil {
			u.opts.Changed("")
		}
	}
	close(l.done)
}

// provesChangeFrom reports whether a session that was just opened shows that the
// server has left the era that was spoken before. A modern server that still has the
// legacy era has not: its legacy sessions go on.
func (s *session) provesChangeFrom(modern bool) bool {
	if modern || !s.server.Revision().Modern() {
		return s.server.Revision().Modern() != modern
	}
	return s.legacyFirst || !offersLegacy(s.server.Hello().Versions)
}

// eraIsOverLocked takes all sessions of an era out of service and forgets everything
// that was learned about it.
func (u *Upstream) eraIsOverLocked(modern bool) {
	u.era, u.sse, u.noLegacy, u.silent, u.up = mcp.Unknown, false, false, false, false
	if modern {
		for _, l := range u.links {
			u.stopListenLocked(l, errEraChanged)
			if l.session != nil {
				u.outdateLocked(l.session)
			}
		}
		for _, p := range u.pools {
			if p.watchesLocked() {
				u.work.Go(func() { u.restore(p, nil) })
			}
		}
		return
	}
	for _, p := range u.pools {
		for _, s := range slices.Clone(p.sessions) {
			u.outdateLocked(s)
		}
	}
}

// outdateLocked takes a session out of service. Its calls go on, and with the last
// of them it ends.
func (u *Upstream) outdateLocked(s *session) {
	s.outdated = true
	s.leaveLink()
	if p := s.pool; p != nil {
		p.removeLocked(s)
		close(p.freed) // whoever waits for a lane gets another session
		p.freed = make(chan struct{})
		u.tidyLocked(p)
	}
	u.leaving = append(u.leaving, s)
	if s.users == 0 {
		u.work.Go(func() { s.shut(u.polite, errEraChanged) })
	}
}

// watchesLocked reports whether anybody in the pool watches a resource.
func (p *pool) watchesLocked() bool {
	return slices.ContainsFunc(p.standing, func(w *Subscriber) bool { return len(w.want.URIs) > 0 })
}
