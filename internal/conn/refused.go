package conn

import (
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// refused takes a frame that the pipe refused with err because of why. Where it is
// certain which request it answers, that one fails now: its answer will not come
// again. Any other frame is counted, and the calls go on.
func (l *pipeConn) refused(err error, why *jsonrpc.Error) {
	var bad *transport.BadAnswer
	if errors.As(err, &bad) && l.failWith(bad) {
		return
	}
	var batch *transport.Batch
	if errors.As(err, &batch) {
		l.batch(batch, why)
		return
	}
	if errors.Is(err, transport.ErrTooLarge) {
		// It may have been anything, an answer that somebody waits for included.
		l.server.opts.Log.Warn("message over the size limit skipped", "server", l.server.opts.Name, "cause", why.Message)
	}
	l.noteOdd("refused", why.Message)
}

// batch takes an array of messages. A server of a revision that has batches may send
// them (2025-03-26 §Base Protocol, "Batching": a receiver MUST support them). From any
// other it is a fault, and the requests that it answers fail now.
func (l *pipeConn) batch(b *transport.Batch, why *jsonrpc.Error) {
	items, err := jsonrpc.ScanBatch(b.Raw, jsonrpc.Limits{Bytes: len(b.Raw), Tolerant: true, Names: mcp.MethodName})
	if err != nil {
		l.noteOdd("refused", why.Message)
		return
	}
	opened := l.server.opening.Load() // nil until the handshake is over
	allowed := opened != nil && opened.Revision.Can(mcp.Batches)
	i := 0
	for at := range jsonrpc.Elements(b.Raw, jsonrpc.Whole(b.Raw)) {
		item := items[i]
		i++
		var wrong *jsonrpc.Error
		switch {
		case errors.As(item.Err, &wrong):
			l.refused(transport.Refused(at.Of(b.Raw), wrong), wrong)
		case allowed:
			l.dispatch(item.Message)
		case item.Message.Kind == jsonrpc.Result || item.Message.Kind == jsonrpc.Failure:
			l.refused(&transport.BadAnswer{ID: item.Message.ID, Err: why}, why)
		default:
			l.noteOdd("refused", why.Message)
		}
	}
}

// failWith fails the request that a bad answer belongs to, and reports whether there
// is one.
func (l *pipeConn) failWith(bad *transport.BadAnswer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := number([]byte(bad.ID), jsonrpc.Span{End: len(bad.ID)})
	if !ok && bad.ID == "" && bad.TooLarge {
		n = l.soleLocked()
	}
	p := l.pending[n]
	if p == nil {
		l.layLocked(n)
		return false
	}
	delete(l.pending, n)
	p.err = bad
	p.signal()
	return true
}

// soleLocked returns the number of the request that alone can be answered now, 0 for
// none. One that was given up a moment ago may still be.
func (l *pipeConn) soleLocked() int64 {
	sole := int64(0)
	for n, p := range l.pending {
		switch {
		case p.call != nil && p.call.Msg.Method == mcp.MethodListen: // its answer is short
		case sole != 0:
			return 0
		default:
			sole = n
		}
	}
	if sole != 0 && !l.left.IsZero() && time.Since(l.left) < hauntsFor {
		return 0
	}
	return sole
}

// unusable says why the answer to a call could not be used, "" when err is another
// failure.
func unusable(err error) string {
	var bad *transport.BadAnswer
	switch {
	case errors.As(err, &bad):
		return bad.Err.Message
	case errors.Is(err, transport.ErrTooLarge):
		return transport.ErrTooLarge.Error()
	}
	return ""
}
