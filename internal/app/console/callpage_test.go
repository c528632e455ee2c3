package console

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// change is an edit of a text. It has a kind, a note, the bytes that it replaces, and the bytes
// that it writes. Added text is inserted before the bytes.
type change [4]string

// storyOfPublish returns the story of a legacy client that calls a modern server, which asks
// for input and returns a result with a part that the client cannot get.
func storyOfPublish(c admin.Call) admin.Story {
	c.Client, c.Server, c.Revision, c.Name = admin.CallClient{Name: "Cursor", Version: "1.7", Revision: "2025-06-18"}, "files", "2026-07-28", "files__publish"
	c.Losses = []admin.CallLoss{{What: "structuredContent", Why: "the client's revision has objects only there"}}
	c.Seconds, c.Recorded, c.TraceID = 7.86, true, "4bf92f3577b34da6a3ce929d0e0e4736"
	s := admin.Story{Call: c, Notes: []admin.Note{
		{Note: "a", Reason: "id", Text: "Each side of Dragoman has its own request ids."}, {Note: "b", Reason: "name", Text: "Names have a prefix for the client."},
		{Note: "c", Reason: "sender", Text: "One era describes the sender in every request."}, {Note: "d", Reason: "session", Text: "Each side has its own session."},
		{Note: "e", Reason: "mirror", Text: "Headers repeat the name."}, {Note: "1", Reason: "structured", Text: "Objects only.", Lost: true},
	}}
	pair := func(when float64, fromServer bool, from string, edits ...change) {
		n := len(s.Messages)
		source := admin.Message{At: when, Wire: admin.WireClient, Direction: "received", Text: from, Size: len(from)}
		m := admin.Message{At: when + .0004, Wire: admin.WireServer, Direction: "sent", Source: &n}
		if fromServer {
			source.Wire, m.Wire = m.Wire, source.Wire
		}
		position := 0
		for _, e := range edits {
			start := position + strings.Index(from[position:], e[2])
			m.Text += from[position:start]
			position = start
			if e[0] != "added" {
				position += len(e[2])
			}
			x := admin.Edit{Kind: e[0], Note: e[1], At: admin.Range{start, position}, To: admin.Range{len(m.Text), len(m.Text) + len(e[3])}}
			if e[0] == "lost" {
				x.Loss = &s.Losses[0]
			}
			m.Text += e[3]
			m.Edits = append(m.Edits, x)
		}
		m.Text += from[position:]
		m.Size = len(m.Text)
		s.Messages = append(s.Messages, source, m)
	}
	pair(0, false, `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"files__publish","arguments":{"tag":"v2","to":["#a","it's"]}}}`,
		change{"changed", "a", "41", "6120"}, change{"removed", "b", "files__", ""}, change{"added", "c", `}}`, `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`})
	s.Messages[0].Request = &admin.Head{Method: "POST", Path: "/mcp", Headers: [][2]string{{"Mcp-Session-Id", "●●●●"}, {"MCP-Protocol-Version", "2025-06-18"}}, Edits: []admin.HeadEdit{{Name: "Mcp-Session-Id", Kind: "removed", Note: "d"}}}
	s.Messages[1].Request = &admin.Head{Method: "POST", Path: "/mcp", Headers: [][2]string{{"Mcp-Name", "publish"}}, Edits: []admin.HeadEdit{{Name: "Mcp-Name", Kind: "added", Note: "e"}}}
	ask := `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"Sure?"}}`
	s.Messages = append(s.Messages,
		admin.Message{At: .2, Wire: admin.WireServer, Direction: "received", Text: `{"jsonrpc":"2.0","id":6120,"result":{"resultType":"input_required"}}`, Size: 70},
		admin.Message{At: .21, Wire: admin.WireClient, Direction: "sent", Text: ask, Size: len(ask)})
	pair(6.7, false, `{"jsonrpc":"2.0","id":7,"result":{"action":"accept"}}`)
	pair(7.8, true, `{"jsonrpc":"2.0","id":6121,"result":{"content":[],"structuredContent":[{"posted":true}],"isError":false}}`,
		change{"changed", "a", "6121", "41"}, change{"lost", "1", `"structuredContent":[{"posted":true}],`, ""})
	return s
}

