package conn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// calling opens a connection in a synctest bubble. The script plays the server on w. calling
// closes the connection at the end.
func calling(t *testing.T, rev mcp.Revision, o Options, script func(c *Conn, w *pipetest.Wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := inmem.Pipe()
		var all sync.WaitGroup
		defer all.Wait()
		defer func() { _ = far.Close() }()
		w := pipetest.Tap(t, far, &all)
		var c *Conn
		var opening sync.WaitGroup
		opening.Go(func() {
			var err error
			if c, err = OpenPipe(t.Context(), near, handshake.Offer{Pin: rev}, o); err != nil {
				t.Errorf("OpenPipe: %v", err)
			}
		})
		first := w.Heard()
		if len(first) != 1 {
			t.Fatalf("got %q", first)
		}
		id := string(pipetest.Scan(t, first[0]).ID)
		if id != "1" {
			t.Errorf("the first id is %s", id)
		}
		if rev.Modern() {
			w.Say(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["` + rev.String() + `"],"capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
		} else {
			w.Say(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"` + rev.String() + `","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`)
		}
		opening.Wait()
		if c == nil {
			return
		}
		w.Heard()
		script(c, w)
		_ = c.Close(nil)
	})
}

// running is a call of a client, with the messages that the client got.
type running struct {
	cancel context.CancelCauseFunc
	trail  *trails.Trail
	answer func(m *jsonrpc.Message) (*jsonrpc.Message, error) // makes the answer that Ask returns; if answer is nil, Ask blocks

	mu    sync.Mutex
	notes []string
	asked []string
	taken []error // why server requests ended without an answer
	reply *mcp.Reply
	err   error
	over  bool
}

func (r *running) Notify(n *mcp.Note) {
	b := n.Bytes(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, string(b))
}

func (r *running) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	r.mu.Lock()
	r.asked = append(r.asked, string(m.Raw))
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		return answer(m)
	}
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, context.Cause(ctx))
	return nil, context.Cause(ctx)
}

// ended returns the answer's bytes and the error's cause. Both are "" while the call runs.
func (r *running) ended() (answer, cause string) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reply != nil {
		answer = string(r.reply.Msg.Raw)
	}
	var e *mcp.Error
	if errors.As(r.err, &e) {
		cause = e.Cause
	} else if r.err != nil {
		cause = "?"
	}
	return answer, cause
}

func (r *running) heard() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.notes
	r.notes = nil
	return got
}

var (
	anna = &mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 1}
	ben  = &mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 2}
)

// start starts a call. It must run in a synctest bubble, which waits for the end of the call.
func start(c *Conn, facts *mcp.ClientInfo, line string) *running {
	r := &running{}
	m, err := jsonrpc.Scan([]byte(line), jsonrpc.Limits{})
	if err != nil {
		panic(err)
	}
	a := mcp.NewAttempt(mcp.NewCall(m, m.Param(mcp.KeyMeta), facts))
	a.Trail = trails.New(1 << 20)
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel, r.trail = cancel, a.Trail
	go func() {
		defer cancel(nil)
		reply, err := c.Call(ctx, a, r)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reply, r.err, r.over = reply, err, true
	}()
	synctest.Wait()
	return r
}

const (
	toolCall = `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"x"}}`
	withTok  = `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"tok"}}}`
)

