package mcp

import "github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"

// These are the reasons why Dragoman changes a message. ReasonText explains each reason.
const (
	WhyID jsonrpc.Reason = iota + 1
	WhyProgressToken
	WhySubscription
	WhyTaskID
	WhyRelatedTask
	WhyName
	WhyURI
	WhyHidden
	WhyUnusable
	WhyVetted
	WhyRenamed
	WhyThrough
	WhyCaching
	WhySender
	WhyTrace
	WhyVoucher
	WhyCapabilities
	WhyServerInfo
	WhyInstructions
	WhyState
	WhyRetry
	WhyQuestion
	WhyElicitationID
	WhyAsker
	WhyForm
	WhyCallForm
	WhyResultForm
	WhyResultObject
	WhyContent
	WhyStructured
	WhyOutputSchema
	WhyToolTask
	WhySampling
	WhyErrorCode
	WhyErrorForm
	WhyErrorNote
	WhySchema
	WhyProfile
	WhySuperset
	WhyOwnText
	WhyShortened

	// These are the reasons for changes to HTTP headers.
	WhySession
	WhyVersion
	WhyMirror
	WhyResume
	WhyPostponed
	WhyConfigured
	WhyConnection
	reasonEnd
)

var reasons = [reasonEnd]string{
	WhyID:            "Dragoman uses its own request ids with the server.",
	WhyProgressToken: "Dragoman uses its own progress tokens with the server.",
	WhySubscription:  "A notification must contain the subscription id of the client that receives it.",
	WhyTaskID:        "The task id that clients get also contains the server and the session of the task.",
	WhyRelatedTask:   "The message says which task it belongs to only if the client knows the task.",
	WhyName:          "With several servers, clients see names with a prefix, and the servers get names without it.",
	WhyURI:           "Several servers have the same URI, so clients see it with a segment that names the server.",
	WhyHidden:        "A filter in the configuration hides this from the client.",
	WhyUnusable:      "The item breaks the specification, so clients must not use it.",
	WhyRenamed:       "A rule has given the item another name, and the server gets its own.",
	WhyThrough:       "The client calls the tool through call_tool or call_read_tool, and the server gets the call itself.",
	WhyVetted:        "A rule changes what clients see of the item.",
	WhyCaching:       "The result is only for this client, so a cache must not return it to other clients.",
	WhySender:        "Modern revisions describe the sender in every request, legacy revisions only in the handshake.",
	WhyTrace:         "The trace context names the span of Dragoman, and must follow the W3C format.",
	WhyVoucher:       "Dragoman tells its own server who has sent the request.",
	WhyCapabilities:  "Dragoman tells the server which capabilities of the client it can use.",
	WhyServerInfo:    "Only the results of modern revisions contain the name of their server.",
	WhyInstructions:  "The instructions of the server are longer than Dragoman allows.",
	WhyState:         "Dragoman encrypts the requestState of a server, so that only this client can use it.",
	WhyRetry:         "The retry sends the server its own requestState and the client's answers.",
	WhyQuestion:      "Legacy revisions send a server request as a separate message, modern revisions as a part of a result.",
	WhyElicitationID: "The client's revision requires an elicitationId for a URL elicitation.",
	WhyAsker:         "The client's user must see which of several servers asks.",
	WhyForm:          "The client's revision does not have these fields in forms.",
	WhyCallForm:      "The server's revision defines other members for this call.",
	WhyResultForm:    "The client's revision defines other members for this result.",
	WhyResultObject:  "A result must be an object.",
	WhyContent:       "The client's revision does not have this type of content.",
	WhyStructured:    "The client's revision allows only objects as structuredContent.",
	WhyOutputSchema:  "The client's revision allows only schemas of type object as outputSchema.",
	WhyToolTask:      "The server may turn a call of this tool into a task.",
	WhySampling:      "The receiver's revision does not allow this content in sampling.",
	WhyErrorCode:     "The error code has no meaning, or another meaning, in the client's revision.",
	WhyErrorForm:     "The code of an error must be a number, and its message must be a string.",
	WhyErrorNote:     "Dragoman puts the server's original error into data.",
	WhySchema:        "The schema is written in an older dialect of JSON Schema.",
	WhyProfile:       "The dialect of the server differs from MCP here.",
	WhySuperset:      "The client reads the tools from the result of initialize.",
	WhyOwnText:       "Dragoman wrote this text itself and quotes parts of the original.",
	WhyShortened:     "The result is longer than the configuration allows.",
	WhySession:       "Dragoman has a session of its own with each side that has sessions.",
	WhyVersion:       "The header names the revision of one connection, and Dragoman speaks the revision of each side.",
	WhyMirror:        "In modern revisions, headers repeat the method, the name and some arguments of each message.",
	WhyResume:        "Dragoman continues a broken event stream after the last event that it received.",
	WhyPostponed:     "The client has reached a limit, and the header says when it may try again.",
	WhyConfigured:    "The configuration sets this header.",
	WhyConnection:    "The header describes one connection, and Dragoman has a connection of its own with each side.",
}

// ReasonText returns a sentence that explains an edit. It returns "" for an unknown reason and
// for jsonrpc.NoReason.
func ReasonText(r jsonrpc.Reason) string {
	if r >= reasonEnd {
		return ""
	}
	return reasons[r]
}

// reasonCodes contains a name for each reason. Programs may rely on these names, so they never
// change.
var reasonCodes = [reasonEnd]string{
	WhyID:            "id",
	WhyProgressToken: "progress_token",
	WhySubscription:  "subscription",
	WhyTaskID:        "task_id",
	WhyRelatedTask:   "related_task",
	WhyName:          "name",
	WhyURI:           "uri",
	WhyHidden:        "hidden",
	WhyUnusable:      "unusable",
	WhyRenamed:       "renamed",
	WhyThrough:       "through",
	WhyVetted:        "vetted",
	WhyCaching:       "caching",
	WhySender:        "sender",
	WhyTrace:         "trace",
	WhyVoucher:       "voucher",
	WhyCapabilities:  "capabilities",
	WhyServerInfo:    "server_info",
	WhyInstructions:  "instructions",
	WhyState:         "state",
	WhyRetry:         "retry",
	WhyQuestion:      "question",
	WhyElicitationID: "elicitation_id",
	WhyAsker:         "asker",
	WhyForm:          "form",
	WhyCallForm:      "call_form",
	WhyResultForm:    "result_form",
	WhyResultObject:  "result_object",
	WhyContent:       "content",
	WhyStructured:    "structured",
	WhyOutputSchema:  "output_schema",
	WhyToolTask:      "tool_task",
	WhySampling:      "sampling",
	WhyErrorCode:     "error_code",
	WhyErrorForm:     "error_form",
	WhyErrorNote:     "error_note",
	WhySchema:        "schema",
	WhyProfile:       "profile",
	WhySuperset:      "superset",
	WhyOwnText:       "own_text",
	WhyShortened:     "shortened",
	WhySession:       "session",
	WhyVersion:       "version",
	WhyMirror:        "mirror",
	WhyResume:        "resume",
	WhyPostponed:     "postponed",
	WhyConfigured:    "configured",
	WhyConnection:    "connection",
}

// ReasonCode returns the name of a reason. Programs may rely on the name, because it never changes.
// It returns "" for an unknown reason and for jsonrpc.NoReason.
func ReasonCode(r jsonrpc.Reason) string {
	if r >= reasonEnd {
		return ""
	}
	return reasonCodes[r]
}
