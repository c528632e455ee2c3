package handshake

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// turn is the reaction of a scripted server to one message from Open.
type turn struct {
	to     string        // the expected method
	after  time.Duration // the time before the answer
	msg    string        // the answer, a JSON-RPC message
	status int           // status of a transport.StatusError, whose body is msg
	kind   string        // content type of the StatusError
	retry  time.Duration // Retry-After of the StatusError
	err    error         // the error that the link returns
	mute   bool          // no answer until ctx ends
	late   string        // an answer that comes later although mute is set
	lateAt time.Duration // time from sending the message to the answer late
}

func result(to, json string) turn {
	return turn{to: to, msg: `{"jsonrpc":"2.0","id":1,"result":` + json + `}`}
}

func errorTo(to, json string) turn {
	return turn{to: to, msg: `{"jsonrpc":"2.0","id":1,"error":` + json + `}`}
}

func (t turn) with(status int) turn { t.status, t.kind = status, "application/json"; return t }

func (t turn) in(d time.Duration) turn { t.after = d; return t }

func page(to string, status int) turn {
	return turn{to: to, status: status, kind: "text/html"}
}

func mute(to string) turn { return turn{to: to, mute: true} }

func dies(to string) turn { return turn{to: to, err: io.EOF} }

// These turns occur in most scripts.
var (
	discovered  = result(mcp.MethodDiscover, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"instructions":"Hi.","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}},"ttlMs":0}`)
	unknown     = errorTo(mcp.MethodDiscover, `{"code":-32601,"message":"Method not found"}`)
	initialized = turn{to: mcp.NoteInitialized}
)

func speaks(version string) turn {
	return result(mcp.MethodInitialize, `{"protocolVersion":"`+version+`","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}`)
}

// script is a Link to a server that reacts as turns describes. The test fails if Open sends an
// unexpected message.
type script struct {
	t     testing.TB
	turns []turn
	next  int
	sent  []sentMessage

	push      string // id and result of an unsolicited result
	pushAt    time.Duration
	mu        sync.Mutex
	onLate    func(*jsonrpc.Message)
	onUnasked func(*jsonrpc.Message)
}

type sentMessage struct {
	method string
	params string
	rules  transport.Rules
}

func (s *script) OnLate(f func(*jsonrpc.Message)) {
	s.mu.Lock()
	s.onLate = f
	s.mu.Unlock()
}

func (s *script) OnUnasked(f func(*jsonrpc.Message)) {
	s.mu.Lock()
	s.onUnasked = f
	s.mu.Unlock()
	if f == nil || s.push == "" {
		return
	}
	m := scan(s.t, `{"jsonrpc":"2.0","id":"init","result":`+s.push+`}`)
	if s.pushAt == 0 {
		f(m)
		return
	}
	time.AfterFunc(s.pushAt, func() {
		s.mu.Lock()
		f := s.onUnasked
		s.mu.Unlock()
		if f != nil {
			f(m)
		}
	})
}

func (s *script) Exchange(ctx context.Context, method string, params []byte, rules *transport.Rules) (*jsonrpc.Message, error) {
	return s.play(ctx, method, params, rules)
}

func (s *script) Post(ctx context.Context, method string, params []byte, rules *transport.Rules) error {
	_, err := s.play(ctx, method, params, rules)
	return err
}

func (s *script) play(ctx context.Context, method string, params []byte, rules *transport.Rules) (*jsonrpc.Message, error) {
	s.sent = append(s.sent, sentMessage{method, string(params), *rules})
	if params != nil {
		if err := jsonrpc.Valid(params, jsonrpc.Limits{}); err != nil {
			s.t.Errorf("%s: params %s: %v", method, params, err)
		}
	}
	if s.next == len(s.turns) || s.turns[s.next].to != method {
		s.t.Errorf("message %d is %s, which the script does not expect there", s.next+1, method)
		return nil, io.ErrClosedPipe
	}
	t := s.turns[s.next]
	s.next++
	if t.late != "" {
		m := scan(s.t, t.late)
		time.AfterFunc(t.lateAt, func() {
			s.mu.Lock()
			f := s.onLate
			s.mu.Unlock()
			if f != nil {
				f(m)
			}
		})
	}
	if t.mute {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if t.after > 0 {
		if err := work.Sleep(ctx, t.after); err != nil {
			return nil, err
		}
	}
	switch {
	case t.err != nil:
		return nil, t.err
	case t.status != 0:
		e := &transport.StatusError{Status: t.status, ContentType: t.kind, RetryAfter: t.retry, Body: []byte(t.msg)}
		if t.msg != "" {
			e.Msg = scan(s.t, t.msg)
		}
		return nil, fmt.Errorf("post: %w", e)
	case t.msg == "":
		return nil, nil
	}
	return scan(s.t, t.msg), nil
}

func scan(t testing.TB, text string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Scan([]byte(text), jsonrpc.Limits{Tolerant: true})
	if err != nil {
		t.Fatalf("scan %s: %v", text, err)
	}
	return m
}