// hostileStory returns a story in which every text comes from a hostile peer.
func hostileStory(c admin.Call) admin.Story {
	evil := string(jsonrpc.AppendQuote([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":`), hostile)) + `}}}`
	zero := 0
	return admin.Story{Call: c, Notes: []admin.Note{{Note: "a", Text: hostile}}, Messages: []admin.Message{
		{Wire: admin.WireClient, Direction: "received", Text: evil, Size: len(evil), Request: &admin.Head{Method: "POST", Path: "/" + hostile, Headers: [][2]string{{hostile, hostile}}, Edits: []admin.HeadEdit{{Name: hostile, Kind: hostile, Note: "a"}}}},
		{Wire: admin.WireServer, Direction: "sent", Text: evil[1:], Size: len(evil) - 1, Source: &zero, Error: hostile, Edits: []admin.Edit{{Kind: "removed", Note: "a", At: admin.Range{0, 1}}}},
		{Wire: admin.WireServer, Direction: "received", Text: hostile, Size: len(hostile) + 10, Cut: 10},
	}}
}

// TestFailureOfCall checks that the page of a failed call shows the failure that the client got,
// with the next step.
func TestFailureOfCall(t *testing.T) {
	const text = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m","data":{"cause":"timeout","failure":{"class":"timeout","sentence":"server \"files\" did not answer <b> within 60s","evidence":["waiting for a lock"],"evidenceFrom":"stderr","action":"raise timeouts.call"}}}}`
	zero := 0
	for _, c := range []struct {
		messages []admin.Message
		want     string
	}{
		{[]admin.Message{{Wire: admin.WireClient, Direction: "sent", Text: text}}, `Server "files" did not answer <b> within 60s. stderr: waiting for a lockNext step: Raise timeouts.call.`},
		{[]admin.Message{{Wire: admin.WireServer, Direction: "received", Text: text}, {Wire: admin.WireClient, Direction: "sent", Text: text, Source: &zero}}, `The server says: Server "files" did not answer <b> within 60s. stderr: waiting for a lockNext step: Raise timeouts.call.`},
		{[]admin.Message{{Wire: admin.WireServer, Direction: "received", Text: text}, {Wire: admin.WireClient, Direction: "sent", Text: `{"jsonrpc":"2.0","id":1,"result":{}}`, Source: &zero}}, ""},
		{[]admin.Message{{Wire: admin.WireClient, Direction: "sent", Text: text[:len(text)-9]}}, ""},
		{nil, ""},
	} {
		h := stage(t, "busy")
		h.source.stories = []admin.Story{{Call: admin.Call{Number: 5, Outcome: "failed"}, Messages: c.messages}}
		_, page := h.ask("GET", "/console/calls/5", "Cookie", h.cookie)
		_, part, _ := strings.Cut(page, `aria-label="Failure">`)
		part, _, _ = strings.Cut(part, "</section>")
		if got := strings.ReplaceAll(textOf(part), "\n", ""); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// textOf returns the text of a piece of HTML.
func textOf(page string) string {
	return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, ""))
}

// TestRawShowsEveryByte compares the raw view with the messages.
func TestRawShowsEveryByte(t *testing.T) {
	s := storyOfPublish(admin.Call{Number: 2})
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.Source == nil {
			continue
		}
		source := &s.Messages[*m.Source]
		fromServer := source.Wire == admin.WireServer
		for _, view := range []string{showRaw, showFormatted} {
			var left, right string
			for _, row := range pairRows(source, m, view, fromServer) {
				left += textOf(string(row.Left))
				right += textOf(string(row.Right))
			}
			if fromServer {
				left, right = right, left
			}
			if view == showFormatted { // the messages themselves have no white space
				left, right = strings.Join(strings.Fields(left), ""), strings.Join(strings.Fields(right), "")
			}
			if left != source.Text || right != m.Text {
				t.Errorf("message %d, view %q:\n%s\n%s\nwant\n%s\n%s", i, view, left, right, source.Text, m.Text)
			}
		}
	}
}

// TestLinesOfEdits checks that edits do not change the lines of a formatted message. No line may
// break where an edit begins or ends within the line.
func TestLinesOfEdits(t *testing.T) {
	t.Parallel()
	s := storyOfPublish(admin.Call{Number: 2})
	pair := func(from, to string, edits ...admin.Edit) {
		n := len(s.Messages)
		s.Messages = append(s.Messages, admin.Message{Text: from, Size: len(from), Wire: admin.WireServer}, admin.Message{Text: to, Size: len(to), Edits: edits, Source: &n})
	}
	// A server asks for roots in a result. Dragoman makes a request from this result.
	pair(`{"jsonrpc":"2.0","id":6120,"result":{"inputRequests":{"roots":{"method":"roots/list","params":{"a":1}}},"requestState":"W10"}}`, `{"jsonrpc":"2.0","id":6,"method":"roots/list","params":{"a":1}}`,
		admin.Edit{Kind: "removed", Note: "a", At: admin.Range{0, 62}}, admin.Edit{Kind: "added", Note: "b", At: admin.Range{63, 63}, To: admin.Range{1, 17}},
		admin.Edit{Kind: "added", Note: "c", At: admin.Range{63, 63}, To: admin.Range{17, 22}}, admin.Edit{Kind: "added", Note: "d", At: admin.Range{63, 63}, To: admin.Range{22, 23}},
		admin.Edit{Kind: "added", Note: "e", At: admin.Range{63, 63}, To: admin.Range{23, 24}}, admin.Edit{Kind: "removed", Note: "f", At: admin.Range{102, 126}, To: admin.Range{63, 63}})
	// A server sends a request. Dragoman makes a result from this request.
	pair(`{"method":"roots/list","jsonrpc":"2.0","id":0}`, `{"jsonrpc":"2.0","id":7,"result":{"inputRequests":{"client_roots":{"method":"roots/list"}}}}`,
		admin.Edit{Kind: "added", Note: "a", To: admin.Range{0, 22}}, admin.Edit{Kind: "added", Note: "b", To: admin.Range{22, 23}}, admin.Edit{Kind: "added", Note: "c", To: admin.Range{23, 33}},
		admin.Edit{Kind: "added", Note: "d", To: admin.Range{33, 66}}, admin.Edit{Kind: "removed", Note: "e", At: admin.Range{22, 45}, To: admin.Range{88, 88}}, admin.Edit{Kind: "added", Note: "f", At: admin.Range{46, 46}, To: admin.Range{89, 92}})
	// The lost bytes include the comma before the lost member.
	pair(`{"result":{"a":1,"b":[2]}}`, `{"result":{"a":1}}`, admin.Edit{Kind: "lost", Note: "1", At: admin.Range{16, 24}, To: admin.Range{16, 16}})
	// A text with its own white space.
	pair(`{"id": 6, "params": { }, "x": [1, "a, b"]}`, `{"id": 7, "params": { }, "x": [1, "a, b"]}`, admin.Edit{Kind: "changed", Note: "a", At: admin.Range{7, 8}, To: admin.Range{7, 8}})
	for i := range s.Messages {
		m := &s.Messages[i]
		if m.Source == nil {
			continue
		}
		source := &s.Messages[*m.Source]
		fromServer := source.Wire == admin.WireServer
		var sides [2][]string
		for _, row := range pairRows(source, m, showFormatted, fromServer) {
			for side, text := range [2]string{textOf(string(row.Left)), textOf(string(row.Right))} {
				if text = strings.TrimPrefix(text, "\n"); text != "" {
					sides[side] = append(sides[side], text)
				}
			}
		}
		if fromServer {
			sides[0], sides[1] = sides[1], sides[0]
		}
		for j, x := range []*admin.Message{source, m} {
			if got, want := strings.Join(sides[j], "\n"), layoutOf(x.Bytes(), showFormatted).part(0, x.Size); got != want {
				t.Errorf("message %d:\n%s\nwant\n%s", i, got, want)
			}
		}
	}
	if got := layoutOf([]byte(`{"id": 6, "params": { }, "x": [1, "a, b"]}`), showFormatted).part(0, 42); got != "{\n  \"id\": 6,\n  \"params\": { },\n  \"x\": [\n    1,\n    \"a, b\"\n  ]\n}" {
		t.Error(got)
	}
}

// TestLossIsAGap checks that the page shows a gap with the reason beside lost bytes.
func TestLossIsAGap(t *testing.T) {
	s := storyOfPublish(admin.Call{Number: 2})
	n := len(s.Messages)
	lost := 0
	for _, row := range pairRows(&s.Messages[n-2], &s.Messages[n-1], showFormatted, true) {
		if row.Class == "lost" {
			lost++
			if !row.NoLeft || row.Lacuna != "The client's revision has objects only there." || !strings.Contains(textOf(string(row.Right)), `"posted": true`) || row.Marks[0].Sign != "[1]" {
				t.Errorf("%+v", row)
			}
		}
	}
	if lost != 1 {
		t.Errorf("%d rows are lost; want 1", lost)
	}
}

// TestCurlHeaders checks that the curl command does not repeat fields that curl sets itself.
func TestCurlHeaders(t *testing.T) {
	m := admin.Message{Wire: admin.WireClient, Direction: "received", Text: `{"jsonrpc":"2.0","id":1,"method":"ping"}`}
	m.Request = &admin.Head{Method: "POST", Path: "/mcp", Headers: [][2]string{
		{"Accept", "application/json"}, {"Accept-Encoding", "gzip"}, {"Connection", "close"}, {"Content-Length", "280"}, {"Mcp-Session-Id", "x"},
	}}
	v := &callView{Story: admin.Story{Messages: []admin.Message{m}}}
	v.commands("http://127.0.0.1:7300", "")
	want := "curl http://127.0.0.1:7300/mcp \\\n  -H 'Accept: application/json' \\\n  -H 'Mcp-Session-Id: x' \\\n  -H 'Content-Type: application/json' \\\n  --data-raw"
	if !strings.HasPrefix(v.Curl, want) {
		t.Errorf("got\n%s\nwant\n%s", v.Curl, want)
	}
}

// TestCopies checks the commands that repeat a call, and the file with both wires.
func TestCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "busy")
		_, body := h.ask("GET", "/console/calls/2")
		text := textOf(body)
		for _, want := range []string{
			`dragoman call http://127.0.0.1:7300/mcp files__publish --json-args '{"tag":"v2","to":["#a","it'\''s"]}'`,
			`curl http://127.0.0.1:7300/mcp`, `-H 'MCP-Protocol-Version: 2025-06-18'`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the page has no %s", want)
			}
		}
		resp, wires := h.ask("GET", "/console/calls/2/wires.json")
		if resp.StatusCode != 200 || resp.Header.Get("Content-Disposition") != `attachment; filename="call-2.json"` || !strings.Contains(wires, `"edits"`) {
			t.Errorf("%d %v %s", resp.StatusCode, resp.Header, wires)
		}
		if !strings.Contains(text, "dragoman replay call-2.txtar") || !strings.Contains(body, `href="/console/calls/2/wires.txtar" download>Save both wires`) {
			t.Error("the page does not offer the transcript")
		}
		if resp, tape := h.ask("GET", "/console/calls/2/wires.txtar"); resp.Header.Get("Content-Disposition") != `attachment; filename="call-2.txtar"` || tape != "the transcript of call 2\n" {
			t.Errorf("%d %v %s", resp.StatusCode, resp.Header, tape)
		}
		for i := range h.source.stories {
			h.source.stories[i].Outcome = admin.OutcomeRunning
		}
		if _, body := h.ask("GET", "/console/calls/2"); strings.Contains(body, "wires.txtar") || !strings.Contains(textOf(body), "This call has no file for dragoman replay. It has not ended.") {
			t.Error("the page of a call without a transcript does not say why")
		}
		if resp, body := h.ask("GET", "/console/calls/2/wires.txtar"); resp.StatusCode != 409 || !strings.Contains(body, "It has not ended.") {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
		if resp, _ := h.ask("GET", "/console/calls/99/wires.json"); resp.StatusCode != 404 {
			t.Errorf("a call that is not known: %d", resp.StatusCode)
		}
	})
	if got := visibleJSON("a\u202e\U000e0041ł"); got != `a\u202e\udb40\udc41ł` {
		t.Error(got)
	}
}

