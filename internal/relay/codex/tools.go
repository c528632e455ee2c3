package codex

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// These are the tools. Their names and arguments are the same as in Codex's own MCP server.
const (
	toolStart    = "codex"
	toolContinue = "codex-reply"

	instructions = "Codex is a coding agent with its own shell and working directory. Start a task with the tool codex. " +
		"Its result contains a threadId. To continue the same task, call codex-reply with this threadId. " +
		"If Codex needs permission, it asks the user while the call runs."
)

const outputSchema = `{"type":"object","properties":{` +
	`"threadId":{"type":"string","description":"Id of the thread, for codex-reply"},` +
	`"content":{"type":"string","description":"Codex's last message"}},"required":["threadId","content"]}`

var toolList = []byte(`{"tools":[` +
	`{"name":"codex","title":"Codex","description":"Start a new Codex thread and run one turn in it. Returns Codex's last message and the threadId that codex-reply needs to continue the thread.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"prompt":{"type":"string","minLength":1,"description":"The task for Codex"},` +
	`"cwd":{"type":"string","description":"Working directory of the thread; relative to the directory in which Codex was started"},` +
	`"model":{"type":"string","description":"Model to use instead of the configured model"},` +
	`"sandbox":{"type":"string","enum":["read-only","workspace-write","danger-full-access"],"description":"What commands can access without permission of the user"},` +
	`"approval-policy":{"type":"string","enum":["untrusted","on-failure","on-request","never"],"description":"When Codex asks the user for permission; only older versions support on-failure"},` +
	`"profile":{"type":"string","description":"Profile in Codex's configuration; current versions accept a profile only on their command line"},` +
	`"config":{"type":"object","additionalProperties":true,"description":"Settings that override those in Codex's config.toml"},` +
	`"base-instructions":{"type":"string","description":"Instructions that replace Codex's own instructions"},` +
	`"developer-instructions":{"type":"string","description":"Instructions with the role developer"},` +
	`"compact-prompt":{"type":"string","description":"Prompt for the summary of a long thread"}},` +
	`"required":["prompt"]},"outputSchema":` + outputSchema + `,` +
	`"annotations":{"title":"Codex","readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}},` +
	`{"name":"codex-reply","title":"Codex reply","description":"Run another turn in a Codex thread that the tool codex started.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"threadId":{"type":"string","minLength":1,"description":"The threadId of an earlier result"},` +
	`"conversationId":{"type":"string","description":"Older name of threadId"},` +
	`"prompt":{"type":"string","minLength":1,"description":"The next message to Codex"}},` +
	`"required":["prompt"]},"outputSchema":` + outputSchema + `,` +
	`"annotations":{"title":"Codex reply","readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}}]}`)

// arguments are the arguments of one call. The spans refer to raw. Each span contains JSON of the
// right type, or is zero if the argument is absent.
type arguments struct {
	raw    []byte
	prompt jsonrpc.Span
	thread string // "" means a new thread

	cwd, model, sandbox, policy, profile, base, developer, compact jsonrpc.Span
	config                                                         jsonrpc.Span
}

// readArguments reads the arguments of a tool. problem tells the model what is wrong; it is "" if
// the arguments are valid. known is false for an unknown tool.
func readArguments(tool string, m *jsonrpc.Message) (a *arguments, problem string, known bool) {
	a = &arguments{raw: m.Raw}
	texts := map[string]*jsonrpc.Span{"prompt": &a.prompt}
	objects := map[string]*jsonrpc.Span{}
	var thread, conversation jsonrpc.Span
	switch tool {
	case toolStart:
		texts["cwd"], texts["model"], texts["sandbox"], texts["approval-policy"] = &a.cwd, &a.model, &a.sandbox, &a.policy
		texts["profile"], texts["base-instructions"] = &a.profile, &a.base
		texts["developer-instructions"], texts["compact-prompt"] = &a.developer, &a.compact
		objects["config"] = &a.config
	case toolContinue:
		texts["threadId"], texts["conversationId"] = &thread, &conversation
	default:
		return nil, "", false
	}
	for x := range jsonrpc.Members(m.Raw, m.Param("arguments")) {
		key, _ := jsonrpc.Text(m.Raw, x.Key)
		kind := jsonrpc.KindOf(m.Raw, x.Value)
		slot, want, named := texts[key], byte('"'), "a string"
		if objects[key] != nil {
			slot, want, named = objects[key], '{', "an object"
		}
		switch {
		case kind == 'n':
			// Ignore null, because models write null for arguments that they omit.
		case slot == nil:
			return nil, "Unknown argument: " + excerpt.Line(key, 80) + ". Other settings of Codex can be set with the argument config.", true
		case kind != want:
			return nil, "The argument " + key + " has to be " + named + ".", true
		default:
			*slot = x.Value
		}
	}
	if prompt, _ := jsonrpc.Text(m.Raw, a.prompt); strings.TrimSpace(prompt) == "" {
		return nil, "The argument prompt is missing. It must contain the task for Codex.", true
	}
	if tool == toolContinue {
		if thread.IsZero() {
			thread = conversation
		}
		if a.thread, _ = jsonrpc.Text(m.Raw, thread); a.thread == "" {
			return nil, "The argument threadId is missing. The result of the tool codex contains it.", true
		}
	}
	return a, "", true
}

// of returns the text of the JSON string at a span.
func (a *arguments) of(at jsonrpc.Span) string {
	s, _ := jsonrpc.Text(a.raw, at)
	return s
}

// copy adds arguments to o in the given order. names maps each key in o to the span of an argument.
// copy omits absent arguments.
func (a *arguments) copy(o *object, names map[string]jsonrpc.Span, order ...string) {
	for _, key := range order {
		if at := names[key]; !at.IsZero() {
			o.member(key, at.Of(a.raw))
		}
	}
}

// answer builds the result of a call. The text also contains the threadId, for models whose
// client does not show structured content. If thread is empty, there is no structured content.
func answer(thread, said string, failed bool, notes ...string) []byte {
	b := []byte(`{"content":[`)
	add := func(s string) {
		if b[len(b)-1] == '}' {
			b = append(b, ',')
		}
		b = append(jsonrpc.AppendQuote(append(b, `{"type":"text","text":`...), s), '}')
	}
	if said != "" {
		add(said)
	}
	for _, n := range notes {
		add(n)
	}
	if thread != "" {
		add("threadId: " + thread)
	}
	b = append(b, ']')
	if thread != "" {
		b = jsonrpc.AppendQuote(append(b, `,"structuredContent":{"threadId":`...), thread)
		b = append(jsonrpc.AppendQuote(append(b, `,"content":`...), said), '}')
	}
	if failed {
		b = append(b, `,"isError":true`...)
	}
	return append(b, '}')
}
