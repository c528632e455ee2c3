package mcp

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Question is a question of Dragoman's own to the person behind a client: a form to fill in, or a
// link to open. It says nothing about how the client is asked.
type Question struct {
	Message string // what the person reads; it has to say who asks and why
	// URL is the page that the person should open. "" means a form.
	URL string
	// ID is the elicitationId of a link, for clients whose revision has one. "" means a random one.
	ID string
	// Schema is the requestedSchema of the form, as JSON. Nil means a form without fields, which
	// the person can only accept or decline.
	Schema []byte
}

// CanReach reports whether a client has declared that it can show the question to a person.
func (q *Question) CanReach(f *ClientInfo) bool { return f.Shows(q.URL != "") }

// Shows reports whether a client has itself declared that it can show elicitations to a person: links if url is set,
// forms otherwise.
func (f *ClientInfo) Shows(url bool) bool {
	f = f.Itself()
	if !f.Revision.Can(Elicitation) || !f.Declares("elicitation") {
		return false
	}
	all := jsonrpc.ValueOf(f.Capabilities).Get("elicitation")
	form, links := all.Get("form").Kind() == '{', all.Get("url").Kind() == '{'
	if url {
		return links && f.Revision.Can(URLElicitation)
	}
	// 2025-11-25 and 2026-07-28 §Elicitation, "Capabilities": an empty object is equivalent to form
	// mode. Earlier revisions have only form mode.
	return form || !links || !f.Revision.Can(URLElicitation)
}

// Itself returns the client as it has declared itself; see WithElicitation.
func (f *ClientInfo) Itself() *ClientInfo {
	if f != nil && f.Bare != nil {
		return f.Bare
	}
	return f
}

// WithElicitation returns the client as servers shall see it if somebody else answers the elicitations that it can't
// show: it has declared both modes. The client as it is, is in Bare. A client that shows both stays as it is.
func (f *ClientInfo) WithElicitation() *ClientInfo {
	if f.Bare != nil || f.Shows(false) && f.Shows(true) {
		return f
	}
	caps := f.Capabilities
	if jsonrpc.KindOf(caps, jsonrpc.Whole(caps)) != '{' {
		caps = []byte("{}")
	}
	var e jsonrpc.Edits
	e.Object(WhyCapabilities, caps, jsonrpc.Whole(caps), nil, jsonrpc.Field{Key: "elicitation", Value: []byte(`{"form":{},"url":{}}`)})
	g := *f
	g.Capabilities, g.Bare = jsonrpc.Splice(nil, caps, &e), f
	return &g
}

// Elsewhere asks a person who isn't behind the client, and waits for the answer. server asks, in a call of item. params
// are those of the elicitation. The answer is an ElicitResult. If there is none, the error is a *NoAnswer, or the cause
// of ctx.
type Elsewhere func(ctx context.Context, server, item string, params jsonrpc.Value) (answer []byte, err error)

// answerByKey is the key of WithAnswerBy in a context.
type answerByKey struct{}

// WithAnswerBy returns a context for Ask, in which a question that is asked elsewhere waits until t at the longest. The
// server waits for the answer within its call, so there must be time left for what it does then.
func WithAnswerBy(ctx context.Context, t time.Time) context.Context {
	return context.WithValue(ctx, answerByKey{}, t)
}

// AnswerBy returns the time of WithAnswerBy, or zero if the context has none.
func AnswerBy(ctx context.Context) time.Time {
	t, _ := ctx.Value(answerByKey{}).(time.Time)
	return t
}

// NoAnswer says why nobody has answered a question elsewhere.
type NoAnswer struct {
	Cause string // see Error.Cause
	Why   string // a part of a sentence whose subject is the question
}

func (e *NoAnswer) Error() string { return "the question " + e.Why }

// AppendJSON appends the question as an input request (2026-07-28 §MRTR), an elicitation, for a client of
// the revision to.
func (q *Question) AppendJSON(dst []byte, to Revision) []byte {
	dst = append(dst, `{"method":"`+MethodElicit+`","params":{`...)
	if q.URL != "" {
		dst = jsonrpc.AppendQuote(append(dst, `"mode":"url","url":`...), q.URL)
		if q.ID != "" && to.Can(ElicitationIDs) {
			dst = jsonrpc.AppendQuote(append(dst, `,"elicitationId":`...), q.ID)
		}
	} else {
		schema := q.Schema
		if schema == nil {
			schema = []byte(`{"type":"object","properties":{}}`)
		}
		dst = append(append(dst, `"requestedSchema":`...), schema...)
	}
	dst = jsonrpc.AppendQuote(append(dst, `,"message":`...), q.Message)
	return append(dst, '}', '}')
}

// Answered is a question of Dragoman's own together with the person's answer.
type Answered struct {
	Step   string // who asked
	State  []byte // what Step wanted back
	Result []byte // the ElicitResult, as JSON; nil while there is no answer
}

// Action returns "accept", "decline" or "cancel". For a link, "accept" only means that the person
// agreed to open it. It returns "" for a nil Answered.
func (a *Answered) Action() string {
	if a == nil {
		return ""
	}
	text, _ := jsonrpc.ValueOf(a.Result).Get("action").Text()
	return text
}

// Content returns what the person filled in. Clients should check it against the schema of the
// form, but who needs to be sure checks it again.
func (a *Answered) Content() jsonrpc.Value {
	if a == nil {
		return jsonrpc.Value{}
	}
	return jsonrpc.ValueOf(a.Result).Get("content")
}
