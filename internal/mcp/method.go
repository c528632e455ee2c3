package mcp

// Method describes one method.
type Method struct {
	Name string
	// NameKey is the member of params that Mcp-Name mirrors and that a catalog
	// routes by: "name", "uri", "taskId" or "".
	NameKey string
	// ListKey is the member of the result that holds a list, "" for no list.
	ListKey string
	// ReadOnly: it may be retried, because running it twice is harmless.
	ReadOnly bool
	// Cacheable: results have ttlMs and cacheScope if the revision defines them.
	Cacheable bool
	// MayAsk: the answer may be input_required (2026-07-28 §MRTR, "Supported
	// Requests").
	MayAsk bool
	// Task: it is about a task.
	Task bool
	// Capability is the server capability that it needs, "" for none.
	Capability string

	eras uint8
}

const (
	inLegacy uint8 = 1 << iota
	inModern
	both = inLegacy | inModern
)

// The methods of requests that a client sends.
const (
	MethodInitialize    = "initialize"
	MethodPing          = "ping"
	MethodDiscover      = "server/discover"
	MethodListen        = "subscriptions/listen"
	MethodListTools     = "tools/list"
	MethodCallTool      = "tools/call"
	MethodListResources = "resources/list"
	MethodListTemplates = "resources/templates/list"
	MethodReadResource  = "resources/read"
	MethodSubscribe     = "resources/subscribe"
	MethodUnsubscribe   = "resources/unsubscribe"
	MethodListPrompts   = "prompts/list"
	MethodGetPrompt     = "prompts/get"
	MethodComplete      = "completion/complete"
	MethodSetLevel      = "logging/setLevel"
)

// The requests that a legacy server sends; in the modern era they travel inside
// input_required.
const (
	MethodSample    = "sampling/createMessage"
	MethodElicit    = "elicitation/create"
	MethodListRoots = "roots/list"
)

// AskCapability returns the client capability that a server's request needs, "" for a
// method that is not a server request.
func AskCapability(method string) string {
	switch method {
	case MethodElicit:
		return "elicitation"
	case MethodSample:
		return "sampling"
	case MethodListRoots:
		return "roots"
	}
	return ""
}

// The notifications.
const (
	NoteInitialized      = "notifications/initialized"
	NoteCancelled        = "notifications/cancelled"
	NoteProgress         = "notifications/progress"
	NoteMessage          = "notifications/message"
	NoteToolsChanged     = "notifications/tools/list_changed"
	NoteResourcesChanged = "notifications/resources/list_changed"
	NotePromptsChanged   = "notifications/prompts/list_changed"
	NoteResourceUpdated  = "notifications/resources/updated"
	NoteRootsChanged     = "notifications/roots/list_changed"
	NoteElicitComplete   = "notifications/elicitation/complete"
	NoteAcknowledged     = "notifications/subscriptions/acknowledged"
)

func define(ms ...Method) map[string]*Method {
	t := make(map[string]*Method, len(ms))
	for i := range ms {
		t[ms[i].Name] = &ms[i]
	}
	return t
}

// Sources: the ClientRequest unions of schema/2025-11-25 and schema/2026-07-28.
var clientMethods = define(
	Method{Name: MethodInitialize, eras: inLegacy},
	Method{Name: MethodPing, eras: inLegacy, ReadOnly: true},
	Method{Name: MethodDiscover, eras: inModern, ReadOnly: true, Cacheable: true},
	Method{Name: MethodListen, eras: inModern},
	Method{Name: MethodListTools, eras: both, ListKey: "tools", ReadOnly: true, Cacheable: true, Capability: "tools"},
	Method{Name: MethodCallTool, eras: both, NameKey: "name", MayAsk: true, Capability: "tools"},
	Method{Name: MethodListResources, eras: both, ListKey: "resources", ReadOnly: true, Cacheable: true, Capability: "resources"},
	Method{Name: MethodListTemplates, eras: both, ListKey: "resourceTemplates", ReadOnly: true, Cacheable: true, Capability: "resources"},
	Method{Name: MethodReadResource, eras: both, NameKey: "uri", ReadOnly: true, Cacheable: true, MayAsk: true, Capability: "resources"},
	Method{Name: MethodSubscribe, eras: inLegacy, ReadOnly: true, Capability: "resources"},
	Method{Name: MethodUnsubscribe, eras: inLegacy, ReadOnly: true, Capability: "resources"},
	Method{Name: MethodListPrompts, eras: both, ListKey: "prompts", ReadOnly: true, Cacheable: true, Capability: "prompts"},
	Method{Name: MethodGetPrompt, eras: both, NameKey: "name", ReadOnly: true, MayAsk: true, Capability: "prompts"},
	Method{Name: MethodComplete, eras: both, ReadOnly: true, Capability: "completions"},
	Method{Name: MethodSetLevel, eras: inLegacy, ReadOnly: true, Capability: "logging"},

	// Of 2025-11-25, and of the extension (SEP-2663).
	Method{Name: MethodGetTask, eras: both, NameKey: "taskId", ReadOnly: true, Task: true},
	Method{Name: MethodTaskResult, eras: inLegacy, NameKey: "taskId", ReadOnly: true, MayAsk: true, Task: true},
	Method{Name: MethodListTasks, eras: inLegacy, ReadOnly: true, Task: true},
	Method{Name: MethodCancelTask, eras: both, NameKey: "taskId", Task: true},
	Method{Name: MethodUpdateTask, eras: inModern, NameKey: "taskId", Task: true},
)

// LookupMethod returns the description of a client's request, nil for an unknown
// method. Unknown methods are passed on, not refused.
func LookupMethod(name string) *Method { return clientMethods[name] }

// MethodName returns the shared string of a method's name, for jsonrpc.Limits.
func MethodName(name []byte) (string, bool) {
	if m := clientMethods[string(name)]; m != nil {
		return m.Name, true
	}
	return "", false
}

// In reports whether the method belongs to the era of revision r.
func (m *Method) In(r Revision) bool {
	return r.Legacy() && m.eras&inLegacy != 0 || r.Modern() && m.eras&inModern != 0
}
