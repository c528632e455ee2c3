package upstream

// state is what changes in an Upstream, by subject. The objects that it leads to (pools, sessions, links,
// listens, subscribers) belong to it too. Whoever holds a *state is inside core.update, so functions that
// need the lock have a parameter of this type, or are methods of what belongs to the state.
//
// Outside is only what no invariant mentions. toolMemory and refusals have locks of their own, since they
// compare tools and join refused requests, whatever the sessions do. The rest is atomic: timeouts, session
// numbers and task forms in core, dialer.cut, the counts of a stepLog, and in a session watched, served
// and unanswered, which spare a call the lock.
type state struct {
	name   string // the name of the server, for the log
	pools  registry
	dial   dialState
	health healthState
	lists  listState
	ops    operations

	forwards forwardQueue

	left func(key string) // hears of each pool that is removed; nil if nobody wants to

	due   []func() // what update does after it has released the lock
	lines []logLine
}

// update changes the state. It is the only door to it. After every change it settles and checks the
// state, and when it has released the lock it does what has become due, such as notifying clients and
// writing the log. Closing a channel doesn't block, so that may happen inside. The function change must not block, and must not keep the pointer.
func (c *core) update(change func(*state)) {
	due, lines := c.change(change)
	for _, act := range due {
		act()
	}
	c.write(lines)
}

func (c *core) change(change func(*state)) (due []func(), lines []logLine) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.state
	change(st)
	st.settle()
	if checking {
		st.check()
	}
	due, lines = st.due, st.lines
	st.due, st.lines = nil, nil
	return due, lines
}

// checking says that update checks the state after every change. The tests set it.
var checking bool

// settle does what follows from any change: it removes pools that nobody needs any more, and cancels
// the attempt in the background that the server does not need any more.
func (st *state) settle() {
	for _, key := range st.pools.settle() {
		if st.left != nil {
			st.later(func() { st.left(key) })
		}
	}
	if st.health.timer != nil && !st.mayHeal() {
		st.health.stopHealing()
	}
}

// mayHeal reports whether the server may be opened in the background.
func (st *state) mayHeal() bool {
	return st.health.kept && !st.ops.closed && !st.ops.stopped && st.ops.operating == nil && !st.pools.hasSession()
}

// later makes update call act after it has released the lock.
func (st *state) later(act func()) { st.due = append(st.due, act) }

// get changes or reads the state, and returns a result.
func get[T any](c *core, f func(*state) T) (result T) {
	c.update(func(st *state) { result = f(st) })
	return result
}
