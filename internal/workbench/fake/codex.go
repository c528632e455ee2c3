package fake

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// codexServers returns the profiles of the Codex app-server workers, which use JSON-RPC but not MCP.
// Current workers have threads and turns. Older workers have conversations. The first word of the
// prompt decides what a turn does:
//
//	run    asks for approval of a command
//	patch  asks for approval of a file change
//	ask    asks the user something
//	grow   asks for more permissions
//	child  has a subagent ask for approval of a command
//	wait   says one word and then nothing until it is interrupted
//	quiet  says nothing until it is interrupted
//	fail   ends with an error
//	die    exits the process
//
// A turn with any other prompt repeats the prompt word by word.
func codexServers() []Profile {
	const outcomes = "how version 2 of the handshake is answered: accept, -32602, -32600, schema, silence, late (accepted after version 1 was offered), closed (an error that has nothing to do with the version)"
	events := Setting{"events", "no", `whether the worker prints {"event":"ready"} before its first message: yes or no`}
	mirror := Setting{"mirror", "accept", "how client_info in version 1 is answered: accept, or refuse with -32602"}
	form := Setting{"form", "worker", "worker, or shim: a wrapper that advertises models, returns the params of initialize, and answers at the end of a turn"}
	supervised := Setting{"supervised", "no", "no; required: the worker prints nothing and answers nothing unless CODEX_WORKER_SUPERVISED is true in its environment; or answers: without this variable, it prints only {\"event\":\"starting\"} and answers nothing"}
	profile := func(name, about string, kind Kind, older bool, v2 string) Profile {
		return Profile{
			Name: name, About: about, Kind: kind, Side: ServerSide, Settings: []Setting{{"v2", v2, outcomes}, mirror, form, supervised, events},
			server: func(s *settings) (*part, error) {
				for name, all := range map[string][]string{
					"v2":     {"accept", "-32602", "-32600", "schema", "silence", "late", "closed"},
					"mirror": {"accept", "refuse"}, "form": {"worker", "shim"}, "supervised": {"no", "required", "answers"},
				} {
					if _, err := s.oneOf(name, all...); err != nil {
						return nil, err
					}
				}
				w := &codexWorker{
					older: older, v2: s.values["v2"], ready: s.values["events"] == "yes", shim: s.values["form"] == "shim",
					noMirror: s.values["mirror"] == "refuse",
					mute:     s.values["supervised"] != "no" && os.Getenv("CODEX_WORKER_SUPERVISED") != "true",
					blank:    s.values["supervised"] == "required",
					pipes:    map[*conversation]*codexPipe{},
				}
				return &part{ed: editionOf(usual), twist: twist{open: w.open, receive: w.receive}}, nil
			},
		}
	}
	return []Profile{
		profile("codex-app-server", "A current Codex app-server worker, with threads and turns.", Dialect, false, "accept"),
		profile("codex-app-server-old", "An older Codex app-server worker, with conversations.", Dialect, true, "accept"),
		profile("reject-v2", "A Codex app-server worker that refuses version 2 of the handshake.", Fault, false, "-32602"),
	}
}

// codexWorker is the state of one server, shared by all its connections.
type codexWorker struct {
	older    bool
	v2       string
	ready    bool
	shim     bool
	noMirror bool // the worker refuses client_info
	mute     bool // the worker answers nothing, because CODEX_WORKER_SUPERVISED must be true and is not
	blank    bool // a mute worker prints nothing either

	mu    sync.Mutex
	pipes map[*conversation]*codexPipe
	last  int // the number of the last thread
}

// codexPipe is one connection. Only the goroutine that reads from the connection uses the codexPipe.
type codexPipe struct {
	w       *codexWorker
	c       *conversation
	out     outlet
	open    bool
	late    jsonrpc.ID // the id of an initialize request of version 2 that the worker has not answered yet
	threads map[string]*codexThread
	asks    int64
	waiting map[jsonrpc.ID]func(m *jsonrpc.Message) // the handler of each answer, by the id of the request
	turns   int
	ears    map[string]string // the ids of the conversations with a listener, by subscription id; only in older workers
}

