package mcp

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Call is one request of a client on its way to an answer: the client's own bytes and
// what we read in them. It is not written to once it is made; what one sending to one
// server changes is in an Attempt. It may be read by several goroutines.
type Call struct {
	Msg    *jsonrpc.Message
	Method *Method // nil for a method that we do not know
	Client *ClientInfo

	Meta  jsonrpc.Span // params._meta in Msg.Raw
	Token jsonrpc.Span // its progressToken
	junk  uint8        // which members of Meta are not passed on; see IsJunk

	parent jsonrpc.Span // its traceparent

	// Level is the least severe level of log messages for this call, 0 for none.
	Level LogLevel
	// Name is what the call is about in the client's words: the tool, prompt, URI or task
	// of params, "" when the method has none.
	Name string
	// Headers are the Mcp-Param-* fields that the client sent; HTTP says that its
	// transport has headers at all.
	Headers []mirror.Header
	HTTP    bool
	// Trail records the splices of the call, its answer and its notifications. Nil
	// records nothing.
	Trail *jsonrpc.Trail
	// Ours says that no client waits for the call: we read a list, subscribe or set a
	// level. Nobody can be asked or told anything.
	Ours bool
	// Number joins the events of the call, 0 for none. A retry of a parked call has the
	// number of that call: the gateway gives it before anything else is done.
	Number uint64
	// Once says that the client will not ask again: a list is worth waiting for all
	// servers, as long as the call's context.
	Once bool
}

// NewCall returns the Call of a request, with the parts that every call needs.
func NewCall(m *jsonrpc.Message, meta jsonrpc.Span, client *ClientInfo) *Call {
	c := &Call{Msg: m, Method: LookupMethod(m.Method), Client: client, Meta: meta, Level: client.LogLevel}
	if !meta.IsZero() {
		var at [4]jsonrpc.Span
		jsonrpc.FindAll(m.Raw, meta, hopKeys, at[:])
		c.Token = at[0]
		c.junk = junkOf(m.Raw, at[1], at[2], at[3])
		c.parent = at[1]
	}
	if c.Method != nil && c.Method.NameKey != "" {
		c.Name, _ = jsonrpc.Text(m.Raw, m.Param(c.Method.NameKey))
	}
	return c
}

// Reply is the answer to a call: a Result or a Failure as the server wrote it, or as we
// did.
type Reply struct {
	Msg   *jsonrpc.Message
	Edits jsonrpc.EditList // changes that do not depend on the client's revision
	// From is the revision that Msg is written in. It is Unknown for our own messages,
	// which are written in the client's.
	From Revision
	// Status is the HTTP status of an error response, 0 for none.
	Status int
	// Server identifies itself on results of the modern era; nil adds nothing.
	Server []byte
	// Session is the legacy server's session that answered, 0 for none.
	Session uint64
	// Asks says that the result is input_required: the call goes on when the client comes
	// back with its answers.
	Asks bool
	// Losses are what the client's revision cannot express, as found by the codec; nil
	// for none.
	Losses Losses
}

// Losses collects what a peer's revision cannot express. The zero value is empty and
// ready to use. It keeps maxLosses, one per What.
type Losses []Loss

// Loss is one kind of content that was left out or converted.
type Loss struct {
	What string // "content.audio"
	Why  string // a clause: "2024-11-05 has no audio, so it is an embedded resource"
}

const maxLosses = 16

// Add records a loss, once for each what.
func (l *Losses) Add(what, why string) {
	for _, have := range *l {
		if have.What == what {
			return
		}
	}
	if len(*l) < maxLosses {
		*l = append(*l, Loss{What: what, Why: why})
	}
}

// Answer returns a reply of our own with a result, which must be valid JSON. An empty
// result stands for {}.
func Answer(result []byte) *Reply { return &Reply{Msg: jsonrpc.NewResult("0", result)} }

// Fail returns a reply of our own for any error.
func Fail(err error) *Reply { return &Reply{Msg: jsonrpc.NewFailure("0", Wire(err))} }

// Code returns the reply's error code, 0 for a result.
func (r *Reply) Code() int64 {
	if r.Msg.Kind != jsonrpc.Failure {
		return 0
	}
	n, ok := jsonrpc.Int(r.Msg.Raw, jsonrpc.Find(r.Msg.Raw, r.Msg.Error, "code"))
	if !ok || n == 0 {
		return jsonrpc.CodeInternal
	}
	return n
}

// ResultType returns the type of result, "complete" if the result has none (2026-07-28
// §Base, "ResultType"). It returns "" for an error.
func (r *Reply) ResultType() string {
	if r.Msg.Kind != jsonrpc.Result {
		return ""
	}
	at := r.Msg.ResultMember("resultType")
	if at.IsZero() {
		return ResultComplete
	}
	s, _ := jsonrpc.Text(r.Msg.Raw, at)
	return s
}

// The result types of the core protocol.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)
