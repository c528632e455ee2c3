package bridge

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// askedCall is a request to a legacy server whose server requests wait for the client: a [parkedCall]
// waits for a retry, an [attendedTask] for a poll.
//
// The request runs in its own goroutine, because it can outlive the client's. At most one request of
// the client is attached to it at any time.
type askedCall struct {
	id     string
	cancel context.CancelCauseFunc
	done   chan struct{} // closed after reply or err is set

	reply *mcp.Reply
	err   error

	mu      sync.Mutex
	asked   chan struct{} // capacity 1; signals a new server request
	open    []*openQuestion
	counter int         // the number of server requests so far
	caller  mcp.Caller  // the caller of the attached request; nil if no request is attached
	call    *mcp.Call   // the call of the attached request; nil if no request is attached
	held    []mcp.Note  // log messages that arrived while no request of the client was attached
	heldLen int         // the total size of held in bytes
	expiry  *time.Timer // fires if the client does not come back in time; runs while no request is attached
	first   *mcp.Call   // the first request of the call; the server's progress notifications contain the token of this request
	salt    string      // suffix that makes the keys of server requests unique across calls
}

func newAskedCall(id string, first *mcp.Call) askedCall {
	return askedCall{id: id, first: first, done: make(chan struct{}), asked: make(chan struct{}, 1)}
}

// openQuestion is a server request that waits for the client's answer.
type openQuestion struct {
	key    string
	m      *jsonrpc.Message
	answer chan given // capacity 1
}

// given is the answer to a server request: a result object in the client's retry. raw is the retry,
// and at is the position of the object.
type given struct {
	raw []byte
	at  jsonrpc.Span
}

// waits reports whether a server request is open.
func (p *askedCall) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open) > 0
}

// gatherTime is how long gather waits for further server requests after the first one. A server may
// send several requests at once, and the client should get them together.
const gatherTime = 15 * time.Millisecond

func (p *askedCall) gather() {
	t := time.NewTimer(gatherTime)
	defer t.Stop()
	for {
		select {
		case <-p.asked:
		case <-p.done:
			return
		case <-t.C:
			return
		}
	}
}

// inputRequests appends an object with the open server requests to out, and also returns the server
// requests as a list. The caller must hold p.mu.
func (p *askedCall) inputRequests(out []byte) (object []byte, parts [][]byte) {
	out = append(out, '{')
	for i, q := range p.open {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(jsonrpc.AppendQuote(out, q.key), ':')
		part := request(p.first.Trail, q.m)
		parts, out = append(parts, part), append(out, part...)
	}
	return append(out, '}'), parts
}

// answer passes the client's answers to the server. The caller must hold p.mu, and the method check
// must have accepted the answers.
func (p *askedCall) answer(raw []byte, answers jsonrpc.Span) {
	var left []*openQuestion
	for _, q := range p.open {
		at := jsonrpc.Find(raw, answers, q.key)
		if at.IsZero() {
			left = append(left, q)
			continue
		}
		q.answer <- given{raw, at}
	}
	p.open = left
}

// request converts a request of a server to an input request, which has only the method and the
// params.
func request(t *trails.Trail, m *jsonrpc.Message) []byte {
	var e jsonrpc.Edits
	var set []jsonrpc.Field
	if m.Params.IsZero() {
		// params may be absent in an input request, but some clients require them.
		set = append(set, jsonrpc.Field{Key: "params", Value: []byte("{}")})
	}
	e.Object(mcp.WhyQuestion, m.Raw, jsonrpc.Whole(m.Raw), func(k []byte) bool { return string(k) == "jsonrpc" || string(k) == "id" }, set...)
	if meta := m.Param(mcp.KeyMeta); !mcp.RelatedTask(m.Raw, meta).IsZero() {
		// The metadata of the request names a task. The client may not know this task, so the name
		// is removed.
		e.Object(mcp.WhyRelatedTask, m.Raw, meta, func(k []byte) bool { return string(k) == mcp.KeyRelatedTask })
	}
	return bytes.TrimSpace(t.Splice(make([]byte, 0, len(m.Raw)), m.Raw, &e))
}

// check returns an error if one of the answers is not a valid result for its server request.
func (p *askedCall) check(raw []byte, answers jsonrpc.Span) error {
	for _, q := range p.open {
		at := jsonrpc.Find(raw, answers, q.key)
		if at.IsZero() {
			continue
		}
		if !validAnswer(q.m.Method, raw, at) {
			return badInput(q.key)
		}
	}
	return nil
}

