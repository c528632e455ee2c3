package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Some clients send initialize without params, although every revision requires them. These clients
// read their tools from the result of initialize and never send tools/list. They never send
// notifications/initialized. They announce their end with a notification instead of closing stdin.
// Dragoman recognises such a client by the missing params.

// noteShutdown is the notification that such a client sends before it exits. The client then waits
// a few seconds for Dragoman to exit.
const noteShutdown = "shutdown"

// ErrShutdown is what ServePipe returns when the client has sent noteShutdown.
var ErrShutdown = errors.New("the client sent a shutdown notification")

// defaultManifestClient is the default of Endpoint.ManifestClient. Known clients of this kind give
// up after ten or thirty seconds.
const defaultManifestClient = 8 * time.Second

// maxToolPages and maxToolBytes bound the tools that Dragoman puts into the result of initialize.
const (
	maxToolPages = 200
	maxToolBytes = 16 << 20
)

// limited returns a context with the timeout for the answer to an initialize without params.
func (c *Session) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.manifestTime(), errTooSlow)
}

func (c *Session) manifestTime() time.Duration {
	if d := c.endpoint.rules().ManifestClient; d > 0 {
		return d
	}
	return defaultManifestClient
}

var errTooSlow = errors.New("no server was ready before the timeout")

// tooSlow returns the error for an initialize without params if no server was ready in time.
func (c *Session) tooSlow(cause error) error {
	limit := c.manifestTime()
	f := failure.Of(nil, failure.Facts{
		Class: failure.NotReady, Cause: "timeout",
		Sentence: fmt.Sprintf("no server was ready within %s, and clients that send initialize without params do not wait longer", limit),
		Action:   "connect again when the server is ready, or raise limits.manifestClient",
	})
	return &mcp.Error{
		Origin: mcp.FromGateway, Cause: "timeout", Outcome: mcp.NotSent, Retryable: true,
		Op: "initialize", Err: cause, Message: f.Text(), Failure: f,
	}
}

// allTools reads all tools that this client may see, up to the bounds maxToolPages and
// maxToolBytes. The client never asks again, so the log names the servers whose tools are missing.
func (c *Session) allTools(ctx context.Context, f *mcp.ClientInfo, h *mcp.ServerInfo) ([][]byte, error) {
	if caps := h.Capabilities; len(caps) > 2 && jsonrpc.Find(caps, jsonrpc.Whole(caps), "tools").IsZero() {
		return nil, nil
	}
	var all [][]byte
	var params []byte
	var missing jsonrpc.Value
	defer func() { c.reportMissing(missing) }()
	for page, size := 0, 0; page < maxToolPages && size < maxToolBytes; page++ {
		call := mcp.NewCall(jsonrpc.NewRequest("0", mcp.MethodListTools, params), jsonrpc.Span{}, f)
		call.Once, call.Ours = true, true
		reply, err := c.endpoint.Handler.Call(ctx, call, mcp.NoCaller{})
		if err != nil {
			return nil, err
		}
		out := dialect.Reply(nil, call, reply)
		c.publishLosses(call, reply.Losses)
		list, err := jsonrpc.Scan(out, jsonrpc.Limits{Bytes: len(out) + 1, Depth: 256, Tokens: 4 << 20, Tolerant: true})
		if err != nil {
			return nil, err
		}
		if list.Kind == jsonrpc.Failure {
			if reply.Code() == jsonrpc.CodeMethodNotFound {
				return nil, nil
			}
			text, _ := jsonrpc.Text(out, jsonrpc.Find(out, list.Error, "message"))
			return nil, &jsonrpc.Error{Code: reply.Code(), Message: text}
		}
		missing = list.At(list.Result).Get(mcp.KeyMeta, mcp.KeyMissing)
		size += len(out)
		for at := range jsonrpc.Elements(out, list.ResultMember("tools")) {
			all = append(all, at.Of(out))
		}
		next := list.ResultMember("nextCursor")
		if jsonrpc.KindOf(out, next) != '"' {
			break
		}
		cursor := append(append([]byte(`{"cursor":`), next.Of(out)...), '}')
		if bytes.Equal(cursor, params) {
			break
		}
		params = cursor
	}
	return all, nil
}

// maxMissing bounds the names in one log record, and maxMissingName their length in bytes.
const (
	maxMissing     = 100
	maxMissingName = 128
)

// reportMissing logs which servers are missing from the tools of this client. missing is the object with
// the key [mcp.KeyMissing], which may be absent. If the server is another Dragoman, the names come from
// it.
func (c *Session) reportMissing(missing jsonrpc.Value) {
	var attrs []any
	for _, key := range []string{"starting", "failed"} {
		var names []string
		for x := range missing.Get(key).Elements() {
			if name, ok := x.Text(); ok && len(names) < maxMissing {
				names = append(names, excerpt.Line(name, maxMissingName))
			}
		}
		if len(names) > 0 {
			attrs = append(attrs, key, names)
		}
	}
	if len(attrs) > 0 && c.endpoint.Log != nil {
		c.endpoint.Log.Warn("a client that asks for its tools only once missed those of some servers", attrs...)
	}
}