func progress(token string, n float64) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%v}}`, token, n)
}

func TestOurOwnIDs(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		a, b := start(c, anna, toolCall), start(c, ben, toolCall)
		w.Want(`{"jsonrpc":"2.0","id":2,…`, `{"jsonrpc":"2.0","id":3,…`)
		if c.Running() != 2 {
			t.Errorf("%d calls are running", c.Running())
		}
		w.Say(`{"jsonrpc":"2.0","id":3,"result":{"n":3}}`)
		if got, _ := b.ended(); !strings.Contains(got, `"n":3`) {
			t.Errorf("got %s", got)
		}
		if got, cause := a.ended(); got+cause != "" {
			t.Errorf("got %s %s", got, cause)
		}
		w.Say(`{"jsonrpc":"2.0","id":2,"result":{"n":2}}`)
		if got, _ := a.ended(); !strings.Contains(got, `"n":2`) {
			t.Errorf("got %s", got)
		}
		w.Want()
	})
}

func TestSpellingsOfIDs(t *testing.T) {
	for _, id := range []string{`2`, `"2"`, `2.0`} {
		calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
			a := start(c, anna, toolCall)
			w.Say(`{"jsonrpc":"2.0","id":` + id + `,"result":{"n":1}}`)
			if got, _ := a.ended(); !strings.Contains(got, `"n":1`) {
				t.Errorf("id %s: %q", id, got)
			}
		})
	}
}

func TestAnswersToNothing(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		a := start(c, anna, toolCall)
		w.Heard()
		before := odd(c)
		strays := []string{
			`{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","id":0,"result":{}}`, `{"jsonrpc":"2.0","id":99,"result":{}}`,
			`{"jsonrpc":"2.0","id":"mine","result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":-2,"result":{}}`,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}`,
		}
		w.Say(strays...)
		if got, cause := a.ended(); got+cause != "" {
			t.Errorf("got %s %s", got, cause)
		}
		w.Say(`{"jsonrpc":"2.0","id":2,"result":{"n":1}}`, `{"jsonrpc":"2.0","id":2,"result":{"n":2}}`)
		if got, _ := a.ended(); !strings.Contains(got, `"n":1`) {
			t.Errorf("got %s", got)
		}
		if n := odd(c) - before; n != int64(len(strays))+1 {
			t.Errorf("%d messages are counted, want %d", n, len(strays)+1)
		}
		w.Want()
	})
}

// odd returns the number of messages that could not be used, including answers.
func odd(c *Conn) int64 { return c.sessions.Odd() + c.sessions.Unasked() + c.sessions.LateProgress() }

func TestGivingUp(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		a := start(c, anna, withTok)
		w.Heard()
		a.cancel(mcp.ErrCancelled)
		w.Want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,…}}`)
		w.Say(`{"jsonrpc":"2.0","id":2,"result":{"n":1}}`, progress("2", 1))
		if got, cause := a.ended(); got != "" || cause != "cancelled" || len(a.heard()) != 0 || c.Running() != 0 {
			t.Errorf("got %s %s", got, cause)
		}
		w.Want()
		// The recording contains a sentence that explains the failure to people.
		var failed []string
		_, entries, _ := a.trail.Story()
		for _, e := range entries {
			if e.Failed != "" {
				failed = append(failed, e.Failed)
			}
		}
		if !slices.Equal(failed, []string{"the request to the server was cancelled"}) {
			t.Errorf("the recording says %q", failed)
		}
	})
}

func TestProgress(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		plain, a := start(c, ben, toolCall), start(c, anna, withTok)
		w.Want(`{"jsonrpc":"2.0","id":2,…`, `{…"progressToken":3…}`)
		w.Say(progress("3", 1), progress("3", 0.5), progress(`"3"`, 2), progress("99", 3), progress(`"tok"`, 3), progress("2", 3))
		got := a.heard()
		if len(got) != 2 || !pipetest.Like(got[0], `{…"progressToken":"tok"…"progress":1}}`) || !pipetest.Like(got[1], `{…"progressToken":"tok"…"progress":2}}`) {
			t.Errorf("got %q", got)
		}
		if got := plain.heard(); len(got) != 0 {
			t.Errorf("the client that did not ask for progress got %q", got)
		}
		w.Say(`{"jsonrpc":"2.0","id":3,"result":{}}`, progress("3", 9), `{"jsonrpc":"2.0","id":2,"result":{}}`)
		if got := a.heard(); len(got) != 0 {
			t.Errorf("after the answer the client got %q", got)
		}
		w.Say(progress("3", 10), progress(`"3"`, 11))
		// "99" and "tok" are not tokens of this session. The last three notifications came
		// after the answer.
		if odd, late := c.sessions.Odd(), c.sessions.LateProgress(); odd != 2 || late != 3 {
			t.Errorf("%d odd messages, %d late notifications", odd, late)
		}
	})
}

// TestProgressOfAnAbandonedCall checks that progress of a call that was cancelled counts as progress
// for a request that has ended, although the server has not answered it.
func TestProgressOfAnAbandonedCall(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		a := start(c, anna, withTok)
		w.Heard()
		a.cancel(mcp.ErrCancelled)
		w.Heard()
		w.Say(progress("2", 1), progress("2", 2))
		if odd, late := c.sessions.Odd(), c.sessions.LateProgress(); odd != 0 || late != 2 || len(a.heard()) != 0 {
			t.Errorf("%d odd messages, %d late notifications", odd, late)
		}
	})
}

