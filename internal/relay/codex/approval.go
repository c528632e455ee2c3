package codex

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// question is a request from the worker, converted to an elicitation for the client.
type question struct {
	thread string
	params []byte // the params of elicitation/create, without _meta; nil if no client can answer the question
	url    bool   // the question asks to open a URL instead of filling in a form
	// reply converts the client's result to the answer for the worker. accepted reports whether the
	// user accepted the request.
	reply func(raw []byte, result jsonrpc.Span) (answer []byte, accepted bool)
	safe  []byte // the answer for the worker if the request is not accepted
	what  string // what the worker asked for, to complete "Codex asked …"
}

// handleRequest handles a request from the worker. It runs on the goroutine that reads from the
// worker.
func (b *bridge) handleRequest(m *jsonrpc.Message) {
	q := b.questionOf(m)
	if q == nil {
		// The bridge does not support this request. For example, the worker asks for credentials,
		// or wants the client to run a tool.
		b.answerLater(func() {
			b.worker.refuse(m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: excerpt.Line(m.Method, 80) + " is not supported by this client"})
		})
		return
	}
	t := b.asker(q.thread)
	if t == nil {
		// Dragoman does not know which client must answer the question.
		b.server.o.Log.Warn("declined a question of Codex that belongs to no call", "server", b.server.o.Server, "method", excerpt.Line(m.Method, 80))
		b.answerLater(func() { b.worker.reply(m.ID, q.safe) })
		return
	}
	b.mu.Lock()
	can := q.params != nil && (b.forms && !q.url || b.urls && q.url)
	many := len(b.open) >= maxQuestions
	twice := b.open[m.ID] != nil
	b.mu.Unlock()
	if twice {
		// An earlier request with this id is still open, and an answer could belong to either
		// request.
		b.server.o.Log.Warn("discarded a question of Codex: an open question has the same id", "server", b.server.o.Server, "method", excerpt.Line(m.Method, 80))
		return
	}
	if !can || many {
		t.note("Codex asked " + q.what + ". Dragoman declined, because this client does not support such questions.")
		b.answerLater(func() { b.worker.reply(m.ID, q.safe) })
		return
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		cancel(nil)
		return
	}
	b.open[m.ID] = cancel
	b.running.Go(func() {
		defer func() {
			b.mu.Lock()
			delete(b.open, m.ID)
			b.mu.Unlock()
			cancel(nil)
		}()
		b.put(ctx, t, m.ID, q)
	})
}

// answerLater runs f, which writes an answer to the worker, on a separate goroutine. The goroutine
// that reads from the worker must not wait until the worker accepts the answer. If maxAnswers
// answers are still being written, the worker has probably stopped reading, and answerLater drops
// f.
func (b *bridge) answerLater(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing || b.answering >= maxAnswers {
		return
	}
	b.answering++
	b.running.Go(func() {
		f()
		b.mu.Lock()
		b.answering--
		b.mu.Unlock()
	})
}

// put sends a question to the client. Then it sends the client's decision to the worker.
func (b *bridge) put(ctx context.Context, t *turn, id jsonrpc.ID, q *question) {
	result, err := b.elicit(ctx, t, q)
	switch {
	case err == nil:
		reply, accepted := q.reply(result.Raw, result.Result)
		if !accepted {
			t.note("Codex asked " + q.what + ". The client declined.")
		}
		b.worker.reply(id, reply)
	case errors.Is(context.Cause(ctx), errResolved):
		// The worker no longer waits for an answer.
	case ctx.Err() != nil:
		// The turn is about to end, so decline the request.
		b.worker.reply(id, q.safe)
	default:
		t.note("Codex asked " + q.what + ". Dragoman declined, because no user could be asked (" + excerpt.Line(err.Error(), 200) + ").")
		b.worker.reply(id, q.safe)
	}
}