// TestWaterfall checks the timeline of a call: when each side was busy.
func TestWaterfall(t *testing.T) {
	s := storyOfPublish(admin.Call{Number: 2})
	f := newWaterfall(&s, "Cursor", "files")
	if f.wait.Seconds() < 6.48 || f.wait.Seconds() > 6.5 {
		t.Errorf("the user took %s; want 6.49 s", f.wait)
	}
	who := ""
	for _, x := range f.Spans {
		who += x.Who + " "
	}
	if who != "Cursor files user files " {
		t.Errorf("spans of %q", who)
	}
}

// TestCommandOfOptionName checks that the page shows no command for a tool whose name the command
// would read as an option.
func TestCommandOfOptionName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a;b": "dragoman call http://127.0.0.1:7300/mcp 'a;b'", "--config=x": "", "-c/tmp/x": ""} {
		v := &callView{Story: admin.Story{Messages: []admin.Message{{Wire: admin.WireClient, Direction: "received", Text: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`}}}}
		if v.commands("http://127.0.0.1:7300", ""); v.CLI != want {
			t.Errorf("%s: %s", name, v.CLI)
		}
	}
}

// TestCommandOfRun checks the command on the page of a call that came from a run of the console. A run
// uses the server's own name of the tool, which only the server's endpoint has.
func TestCommandOfRun(t *testing.T) {
	t.Parallel()
	v := &callView{Story: admin.Story{Messages: []admin.Message{{Wire: admin.WireClient, Direction: "received", Text: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read"}}`}}}}
	v.Server, v.Name, v.Target = "my files", "read", "read"
	if v.commands("http://127.0.0.1:7300", ""); v.CLI != "dragoman call http://127.0.0.1:7300/s/my%20files/mcp read" || v.Curl != "" {
		t.Errorf("%s\n%s", v.CLI, v.Curl)
	}
}

