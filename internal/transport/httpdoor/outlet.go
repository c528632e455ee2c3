package httpdoor

import (
	"net"
	"net/http"
	"strconv"
	"time"
)

// outlet is the body of a response. A handler writes it to w. If conn is set, it's written to conn in
// chunks instead (RFC 9112 §7.1), and w and rc aren't used.
type outlet struct {
	w  http.ResponseWriter
	rc *http.ResponseController

	conn *net.TCPConn
	size int         // bytes of the next chunk
	text net.Buffers // its size, which isn't known before Flush, and its parts
}

// Write keeps b until Flush, or until writeStep bytes are there.
func (o *outlet) Write(b []byte) (int, error) {
	if o.conn == nil {
		return o.w.Write(b)
	}
	if o.size == 0 {
		o.text = append(o.text, nil)
	}
	o.text = append(o.text, b)
	if o.size += len(b); o.size >= writeStep {
		return len(b), o.Flush()
	}
	return len(b), nil
}

func (o *outlet) Flush() error {
	if o.conn == nil {
		return o.rc.Flush()
	}
	if o.size == 0 {
		return nil
	}
	o.text[0] = append(strconv.AppendInt(nil, int64(o.size), 16), "\r\n"...)
	text := append(o.text, []byte("\r\n"))
	o.size, o.text = 0, nil
	_, err := text.WriteTo(o.conn)
	return err
}

// close ends the body.
func (o *outlet) close() error {
	_, err := o.conn.Write([]byte("0\r\n\r\n"))
	return err
}

func (o *outlet) SetWriteDeadline(t time.Time) error {
	if o.conn == nil {
		return o.rc.SetWriteDeadline(t)
	}
	return o.conn.SetWriteDeadline(t)
}
