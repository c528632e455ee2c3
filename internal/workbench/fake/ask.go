package fake

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// question is a request that a tool sends to the client.
type question struct {
	key     string // identifies the question among those of one round
	method  string
	params  string
	needs   []string // the path of the capability that the client must declare
	answers shape    // the shape of the answer
	check   func(raw []byte, answer jsonrpc.Span) string
}

// inputRequired is the result of a call that needs input from the client (2026-07-28 §Multi
// Round-Trip Requests).
type inputRequired struct{ members string }

func (*inputRequired) Error() string { return "input is required" }

func (e *edition) askSample(key, prompt string) question {
	content := need("content", anObject, need("type", aString), may("text", aString))
	if e.has(formModes) {
		// 2025-11-25 §Sampling: content is one block or a list of blocks.
		content = need("content", anything)
	}
	return question{
		key: key, method: mcp.MethodSample, needs: []string{"sampling"},
		params:  `{"messages":[{"role":"user","content":` + textBlock(prompt) + `}],"maxTokens":100}`,
		answers: shape{need("role", aString), content, need("model", aString), may("stopReason", aString)},
		check: func(raw []byte, a jsonrpc.Span) string {
			role, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, a, "role"))
			content := jsonrpc.Find(raw, a, "content")
			is := jsonrpc.KindOf(raw, content)
			if role != "user" && role != "assistant" {
				return "role is neither user nor assistant"
			}
			if is != '{' && is != '[' {
				return "content is neither a block nor a list of blocks"
			}
			return ""
		},
	}
}

func (e *edition) askForm(key string) question {
	mode := ""
	needs := []string{"elicitation"}
	if e.has(formModes) {
		mode = `"mode":"form",`
		needs = []string{"elicitation", "form"}
	}
	return question{
		key: key, method: mcp.MethodElicit, needs: needs,
		params:  `{` + mode + `"message":"Who are you?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"]}}`,
		answers: shape{need("action", aString), may("content", anObject)},
		check: func(raw []byte, a jsonrpc.Span) string {
			content := jsonrpc.Find(raw, a, "content")
			switch action, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, a, "action")); action {
			case "accept":
				if content.IsZero() {
					return "content is missing"
				}
				return shape{need("name", aString), may("age", anInteger)}.check(raw, content, "content")
			case "decline", "cancel":
				return ""
			}
			return "action is not accept, decline or cancel"
		},
	}
}

// richFields has the names of the fields of askRichForm.
var richFields = []string{"color", "sizes", "tags", "name", "age", "gloss"}

// askRichForm returns a form with many of the field types in 2025-11-25.
func (e *edition) askRichForm(key, words string) question {
	return question{
		key: key, method: mcp.MethodElicit, needs: []string{"elicitation", "form"},
		params: `{"mode":"form","message":` + quote(words) + `,"requestedSchema":{"type":"object","properties":{` +
			`"color":{"type":"string","title":"Color","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"Green"}],"default":"#f00"},` +
			`"sizes":{"type":"array","title":"Sizes","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"s","title":"Small"},{"const":"m","title":"Medium"},{"const":"l","title":"Large"}]},"default":["s"]},` +
			`"tags":{"type":"array","items":{"type":"string","enum":["wet","dry"]}},` +
			`"name":{"type":"string","format":"email","default":"` + ObligingName + `"},` +
			`"age":{"type":"integer","default":` + strconv.Itoa(ObligingAge) + `},` +
			`"gloss":{"type":"boolean","default":true}` +
			`},"required":["color","sizes"]}}`,
		answers: shape{need("action", aString), may("content", anObject)},
		check: func(raw []byte, a jsonrpc.Span) string {
			content := jsonrpc.Find(raw, a, "content")
			if action, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, a, "action")); action != "accept" {
				return ""
			}
			for m := range jsonrpc.Members(raw, content) {
				if name, _ := jsonrpc.Text(raw, m.Key); !slices.Contains(richFields, name) {
					return "content has the field " + clip(name) + ", which the form does not have"
				}
			}
			text := may("", aString)
			return shape{need("color", aString), need("sizes", anArray).of(text), may("tags", anArray).of(text), may("name", aString), may("age", anInteger), may("gloss", aBool)}.
				check(raw, content, "content")
		},
	}
}

