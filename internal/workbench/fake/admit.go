package fake

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// reserved is the prefix of _meta keys that are reserved for the protocol (2025-06-18
// §Base, "_meta").
const reserved = "io.modelcontextprotocol/"

// admit decides whether the server may serve a request. If so, admit registers the request as
// running. Otherwise it returns the error for the answer.
func (c *conversation) admit(x *exchange) *jsonrpc.Error {
	known := c.s.methods[x.m.Method]
	opening := c.opening(x)
	if opening != nil {
		return opening
	}
	if known == nil {
		return c.s.refuse(x.m.Method, jsonrpc.CodeMethodNotFound, "%s has no method %s", c.ed.date, clip(x.m.Method))
	}
	x.method = known
	if wrong := known.params.check(x.m.Raw, x.m.Params, "params"); wrong != "" {
		return c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "%s", wrong)
	}
	if t := jsonrpc.Find(x.m.Raw, x.m.Param(mcp.KeyMeta), mcp.KeyProgressToken); !t.IsZero() {
		if !aToken.fits(x.m.Raw, t) {
			return c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "params._meta.progressToken is not of type %s", aToken)
		}
		x.token = t.Of(x.m.Raw)
	}
	if known.name == mcp.MethodCallTool {
		name, _ := jsonrpc.Text(x.m.Raw, x.m.Param("name"))
		x.tool = c.s.tool(name)
	}
	return c.register(x)
}

// register records that a request is running. It returns an error if the request cannot run.
func (c *conversation) register(x *exchange) *jsonrpc.Error {
	c.s.mu.Lock()
	crowded, taken := len(c.running) >= maxWaiting, false
	for _, o := range c.running {
		taken = taken || x.token != nil && bytes.Equal(o.token, x.token)
	}
	if !crowded && !taken {
		c.running[x.m.ID] = x
	}
	c.s.mu.Unlock()
	switch {
	case taken:
		// 2025-11-25 §Progress: tokens must be unique across all active requests.
		return c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "the progress token %s belongs to a request that is still running", clip(string(x.token)))
	case crowded:
		return refusal(jsonrpc.CodeInternal, "%d requests are running already", maxWaiting)
	}
	return nil
}

// opening checks the required members of a request, and whether the client has completed the
// handshake steps that must come before the request.
func (c *conversation) opening(x *exchange) *jsonrpc.Error {
	if !c.ed.has(handshake) {
		return c.stateless(x)
	}
	m := x.m
	meta := m.Param(mcp.KeyMeta)
	c.s.mu.Lock()
	at, used := c.phase, c.used[m.ID]
	version := jsonrpc.Find(m.Raw, meta, mcp.KeyVersion)
	probe := at == unopened && (m.Method == mcp.MethodDiscover || !version.IsZero())
	if len(c.used) < maxUsedIDs && !probe {
		c.used[m.ID] = true
	}
	x.caps, x.level = c.caps, c.level
	c.s.mu.Unlock()
	switch {
	case probe:
		// 2026-07-28 §Versioning, "Backward Compatibility": this answer tells a client that
		// supports both eras that the server is legacy. The request is not a violation, and the
		// client may reuse the id.
		return refusal(jsonrpc.CodeMethodNotFound, "%s has no method %s before initialize", c.ed.date, clip(m.Method))
	case used:
		// 2025-11-25 §Base, "Requests": an id must not be reused within the session.
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidRequest, "the id %s was used before", clip(string(m.ID)))
	case jsonrpc.KindOf(m.Raw, meta) != '{' && !meta.IsZero():
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidParams, "params._meta is not an object")
	case m.Method == mcp.MethodInitialize && at != unopened:
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidRequest, "this session is already initialized")
	case m.Method == mcp.MethodInitialize, m.Method == mcp.MethodPing:
	case at == unopened:
		// 2025-11-25 §Lifecycle, "Initialization": initialize must come first.
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidRequest, "%s was sent before initialize", clip(m.Method))
	case at == answered:
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidRequest, "%s was sent before notifications/initialized", clip(m.Method))
	}
	if key := c.reservedKey(m.Raw, meta); key != "" {
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidParams, "%s does not define params._meta[%q]", c.ed.date, clip(key))
	}
	return nil
}

