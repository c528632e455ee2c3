package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/netsim"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// talkative is a server whose tool says things in a settled order: three pairs of progress
// and log message, a question, three more pairs, the answer. Then, after pause, it goes on
// although the call is over: progress, log, a second answer, a question.
func talkative(modern bool, pause time.Duration) *farServer {
	s := &farServer{modern: modern, caps: `{"tools":{},"logging":{}}`}
	var call *jsonrpc.Message
	said := 0
	pairs := func(l *farLink, m *jsonrpc.Message, n int) {
		token := string(jsonrpc.Find(m.Raw, m.Param(mcp.KeyMeta), mcp.KeyProgressToken).Of(m.Raw))
		for range n {
			said++
			l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, token, said))
			l.say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":%d}}`, said))
		}
	}
	after := func(l *farLink, m *jsonrpc.Message) {
		pairs(l, m, 3)
		l.answer(m, `{"resultType":"complete","content":[]}`)
		time.Sleep(pause)
		pairs(l, m, 1)
		l.answer(m, `{"resultType":"complete","content":[],"second":true}`)
		if !modern {
			time.Sleep(pause) // what is of no call has no order
			l.say(`{"jsonrpc":"2.0","id":"late",` + elicit + `}`)
		}
	}
	s.on = func(l *farLink, m *jsonrpc.Message) {
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

// slowReader is a client's end of a pipe that takes a second for each message.
type slowReader struct{ transport.Pipe }

func (p slowReader) Read() (*jsonrpc.Message, error) {
	time.Sleep(time.Second)
	return p.Pipe.Read()
}

// orderLinks are the pipes of a client that reads at once, and of one that does not and
// whose pipe holds less than a message.
var orderLinks = map[string]func() (client, server transport.Pipe){
	"fast": inmem.Pipe,
	"slow": func() (transport.Pipe, transport.Pipe) {
		near, far := netsim.NewLink(netsim.Options{Buffer: 64})
		return slowReader{stdio.NewPipe(near, near, stdio.Options{})}, stdio.NewPipe(far, far, stdio.Options{})
	},
}

// orderOf says what a message is, in a word or two.
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

// hearsOneCall calls the tool and returns what the client hears until nothing more comes.
func hearsOneCall(t *testing.T, s *farServer, modern bool, link func() (client, server transport.Pipe)) (heard []string) {
	w := build(t, s)
	near, far := link()
	c := &caller{near: w.joinAs(nil, near, far), modern: modern, caps: canBeAsked}
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

// TestOrderOfOneCall writes down what a client hears of one call, in order: progress and
// log before the question that came after them, and of the call nothing after its answer.
// A client that reads slowly hears the same.
func TestOrderOfOneCall(t *testing.T) {
	var out strings.Builder
	for _, server := range []bool{false, true} {
		for _, client := range []bool{false, true} {
			heard := map[string]string{}
			for speed, link := range orderLinks {
				inBubble(t, func(t *testing.T) {
					got := hearsOneCall(t, talkative(server, time.Hour), client, link)
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

// TestNothingFollowsTheAnswer of a call, although the server says more of it in the same
// moment: no progress and no second answer. A log message and a question need no call
// where the client is legacy.
func TestNothingFollowsTheAnswer(t *testing.T) {
	for _, server := range []bool{false, true} {
		for _, client := range []bool{false, true} {
			for speed, link := range orderLinks {
				t.Run(fmt.Sprintf("%s_to_%s_%s", eraOf(client), eraOf(server), speed), func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						got := hearsOneCall(t, talkative(server, 0), client, link)
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
