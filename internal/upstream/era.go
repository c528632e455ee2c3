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

// A deployment can replace a server with a server of the other era. The errors of the new server
// look like errors that the old server might send: a legacy server may use the codes from -32000 to
// -32099 for any purpose, and a modern server may answer 400 for its own reasons. So such an error
// is only a hint. To find out, Dragoman opens a second session. If the second session has the other
// era, the old sessions are taken out of service, but their running calls continue.

// eraCheckPause is the first pause after an era check that finds no change. The pause doubles up to
// maxEraCheckPause. So a server that answers every call with such an error is not checked at every
// call. A real change is detected after this pause at the latest.
const (
	eraCheckPause    = 30 * time.Second
	maxEraCheckPause = 10 * time.Minute
)

var errEraChanged = errors.New("the server now has a protocol revision of the other era")

// eraCheck is one check of the era. Several calls may wait for it.
type eraCheck struct {
	done    chan struct{} // closed when changed is set
	changed bool
}

// maybeOtherEra reports whether an answer to a call could come from a server that now
// speaks the other era.
func maybeOtherEra(s *session, r *mcp.Reply, err error) bool {
	modern := s.server.Revision().Modern()
	switch {
	case err != nil:
		// 2026-07-28 §Streamable HTTP, "Backward Compatibility": a 4xx without a modern
		// error comes from a legacy server. A lost session is not a hint.
		var status *transport.StatusError
		return modern && errors.As(err, &status) && isRefusal(status.Status)
	case modern:
		switch r.Code() {
		case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeInternal, jsonrpc.CodeParse:
			return false // the specification allows these statuses for modern servers
		}
		return isRefusal(r.Status) && !mcp.IsModernCode(r.Code())
	}
	return r.Code() == mcp.CodeUnsupportedVersion || r.Code() == mcp.CodeHeaderMismatch
}

// isRefusal reports whether a server of the other era refuses requests with this status.
func isRefusal(status int) bool { return status == 400 || status == 404 || status == 405 }

// notExecuted reports whether a call may be retried. It is called after Dragoman has found out that
// the server now has the other era. r is the server's answer, or nil if the answer was only an HTTP
// status.
func notExecuted(s *session, c *mcp.Call, r *mcp.Reply) bool {
	switch {
	case r == nil, s.server.Revision().Modern():
		return true // maybeOtherEra has checked that the status refuses the whole request
	case c.Method != nil && c.Method.ReadOnly:
		return true
	case isRefusal(r.Status):
		// 2026-07-28 §Streamable HTTP, "Protocol Version Header" and "Server Validation": a modern
		// server refuses such a call with the status 400. A legacy server answers 200 to a call
		// that it has executed.
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

// eraChanged reports whether the server now speaks another era than the session s. To find out,
// it opens a second session, or waits for a check that is running. Until then, s stays in use.
// If a recent check found no change, it returns false without a new check.
func (u *Upstream) eraChanged(ctx context.Context, s *session) bool {
	u.mu.Lock()
	l := u.eraChecking
	switch {
	case s.outdated:
		u.mu.Unlock()
		return true
	case l != nil:
	case u.closed, u.spec.Pin != mcp.Unknown, u.adapter != nil,
		time.Now().Before(u.nextEraCheck), time.Now().Before(u.notBefore):
		u.mu.Unlock()
		return false
	default:
		l = &eraCheck{done: make(chan struct{})}
		u.eraChecking = l
		u.work.Go(func() { u.checkEra(s, l) })
	}
	u.mu.Unlock()
	select {
	case <-l.done:
		return l.changed
	case <-ctx.Done():
		return false
	}
}

// checkEra opens a second session, which does not belong to a client. If the server has become
// modern, this session becomes the new link. Otherwise it is closed.
func (u *Upstream) checkEra(s *session, l *eraCheck) {
	u.opts.Log.Debug("opening a second session to check the protocol era of the server", "server", u.spec.Name)
	u.mu.Lock()
	life, operation := u.opens, u.operation
	u.mu.Unlock()
	next, err := u.open(life, &pool{}, nil, purposeCheckEra)
	u.mu.Lock()
	if err == nil && u.operation != operation {
		// In the meantime, an operator has taken the sessions out of service.
		defer next.shut(u.graceful, errNotNeeded)
		next, err = nil, errNotNeeded
	}
	modern := s.server.Revision().Modern()
	if l.changed = err == nil && next.provesChangeFrom(modern); l.changed {
		u.eraIsOverLocked(modern)
		u.nextEraCheck, u.eraChecks = time.Time{}, 0
	} else {
		u.nextEraCheck = time.Now().Add(min(eraCheckPause<<min(u.eraChecks, 8), maxEraCheckPause))
		u.eraChecks++
	}
	kept := l.changed && !modern && !u.closed && !next.over && u.linkLocked("", nil).session == nil
	if kept {
		u.openedLocked(nil, nil, next)
		u.up = true
		u.starts++
	}
	u.eraChecking = nil
	u.mu.Unlock()
	if err == nil && !kept {
		next.shut(u.graceful, errNotNeeded)
	}
	if l.changed {
		u.opts.Log.Info("the server now has a protocol revision of the other era (legacy or modern)", "server", u.spec.Name)
		u.forgetTools()
		if u.opts.Changed != nil {
			u.opts.Changed("")
		}
	}
	close(l.done)
}

// provesChangeFrom reports whether a new session shows that the server no longer speaks the
// previous era. If a modern server also supports the legacy era, its legacy sessions continue.
func (s *session) provesChangeFrom(modern bool) bool {
	if modern || !s.server.Revision().Modern() {
		return s.server.Revision().Modern() != modern
	}
	return s.legacyFirst || !offersLegacy(s.server.Hello().Versions)
}

// eraIsOverLocked takes all sessions of an era out of service, and removes all stored information
// that depends on the era.
func (u *Upstream) eraIsOverLocked(modern bool) {
	u.era, u.sse, u.noLegacy, u.silent, u.up = mcp.Unknown, false, false, false, false
	if modern {
		for _, l := range u.links {
			u.stopListenLocked(l, errEraChanged)
			if l.session != nil {
				u.outdateLocked(l.session, errEraChanged)
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
			u.outdateLocked(s, errEraChanged)
		}
	}
}

// outdateLocked takes a session out of service. The session ends with cause after its last
// call.
func (u *Upstream) outdateLocked(s *session, cause error) {
	s.outdated, s.outdatedBy = true, cause
	s.leaveLink()
	if p := s.pool; p != nil {
		p.removeLocked(s)
		close(p.freed) // wakes the callers that wait for an exclusive session, so that they choose another session
		p.freed = make(chan struct{})
		u.tidyLocked(p)
	}
	u.leaving = append(u.leaving, s)
	if s.users == 0 {
		u.work.Go(func() { s.shut(u.graceful, cause) })
	}
}

// watchesLocked reports whether any subscriber of the pool watches a resource.
func (p *pool) watchesLocked() bool {
	return slices.ContainsFunc(p.subscribers, func(w *Subscriber) bool { return len(w.want.URIs) > 0 })
}