type codexThread struct{ id, turn string }

func (w *codexWorker) open(ctx context.Context, c *conversation) {
	if c == nil {
		return // over HTTP, the worker cannot send messages of its own
	}
	w.mu.Lock()
	w.pipes[c] = &codexPipe{
		w: w, c: c, out: c.out, threads: map[string]*codexThread{}, waiting: map[jsonrpc.ID]func(*jsonrpc.Message){}, ears: map[string]string{},
	}
	w.mu.Unlock()
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		delete(w.pipes, c)
		w.mu.Unlock()
	})
	if w.shim && !(w.mute && w.blank) {
		c.out.send([]byte(`{"event":"starting"}`))
	}
	if (w.ready || w.shim) && !w.mute {
		c.out.send([]byte(`{"event":"ready"}`))
	}
}

func (w *codexWorker) receive(h *arrival, _ func()) {
	w.mu.Lock()
	p := w.pipes[h.c]
	w.mu.Unlock()
	m, err := jsonrpc.Scan(h.raw, jsonrpc.Limits{Bytes: maxMessage, Tolerant: true})
	if p == nil || err != nil || w.mute {
		return // the worker does not answer malformed input, batches, or messages with a null id
	}
	switch m.Kind {
	case jsonrpc.Request:
		p.request(m)
	case jsonrpc.Notification:
		if m.Method == "initialized" {
			p.c.s.violate(m.Method, "Codex does not need this notification")
			p.out.send([]byte(`{"error":{"code":-32601,"message":"unknown notification"}}`))
		}
	default:
		if f := p.waiting[m.ID]; f != nil {
			delete(p.waiting, m.ID)
			f(m)
		}
	}
}

// nextThread returns a thread id that is unique for the lifetime of the server.
func (w *codexWorker) nextThread() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	return "thread-" + strconv.Itoa(w.last)
}

// send sends a message with the given members. A wrapper (codexWorker.shim) adds the member
// "jsonrpc" to each message. A worker does not.
func (p *codexPipe) send(members string) {
	if p.w.shim {
		members = `"jsonrpc":"2.0",` + members
	}
	p.out.send([]byte("{" + members + "}"))
}

func (p *codexPipe) result(m *jsonrpc.Message, result string) {
	p.send(`"id":` + string(m.ID) + `,"result":` + result)
}

func (p *codexPipe) fail(m *jsonrpc.Message, code int, text string) {
	p.send(`"error":{"code":` + strconv.Itoa(code) + `,"message":` + quote(text) + `},"id":` + string(m.ID))
}

func (p *codexPipe) notify(method, params string) {
	p.send(`"method":"` + method + `","params":` + params)
}

// ask sends a request, and registers the parameter then as the handler of the answer.
func (p *codexPipe) ask(method, params string, then func(*jsonrpc.Message)) {
	id := jsonrpc.IntID(p.asks) // ids start at 0, as in the real worker
	p.asks++
	p.waiting[id] = then
	p.send(`"method":"` + method + `","id":` + string(id) + `,"params":` + params)
}

func paramText(m *jsonrpc.Message, key string) string {
	s, _ := jsonrpc.Text(m.Raw, m.Param(key))
	return s
}

// olderPrompt returns the text of sendUserMessage.
func olderPrompt(m *jsonrpc.Message) (prompt string) {
	for x := range jsonrpc.Elements(m.Raw, m.Param("items")) {
		prompt, _ = jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, jsonrpc.Find(m.Raw, x, "data"), "text"))
	}
	return prompt
}

func (p *codexPipe) request(m *jsonrpc.Message) {
	switch {
	case m.Method == "initialize":
		p.initialize(m)
	case !p.open:
		p.fail(m, -32600, "Not initialized")
	case p.w.shim:
		p.shimRequest(m)
	case p.w.older:
		p.olderRequest(m)
	default:
		p.currentRequest(m)
	}
}

