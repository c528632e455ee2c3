package streamhttp

import "slices"

// This is what a table does if sessions may move; see server_heirs.go.

// has reports whether the table has a session.
func (t *table) has(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id] != nil
}

// parting reports whether a session is just being given to another process.
func (t *table) parting(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	ses := t.byID[id]
	return ses != nil && ses.parting
}

// part marks up to n sessions of which no request runs, so that no further one can begin, and returns them. left is how
// many other sessions there are that can move.
func (t *table) part(n int) (all []*session, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ses := range t.byID {
		switch {
		case ses.parting:
		case len(all) < n && ses.active.Load() <= ses.hearing.Load():
			ses.parting = true
			all = append(all, ses)
		default:
			left++
		}
	}
	return all, left
}

// parted takes those sessions out of the table that were given away, and returns them. The others go on.
func (t *table) parted(all []*session, lost []string) (gone []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := make(map[string]bool, len(lost))
	for _, id := range lost {
		is[id] = true
	}
	for _, ses := range all {
		if is[ses.id] {
			if t.takeLocked(ses) {
				gone = append(gone, ses)
			}
		} else {
			ses.parting = false
		}
	}
	return gone
}

// putInherited adds a session that another process has had. If the table has it already, putInherited returns that one, or
// nil if it's just being given away. The returned session is acquired. putInherited uses up the reservation of the new session.
func (t *table) putInherited(ses *session, id string) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved--
	if there := t.byID[id]; there != nil {
		t.quota.Give(ses.party)
		if there.parting {
			return nil
		}
		ses = there
	} else {
		ses.id = id
		t.byID[id] = ses
	}
	ses.active.Add(1)
	ses.used.Store(true)
	return ses
}

// fade takes the sessions of other terms out of the table, and returns them. They wait in fading until no request of them
// runs.
func (t *table) fade(term uint64) (all []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ses := range t.byID {
		if ses.term != term && !ses.parting {
			t.takeLocked(ses)
			all = append(all, ses)
		}
	}
	t.fading = append(t.fading, all...)
	return all
}

// faded takes the sessions out of fading of which no request runs, or all of them, and returns them.
func (t *table) faded(all bool) (out []*session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fading = slices.DeleteFunc(t.fading, func(ses *session) bool {
		over := all || ses.active.Load() <= ses.hearing.Load()
		if over {
			out = append(out, ses)
		}
		return over
	})
	return out
}
