//go:build unix

package clients

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// model is an endpoint with the Messages API of Anthropic and the Responses API of OpenAI. What answers is a script and
// no model: it searches with the task's query, has the tool that came first described, calls it, and repeats its result.
// It reads only what the client gives to a model.
type model struct {
	*httptest.Server
	task task

	mu      sync.Mutex
	context []int // the length of each request
}

func newModel(t *testing.T, do task) *model {
	m := &model{task: do}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", m.messages)
	mux.HandleFunc("POST /v1/responses", m.responses)
	m.Server = httptest.NewServer(mux)
	t.Cleanup(m.Close)
	return m
}

// answer is a call of a tool, or else a text.
type answer struct {
	tool      string
	arguments any
	text      string
}

var firstTool = regexp.MustCompile(`(?m)^(\w+)\(`)

// next returns the model's answer: tools are those that it may call, and results those of its calls.
func (m *model) next(tools, results []string) answer {
	called := func(name string, arguments any) answer {
		for _, t := range tools {
			if strings.HasSuffix(t, name) {
				return answer{tool: t, arguments: arguments}
			}
		}
		return answer{text: fmt.Sprintf("I have no %s, but %q", name, tools)}
	}
	found := ""
	if len(results) > 0 {
		first := firstTool.FindStringSubmatch(results[0])
		if first == nil {
			return answer{text: "nothing was found: " + results[0]}
		}
		found = first[1]
	}
	switch len(results) {
	case 0:
		return called("search_tools", map[string]any{"query": m.task.Query})
	case 1:
		return called("describe_tools", map[string]any{"names": []string{found}})
	case 2:
		if !strings.Contains(results[1], `"inputSchema"`) {
			return answer{text: "nothing was described: " + results[1]}
		}
		return called("call_tool", map[string]any{"name": found, "arguments": m.task.Arguments})
	}
	return answer{text: "The tool says: " + results[2]}
}

// asked returns the body of a request.
func (m *model) asked(w http.ResponseWriter, r *http.Request, into any) bool {
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	m.mu.Lock()
	m.context = append(m.context, len(b))
	m.mu.Unlock()
	return true
}

// tokens returns what the model has read in its first and its last request, at four bytes each.
func (m *model) tokens() (first, last int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.context) == 0 {
		return 0, 0
	}
	return m.context[0] / 4, m.context[len(m.context)-1] / 4
}

type fields map[string]any

// events sends a stream of pairs of an event's type and its other members.
func events(w http.ResponseWriter, all ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := 0; i < len(all); i += 2 {
		f := all[i+1].(fields)
		f["type"] = all[i]
		b, _ := json.Marshal(f)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", all[i], b)
	}
}

// textOf returns the text of a result, which is a string or a list of blocks.
func textOf(content json.RawMessage) (text string) {
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []struct{ Text string }
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		text += b.Text
	}
	return text
}

// messages is the Messages API, as far as Claude Code uses it.
func (m *model) messages(w http.ResponseWriter, r *http.Request) {
	var a struct {
		Model    string
		Tools    []struct{ Name string }
		Messages []struct{ Content json.RawMessage }
	}
	if !m.asked(w, r, &a) {
		return
	}
	var tools, results []string
	for _, t := range a.Tools {
		tools = append(tools, t.Name)
	}
	for _, x := range a.Messages {
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(x.Content, &blocks) // a text has no results
		for _, b := range blocks {
			if b.Type == "tool_result" {
				results = append(results, textOf(b.Content))
			}
		}
	}
	said := m.next(tools, results)
	block, delta, stop := fields{"type": "text", "text": ""}, fields{"type": "text_delta", "text": said.text}, "end_turn"
	if said.tool != "" {
		arguments, _ := json.Marshal(said.arguments)
		block = fields{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", len(results)), "name": said.tool, "input": fields{}}
		delta, stop = fields{"type": "input_json_delta", "partial_json": string(arguments)}, "tool_use"
	}
	usage := fields{"input_tokens": 1, "output_tokens": 1}
	events(w,
		"message_start", fields{"message": fields{"id": "msg", "type": "message", "role": "assistant", "model": a.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": usage}},
		"content_block_start", fields{"index": 0, "content_block": block},
		"content_block_delta", fields{"index": 0, "delta": delta},
		"content_block_stop", fields{"index": 0},
		"message_delta", fields{"delta": fields{"stop_reason": stop, "stop_sequence": nil}, "usage": usage},
		"message_stop", fields{})
}

// responses is the Responses API, as far as Codex uses it.
func (m *model) responses(w http.ResponseWriter, r *http.Request) {
	type tool struct{ Name string }
	var a struct {
		Tools []struct {
			tool
			Type  string
			Tools []tool // of a namespace
		}
		Input []struct {
			Type   string
			Output json.RawMessage
		}
	}
	if !m.asked(w, r, &a) {
		return
	}
	var tools, results []string
	for _, t := range a.Tools {
		if t.Type != "namespace" {
			tools = append(tools, t.Name)
		}
		for _, x := range t.Tools {
			tools = append(tools, t.Name+" "+x.Name)
		}
	}
	for _, x := range a.Input {
		if x.Type == "function_call_output" {
			results = append(results, textOf(x.Output))
		}
	}
	said := m.next(tools, results)
	item := fields{"type": "message", "role": "assistant", "id": "msg", "content": []fields{{"type": "output_text", "text": said.text}}}
	if said.tool != "" {
		arguments, _ := json.Marshal(said.arguments)
		id := fmt.Sprint(len(results))
		item = fields{"type": "function_call", "id": "fc_" + id, "call_id": "call_" + id, "name": said.tool, "arguments": string(arguments)}
		if space, name, ok := strings.Cut(said.tool, " "); ok {
			item["namespace"], item["name"] = space, name
		}
	}
	events(w,
		"response.created", fields{"response": fields{"id": "resp"}},
		"response.output_item.done", fields{"item": item},
		"response.completed", fields{"response": fields{"id": "resp", "usage": fields{
			"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2,
		}}})
}
