package fake

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// clientCaps returns the capabilities that a client of the edition declares, without the given
// capabilities.
func (e *edition) clientCaps(without []string) []byte {
	out := []byte{'{'}
	add := func(name, value string) {
		if slices.Contains(without, name) {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, quote(name)...), ':'), value...)
	}
	if e.has(handshake) {
		add("roots", `{"listChanged":true}`)
	} else {
		add("roots", `{}`)
	}
	add("sampling", `{}`)
	switch {
	case e.has(formModes) && !slices.Contains(without, "url"):
		add("elicitation", `{"form":{},"url":{}}`)
	case e.has(formModes):
		add("elicitation", `{"form":{}}`)
	case e.has(forms):
		add("elicitation", `{}`)
	}
	extensions := quote(mcp.ExtensionApps) + `:` + PageClient + `,` + quote(mcp.ExtensionSkills) + `:{},` + quote(Vendor) + `:` + VendorClient
	if e.has(directedTask) && !slices.Contains(without, "tasks") {
		extensions = quote(mcp.ExtensionTasks) + `:{},` + extensions
	}
	add("extensions", "{"+extensions+"}")
	return append(out, '}')
}

// declares reports whether the client declared the capability at the path, such as "elicitation",
// "url".
func (c *Client) declares(path ...string) bool {
	at := jsonrpc.Whole(c.caps)
	for _, name := range path {
		at = jsonrpc.Find(c.caps, at, name)
	}
	return !at.IsZero()
}

// noticeShape returns the shape of a server notification's params. known is false if the edition
// does not have the notification. The notifications of an edition are those of the union
// ServerNotification in schema/DATE/schema.ts.
func (e *edition) noticeShape(method string) (s shape, known bool) {
	var meta []member
	if e.has(perRequest) {
		meta = []member{may(mcp.KeyMeta, anObject, may(mcp.KeySubscriptionID, aToken))}
	}
	with := func(ms ...member) shape { return append(slices.Clone(ms), meta...) }
	switch method {
	case mcp.NoteCancelled:
		return with(need("requestId", aToken)), true
	case mcp.NoteProgress:
		return with(need("progressToken", aToken), need("progress", aNumber), may("total", aNumber), may("message", aString)), true
	case mcp.NoteMessage:
		return with(need("level", aLevel), may("logger", aString), need("data", anything)), true
	case mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged:
		return with(), true
	case mcp.NoteResourceUpdated:
		return with(need("uri", aString)), true
	case mcp.NoteElicitComplete:
		return with(need("elicitationId", aString)), e.has(elicitationIDs)
	case "notifications/tasks/status":
		return with(need("taskId", aString), need("status", aString)), e.has(experimentalTask)
	case mcp.NoteAcknowledged:
		return with(need("notifications", anObject)), e.has(perRequest)
	case VendorNote:
		return with(need("place", aString)), true
	}
	return nil, false
}

// resultShape returns the shape of a complete result of the method, or nil if any object is valid.
func (e *edition) resultShape(method string) shape {
	capabilities := []member{
		may("tools", anObject, may("listChanged", aBool)), may("prompts", anObject, may("listChanged", aBool)),
		may("resources", anObject, may("listChanged", aBool), may("subscribe", aBool)),
		may("logging", anObject), may("completions", anObject), may("experimental", anObject),
	}
	contents := need("contents", anArray).of(member{kind: anObject, within: shape{
		need("uri", aString), may("mimeType", aString), may("text", aString), may("blob", aString),
	}})
	paged := func(m member) shape { return shape{m, may("nextCursor", aString)} }
	switch method {
	case mcp.MethodInitialize:
		return shape{
			need("protocolVersion", aString), need("capabilities", anObject, capabilities...),
			need("serverInfo", anObject, need("name", aString), need("version", aString), may("title", aString)), may("instructions", aString),
		}
	case mcp.MethodDiscover:
		return shape{
			need("supportedVersions", anArray).of(member{kind: aString}), need("capabilities", anObject, capabilities...),
			may("instructions", aString),
		}
	case mcp.MethodListTools:
		return paged(need("tools", anArray).of(member{kind: anObject, within: shape{
			need("name", aString), may("title", aString), may("description", aString), need("inputSchema", anObject, need("type", aString)),
			may("outputSchema", anObject), may("annotations", anObject),
		}}))
	case mcp.MethodCallTool:
		return shape{need("content", anArray).of(member{kind: anObject, within: shape{need("type", aString)}}), may("isError", aBool)}
	case mcp.MethodListResources:
		return paged(need("resources", anArray).of(member{kind: anObject, within: shape{
			need("uri", aString), need("name", aString), may("title", aString), may("description", aString), may("mimeType", aString), may("size", aNumber),
		}}))
	case mcp.MethodListTemplates:
		return paged(need("resourceTemplates", anArray).of(member{kind: anObject, within: shape{
			need("uriTemplate", aString), need("name", aString), may("description", aString), may("mimeType", aString),
		}}))
	case mcp.MethodReadResource:
		return shape{contents}
	case mcp.MethodListPrompts:
		return paged(need("prompts", anArray).of(member{kind: anObject, within: shape{
			need("name", aString), may("description", aString), may("arguments", anArray).of(member{kind: anObject, within: shape{
				need("name", aString), may("required", aBool),
			}}),
		}}))
	case mcp.MethodGetPrompt:
		return shape{may("description", aString), need("messages", anArray).of(member{kind: anObject, within: shape{
			need("role", aString), need("content", anObject, need("type", aString)),
		}})}
	case mcp.MethodListSkills:
		return paged(need("skills", anArray).of(member{kind: anObject, within: shape{need("uri", aString)}}))
	case mcp.MethodGetSkill:
		return shape{need("skill", anObject, need("uri", aString))}
	case mcp.MethodReadDirectory:
		return shape{need("resources", anArray).of(member{kind: anObject, within: shape{need("uri", aString), need("name", aString)}})}
	case mcp.MethodComplete:
		return shape{need("completion", anObject,
			need("values", anArray).of(member{kind: aString}), may("total", aNumber), may("hasMore", aBool))}
	}
	return nil
}

