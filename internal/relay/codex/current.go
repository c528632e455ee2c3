package codex

import (
	"context"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// current is the protocol of workers that have threads and turns.
type current struct{}

const errNoThread = problem("Codex started a thread but did not send its id.")

func (current) open(ctx context.Context, b *bridge, a *arguments) (string, error) {
	o := &object{}
	a.copy(o, map[string]jsonrpc.Span{
		"cwd": a.cwd, "model": a.model, "sandbox": a.sandbox, "approvalPolicy": a.policy,
		"baseInstructions": a.base, "developerInstructions": a.developer,
	}, "cwd", "model", "sandbox", "approvalPolicy", "baseInstructions", "developerInstructions")
	if config := a.settings(); config != nil {
		o.member("config", config)
	}
	m, err := b.ask(ctx, "thread/start", o.json(), nil)
	if err != nil {
		return "", err
	}
	id := text(m.Raw, m.ResultMember("thread"), "id")
	if id == "" {
		return "", errNoThread
	}
	return id, nil
}

// settings returns the value of the member config in the params of thread/start, or nil. config has
// the settings for which the params have no other member.
func (a *arguments) settings() []byte {
	var fields []jsonrpc.Field
	if !a.profile.IsZero() {
		fields = append(fields, jsonrpc.Field{Key: "profile", Value: a.profile.Of(a.raw)})
	}
	if !a.compact.IsZero() {
		fields = append(fields, jsonrpc.Field{Key: "compact_prompt", Value: a.compact.Of(a.raw)})
	}
	config := a.config.Of(a.raw)
	if len(fields) == 0 {
		return config
	}
	if config == nil {
		config = []byte("{}")
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyOwnText, config, jsonrpc.Whole(config), nil, fields...)
	return jsonrpc.Splice(nil, config, &e)
}

func (current) resume(ctx context.Context, b *bridge, thread string) error {
	o := (&object{}).text("threadId", thread).member("excludeTurns", []byte("true"))
	_, err := b.ask(ctx, "thread/resume", o.json(), nil)
	return err
}

func (current) begin(ctx context.Context, b *bridge, t *turn, a *arguments) error {
	input := append(append([]byte(`[{"type":"text","text":`), a.prompt.Of(a.raw)...), `}]`...)
	o := (&object{}).text("threadId", t.threadID()).member("input", input)
	_, err := b.ask(ctx, "turn/start", o.json(), func(m *jsonrpc.Message) {
		if m.Kind == jsonrpc.Result {
			t.learn(text(m.Raw, m.ResultMember("turn"), "id"))
		}
	})
	return err
}

func (current) interrupt(ctx context.Context, b *bridge, t *turn) error {
	o := (&object{}).text("threadId", t.threadID()).text("turnId", t.turnID())
	_, err := b.ask(ctx, "turn/interrupt", o.json(), nil)
	return err
}

func (current) finish(*bridge, *turn) {}

func (current) hear(m *jsonrpc.Message) (e event, ok bool) {
	keys := [...]string{"threadId", "turnId", "turn", "item", "delta", "error", "willRetry", "message"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Params, keys[:], at[:])
	e.thread, _ = jsonrpc.Text(m.Raw, at[0])
	e.turn, _ = jsonrpc.Text(m.Raw, at[1])
	turn, item := at[2], at[3]
	if id := text(m.Raw, turn, "id"); id != "" {
		e.turn = id
	}
	if e.thread == "" && e.turn == "" {
		return e, false
	}
	switch m.Method {
	case "turn/started":
		e.kind = started
	case "item/agentMessage/delta":
		e.kind = delta
		e.text, _ = jsonrpc.Text(m.Raw, at[4])
	case "item/started":
		e.item = text(m.Raw, item, "id")
		e.kind, e.text = begunItem(m.Raw, item)
	case "item/completed":
		if text(m.Raw, item, "type") == "agentMessage" {
			e.kind, e.text = message, text(m.Raw, item, "text")
		}
	case "error":
		e.kind, e.text = trouble, turnError(m.Raw, at[5])
		if string(at[6].Of(m.Raw)) == "true" {
			e.kind, e.text = step, "Codex retries: "+e.text
		}
	case "turn/completed":
		e.kind, e.status = ended, text(m.Raw, turn, "status")
		if e.status == "" {
			e.status = completed
		}
		if e.status == failed {
			e.text = turnError(m.Raw, jsonrpc.Find(m.Raw, turn, "error"))
			break
		}
		for x := range jsonrpc.Elements(m.Raw, jsonrpc.Find(m.Raw, turn, "items")) {
			if text(m.Raw, x, "type") == "agentMessage" {
				e.text = text(m.Raw, x, "text")
			}
		}
	}
	return e, true
}

// begunItem returns the kind and the text of the event for an item that has started.
func begunItem(raw []byte, item jsonrpc.Span) (eventKind, string) {
	switch text(raw, item, "type") {
	case "commandExecution":
		return step, "$ " + excerpt.Lines(text(raw, item, "command"), 400)
	case "fileChange":
		return changes, patchOf(raw, jsonrpc.Find(raw, item, "changes"))
	case "mcpToolCall":
		return step, "tool " + excerpt.Line(text(raw, item, "server")+"/"+text(raw, item, "tool"), 200)
	case "webSearch":
		return step, "search: " + excerpt.Line(text(raw, item, "query"), 200)
	}
	return alive, ""
}

// turnError returns the text of an error in a turn.
func turnError(raw []byte, at jsonrpc.Span) string {
	s := strings.TrimSpace(text(raw, at, "message"))
	if more := strings.TrimSpace(text(raw, at, "additionalDetails")); more != "" {
		s += " (" + more + ")"
	}
	if s == "" {
		s = "no reason was given"
	}
	return excerpt.Lines(s, 4<<10)
}
