package console

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	terminal "github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
)

// repeated is a request as snippets send it.
type repeated struct {
	method, name string
	arguments    string // JSON; "{}" if there are none
	modern       bool   // the revision of the client has no handshake
	revision     string
}

// callOf returns the request of a run. At the endpoint for search, it's the one for the tool that calls others.
func callOf(q *admin.RunRequest) repeated {
	c := repeated{method: mcp.MethodCallTool, name: q.Tool, arguments: visibleArguments(q.Arguments), revision: q.Revision}
	switch {
	case q.Prompt != "":
		c.method, c.name = mcp.MethodGetPrompt, q.Prompt
	case q.Resource != "":
		c.method, c.name = mcp.MethodReadResource, q.Resource
	case q.Endpoint == admin.AtSearch && !finder.Ours(q.Tool):
		c.arguments = `{"name":` + jsonText(q.Tool) + `,"arguments":` + c.arguments + `}`
		c.name = finder.Call
	}
	if revision, ok := mcp.ParseRevision(q.Revision); ok {
		c.modern = revision.Can(mcp.PerRequestMeta)
	}
	return c
}

// jsonText returns text as a JSON string, which is one in TypeScript and Go, too.
func jsonText(text string) string { return visibleJSON(string(jsonrpc.AppendQuote(nil, text))) }

// command returns the command of dragoman that makes the request, or "".
func (c *repeated) command(endpoint string) string {
	does := map[string]string{mcp.MethodCallTool: "call", mcp.MethodReadResource: "read"}[c.method]
	if does == "" || strings.HasPrefix(c.name, "-") { // which would be an option
		return ""
	}
	text := "dragoman " + does + " " + terminal.ShellWord(endpoint) + " " + terminal.ShellWord(c.name)
	if c.method == mcp.MethodCallTool && c.arguments != "{}" {
		text += " --json-args " + terminal.ShellWord(c.arguments)
	}
	if c.revision != "" {
		text += " --revision " + terminal.ShellWord(c.revision)
	}
	return text
}

// params returns the params of the request, with further members.
func (c *repeated) params(more string) string {
	if c.method == mcp.MethodReadResource {
		return `{"uri":` + jsonText(c.name) + more + `}`
	}
	return `{"name":` + jsonText(c.name) + `,"arguments":` + c.arguments + more + `}`
}

// curl returns the command of curl that makes the request: without a handshake, as servers accept it.
func (c *repeated) curl(endpoint string) string {
	heads, more := "", ""
	if c.modern {
		more = `,"_meta":{"` + mcp.KeyVersion + `":"` + c.revision + `","` + mcp.KeyClientInfo + `":{"name":"curl","version":"1"},"` + mcp.KeyClientCaps + `":{}}`
		heads = " \\\n  -H 'MCP-Protocol-Version: " + c.revision + "' \\\n  -H 'Mcp-Method: " + c.method + "' \\\n  -H " + terminal.ShellWord("Mcp-Name: "+c.name)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":` + c.params(more) + `}`
	return "curl " + terminal.ShellWord(endpoint) + ` \
  -H "Authorization: Bearer $` + keyVariable + `" \
  -H 'Content-Type: application/json' \
  -H 'Accept: application/json, text/event-stream'` + heads + " \\\n  --data-raw " + terminal.ShellWord(body)
}

// typescript returns a program for the official SDK.
func (c *repeated) typescript(endpoint string) string {
	does := map[string]string{mcp.MethodCallTool: "callTool", mcp.MethodGetPrompt: "getPrompt", mcp.MethodReadResource: "readResource"}[c.method]
	return `import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "example", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(` + jsonText(endpoint) + `), {
  requestInit: { headers: { Authorization: ` + "`Bearer ${process.env." + keyVariable + "}`" + ` } },
}));
console.log(await client.` + does + `(` + c.params("") + `));
await client.close();`
}

// golang returns a program for the official SDK.
func (c *repeated) golang(endpoint string) string {
	does, params := "CallTool", `&mcp.CallToolParams{Name: `+jsonText(c.name)+`, Arguments: json.RawMessage(`+jsonText(c.arguments)+`)}`
	imports := "\t\"context\"\n\t\"encoding/json\"\n"
	switch c.method {
	case mcp.MethodGetPrompt:
		does, params = "GetPrompt", "params"
	case mcp.MethodReadResource:
		does, params, imports = "ReadResource", `&mcp.ReadResourceParams{URI: `+jsonText(c.name)+`}`, "\t\"context\"\n"
	}
	prepare := ""
	if c.method == mcp.MethodGetPrompt {
		prepare = "\tparams := &mcp.GetPromptParams{Name: " + jsonText(c.name) + "}\n\tif err := json.Unmarshal([]byte(" + jsonText(c.arguments) + "), &params.Arguments); err != nil {\n\t\tlog.Fatal(err)\n\t}\n"
	}
	return `package main

import (
` + imports + `	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type withKey struct{}

func (withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+os.Getenv("` + keyVariable + `"))
	return http.DefaultTransport.RoundTrip(r)
}

func main() {
	ctx := context.Background()
	client := mcp.NewClient(&mcp.Implementation{Name: "example", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: ` + jsonText(endpoint) + `, HTTPClient: &http.Client{Transport: withKey{}}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
` + prepare + `	result, err := session.` + does + `(ctx, ` + params + `)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", result)
}`
}