// codexRefusals has the errors with which a worker refuses version 2, by the setting v2.
var codexRefusals = map[string]struct {
	code int
	text string
}{
	"-32602": {-32602, "Invalid params: unknown field `protocolVersion`"},
	"-32600": {-32600, "Invalid request"},
	"schema": {-32000, "data did not match the schema: additional properties are not allowed"},
	"closed": {-32000, "not logged in"},
}

// initialize answers an initialize request of version 1 or 2 of the handshake. A worker that does
// not know version 2 refuses a request with a member of version 2, even if the member is null.
func (p *codexPipe) initialize(m *jsonrpc.Message) {
	two := false
	for _, key := range []string{"protocolVersion", "protocol_version", "capabilities"} {
		two = two || !m.Param(key).IsZero()
	}
	name := jsonrpc.Find(m.Raw, m.Param("clientInfo"), "name")
	switch {
	case name.IsZero():
		p.fail(m, -32600, "Invalid request: missing field `clientInfo`")
		return
	case p.open:
		p.fail(m, -32600, "Already initialized")
		return
	}
	if two {
		if r, ok := codexRefusals[p.w.v2]; ok {
			p.fail(m, r.code, r.text)
			return
		}
		switch p.w.v2 {
		case "silence":
			return
		case "late":
			p.late = m.ID
			return
		}
	}
	if p.w.noMirror && !m.Param("client_info").IsZero() {
		p.fail(m, -32602, "Invalid params: unknown field `client_info`")
		return
	}
	p.open = true
	if p.w.shim {
		params := m.Params.Of(m.Raw)
		p.result(m, `{"advertised_models":["fake-model"],"capabilities":{"tools":{}},"receivedParams":`+string(params)+`}`)
		return
	}
	agent := `{"userAgent":"fake/0.0.1 (Debian 12.0.0; x86_64) xterm (fake; 1)","codexHome":"/nowhere","platformFamily":"unix","platformOs":"linux"}`
	if p.w.older {
		agent = `{"userAgent":"fake/0.0.1 (Debian 12.0.0; x86_64) xterm (fake; 1)"}`
	}
	if p.late != "" {
		p.out.send([]byte(`{"id":` + string(p.late) + `,"result":` + agent + `}`))
		p.fail(m, -32600, "Already initialized")
		return
	}
	p.result(m, agent)
	if !p.w.older {
		p.notify("remoteControl/status/changed", `{"status":"disabled","serverName":"fake"}`)
	}
}

func (p *codexPipe) currentRequest(m *jsonrpc.Message) {
	switch m.Method {
	case "thread/start":
		if s := paramText(m, "sandbox"); s != "" && s != "read-only" && s != "workspace-write" && s != "danger-full-access" {
			p.fail(m, -32600, "Invalid request: unknown variant `"+s+"`, expected one of `read-only`, `workspace-write`, `danger-full-access`")
			return
		}
		t := &codexThread{id: p.w.nextThread()}
		p.threads[t.id] = t
		thread := `{"id":` + quote(t.id) + `,"parentThreadId":null,"status":{"type":"idle"},"cwd":` + quote(paramText(m, "cwd")) + `}`
		p.result(m, `{"thread":`+thread+`,"model":"fake-model"}`)
		p.notify("thread/started", `{"thread":`+thread+`}`)
	case "thread/resume":
		id := paramText(m, "threadId")
		if !strings.HasPrefix(id, "thread-") {
			p.fail(m, -32600, "no rollout found for thread id "+id)
			return
		}
		p.threads[id] = &codexThread{id: id}
		p.result(m, `{"thread":{"id":`+quote(id)+`}}`)
	case "turn/start":
		t := p.threads[paramText(m, "threadId")]
		if t == nil {
			p.fail(m, -32600, "thread not found: "+paramText(m, "threadId"))
			return
		}
		prompt := ""
		for x := range jsonrpc.Elements(m.Raw, m.Param("input")) {
			prompt, _ = jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, x, "text"))
		}
		steered := t.turn != ""
		if !steered {
			p.turns++
			t.turn = "turn-" + strconv.Itoa(p.turns)
		}
		p.result(m, `{"turn":{"id":"`+t.turn+`","items":[],"status":"inProgress","error":null}}`)
		if !steered {
			p.play(t, prompt)
		}
	case "turn/interrupt":
		t := p.threads[paramText(m, "threadId")]
		if t == nil || t.turn == "" || t.turn != paramText(m, "turnId") {
			p.fail(m, -32600, "no active turn to interrupt")
			return
		}
		p.result(m, "{}")
		p.finish(t, "interrupted", "", "")
	default:
		p.fail(m, -32600, "Invalid request: unknown variant `"+m.Method+"`, expected one of `initialize`, `thread/start`, `thread/resume`, `turn/start`, `turn/interrupt`")
	}
}

