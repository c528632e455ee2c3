package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestTrail records a call with progress and a server request for each combination of client era
// and server era. It replays the changes of each stage and compares the result with the stage's
// output. Each message on the wire that was changed is the output of a stage, byte for byte, and
// each change has a reason. The output of the last stage is the answer to the client.
func TestTrail(t *testing.T) {
	for _, client := range []string{"legacy", "modern"} {
		for _, server := range []string{"legacy", "modern"} {
			t.Run(client+" to "+server, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					trail := trails.New(1 << 20)
					k := newTrailedTalk(t, trail)
					defer k.end()
					s := &scripted{talk: k, client: client, server: server}
					s.open()
					s.call()
					synctest.Wait()
					checkTrail(t, trail, s.wire)
				})
			})
		}
	}
}

// scripted runs the call of TestTrail.
type scripted struct {
	*talk
	client, server string // "legacy" or "modern"
	wire           []*jsonrpc.Message
}

// open runs the handshakes and sends the client's call. A modern client has no handshake.
func (s *scripted) open() {
	if s.client == "legacy" {
		s.say(s.ends.Client, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{}}},"clientInfo":{"name":"c","version":"1"}}}`)
	} else {
		s.say(s.ends.Client, trailCall("1", ""))
	}
	for {
		m := s.hear(s.upstream)
		switch {
		case m.Method == mcp.MethodInitialize && s.server == "legacy":
			s.say(s.ends.Upstream, string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`))))
			continue
		case m.Method == mcp.MethodDiscover && s.server == "modern":
			s.say(s.ends.Upstream, string(jsonrpc.AppendResult(nil, m.ID, []byte(discovered))))
		case m.Method == mcp.MethodInitialize || m.Method == mcp.MethodDiscover:
			s.say(s.ends.Upstream, string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "?"})))
			continue
		case m.Method != "notifications/initialized":
			s.t.Fatalf("the server gets %s", m.Raw)
		}
		break
	}
	if s.client == "legacy" {
		s.hear(s.talk.client)
		s.say(s.ends.Client, `{"jsonrpc":"2.0","id":"k","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p"}}}`)
	}
}

func trailCall(id, more string) string {
	meta := `{"progressToken":"p",` + strings.TrimPrefix(asker, "{")
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"t","arguments":{ }` + more + `,"_meta":` + meta + `}}`
}

// seen reads the next message at the client's or the server's end, and records it. Dragoman made
// this message with a splice.
func (s *scripted) seen(from string) *jsonrpc.Message {
	s.t.Helper()
	end := s.talk.client
	if from == "server" {
		end = s.upstream
	}
	m := s.hear(end)
	s.wire = append(s.wire, m)
	return m
}

// call runs the call from the moment when the server gets it.
func (s *scripted) call() {
	const yes = `{"action":"accept","content":{"n" : 1e400}}`
	call := s.seen("server")
	token := string(jsonrpc.Find(call.Raw, call.Param("_meta"), mcp.KeyProgressToken).Of(call.Raw))
	s.say(s.ends.Upstream, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1e0}}`)
	if m := s.seen("client"); string(m.Param("progressToken").Of(m.Raw)) != `"p"` {
		s.t.Fatalf("the client gets %s", m.Raw)
	}

	params := fmt.Sprintf(form, "Who?")
	if s.server == "legacy" {
		s.say(s.ends.Upstream, `{"jsonrpc":"2.0","id":"q" ,"method":"elicitation/create","params":`+params+`}`)
	} else {
		s.say(s.ends.Upstream, string(jsonrpc.AppendResult(nil, call.ID, []byte(`{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":`+params+`}},"requestState":"st"}`))))
	}
	asked := s.seen("client")
	if s.client == "legacy" {
		s.say(s.ends.Client, string(jsonrpc.AppendResult(nil, asked.ID, []byte(yes))))
	} else {
		var key string
		for ask := range jsonrpc.Members(asked.Raw, asked.ResultMember("inputRequests")) {
			key = string(ask.Key.Of(asked.Raw))
		}
		s.say(s.ends.Client, trailCall("2", `,"inputResponses":{`+key+`:`+yes+`},"requestState":`+string(asked.ResultMember("requestState").Of(asked.Raw))))
	}
	switch {
	case s.server == "modern":
		call = s.seen("server")
	case s.client == "legacy":
		s.seen("server")
	default:
		s.hear(s.upstream) // Dragoman makes this answer without a splice
	}
	s.say(s.ends.Upstream, string(jsonrpc.AppendResult(nil, call.ID, []byte(`{"content":[ ]}`))))
	if m := s.seen("client"); m.Kind != jsonrpc.Result || string(m.ResultMember("content").Of(m.Raw)) != "[ ]" {
		s.t.Fatalf("the client gets %s", m.Raw)
	}
}

func checkTrail(t *testing.T, trail *trails.Trail, wire []*jsonrpc.Message) {
	t.Helper()
	texts, entries, missed := trail.Story()
	var made []string // the output of each splice
	for _, e := range entries {
		if e.Wire != 0 {
			continue
		}
		in, out := texts[e.Input].Bytes, texts[e.Text].Bytes
		var again []byte
		from := 0
		for _, c := range e.Changes {
			again = append(append(again, in[from:c.At.Start]...), out[c.To.Start:c.To.End]...)
			from = c.At.End
			if mcp.ReasonText(c.Why) == "" {
				t.Errorf("no reason for %q in %s", out[c.To.Start:c.To.End], in)
			}
		}
		if again = append(again, in[from:]...); string(again) != string(out) {
			t.Errorf("%s replays to %s, want %s", in, again, out)
		}
		made = append(made, string(out))
	}
	if missed > 0 || len(made) == 0 {
		t.Fatalf("%d stages, %d missed", len(made), missed)
	}
	for _, m := range wire {
		if !slices.Contains(made, string(m.Raw)) {
			t.Errorf("%s is not the output of any stage", m.Raw)
		}
	}
	if got, want := made[len(made)-1], wire[len(wire)-1].Raw; got != string(want) {
		t.Errorf("the last stage's output is %s, but on the wire is %s", got, want)
	}
}