// checkResult returns the fault of a result, or "" if the result is valid.
func (e *edition) checkResult(method string, result []byte) string {
	whole := jsonrpc.Whole(result)
	if jsonrpc.KindOf(result, whole) != '{' {
		return "the result is not an object"
	}
	if m := jsonrpc.Find(result, whole, mcp.KeyMeta); !m.IsZero() && jsonrpc.KindOf(result, m) != '{' {
		return "_meta is not an object"
	}
	if e.has(resultTypes) {
		if wrong, complete := checkResultType(method, result); !complete || wrong != "" {
			return wrong
		}
	}
	if task := jsonrpc.Find(result, whole, "task"); method == mcp.MethodCallTool && e.has(experimentalTask) && !task.IsZero() {
		// 2025-11-25 §Tasks, "Creating Tasks".
		return taskShape.check(result, task, "result.task")
	}
	if s := e.resultShape(method); s != nil {
		if wrong := s.check(result, whole, "result"); wrong != "" {
			return wrong
		}
	}
	return e.checkItems(method, result)
}

// taskShape is the shape of a task that has just been created.
var taskShape = shape{need("taskId", aString), need("status", aString), need("createdAt", aString), need("lastUpdatedAt", aString)}

// checkResultType checks the type of a result of an edition that has types. complete is false if it is
// none of a complete result, which needs no other checks.
func checkResultType(method string, result []byte) (wrong string, complete bool) {
	whole := jsonrpc.Whole(result)
	t, ok := jsonrpc.Text(result, jsonrpc.Find(result, whole, "resultType"))
	m := mcp.LookupMethod(method)
	switch {
	case !ok:
		return "resultType is missing", false
	case t == "input_required" && (m == nil || !m.MayAsk):
		return "resultType is input_required, which this method does not have", false
	case t == "input_required":
		return checkInputRequired(result, whole), false
	case t == "task":
		return taskShape.check(result, whole, "result"), false
	case t != "complete":
		return "resultType is unknown: " + clip(t), false
	}
	if m != nil && m.Cacheable {
		wrong = checkCache(result, whole)
	}
	return wrong, true
}

// checkItems checks what the shape of a result does not say about its items.
func (e *edition) checkItems(method string, result []byte) string {
	whole := jsonrpc.Whole(result)
	switch method {
	case mcp.MethodCallTool:
		for v := range jsonrpc.Elements(result, jsonrpc.Find(result, whole, "content")) {
			if wrong := e.checkContent(result, v); wrong != "" {
				return wrong
			}
		}
		s := jsonrpc.Find(result, whole, "structuredContent")
		// 2025-06-18 §Tools, "Structured Content": structuredContent must be an object. Since
		// 2026-07-28, it may be any value.
		if !s.IsZero() && e.has(structured) && !e.has(resultTypes) && jsonrpc.KindOf(result, s) != '{' {
			return "structuredContent is not an object"
		}
	case mcp.MethodGetPrompt:
		for v := range jsonrpc.Elements(result, jsonrpc.Find(result, whole, "messages")) {
			if wrong := e.checkContent(result, jsonrpc.Find(result, v, "content")); wrong != "" {
				return wrong
			}
		}
	case mcp.MethodReadResource:
		for v := range jsonrpc.Elements(result, jsonrpc.Find(result, whole, "contents")) {
			if jsonrpc.Find(result, v, "text").IsZero() == jsonrpc.Find(result, v, "blob").IsZero() {
				return "an element of contents must have either text or blob"
			}
		}
	case mcp.MethodComplete:
		n := 0
		for range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Find(result, whole, "completion"), "values")) {
			n++
		}
		if n > 100 {
			return fmt.Sprintf("the result has %d completions, but at most 100 are allowed", n)
		}
	}
	return ""
}