// TestProgressOnTheStandaloneStream checks that progress on the standalone stream reaches its call.
// Progress for a call that has ended and progress with an unknown token are only counted.
func TestProgressOnTheStandaloneStream(t *testing.T) {
	p := &fakePoster{rev: mcp.R20251125}
	posting(t, p, func(c *Conn) {
		a := start(c, anna, withTok)
		say := func(texts ...string) {
			for _, text := range texts {
				p.stream(pipetest.Scan(t, text))
			}
			synctest.Wait()
		}
		say(progress("2", 1), progress("99", 2), progress(`"tok"`, 3))
		if got := a.heard(); len(got) != 1 {
			t.Errorf("got %q", got)
		}
		a.cancel(mcp.ErrCancelled)
		a.ended()
		say(progress("2", 4))
		if odd, late := c.sessions.Odd(), c.sessions.LateProgress(); odd != 2 || late != 1 || len(a.heard()) != 0 {
			t.Errorf("%d odd messages, %d late notifications", odd, late)
		}
	})
}

func TestAFloodOfProgress(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		a := start(c, anna, withTok)
		for n := range 10_000 {
			_ = w.Pipe.Write([]byte(progress("2", float64(n))))
		}
		w.Say(`{"jsonrpc":"2.0","id":2,"result":{"n":1}}`)
		got, _ := a.ended()
		if notes := a.heard(); !strings.Contains(got, `"n":1`) || len(notes) == 0 || len(notes) > 200 {
			t.Errorf("the result is %s after %d notifications", got, len(notes))
		}
	})
}

const elicit = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m"}}`

func TestRequestReachesItsClient(t *testing.T) {
	modern := &mcp.ClientInfo{Revision: mcp.R20260728}
	for name, test := range map[string]struct {
		clients []*mcp.ClientInfo
		line    string
		want    int // the index of the call that gets the request; -1 for none
	}{
		"sole":                      {[]*mcp.ClientInfo{anna}, elicit, 0},
		"sole and modern":           {[]*mcp.ClientInfo{modern}, elicit, 0},
		"one client's oldest":       {[]*mcp.ClientInfo{anna, anna, anna}, elicit, 0},
		"two clients":               {[]*mcp.ClientInfo{anna, ben}, elicit, -1},
		"two modern requests":       {[]*mcp.ClientInfo{modern, modern}, elicit, -1},
		"none":                      {nil, elicit, -1},
		"named by a token":          {[]*mcp.ClientInfo{anna, ben}, strings.Replace(elicit, `"message"`, `"_meta":{"progressToken":3},"message"`, 1), 1},
		"named by an unknown token": {[]*mcp.ClientInfo{anna, ben}, strings.Replace(elicit, `"message"`, `"_meta":{"progressToken":9},"message"`, 1), -1},
	} {
		t.Run(name, func(t *testing.T) {
			calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
				var all []*running
				for _, facts := range test.clients {
					r := start(c, facts, toolCall)
					r.answer = func(m *jsonrpc.Message) (*jsonrpc.Message, error) {
						return jsonrpc.Scan(jsonrpc.AppendResult(nil, m.ID, []byte(`{"action":"accept"}`)), jsonrpc.Limits{})
					}
					all = append(all, r)
				}
				w.Heard()
				w.Say(test.line)
				if test.want < 0 {
					w.Want(`{"jsonrpc":"2.0","id":"q","error":{"code":-32601,…}}`)
				} else {
					w.Want(`{"jsonrpc":"2.0","id":"q","result":{"action":"accept"}}`)
				}
				for i, r := range all {
					if n := len(r.asked); (n == 1) != (i == test.want) {
						t.Errorf("call %d got %d requests", i, n)
					}
				}
			})
		})
	}
}