// elicit sends a question to the client and waits for the result. The progress token in the
// question identifies the call that caused the question. Between Dragoman and this bridge, the
// progress token of a call is the id of the call.
func (b *bridge) elicit(ctx context.Context, t *turn, q *question) (*jsonrpc.Message, error) {
	c := make(chan *jsonrpc.Message, 1)
	b.mu.Lock()
	b.lastAsk++
	n := b.lastAsk
	b.asks[n] = c
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.asks, n)
		b.mu.Unlock()
	}()
	var e jsonrpc.Edits
	meta := (&object{}).member(mcp.KeyProgressToken, []byte(t.id)).json()
	e.Object(mcp.WhyOwnText, q.params, jsonrpc.Whole(q.params), nil, jsonrpc.Field{Key: mcp.KeyMeta, Value: meta})
	b.say(jsonrpc.AppendRequest(nil, jsonrpc.IntID(n), mcp.MethodElicit, jsonrpc.Splice(nil, q.params, &e)))
	select {
	case m := <-c:
		if m.Kind == jsonrpc.Failure {
			return nil, failureOf(m)
		}
		return m, nil
	case <-ctx.Done():
		note := (&object{}).member("requestId", []byte(jsonrpc.IntID(n))).text("reason", "Codex no longer waits for the answer")
		b.say(jsonrpc.AppendNotification(nil, mcp.NoteCancelled, note.json()))
		return nil, context.Cause(ctx)
	}
}

// answered handles the client's response to a question.
func (b *bridge) answered(m *jsonrpc.Message) {
	n, ok := jsonrpc.Int([]byte(m.ID), jsonrpc.Span{End: len(m.ID)})
	b.mu.Lock()
	c := b.asks[n]
	delete(b.asks, n)
	b.mu.Unlock()
	if ok && c != nil {
		c <- m
	}
}

// questionOf converts a request from the worker to an elicitation. It returns nil if no client can
// answer the request.
func (b *bridge) questionOf(m *jsonrpc.Message) *question {
	q := &question{thread: text(m.Raw, m.Params, "threadId")}
	if q.thread == "" {
		q.thread = text(m.Raw, m.Params, "conversationId")
	}
	switch m.Method {
	case "item/commandExecution/requestApproval":
		b.commandApproval(m, q, newerDecisions)
	case "execCommandApproval":
		b.commandApproval(m, q, b.olderDecisions())
	case "item/fileChange/requestApproval":
		patch := ""
		if t := b.asker(q.thread); t != nil {
			patch = t.patch(text(m.Raw, m.Params, "itemId"))
		}
		fileApproval(m, q, patch, newerDecisions)
	case "applyPatchApproval":
		fileApproval(m, q, patchOf(m.Raw, m.Param("fileChanges")), b.olderDecisions())
	case "item/permissions/requestApproval":
		permissionApproval(m, q)
	case "item/tool/requestUserInput":
		userInput(m, q)
	case "mcpServer/elicitation/request":
		elicitation(m, q)
	default:
		return nil
	}
	return q
}

// decisions has the JSON value that the worker expects for each decision.
type decisions struct{ accept, session, decline, cancel []byte }

var newerDecisions = decisions{accept: []byte(`"accept"`), session: []byte(`"acceptForSession"`), decline: []byte(`"decline"`), cancel: []byte(`"cancel"`)}

// olderDecisions returns the decisions for the requests execCommandApproval and applyPatchApproval.
// Some workers that have threads send these requests too, and expect a reason for a denial.
func (b *bridge) olderDecisions() decisions {
	d := decisions{accept: []byte(`"approved"`), session: []byte(`"approved_for_session"`), decline: []byte(`"denied"`), cancel: []byte(`"abort"`)}
	if !b.server.older.Load() {
		d.decline = []byte(`{"denied":{"rejection":"declined by the user"}}`)
	}
	return d
}

