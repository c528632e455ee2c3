package httpdoor

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// BodyLimits contains the limits for reading a body.
type BodyLimits struct {
	Bytes int64 // maximum size in bytes; must be positive
	// Idle is the maximum time in which each 64 KiB of a body must arrive. So a client that sends
	// single bytes slowly is disconnected as early as a client that sends nothing.
	Idle time.Duration
	// Budget limits the memory that the buffers of all bodies use together. Nil means no limit.
	Budget *transport.Budget
}

// Lease is the memory that a body has reserved in a budget. The zero value has reserved nothing.
type Lease struct {
	budget *transport.Budget
	n      int64
}

// Give releases the memory. It must be called when the body is no longer needed.
func (l Lease) Give() { l.budget.Give(l.n) }

// grow increases the lease to n bytes. It returns false if the budget has too little memory left.
func (l *Lease) grow(n int64) bool {
	take := l.budget.Take
	if n <= bodyStep {
		take = l.budget.TakeSmall
	}
	if !take(n - l.n) {
		return false
	}
	l.n = n
	return true
}

// bodyStep is the number of bytes of a body that must arrive within Idle.
const bodyStep = 64 << 10

var (
	errTooLarge = errors.New("the request body is too large")
	errBusy     = errors.New("too many large requests are in memory at the same time; try again")
)

// ReadBody returns the whole body in a new slice, and the Lease of the body. If ok is false,
// ReadBody has refused the request and released the Lease.
func ReadBody(w http.ResponseWriter, r *http.Request, lim BodyLimits) (b []byte, held Lease, ok bool) {
	if r.ContentLength > lim.Bytes {
		refuseTooLarge(w)
		return nil, Lease{}, false
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return nil, Lease{}, true
	}
	held.budget = lim.Budget
	rc := http.NewResponseController(w)
	start := time.Now()
	renew := func() error { return rc.SetReadDeadline(time.Now().Add(lim.Idle)) }
	timed := lim.Idle > 0 && rc.SetReadDeadline(start.Add(lim.Idle)) == nil
	var err error
	switch n := r.ContentLength; {
	case n < 0 || n > bodyStep:
		b, err = readSteps(r.Body, n, lim.Bytes, held.grow, renew)
	case !held.grow(n):
		err = errBusy
	default:
		b = make([]byte, n)
		_, err = io.ReadFull(r.Body, b)
	}
	if time.Since(start) > time.Second && hasWriteTimeout(r) {
		// The server's write timeout began when the headers arrived. Reading the body took long, so
		// begin the timeout again.
		_ = rc.SetWriteDeadline(time.Now().Add(WriteTimeout))
	}
	if timed && err == nil {
		// Remove the read deadline. net/http would treat an expired deadline as a disconnect of the
		// client.
		_ = rc.SetReadDeadline(time.Time{})
	}
	switch {
	case err == nil:
		return b, held, true
	case errors.Is(err, errBusy):
		SetRetryAfter(w, time.Second)
		RefuseAndClose(w, http.StatusServiceUnavailable, "", mcp.Wire(mcp.Overloaded()))
	case errors.Is(err, errTooLarge):
		refuseTooLarge(w)
	case isTimeout(err):
		RefuseAndClose(w, http.StatusRequestTimeout, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the request body did not arrive before the timeout"})
	default:
		// The body is truncated or has invalid chunks.
		RefuseAndClose(w, http.StatusBadRequest, "", &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "the request body is shorter than its Content-Length, or the connection broke"})
	}
	held.Give()
	return nil, Lease{}, false
}

// first returns the size of the first buffer for a body. n is the announced length, or negative if
// unknown. The size is at most 256 KiB, because many clients may send slowly at the same time.
func first(n, limit int64) int64 {
	if n < 0 {
		return bodyStep
	}
	return min(n+1, limit+1, 4*bodyStep)
}

// readSteps reads a body that is large, or whose length is unknown (n < 0). It calls grow before
// each allocation, and renew after each 64 KiB.
func readSteps(src io.Reader, n, limit int64, grow func(int64) bool, renew func() error) ([]byte, error) {
	if !grow(min(first(n, limit), limit)) {
		return nil, errBusy
	}
	b := make([]byte, 0, first(n, limit))
	for step := bodyStep; ; {
		if len(b) == cap(b) {
			room := int64(2 * cap(b))
			if n >= 0 {
				room = n + 1 // one more byte, so that the end is found without another allocation
			}
			// The buffer may have one byte more than limit, to detect a body that is too large.
			// This byte is not taken from the budget, because the budget may be no larger than
			// limit.
			room = min(room, limit+1)
			if !grow(min(room, limit)) {
				return nil, errBusy
			}
			grown := make([]byte, len(b), room)
			copy(grown, b)
			b = grown
		}
		got, err := src.Read(b[len(b):cap(b)])
		b = b[:len(b)+got]
		switch {
		case int64(len(b)) > limit:
			return nil, errTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, err
		case len(b) >= step:
			step = len(b) + bodyStep
			_ = renew() // an error means only that the connection does not support deadlines
		}
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func refuseTooLarge(w http.ResponseWriter) {
	RefuseAndClose(w, http.StatusRequestEntityTooLarge, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the request body is too large"})
}
