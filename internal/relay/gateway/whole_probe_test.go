package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestT14_ServerThatHasBecomeAfraidOfTheProbe replaces a modern server by a legacy server that
// exits when it is probed. Dragoman notices this and does not probe the server again.
func TestT14_ServerThatHasBecomeAfraidOfTheProbe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{modern: true}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodListen:
				l.acknowledge(m)
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{"tools":[]}`)
			}
		}
		n := build(t, s).client()
		n.say(modernRequest("1", "tools/list", "", `{}`))
		n.answerTo("1")
		s.modern, s.crashesOnProbe = false, true
		_ = s.link(t, 0).pipe.Close()
		for id := 2; id < 6; id++ {
			time.Sleep(10 * time.Minute)
			n.say(modernRequest(fmt.Sprint(id), "tools/list", "", `{}`))
			if m := n.answerTo(fmt.Sprint(id)); m.Kind != jsonrpc.Result && id > 3 {
				t.Errorf("got %s", m.Raw)
			}
		}
		probes := 0
		for i := range s.opened() {
			probes += len(s.link(t, i).got(mcp.MethodDiscover))
		}
		if probes > 4 {
			t.Errorf("the server was probed %d times", probes)
		}
	})
}

// TestModernServerThatDiesOnAProbeOnceIsProbedAgain checks a server that is known to be modern
// and exits while it is opened. The probe cannot be the reason. So Dragoman probes the server
// again. It does not send initialize, which the server would refuse.
func TestModernServerThatDiesOnAProbeOnceIsProbedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &testServer{modern: true}
		s.on = func(l *testSession, m *jsonrpc.Message) {
			switch {
			case m.Method == mcp.MethodListen:
				l.acknowledge(m)
			case m.Kind == jsonrpc.Request:
				l.answer(m, `{"resultType":"complete","tools":[]}`)
			}
		}
		n := build(t, s).client()
		n.say(modernRequest("1", "tools/list", "", `{}`))
		n.answerTo("1")
		s.crashNext(2) // the next two processes exit at their first message
		_ = s.link(t, 0).pipe.Close()
		time.Sleep(10 * time.Minute)
		n.say(modernRequest("2", "tools/list", "", `{}`))
		n.answerTo("2")
		time.Sleep(10 * time.Minute)
		n.say(modernRequest("3", "tools/list", "", `{}`))
		if m := n.answerTo("3"); m.Kind != jsonrpc.Result {
			t.Errorf("got %s", m.Raw)
		}
		last := s.link(t, s.opened()-1)
		if len(last.got(mcp.MethodDiscover)) != 1 || len(last.got(mcp.MethodInitialize)) != 0 {
			t.Errorf("the last process got %d probes and %d handshakes", len(last.got(mcp.MethodDiscover)), len(last.got(mcp.MethodInitialize)))
		}
	})
}
