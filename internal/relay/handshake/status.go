package handshake

import "time"

// receiveStatus handles a status line, which only wrappers around Codex print. Such a wrapper may wait
// in silence for a variable that only the adapter sets (codex.Server.Environ). So receiveStatus gives
// the server as long as a probe may take, and then ends the wait for the answer. A server that answers
// in that time is opened as usual, because a server of MCP may print such a line by mistake.
// receiveStatus runs on the goroutine that reads the link.
func (o *opening) receiveStatus(event string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.status != "" {
		return
	}
	o.status = event
	limit := o.limit
	if limit <= 0 {
		limit = pipeProbeTimeout
	}
	o.mute = time.AfterFunc(limit, func() {
		o.mu.Lock()
		o.overdue = true
		stop := o.stop
		o.mu.Unlock()
		if stop != nil {
			stop()
		}
	})
}

// stopStatus removes receiveStatus from the link.
func (o *opening) stopStatus(l StatusLines) {
	l.OnStatus(nil)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mute != nil {
		o.mute.Stop()
	}
}

// announced reports whether the server has printed a status line, and then has not answered in time.
func (o *opening) announced() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.overdue
}

// unanswered returns the error for a server that is a wrapper around Codex.
func (o *opening) unanswered(sent, got string) (state, *Error) {
	return o.otherDialect(DialectAppServer, `the line {"event":"`+o.status+`"} comes from a wrapper around Codex's app-server`, nil, sent, got)
}
