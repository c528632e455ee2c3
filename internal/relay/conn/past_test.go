package conn

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestQuestionsAfterTheirCall ends the call of one client and lets the server ask while only the call of
// another client runs. For a moment, nobody can say whose question it is. Then, and if both calls may be the
// same client's, it belongs to the call that runs.
func TestQuestionsAfterTheirCall(t *testing.T) {
	modern := &mcp.ClientInfo{Revision: mcp.R20260728}
	const form = `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"m"}}`
	read := strings.Replace(toolCall, "tools/call", "resources/read", 1)
	for name, x := range map[string]struct {
		before, now *mcp.ClientInfo
		line        string // the call that has ended
		cancelled   bool
		late        time.Duration
		asked       bool
	}{
		"at once":                       {before: anna, now: ben},
		"later":                         {before: anna, now: ben, late: PastFor - 1},
		"after that":                    {before: anna, now: ben, late: PastFor, asked: true},
		"cancelled":                     {before: anna, now: ben, cancelled: true},
		"cancelled long ago":            {before: anna, now: ben, cancelled: true, late: PastFor, asked: true},
		"the same client":               {before: anna, now: anna, asked: true},
		"a read":                        {before: anna, now: ben, line: read},
		"a list":                        {before: anna, now: ben, line: listCall, asked: true},
		"of 2026-07-28, now another":    {before: modern, now: ben},
		"of another, now of 2026-07-28": {before: anna, now: modern},
		"both of 2026-07-28":            {before: modern, now: modern, asked: true},
	} {
		line := toolCall
		if x.line != "" {
			line = x.line
		}
		check := func(t *testing.T, over string, calls *running, posted []string, log string) {
			t.Helper()
			refused := strings.Contains(strings.Join(posted, "\n"), `"id":"q","error"`)
			if asked := len(calls.asked) == 1; asked != x.asked || refused == x.asked {
				t.Errorf("%s: the client got %q, and the server got %q", over, calls.asked, posted)
			}
			if logged := strings.Contains(log, "server request refused"); logged == x.asked {
				t.Errorf("%s: the log says %q", over, log)
			}
		}
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
			calling(t, mcp.R20251125, o, func(c *Conn, w *pipetest.Wire) {
				first := start(c, x.before, line)
				id := string(pipetest.Scan(t, w.Heard()[0]).ID)
				if x.cancelled {
					first.cancel(mcp.ErrCancelled)
				} else {
					w.Say(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
				}
				w.Heard()
				time.Sleep(x.late)
				second := start(c, x.now, toolCall)
				w.Heard()
				w.Say(form)
				check(t, "pipe", second, w.Heard(), log.String())
				second.cancel(mcp.ErrCancelled)
				w.Heard()
			})
			log.Reset()
			synctest.Test(t, func(t *testing.T) {
				p := &fakePoster{rev: mcp.R20251125}
				c, err := OpenHTTP(t.Context(), p, handshake.Offer{Pin: p.rev}, o)
				if err != nil {
					t.Fatal(err)
				}
				p.posted()
				end := make(chan struct{})
				p.do = func(out *transport.Outgoing) (*jsonrpc.Message, error) {
					<-end
					if x.cancelled {
						return nil, errors.New("the call was cancelled")
					}
					return jsonrpc.Scan(jsonrpc.AppendResult(nil, out.ID, []byte(`{}`)), jsonrpc.Limits{})
				}
				first := start(c, x.before, line)
				synctest.Wait()
				if x.cancelled {
					first.cancel(mcp.ErrCancelled)
				}
				close(end)
				first.ended()
				p.posted()
				time.Sleep(x.late)
				end = make(chan struct{})
				second := start(c, x.now, toolCall)
				synctest.Wait()
				p.stream(pipetest.Scan(t, form))
				synctest.Wait()
				check(t, "HTTP", second, p.posted(), log.String())
				second.cancel(mcp.ErrCancelled)
				close(end)
				second.ended()
				_ = c.Close(nil)
			})
		})
	}
}

// TestPastIsBounded lets more clients call at once than a session remembers.
func TestPastIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p past
		for n := range 3 * maxPast {
			p.addClient(uint64(n))
		}
		got := attribution{}
		got.all.add(1, mcp.NewAttempt(mcp.NewCall(pipetest.Scan(t, toolCall), jsonrpc.Span{}, anna)))
		if p.addTo(&got); len(p) != maxPast || !got.disputed() {
			t.Errorf("%d clients are remembered: %+v", len(p), got.past)
		}
		time.Sleep(PastFor)
		if p.addClient(1); len(p) != 1 {
			t.Errorf("%d clients are remembered after a while", len(p))
		}
	})
}
