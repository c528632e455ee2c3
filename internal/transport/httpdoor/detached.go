package httpdoor

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// detached is a Connection that no handler serves. We have taken its network connection from
// net/http after the head of the response, so it has no goroutine and no buffers while there is
// nothing to write. The watch tells it when a keep-alive comment is due, and when the client has
// closed the connection.
type detached struct {
	c      *Connection
	watch  *watch
	tcp    *net.TCPConn
	number uint64 // of the connection
	early  []byte // what net/http has read of the next request
	closes bool   // the client expects that we close the connection at the end
	done   func()

	token uint64       // set by the watch
	last  atomic.Int64 // when something was written, as the time since the epoch of the rules
	gone  atomic.Bool  // the client has closed the connection
	state atomic.Uint32
}

// The values of detached.state.
const (
	quiet   uint32 = iota // there is nothing to do
	pumping               // a goroutine runs pump
	nudged                // pump must look again
	ended                 // pump has returned for the last time
)

var errGone = errors.New("the client has closed the connection")

// Serve does the same as Run with the context of r, and then calls done, which must not block. If it
// can, it returns much earlier, and the stream goes on without a goroutine. So when it has returned,
// the caller must return from its handler and must not use w or r any more.
func (c *Connection) Serve(w http.ResponseWriter, r *http.Request, done func()) {
	d := c.detachable(r, done)
	err := c.begin()
	if d != nil && d.detach(w, r, err) {
		d.pump()
		return
	}
	_ = c.finish(r.Context(), err)
	done()
}

// detachable returns nil if Serve needs a goroutine.
func (c *Connection) detachable(r *http.Request, done func()) *detached {
	inner, ok := r.Context().Value(connKey{}).(*conn)
	// Before HTTP/1.1 there are no chunks, and after our response the rest of the request's body would
	// become the next request.
	if !ok || inner.watch == nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 || r.Body != http.NoBody {
		return nil
	}
	d := &detached{c: c, watch: inner.watch, tcp: inner.Conn.(*net.TCPConn), number: inner.number, done: done}
	d.state.Store(pumping)
	d.wroteNow()
	if !d.watch.follow(d) {
		return nil // the server is closing
	}
	return d
}

// detach takes the network connection from net/http, which has sent the head if err is nil.
func (d *detached) detach(w http.ResponseWriter, r *http.Request, err error) bool {
	c, watch := d.c, d.watch
	closing := r.Close || strings.EqualFold(w.Header().Get("Connection"), "close")
	if err != nil {
		watch.unfollow(d)
		return false
	}
	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		watch.unfollow(d)
		return false
	}
	d.closes = closing
	if n := buffered.Reader.Buffered(); n > 0 {
		b, _ := buffered.Reader.Peek(n)
		d.early = append(d.early, b...)
	}
	c.mu.Lock()
	c.out = outlet{conn: d.tcp}
	if c.aborted.Load() {
		_ = c.out.SetWriteDeadline(past)
	}
	c.mu.Unlock()
	c.detached.Store(d)
	_ = watch.poll.add(d.tcp, d.token, forEnd) // an error means that the server is closing
	return true
}

// nudge makes pump look at the stream.
func (d *detached) nudge() {
	for {
		switch d.state.Load() {
		case quiet:
			if d.state.CompareAndSwap(quiet, pumping) {
				d.watch.running.Go(d.pump)
				return
			}
		case pumping:
			if d.state.CompareAndSwap(pumping, nudged) {
				return
			}
		default:
			return
		}
	}
}

// pump writes what there is to write, and ends the connection if it must end. Only one goroutine
// runs it at a time.
func (d *detached) pump() {
	c := d.c
	var room [32][]byte
	for {
		if d.gone.Load() {
			d.end(errGone)
			return
		}
		wrote, over, err := c.advance(room[:0])
		if !wrote && !over && d.silent() >= c.stream.rules.KeepAlive {
			err = c.write([][]byte{keepAlive})
			wrote, over = true, err != nil
		}
		switch {
		case over:
			d.end(err)
			return
		case wrote:
			d.wroteNow()
		case d.state.CompareAndSwap(pumping, quiet):
			return
		default:
			d.state.Store(pumping)
		}
	}
}

func (d *detached) wroteNow() { d.last.Store(int64(time.Since(d.c.stream.rules.epoch))) }

// silent returns how long nothing was written.
func (d *detached) silent() time.Duration {
	return time.Since(d.c.stream.rules.epoch) - time.Duration(d.last.Load())
}

// end ends the response. If the client may send another request, the connection rests.
func (d *detached) end(err error) {
	c, w := d.c, d.watch
	d.state.Store(ended)
	c.leave()
	d.done() // like a handler, before the client sees the end
	c.mu.Lock()
	c.over = true // so abort sets no deadline from now on
	aborted := c.aborted.Load()
	c.mu.Unlock()
	stays := false
	if !aborted && (err == nil || err == errGone) {
		_ = c.out.SetWriteDeadline(time.Now().Add(c.stream.rules.Stall))
		stays = c.out.close() == nil && err == nil && !d.closes
	}
	if stays {
		_ = c.out.SetWriteDeadline(time.Time{})
		w.poll.remove(d.tcp)
		w.restAgain(d)
	} else {
		_ = d.tcp.Close()
	}
	w.unfollow(d)
}
