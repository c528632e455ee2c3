package mcp

import "github.com/dragoman-mcp/dragoman/internal/jsonrpc"

// These are the reasons why Dragoman changes a message. ReasonText explains each.
const (
	WhyID jsonrpc.Reason = iota + 1
	WhyProgressToken
	WhySubscription
	WhyTaskID
	WhyRelatedTask
	WhyName
	WhyHidden
	WhyUnusable
	WhyCaching
	WhySender
	WhyTrace
	WhyCapabilities
	WhyServerInfo
	WhyInstructions
	WhyState
	WhyRetry
	WhyQuestion
	WhyElicitationID
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
	reasonEnd
)

var reasons = [reasonEnd]string{
	WhyID:            "Each side of Dragoman has its own request ids.",
	WhyProgressToken: "Each side of Dragoman has its own progress tokens, like request ids.",
	WhySubscription:  "A notification names the subscription of the client that gets it.",
	WhyTaskID:        "Clients know a task by an id that also says which server and session it is in.",
	WhyRelatedTask:   "Only a client that knows the task is told that a message belongs to it.",
	WhyName:          "With several servers, names have a prefix for the client and none for the server.",
	WhyHidden:        "A filter in the configuration hides this from the client.",
	WhyUnusable:      "The specification does not let a client use this item.",
	WhyCaching:       "The result is for this client alone, so other clients must not get it from a cache.",
	WhySender:        "One era describes the sender in every request, the other in the handshake.",
	WhyTrace:         "Trace context that does not follow the W3C format is not passed on.",
	WhyCapabilities:  "The server is told what Dragoman can do for the client.",
	WhyServerInfo:    "A modern result says which server it is from.",
	WhyInstructions:  "The instructions of the server are longer than Dragoman allows.",
	WhyState:         "The request state of a server is sealed for the client that got it.",
	WhyRetry:         "The server gets its state and the answers to its requests with the call.",
	WhyQuestion:      "One era sends a server request as a separate message, the other as a part of a result.",
	WhyElicitationID: "The revision of the client requires an id for a URL elicitation.",
	WhyCallForm:      "The call gets the members that the revision of the server defines.",
	WhyResultForm:    "The result gets the members that the revision of the client requires.",
	WhyResultObject:  "A result must be an object.",
	WhyContent:       "The revision of the client does not have this type of content.",
	WhyStructured:    "The revision of the client allows only objects as structured content.",
	WhyOutputSchema:  "The revision of the client allows only schemas of objects for output.",
	WhyToolTask:      "The server may turn a call of this tool into a task.",
	WhySampling:      "The revision of the receiver does not have this content in sampling.",
	WhyErrorCode:     "The error code has another meaning in the revision of the client, or none.",
	WhyErrorForm:     "An error must have a number as code and a string as message.",
	WhyErrorNote:     "The data of the error keeps the server's original error.",
	WhySchema:        "The schema is written in an older dialect of JSON Schema.",
	WhyProfile:       "The profile of the server says that it deviates from MCP.",
	WhySuperset:      "The client reads the tools from the result of initialize.",
	WhyOwnText:       "Dragoman writes this text itself, with parts of the original.",
}

// ReasonText returns a sentence that explains an edit. It returns "" for an unknown reason and
// for jsonrpc.NoReason.
func ReasonText(r jsonrpc.Reason) string {
	if r >= reasonEnd {
		return ""
	}
	return reasons[r]
}

// reasonCodes name the reasons for programs. They do not change.
var reasonCodes = [reasonEnd]string{
	WhyID:            "id",
	WhyProgressToken: "progress_token",
	WhySubscription:  "subscription",
	WhyTaskID:        "task_id",
	WhyRelatedTask:   "related_task",
	WhyName:          "name",
	WhyHidden:        "hidden",
	WhyUnusable:      "unusable",
	WhyCaching:       "caching",
	WhySender:        "sender",
	WhyTrace:         "trace",
	WhyCapabilities:  "capabilities",
	WhyServerInfo:    "server_info",
	WhyInstructions:  "instructions",
	WhyState:         "state",
	WhyRetry:         "retry",
	WhyQuestion:      "question",
	WhyElicitationID: "elicitation_id",
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
}

// ReasonCode returns a name for an edit's reason that programs can rely on, "" for an unknown
// reason and for jsonrpc.NoReason.
func ReasonCode(r jsonrpc.Reason) string {
	if r >= reasonEnd {
		return ""
	}
	return reasonCodes[r]
}
