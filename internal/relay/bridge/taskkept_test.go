package bridge

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestKeptTasksAreBounded checks the bounds on the number and the bytes of kept answers.
func TestKeptTasksAreBounded(t *testing.T) {
	var k keptTasks
	c := legacy(t, "tools/call", `{"name":"star"}`)
	big := said(mcp.R20260728, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 1<<20)+`"}]}`)
	small := said(mcp.R20260728, `{"content":[]}`)
	for range 2 * maxKept {
		if _, err := k.keep(rand.Text(), "a", mcp.NewAttempt(c), small, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(k.byID) != maxKept || len(k.order) != maxKept {
		t.Errorf("%d tasks are kept", len(k.byID))
	}
	for range 40 {
		_, _ = k.keep(rand.Text(), "a", mcp.NewAttempt(c), big, 0)
	}
	sum := 0
	for _, x := range k.byID {
		sum += len(x.reply.Msg.Raw)
	}
	if k.bytes != sum || sum > maxKeptBytes || len(k.order) != len(k.byID) {
		t.Errorf("%d bytes are kept but %d counted; order has %d tasks and byID %d", sum, k.bytes, len(k.order), len(k.byID))
	}
}

// TestKeptTasksOfOthersStay checks that a client with many or large kept answers loses its own
// oldest answers. The answers of another client stay, although they are older.
func TestKeptTasksOfOthersStay(t *testing.T) {
	big := said(mcp.R20260728, `{"content":[{"type":"text","text":"`+strings.Repeat("x", 1<<20)+`"}]}`)
	small := said(mcp.R20260728, `{"content":[]}`)
	for name, flood := range map[string]*mcp.Reply{"many": small, "large": big} {
		var k keptTasks
		innocent, greedy := legacy(t, "tools/call", `{"name":"star"}`), legacy(t, "tools/call", `{"name":"star"}`)
		innocent.Client.Who, innocent.Client.Conversation = nil, 7
		greedy.Client.Who, greedy.Client.Conversation = nil, 8
		mine, err := k.keep(rand.Text(), "a", mcp.NewAttempt(innocent), small, 0)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := jsonrpc.Text(mine.Msg.Raw, jsonrpc.Find(mine.Msg.Raw, mine.Msg.ResultMember("task"), "taskId"))
		for range 2 * maxKept {
			if _, err := k.keep(rand.Text(), "a", mcp.NewAttempt(greedy), flood, 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := k.find(innocent.Client, id); !ok {
			t.Errorf("%s: the task of the other client was dropped", name)
		}
		if k.bytes > maxKeptBytes || len(k.order) > maxKept {
			t.Errorf("%s: %d tasks of %d bytes are kept", name, len(k.order), k.bytes)
		}
	}
	var k keptTasks
	huge := said(mcp.R20260728, `{"content":[{"type":"text","text":"`+strings.Repeat("x", maxKeptBytes)+`"}]}`)
	c := legacy(t, "tools/call", `{"name":"star"}`)
	if _, err := k.keep(rand.Text(), "a", mcp.NewAttempt(c), small, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := k.keep(rand.Text(), "a", mcp.NewAttempt(c), huge, 0); err == nil || len(k.order) != 1 {
		t.Errorf("an answer that is too large: %v, and %d tasks are kept", err, len(k.order))
	}
}