// shimRequest simulates a wrapper that answers sendUserMessage at the end of the turn. The method
// names of the wrapper's events have no prefix. The wrapper refuses unknown methods.
func (p *codexPipe) shimRequest(m *jsonrpc.Message) {
	id := paramText(m, "conversationId")
	switch m.Method {
	case "newConversation":
		id = p.w.nextThread()
		p.threads[id] = &codexThread{id: id}
		p.result(m, `{"conversation_id":`+quote(id)+`,"conversationId":`+quote(id)+`,"model":"fake-model"}`)
	case "addConversationListener":
		p.result(m, `{"subscription_id":"ear","subscriptionId":"ear"}`)
	case "removeConversationListener":
		p.result(m, "{}")
	case "sendUserMessage":
		prompt := olderPrompt(m)
		if prompt == "fail" {
			p.send(`"id":` + string(m.ID) + `,"error":{"code":"worker_error","message":"the model is not there"}`)
			return
		}
		text := "You said: " + prompt
		of := `{"conversation_id":` + quote(id) + `,"request_id":` + quote(id)
		p.notify("agentMessageDelta", of+`,"delta":`+quote(text)+`}`)
		p.notify("agentMessage", of+`,"message":{"role":"assistant","content":`+quote(text)+`}}`)
		p.notify("tokenCount", of+`,"prompt_tokens":8,"completion_tokens":4}`)
		p.result(m, `{"finish_reason":"stop"}`)
	default:
		p.fail(m, -32601, "Unknown method: "+m.Method)
	}
}

func (p *codexPipe) olderRequest(m *jsonrpc.Message) {
	id := paramText(m, "conversationId")
	t := p.threads[id]
	switch m.Method {
	case "newConversation":
		t := &codexThread{id: p.w.nextThread()}
		p.threads[t.id] = t
		p.result(m, `{"conversationId":`+quote(t.id)+`,"model":"fake-model","rolloutPath":"/nowhere/`+t.id+`.jsonl"}`)
	case "resumeConversation":
		// The file name contains the id of the thread.
		name := strings.TrimSuffix(strings.TrimPrefix(paramText(m, "path"), "/nowhere/"), ".jsonl")
		if !strings.HasPrefix(name, "thread-") {
			p.fail(m, -32600, "Invalid request")
			return
		}
		p.threads[name] = &codexThread{id: name}
		p.result(m, `{"conversationId":`+quote(name)+`,"model":"fake-model"}`)
	case "addConversationListener":
		if t == nil {
			p.fail(m, -32600, "conversation not found: "+id)
			return
		}
		ear := "ear-" + strconv.Itoa(len(p.ears)+1)
		for _, of := range p.ears {
			if of == id {
				p.c.s.violate(m.Method, "the conversation already has a listener, so a second listener doubles all events")
			}
		}
		p.ears[ear] = id
		p.result(m, `{"subscriptionId":"`+ear+`"}`)
	case "removeConversationListener":
		delete(p.ears, paramText(m, "subscriptionId"))
		p.result(m, "{}")
	case "sendUserMessage":
		if t == nil {
			p.fail(m, -32600, "conversation not found: "+id)
			return
		}
		p.result(m, "{}")
		p.turns++
		t.turn = strconv.Itoa(p.turns)
		p.play(t, olderPrompt(m))
	case "interruptConversation":
		if t == nil || t.turn == "" {
			p.fail(m, -32600, "nothing to interrupt")
			return
		}
		p.finish(t, "interrupted", "", "")
		p.result(m, `{"abortReason":"interrupted"}`)
	default:
		p.fail(m, -32600, "Invalid request")
	}
}