func (e *edition) askURL(key string) question {
	id := ""
	if e.has(elicitationIDs) {
		id = `"elicitationId":"elicitation-` + key + `",`
	}
	return question{
		key: key, method: mcp.MethodElicit, needs: []string{"elicitation", "url"},
		params:  `{"mode":"url",` + id + `"url":"https://fake.invalid/` + key + `","message":"Please have a look."}`,
		answers: shape{need("action", aString)},
		check: func(raw []byte, a jsonrpc.Span) string {
			switch action, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, a, "action")); action {
			case "accept", "decline", "cancel":
				return ""
			}
			return "action is not accept, decline or cancel"
		},
	}
}

func (e *edition) askRoots(key string) question {
	return question{
		key: key, method: mcp.MethodListRoots, needs: []string{"roots"},
		answers: shape{need("roots", anArray).of(need("", anObject, need("uri", aString), may("name", aString)))},
	}
}

func (q *question) wrong(raw []byte, a jsonrpc.Span) string {
	if jsonrpc.KindOf(raw, a) != '{' {
		return "it is not an object"
	}
	if wrong := q.answers.check(raw, a, "result"); wrong != "" {
		return wrong
	}
	if q.check != nil {
		return q.check(raw, a)
	}
	return ""
}

// declared reports whether the client has declared the capability that a question needs. A
// client that declares elicitation without a mode supports forms (2025-11-25 §Elicitation,
// "Capabilities").
func (x *exchange) declared(q *question) bool {
	if len(q.needs) == 2 && q.needs[1] == "form" {
		return allows(x.caps, "elicitation", "form") || allows(x.caps, "elicitation") && !allows(x.caps, "elicitation", "url")
	}
	return allows(x.caps, q.needs...)
}

