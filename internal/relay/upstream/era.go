package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// A deployment can replace a server with a server of the other era. The errors of the new server
// look like errors that the old server might send: a legacy server may use the codes from -32000 to
// -32099 for any purpose, and a modern server may answer 400 for its own reasons. So such an error
// is only a hint that the server was replaced. To be sure, Dragoman opens a second session. If the
// second session has the other era, the old sessions are taken out of service, but their running
// calls continue.

// eraCheckPause is the first pause after an era check that finds no change. The pause doubles up to
// maxEraCheckPause. Without the pause, a server that answers every call with a suspicious error
// would be checked at every call. A real change is detected by the first such error after the
// pause.
const (
	eraCheckPause    = 30 * time.Second
	maxEraCheckPause = 10 * time.Minute
)

var errEraChanged = errors.New("the server now has a protocol revision of the other era")

// eraCheck is one check of the era. Several calls may wait for the same check.
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
		// 2026-07-28 §Streamable HTTP, "Backward Compatibility": a 4xx without a modern error comes
		// from a legacy server. For a legacy session, a 4xx is not a hint, because it may mean that
		// the session is lost.
		var status *transport.StatusError
		return modern && errors.As(err, &status) && isRefusal(status.Status)
	case modern:
		switch r.Code() {
		case jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams, jsonrpc.CodeInternal, jsonrpc.CodeParse:
			return false // the specification allows modern servers to send these codes with an error status
		}
		return isRefusal(r.Status) && !mcp.IsModernCode(r.Code())
	}
	return r.Code() == mcp.CodeUnsupportedVersion || r.Code() == mcp.CodeHeaderMismatch
}

// isRefusal reports whether servers use this status to refuse requests of the other era.
func isRefusal(status int) bool { return status == 400 || status == 404 || status == 405 }

// notExecuted reports whether a call may be retried because the server has not executed it. It is
// called after Dragoman has found out that the server now has the other era. r is the server's
// answer, or nil if the answer was only an HTTP status.
func notExecuted(s *session, c *mcp.Call, r *mcp.Reply) bool {
	switch {
	case r == nil, s.server.Revision().Modern():
		return true // maybeOtherEra has checked that the server refused the whole request
	case c.Method != nil && c.Method.ReadOnly:
		return true
	case isRefusal(r.Status):
		// 2026-07-28 §Streamable HTTP, "Protocol Version Header" and "Server Validation": a modern
		// server refuses a legacy call with the status 400. A legacy server that has executed the
		// call answers 200.
		return true
	}
	// 2026-07-28 §Versioning, "Protocol Version Negotiation": the error of a modern server lists
	// the versions that the server supports.
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

// eraChanged reports whether the server of the session s has changed to the other era. To find out,
// eraChanged opens a second session, or waits for a check that is running. Until the result is
// known, s stays in use. If a recent check found no change, eraChanged returns false without a new
// check.
func (d *dialer) eraChanged(ctx context.Context, s *session) bool {
	outdated := false
	l := get(d.core, func(st *state) *eraCheck {
		outdated = s.outdated
		switch {
		case outdated:
			return nil
		case st.dial.checking != nil:
		case st.ops.closed, d.spec.Pin != mcp.Unknown, st.dial.adapter != nil,
			time.Now().Before(st.dial.nextCheck), time.Now().Before(st.health.notBefore):
			return nil
		default:
			l := &eraCheck{done: make(chan struct{})}
			st.dial.checking = l
			d.work.Go(func() { d.checkEra(s, l) })
		}
		return st.dial.checking
	})
	if l == nil {
		return outdated
	}
	select {
	case <-l.done:
		return l.changed
	case <-ctx.Done():
		return false
	}
}

// checkEra opens a second session, which does not belong to a client. If the server has become
// modern, the second session becomes the session of the link. Otherwise checkEra closes the second
// session.
func (d *dialer) checkEra(s *session, l *eraCheck) {
	d.opts.Log.Debug("opening a second session to check the server's era", "server", d.spec.Name)
	var life context.Context
	var operation uint64
	d.update(func(st *state) { life, operation = st.ops.opens, st.ops.operation })
	next, err := d.open(life, target{pool: &pool{}, purpose: purposeCheckEra})
	kept := false
	d.update(func(st *state) {
		st.dial.checking = nil
		// If the operation is another one, an operator has taken the sessions out of service.
		found := err == nil && st.ops.operation == operation
		l.changed, kept = d.judge(st, found, s, next)
	})
	if err == nil && !kept {
		next.shut(d.graceful, errNotNeeded)
	}
	if l.changed {
		d.opts.Log.Info("server has changed its era (legacy or modern)", "server", d.spec.Name)
		d.lister.forgetTools("")
		if d.opts.Changed != nil {
			d.opts.Changed("")
		}
	}
	close(l.done)
}

// judge compares the session s with the session next, which was opened to check the era. The parameter
// found is false if there is no such session, or if it does not count. judge reports whether the era
// has changed, and whether next is now in service.
func (d *dialer) judge(st *state, found bool, s, next *session) (changed, kept bool) {
	modern := s.server.Revision().Modern()
	if !found || !next.provesChangeFrom(modern) {
		st.dial.nextCheck = time.Now().Add(min(eraCheckPause<<min(st.dial.checks, 8), maxEraCheckPause))
		st.dial.checks++
		return false, false
	}
	d.eraIsOver(st, modern)
	st.dial.nextCheck, st.dial.checks = time.Time{}, 0
	if modern || st.ops.closed || next.over || st.pools.link("", nil).session != nil {
		return true, false
	}
	d.broker.putIntoService(st, nil, nil, next)
	st.health.up = true
	st.health.starts++
	return true, true
}

// provesChangeFrom reports whether the new session s proves that the server no longer supports the
// previous era. The parameter modern says whether that era was the modern one. A modern server that
// also supports the legacy era proves no change, so its legacy sessions continue.
func (s *session) provesChangeFrom(modern bool) bool {
	if modern || !s.server.Revision().Modern() {
		return s.server.Revision().Modern() != modern
	}
	return s.legacyFirst || !offersLegacy(s.server.Hello().Versions)
}

// eraIsOver takes all sessions of one era out of service: of the modern era if modern is
// true, otherwise of the legacy era. It also removes all stored information that depends on the
// era.
func (d *dialer) eraIsOver(st *state, modern bool) {
	st.dial.era, st.dial.sse, st.dial.noLegacy, st.dial.silent, st.health.up = mcp.Unknown, false, false, false, false
	if modern {
		for _, l := range st.pools.links {
			l.stopListen(errEraChanged)
			if l.session != nil {
				d.broker.outdate(st, l.session, errEraChanged)
			}
		}
		for _, p := range st.pools.byKey {
			if p.watches() {
				d.work.Go(func() { d.hub.restore(p, nil) })
			}
		}
		return
	}
	for _, p := range st.pools.byKey {
		for _, s := range slices.Clone(p.sessions) {
			d.broker.outdate(st, s, errEraChanged)
		}
	}
}