// These are the choices that a form offers for a decision.
const (
	chooseAccept  = "accept"
	chooseSession = "accept for session"
	chooseAlways  = "accept always"
	chooseDecline = "decline"
	chooseCancel  = "cancel"
)

// approve completes q as a question that asks for a decision. session means that the form offers
// "accept for session". If always is not nil, the form offers "accept always", and always is the
// value for this decision.
func (q *question) approve(message string, d decisions, session bool, always []byte) {
	choices := []string{chooseAccept}
	about := "accept: allow this once"
	if session {
		choices = append(choices, chooseSession)
		about += "; accept for session: allow this and similar requests until the thread ends"
	}
	if always != nil {
		choices = append(choices, chooseAlways)
		about += "; accept always: also allow all later commands that begin like this one"
	}
	choices = append(choices, chooseDecline, chooseCancel)
	about += "; decline: refuse, and Codex continues; cancel: refuse and end the turn"
	decide := func(decision []byte) []byte { return (&object{}).member("decision", decision).json() }
	q.safe = decide(d.decline)
	q.params = form(message, field{key: "decision", title: "Decision", about: about, choices: choices})
	q.reply = func(raw []byte, result jsonrpc.Span) ([]byte, bool) {
		switch text(raw, result, "action") {
		case "accept":
			switch text(raw, jsonrpc.Find(raw, result, "content"), "decision") {
			case chooseAccept:
				return decide(d.accept), true
			case chooseSession:
				if session {
					return decide(d.session), true
				}
			case chooseAlways:
				if always != nil {
					return decide(always), true
				}
			case chooseCancel:
				return decide(d.cancel), false
			}
		case "cancel":
			return decide(d.cancel), false
		}
		return q.safe, false
	}
}

// maxShown is the maximum length in bytes of a command or patch in a question.
const maxShown = 8 << 10

// maxRule is the maximum length in bytes of a rule that the form shows for "accept always".
const maxRule = 1 << 10

// maxFields is the maximum number of fields of a form.
const maxFields = 32

func (b *bridge) commandApproval(m *jsonrpc.Message, q *question, d decisions) {
	command := excerpt.Lines(commandOf(m.Raw, m.Param("command")), maxShown)
	network := m.Param("networkApprovalContext")
	if host := text(m.Raw, network, "host"); host != "" && command == "" {
		command = text(m.Raw, network, "protocol") + "://" + excerpt.Line(host, 300)
	}
	message := "Codex asks to run a command"
	if cwd := text(m.Raw, m.Params, "cwd"); cwd != "" {
		message += " in " + excerpt.Line(cwd, 400)
	}
	if command == "" {
		command = "(Codex does not say which)"
	}
	message += ":\n\n" + command
	q.what = "to run " + excerpt.Line(command, 200)

	// If the worker lists the decisions that it accepts, the form offers "accept for session" and
	// "accept always" only if the list has them.
	session, always := true, []byte(nil)
	if list := m.Param("availableDecisions"); jsonrpc.KindOf(m.Raw, list) == '[' {
		session = false
		for x := range jsonrpc.Elements(m.Raw, list) {
			if string(x.Of(m.Raw)) == string(d.session) {
				session = true
			}
			if !jsonrpc.Find(m.Raw, x, "acceptWithExecpolicyAmendment").IsZero() {
				always = x.Of(m.Raw)
			}
		}
	}
	if text(m.Raw, m.Params, "kind") == "humanCommand" {
		session, always = false, nil
	}
	if always != nil {
		// The worker chooses the rule, and the rule may allow more than this command. So the form
		// must show the rule. If the rule is too long, the form does not offer "accept always".
		rule := excerpt.Lines(string(jsonrpc.Find(always, jsonrpc.Whole(always), "acceptWithExecpolicyAmendment").Of(always)), 2*maxRule)
		if len(rule) > maxRule {
			always = nil
		} else {
			message += "\n\nThe choice accept always also allows all later commands that match this rule: " + rule
		}
	}
	q.approve(message+reasonOf(m), d, session, always)
}

