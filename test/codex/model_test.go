//go:build unix

package codex

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// model is a model endpoint with the Responses API. It answers each request with a stream of
// events. The first word of the prompt decides the answer:
//
//	run FILE    asks to run a command that creates the file
//	patch FILE  asks to create the file with a patch
//	wait        sends one word and nothing more
//
// For any other prompt, and for the result of a tool, the answer is the constant sentence.
type model struct {
	*httptest.Server
	last atomic.Int64
}

const sentence = "Hello from the model of the test."

func newModel(t *testing.T) *model {
	m := &model{}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

// asked has the parts of a request that the model reads.
type asked struct {
	Input []struct {
		Type    string
		Role    string
		Content json.RawMessage
	}
	Tools []struct{ Name string }
}

// prompt returns the text of the last message. It returns "" if the last item is not a
// message, for example the result of a tool.
func (a *asked) prompt() string {
	if len(a.Input) == 0 {
		return ""
	}
	last := a.Input[len(a.Input)-1]
	var parts []struct{ Text string }
	if last.Type != "message" || last.Role != "user" || json.Unmarshal(last.Content, &parts) != nil || len(parts) == 0 {
		return ""
	}
	return parts[len(parts)-1].Text
}

func (a *asked) has(tool string) bool {
	return slices.ContainsFunc(a.Tools, func(t struct{ Name string }) bool { return t.Name == tool })
}

type fields map[string]any

func (m *model) serve(w http.ResponseWriter, r *http.Request) {
	var a asked
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&a) != nil {
		http.NotFound(w, r)
		return
	}
	n := m.last.Add(1)
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(kind string, f fields) {
		f["type"] = kind
		b, _ := json.Marshal(f)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
		w.(http.Flusher).Flush()
	}
	id := fmt.Sprintf("resp_%d", n)
	event("response.created", fields{"response": fields{"id": id}})
	done := func(item fields) {
		event("response.output_item.done", fields{"item": item})
		event("response.completed", fields{"response": fields{"id": id, "usage": fields{
			"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2,
		}}})
	}
	word, rest, _ := strings.Cut(a.prompt(), " ")
	switch word {
	case "run":
		done(a.command("touch '" + rest + "'"))
		return
	case "patch":
		done(a.command("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: " + rest + "\n+patched\n*** End Patch\nEOF\n"))
		return
	}
	message := func(content ...fields) fields {
		return fields{"type": "message", "role": "assistant", "id": fmt.Sprintf("msg_%d", n), "content": append([]fields{}, content...)}
	}
	event("response.output_item.added", fields{"item": message()})
	for _, piece := range strings.SplitAfter(sentence, " ") {
		event("response.output_text.delta", fields{"item_id": fmt.Sprintf("msg_%d", n), "output_index": 0, "content_index": 0, "delta": piece})
		if word == "wait" {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
			}
			return
		}
	}
	done(message(fields{"type": "output_text", "text": sentence}))
}

// command returns a call of the tool with which the worker runs commands. If line is a patch, the
// worker applies the patch itself. For any other line, the call asks for permission to run outside
// the sandbox.
func (a *asked) command(line string) fields {
	name, escape := "exec_command", fields{"sandbox_permissions": "require_escalated"}
	arguments := fields{"cmd": line}
	if !a.has(name) {
		name, escape = "shell", fields{"with_escalated_permissions": true}
		arguments = fields{"command": []string{"bash", "-lc", line}}
	}
	if !strings.HasPrefix(line, "apply_patch") {
		maps.Copy(arguments, escape)
		arguments["justification"] = "the test wants it"
	}
	b, _ := json.Marshal(arguments)
	return fields{"type": "function_call", "id": "fc", "call_id": "call", "name": name, "arguments": string(b)}
}
