//go:build unix

package daemon

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

var update = flag.Bool("update", false, "write the golden files")

// serverCode is the error code, and perhaps the data, that a server sends for a call.
type serverCode struct {
	code int64
	data string
}

// serverCodes are the codes at the edges of each range, and the codes with a defined meaning. They
// cover the codes of JSON-RPC, the codes that applications may use, the range for implementations,
// and the range that the specification reserves.
var serverCodes = []serverCode{
	{code: -32700}, {code: -32600}, {code: -32601}, {code: -32602}, {code: -32603}, {code: -31999}, {code: 7},
	{code: -32000}, {code: -32001}, {code: -32002}, {code: -32019},
	{code: -32020}, {code: -32020, data: `{"header":"Mcp-Name"}`},
	{code: -32021}, {code: -32021, data: `{"requiredCapabilities":{}}`},
	{code: -32021, data: `{"requiredCapabilities":{"sampling":{}}}`},
	{code: -32021, data: `{"requiredCapabilities":{"elicitation":{"form":{}}}}`},
	{code: -32021, data: `{"requiredCapabilities":{"elicitation":{"url":{}}}}`},
	{code: -32022}, {code: -32022, data: `{"supported":["2099-01-01"],"requested":"2026-07-28"}`},
	{code: -32023}, {code: -32042}, {code: -32050, data: `[1]`}, {code: -32050, data: `{"upstreamCode":1}`}, {code: -32099}, {code: -32100},
}

// TestErrorCodeTable checks how Dragoman translates the errors in serverCodes, for each era of
// server and of client. testdata/codes.txt lists the HTTP status, the code and the data that the
// client gets, from the server's own endpoint and from the merged endpoint. All clients declare
// elicitation. After each error, a call to another server works. The flag -update rewrites the
// file.
func TestErrorCodeTable(t *testing.T) {
	t.Parallel()
	const caps = `{"elicitation":{}}`
	var out bytes.Buffer
	for _, serverIsModern := range []bool{false, true} {
		r := serve(t, snapshot(newWeb(t, serverIsModern).as(t, "web"), newWeb(t, serverIsModern).as(t, "other")))
		for _, clientIsModern := range []bool{false, true} {
			fmt.Fprintf(&out, "# %s server, %s client\n", eraName(serverIsModern), eraName(clientIsModern))
			for _, x := range serverCodes {
				var lines []string
				for _, at := range []struct{ path, prefix string }{{"/s/web/mcp", ""}, {"/mcp", "web__"}} {
					tool := at.prefix + "fail"
					params := strings.Replace(fail(x.code, x.data), `"fail"`, `"`+tool+`"`, 1)
					var a answer
					if clientIsModern {
						body := strings.Replace(modernBody("1", "tools/call", params), `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":`+caps, 1)
						a = r.post(at.path, body, modernHeader("tools/call", tool)...)
					} else {
						session := r.initialize(at.path, "2025-11-25", caps)
						a = r.post(at.path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`,
							"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25")
						r.do(t.Context(), "DELETE", at.path, nil, "Mcp-Session-Id", session)
					}
					m := a.message(t)
					data := jsonrpc.Find(m.Raw, m.Error, "data").Of(m.Raw)
					lines = append(lines, strings.TrimSpace(fmt.Sprintf("%d %d %s", a.status, errorCode(m), data)))
				}
				r.call("/mcp", "other__echo", `{"v":1}`).wantText(t, `{"v":1}`)
				line := fmt.Sprintf("%s -> %s", strings.TrimSpace(fmt.Sprintf("%d %s", x.code, x.data)), lines[0])
				if lines[1] != lines[0] {
					line += " | merged " + lines[1]
				}
				fmt.Fprintln(&out, line)
			}
		}
	}
	const file = "testdata/codes.txt"
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(out.String(), "\n"), strings.Split(string(want), "\n")
	if slices.Equal(got, wanted) {
		return
	}
	for i := range max(len(got), len(wanted)) {
		a, b := "", ""
		if i < len(got) {
			a = got[i]
		}
		if i < len(wanted) {
			b = wanted[i]
		}
		if a != b {
			t.Errorf("line %d\ngot  %s\nwant %s", i+1, a, b)
		}
	}
}