// reservedKey returns a reserved key of _meta that the revision does not define, or "".
func (c *conversation) reservedKey(raw []byte, meta jsonrpc.Span) string {
	for f := range jsonrpc.Members(raw, meta) {
		key, _ := jsonrpc.Text(raw, f.Key)
		if strings.HasPrefix(key, reserved) && !(c.ed.has(experimentalTask) && key == mcp.KeyRelatedTask) {
			return key
		}
	}
	return ""
}

// identityShape is the shape of an Implementation object.
var identityShape = []member{need("name", aString), need("version", aString), may("title", aString)}

// perRequestShape is the shape of _meta in each request (2026-07-28 §Base, "Per-request
// protocol fields").
var perRequestShape = shape{
	need(mcp.KeyVersion, aString),
	need(mcp.KeyClientCaps, anObject, capabilityShape...),
	may(mcp.KeyClientInfo, anObject, identityShape...),
	may(mcp.KeyLogLevel, aLevel),
}

// capabilityShape is the shape of a ClientCapabilities object, for all revisions.
var capabilityShape = []member{
	may("roots", anObject, may("listChanged", aBool)),
	may("sampling", anObject),
	may("elicitation", anObject, may("form", anObject), may("url", anObject)),
	may("experimental", anObject),
	may("extensions", anObject),
}

// stateless checks a request in the revisions without a handshake.
func (c *conversation) stateless(x *exchange) *jsonrpc.Error {
	m := x.m
	if m.Method == mcp.MethodInitialize {
		// 2026-07-28 §Versioning, "Backward Compatibility": the error message lists the versions,
		// because an older client shows only this message. The request is a violation only if the
		// client has sent a modern request before.
		bad := refusal(jsonrpc.CodeMethodNotFound, "%s has no initialize; this server supports %s and nothing else", c.ed.date, c.ed.date)
		c.s.mu.Lock()
		late := c.phase == operating
		c.s.mu.Unlock()
		if late {
			c.s.violate(m.Method, "%s", bad.Message)
		}
		return bad
	}
	c.s.mu.Lock()
	running := c.running[m.ID] != nil
	c.phase = operating
	c.s.mu.Unlock()
	if running {
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidRequest, "a request with the id %s is still running", clip(string(m.ID)))
	}
	meta := m.Param(mcp.KeyMeta)
	if jsonrpc.KindOf(m.Raw, meta) != '{' {
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidParams, "params._meta is missing or not an object")
	}
	version, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, meta, mcp.KeyVersion))
	if version != "" && version != c.ed.date {
		// A client may propose a version and get another one (2026-07-28 §Versioning,
		// "Protocol Version Negotiation"). So the request is not a violation.
		return &jsonrpc.Error{
			Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: []byte(`{"supported":[` + quote(c.ed.date) + `],"requested":` + quote(version) + `}`),
		}
	}
	if wrong := perRequestShape.check(m.Raw, meta, "params._meta"); wrong != "" {
		return c.s.refuse(m.Method, jsonrpc.CodeInvalidParams, "%s", wrong)
	}
	x.caps = jsonrpc.Find(m.Raw, meta, mcp.KeyClientCaps).Of(m.Raw)
	name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, meta, mcp.KeyLogLevel))
	x.level, _ = mcp.ParseLogLevel(name)
	return nil
}

// notes lists the notifications that a client may send.
var notes = []struct {
	name   string
	of     feature
	params shape
}{
	{mcp.NoteInitialized, handshake, nil},
	{mcp.NoteCancelled, always, shape{need("requestId", aToken), may("reason", aString)}},
	{mcp.NoteProgress, handshake, shape{need("progressToken", aToken), need("progress", aNumber), may("total", aNumber), may("message", aString)}},
	{mcp.NoteRootsChanged, handshake, nil},
	{"notifications/tasks/status", experimentalTask, shape{need("taskId", aString), need("status", aString)}},
}

