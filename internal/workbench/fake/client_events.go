package fake

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// eventWire is the connection to a server over HTTP+SSE. One stream carries all messages from the
// server. The first event of the stream contains the URL for POST (2024-11-05 §Transports, "HTTP
// with SSE").
type eventWire struct {
	c      *Client
	client *http.Client
	stream *rawlink.Stream // nil until the stream is open
	stop   context.CancelFunc
	runs   sync.WaitGroup
}

func (c *Client) dialEvents(ctx context.Context, address string) (wire, error) {
	r := &eventWire{c: c, client: newHTTPClient()}
	streaming, stop := context.WithCancel(c.ctx)
	r.stop = stop
	// ctx limits only the opening of the stream. An open stream continues after ctx has ended.
	unbind := context.AfterFunc(ctx, stop)
	q, err := http.NewRequestWithContext(streaming, http.MethodGet, address, nil)
	if err == nil {
		r.stream, err = rawlink.OpenStream(r.client.Do, q, maxMessage)
	}
	if !unbind() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		r.shut()
		return nil, fmt.Errorf("GET: %w", err)
	}
	r.runs.Go(r.read)
	return r, nil
}

func (r *eventWire) read() {
	for {
		ev, err := r.stream.Next()
		if err != nil {
			r.c.endWith(fmt.Errorf("the stream of events ended: %w", err))
			return
		}
		if ev.Name != "message" {
			// The specification requires the event type "message".
			r.c.violate("the server sent an event of the type %q, want message", clip(ev.Name))
			continue
		}
		r.c.receive(ev.Data, origin{})
	}
}

func (r *eventWire) send(ctx context.Context, msg []byte, _ *pendingRequest) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.stream.To, bytes.NewReader(msg))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	_, err = drained(resp)
	return err
}

func (r *eventWire) cancel(*pendingRequest) bool { return false }

func (r *eventWire) close(context.Context) error {
	r.shut()
	return nil
}

func (r *eventWire) shut() {
	r.stop()
	if r.stream != nil {
		_ = r.stream.Body.Close()
	}
	r.runs.Wait()
	r.client.CloseIdleConnections()
}
