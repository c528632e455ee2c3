package mcp_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

func TestCanonicalCapabilities(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", ``, ``},
		{"an empty object", `{}`, ``},
		{"nothing that can be asked for", `{"tasks":{"list":{}},"experimental":{"x":{}},"extensions":{"io.modelcontextprotocol/ui":{}}}`, ``},
		{"not an object", `{"sampling":true,"roots":null,"elicitation":"form"}`, ``},
		{"sampling", `{"sampling":{}}`, `{"sampling":{}}`},
		{"white space and order", ` { "sampling" : { } , "roots" : { } } `, `{"roots":{},"sampling":{}}`},
		{"escaped names", `{"sam\u0070ling":{}}`, `{"sampling":{}}`},
		{"unknown sub-keys", `{"sampling":{"x1":{},"tools":{"y":1}},"z":{}}`, `{"sampling":{"tools":{}}}`},
		{"elicitation, empty", `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{"elicitation, form", `{"elicitation":{"form":{"a":1}}}`, `{"elicitation":{"form":{}}}`},
		{"elicitation, unknown", `{"elicitation":{"applyDefaults":true}}`, `{"elicitation":{"form":{}}}`},
		{"elicitation, url", `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		{"elicitation, both", `{"elicitation":{"url":{},"form":{}}}`, `{"elicitation":{"form":{},"url":{}}}`},
		{"roots that change", `{"roots":{"listChanged":true}}`, `{"roots":{"listChanged":true}}`},
		{"roots that do not", `{"roots":{"listChanged":false}}`, `{"roots":{}}`},
		{"tasks", `{"sampling":{},"tasks":{"requests":{"sampling":{"createMessage":{}},"elicitation":{"create":{}}},"list":{}}}`,
			`{"sampling":{},"tasks":{"list":{},"requests":{"elicitation":{"create":{}},"sampling":{"createMessage":{}}}}}`},
		{"tasks of elicitation without a request", `{"sampling":{},"tasks":{"requests":{"elicitation":{}}}}`, `{"sampling":{},"tasks":{"requests":{"elicitation":{}}}}`},
		{"experimental", `{"sampling":{},"experimental":{"a":{}}}`, `{"sampling":{}}`},
		{"extensions of vendors", `{"sampling":{},"extensions":{"com.example/y":{},"n":7, "com.example/\u0078" : {"v": 1e1},"io.modelcontextprotocol/skills":{"a":1},"com.example/x":{}}}`,
			`{"extensions":{"io.modelcontextprotocol/skills":{},"com.example/x":{"v": 1e1},"com.example/y":{}},"sampling":{}}`},
		{"only a vendor's extension", `{"extensions":{"com.example/x":{}}}`, `{"extensions":{"com.example/x":{}}}`},
		{"too many extensions", `{"extensions":{` + strings.Repeat(`"a":{},`, 20) + `"long":{"v":"` + strings.Repeat("x", 2000) + `"},"too long":{"v":"` + strings.Repeat("x", 100) + `"},"b":{}}}`,
			`{"extensions":{"a":{},"b":{},"long":{"v":"` + strings.Repeat("x", 2000) + `"}}}`},
		{"authorization", `{"roots":{},"extensions":{"io.modelcontextprotocol/oauth-client-credentials":{}}}`, `{"roots":{}}`},
		{"pages", `{"sampling":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["x","text/html;profile=mcp-app"]},"a/b":7}}`,
			`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}},"sampling":{}}`},
		{"pages of another kind", `{"sampling":{},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["x"]}}}`,
			`{"extensions":{"io.modelcontextprotocol/ui":{}},"sampling":{}}`},
		{"only pages", `{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`,
			`{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`},
		{"only skills", `{"extensions":{"io.modelcontextprotocol/skills":{}}}`, `{"extensions":{"io.modelcontextprotocol/skills":{}}}`},
		{"skills", `{"roots":{},"extensions":{"io.modelcontextprotocol/skills":{"x":1}}}`, `{"extensions":{"io.modelcontextprotocol/skills":{}},"roots":{}}`},
		{"the extension of tasks", `{"extensions":{"io.modelcontextprotocol/tasks":{"v":2}},"roots":{}}`,
			`{"extensions":{"io.modelcontextprotocol/tasks":{}},"roots":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := mcp.CanonicalCapabilities([]byte(c.in))
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if again := mcp.CanonicalCapabilities(got); string(again) != c.want {
				t.Errorf("the canonical form of the result differs: %s", again)
			}
			if got == nil {
				return
			}
			raw := append(append([]byte(`{"jsonrpc":"2.0","method":"m","params":`), got...), '}')
			if _, err := jsonrpc.Scan(raw, jsonrpc.Limits{}); err != nil {
				t.Errorf("%s is not JSON: %v", got, err)
			}
		})
	}
}

func TestLacksCapability(t *testing.T) {
	for _, c := range []struct {
		have, need string
		want       bool
	}{
		{``, `{}`, false},
		{``, `{"sampling":{}}`, true},
		{`{}`, `{"sampling":{}}`, true},
		{`{"sampling":{}}`, `{"sampling":{}}`, false},
		{`{"sampling":{}}`, `{"sampling":{},"roots":{}}`, true},
		{`{"sampling":{}}`, `{"sampling":{"tools":{}}}`, true},
		{`{"sampling":{"tools":{"a":1}}}`, `{"sampling":{"tools":{}}}`, false},
		{`{"sampling":true}`, `{"sampling":{}}`, true},
		{`{"elicitation":{}}`, `{"elicitation":{"form":{}}}`, false},
		{`{"elicitation":{"url":{}}}`, `{"elicitation":{"form":{}}}`, true},
		{`{"elicitation":{}}`, `{"elicitation":{"url":{}}}`, true},
		{`{"roots":{}}`, `{"roots":{"listChanged":true}}`, true},
		{`{"roots":{"listChanged":true}}`, `{"roots":{"listChanged":true}}`, false},
		{`{"sampling":{}}`, `[]`, false},
		{`{"sampling":{}}`, ``, false},
	} {
		if got := mcp.LacksCapability([]byte(c.have), []byte(c.need), jsonrpc.Whole([]byte(c.need))); got != c.want {
			t.Errorf("%s of %s: %t", c.need, c.have, got)
		}
	}
}