// The following methods send the events of a turn, in the format of current workers or in that of
// older workers.

func (p *codexPipe) event(t *codexThread, kind, members string) {
	p.notify("codex/event/"+kind, `{"id":"`+t.turn+`","msg":{"type":"`+kind+`"`+members+`},"conversationId":`+quote(t.id)+`}`)
}

func (p *codexPipe) item(t *codexThread, what, members string) {
	p.notify(what, `{"threadId":`+quote(t.id)+`,"turnId":"`+t.turn+`",`+members+`}`)
}

func (p *codexPipe) delta(t *codexThread, text string) {
	if p.w.older {
		p.event(t, "agent_message_delta", `,"delta":`+quote(text))
		return
	}
	p.item(t, "item/agentMessage/delta", `"itemId":"msg","delta":`+quote(text))
}

// finish ends a turn.
func (p *codexPipe) finish(t *codexThread, status, text, failure string) {
	turn := t.turn
	defer func() { t.turn = "" }()
	if p.w.older {
		switch status {
		case "interrupted":
			p.event(t, "turn_aborted", `,"reason":"interrupted"`)
		case "failed":
			p.event(t, "error", `,"message":`+quote(failure))
			p.event(t, "task_complete", `,"last_agent_message":null`)
		default:
			p.event(t, "agent_message", `,"message":`+quote(text))
			p.event(t, "task_complete", `,"last_agent_message":`+quote(text))
		}
		return
	}
	problem, items := "null", "[]"
	switch {
	case failure != "":
		problem = `{"message":` + quote(failure) + `,"codexErrorInfo":"other","additionalDetails":null}`
		p.item(t, "error", `"error":`+problem+`,"willRetry":false`)
	case status == "completed":
		whole := `{"type":"agentMessage","id":"msg","text":` + quote(text) + `}`
		p.item(t, "item/completed", `"item":`+whole)
		items = "[" + whole + "]"
	}
	p.notify("turn/completed", `{"threadId":`+quote(t.id)+`,"turn":{"id":"`+turn+`","items":`+items+`,"status":"`+status+`","error":`+problem+`}}`)
}

// speak sends a text in pieces, and then ends the turn.
func (p *codexPipe) speak(t *codexThread, text string) {
	for _, word := range strings.SplitAfter(text, " ") {
		p.delta(t, word)
	}
	p.finish(t, "completed", text, "")
}

// play runs a turn until the turn ends or waits for a message from the client.
func (p *codexPipe) play(t *codexThread, prompt string) {
	if p.w.older {
		p.event(t, "task_started", `,"model_context_window":null`)
	} else {
		p.item(t, "turn/started", `"turn":{"id":"`+t.turn+`","items":[],"status":"inProgress","error":null}`)
	}
	word, rest, _ := strings.Cut(prompt, " ")
	switch word {
	case "run":
		p.askCommand(t, t.id, rest)
	case "patch":
		p.askPatch(t)
	case "ask":
		p.askUser(t)
	case "grow":
		p.askPermission(t)
	case "child":
		child := t.id + "-child"
		p.notify("thread/started", `{"thread":{"id":`+quote(child)+`,"parentThreadId":`+quote(t.id)+`}}`)
		p.askCommand(t, child, rest)
	case "wait":
		p.delta(t, "Waiting")
	case "quiet":
	case "fail":
		p.finish(t, "failed", "", "the model is not there")
	case "die":
		p.c.s.die()
	default:
		p.speak(t, "You said: "+prompt)
	}
}

