package cli

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// testStory returns a recorded call with edits, a loss, heads and a failed attempt.
func testStory() *admin.Story {
	zero, three := 0, 3
	loss := admin.CallLoss{What: "structuredContent", Why: "the client's revision has objects only there"}
	return &admin.Story{
		Call: admin.Call{
			Number: 41, Outcome: "ok", Client: admin.CallClient{Name: "Cursor", Version: "1.7.40", Revision: "2025-06-18"}, Server: "releases", Revision: "2026-07-28",
			Method: "tools/call", Name: "releases__publish", Target: "publish", Started: noon, Seconds: 7.86, Requests: 1, Recorded: true, Losses: []admin.CallLoss{loss},
		},
		Missed: 1,
		Messages: []admin.Message{
			{
				Wire: admin.WireClient, Direction: "received", Text: `{"id":41,"method":"tools/call","params":{"name":"releases__publish"}}`, Size: 69,
				Request: &admin.Head{Method: "POST", Path: "/mcp", Headers: [][2]string{{"Authorization", "***"}, {"Mcp-Session-Id", "5f0c91d2***"}}, Edits: []admin.HeadEdit{{Name: "Mcp-Session-Id", Kind: "removed", Reason: "session", Note: "d"}}},
			},
			{
				At: 0.0004, Wire: admin.WireServer, Direction: "sent", Text: `{"id":6120,"method":"tools/call","params":{"_meta":{},"name":"publish"}}`, Size: 72, Source: &zero,
				Edits: []admin.Edit{
					{Kind: "changed", At: admin.Range{6, 8}, To: admin.Range{6, 10}, Reason: "id", Note: "a"},
					{Kind: "added", At: admin.Range{41, 41}, To: admin.Range{43, 54}, Reason: "sender", Note: "b"},
					{Kind: "removed", At: admin.Range{49, 59}, To: admin.Range{62, 62}, Reason: "name", Note: "c"},
				},
			},
			{At: 0.21, Wire: admin.WireServer, Direction: "sent", Text: `{"id":6121}`, Size: 11, Error: "call releases tools/call: not sent: connection refused\x1b[2J"},
			{At: 7.85, Wire: admin.WireServer, Direction: "received", Text: `{"id":6120,"result":{"structuredContent":[1],"content":[]}}`, Size: 20000, Cut: 19941},
			{
				At: 7.86, Wire: admin.WireClient, Direction: "sent", Text: `{"id":41,"result":{"content":[]}}`, Size: 19974, Cut: 19941, Source: &three,
				Response: &admin.Head{Status: 200, Headers: [][2]string{{"Content-Type", "application/json"}}},
				Edits: []admin.Edit{
					{Kind: "changed", At: admin.Range{6, 10}, To: admin.Range{6, 8}, Reason: "id", Note: "a"},
					{Kind: "lost", At: admin.Range{21, 45}, To: admin.Range{19, 19}, Reason: "structured", Note: "1", Loss: &loss},
				},
			},
		},
		Notes: []admin.Note{
			{Note: "a", Reason: "id", Text: "Each side of Dragoman has its own request ids."},
			{Note: "d", Reason: "session", Text: "Each side of Dragoman has its own session."},
			{Note: "1", Reason: "structured", Text: "The revision of the client allows only objects as structured content.", Lost: true},
		},
	}
}

// TestStoryText checks the text of a story for a pipe, for a narrow terminal and for a wide
// one. On the wide terminal, a message is beside its source.
func TestStoryText(t *testing.T) {
	golden(t, "story.txt", storyText(testStory(), time.UTC, 0, false))
	golden(t, "story-60.txt", storyText(testStory(), time.UTC, 60, false))
	golden(t, "story-120.txt", storyText(testStory(), time.UTC, 120, false))
	if got := storyText(testStory(), time.UTC, 120, true); !strings.Contains(got, "\x1b[31m41\x1b[0m") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("in colour: %q", got)
	}
	none := testStory()
	none.Recorded, none.Messages, none.Notes, none.Missed = false, nil, nil, 0
	golden(t, "story-none.txt", storyText(none, time.UTC, 0, false))
}

// TestStoryCommand checks the command that prints one call, and the errors of the command.
func TestStoryCommand(t *testing.T) {
	stub := &adminStub{report: testReport(), story: testStory()}
	web := httptest.NewServer(stub)
	defer web.Close()
	address := strings.TrimPrefix(web.URL, "http://")
	text, said, code := invoke("calls", "41", "--json", "--listen", address)
	var got admin.Story
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 0 || said != "" || got.Number != 41 || len(got.Messages) != 5 {
		t.Errorf("%d %q %v %s", code, said, err, text)
	}
	if asked := stub.requests(); asked[len(asked)-1] != "/api/v1/calls/41" {
		t.Errorf("asked %q", asked)
	}
	if text, _, code = invoke("calls", "41", "--listen", address); code != 0 || !strings.HasPrefix(text, "call 41: publish on releases\n") {
		t.Errorf("%d %s", code, text)
	}
	for _, args := range [][]string{{"calls", "0"}, {"calls", "x"}, {"calls", "41", "42"}, {"calls", "41", "-f"}} {
		if _, said, code := invoke(args...); code != 2 || said == "" {
			t.Errorf("%q: %d %s", args, code, said)
		}
	}
}
