package mcp

import (
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
func (q *Question) CanReach(f *ClientInfo) bool {
	if !f.Revision.Can(Elicitation) || !f.Declares("elicitation") {
		return false
	}
	all := jsonrpc.ValueOf(f.Capabilities).Get("elicitation")
	form, url := all.Get("form").Kind() == '{', all.Get("url").Kind() == '{'
	if q.URL != "" {
		return url && f.Revision.Can(URLElicitation)
	}
	// 2025-11-25 and 2026-07-28 §Elicitation, "Capabilities": an empty object is equivalent to form
	// mode. Earlier revisions have only form mode.
	return form || !url || !f.Revision.Can(URLElicitation)
}

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
