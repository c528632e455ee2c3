package mcp

import (
	"bytes"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp/mirror"
)

// Call is one request of a client: the client's own bytes and the values read from them. After the
// Call is created, only Number, Record, Trail and Span change, and Client and Elsewhere before anything is sent. The
// goroutine that serves the call sets these fields. Several goroutines may read the Call. An Attempt contains the changes for one
// server.
type Call struct {
	Msg    *jsonrpc.Message
	Method *Method // nil for an unknown method
	Client *ClientInfo

	Meta  jsonrpc.Span // position of params._meta in Msg.Raw
	Token jsonrpc.Span // position of progressToken in Meta
	junk  uint8        // one bit for each invalid member of trace context in Meta; see IsJunk

	parent jsonrpc.Span // position of traceparent in Meta

	// Level is the lowest severity of log messages that the client wants for this call. For 0, see
	// WantsLog.
	Level LogLevel
	// Name is the name of the item that the call is about, as the client wrote it: the tool,
	// prompt, URI or task in params. It is "" if the method does not name an item.
	Name string
	// Headers are the Mcp-Param-* header fields that the client sent. HTTP says that the client's
	// transport has headers.
	Headers []mirror.Header
	HTTP    bool
	// Ours says that the call is Dragoman's own, for example to read a list, to subscribe or to set
	// a log level. No client waits for such a call, so it cannot get requests or notifications.
	Ours bool
	// Once says that the client requests a list only once. The answer to a list request then waits
	// for all servers, but at most until the call's context ends.
	Once bool
	// Trail records the messages of the call and their splices. If Trail is nil, nothing is
	// recorded. The Record sets Trail.
	Trail *trails.Trail
	// Span is the leg from the client to us in a distributed trace. Nil means that the call is not traced.
	Span *spans.Span
	// Number is the number of the call in all its events. 0 means that the call has no number.
	// Number is set before the call is handled. If the call is a retry that contains answers,
	// Resume changes the number.
	Number uint64
	// Record gets the steps of the call. If it is nil, the steps are not recorded.
	Record Record
	// Elsewhere answers elicitations that the client can't show. Nil means that nobody does.
	Elsewhere Elsewhere
	// Failed is set if another process should have answered the call, and its client has heard this error instead. The call
	// is only recorded then, and nothing may be sent to a server for it.
	Failed error
}

// NewCall returns the Call of a request, and reads the values that every call needs.
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

// Reply is the answer to a call. It is a Result or a Failure, from the server or from Dragoman.
type Reply struct {
	Msg   *jsonrpc.Message
	Edits jsonrpc.EditList // changes to Msg that do not depend on the client's revision
	// From is the revision in which Msg is written. It is Unknown for Dragoman's own messages,
	// which are written in the client's revision.
	From Revision
	// Status is the HTTP status of an error response, or 0 if there is none.
	Status int
	// Server is the server's Implementation object, which is added to a result of the modern era.
	// If Server is nil, nothing is added.
	Server []byte
	// Session is the number of the legacy server's session that answered, or 0 if there is none.
	Session uint64
	// Asks says that the result is input_required. The call continues when the client retries it
	// with the answers.
	Asks bool
	// Replaced says that a subscriptions/listen has ended only because another host takes over, which
	// can go on with it.
	Replaced bool
	// OwnTasks has the server's ids of the tasks in a reply to tasks/list that the conversation of
	// the call created, or has asked about. It is nil in other replies.
	OwnTasks map[string]bool
	// Cut says which items Dragoman has left out of a list, because they exceed a limit. Nil means
	// none.
	Cut *jsonrpc.Cut
	// Losses are the parts of the answer that the client's revision cannot express. The codec sets
	// them. Nil means no losses.
	Losses Losses
}

// Losses contains the parts that a peer's revision cannot express. The zero value is empty and
// ready to use. Losses keeps at most maxLosses losses, and only one for each What.
type Losses []Loss

// Loss describes one kind of content that was left out or converted.
type Loss struct {
	What string // for example "content.audio"
	Why  string // the reason, for example "2024-11-05 has no audio, so it is an embedded resource"
}

const maxLosses = 16

// Add records a loss. If several losses have the same What, only the first is recorded.
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

// Answer returns a reply of Dragoman itself with a result, which must be valid JSON. An empty
// result is sent as {}.
func Answer(result []byte) *Reply { return &Reply{Msg: jsonrpc.NewResult("0", result)} }

// Fail returns a reply of Dragoman itself for any error.
func Fail(err error) *Reply { return &Reply{Msg: jsonrpc.NewFailure("0", Wire(err))} }

// Code returns the reply's error code, or 0 for a result.
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

// SaysToolError reports whether an answer to a request with the given method is the error result of a tool. It
// searches only answers that contain the name isError.
func SaysToolError(method string, r *Reply) bool {
	if method != MethodCallTool || r.Msg.Kind != jsonrpc.Result || !bytes.Contains(r.Msg.Raw, isError) {
		return false
	}
	return jsonrpc.KindOf(r.Msg.Raw, r.Msg.ResultMember("isError")) == 't'
}

var isError = []byte(`"isError"`)

// ResultType returns the type of the result. It is "complete" if the result does not contain a
// type (2026-07-28 §Base, "ResultType"), and "" for an error.
func (r *Reply) ResultType() string {
	if r.Msg.Kind != jsonrpc.Result {
		return ""
	}
	at := r.Msg.ResultMember("resultType")
	switch string(at.Of(r.Msg.Raw)) {
	case "", `"complete"`:
		return ResultComplete
	case `"input_required"`:
		return ResultInputRequired
	}
	s, _ := jsonrpc.Text(r.Msg.Raw, at)
	return s
}

// These are the result types of the core protocol.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
)
