package mcp

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Call is one request of a client: the client's own bytes, what we read from them, and
// the changes to make. It belongs to the goroutine that serves the request.
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
	// Name is the tool, prompt or URI of params as the server knows it, after any
	// renaming. It is "" if the method has none.
	Name string
	// Headers are the Mcp-Param-* headers that the client sent. HTTP says that the
	// client's transport has headers.
	Headers []mirror.Header
	HTTP    bool
	// Trail records the splices of the call, its answer and its notifications. Nil
	// records nothing.
	Trail *jsonrpc.Trail
	// Progress is the highest progress that the client has been sent, nil before the
	// first. It is kept over all input rounds of a call.
	Progress *float64
	// Edits are the changes that do not depend on the server's revision: names without
	// their prefix, a cursor of the server's own.
	Edits jsonrpc.Edits
	// Ours marks a call of our own (reading a list, subscribing, setting a level). No
	// client can be asked or notified.
	Ours bool
	// Answers says that the inputResponses and the requestState of a retry go to the
	// server whatever its revision, because the server asked for them.
	Answers bool
	// Retry are members of params that the server gets in addition to the client's own:
	// its state and the answers to its requests, when we run the input rounds for a
	// legacy client.
	Retry []jsonrpc.Field
	// Task is the object that asks a server with RequestedTasks to make the call a
	// task. It replaces what the client sent. Nil leaves that unchanged.
	Task []byte
	// Session is the server session that the call is for, 0 for any.
	Session uint64
	// Sole says that the client's endpoint has only one server.
	Sole bool
	// Number joins the events of the call, 0 for none. A retry of a parked call has the
	// number of that call.
	Number uint64
	// Server is the name of the server that the call was last sent to, "" for none. It is
	// for the events of the call.
	Server string
	// Once says that the client will not ask again, so a list waits for all servers, as
	// long as the call's context allows.
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
	Edits jsonrpc.Edits // changes that do not depend on the client's revision
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