// TestUndelivered checks that the page does not say that a peer received a message that could not be
// sent, or that may have been lost.
func TestUndelivered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		outcome mcp.Outcome
		message admin.Message
		want    string
	}{
		{mcp.NotSent, admin.Message{Wire: admin.WireServer, Direction: "sent", Error: "connection refused"}, "did not receive"},
		{mcp.OutcomeUnknown, admin.Message{Wire: admin.WireServer, Direction: "sent", Error: "no answer within 60s"}, "may have received"},
		{"ok", admin.Message{Wire: admin.WireClient, Direction: "sent", Error: "the connection is closed"}, "did not receive"},
		{"ok", admin.Message{Wire: admin.WireServer, Direction: "sent"}, "received"},
		{mcp.NotSent, admin.Message{Wire: admin.WireClient, Direction: "received"}, "sent"},
	} {
		v := &callView{}
		if v.Outcome = string(c.outcome); v.didOf(&c.message) != c.want {
			t.Errorf("%s %+v: %q, want %q", c.outcome, c.message, v.didOf(&c.message), c.want)
		}
	}
	v := &callView{}
	v.Client.Name, v.Server, v.Method, v.Outcome = "Cursor", "files", "tools/call", string(mcp.NotSent)
	if got := textOf(string(v.Sentence())); got != "Cursor sent tools/call for files, which did not receive it." {
		t.Error(got)
	}
}
