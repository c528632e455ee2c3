package democlients

import (
	"context"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/workbench/rawlink"
)

// mostAnswer is the maximum length in bytes of a message.
const mostAnswer = 1 << 20

// wire sends the messages of a client over Streamable HTTP.
type wire struct {
	web      *http.Client
	endpoint string
}

// reply is the answer to one message. The zero value means that there was no answer.
type reply struct {
	answer  *jsonrpc.Message
	session string // the id of the session that the server opened; "" if it opened none
}

// post sends one message. It returns the answer to the request with this id, and the HTTP status. If
// the server sends requests before the answer, post passes these requests to ask. If ask is nil,
// post ignores them. Without an HTTP response, the reply is empty and the status is 0.
func (w wire) post(ctx context.Context, body string, header map[string]string, id jsonrpc.ID, ask func(*jsonrpc.Message)) (r reply, status int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.endpoint, strings.NewReader(body))
	if err != nil {
		return reply{}, 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := w.web.Do(req)
	if err != nil {
		return reply{}, 0
	}
	defer func() { _ = resp.Body.Close() }()
	r.session = resp.Header.Get("Mcp-Session-Id")
	for e := range rawlink.Messages(resp, mostAnswer) {
		m, err := jsonrpc.Scan(e.Data, jsonrpc.Limits{})
		switch {
		case err != nil: // the event is not a message: for example, it has no data
		case m.Kind == jsonrpc.Request:
			if ask != nil {
				ask(m)
			}
		case m.Kind != jsonrpc.Notification && m.ID == id:
			r.answer = m // keep reading until the stream ends, so that the connection can be used again
		}
	}
	return r, resp.StatusCode
}
