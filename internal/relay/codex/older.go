package codex

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// older is the protocol of workers that have conversations instead of threads. Its events are
// Codex's internal events, with the method codex/event/TYPE and a member msg. Wrappers also send
// these events in another form: the method is the type in camelCase, for example agentMessageDelta,
// and there is no member msg.
type older struct{}

const eventPrefix = "codex/event"

func (older) open(ctx context.Context, b *bridge, a *arguments) (string, error) {
	o := &object{}
	a.copy(o, map[string]jsonrpc.Span{
		"cwd": a.cwd, "model": a.model, "sandbox": a.sandbox, "approvalPolicy": a.policy, "profile": a.profile,
		"config": a.config, "baseInstructions": a.base, "developerInstructions": a.developer, "compactPrompt": a.compact,
	}, "cwd", "model", "sandbox", "approvalPolicy", "profile", "config", "baseInstructions", "developerInstructions", "compactPrompt")
	m, err := b.ask(ctx, "newConversation", o.json(), nil)
	if err != nil {
		return "", err
	}
	id := text(m.Raw, m.Result, "conversationId")
	if id == "" {
		return "", errNoThread
	}
	b.server.remember(id, conversation{
		rollout: text(m.Raw, m.Result, "rolloutPath"), model: text(m.Raw, m.Result, "model"),
		cwd: a.of(a.cwd), policy: a.of(a.policy), sandbox: a.of(a.sandbox),
	})
	return id, nil
}

// resume resumes a conversation by its id. If that fails and Dragoman knows the path of the
// conversation's rollout file, resume uses this path.
func (older) resume(ctx context.Context, b *bridge, thread string) error {
	_, err := b.ask(ctx, "resumeConversation", (&object{}).text("conversationId", thread).json(), nil)
	if path := b.server.recall(thread).rollout; err != nil && path != "" {
		_, err = b.ask(ctx, "resumeConversation", (&object{}).text("path", path).json(), nil)
	}
	return err
}

func (older) begin(ctx context.Context, b *bridge, t *turn, a *arguments) error {
	id := t.threadID()
	m, err := b.ask(ctx, "addConversationListener", (&object{}).text("conversationId", id).json(), nil)
	if err != nil {
		return err
	}
	t.subscribed(text(m.Raw, m.Result, "subscriptionId"))
	items := append(append([]byte(`[{"type":"text","data":{"text":`), a.prompt.Of(a.raw)...), `}}]`...)
	o := (&object{}).text("conversationId", id).member("items", items)
	open := func(m *jsonrpc.Message) {
		if m.Kind != jsonrpc.Result {
			return
		}
		t.learn("")
		if !m.ResultMember("finish_reason").IsZero() {
			// This answer comes from a wrapper, which answers only at the end of the turn and sends
			// no event for the end.
			t.take(older{}, &event{thread: id, kind: ended, status: completed})
		}
	}
	_, err = b.ask(ctx, "sendUserMessage", o.json(), open)
	if !isUnknown(err) {
		return err
	}
	// The worker does not support sendUserMessage. Use sendUserTurn, which needs all settings
	// again.
	c := b.server.recall(id)
	o = (&object{}).text("conversationId", id).member("items", items).text("cwd", cmp.Or(c.cwd, ".")).
		text("approvalPolicy", cmp.Or(c.policy, "on-request")).member("sandboxPolicy", sandboxPolicy(c.sandbox)).
		text("model", c.model).text("summary", "auto")
	_, err = b.ask(ctx, "sendUserTurn", o.json(), open)
	return err
}

// sandboxPolicy returns the policy for a sandbox mode. If mode is "", it returns the strictest
// policy, read-only.
func sandboxPolicy(mode string) []byte {
	o := (&object{}).text("mode", cmp.Or(mode, "read-only"))
	if mode == "workspace-write" {
		no := []byte("false")
		o.member("network_access", no).member("exclude_tmpdir_env_var", no).member("exclude_slash_tmp", no)
	}
	return o.json()
}

func (older) interrupt(ctx context.Context, b *bridge, t *turn) error {
	_, err := b.ask(ctx, "interruptConversation", (&object{}).text("conversationId", t.threadID()).json(), nil)
	return err
}

// finish removes the listener that begin added. With two listeners, each event would arrive twice.
func (older) finish(b *bridge, t *turn) {
	id := t.subscription()
	if id == "" {
		return
	}
	ctx, stop := context.WithTimeout(b.life, 5*time.Second)
	defer stop()
	_, _ = b.ask(ctx, "removeConversationListener", (&object{}).text("subscriptionId", id).json(), nil)
}

// isOlder reports whether a notification belongs to the older protocol.
func isOlder(m *jsonrpc.Message) bool {
	return strings.HasPrefix(m.Method, eventPrefix) || !m.Param("conversationId").IsZero() || !m.Param("conversation_id").IsZero()
}

func (older) hear(m *jsonrpc.Message) (e event, ok bool) {
	keys := [...]string{"conversationId", "id", "msg", "conversation_id"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Params, keys[:], at[:])
	if e.thread, _ = jsonrpc.Text(m.Raw, at[0]); e.thread == "" {
		e.thread, _ = jsonrpc.Text(m.Raw, at[3])
	}
	e.turn, _ = jsonrpc.Text(m.Raw, at[1])
	msg := at[2]
	if e.thread == "" {
		return e, false
	}
	kind := text(m.Raw, msg, "type")
	if msg.IsZero() {
		msg, kind = m.Params, snakeCase(strings.TrimPrefix(m.Method, eventPrefix+"/"))
	}
	switch kind {
	case "task_started":
		e.kind = started
	case "agent_message_delta":
		e.kind, e.text = delta, text(m.Raw, msg, "delta")
	case "agent_message":
		e.kind, e.text = message, messageOf(m.Raw, jsonrpc.Find(m.Raw, msg, "message"))
	case "exec_command_begin":
		e.kind, e.text = step, "$ "+excerpt.Lines(commandOf(m.Raw, jsonrpc.Find(m.Raw, msg, "command")), 400)
	case "stream_error":
		e.kind, e.text = step, "Codex retries: "+excerpt.Lines(text(m.Raw, msg, "message"), 400)
	case "error":
		// This event must end the turn, because a later task_complete does not mention the error.
		e.kind, e.status, e.text = ended, failed, excerpt.Lines(text(m.Raw, msg, "message"), 4<<10)
	case "task_complete":
		e.kind, e.status, e.text = ended, completed, text(m.Raw, msg, "last_agent_message")
	case "turn_aborted":
		e.kind, e.status = ended, interrupted
	}
	return e, true
}

// snakeCase returns a name in snake_case, for example agent_message for agentMessage.
func snakeCase(name string) string {
	var b strings.Builder
	for _, r := range name {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// messageOf returns the text of a message, which may be a string or an object with content.
func messageOf(raw []byte, at jsonrpc.Span) string {
	if s, ok := jsonrpc.Text(raw, at); ok {
		return s
	}
	return text(raw, at, "content")
}

// commandOf returns a command as text. The command may be a string or an array of arguments.
func commandOf(raw []byte, at jsonrpc.Span) string {
	if s, ok := jsonrpc.Text(raw, at); ok {
		return s
	}
	var words []string
	for x := range jsonrpc.Elements(raw, at) {
		s, _ := jsonrpc.Text(raw, x)
		if s == "" || strings.ContainsAny(s, " \t\n'\"\\$`&|;<>()*?[]{}!#~") {
			s = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
		words = append(words, s)
	}
	return strings.Join(words, " ")
}
