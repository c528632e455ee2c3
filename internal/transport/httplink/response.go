package httplink

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// maxErrorBody is the maximum number of bytes that are read from the body of an error response.
const maxErrorBody = 64 << 10

// errorBodyTime is the timeout for reading the body of an error response. After the timeout, the
// part that has arrived is used.
const errorBodyTime = 5 * time.Second

// ErrTooLarge means that the body of a response exceeds the limit.
var ErrTooLarge = errors.New("response exceeds the size limit")

// Response is the response to one request. Its body has not been read. The response must be closed.
type Response struct {
	*http.Response
	payload   payload
	signature []transport.HeaderField // the header fields with which the Signer has authorised the request
}

// Close ends the exchange and discards the rest of the body.
func (r *Response) Close() {
	r.Body.Close()
	r.payload.release()
}

// Discard reads up to 4 KiB of the rest of the body and closes the response. If the rest is no
// longer than that, the connection can be reused.
func (r *Response) Discard() {
	drain(r.Response)
	r.payload.release()
}

// Media is the media type of a response. Media distinguishes only the types that MCP uses.
type Media uint8

// The media types of responses in MCP, and Other for any other type.
const (
	Other Media = iota
	JSON
	Events
)

// Media returns the media type of the response.
func (r *Response) Media() Media {
	var v string
	if values := r.Header["Content-Type"]; len(values) > 0 {
		v = values[0]
	}
	switch v { // the two most common values
	case "application/json":
		return JSON
	case "text/event-stream":
		return Events
	}
	v, _, _ = strings.Cut(v, ";")
	v = strings.TrimSpace(v)
	switch {
	case strings.EqualFold(v, "application/json"):
		return JSON
	case strings.EqualFold(v, "text/event-stream"):
		return Events
	}
	return Other
}

// ReadAll reads a body of at most limit bytes, with one allocation if the length is known. If the
// body is longer than limit, ReadAll returns ErrTooLarge.
func (r *Response) ReadAll(limit int) ([]byte, error) {
	n := r.ContentLength
	if n > int64(limit) {
		return nil, ErrTooLarge
	}
	if n >= 0 {
		b := make([]byte, n)
		if _, err := io.ReadFull(r.Body, b); err != nil {
			return nil, broken(err)
		}
		return b, nil
	}
	b := make([]byte, 0, 1024)
	for {
		m, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+m]
		switch {
		case len(b) > limit:
			return nil, ErrTooLarge
		case err == io.EOF:
			return b, nil
		case err != nil:
			return nil, broken(err)
		case len(b) == cap(b):
			grown := make([]byte, len(b), min(2*cap(b), limit+1))
			copy(grown, b)
			b = grown
		}
	}
}

func broken(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Refused returns the error for a response that reports a failure or is not an MCP response. It
// reads the beginning of the body and closes the response. Reading takes at most five seconds, and
// ends earlier if the context of the request ends.
func (r *Response) Refused() *transport.StatusError { return r.refused(errorBodyTime) }

func (r *Response) refused(limit time.Duration) *transport.StatusError {
	e := &transport.StatusError{
		Status:       r.StatusCode,
		ContentType:  r.Header.Get("Content-Type"),
		RetryAfter:   retryAfter(r.Header.Get("Retry-After"), time.Now()),
		Authenticate: r.Header.Values("WWW-Authenticate"),
		Signed:       len(r.signature) > 0,
	}
	e.Location = target(r.Response)
	if r.Media() == Events {
		// An event stream may never end, and it contains no error message.
		r.Close()
		return e
	}
	late := time.AfterFunc(limit, func() { r.Body.Close() })
	defer late.Stop()
	body := io.LimitReader(r.Body, maxErrorBody)
	e.Body, _ = io.ReadAll(body)
	r.Discard()
	if b := bytes.TrimLeft(e.Body, " \t\r\n"); len(b) > 0 && b[0] == '{' {
		e.Msg, _ = jsonrpc.Scan(e.Body, jsonrpc.Limits{Tolerant: true})
	}
	return e
}

// target returns the target of a redirect, without user, query and fragment. It returns "" if the
// response is not a redirect.
func target(r *http.Response) string {
	if r.StatusCode < 300 || r.StatusCode >= 400 || r.Header.Get("Location") == "" {
		return ""
	}
	u, err := r.Location()
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", "", false
	return u.String()
}

// NotMCP returns the error for a successful response whose body is not an MCP response. body is
// what the caller has read. NotMCP closes the response.
func (r *Response) NotMCP(body []byte) *transport.StatusError {
	r.Close()
	return &transport.StatusError{
		Status:      r.StatusCode,
		ContentType: r.Header.Get("Content-Type"),
		Body:        bytes.Clone(body[:min(len(body), maxErrorBody)]),
	}
}

// retryAfter parses the value of a Retry-After header: seconds or a date (RFC 9110 §10.2.3). It
// returns at most one day. For any other text, and for a time in the past, it returns 0.
func retryAfter(v string, now time.Time) time.Duration {
	const most = 24 * time.Hour
	if s, err := strconv.ParseInt(v, 10, 64); err == nil {
		return time.Duration(min(max(s, 0), int64(most/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0), most)
	}
	return 0
}
