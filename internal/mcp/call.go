package mcp

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp/mirror"
)

// Call is one request of a client on its way to an answer: the client's own
// bytes, what we read in them, and what is to be changed. It belongs to the
// goroutine that serves the request.
type Call struct {
	Msg    *jsonrpc.Message
	Method *Method // nil for a method that we do not know
	Client *ClientInfo

	Meta  jsonrpc.Span // params._meta in Msg.Raw
	Token jsonrpc.Span // its progressToken
	junk  uint8        // which members of Meta go no further; see IsJunk

	// Level is the least severe log message that this call wants, 0 for none.
	Level LogLevel
	// Name is what the call is about, as the server knows it: the tool, prompt or
	// URI of params after any renaming, "" when the method has none.
	Name string
	// Headers are the Mcp-Param-* fields that the client sent; HTTP says that its
	// link has headers at all.
	Headers []mirror.Header
	HTTP    bool
	// Trail records the splices of the call, its answer and what is said meanwhile; nil
	// records nothing.
	Trail *jsonrpc.Trail
	// Progress is the furthest that the client has heard of, nil before the first.
	// It goes on through all rounds of input of a call.
	Progress *float64
	// Edits are the changes that the call needs whatever the server's revision:
	// names without their prefix, a cursor of the server's own.
	Edits jsonrpc.Edits
	// Ours says that nobody stands behind the call who could be asked or told
	// anything: we read a list, subscribe, set a level.
	Ours bool
	// Answers says that the inputResponses and the requestState of a retry go to
	// the server whatever its revision: it has asked for them.
	Answers bool
	// Retry are members of params that a server is given with the call beside the
	// client's own: its state and the answers to its questions, when we play the
	// rounds of input for a legacy client.
	Retry []jsonrpc.Field
	// Task is the object by which a server with RequestedTasks is asked to make the
	// call a task, in place of what the client sent; nil leaves that.
	Task []byte
	// Session, unless 0, is that of the server's sessions which the call is for.
	Session uint64
	// Sole says that only one server stands behind the client's endpoint.
	Sole bool
	// Once says that the client will not ask again: a list is worth waiting for all
	// servers, as long as the call's context.
	Once bool
}

// NewCall reads what every call needs from a request.
func NewCall(m *jsonrpc.Message, meta jsonrpc.Span, client *ClientInfo) *Call {
	c := &Call{Msg: m, Method: LookupMethod(m.Method), Client: client, Meta: meta, Level: client.LogLevel}
	if !meta.IsZero() {
		var at [4]jsonrpc.Span
		jsonrpc.FindAll(m.Raw, meta, hopKeys, at[:])
		c.Token = at[0]
		c.junk = junkOf(m.Raw, at[1], at[2], at[3])
	}
	if c.Method != nil && c.Method.NameKey != "" {
		c.Name, _ = jsonrpc.Text(m.Raw, m.Param(c.Method.NameKey))
	}
	return c
}

// Reply is the answer to a call on its way back: a Result or a Failure as the
// server wrote it, or as we did.
type Reply struct {
	Msg   *jsonrpc.Message
	Edits jsonrpc.Edits // changes that the client needs whatever its revision
	// From is the revision in whose words Msg stands; Unknown for our own words,
	// which are those of the client.
	From Revision
	// Status is that of the HTTP response in which an error came that was no
	// success, 0 for none.
	Status int
	// Server identifies itself on results of the modern era; nil adds nothing.
	Server []byte
	// Session says which of a legacy server's sessions has answered, 0 for none.
	Session uint64
	// Losses are what the client's revision has no words for, as the codec found
	// them; nil for none.
	Losses Losses
}

// Losses collects what could not be said in the words of a peer's revision. The
// zero value is empty and ready. It keeps maxLosses, one per What.
type Losses []Loss

// Loss is one kind of thing that was left out or put into other words.
type Loss struct {
	What string // "content.audio"
	Why  string // a clause: "2024-11-05 has no audio, so it is an embedded resource"
}

const maxLosses = 16

// Add notes a loss, once for each what.
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

// Answer makes a reply of our own from a result, which must be valid JSON; an empty one
// stands for {}.
func Answer(result []byte) *Reply { return &Reply{Msg: jsonrpc.NewResult("0", result)} }

// Fail makes a reply of our own from any error.
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

// ResultType returns the kind of result, "complete" where none is given
// (2026-07-28 §Base, "ResultType").
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

// The types of result of the core protocol.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)
