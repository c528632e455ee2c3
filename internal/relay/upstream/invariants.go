package upstream

import (
	"fmt"
	"slices"
)

// check panics if the state is not as it must be between two changes. What must hold within one
// session stands in mustHold, the rest here.
func (st *state) check() {
	seen := map[*session]bool{}
	once := func(s *session) {
		must(!seen[s], "session %d is in two places", s.number)
		seen[s] = true
		s.mustHold()
	}
	for key, p := range st.pools.byKey {
		must(p.key == key, "the pool %q is found as %q", p.key, key)
		must(len(p.sessions) > 0 || len(p.subscribers) > 0 || p.opening != nil, "nobody needs the pool %q", key)
		must(key == keyOf(p.base, p.owner), "the pool %q of %d has the base %q", key, p.owner, p.base)
		must(len(p.sessions) <= maxSessionsPerPool, "the pool %q has %d sessions", key, len(p.sessions))
		for _, s := range p.sessions {
			once(s)
			must(s.pool == p && s.link == nil && !s.outdated, "session %d does not belong into the pool %q", s.number, key)
			must(s.users > 0 || s.reap != nil || st.ops.closed, "nobody uses session %d, and nothing will end it", s.number)
		}
		for i, w := range p.subscribers {
			must(w.index == i && w.pool == p, "subscriber %d of the pool %q has the index %d", i, key, w.index)
		}
	}
	for scope, l := range st.pools.links {
		must(l.scope == scope, "the link %q is found as %q", l.scope, scope)
		must(l.listen == nil || slices.Contains(l.listenSet.listens, l.listen), "the newest listen of the link %q is not in its set", scope)
		if s := l.session; s != nil {
			once(s)
			must(s.link == l && s.pool == nil && !s.outdated && !s.aside, "session %d does not belong to the link %q", s.number, scope)
			must(s.users > 0 || s.reap != nil || scope == "" || st.ops.closed, "nobody uses session %d of the link %q, and nothing will end it", s.number, scope)
		}
	}
	for _, s := range st.pools.leaving {
		once(s)
		must(s.outdated || s.aside && s.link != nil, "session %d is in service, but leaves", s.number)
	}
	st.checkStatus()
}

// checkStatus compares the status with the rest of the state.
func (st *state) checkStatus() {
	is := st.health.status.State
	must((is == Stopped) == st.ops.stopped, "the state is %s, stopped is %t", is, st.ops.stopped)
	must(is != Starting || st.ops.closed || st.ops.operating != nil || st.pools.opening(), "the server starts, but nobody opens it")
	must(!st.ops.stopped || st.ops.operating == nil, "the server is stopped and restarted")
	must(st.health.timer == nil || st.mayHeal(), "an attempt is scheduled, but the server needs none")
	bytes := 0
	for _, x := range st.forwards.queue {
		bytes += len(x.raw)
	}
	must(bytes == st.forwards.bytes && (st.forwards.sending || bytes == 0), "%d bytes wait to be forwarded, %d are counted", bytes, st.forwards.bytes)
}

// mustHold panics if the fields of a session that has not ended contradict each other.
func (s *session) mustHold() {
	must(!s.over, "session %d has ended, but is still known", s.number)
	must(s.users >= s.calls && s.calls >= 0, "session %d has %d leases and %d calls", s.number, s.users, s.calls)
	must(s.reap == nil || s.users == 0, "session %d is in use and about to end as idle", s.number)
	must(s.unresponsive != nil == !s.unresponsiveSince.IsZero(), "it is not known why session %d is unresponsive", s.number)
}

func must(holds bool, format string, args ...any) {
	if !holds {
		panic(fmt.Sprintf("upstream: "+format, args...))
	}
}
