package fake

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"sync"
)

// streamEvent is one server-sent event (WHATWG HTML §9.2.6).
type streamEvent struct {
	name, id string
	data     []byte
	retry    int // milliseconds; -1 if absent
}

// eventReader reads an event stream.
type eventReader struct {
	lines *bufio.Scanner
}

func newEventReader(r io.Reader) *eventReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 16<<10), maxMessage)
	s.Split(eventLines)
	return &eventReader{s}
}

// eventLines is a bufio.SplitFunc that splits at LF, CRLF and CR. A CR at the end of the data may
// be the start of a CRLF, so eventLines then asks for more data.
func eventLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0:
		return 0, nil, nil // an unterminated line is ignored
	case data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n':
		return i + 2, data[:i], nil
	case data[i] == '\r' && i+1 == len(data) && !atEOF:
		return 0, nil, nil
	}
	return i + 1, data[:i], nil
}

// next returns the next event that has at least one valid field.
func (r *eventReader) next() (streamEvent, error) {
	ev := streamEvent{retry: -1}
	says, parts := false, 0
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if len(line) == 0 {
			if says {
				return ev, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "": // the line is a comment
		case "data":
			if parts > 0 {
				ev.data = append(ev.data, '\n')
			}
			parts++
			if len(ev.data)+len(value) > maxMessage {
				return ev, errors.New("an event is larger than 4 MiB")
			}
			ev.data = append(ev.data, value...)
			says = true
		case "event":
			ev.name, says = string(value), true
		case "id":
			ev.id, says = string(value), true
		case "retry":
			if n, err := strconv.Atoi(string(value)); err == nil && n >= 0 {
				ev.retry, says = min(n, 10_000), true
			}
		}
	}
	if err := r.lines.Err(); err != nil {
		return ev, err
	}
	return ev, io.EOF
}

// eventWire is the connection to a server over HTTP+SSE. One stream carries all messages from the
// server. The first event of the stream contains the URL for POST (2024-11-05 §Transports, "HTTP
// with SSE").
type eventWire struct {
	c      *Client
	to     string
	client *http.Client
	body   io.Closer
	stop   context.CancelFunc
	runs   sync.WaitGroup
}

func (c *Client) dialEvents(ctx context.Context, address string) (wire, error) {
	r := &eventWire{c: c, client: newHTTPClient()}
	streaming, stop := context.WithCancel(c.ctx)
	r.stop = stop
	// ctx limits only the opening of the stream. An open stream continues after ctx has ended.
	unbind := context.AfterFunc(ctx, stop)
	first, events, err := r.open(streaming, address)
	if !unbind() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		r.shut()
		return nil, fmt.Errorf("GET: %w", err)
	}
	base, err := url.Parse(address)
	var to *url.URL
	if err == nil {
		to, err = base.Parse(string(first.data))
	}
	if err == nil && (to.Host != base.Host || to.Scheme != base.Scheme) {
		err = errors.New("its URL and the URL of the stream have different origins")
	}
	if err != nil {
		r.shut()
		return nil, fmt.Errorf("the endpoint event is not valid: %w", err)
	}
	r.to = to.String()
	r.runs.Go(func() { r.read(events) })
	return r, nil
}

// open opens the stream and reads its first event.
func (r *eventWire) open(ctx context.Context, address string) (first streamEvent, events *eventReader, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return first, nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := r.client.Do(req)
	if err != nil {
		return first, nil, err
	}
	r.body = resp.Body
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		return first, nil, fmt.Errorf("the server answered with status %d and Content-Type %s, want 200 and text/event-stream", resp.StatusCode, clip(kind))
	}
	events = newEventReader(resp.Body)
	if first, err = events.next(); err == nil && first.name != "endpoint" {
		err = fmt.Errorf("the first event is %q, not endpoint", clip(first.name))
	}
	return first, events, err
}

func (r *eventWire) read(events *eventReader) {
	for {
		ev, err := events.next()
		if err != nil {
			r.c.endWith(fmt.Errorf("the stream of events ended: %w", err))
			return
		}
		if ev.name != "message" {
			// The specification requires the event type "message".
			r.c.violate("the server sent an event of the type %q, want message", clip(ev.name))
			continue
		}
		r.c.receive(ev.data, origin{})
	}
}

func (r *eventWire) send(ctx context.Context, msg []byte, _ *pendingRequest) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.to, bytes.NewReader(msg))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, bodyOfErrorMost))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d: %s", resp.StatusCode, clip(string(body)))
	}
	return nil
}

func (r *eventWire) cancel(*pendingRequest) bool { return false }

func (r *eventWire) close(context.Context) error {
	r.shut()
	return nil
}

func (r *eventWire) shut() {
	r.stop()
	if r.body != nil {
		_ = r.body.Close()
	}
	r.runs.Wait()
	r.client.CloseIdleConnections()
}
