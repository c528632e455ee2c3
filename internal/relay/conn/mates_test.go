package conn

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
)

const rootsGiven = `{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`

// user is a client that answers a server request when the test allows it.
type user struct {
	running
	answers chan struct{} // each element allows one answer
	full    error         // the error that Ask returns at once; may be nil
}

func (u *user) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	u.mu.Lock()
	u.asked = append(u.asked, string(m.Raw))
	u.mu.Unlock()
	if u.full != nil {
		return nil, u.full
	}
	select {
	case <-u.answers:
		return jsonrpc.NewResult(m.ID, []byte(`{"roots":[]}`)), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// twoCalls starts two calls of one client. It returns their cancel functions, their ids, and
// groups that wait for their ends.
func twoCalls(t *testing.T, c *Conn, w *pipetest.Wire, one, two mcp.Caller) (cancel [2]context.CancelCauseFunc, ids [2]string, over [2]*sync.WaitGroup) {
	t.Helper()
	for i, k := range []mcp.Caller{one, two} {
		cancel[i], over[i] = startWith(c, anna, toolCall, k)
		ids[i] = string(pipetest.Scan(t, w.Heard()[0]).ID)
	}
	return cancel, ids, over
}

func done(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

// TestQuestionOutlastsOneOfTwoCalls checks a server request that may belong to either of a
// client's two calls. It stays open until both calls have ended.
func TestQuestionOutlastsOneOfTwoCalls(t *testing.T) {
	for first := range 2 {
		calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
			u := &user{answers: make(chan struct{}, 1)}
			_, ids, over := twoCalls(t, c, w, u, u)
			w.Say(rootsAsked, done(ids[first]))
			over[first].Wait()
			w.Want() // the server gets no refusal yet
			u.answers <- struct{}{}
			w.Want(rootsGiven)
			w.Say(done(ids[1-first]))
			over[1-first].Wait()
			if len(u.asked) != 1 {
				t.Errorf("asked %q", u.asked)
			}
		})
	}
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		u := &user{}
		_, ids, over := twoCalls(t, c, w, u, u)
		w.Say(rootsAsked, done(ids[0]), done(ids[1]))
		over[0].Wait()
		over[1].Wait()
		if got := w.Heard(); len(got) != 1 || !pipetest.Like(got[0], `{"jsonrpc":"2.0","id":"q","error":…}`) {
			t.Errorf("after both calls the server got %q", got)
		}
	})
}

// TestQuestionIsSentOnTheCallThatGoesOn checks a server request whose call ends before the
// request is sent to the client, or while it is queued. The request is sent through the
// client's other call.
func TestQuestionIsSentOnTheCallThatGoesOn(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		late, u := &user{full: mcp.ErrAnswered}, &user{answers: make(chan struct{}, 1)}
		_, ids, over := twoCalls(t, c, w, late, u)
		w.Say(rootsAsked)
		u.answers <- struct{}{}
		w.Want(rootsGiven)
		w.Say(done(ids[0]), done(ids[1]))
		over[0].Wait()
		over[1].Wait()
		if len(late.asked) != 1 || len(u.asked) != 1 {
			t.Errorf("asked %q, then %q", late.asked, u.asked)
		}
	})
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		slow, u := &slowCaller{open: make(chan struct{})}, &user{answers: make(chan struct{}, 1)}
		cancel, over := startWith(c, anna, withTok, slow)
		id := string(pipetest.Scan(t, w.Heard()[0]).ID)
		_, other := startWith(c, anna, toolCall, u)
		second := string(pipetest.Scan(t, w.Heard()[0]).ID)
		w.Say(progress(id, 1), rootsAsked)
		cancel(mcp.ErrCancelled)
		synctest.Wait()
		close(slow.open)
		over.Wait()
		u.answers <- struct{}{}
		w.Want(`{"jsonrpc":"2.0","method":"notifications/cancelled",…`, rootsGiven)
		w.Say(done(second))
		other.Wait()
	})
}

// TestQuestionThatNamesItsCall checks that a server request that names its call ends with that
// call, even if its client has other calls.
func TestQuestionThatNamesItsCall(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		u := &user{}
		_, ids, over := twoCalls(t, c, w, u, u)
		w.Say(`{"jsonrpc":"2.0","id":"q","method":"roots/list","params":{"_meta":{"progressToken":`+ids[1]+`}}}`, done(ids[1]))
		over[1].Wait()
		if got := w.Heard(); len(got) != 1 || !pipetest.Like(got[0], `{"jsonrpc":"2.0","id":"q","error":…}`) {
			t.Errorf("the server got %q", got)
		}
		w.Say(done(ids[0]))
		over[0].Wait()
	})
}

// TestQuestionOnAStandingStreamOutlastsOneOfTwoCalls checks the same as
// TestQuestionOutlastsOneOfTwoCalls for a server over HTTP that sends its requests on the
// standalone stream.
func TestQuestionOnAStandingStreamOutlastsOneOfTwoCalls(t *testing.T) {
	p := &fakePoster{rev: mcp.R20251125}
	posting(t, p, func(c *Conn) {
		one, two := start(c, anna, toolCall), start(c, anna, toolCall)
		p.posted()
		c.link.(*httpConn).takeRequest(pipetest.Scan(t, rootsAsked))
		synctest.Wait()
		one.cancel(mcp.ErrCancelled)
		one.ended()
		if len(one.asked) != 1 || len(one.taken) != 0 {
			t.Errorf("asked %q, and ended with %v while the other call runs", one.asked, one.taken)
		}
		two.cancel(mcp.ErrCancelled)
		two.ended()
		if len(one.taken) != 1 {
			t.Error("the request outlasts both calls")
		}
	})
}