// TestAQuestionLosesItsToken checks that the progress token is removed from a server request,
// because it is valid only between Dragoman and the server. The rest of _meta stays.
func TestAQuestionLosesItsToken(t *testing.T) {
	for meta, want := range map[string]string{
		`"_meta":{"progressToken":2},`:            "",
		`"_meta":{"progressToken":2,"x/y":"z"},`:  `"_meta":{"x/y":"z"},`,
		`"_meta":{"x/y":"z", "progressToken":2},`: `"_meta":{"x/y":"z"},`,
		`"_meta":{"x/y":"z"},`:                    `"_meta":{"x/y":"z"},`,
		``:                                        ``,
	} {
		calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
			r := start(c, anna, toolCall)
			w.Heard()
			w.Say(strings.Replace(elicit, `"message"`, meta+`"message"`, 1))
			w.Heard()
			if got := strings.Replace(elicit, `"message"`, want+`"message"`, 1); len(r.asked) != 1 || r.asked[0] != got {
				t.Errorf("with %s the client got %v, want %s", meta, r.asked, got)
			}
		})
	}
}

func TestQuestionsOfAServer(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		w.Say(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		w.Want(`{"jsonrpc":"2.0","id":"p","result":{}}`)
		a := start(c, anna, toolCall)
		w.Heard()
		for n := range maxQuestions {
			w.Say(strings.Replace(elicit, `"q"`, fmt.Sprint(n), 1))
		}
		w.Want()
		w.Say(elicit)
		w.Want(`{"jsonrpc":"2.0","id":"q","error":{"code":-32601,…}}`)
		// The server cancels one request. The request gets no answer, and its slot is free
		// again.
		w.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`, elicit)
		w.Want()
		if n := len(a.asked); n != maxQuestions+1 || len(a.taken) != 1 || !errors.Is(a.taken[0], errServerCancelled) {
			t.Errorf("%d requests were sent, and %v cancelled", n, a.taken)
		}
		// The answer to the call ends the remaining requests.
		w.Say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		a.ended()
		if got := w.Heard(); len(a.taken) != maxQuestions+1 || len(got) != maxQuestions {
			t.Errorf("%d requests ended, and %d were refused", len(a.taken), len(got))
		}
	})
}

// TestNobodyToAsk checks that a server request outside calls is refused if no client can answer it.
// This refusal is usual with clients of 2026-07-28, so its log record is not a warning.
func TestNobodyToAsk(t *testing.T) {
	for _, x := range []struct {
		err   error
		level string
	}{{mcp.NobodyToAsk, "INFO"}, {mcp.SeveralAsk, "WARN"}} {
		var log bytes.Buffer
		o := Options{
			Log: slog.New(slog.NewTextHandler(&log, nil)),
			Ask: func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) { return nil, x.err },
		}
		calling(t, mcp.R20251125, o, func(_ *Conn, w *pipetest.Wire) {
			w.Say(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
			w.Want(`{"jsonrpc":"2.0","id":"q","error":{"code":-32601,"message":"roots/list cannot be answered: ` + x.err.Error() + `"}}`)
		})
		if !strings.Contains(log.String(), "level="+x.level+` msg="server request refused"`) || !errors.Is(x.err, mcp.ErrCannotAsk) {
			t.Errorf("%v: the log has %q", x.err, log.String())
		}
	}
}

// TestLogMasksWhatTheServerSays checks that no record about an odd message shows a secret of the server, not
// even the part of one that is cut, and that records still say which server and what it sent.
func TestLogMasksWhatTheServerSays(t *testing.T) {
	const secret = "hunter2-and-more"
	long := strings.Repeat("x", 60) + secret
	for _, rev := range []mcp.Revision{mcp.R20251125, mcp.R20260728} {
		var log bytes.Buffer
		o := Options{
			Name:  "files",
			Log:   slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			Clean: func(text string) string { return strings.ReplaceAll(text, secret, "***") },
			Ask: func(context.Context, *jsonrpc.Message) (*jsonrpc.Message, error) {
				return nil, errors.New("no " + secret)
			},
		}
		calling(t, rev, o, func(_ *Conn, w *pipetest.Wire) {
			w.Say(
				`{"jsonrpc":"2.0","id":"`+secret+`","result":{}}`,
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"un-`+secret+`","progress":1}}`,
				`{"jsonrpc":"2.0","id":"q","method":"x/`+long+`"}`,
				`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`,
				`["`+secret+`"]`, `{"`+secret+`":`,
			)
			_ = w.Heard()
		})
		if strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), `what=answer detail="\"***\""`) || strings.Count(log.String(), "server=files") < 4 {
			t.Errorf("%s: %s", rev, log.String())
		}
	}
}