// askedCaller is the caller of an askedCall.
type askedCaller askedCall

// Notify sends notifications to the client while a request is attached. At other times it drops
// progress notifications and keeps a limited number of other notifications.
func (k *askedCaller) Notify(n *mcp.Note) {
	p := (*askedCall)(k)
	p.mu.Lock()
	s, c := p.caller, p.call
	if s == nil {
		size := len(n.Msg.Raw)
		if len(p.held) < maxHeldLogs && p.heldLen+size <= maxHeldLogBytes && n.Msg.Method != mcp.NoteProgress {
			p.held = append(p.held, *n)
			p.heldLen += size
		}
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	if c == p.first || n.Msg.Method != mcp.NoteProgress {
		s.Notify(n)
	} else if !c.Token.IsZero() {
		// The server uses the progress token of the first request. The client expects the token
		// of the attached request.
		own := mcp.Note{Msg: n.Msg}
		own.Edits.Replace(mcp.WhyProgressToken, n.Msg.Param("progressToken"), c.Token.Of(c.Msg.Raw))
		s.Notify(&own)
	}
}

// keyOf returns a key for a server request, which is unique within the call. A legacy request has
// no key. The key describes the request, which helps clients and people who read logs. For example,
// user_name is the key of a form with the field "name".
func (p *askedCall) keyOf(m *jsonrpc.Message) string {
	var key string
	switch m.Method {
	case mcp.MethodSample:
		key = "model_message"
	case mcp.MethodListRoots:
		key = "client_roots"
	default:
		key = "user_" + onlyField(m)
		if mode, _ := jsonrpc.Text(m.Raw, m.Param("mode")); mode == "url" {
			key = keyOfURL
		}
	}
	p.counter++
	return numbered(key, p.counter) + p.salt
}

const keyOfURL = "user_visit"

func numbered(key string, n int) string {
	if n == 1 {
		return key
	}
	return fmt.Sprintf("%s.%d", key, n)
}

// onlyField returns the name of the only field of a form. It returns "input" if the form does not
// have exactly one field, or if the name is not a plain word.
func onlyField(m *jsonrpc.Message) string {
	const other = "input"
	schema := m.Param("requestedSchema")
	name, n := other, 0
	for f := range jsonrpc.Members(m.Raw, jsonrpc.Find(m.Raw, schema, "properties")) {
		if n++; n > 1 {
			return other
		}
		name, _ = jsonrpc.Text(m.Raw, f.Key)
	}
	if len(name) == 0 || len(name) > 40 {
		return other
	}
	for _, c := range []byte(name) {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return other
		}
	}
	return name
}

// Ask waits until a retry of the client contains the answer, and returns the answer.
func (k *askedCaller) Ask(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
	p := (*askedCall)(k)
	capability := mcp.AskCapability(m.Method)
	if capability == "" || !p.first.Client.Declares(capability) {
		return nil, mcp.ErrCannotAsk
	}
	q := &openQuestion{m: m, answer: make(chan given, 1)}
	p.mu.Lock()
	q.key = p.keyOf(m)
	p.open = append(p.open, q)
	p.mu.Unlock()
	select {
	case p.asked <- struct{}{}:
	default:
	}
	select {
	case a := <-q.answer:
		answer := jsonrpc.NewResult(m.ID, a.at.Of(a.raw))
		p.first.Trail.Carry(mcp.WhyQuestion, a.raw, a.at, answer.Raw)
		return answer, nil
	case <-ctx.Done():
		p.mu.Lock()
		for i, x := range p.open {
			if x == q {
				p.open = append(p.open[:i:i], p.open[i+1:]...)
				break
			}
		}
		p.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// firstQuestion waits a short time for server requests that may follow soon. If they arrive later,
// the client's next poll finds them.
func (p *askedCall) firstQuestion(ctx context.Context) {
	p.mu.Lock()
	asked := p.counter > 0
	p.mu.Unlock()
	if asked {
		return
	}
	t := time.NewTimer(firstAsk)
	defer t.Stop()
	select {
	case <-p.asked:
		p.gather()
	case <-p.done:
	case <-t.C:
	case <-ctx.Done():
	}
}
