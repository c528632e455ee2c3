package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// fakePoster answers the handshake, and calls in the way that a test sets.
type fakePoster struct {
	rev     mcp.Revision
	session string // the session id; the server has none if it is ""
	// do answers a call. If it is nil, the call gets no answer until ctx ends.
	do func(out *transport.Outgoing) (*jsonrpc.Message, error)
	// streams are messages on a call's stream before its answer.
	streams []string
	// post handles notifications and responses from the Conn. It may be nil.
	post func(ctx context.Context, body string) error

	mu     sync.Mutex
	posts  []string
	stream transport.Inbox
	ended  int
	closed int
}

func (p *fakePoster) Do(ctx context.Context, out *transport.Outgoing, in transport.Inbox) (*jsonrpc.Message, error) {
	result := ""
	switch out.Method {
	case mcp.MethodInitialize:
		result = `{"protocolVersion":"` + p.rev.String() + `","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
	case mcp.MethodDiscover:
		result = `{"resultType":"complete","supportedVersions":["` + p.rev.String() + `"],"capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
	default:
		for _, text := range p.streams {
			m, err := jsonrpc.Scan([]byte(text), jsonrpc.Limits{})
			if err != nil {
				return nil, err
			}
			in(m)
		}
		if p.do != nil {
			return p.do(out)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return jsonrpc.Scan(jsonrpc.AppendResult(nil, out.ID, []byte(result)), jsonrpc.Limits{})
}

func (p *fakePoster) Session() string { return p.session }

func (p *fakePoster) Post(ctx context.Context, out *transport.Outgoing) error {
	if p.post != nil {
		if err := p.post(ctx, string(out.Body)); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts = append(p.posts, string(out.Body))
	return nil
}

func (p *fakePoster) Listen(ctx context.Context, _ *transport.Rules, in transport.Inbox) error {
	p.mu.Lock()
	p.stream = in
	p.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (p *fakePoster) Terminate(context.Context, *transport.Rules) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
	return nil
}

func (p *fakePoster) Close() { p.closed++ }

func (p *fakePoster) posted() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.posts
	p.posts = nil
	return got
}

func posting(t *testing.T, p *fakePoster, script func(c *Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := OpenHTTP(t.Context(), p, handshake.Offer{Pin: p.rev}, Options{Name: "srv"})
		if err != nil {
			t.Fatal(err)
		}
		p.posted()
		script(c)
		_ = c.Close(nil)
		if p.closed == 0 {
			t.Error("the connections to the server stay open")
		}
	})
}

func TestGivingUpOverHTTP(t *testing.T) {
	for rev, want := range map[mcp.Revision]int{mcp.R20250326: 1, mcp.R20251125: 1, mcp.R20260728: 0} {
		p := &fakePoster{rev: rev}
		posting(t, p, func(c *Conn) {
			a := start(c, anna, toolCall)
			a.cancel(mcp.ErrCancelled)
			if _, cause := a.ended(); cause != "cancelled" {
				t.Errorf("%v: the call ended with %q", rev, cause)
			}
			got := p.posted()
			if len(got) != want || want == 1 && !pipetest.Like(got[0], `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,…}}`) {
				t.Errorf("%v: posted %q", rev, got)
			}
		})
		if p.ended != want {
			t.Errorf("%v: %d sessions were ended", rev, p.ended)
		}
	}
}

// TestURLElicitationComplete checks that notifications/elicitation/complete goes only to
// clients whose revision has elicitation ids. Unknown notifications are forwarded.
func TestURLElicitationComplete(t *testing.T) {
	const ended = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e"}}`
	const odd = `{"jsonrpc":"2.0","method":"notifications/odd"}`
	for rev, want := range map[mcp.Revision]int{mcp.R20251125: 2, mcp.R20260728: 1, mcp.R20250618: 1} {
		posting(t, &fakePoster{rev: mcp.R20251125, streams: []string{ended, odd}}, func(c *Conn) {
			r := start(c, &mcp.ClientInfo{Revision: rev, Conversation: 1}, toolCall)
			if got := r.heard(); len(got) != want || got[want-1] != odd {
				t.Errorf("%v: got %q", rev, got)
			}
			r.cancel(mcp.ErrCancelled)
			r.ended()
		})
	}
}

func TestFailures(t *testing.T) {
	status := func(code int, body string) error {
		return &transport.StatusError{Status: code, Body: []byte(body), ContentType: "text/html", RetryAfter: 3 * time.Second}
	}
	for name, test := range map[string]struct {
		err       error
		cause     string
		outcome   mcp.Outcome
		retryable bool
	}{
		"404":         {status(404, ""), "session_lost", mcp.NotSent, true},
		"400 session": {status(400, "No valid session ID provided"), "session_lost", mcp.NotSent, true},
		"400":         {status(400, "what?"), "bad_response", mcp.Failed, false},
		"401":         {status(401, ""), "auth_required", mcp.NotSent, true},
		"403":         {status(403, ""), "auth_required", mcp.NotSent, true},
		"429":         {status(429, ""), "overloaded", mcp.NotSent, true},
		"503":         {status(503, ""), "overloaded", mcp.NotSent, true},
		"500":         {status(500, ""), "server_error", mcp.OutcomeUnknown, false},
		"200 html":    {status(200, "<html>"), "bad_response", mcp.OutcomeUnknown, false},
		"cut off":     {streamhttp.ErrNoAnswer, "cut_off", mcp.OutcomeUnknown, false},
		"no resume":   {fmt.Errorf("%w: %w", streamhttp.ErrNoAnswer, &transport.StatusError{Status: 404}), "cut_off", mcp.OutcomeUnknown, false},
		"not now":     {fmt.Errorf("%w: %w", streamhttp.ErrNoAnswer, &transport.StatusError{Status: 503}), "cut_off", mcp.OutcomeUnknown, false},
		"EOF":         {io.EOF, "cut_off", mcp.OutcomeUnknown, false},
		"too large":   {transport.ErrTooLarge, "too_large", mcp.OutcomeUnknown, false},
		"session":     {streamhttp.ErrSessionLost, "session_lost", mcp.NotSent, true},
		"refused":     {fmt.Errorf("%w: %w", transport.ErrNotSent, syscall.ECONNREFUSED), "connect", mcp.NotSent, true},
		"no name":     {fmt.Errorf("%w: %w", transport.ErrNotSent, &net.DNSError{}), "dns", mcp.NotSent, true},
		"certificate": {errors.New("x509: unknown authority"), "tls", mcp.OutcomeUnknown, false},
		"broken":      {syscall.ECONNRESET, "link", mcp.OutcomeUnknown, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &fakePoster{rev: mcp.R20251125, session: "s", do: func(*transport.Outgoing) (*jsonrpc.Message, error) { return nil, test.err }}
			posting(t, p, func(c *Conn) {
				a := start(c, anna, toolCall)
				a.ended()
				var e *mcp.Error
				if !errors.As(a.err, &e) || e.Cause != test.cause || e.Outcome != test.outcome || e.Retryable != test.retryable {
					t.Fatalf("got %+v", e)
				}
				var st *transport.StatusError
				if errors.As(test.err, &st) && e.RetryAfter != st.RetryAfter {
					t.Errorf("RetryAfter is %v", e.RetryAfter)
				}
				if (e.Cause == "session_lost") != errors.Is(e, ErrSessionLost) {
					t.Errorf("got %v", e)
				}
			})
		})
	}
}

func TestErrorAnswersWithAStatus(t *testing.T) {
	for status, answered := range map[int]bool{400: true, 404: false, 422: true, 500: true, 401: false, 503: false} {
		p := &fakePoster{rev: mcp.R20251125, session: "s", do: func(*transport.Outgoing) (*jsonrpc.Message, error) {
			return nil, &transport.StatusError{Status: status, Msg: pipetest.Scan(t, `{"jsonrpc":"2.0","error":{"code":-32602,"message":"bad"}}`)}
		}}
		posting(t, p, func(c *Conn) {
			a := start(c, anna, toolCall)
			if got, _ := a.ended(); (got != "") != answered || answered && !strings.Contains(got, `"id":2`) {
				t.Errorf("%d: got %q, %v", status, got, a.err)
			}
		})
	}
	// In a revision without sessions, a 404 is only the status of the answer (2026-07-28
	// §Streamable HTTP).
	p := &fakePoster{rev: mcp.R20260728, do: func(*transport.Outgoing) (*jsonrpc.Message, error) {
		return nil, &transport.StatusError{Status: 404, Msg: pipetest.Scan(t, `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}`)}
	}}
	posting(t, p, func(c *Conn) {
		if got, _ := start(c, anna, toolCall).ended(); !strings.Contains(got, `-32601`) {
			t.Errorf("got %q", got)
		}
	})
}

func TestQuestionsOnTheStandingStream(t *testing.T) {
	for name, test := range map[string]struct {
		clients []*mcp.ClientInfo
		want    int
	}{
		"sole": {[]*mcp.ClientInfo{anna}, 0}, "one client's oldest": {[]*mcp.ClientInfo{anna, anna}, 0},
		"two clients": {[]*mcp.ClientInfo{anna, ben}, -1}, "none": {nil, -1},
	} {
		t.Run(name, func(t *testing.T) {
			p := &fakePoster{rev: mcp.R20251125}
			posting(t, p, func(c *Conn) {
				var all []*running
				for _, facts := range test.clients {
					r := start(c, facts, toolCall)
					defer r.cancel(nil)
					r.answer = func(m *jsonrpc.Message) (*jsonrpc.Message, error) {
						return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{}`)), jsonrpc.Limits{})
					}
					all = append(all, r)
				}
				p.stream(pipetest.Scan(t, elicit))
				got := p.posted()
				want := `{"jsonrpc":"2.0","id":"q","result":{}}`
				if test.want < 0 {
					want = `{"jsonrpc":"2.0","id":"q","error":{"code":-32601,…}}`
				}
				if len(got) != 1 || !pipetest.Like(got[0], want) {
					t.Errorf("posted %q", got)
				}
				for i, r := range all {
					if (len(r.asked) == 1) != (i == test.want) {
						t.Errorf("call %d got the requests %q", i, r.asked)
					}
				}
				for _, r := range all {
					r.cancel(nil)
				}
				synctest.Wait()
			})
		})
	}
}

func TestCloseEndsPostedCalls(t *testing.T) {
	p := &fakePoster{rev: mcp.R20251125}
	posting(t, p, func(c *Conn) {
		a := start(c, anna, toolCall)
		p.stream(pipetest.Scan(t, elicit))
		begin := time.Now()
		_ = c.Close(nil)
		if _, cause := a.ended(); cause != "cut_off" || len(a.taken) != 1 {
			t.Errorf("the call ended with %q, %v", cause, a.taken)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("Close took %v", took)
		}
	})
}