func TestAModernServerDoesNotAsk(t *testing.T) {
	calling(t, mcp.R20260728, Options{}, func(c *Conn, w *pipetest.Wire) {
		a := start(c, anna, toolCall)
		w.Heard()
		w.Say(elicit, strings.Replace(elicit, "elicitation/create", "roots/list", 1))
		w.Want()
		if len(a.asked) != 0 {
			t.Errorf("Options.Ask got %q", a.asked)
		}
	})
}

func TestLogMessages(t *testing.T) {
	var notices, lost []string
	o := Options{
		Notice: func(m *jsonrpc.Message, _ uint64) { notices = append(notices, m.Method) },
		Events: &event.Publisher{},
	}
	o.Events.Tap(event.Of(event.Loss), func(e event.Event) { lost = append(lost, e.Name) })
	const log = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
	calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
		w.Say(log)
		a := start(c, anna, toolCall)
		w.Say(log)
		if got := a.heard(); len(got) != 1 || got[0] != log {
			t.Errorf("got %q", got)
		}
		start(c, ben, toolCall)
		w.Say(log, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		if got := a.heard(); len(got) != 0 {
			t.Errorf("got %q", got)
		}
		if got := strings.Join(notices, " "); got != "notifications/message notifications/tools/list_changed" {
			t.Errorf("Options.Notice got %s", got)
		}
		// The message may belong to either call, so neither client gets it.
		if got := strings.Join(lost, " "); got != "notifications/message" {
			t.Errorf("the losses are %s", got)
		}
	})
}

func TestDeadlines(t *testing.T) {
	ends := func(t *testing.T, a *running, at time.Duration, begin time.Time) {
		t.Helper()
		time.Sleep(time.Until(begin.Add(at - time.Nanosecond)))
		if _, cause := a.ended(); cause != "" {
			t.Fatalf("the call ended before %v with %s", at, cause)
		}
		time.Sleep(time.Nanosecond)
		if _, cause := a.ended(); cause != "timeout" {
			t.Errorf("after %v: %q", at, cause)
		}
	}
	t.Run("idle", func(t *testing.T) {
		calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
			begin := time.Now()
			a := start(c, anna, toolCall)
			w.Heard()
			ends(t, a, 60*time.Second, begin)
			w.Want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,…}}`)
		})
	})
	t.Run("progress", func(t *testing.T) {
		calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
			begin := time.Now()
			a := start(c, anna, withTok)
			time.Sleep(59 * time.Second)
			w.Say(progress("2", 1))
			ends(t, a, 119*time.Second, begin)
		})
	})
	t.Run("hard", func(t *testing.T) {
		calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
			begin := time.Now()
			a := start(c, anna, withTok)
			for n := range 19 {
				time.Sleep(30 * time.Second)
				w.Say(progress("2", float64(n)))
			}
			ends(t, a, 10*time.Minute, begin)
		})
	})
	t.Run("question", func(t *testing.T) {
		calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
			begin := time.Now()
			a := start(c, anna, toolCall)
			w.Say(elicit)
			ends(t, a, 10*time.Minute, begin)
		})
	})
}

func TestTheEndOfAPipe(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		a, b := start(c, anna, toolCall), start(c, ben, toolCall)
		_ = w.Pipe.Close()
		for _, r := range []*running{a, b} {
			if _, cause := r.ended(); cause != "exited" {
				t.Errorf("the call ended with %q", cause)
			}
		}
		<-c.Gone()
		late := start(c, anna, toolCall)
		late.ended()
		var e *mcp.Error
		if !errors.As(late.err, &e) || e.Outcome != mcp.NotSent || e.Cause != "exited" || !e.Retryable {
			t.Errorf("a call after the end: %v", late.err)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	calling(t, mcp.R20251125, Options{}, func(c *Conn, w *pipetest.Wire) {
		a := start(c, anna, toolCall)
		w.Say(elicit)
		_ = c.Close(nil)
		if len(a.taken) != 1 {
			t.Error("the server request is still open after Close")
		}
		if _, cause := a.ended(); cause != "exited" {
			t.Errorf("the call ended with %q", cause)
		}
	})
}
