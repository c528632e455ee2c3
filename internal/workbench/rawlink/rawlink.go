package rawlink

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
)

// ReadLine returns a line without its line end. It drops what comes after the first most bytes.
func ReadLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part[:min(len(part), most-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), err
		}
	}
}

// Messages returns what a response contains: the events of a stream, or any other body as one Event,
// cut after most bytes. If the response broke off, the last Event comes with the error. It holds what
// had arrived of the body, but nothing of an incomplete event. An event with more than most bytes of
// data is an error too.
func Messages(res *http.Response, most int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind != streamType {
			body, err := io.ReadAll(io.LimitReader(res.Body, int64(most)))
			yield(Event{Data: body}, err)
			return
		}
		for r := NewReader(res.Body, most); ; {
			ev, err := r.Next()
			if err == io.EOF || !yield(ev, err) || err != nil {
				return
			}
		}
	}
}

const streamType = "text/event-stream"

// Stream is the stream of HTTP+SSE, after its first event.
type Stream struct {
	*Reader
	To   string // the URL for POST
	Body io.Closer
}

// OpenStream sends q with do, and reads the first event of the stream, which has the URL for POST
// (2024-11-05 §Transports, "HTTP with SSE"). most is the limit for the data of an event.
func OpenStream(do func(*http.Request) (*http.Response, error), q *http.Request, most int) (*Stream, error) {
	q.Header.Set("Accept", streamType)
	res, err := do(q)
	if err != nil {
		return nil, err
	}
	s := &Stream{Reader: NewReader(res.Body, most), Body: res.Body}
	if s.To, err = s.endpoint(q, res); err != nil {
		_ = res.Body.Close()
		return nil, err
	}
	return s, nil
}

func (s *Stream) endpoint(q *http.Request, res *http.Response) (string, error) {
	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); res.StatusCode != http.StatusOK || kind != streamType {
		return "", fmt.Errorf("the server answered GET with HTTP status %d and Content-Type %q, expected 200 and text/event-stream", res.StatusCode, kind)
	}
	ev, err := s.Next()
	if err == nil && ev.Name != "endpoint" {
		err = fmt.Errorf("the event stream begins with the event %q, expected \"endpoint\"", ev.Name)
	}
	if err != nil {
		return "", err
	}
	to, err := q.URL.Parse(string(ev.Data))
	if err == nil && (to.Host != q.URL.Host || to.Scheme != q.URL.Scheme) {
		// The requests contain credentials, so do not send them to another host.
		err = fmt.Errorf("the endpoint event has a URL on another host, %s://%s", to.Scheme, to.Host)
	}
	if err != nil {
		return "", err
	}
	return to.String(), nil
}
