package conn

import (
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// refused handles a frame that the pipe refused with err. why describes what is wrong with the
// frame. If the frame certainly answers a particular request, that request fails now, because the
// server will not send the answer again. A batch is passed to the method batch. Any other frame is
// only counted and logged.
func (c *pipeConn) refused(err error, why *jsonrpc.Error) {
	var bad *transport.BadAnswer
	if errors.As(err, &bad) && c.failWith(bad) {
		return
	}
	var batch *transport.Batch
	if errors.As(err, &batch) {
		c.batch(batch, why)
		return
	}
	var line *stdio.BadLine
	if errors.As(err, &line) {
		c.noteStatus(line.Line)
	}
	if errors.Is(err, transport.ErrTooLarge) {
		// The frame may have been an answer that a call waits for.
		c.server.opts.Log.Warn("discarded a message over the size limit", "server", c.server.opts.Name, "cause", c.server.opts.Clean(why.Message))
	}
	c.server.noteOdd("refused", why.Message)
}

// OnStatus sets the function that gets the names in status lines. If f is nil, the handshake has ended.
// See handshake.StatusLines.
func (c *pipeConn) OnStatus(f func(event string)) {
	c.update(func(st *pipeState) {
		if before := st.status; f != nil && before != "" {
			st.later(func() { f(before) })
		}
		st.onStatus, st.status = f, ""
	})
}

// noteStatus passes on the name in a line such as {"event":"starting"}. The object must not have other
// members, because other programs print log records with the member event.
func (c *pipeConn) noteStatus(line []byte) {
	if c.server.opening.Load() != nil || jsonrpc.Valid(line, jsonrpc.Limits{}) != nil {
		return
	}
	name, n := "", 0
	for m := range jsonrpc.Members(line, jsonrpc.Whole(line)) {
		n++
		if key, _ := jsonrpc.Text(line, m.Key); key == "event" {
			name, _ = jsonrpc.Text(line, m.Value)
		}
	}
	if n != 1 || name != "starting" && name != "ready" {
		return
	}
	c.update(func(st *pipeState) {
		if f := st.onStatus; f != nil {
			st.later(func() { f(name) })
		} else if st.status == "" {
			st.status = name
		}
	})
}

// batch handles an array of messages. A server may send such a batch if its revision has batches
// (2025-03-26 §Base Protocol, "Batching": a receiver MUST support them). From any other server, a
// batch is an error, and the requests that the batch answers fail now.
func (c *pipeConn) batch(b *transport.Batch, why *jsonrpc.Error) {
	items, err := jsonrpc.ScanBatch(b.Raw, jsonrpc.Limits{Bytes: len(b.Raw), Tolerant: true, Names: mcp.MethodName})
	if err != nil {
		c.server.noteOdd("refused", why.Message)
		return
	}
	opened := c.server.opening.Load() // nil until the handshake has ended
	allowed := opened != nil && opened.Revision.Can(mcp.Batches)
	i := 0
	for at := range jsonrpc.Elements(b.Raw, jsonrpc.Whole(b.Raw)) {
		item := items[i]
		i++
		var wrong *jsonrpc.Error
		switch {
		case errors.As(item.Err, &wrong):
			c.refused(transport.Refused(at.Of(b.Raw), wrong), wrong)
		case allowed:
			c.dispatch(item.Message)
		case item.Message.Kind == jsonrpc.Result || item.Message.Kind == jsonrpc.Failure:
			c.refused(&transport.BadAnswer{ID: item.Message.ID, Err: why}, why)
		default:
			c.server.noteOdd("refused", why.Message)
		}
	}
}

// failWith fails the request that a bad answer belongs to, and reports whether there is such a
// request.
func (c *pipeConn) failWith(bad *transport.BadAnswer) (failed bool) {
	n, ok := number([]byte(bad.ID), jsonrpc.Span{End: len(bad.ID)})
	c.update(func(st *pipeState) {
		if !ok && bad.ID == "" && bad.TooLarge {
			n = st.soleRequest()
		}
		failed = st.fail(n, bad)
	})
	return failed
}

// soleRequest returns the number of the only request that an answer can belong to. It returns
// 0 if there is no such request or more than one. It also returns 0 if a request was abandoned
// recently, because the server may still answer that request.
func (st *pipeState) soleRequest() int64 {
	sole := int64(0)
	for n, p := range st.pending {
		switch {
		case p.call != nil && p.call.Msg.Method == mcp.MethodListen: // the answer to this request is never large
		case sole != 0:
			return 0
		default:
			sole = n
		}
	}
	if sole != 0 && !st.left.IsZero() && time.Since(st.left) < abandonedFor {
		return 0
	}
	return sole
}

// unusable returns why the answer to a call could not be used. It returns "" if err has another
// cause.
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
