package mcp

import (
	"maps"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Method describes one request method.
type Method struct {
	Name string
	// NameKey is the member of params that the header Mcp-Name mirrors: "name", "uri" or "taskId".
	// NameKey is "" if the method has no such member.
	NameKey string
	// ListKey is the member of the result that contains a list, or "" if there is none.
	ListKey string
	// ReadOnly says that the request may be retried, because it is harmless to run it twice.
	ReadOnly bool
	// Cacheable says that results have ttlMs and cacheScope in the revisions that define these
	// fields.
	Cacheable bool
	// MayAsk says that the answer may be input_required (2026-07-28 §MRTR, "Supported
	// Requests").
	MayAsk bool
	// Task says that the request is about a task.
	Task bool
	// Capability is the server capability that the method needs, or "" if it needs no capability.
	Capability string
	// Extension is the extension that defines the method, or "" if the specification itself does.
	Extension string

	eras uint8
}

const (
	inLegacy uint8 = 1 << iota
	inModern
	both = inLegacy | inModern
)

// These are the methods of requests that a client sends.
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

// ExtensionSkills is the extension for skills (SEP-2640). It defines these methods.
const (
	ExtensionSkills     = "io.modelcontextprotocol/skills"
	MethodListSkills    = "skills/list"
	MethodGetSkill      = "skills/get"
	MethodReadDirectory = "resources/directory/read"
)

// These are the methods of requests that a server sends. A legacy server sends them as
// requests, and a modern server as part of an input_required result.
const (
	MethodSample    = "sampling/createMessage"
	MethodElicit    = "elicitation/create"
	MethodListRoots = "roots/list"
)

// AskCapability returns the client capability that a server's request needs. It returns "" if
// the method is not a server request.
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

// These are the methods of notifications.
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

// IsClientNote reports whether a revision of MCP defines a notification that clients send, in the
// ClientNotification union of its schema. Other notifications belong to extensions of vendors.
func IsClientNote(method string) bool {
	switch method {
	case NoteInitialized, NoteCancelled, NoteProgress, NoteRootsChanged, NoteTaskStatus:
		return true
	}
	return false
}

// IsServerNote does the same as IsClientNote for notifications that servers send, and those of the
// extension for tasks.
func IsServerNote(method string) bool {
	switch method {
	case NoteCancelled, NoteProgress, NoteMessage, NoteToolsChanged, NoteResourcesChanged, NotePromptsChanged,
		NoteResourceUpdated, NoteElicitComplete, NoteAcknowledged, NoteTaskStatus, NoteTask:
		return true
	}
	return false
}

// Foreign says, as a clause, why no vendor's extension can have defined the method of a client's message:
// only servers send it, or MCP itself defines what begins like that. It returns "" if a vendor may have
// defined the method.
func Foreign(method string) string {
	if AskCapability(method) != "" || IsServerNote(method) && !IsClientNote(method) {
		return "only servers send it"
	}
	space, _, deep := strings.Cut(method, "/")
	if rest, ok := strings.CutPrefix(method, "notifications/"); ok {
		space, _, deep = strings.Cut(rest, "/")
	}
	if deep && namespaces[space] {
		return "no revision of MCP defines it"
	}
	return ""
}

// namespaces contains the first part of each method that MCP and its official extensions define, and has a
// slash.
var namespaces = func() map[string]bool {
	all := map[string]bool{}
	for _, name := range slices.AppendSeq([]string{MethodSample, MethodElicit, MethodListRoots}, maps.Keys(clientMethods)) {
		if space, _, deep := strings.Cut(name, "/"); deep {
			all[space] = true
		}
	}
	return all
}()

func define(ms ...Method) map[string]*Method {
	t := make(map[string]*Method, len(ms))
	for i := range ms {
		t[ms[i].Name] = &ms[i]
	}
	return t
}

// clientMethods contains the methods in the ClientRequest unions of schema/2025-11-25 and
// schema/2026-07-28.
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

	// These task methods come from 2025-11-25 and from the tasks extension (SEP-2663).
	Method{Name: MethodGetTask, eras: both, NameKey: "taskId", ReadOnly: true, Task: true},
	Method{Name: MethodTaskResult, eras: inLegacy, NameKey: "taskId", ReadOnly: true, MayAsk: true, Task: true},
	Method{Name: MethodListTasks, eras: inLegacy, ReadOnly: true, Task: true},
	Method{Name: MethodCancelTask, eras: both, NameKey: "taskId", Task: true},
	Method{Name: MethodUpdateTask, eras: inModern, NameKey: "taskId", Task: true},

	// Servers of both eras can have skills. These methods have no NameKey, because only the methods
	// of the specification itself are mirrored in Mcp-Name (2026-07-28 §Streamable HTTP).
	Method{Name: MethodListSkills, eras: both, ListKey: "skills", ReadOnly: true, Cacheable: true, Extension: ExtensionSkills},
	Method{Name: MethodGetSkill, eras: both, ReadOnly: true, Cacheable: true, Extension: ExtensionSkills},
	Method{Name: MethodReadDirectory, eras: both, ReadOnly: true, Extension: ExtensionSkills},
)

// LookupMethod returns the description of a client's request, or nil for an unknown method.
// Dragoman also forwards requests with unknown methods.
func LookupMethod(name string) *Method { return clientMethods[name] }

// ListKey is for jsonrpc.Limits.Lists. It reports whether a member of a result contains the list of a
// list method.
func ListKey(key []byte) bool { return listKeys[string(key)] }

// listKeys contains the ListKey of each method that has one.
var listKeys = func() map[string]bool {
	all := make(map[string]bool)
	for _, m := range clientMethods {
		if m.ListKey != "" {
			all[m.ListKey] = true
		}
	}
	return all
}()

// MethodName is for jsonrpc.Limits.Names. It returns the name of a known method without allocating
// a string.
func MethodName(name []byte) (string, bool) {
	if m := clientMethods[string(name)]; m != nil {
		return m.Name, true
	}
	return "", false
}

// OfferedBy reports whether a server with these capabilities has the method.
func (m *Method) OfferedBy(caps []byte) bool {
	at, key := jsonrpc.Whole(caps), m.Capability
	if m.Extension != "" {
		at, key = jsonrpc.Find(caps, at, "extensions"), m.Extension
	}
	return key == "" || !jsonrpc.Find(caps, at, key).IsZero()
}

// In reports whether the method exists in the era of revision r.
func (m *Method) In(r Revision) bool {
	return r.Legacy() && m.eras&inLegacy != 0 || r.Modern() && m.eras&inModern != 0
}