func fileApproval(m *jsonrpc.Message, q *question, patch string, d decisions) {
	message := "Codex asks to change files"
	if root := text(m.Raw, m.Params, "grantRoot"); root != "" {
		message += " and to be allowed to write below " + excerpt.Line(root, 400)
	}
	if patch == "" {
		patch = "(Codex does not say which)"
	}
	message += ":\n\n" + patch
	q.what = "to change files"
	q.approve(message+reasonOf(m), d, true, nil)
}

func reasonOf(m *jsonrpc.Message) string {
	if why := excerpt.Lines(text(m.Raw, m.Params, "reason"), 1<<10); why != "" {
		return "\n\nReason: " + why
	}
	return ""
}

// patchOf formats file changes. The changes are an array of objects with a path, or an object whose
// keys are paths.
func patchOf(raw []byte, at jsonrpc.Span) string {
	var b strings.Builder
	add := func(path, kind, diff string) {
		if b.Len() >= maxShown {
			return
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(kind + " " + path + "\n" + diff)
	}
	if jsonrpc.KindOf(raw, at) == '[' {
		for x := range jsonrpc.Elements(raw, at) {
			kind := jsonrpc.Find(raw, x, "kind")
			name, ok := jsonrpc.Text(raw, kind)
			if !ok {
				name = text(raw, kind, "type")
			}
			add(text(raw, x, "path"), name, text(raw, x, "diff"))
		}
	}
	if jsonrpc.KindOf(raw, at) == '{' {
		for x := range jsonrpc.Members(raw, at) {
			path, _ := jsonrpc.Text(raw, x.Key)
			diff := text(raw, x.Value, "unified_diff")
			if diff == "" {
				diff = text(raw, x.Value, "content")
			}
			add(path, text(raw, x.Value, "type"), diff)
		}
	}
	return strings.TrimRight(excerpt.Lines(b.String(), maxShown), "\n")
}

// permissionApproval asks for more permissions. The user grants all of them or none.
func permissionApproval(m *jsonrpc.Message, q *question) {
	wanted := m.Param("permissions").Of(m.Raw)
	if wanted == nil {
		wanted = []byte("{}")
	}
	grant := func(what []byte, scope string) []byte {
		return (&object{}).member("permissions", what).text("scope", scope).json()
	}
	q.safe, q.what = grant([]byte("{}"), "turn"), "for more permissions"
	q.params = form("Codex asks for more permissions:\n\n"+excerpt.Lines(string(wanted), maxShown)+reasonOf(m), field{
		key: "decision", title: "Decision", choices: []string{chooseAccept, chooseSession, chooseDecline},
		about: "accept: allow this for the turn; accept for session: allow this until the thread ends; decline: refuse, and Codex continues",
	})
	q.reply = func(raw []byte, result jsonrpc.Span) ([]byte, bool) {
		if text(raw, result, "action") == "accept" {
			switch text(raw, jsonrpc.Find(raw, result, "content"), "decision") {
			case chooseAccept:
				return grant(wanted, "turn"), true
			case chooseSession:
				return grant(wanted, "session"), true
			}
		}
		return q.safe, false
	}
}

// userInput forwards questions from the agent to the user. It leaves out each question that asks
// for a secret, because a form must not ask for sensitive information (2025-11-25 §Elicitation,
// "Security Considerations").
func userInput(m *jsonrpc.Message, q *question) {
	q.safe, q.what = []byte(`{"answers":{}}`), "the user a question"
	var fields []field
	for x := range jsonrpc.Elements(m.Raw, m.Param("questions")) {
		id := text(m.Raw, x, "id")
		if id == "" || string(jsonrpc.Find(m.Raw, x, "isSecret").Of(m.Raw)) == "true" {
			continue
		}
		if len(fields) == maxFields || slices.ContainsFunc(fields, func(f field) bool { return f.key == id }) {
			continue
		}
		f := field{key: id, title: excerpt.Line(text(m.Raw, x, "header"), 200), about: excerpt.Lines(text(m.Raw, x, "question"), maxShown)}
		if string(jsonrpc.Find(m.Raw, x, "isOther").Of(m.Raw)) != "true" {
			for o := range jsonrpc.Elements(m.Raw, jsonrpc.Find(m.Raw, x, "options")) {
				f.choices = append(f.choices, text(m.Raw, o, "label"))
			}
		}
		fields = append(fields, f)
	}
	message := "Codex has a question"
	if len(fields) > 0 {
		message += ": " + fields[0].about
	}
	q.params = form(message, fields...)
	q.reply = func(raw []byte, result jsonrpc.Span) ([]byte, bool) {
		if text(raw, result, "action") != "accept" {
			return q.safe, false
		}
		answers := &object{}
		content := jsonrpc.Find(raw, result, "content")
		for _, f := range fields {
			if at := jsonrpc.Find(raw, content, f.key); jsonrpc.KindOf(raw, at) == '"' {
				one := append(append([]byte(`{"answers":[`), at.Of(raw)...), `]}`...)
				answers.member(f.key, one)
			}
		}
		return (&object{}).member("answers", answers.json()).json(), true
	}
}

// elicitation forwards an elicitation from an MCP server that the worker uses. It does not change
// the requested schema or the content of the answer.
func elicitation(m *jsonrpc.Message, q *question) {
	keys := [...]string{"mode", "message", "requestedSchema", "url", "elicitationId", "serverName"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Params, keys[:], at[:])
	mode, _ := jsonrpc.Text(m.Raw, at[0])
	words, _ := jsonrpc.Text(m.Raw, at[1])
	name, _ := jsonrpc.Text(m.Raw, at[5])
	q.safe, q.what = []byte(`{"action":"decline"}`), "the user a question of the MCP server "+excerpt.Line(name, 80)
	o := (&object{}).text("message", "The server "+excerpt.Line(name, 80)+" of Codex asks: "+words)
	switch {
	case (mode == "form" || mode == "") && !at[2].IsZero():
		o.member("requestedSchema", at[2].Of(m.Raw))
	case mode == "url" && !at[3].IsZero() && !at[4].IsZero():
		q.url = true
		o.text("mode", "url").member("url", at[3].Of(m.Raw)).member("elicitationId", at[4].Of(m.Raw))
	default:
		return // only Codex's own clients support this kind of form
	}
	q.params = o.json()
	q.reply = func(raw []byte, result jsonrpc.Span) ([]byte, bool) {
		action := text(raw, result, "action")
		if action != "accept" && action != "cancel" {
			action = "decline"
		}
		r := (&object{}).text("action", action)
		if content := jsonrpc.Find(raw, result, "content"); !content.IsZero() {
			r.member("content", content.Of(raw))
		}
		return r.json(), action == "accept"
	}
}

// field is a text field of a form. If the field has choices, the user must select one of them.
type field struct {
	key, title, about string
	choices           []string
}

// form returns the params of an elicitation. It uses only features that all revisions with
// forms support (2025-06-18 §Elicitation, "Requested Schema").
func form(message string, fields ...field) []byte {
	properties, required := &object{}, []string(nil)
	for _, f := range fields {
		p := (&object{}).text("type", "string")
		if f.title != "" {
			p.text("title", f.title)
		}
		if f.about != "" {
			p.text("description", f.about)
		}
		if f.choices != nil {
			p.member("enum", jsonrpc.AppendStrings(nil, f.choices))
		}
		properties.member(f.key, p.json())
		required = append(required, f.key)
	}
	schema := (&object{}).text("type", "object").member("properties", properties.json()).member("required", jsonrpc.AppendStrings(nil, required))
	return (&object{}).text("message", message).member("requestedSchema", schema.json()).json()
}