// ask sends questions to the client and returns the answers as JSON objects, in the order of the
// questions. In revisions with input rounds, the tool runs again in each round. It then calls ask
// again with the same questions.
func (x *exchange) ask(qs ...question) ([][]byte, error) {
	for i := range qs {
		if !x.declared(&qs[i]) {
			return nil, x.undeclared(&qs[i])
		}
	}
	if x.c.ed.has(inputRounds) {
		return x.askInResult(qs)
	}
	var answers [][]byte
	for i := range qs {
		a, err := x.askLive(&qs[i])
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// undeclared returns the error for a question whose capability the client has not declared. The
// missing capability is not a violation.
func (x *exchange) undeclared(q *question) error {
	path := strings.Join(q.needs, ".")
	if !x.c.ed.has(perRequest) {
		return toolError("the client has not declared " + path)
	}
	caps := "{}"
	for i := len(q.needs) - 1; i >= 0; i-- {
		caps = "{" + quote(q.needs[i]) + ":" + caps + "}"
	}
	// This error is defined in 2026-07-28 §Base, "Per-request protocol fields".
	return &jsonrpc.Error{
		Code: mcp.CodeMissingCapability, Message: "the client has not declared " + path,
		Data: []byte(`{"requiredCapabilities":` + caps + `}`),
	}
}

// askLive sends a request to the client and waits for the response.
func (x *exchange) askLive(q *question) ([]byte, error) {
	c := x.c
	back := make(chan *jsonrpc.Message, 1)
	c.s.mu.Lock()
	c.lastAsk++
	id := jsonrpc.IntID(c.lastAsk)
	c.asked[id] = back
	c.s.mu.Unlock()
	c.send(x.out, nil, jsonrpc.AppendRequest(nil, id, q.method, []byte(q.params)))
	select {
	case m := <-back:
		if m.Kind == jsonrpc.Failure {
			code, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
			words, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
			return nil, toolError("the client answered the request of this tool with the error " + strconv.FormatInt(code, 10) + ": " + words)
		}
		if wrong := q.wrong(m.Raw, m.Result); wrong != "" {
			c.s.violate("answer to "+q.method, "%s", wrong)
			return nil, toolError("the client's answer does not match the request: " + wrong)
		}
		return m.Result.Of(m.Raw), nil
	case <-x.ctx.Done():
		c.s.mu.Lock()
		if _, still := c.asked[id]; still {
			c.asked[id] = nil // a response that is already on its way is not a violation
		}
		c.s.mu.Unlock()
		if causeOf(x) == errCancelled {
			c.send(x.out, nil, jsonrpc.AppendNotification(nil, mcp.NoteCancelled, []byte(`{"requestId":`+string(id)+`,"reason":"the call that needed this request was cancelled"}`)))
		}
		return nil, x.ctx.Err()
	}
}

func causeOf(x *exchange) error { return context.Cause(x.ctx) }

// askInResult returns the answers that the client has sent, in this request or, with the state, in
// earlier rounds. If answers are missing, askInResult returns the result that asks for them.
func (x *exchange) askInResult(qs []question) ([][]byte, error) {
	if x.spent+len(qs) <= len(x.past) {
		x.spent += len(qs)
		return x.past[x.spent-len(qs) : x.spent], nil
	}
	if x.answered {
		return nil, x.inputRequired(qs) // the answers in this request belong to an earlier question, so ask qs in the next round
	}
	raw, given := x.m.Raw, x.m.Param("inputResponses")
	var answers [][]byte
	for i := range qs {
		a := jsonrpc.Find(raw, given, qs[i].key)
		if a.IsZero() {
			// 2026-07-28 §Multi Round-Trip Requests, "Error Handling": missing answers
			// are requested again.
			return nil, x.inputRequired(qs)
		}
		if wrong := qs[i].wrong(raw, a); wrong != "" {
			return nil, x.c.s.refuse("answer to "+qs[i].method, jsonrpc.CodeInvalidParams, "%s", wrong)
		}
		answers = append(answers, a.Of(raw))
	}
	x.answered = true
	x.past = append(x.past, answers...)
	x.spent = len(x.past)
	return answers, nil
}

func (x *exchange) inputRequired(qs []question) error {
	var asks []string
	for i := range qs {
		params := qs[i].params
		if params == "" {
			params = "{}" // params may be omitted, but not every client supports that
		}
		asks = append(asks, quote(qs[i].key)+`:{"method":`+quote(qs[i].method)+`,"params":`+params+`}`)
	}
	return &inputRequired{`"inputRequests":{` + strings.Join(asks, ",") + `},"requestState":` + quote(x.sealed())}
}

// stateKey signs the state that the client sends back. The key need not be secret. It is constant,
// so that the fake is deterministic.
const stateKey = "a fake has no secrets"

// sealed returns a signed state that contains the answers of all rounds so far. Only the same tool
// accepts the state (2026-07-28 §Multi Round-Trip Requests, "Server Requirements").
func (x *exchange) sealed() string {
	body := "[" + string(bytes.Join(x.past, []byte(","))) + "]"
	return base64.RawURLEncoding.EncodeToString([]byte(body)) + "." + x.seal(body)
}

func (x *exchange) seal(body string) string {
	mac := hmac.New(sha256.New, []byte(stateKey))
	_, _ = io.WriteString(mac, x.tool.name+"/"+body)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// resume reads the state of earlier rounds from a request.
func (x *exchange) resume() error {
	if !x.c.ed.has(inputRounds) {
		return nil
	}
	at, given := x.m.Param("requestState"), x.m.Param("inputResponses")
	if wrong := (shape{may("requestState", aString), may("inputResponses", anObject)}).check(x.m.Raw, x.m.Params, "params"); wrong != "" {
		return x.c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "%s", wrong)
	}
	if at.IsZero() {
		if !given.IsZero() {
			return x.c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "params has inputResponses but no requestState")
		}
		return nil
	}
	state, _ := jsonrpc.Text(x.m.Raw, at)
	encoded, mac, _ := strings.Cut(state, ".")
	body, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || !hmac.Equal([]byte(mac), []byte(x.seal(string(body)))) {
		return x.c.s.refuse(x.m.Method, jsonrpc.CodeInvalidParams, "params.requestState was not issued for this call, or was modified")
	}
	for e := range jsonrpc.Elements(body, jsonrpc.Whole(body)) {
		x.past = append(x.past, e.Of(body))
	}
	return nil
}
