package conn

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/pipetest"
)

// long is so many bytes of text.
func long(n int) string { return strings.Repeat("x", n) }

// TestOpenQuestionsAreBoundedInBytes: a server asks on and on, each time as much as a
// message may hold, and the client's person takes her time. What is open is bounded, the
// rest is refused at once, and once there is room the next is put. Another client's call
// is answered meanwhile.
func TestOpenQuestionsAreBoundedInBytes(t *testing.T) {
	var put, answer chan struct{} // of the bubble
	o := Options{Ask: func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		put <- struct{}{}
		<-answer
		return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)), jsonrpc.Limits{})
	}}
	calling(t, mcp.R20251125, o, func(s *Conn, w *pipetest.Wire) {
		put, answer = make(chan struct{}, 64), make(chan struct{})
		ask := func(n int) {
			w.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"sampling/createMessage","params":{"x":"%s"}}`, n, long(5<<20)))
		}
		for n := range 8 {
			ask(n)
		}
		if len(put) != 3 {
			t.Errorf("%d questions of 5 MiB are open", len(put))
		}
		if got := w.Heard(); len(got) != 5 || !strings.Contains(got[0], `"id":"q3","error"`) {
			t.Errorf("heard %q", got)
		}
		a := start(s, ben, toolCall)
		id := pipetest.Scan(t, w.Heard()[0]).ID
		w.Say(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"n":1}}`)
		if got, _ := a.ended(); !strings.Contains(got, `"n":1`) {
			t.Errorf("the innocent call: %s", got)
		}
		close(answer)
		if got := w.Heard(); len(got) != 3 {
			t.Errorf("heard %q", got)
		}
		ask(9)
		if got := w.Heard(); len(got) != 1 || !strings.Contains(got[0], `"id":"q9","result"`) {
			t.Errorf("heard %.200q", got)
		}
		if n := s.questionBytes.Load(); n != 0 {
			t.Errorf("%d bytes are still counted", n)
		}
	})
}

// TestASingleQuestionMayBeAsLongAsAMessage although it is longer than all together may
// be.
func TestASingleQuestionMayBeAsLongAsAMessage(t *testing.T) {
	o := Options{Ask: func(_ context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)), jsonrpc.Limits{})
	}}
	calling(t, mcp.R20251125, o, func(s *Conn, w *pipetest.Wire) {
		m := pipetest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}`)
		m.Raw = append(m.Raw, make([]byte, maxQuestionBytes)...)
		s.question(m, nil)
		if got := w.Heard(); len(got) != 1 || !strings.Contains(got[0], `"result"`) {
			t.Errorf("heard %.200q", got)
		}
	})
}

// TestQueuedQuestionsAreBoundedInBytes: what waits for a call whose client does not read
// is bounded whatever it is.
func TestQueuedQuestionsAreBoundedInBytes(t *testing.T) {
	l := &pipeConn{pending: map[int64]*pending{}}
	p := &pending{wake: make(chan struct{}, 1)}
	ask := pipetest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{"x":"`+long(1<<20)+`"}}`)
	refused := 0
	for range maxEvents {
		if l.queue(p, ask) != "" {
			refused++
		}
	}
	if p.bytes > maxEventBytes+maxQuestionBytes || refused == 0 || len(p.events) < 8 {
		t.Errorf("%d bytes of %d questions wait, %d were refused", p.bytes, len(p.events), refused)
	}
	p = &pending{wake: make(chan struct{}, 1)}
	ask.Raw = append(ask.Raw, make([]byte, maxEventBytes+maxQuestionBytes)...)
	if why := l.queue(p, ask); why != "" {
		t.Errorf("the first question is refused: %s", why)
	}
}

// TestUnaskedResultsAreBoundedInBytes: of the results that nobody asked for, the first
// may be long.
func TestUnaskedResultsAreBoundedInBytes(t *testing.T) {
	l := &pipeConn{}
	for range maxUnasked {
		l.push(pipetest.Scan(t, `{"jsonrpc":"2.0","id":null,"result":{"x":"`+long(2<<20)+`"}}`))
	}
	if len(l.unasked) != 1 {
		t.Errorf("%d results of 2 MiB are kept", len(l.unasked))
	}
}