// note handles a notification, and records a violation if there is one. ok is false if the
// notification has a violation.
func (c *conversation) note(m *jsonrpc.Message, overHTTP bool) (ok bool) {
	wrong := c.checkNotification(m, overHTTP)
	if wrong != "" {
		c.s.violate(m.Method, "%s", wrong)
	}
	return wrong == ""
}

func (c *conversation) checkNotification(m *jsonrpc.Message, overHTTP bool) (wrong string) {
	i := slices.IndexFunc(notes, func(n struct {
		name   string
		of     feature
		params shape
	}) bool {
		return n.name == m.Method && c.ed.has(n.of)
	})
	if i < 0 {
		return c.ed.date + " has no such client notification"
	}
	if wrong := notes[i].params.check(m.Raw, m.Params, "params"); wrong != "" {
		return wrong
	}
	if c.ed.has(handshake) {
		if key := c.reservedKey(m.Raw, m.Param(mcp.KeyMeta)); key != "" {
			return fmt.Sprintf("%s does not define params._meta[%q]", c.ed.date, clip(key))
		}
	}
	switch m.Method {
	case mcp.NoteInitialized:
		return c.initialized()
	case mcp.NoteCancelled:
		if overHTTP && !c.ed.has(handshake) {
			// 2026-07-28 §Streamable HTTP, "Sending Messages": the client should close the stream
			// instead. The notification is recorded as a violation, but has no other effect.
			c.s.violate(m.Method, "not allowed over Streamable HTTP")
			return ""
		}
		return c.cancelRequest(m)
	case mcp.NoteProgress:
		return "no request of this server carries a progress token"
	case mcp.NoteRootsChanged:
		c.s.mu.Lock()
		declared := allows(c.caps, "roots", "listChanged")
		c.s.mu.Unlock()
		if !declared {
			return "the capability roots.listChanged was not declared"
		}
	}
	return ""
}

func (c *conversation) initialized() (wrong string) {
	c.s.mu.Lock()
	was := c.phase
	if was == answered {
		c.phase = operating
	}
	c.s.mu.Unlock()
	switch was {
	case unopened:
		return "sent before initialize was answered"
	case operating:
		return "sent twice"
	}
	return ""
}

// cancelRequest cancels a running request. A cancellation is not a violation if the request
// has already ended (2025-11-25 §Cancellation, "Timing Considerations"). On a pipe, it is a
// violation if the request never existed. Over HTTP the two are separate POSTs, so the cancellation
// may overtake its request, or the request may be lost when the client closes its connection.
func (c *conversation) cancelRequest(m *jsonrpc.Message) (wrong string) {
	id := jsonrpc.ID(m.Param("requestId").Of(m.Raw))
	x := c.abandon(id)
	c.s.mu.Lock()
	used := c.used[id]
	full := len(c.used) >= maxUsedIDs
	c.s.mu.Unlock()
	switch {
	case x != nil && x.m.Method == mcp.MethodInitialize:
		return "initialize must not be cancelled"
	case x != nil:
		x.cancel(errCancelled)
	case c.pipe != nil && !used && !full && c.ed.has(handshake):
		return "no request with the id " + clip(string(id)) + " was sent"
	}
	return ""
}

// answer handles a client's response to a request of the server.
func (c *conversation) answer(m *jsonrpc.Message) (ok bool) {
	if !c.ed.has(handshake) {
		// 2026-07-28 §Streamable HTTP, "Sending Messages": clients do not send responses.
		c.s.violate("response", "%s has no server requests, so a client must not send responses", c.ed.date)
		return false
	}
	c.s.mu.Lock()
	waits, known := c.asked[m.ID]
	delete(c.asked, m.ID)
	c.s.mu.Unlock()
	switch {
	case known && waits != nil:
		waits <- m // does not block: the buffer holds one response, and only one is sent
	case !known:
		c.s.violate("response", "no request with the id %s waits for a response", clip(string(m.ID)))
	}
	return known
}

// allows reports whether raw has a member at the path, and the member is not false.
func allows(raw []byte, path ...string) bool {
	at := jsonrpc.Whole(raw)
	for _, key := range path {
		if at = jsonrpc.Find(raw, at, key); at.IsZero() {
			return false
		}
	}
	return jsonrpc.KindOf(raw, at) != 'f'
}