func checkInputRequired(result []byte, whole jsonrpc.Span) string {
	requests, state := jsonrpc.Find(result, whole, "inputRequests"), jsonrpc.Find(result, whole, "requestState")
	if requests.IsZero() && state.IsZero() {
		return "the input_required result has neither inputRequests nor requestState"
	}
	if !requests.IsZero() && jsonrpc.KindOf(result, requests) != '{' {
		return "inputRequests is not an object"
	}
	if !state.IsZero() && jsonrpc.KindOf(result, state) != '"' {
		return "requestState is not a string"
	}
	for _, k := range []string{"ttlMs", "cacheScope"} {
		if !jsonrpc.Find(result, whole, k).IsZero() {
			// 2026-07-28 §Caching, "Cacheable Results".
			return "the input_required result must not have " + k
		}
	}
	return ""
}

// checkCache checks the caching hints (2026-07-28 §Caching).
func checkCache(result []byte, whole jsonrpc.Span) string {
	if ttl, ok := jsonrpc.Int(result, jsonrpc.Find(result, whole, "ttlMs")); !ok || ttl < 0 {
		return "ttlMs is not a non-negative integer"
	}
	scope, _ := jsonrpc.Text(result, jsonrpc.Find(result, whole, "cacheScope"))
	if scope != "public" && scope != "private" {
		return "cacheScope is neither public nor private"
	}
	return ""
}

// checkContent checks one content block. The edition must have the type of the block, and the block
// must have the members of this type (see the union ContentBlock in the schemas).
func (e *edition) checkContent(raw []byte, at jsonrpc.Span) string {
	kind, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, at, "type"))
	var s shape
	known := true
	switch kind {
	case "text":
		s = shape{need("text", aString)}
	case "image":
		s = shape{need("data", aString), need("mimeType", aString)}
	case "audio":
		s, known = shape{need("data", aString), need("mimeType", aString)}, e.has(audio)
	case "resource":
		s = shape{need("resource", anObject, need("uri", aString), may("text", aString), may("blob", aString))}
	case "resource_link":
		s, known = shape{need("uri", aString), need("name", aString)}, e.has(links)
	default:
		known = false
	}
	if !known {
		return "the content has the type " + clip(kind) + ", which " + e.date + " does not have"
	}
	return s.check(raw, at, kind+" content")
}

// checkError checks an error object (§Base, "Error Codes").
func (e *edition) checkError(raw []byte, at jsonrpc.Span) string {
	code, ok := jsonrpc.Int(raw, jsonrpc.Find(raw, at, "code"))
	if !ok {
		return "the code is not an integer"
	}
	if _, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, at, "message")); !ok {
		return "the message is not a string"
	}
	foreign := "the code is " + strconv.FormatInt(code, 10) + ", which " + e.date + " does not have"
	switch {
	case code == mcp.CodeResourceNotFound && !e.has(notFoundCode),
		code == mcp.CodeURLElicitationRequired && !e.has(elicitationIDs),
		code <= -32020 && code >= -32099 && code != mcp.CodeURLElicitationRequired && !e.has(resultTypes):
		return foreign
	case code <= -32020 && code >= -32099 && e.has(resultTypes) && !mcp.IsModernCode(code):
		return foreign
	}
	data := jsonrpc.Find(raw, at, "data")
	switch code {
	case mcp.CodeMissingCapability:
		return shape{need("requiredCapabilities", anObject)}.check(raw, data, "data")
	case mcp.CodeUnsupportedVersion:
		return shape{need("supported", anArray).of(member{kind: aString}), need("requested", aString)}.check(raw, data, "data")
	}
	return ""
}

