package conn

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

// long returns n bytes of text.
func long(n int) string { return strings.Repeat("x", n) }

// TestProgressWithAQuestion checks that the server gets the progress of the client that answers its request.
func TestProgressWithAQuestion(t *testing.T) {
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}`
	o := Options{Ask: func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		mcp.ProgressOf(ctx)([]byte(progress))
		return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)), jsonrpc.Limits{})
	}}
	calling(t, mcp.R20251125, o, func(_ *Conn, w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"progressToken":"t"}}}`)
		w.Want(progress, `{"jsonrpc":"2.0","id":"q","result":{}}`)
	})
}

// TestOpenQuestionsAreBoundedInBytes lets a server send one request of maximum size after
// another, while the user takes long to answer. The open requests are bounded. Further requests are
// refused at once until there is room. Another client's call is still answered.
func TestOpenQuestionsAreBoundedInBytes(t *testing.T) {
	var put, answer chan struct{} // created in the synctest bubble
	o := Options{Ask: func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		put <- struct{}{}
		<-answer
		return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)), jsonrpc.Limits{})
	}}
	calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
		put, answer = make(chan struct{}, 64), make(chan struct{})
		ask := func(n int) {
			w.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"sampling/createMessage","params":{"x":"%s"}}`, n, long(5<<20)))
		}
		for n := range 8 {
			ask(n)
		}
		if len(put) != 3 {
			t.Errorf("%d requests of 5 MiB are open", len(put))
		}
		if got := w.Heard(); len(got) != 5 || !strings.Contains(got[0], `"id":"q3","error"`) {
			t.Errorf("got %q", got)
		}
		a := start(c, ben, toolCall)
		id := pipetest.Scan(t, w.Heard()[0]).ID
		w.Say(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"n":1}}`)
		if got, _ := a.ended(); !strings.Contains(got, `"n":1`) {
			t.Errorf("the call of the other client: %s", got)
		}
		close(answer)
		if got := w.Heard(); len(got) != 3 {
			t.Errorf("got %q", got)
		}
		ask(9)
		if got := w.Heard(); len(got) != 1 || !strings.Contains(got[0], `"id":"q9","result"`) {
			t.Errorf("got %.200q", got)
		}
		if n := c.questionBytes.Load(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	})
}

// TestASingleQuestionMayBeAsLongAsAMessage checks that a single server request is accepted even
// if it exceeds the bound for all requests together.
func TestASingleQuestionMayBeAsLongAsAMessage(t *testing.T) {
	o := Options{Ask: func(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)), jsonrpc.Limits{})
	}}
	calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
		m := pipetest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		m.Raw = append(m.Raw, make([]byte, maxQuestionBytes)...)
		c.serveRequest(m, nil, nil)
		if got := w.Heard(); len(got) != 1 || !strings.Contains(got[0], `"result"`) {
			t.Errorf("got %.200q", got)
		}
	})
}

// TestQueuedQuestionsAreBoundedInBytes checks the queue of a call whose client does not read.
// The queue is bounded for all kinds of messages.
func TestQueuedQuestionsAreBoundedInBytes(t *testing.T) {
	c := &pipeConn{}
	p := &pending{wake: make(chan struct{}, 1)}
	ask := pipetest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"x":"`+long(1<<20)+`"}}`)
	refused := 0
	for range maxEvents {
		if c.queue(p, ask) != "" {
			refused++
		}
	}
	if p.bytes > maxEventBytes+maxQuestionBytes || refused == 0 || len(p.events) < 8 {
		t.Errorf("%d bytes of %d requests are queued, %d were refused", p.bytes, len(p.events), refused)
	}
	p = &pending{wake: make(chan struct{}, 1)}
	ask.Raw = append(ask.Raw, make([]byte, maxEventBytes+maxQuestionBytes)...)
	if why := c.queue(p, ask); why != "" {
		t.Errorf("the first request is refused: %s", why)
	}
}

// TestUnaskedResultsAreBoundedInBytes checks that only the first unsolicited result may exceed
// the bound.
func TestUnaskedResultsAreBoundedInBytes(t *testing.T) {
	c := &pipeConn{}
	for range maxUnasked {
		c.push(pipetest.Scan(t, `{"jsonrpc":"2.0","id":null,"result":{"x":"`+long(2<<20)+`"}}`))
	}
	if len(c.state.unasked) != 1 {
		t.Errorf("%d results of 2 MiB are kept", len(c.state.unasked))
	}
}