// decided continues a turn after the answer to an approval request.
func (p *codexPipe) decided(t *codexThread, m *jsonrpc.Message, what string) {
	if t.turn == "" {
		return // the turn was interrupted in the meantime
	}
	if m.Kind == jsonrpc.Failure {
		p.speak(t, what+" got an error")
		return
	}
	at := m.ResultMember("decision")
	decision, ok := jsonrpc.Text(m.Raw, at)
	if !ok {
		decision = string(at.Of(m.Raw))
	}
	if decision == "cancel" || decision == "abort" {
		p.finish(t, "interrupted", "", "")
		return
	}
	p.speak(t, what+" got "+decision)
}

func (p *codexPipe) askCommand(t *codexThread, thread, command string) {
	if command == "" {
		command = "touch made"
	}
	then := func(m *jsonrpc.Message) { p.decided(t, m, "the command") }
	if p.w.older {
		p.event(t, "exec_command_begin", `,"call_id":"call","command":["bash","-lc",`+quote(command)+`],"cwd":"/work"`)
		p.ask("execCommandApproval", `{"conversationId":`+quote(thread)+`,"callId":"call","command":["bash","-lc",`+quote(command)+`],"cwd":"/work","reason":"need it","parsedCmd":[]}`, then)
		return
	}
	p.item(t, "item/started", `"item":{"type":"commandExecution","id":"call","command":`+quote(command)+`,"cwd":"/work","status":"inProgress"}`)
	p.ask("item/commandExecution/requestApproval", `{"kind":"command","threadId":`+quote(thread)+`,"turnId":"`+t.turn+`","itemId":"call","startedAtMs":0,"reason":"need it","command":`+
		quote(command)+`,"cwd":"/work","availableDecisions":["accept",{"acceptWithExecpolicyAmendment":{"execpolicy_amendment":["touch"]}},"cancel"]}`, then)
}

func (p *codexPipe) askPatch(t *codexThread) {
	then := func(m *jsonrpc.Message) { p.decided(t, m, "the patch") }
	if p.w.older {
		p.ask("applyPatchApproval", `{"conversationId":`+quote(t.id)+`,"callId":"call","fileChanges":{"/work/hello.txt":{"type":"add","content":"hello\n"}},"reason":null,"grantRoot":null}`, then)
		return
	}
	p.item(t, "item/started", `"item":{"type":"fileChange","id":"patch","changes":[{"path":"/work/hello.txt","kind":{"type":"add"},"diff":"hello\n"}],"status":"inProgress"}`)
	p.ask("item/fileChange/requestApproval", `{"threadId":`+quote(t.id)+`,"turnId":"`+t.turn+`","itemId":"patch","startedAtMs":0,"reason":null,"grantRoot":null}`, then)
}

func (p *codexPipe) askUser(t *codexThread) {
	p.ask("item/tool/requestUserInput", `{"threadId":`+quote(t.id)+`,"turnId":"`+t.turn+`","itemId":"ask","isBlocking":true,"questions":[`+
		`{"id":"colour","header":"Colour","question":"Which colour?","options":[{"label":"red","description":""},{"label":"blue","description":""}]},`+
		`{"id":"word","header":"Password","question":"Which password?","isSecret":true}]}`, func(m *jsonrpc.Message) {
		if t.turn != "" {
			p.speak(t, "the answers are "+string(m.ResultMember("answers").Of(m.Raw)))
		}
	})
}

func (p *codexPipe) askPermission(t *codexThread) {
	p.ask("item/permissions/requestApproval", `{"threadId":`+quote(t.id)+`,"turnId":"`+t.turn+`","itemId":"grow","cwd":"/work","startedAtMs":0,"permissions":{"network":{"enabled":true}}}`, func(m *jsonrpc.Message) {
		if t.turn != "" {
			p.speak(t, "granted "+string(m.Result.Of(m.Raw)))
		}
	})
}