// checkAsk checks a server request: the edition must have it, the client must have declared the
// capability for it, and the request must have the required members.
func (c *Client) checkAsk(a Ask) string {
	at := jsonrpc.Whole(a.Params)
	if k := jsonrpc.KindOf(a.Params, at); k != '{' && a.Params != nil {
		return "params is not an object"
	}
	switch a.Method {
	case mcp.MethodListRoots:
		if !c.declares("roots") {
			return undeclared("roots")
		}
	case mcp.MethodSample:
		if !c.declares("sampling") {
			return undeclared("sampling")
		}
		for _, tools := range []string{"tools", "toolChoice"} {
			if !jsonrpc.Find(a.Params, at, tools).IsZero() {
				return undeclared("sampling.tools")
			}
		}
		wrong := shape{
			need("messages", anArray).of(member{kind: anObject, within: shape{need("role", aString), need("content", anything)}}),
			need("maxTokens", aNumber), may("systemPrompt", aString),
		}.check(a.Params, at, "params")
		if wrong != "" {
			return wrong
		}
		for m := range jsonrpc.Elements(a.Params, jsonrpc.Find(a.Params, at, "messages")) {
			v := jsonrpc.Find(a.Params, m, "content")
			kind, _ := jsonrpc.Text(a.Params, jsonrpc.Find(a.Params, v, "type"))
			if kind != "text" && kind != "image" && (kind != "audio" || !c.e.has(audio)) {
				return "a message has content of an unsupported type: " + clip(kind)
			}
		}
	case mcp.MethodElicit:
		return c.checkElicit(a.Params)
	default:
		return "the client does not expect this request from a server of " + c.e.date
	}
	return ""
}

// checkElicit checks the params of a request for a form or for a visit to a page.
func (c *Client) checkElicit(params []byte) string {
	if !c.e.has(forms) || !c.declares("elicitation") {
		return undeclared("elicitation")
	}
	at := jsonrpc.Whole(params)
	mode, given := jsonrpc.Text(params, jsonrpc.Find(params, at, "mode"))
	switch {
	case !given || mode == "form":
		wrong := shape{need("message", aString), need("requestedSchema", anObject, need("type", aString), need("properties", anObject))}.
			check(params, at, "params")
		if wrong != "" {
			return wrong
		}
		return c.e.formFault(params, jsonrpc.Find(params, at, "requestedSchema"))
	case mode != "url" || !c.e.has(formModes):
		return "the mode is " + clip(mode) + ", which " + c.e.date + " does not have"
	case !c.declares("elicitation", "url"):
		return undeclared("elicitation.url")
	}
	s := shape{need("message", aString), need("url", aString)}
	if c.e.has(elicitationIDs) {
		s = append(s, need("elicitationId", aString)) // 2026-07-28 removed this member
	}
	return s.check(params, at, "params")
}

func undeclared(capability string) string { return "the client did not declare " + capability }

func floatOf(raw []byte, at jsonrpc.Span) (float64, bool) {
	v, err := strconv.ParseFloat(string(at.Of(raw)), 64)
	return v, err == nil
}

// The values that Obliging uses in its answers.
const (
	ObligingName  = "Ada"
	ObligingAge   = 36
	ObligingRoot  = "file:///fake/root"
	ObligingModel = "fake-model"
)

// Obliging answers every server request as a cooperative user would, always in the same way. It
// answers a sampling request with "sampled: " and the text of the last message. It accepts URLs and
// returns one root. In forms, it uses the default values. A field without a default value gets a
// fixed value for its type: ObligingName, ObligingAge, true, the first option, or all options.
func Obliging(a Ask) ([]byte, *jsonrpc.Error) {
	p := a.Params
	at := jsonrpc.Whole(p)
	switch a.Method {
	case mcp.MethodListRoots:
		return []byte(`{"roots":[{"uri":` + quote(ObligingRoot) + `,"name":"root"}]}`), nil
	case mcp.MethodSample:
		last := ""
		for m := range jsonrpc.Elements(p, jsonrpc.Find(p, at, "messages")) {
			last, _ = jsonrpc.Text(p, jsonrpc.Find(p, jsonrpc.Find(p, m, "content"), "text"))
		}
		return []byte(`{"role":"assistant","content":{"type":"text","text":` + quote("sampled: "+last) + `},"model":` + quote(ObligingModel) + `,"stopReason":"endTurn"}`), nil
	case mcp.MethodElicit:
		if mode, _ := jsonrpc.Text(p, jsonrpc.Find(p, at, "mode")); mode == "url" {
			return []byte(`{"action":"accept"}`), nil
		}
		return append(fillForm(p, jsonrpc.Find(p, at, "requestedSchema")), '}'), nil
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found"}
}
