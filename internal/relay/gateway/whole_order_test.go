package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/netsim"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// orderedServer returns a server whose tool sends messages in a fixed order: three pairs of
// progress and log message, a request, three more pairs, and the answer. After the duration pause,
// it sends more messages, although the call has ended: progress, log, a second answer, and a
// request.
func orderedServer(modern bool, pause time.Duration) *testServer {
	s := &testServer{modern: modern, caps: `{"tools":{},"logging":{}}`}
	var call *jsonrpc.Message
	said := 0
	pairs := func(l *testSession, m *jsonrpc.Message, n int) {
		token := string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw))
		for range n {
			said++
			l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, said))
			l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%d}}`, said))
		}
	}
	after := func(l *testSession, m *jsonrpc.Message) {
		pairs(l, m, 3)
		l.answer(m, `{"resultType":"complete","content":[]}`)
		time.Sleep(pause)
		pairs(l, m, 1)
		l.answer(m, `{"resultType":"complete","content":[],"second":true}`)
		if !modern {
			time.Sleep(pause) // messages outside calls have no defined order
			l.say(`{"jsonrpc":"2.0","id":"late",` + elicit + `}`)
		}
	}
	s.on = func(l *testSession, m *jsonrpc.Message) {
		switch {
		case m.Method == mcp.MethodListen:
			l.fail(m, jsonrpc.CodeMethodNotFound, "")
		case m.Method == mcp.MethodCallTool && !m.Param("inputResponses").IsZero():
			after(l, m)
		case m.Method == mcp.MethodCallTool:
			call = m
			pairs(l, m, 3)
			if modern {
				l.answer(m, `{"resultType":"input_required","inputRequests":{"k":{`+elicit+`}},"requestState":"s"}`)
			} else {
				l.say(`{"jsonrpc":"2.0","id":"q",` + elicit + `}`)
			}
		case m.Kind == jsonrpc.Result && string(m.ID) == `"q"`:
			after(l, call)
		case m.Kind == jsonrpc.Request:
			l.answer(m, `{"resultType":"complete"}`)
		}
	}
	return s
}

// slowReader is a client's end of a pipe that takes a second to read each message.
type slowReader struct{ transport.Pipe }

func (p slowReader) Read() (*jsonrpc.Message, error) {
	time.Sleep(time.Second)
	return p.Pipe.Read()
}

// orderLinks are the pipes for two clients. One reads at once. The other reads slowly, and its
// pipe holds less than one message.
var orderLinks = map[string]func() (client, server transport.Pipe){
	"fast": inmem.Pipe,
	"slow": func() (transport.Pipe, transport.Pipe) {
		near, far := netsim.NewLink(netsim.Options{Buffer: 64})
		return slowReader{stdio.NewPipe(near, near, stdio.Options{})}, stdio.NewPipe(far, far, stdio.Options{})
	},
}

// orderOf describes a message in one or two words.
func orderOf(m *jsonrpc.Message) string {
	switch {
	case m.Method == mcp.NoteProgress:
		return fmt.Sprintf("progress %s for %s", m.Param("progress").Of(m.Raw), m.Param("progressToken").Of(m.Raw))
	case m.Method == mcp.NoteMessage:
		return "log " + string(m.Param("data").Of(m.Raw))
	case m.Method != "":
		return m.Method
	case m.Kind == jsonrpc.Failure:
		return refusalOf(m)
	case !m.ResultMember("inputRequests").IsZero():
		return "input_required to " + string(m.ID)
	case !m.ResultMember("second").IsZero():
		return "second answer to " + string(m.ID)
	}
	return "answer to " + string(m.ID)
}

// messagesOfOneCall calls the tool and returns all messages that the client gets.
func messagesOfOneCall(t *testing.T, s *testServer, modern bool, link func() (client, server transport.Pipe)) (heard []string) {
	w := build(t, s)
	near, far := link()
	c := &caller{testClient: w.joinAs(nil, near, far), modern: modern, caps: canBeAsked}
	const params = `"name":"t","arguments":{}`
	call := func(id, more string) {
		if modern {
			c.say(strings.Replace(modernRequest(id, mcp.MethodCallTool, params+more, canBeAsked), `"_meta":{`, `"_meta":{"progressToken":"p`+id+`","io.modelcontextprotocol/logLevel":"debug",`, 1))
		} else {
			c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + params + `,"_meta":{"progressToken":"p` + id + `"}}}`)
		}
	}
	if !modern {
		c.open(canBeAsked)
		c.say(`{"jsonrpc":"2.0","id":0,"method":"logging/setLevel","params":{"level":"debug"}}`)
		c.answerTo("0")
	}
	call("1", "")
	for end := time.Now().Add(3 * time.Hour); time.Now().Before(end); {
		select {
		case m := <-c.in:
			heard = append(heard, orderOf(m))
			switch {
			case m.Kind == jsonrpc.Request:
				c.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept"}}`)
			case !m.ResultMember("inputRequests").IsZero():
				call("2", retryOf(t, m))
			}
		case <-time.After(time.Minute):
		}
	}
	return heard
}

// TestOrderOfOneCall records the order of the messages that a client gets for one call.
// Progress and log messages come before the request that follows them, and no message of the
// call follows its answer. A slow client gets the same order.
func TestOrderOfOneCall(t *testing.T) {
	var out strings.Builder
	for _, server := range []bool{false, true} {
		for _, client := range []bool{false, true} {
			heard := map[string]string{}
			for speed, link := range orderLinks {
				inBubble(t, func(t *testing.T) {
					got := messagesOfOneCall(t, orderedServer(server, time.Hour), client, link)
					heard[speed] = strings.Join(got, "\n") + "\n"
				})
			}
			fmt.Fprintf(&out, "# %s server, %s client\n%s", eraOf(server), eraOf(client), heard["fast"])
			if heard["slow"] != heard["fast"] {
				fmt.Fprintf(&out, "# a client that reads slowly\n%s", heard["slow"])
			}
		}
	}
	golden(t, "order.txt", out.String())
}

// TestNothingFollowsTheAnswer checks that no progress and no second answer follows the answer of a
// call, even if the server sends more messages at the same moment. A legacy client may still get
// log messages and requests, since these do not need a call.
func TestNothingFollowsTheAnswer(t *testing.T) {
	for _, server := range []bool{false, true} {
		for _, client := range []bool{false, true} {
			for speed, link := range orderLinks {
				t.Run(fmt.Sprintf("%s_to_%s_%s", eraOf(client), eraOf(server), speed), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						got := messagesOfOneCall(t, orderedServer(server, 0), client, link)
						over, answers := false, 0
						for _, x := range got {
							if over && (client || strings.HasPrefix(x, "progress")) {
								t.Errorf("%s after the answer in %q", x, got)
							}
							if strings.HasPrefix(x, "answer") {
								over = true
								answers++
							}
							if strings.HasPrefix(x, "second") || strings.HasPrefix(x, "progress 7") {
								t.Errorf("%s in %q", x, got)
							}
						}
						if answers != 1 {
							t.Errorf("%d answers in %q", answers, got)
						}
					})
				})
			}
		}
	}
}
